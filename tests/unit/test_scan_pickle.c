/* Scanning pickles: which bytes are recognised as a pickle, and how the bytes after STOP and in its values
 * are scanned. */
#include <stdio.h>
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

enum { MAX_PICKLES = 65536 }; /* the maximum number of pickles in a row that are scanned */

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static const char *format_of(ckpt_str bytes)
{
    struct scan_results s = scan(bytes);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    return s.result.format ? s.result.format : "unknown";
}
#define CHECK_FORMAT(bytes, format) CU_ASSERT_STRING_EQUAL(format_of(TEXT(bytes)), format)

/* Bytes without PROTO are a pickle if they call, import a valid name, or end with STOP at the end of the
 * file. */
static void pickles_without_proto_are_recognised(void)
{
    CHECK_FORMAT("N.", "pickle");
    CHECK_FORMAT("I1\n.", "pickle");
    CHECK_FORMAT("I1\n.\n", "pickle");
    CHECK_FORMAT("I1\n.x", "text");
    CHECK_FORMAT("I1\n.more", "text");
    CHECK_FORMAT("I1\n", "text");
    CHECK_FORMAT("N", "text");
    CHECK_FORMAT("cnumpy\nmean\n.more", "pickle");
    CHECK_FORMAT("cnumpy\nmean\n", "text");
    CHECK_FORMAT("cnum py\nmean\n.more", "text");
    CHECK_FORMAT("cnumpy\nme an\n.more", "text");
    CHECK_FORMAT("cnum.py\nme_1A\n.more", "pickle");
    CHECK_FORMAT("cnum\xc3\xa9\nmean\n.more", "pickle");
    CHECK_FORMAT("cnumpy\nmean\n)R and more", "pickle");
    CHECK_FORMAT("cnum py\nmean\n)R and more", "pickle");
    CHECK_FORMAT("c\nmean\n)R and more", "text"); /* the module is empty */
    CHECK_FORMAT("c\xff\xfe\nmean\n)R.", "unknown");
    CHECK_FORMAT("cnumpy\n\xff\n)R.", "unknown");
    CHECK_FORMAT("cnumpy\n\n.more", "text");
    CHECK_FORMAT("cnumpy\nmean\n)Rc\nmean\n.", "pickle");
    CHECK_FORMAT("cos\nsystem\nc\nmean\n.", "pickle");
    CHECK_FORMAT("cnum py\nmean\nc\nmean\n.", "text");
    CHECK_FORMAT("cos\nsystem\n", "pickle");
    CHECK_FORMAT("V numpy\nVmean\n\x93.more", "unknown"); /* STACK_GLOBAL, but the name has a blank */
    CHECK_FORMAT("cx\ny\n)RVmean\n\x93.more", "pickle");  /* the name is computed */
}

static void bytes_after_stop_are_reported(void)
{
    struct scan_results s = scan(TEXT("\x80\x02N.\x80\x02N.x"));
    CHECK_ONLY_FINDING(s, "bytes-after-stop", 8, "1 byte after STOP");
    CU_ASSERT(s.result.pickles == 2 && s.result.accounted == 8);
    CHECK_ONLY_FINDING(scan(TEXT("\x80\x02N.xy")), "bytes-after-stop", 4, "2 bytes after STOP");
    CHECK_ONLY_FINDING(scan(TEXT("\x80\x02N")), "broken-pickle", 3, "the pickle ends without STOP");
}

/* A harmful pickle is found after thousands of harmless ones. The bytes after the first MAX_PICKLES pickles
 * are reported as bytes after STOP. */
static void many_pickles_in_a_row_are_scanned(void)
{
    for (size_t n = 15; n < 40000; n = n * 3 + 1) {
        buf b;
        buf_init(&b, 1 << 20);
        for (size_t i = 0; i < n; i++)
            buf_put_cstr(&b, "N.");
        buf_put_cstr(&b, "cos\nsystem\n(S'id'\ntR.");
        /* 19: the offset of REDUCE in the harmful pickle */
        CHECK_ONLY_FINDING(scan_buffer(b.data, b.len, 0), "known-exec", 2 * n + 19, "");
        buf_free(&b);
    }
    enum { SIZE = 2 * MAX_PICKLES + 8928 };
    char *pickles = malloc(SIZE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pickles);
    for (size_t i = 0; i < SIZE; i++)
        pickles[i] = "N."[i % 2];
    CHECK_ONLY_FINDING(scan_buffer(pickles, SIZE, 0), "bytes-after-stop", 2 * MAX_PICKLES,
                       "8928 bytes after STOP");
    free(pickles);
}

/* If the file ends inside a line, pickle.py drops the last byte of the line (here "X"), so INST calls
 * os.system. */
static void truncated_lines_are_read_as_pickle_py_does(void)
{
    struct scan_results s = scan(TEXT("(S'id'\niposix\nsystemX"));
    CHECK_FINDING(s, 2, "known-exec", 7, "");
    CHECK_FINDING(s, 2, "broken-pickle", 21, "the pickle ends without STOP");
    CHECK_FINDING(scan_buffer_as(TEXT("(S'id'\niposix\nsystemX"), ".txt", NULL, 0), 3, "known-exec", 7, "");
    CHECK_FINDING(scan_buffer_as(TEXT("(S'id'\niposix\nsystemX"), ".pkl", NULL, 0), 2, "known-exec", 7, "");
    CHECK_FINDING(scan(TEXT("cos\n")), 2, "known-exec", 0, ""); /* pickle.py imports os, then fails */
    CHECK_ONLY_FINDING(scan(TEXT("cos")), "pickle-not-followed", 3, "an import"); /* of the module o */
    s = scan(TEXT("\x80\x04\x95\x16\0\0\0\0\0\0\0(S'id'\niposix\nsystemX"));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* Text in a file named .pkl is reported, because a loader might run its beginning before it fails. */
static void malformed_text_named_pkl_is_reported(void)
{
    CHECK_FINDING(scan_buffer_as(TEXT("I1\np-1\n0cos\nsystem\n(S'id'\ntR."), ".pkl", NULL, 0), 2,
                  "pickle-not-followed", 3, "text that has a pickle's file name and begins like a pickle");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("I1\np-1\n0cos\nsystem\n"), ".txt", NULL, 0).findings, 0);
    CHECK_ONLY_FINDING(scan_buffer_as(TEXT("version https://git-lfs.github.com/spec/v1\n"), ".pt", NULL, 0),
                       "name-mismatch", CKPT_NO_OFFSET, "");
}

/* The text of X (BINUNICODE) reaches beyond the frame. A loader that ignores frames takes the call for a part
 * of that text; one that reads whole frames runs it. */
static void pickles_that_need_frames_are_recognised(void)
{
    struct scan_results s = scan(TEXT("\x95\7\0\0\0\0\0\0\0X\x08\0\0\0"
                                      "abPPPPPPU\x14"
                                      "cos\nsystem\n\x8c\2id\x85R.0."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* _load_from_bytes is harmless only if it is called at once, with bytes that the scanner can read. */
#define LOAD_FROM_BYTES "ctorch.storage\n_load_from_bytes\n"

static void load_from_bytes_must_be_called_at_once(void)
{
    static const ckpt_str not_called_at_once[] = {
        CONSTANT(LOAD_FROM_BYTES "."),
        CONSTANT(LOAD_FROM_BYTES "p0\n0g0\n."),
        CONSTANT("](" LOAD_FROM_BYTES "e."),
        CONSTANT("}S'a'\n" LOAD_FROM_BYTES "s."),
        CONSTANT("(S'a'\n" LOAD_FROM_BYTES "d."),
        CONSTANT(LOAD_FROM_BYTES "\x85."),
        CONSTANT("ccollections\ndefaultdict\n(" LOAD_FROM_BYTES "tR."),
        CONSTANT("(" LOAD_FROM_BYTES "icollections\nOrderedDict\n."),
        CONSTANT("ctypes\nSimpleNamespace\n)R}S'append'\n" LOAD_FROM_BYTES "sbC\x01xa."),
        CONSTANT("ccollections\nOrderedDict\n)R" LOAD_FROM_BYTES "b."),
    };
    for (size_t i = 0; i < sizeof not_called_at_once / sizeof *not_called_at_once; i++) {
        struct scan_results s = scan(not_called_at_once[i]);
        CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    }
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2" LOAD_FROM_BYTES "0N.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2" LOAD_FROM_BYTES "q\0"
                              "0N."))
                        .findings,
                    0);
}

/* BUILD, APPEND and other opcodes call methods that the state of an object can replace. */
#define NAMESPACE_OBJECT "ctypes\nSimpleNamespace\n)R"
/* Opcodes that give the object on the stack the attribute "append", a function. */
#define STATE_WITH_APPEND "}S'append'\nc_codecs\nencode\nsb"
#define ORDERED_DICT      "ccollections\nOrderedDict\n)R"

static void unusual_changes_of_objects_are_reported(void)
{
    static const ckpt_str unusual[] = {
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "S'a'\na."),
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "(S'a'\ne."),
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "(S'a'\n\x90."),
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "(e."), /* pickle.py calls extend([]) */
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "S'a'\nS'a'\ns."),
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "(S'a'\nS'a'\nu."),
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "}b."),
        CONSTANT("ctypes\nSimpleNamespace\n(S'a'\ntR}b."), /* Python 3.13 accepts a dict here */
        CONSTANT("cargparse\nNamespace\n)RNa."),
        CONSTANT(ORDERED_DICT STATE_WITH_APPEND "Na."),
        CONSTANT(ORDERED_DICT "Na."),
        CONSTANT("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nctorch\nTensor\n)}tR}b."),
        CONSTANT("ctorch\nSize\n)RNNs."),
    };
    static const ckpt_str usual[] = {
        CONSTANT(NAMESPACE_OBJECT STATE_WITH_APPEND "."),
        CONSTANT(ORDERED_DICT "NNs(NNNNu" STATE_WITH_APPEND "."),
        CONSTANT("ccollections\ndeque\n)RNa(NNe."),
        CONSTANT("c__builtin__\nset\n)R(NN\x90."),
        CONSTANT("c__builtin__\nlist\n)R(NNeNaNNs(NNu."),
    };
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++) {
        struct scan_results s = scan(unusual[i]);
        if (s.findings != 1 || strcmp(s.first_finding.rule, "unresolved-callable") != 0)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "unresolved-callable") == 0);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        CU_ASSERT_EQUAL(scan(usual[i]).findings, 0);
}

static void persistent_ids_that_are_text_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT("\x80\2X\1\0\0\0aQ.")), "persistent-id", 8, "");
    CHECK_ONLY_FINDING(scan(TEXT("Pa\n.")), "persistent-id", 0, "");
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2X\2\0\0\0"
                              "12Q."))
                        .findings,
                    0); /* as torch 0.1 writes it */
    CU_ASSERT_EQUAL(scan(TEXT("P12\n.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("P('storage', <class 'torch.FloatStorage'>, '0', 'cpu', 60)\n.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2K\1Q.")).findings, 0);
}

static void numpy_types_and_torchversion_are_harmless(void)
{
    CU_ASSERT_EQUAL(scan(TEXT("ctorch.torch_version\nTorchVersion\n(S'2.1'\nt\x81.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("(cnumpy\nfloat64\ncnumpy\nint32\ncnumpy\nbool_\nt.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("cnumpy\nobject_\n.")).findings, 1); /* not harmless */
}

/* FSDP2 saves DTensors. Some of their classes do more if they are called with arguments: a DeviceMesh joins
 * process groups. */
static void classes_of_dtensors_are_made_without_arguments(void)
{
    static const char *const made[] = {
        "ctorch.distributed.device_mesh\nDeviceMesh\n",
        "ctorch.distributed._mesh_layout\n_MeshLayout\n",
        "ctorch.distributed._mesh_layout\n_FlatLayout\n",
        "ctorch.distributed.tensor._dtensor_spec\nDTensorSpec\n",
        "ctorch.distributed.tensor.placement_types\nShard\n",
        "ctorch.distributed.tensor.placement_types\n_StridedShard\n",
        "ctorch.distributed.tensor.placement_types\nReplicate\n",
        "ctorch.distributed.tensor.placement_types\nPartial\n",
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char bytes[128];
        int n = snprintf(bytes, sizeof bytes, "\x80\2%s)\x81}b.", made[i]);
        CU_ASSERT_EQUAL(scan(str_of(bytes, (size_t)n)).findings, 0);
        n = snprintf(bytes, sizeof bytes, "\x80\2%sN\x85R.", made[i]);
        struct scan_results s = scan(str_of(bytes, (size_t)n));
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "unusual-arguments") == 0);
    }
    CU_ASSERT_EQUAL(
        scan(TEXT("\x80\2ctorch.distributed.tensor._dtensor_spec\nShardOrderEntry\nK\0K\0\x86\x81."))
            .findings,
        0);
    CU_ASSERT_EQUAL(
        scan(TEXT("\x80\2ctorch.distributed.tensor._dtensor_spec\nTensorMeta\nNNN\x87\x81.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2ctorch.distributed.tensor\nDTensor\n.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2ctorch.distributed.tensor\nDTensor\n)R.")).findings, 1);
}

/* A key that a loader acts on must not be spelled in a way that no search for it finds. */
static void texts_and_keys_that_are_computed_are_unusual(void)
{
#define ARRAY "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    static const char *const unusual[] = {
        "cbuiltins\nstr\n(C\4abcdS'utf-16'\ntR.",
        "cbuiltins\nstr\n(S'a'\ntR.",
        "cbuiltins\nstr\n(S'a'\nt\x81.",
        "c__builtin__\nunicode\n(S'a'\ntR.",
        "ctorch.jit._pickle\nrestore_type_tag\n(S'a'\nS'str'\ntR.",
        "cbuiltins\ndict\n(" ARRAY "tR.",
        "ccollections\nOrderedDict\n(" ARRAY "tR.",
        "ccollections\ndefaultdict\n(N" ARRAY "tR.",
        "cbuiltins\nlist\n(" ARRAY "tR.",
        "ccollections\ndeque\n(" ARRAY "tR.",
        "cbuiltins\ndict\n((l" ARRAY "atR.",
        "cbuiltins\ndict\n((" ARRAY "ttR.",
        "cbuiltins\ndict\n(](}(S'a'\nNS'b'\nNuetR.",
    };
    static const char *const usual[] = {
        "cbuiltins\nstr\n.",
        "ctorch.jit._pickle\nrestore_type_tag\n(]S'List[int]'\ntR.",
        "ccollections\nOrderedDict\n((l(lS'a'\na" ARRAY "aatR.",
        "cbuiltins\nlist\n((l" ARRAY "atR.",
    };
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++) {
        struct scan_results s = scan(str_c(unusual[i]));
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "unusual-arguments") == 0);
        if (s.findings != 1)
            printf("    %s: %zu\n", unusual[i], s.findings);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct scan_results s = scan(str_c(usual[i]));
        CU_ASSERT_EQUAL(s.findings, 0);
        if (s.findings)
            printf("    %s: %s\n", usual[i], s.first_finding.text);
    }
}

/* There is one pickle more than are scanned. */
static void too_many_pickles_are_reported(void)
{
    size_t n = 4 * (MAX_PICKLES + 1);
    char *pickles = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pickles);
    for (size_t i = 0; i < n; i++)
        pickles[i] = "\x80\x02N."[i % 4];
    CHECK_ONLY_FINDING(scan(str_of(pickles, n)), "bytes-after-stop", n - 4, "4 bytes after STOP");
    free(pickles);
}

#define BYTES_OBJECT(n, bytes)                                                                               \
    "\x80\x03"                                                                                               \
    "C" n bytes "."

static void pickles_in_bytes_objects_are_scanned(void)
{
    struct scan_results s = scan(TEXT(BYTES_OBJECT("\x14", CALL_OS_SYSTEM)));
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.first_finding.where, "value@0x4");
    CHECK_ONLY_FINDING(scan(TEXT(BYTES_OBJECT("\x18", "gASVnnnnnnnnnnnnnnnnnnnn"))), "embedded-file", 4,
                       "in base64 or hexadecimal");
    CHECK_ONLY_FINDING(scan(TEXT(BYTES_OBJECT("\x18", "8004nnnnnnnnnnnnnnnnnnnn"))), "embedded-file", 4,
                       "in base64 or hexadecimal");
    /* too short for a pickle */
    CU_ASSERT_EQUAL(scan(TEXT(BYTES_OBJECT("\x0f", "8004nnnnnnnnnnn"))).findings, 0);
    ckpt_scan_options one_level = {.struct_size = sizeof one_level, .max_depth = 1};
    CHECK_ONLY_FINDING(
        scan_buffer_as(TEXT(BYTES_OBJECT("\x19", BYTES_OBJECT("\x14", CALL_OS_SYSTEM))), NULL, &one_level, 0),
        "not-opened", 4, "is nested too deep to be opened");
}

/* Protocols before 3 store bytes as text of characters up to U+00FF. */
static void bytes_stored_as_text_are_scanned(void)
{
    struct scan_results s = scan(TEXT("\x80\x02X\x16\0\0\0\xc2\x80\x02"
                                      "cos\nsystem\nU\x02id\xc2\x85R.."));
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    /* Three texts that are not UTF-8. */
    CU_ASSERT_EQUAL(scan(TEXT("\x80\x02X\x15\0\0\0\xc2\x80\x02N.nnnnnnnnnnnnnnn\xc3.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\x02X\x15\0\0\0\xc2\x80\x02N.nnnnnnnnnnnnnn\xe2\x82.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\x02X\x15\0\0\0\xc2\x80\x02N.nnnnnnnnnnnnnn\x80\x80.")).findings, 0);
    size_t n = 300000;
    unsigned char *large = malloc(n + 8);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, 'N', n + 8);
    memcpy(large,
           "\x80\x02X\xe0\x93\x04\0\xc2\x80\x02"
           "cos\nsystem\nU\x02id\xc2\x85R.",
           29);
    large[7 + n] = '.';
    s = scan_buffer(large, n + 8, 0);
    /* the pickle in the text has 20 bytes, which take 22 bytes of UTF-8 */
    CHECK_FINDING(s, 2, "bytes-after-stop", 20, "299978 bytes after STOP");
    free(large);
}

/* A file in torch's legacy format is five pickles, then the storages. The second pickle is the version,
 * 1001. */
#define LEGACY_MAGIC "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

static void truncated_legacy_files_are_reported(void)
{
    struct scan_results s = scan(TEXT(LEGACY_MAGIC "\x80\x02M\xe9\x03.\x80\x02}."));
    CU_ASSERT(s.status == CKPT_OK && s.result.pickles == 3 && strcmp(s.result.format, "torch-legacy") == 0);
    CHECK_ONLY_FINDING(s, "malformed", 25, ""); /* at the end, after three pickles */
    s = scan(TEXT(LEGACY_MAGIC "\x80\x02M\xe9\x03.\x80\x02}]]"));
    CHECK_ONLY_FINDING(s, "broken-pickle", 26, "the pickle ends without STOP");
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "a", '0', TEXT(LEGACY_MAGIC "\x80\x02M\xe9\x03.\x80\x02}."));
    CU_ASSERT_STRING_EQUAL(format_of(str_of((const char *)b.data, b.len)), "tar");
    buf_free(&b);
}

static void suffixes_that_do_not_match_the_content_are_reported(void)
{
    struct scan_results s = scan_buffer_as(TEXT(CALL_OS_SYSTEM), ".SafeTensors", NULL, 0);
    CHECK_FINDING(s, 2, "hidden-pickle", CKPT_NO_OFFSET,
                  "the name ends in .safetensors, the content is pickle");
    CHECK_FINDING(scan_buffer_as(TEXT(CALL_OS_SYSTEM), ".7z", NULL, 0), 2, "name-mismatch", CKPT_NO_OFFSET,
                  "in .7z, the content is pickle");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT(CALL_OS_SYSTEM), ".pkl", NULL, 0).findings, 1);
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".txt", NULL, 0).findings, 0);
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".text", NULL, 0).findings, 0);
    CHECK_ONLY_FINDING(scan_buffer_as(TEXT("text"), ".gguf", NULL, 0), "name-mismatch", CKPT_NO_OFFSET,
                       "the content is text");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".gguf", NULL, 1).status, CKPT_ECANCELLED);
}

/* The size of the header is 0x542. Read as opcodes, it is BINBYTES with 5 bytes; GLOBAL is at 10, REDUCE at
 * 26. */
static void malformed_safetensors_are_scanned_as_a_pickle(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_put(&b, "B\x05\0\0\0\0\0\0{ncos\nsystem\nU\x02id\x85R.", 28);
    for (int i = 0; i < 2000; i++)
        buf_byte(&b, ' ');
    struct scan_results s = scan(str_of((const char *)b.data, b.len));
    CHECK_FINDING(s, 5, "known-exec", 26, "");
    b.data[10] = 'x';
    s = scan(str_of((const char *)b.data, b.len));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 1 && strcmp(s.first_finding.rule, "malformed") == 0);
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    buf_free(&b);
}

/* The names of nested members may be too long for the location of a finding. */
static void long_locations_are_truncated(void)
{
    buf inner, outer;
    ckpt_scan_options with_sha256 = {.struct_size = sizeof with_sha256, .sha256 = true};
    char name[6001];
    memset(name, 'n', 6000);
    buf_init(&inner, 1 << 20);
    buf_init(&outer, 1 << 20);
    tar_member(&inner, "././@LongLink", 'L', str_of(name, 6000));
    tar_member(&inner, "x", '0', TEXT(CALL_OS_SYSTEM));
    tar_member(&outer, "././@LongLink", 'L', str_of(name, 6000));
    tar_member(&outer, "y", '0', str_of((const char *)inner.data, inner.len));
    struct scan_results s = scan_buffer_as(str_of((const char *)outer.data, outer.len), NULL, &with_sha256,
                                           0);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.members == 2);
    CU_ASSERT_EQUAL(ckpt_scan("/no such file", NULL, NULL, NULL, &s.result, NULL), CKPT_ENOTFOUND);
    buf_free(&inner);
    buf_free(&outer);
}

/* The report of a call shows what it calls and its arguments. Both may be nested thousands of levels deep, as
 * calls of what a call returned, or as persistent ids of persistent ids. */
static void deeply_nested_calls_are_reported(void)
{
    enum { LEVELS = 300000 };
    static const struct {
        const char *start, *level, *end;
    } nested[] = {
        {"cos\nsystem\n", ")R", "\x85R."},                       /* os.system()()() … as argument */
        {"K\x01", "Q", "\x85R."},                                /* a persistent id as argument */
        {"0cos\nsystem\n", ")R", "0cos\nsystem\nU\x02id\x85R."}, /* the callable is nested */
    };
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
        buf b;
        buf_init(&b, 1 << 20);
        buf_put_cstr(&b, "\x80\x02"
                         "cos\nsystem\n");
        buf_put_cstr(&b, nested[i].start);
        for (size_t level = 0; level < LEVELS; level++)
            buf_put_cstr(&b, nested[i].level);
        buf_put_cstr(&b, nested[i].end);
        struct scan_results s = scan_buffer(b.data, b.len, 0);
        CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
        buf_free(&b);
    }
}

void suite_scan_pickle(void)
{
    UNIT(pickles_without_proto_are_recognised);
    UNIT(bytes_after_stop_are_reported);
    UNIT(classes_of_dtensors_are_made_without_arguments);
    UNIT(texts_and_keys_that_are_computed_are_unusual);
    UNIT(too_many_pickles_are_reported);
    UNIT(many_pickles_in_a_row_are_scanned);
    UNIT(truncated_lines_are_read_as_pickle_py_does);
    UNIT(malformed_text_named_pkl_is_reported);
    UNIT(pickles_that_need_frames_are_recognised);
    UNIT(load_from_bytes_must_be_called_at_once);
    UNIT(unusual_changes_of_objects_are_reported);
    UNIT(persistent_ids_that_are_text_are_reported);
    UNIT(numpy_types_and_torchversion_are_harmless);
    UNIT(pickles_in_bytes_objects_are_scanned);
    UNIT(bytes_stored_as_text_are_scanned);
    UNIT(truncated_legacy_files_are_reported);
    UNIT(suffixes_that_do_not_match_the_content_are_reported);
    UNIT(malformed_safetensors_are_scanned_as_a_pickle);
    UNIT(long_locations_are_truncated);
    UNIT(deeply_nested_calls_are_reported);
}
