/* Pickles under scan: what is taken for one, what follows it, what lies in its values. */
#include <stdio.h>
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

static struct scanned scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static const char *format_of(ckpt_str bytes)
{
    struct scanned s = scan(bytes);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    return s.result.format ? s.result.format : "unknown";
}
#define IS(bytes, format) CU_ASSERT_STRING_EQUAL(format_of(TEXT(bytes)), format)

/* Without protocol 2 to 5 before it, a pickle calls, imports a name that may be one, or ends the file. */
static void text_that_runs_is_a_pickle(void)
{
    IS("N.", "pickle");
    IS("I1\n.", "pickle");
    IS("I1\n.\n", "pickle");
    IS("I1\n.x", "text");
    IS("I1\n.more", "text");
    IS("I1\n", "text");
    IS("N", "text");
    IS("cnumpy\nmean\n.more", "pickle");
    IS("cnumpy\nmean\n", "text");
    IS("cnum py\nmean\n.more", "text");
    IS("cnumpy\nme an\n.more", "text");
    IS("cnum.py\nme_1A\n.more", "pickle");
    IS("cnum\xc3\xa9\nmean\n.more", "pickle");
    IS("cnumpy\nmean\n)R and more", "pickle");
    IS("cnum py\nmean\n)R and more", "pickle");
    IS("c\nmean\n)R and more", "text"); /* no Python has such names */
    IS("c\xff\xfe\nmean\n)R.", "unknown");
    IS("cnumpy\n\xff\n)R.", "unknown");
    IS("cnumpy\n\n.more", "text");
    IS("cnumpy\nmean\n)Rc\nmean\n.", "pickle");
    IS("cos\nsystem\nc\nmean\n.", "pickle");
    IS("cnum py\nmean\nc\nmean\n.", "text");
    IS("cos\nsystem\n", "pickle");
    IS("V numpy\nVmean\n\x93.more", "unknown"); /* by STACK_GLOBAL, a blank in it */
    IS("cx\ny\n)RVmean\n\x93.more", "pickle");  /* a name that is computed */
}

static void bytes_behind_are_told(void)
{
    struct scanned s = scan(TEXT("\x80\x02N.\x80\x02N.x"));
    FINDING(s, 1, "PKL010", 8, "1 byte after STOP");
    CU_ASSERT(s.result.pickles == 2 && s.result.accounted == 8);
    FINDING(scan(TEXT("\x80\x02N.xy")), 1, "PKL010", 4, "2 bytes after STOP");
    FINDING(scan(TEXT("\x80\x02N")), 1, "PKL006", 3, "the pickle ends without STOP");
}

/* However many do nothing, the next one is followed; of more than are, what comes last counts as one. */
static void the_last_of_many_is_followed(void)
{
    for (size_t n = 15; n < 40000; n = n * 3 + 1) {
        buf b;
        buf_init(&b, 1 << 20);
        for (size_t i = 0; i < n; i++)
            buf_text(&b, "N.");
        buf_text(&b, "cos\nsystem\n(S'id'\ntR.");
        FINDING(scan_buffer(b.data, b.len, 0), 1, "PKL002", 2 * n + 19, "");
        buf_free(&b);
    }
    char *row = malloc(140000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    for (size_t i = 0; i < 140000; i++)
        row[i] = "N."[i % 2];
    FINDING(scan_buffer(row, 140000, 0), 1, "PKL010", 131072, "8928 bytes after STOP");
    free(row);
}

/* pickle.py takes a line that the end of the file cuts, and drops its last byte; INST calls then. */
static void a_line_cut_by_the_end_is_a_line(void)
{
    struct scanned s = scan(TEXT("(S'id'\niposix\nsystemX"));
    FINDING(s, 2, "PKL002", 7, "");
    FINDING(s, 2, "PKL006", 21, "the pickle ends without STOP");
    FINDING(scan_buffer_as(TEXT("(S'id'\niposix\nsystemX"), ".txt", NULL, 0), 3, "PKL002", 7, "");
    FINDING(scan_buffer_as(TEXT("(S'id'\niposix\nsystemX"), ".pkl", NULL, 0), 2, "PKL002", 7, "");
    FINDING(scan(TEXT("cos\n")), 2, "PKL002", 0, ""); /* pickle.py imports it, and then finds no name in it */
    CU_ASSERT_EQUAL(scan(TEXT("cos")).findings, 0);
    s = scan(TEXT("\x80\x04\x95\x16\0\0\0\0\0\0\0(S'id'\niposix\nsystemX"));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* Text that is called as pickles are: where following it fails, nothing is said of what a loader does. */
static void text_that_fails_as_a_pickle_is_not_clean(void)
{
    FINDING(scan_buffer_as(TEXT("I1\np-1\n0cos\nsystem\n(S'id'\ntR."), ".pkl", NULL, 0), 2, "PKL013", 3,
            "text that has a pickle's file name and begins like a pickle");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("I1\np-1\n0cos\nsystem\n"), ".txt", NULL, 0).findings, 0);
    FINDING(scan_buffer_as(TEXT("version https://git-lfs.github.com/spec/v1\n"), ".pt", NULL, 0), 1, "FMT006",
            CKPT_NO_OFFSET, "");
}

/* A pickle without a protocol that only a loader by frames gets through. */
static void what_runs_by_frames_alone_is_a_pickle(void)
{
    struct scanned s = scan(TEXT("\x95\7\0\0\0\0\0\0\0X\x08\0\0\0"
                                 "abPPPPPPU\x14"
                                 "cos\nsystem\n\x8c\2id\x85R.0."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* What loads bytes is harmless only where it is called there and then, with bytes that are followed. */
#define LOADS "ctorch.storage\n_load_from_bytes\n"

static void what_loads_bytes_is_not_kept(void)
{
    static const ckpt_str kept[] = {
#define KEPT(bytes) {bytes, sizeof(bytes) - 1}
        KEPT(LOADS "."),
        KEPT(LOADS "p0\n0g0\n."),
        KEPT("](" LOADS "e."),
        KEPT("}S'a'\n" LOADS "s."),
        KEPT("(S'a'\n" LOADS "d."),
        KEPT(LOADS "\x85."),
        KEPT("ccollections\ndefaultdict\n(" LOADS "tR."),
        KEPT("(" LOADS "icollections\nOrderedDict\n."),
        KEPT("ctypes\nSimpleNamespace\n)R}S'append'\n" LOADS "sbC\x01xa."),
        KEPT("ccollections\nOrderedDict\n)R" LOADS "b."),
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct scanned s = scan(kept[i]);
        CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    }
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2" LOADS "0N.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2" LOADS "q\0000N.")).findings, 0);
}

/* BUILD, APPEND and their like call what an object's state holds; picklers do each only where it is natural.
 * */
#define SPACE "ctypes\nSimpleNamespace\n)R"
#define STATE "}S'append'\nc_codecs\nencode\nsb"
#define ODD   "ccollections\nOrderedDict\n)R"

static void objects_are_filled_as_picklers_do(void)
{
    static const ckpt_str odd[] = {
        KEPT(SPACE STATE "S'a'\na."),
        KEPT(SPACE STATE "(S'a'\ne."),
        KEPT(SPACE STATE "(S'a'\n\x90."),
        KEPT(SPACE STATE "(e."), /* pickle.py calls extend([]) */
        KEPT(SPACE STATE "S'a'\nS'a'\ns."),
        KEPT(SPACE STATE "(S'a'\nS'a'\nu."),
        KEPT(SPACE STATE "}b."),
        KEPT("ctypes\nSimpleNamespace\n(S'a'\ntR}b."), /* since Python 3.13 its argument may be a dict */
        KEPT("cargparse\nNamespace\n)RNa."),
        KEPT(ODD STATE "Na."),
        KEPT(ODD "Na."),
        KEPT("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nctorch\nTensor\n)}tR}b."),
        KEPT("ctorch\nSize\n)RNNs."),
    };
    static const ckpt_str usual[] = {
        KEPT(SPACE STATE "."),
        KEPT(ODD "NNs(NNNNu" STATE "."),
        KEPT("ccollections\ndeque\n)RNa(NNe."),
        KEPT("c__builtin__\nset\n)R(NN\x90."),
        KEPT("c__builtin__\nlist\n)R(NNeNaNNs(NNu."),
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct scanned s = scan(odd[i]);
        if (s.findings != 1 || strcmp(s.first.id, "PKL003") != 0)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
        CU_ASSERT(s.findings == 1 && strcmp(s.first.id, "PKL003") == 0);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        CU_ASSERT_EQUAL(scan(usual[i]).findings, 0);
}

static void persistent_ids_that_are_texts_are_told(void)
{
    FINDING(scan(TEXT("\x80\2X\1\0\0\0aQ.")), 1, "PKL012", 8, "");
    FINDING(scan(TEXT("Pa\n.")), 1, "PKL012", 0, "");
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2X\2\0\0\00012Q.")).findings, 0); /* torch 0.1 */
    CU_ASSERT_EQUAL(scan(TEXT("P12\n.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("P('storage', <class 'torch.FloatStorage'>, '0', 'cpu', 60)\n.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("\x80\2K\1Q.")).findings, 0);
}

static void plain_types_are_harmless(void)
{
    CU_ASSERT_EQUAL(scan(TEXT("ctorch.torch_version\nTorchVersion\n(S'2.1'\nt\x81.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("(cnumpy\nfloat64\ncnumpy\nint32\ncnumpy\nbool_\nt.")).findings, 0);
    CU_ASSERT_EQUAL(scan(TEXT("cnumpy\nobject_\n.")).findings, 1);
}

/* More pickles than are followed: what comes behind them is not called clean. */
static void rows_without_end_are_told(void)
{
    size_t n = 4 * 65537;
    char *row = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    for (size_t i = 0; i < n; i++)
        row[i] = "\x80\x02N."[i % 4];
    FINDING(scan(str_of(row, n)), 1, "PKL010", n - 4, "4 bytes after STOP");
    free(row);
}

#define VALUE(n, bytes)                                                                                      \
    "\x80\x03"                                                                                               \
    "C" n bytes "."

static void values_are_looked_into(void)
{
    struct scanned s = scan(TEXT(VALUE("\x14", CALL)));
    FINDING(s, 1, "PKL002", 18, "");
    CU_ASSERT_STRING_EQUAL(s.first.where, "value@0x4");
    FINDING(scan(TEXT(VALUE("\x18", "gASVnnnnnnnnnnnnnnnnnnnn"))), 1, "PKL011", 4,
            "in base64 or hexadecimal");
    FINDING(scan(TEXT(VALUE("\x18", "8004nnnnnnnnnnnnnnnnnnnn"))), 1, "PKL011", 4,
            "in base64 or hexadecimal");
    CU_ASSERT_EQUAL(scan(TEXT(VALUE("\x0f", "8004nnnnnnnnnnn"))).findings, 0); /* too short to be one */
    ckpt_scan_options flat = {.struct_size = sizeof flat, .max_depth = 1};
    FINDING(scan_buffer_as(TEXT(VALUE("\x19", VALUE("\x14", CALL))), NULL, &flat, 0), 1, "ARC002", 4,
            "is nested too deep to be opened");
}

/* Bytes as protocols before 3 keep them: as text, each a letter up to U+00FF. */
static void bytes_kept_as_text_are_looked_into(void)
{
    struct scanned s = scan(TEXT("\x80\x02X\x16\0\0\0\xc2\x80\x02"
                                 "cos\nsystem\nU\x02id\xc2\x85R.."));
    FINDING(s, 1, "PKL002", 18, "");
    CU_ASSERT_EQUAL(scan(TEXT("\x80\x02X\x15\0\0\0\xc2\x80\x02N.nnnnnnnnnnnnnnn\xc3.")).findings,
                    0); /* no letter */
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
    FINDING(s, 2, "PKL010", 20, "299978 bytes after STOP");
    free(large);
}

/* Five pickles, then the storages: a file that ends before is told by who reads it. */
#define MAGIC "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

static void legacy_files_may_end_early(void)
{
    struct scanned s = scan(TEXT(MAGIC "\x80\x02M\xe9\x03.\x80\x02}."));
    CU_ASSERT(s.status == CKPT_OK && s.result.pickles == 3 && strcmp(s.result.format, "torch-legacy") == 0);
    FINDING(s, 1, "FMT002", 25, "");
    s = scan(TEXT(MAGIC "\x80\x02M\xe9\x03.\x80\x02}]]"));
    FINDING(s, 1, "PKL006", 26, "the pickle ends without STOP");
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "a", "", '0', "00000000031", TEXT(MAGIC "\x80\x02M\xe9\x03.\x80\x02}."));
    CU_ASSERT_STRING_EQUAL(format_of(str_of((const char *)b.data, b.len)), "tar");
    buf_free(&b);
}

/* The name of the file and its content: a suffix that promises data alone hides what runs. */
static void names_promise_what_they_hold(void)
{
    struct scanned s = scan_buffer_as(TEXT(CALL), ".SafeTensors", NULL, 0);
    FINDING(s, 2, "FMT005", CKPT_NO_OFFSET, "the name ends in .safetensors, the content is pickle");
    FINDING(scan_buffer_as(TEXT(CALL), ".7z", NULL, 0), 2, "FMT006", CKPT_NO_OFFSET,
            "in .7z, the content is pickle");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT(CALL), ".pkl", NULL, 0).findings, 1);
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".txt", NULL, 0).findings, 0);
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".text", NULL, 0).findings, 0);
    FINDING(scan_buffer_as(TEXT("text"), ".gguf", NULL, 0), 1, "FMT006", CKPT_NO_OFFSET,
            "the content is text");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("text"), ".gguf", NULL, 1).status, CKPT_ECANCELLED);
}

/* A header of safetensors that is none may run as a pickle: BINBYTES of 5 bytes, of which three are zeros. */
static void what_safetensors_is_not_is_followed(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_put(&b, "B\x05\0\0\0\0\0\0{ncos\nsystem\nU\x02id\x85R.", 28);
    for (int i = 0; i < 2000; i++)
        buf_byte(&b, ' ');
    struct scanned s = scan(str_of((const char *)b.data, b.len));
    FINDING(s, 5, "PKL002", 26, "");
    b.data[10] = 'x';
    s = scan(str_of((const char *)b.data, b.len));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 1 && strcmp(s.first.id, "FMT002") == 0);
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    buf_free(&b);
}

/* Names of members so long that only their beginnings are told of where something lies. */
static void long_places_are_cut(void)
{
    buf inner, outer;
    ckpt_scan_options sums = {.struct_size = sizeof sums, .sha256 = true};
    char name[6001];
    memset(name, 'n', 6000);
    buf_init(&inner, 1 << 20);
    buf_init(&outer, 1 << 20);
    tar_put(&inner, "././@LongLink", "", 'L', "00000013560", str_of(name, 6000));
    tar_put(&inner, "x", "", '0', "00000000024", TEXT(CALL));
    tar_put(&outer, "././@LongLink", "", 'L', "00000013560", str_of(name, 6000));
    char size[13];
    snprintf(size, sizeof size, "%011zo", inner.len);
    tar_put(&outer, "y", "", '0', size, str_of((const char *)inner.data, inner.len));
    struct scanned s = scan_buffer_as(str_of((const char *)outer.data, outer.len), NULL, &sums, 0);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.members == 2);
    CU_ASSERT_EQUAL(ckpt_scan("/no such file", NULL, NULL, NULL, &s.result, NULL), CKPT_ENOTFOUND);
    buf_free(&inner);
    buf_free(&outer);
}

void suite_scan_pickle(void)
{
    UNIT(text_that_runs_is_a_pickle);
    UNIT(bytes_behind_are_told);
    UNIT(rows_without_end_are_told);
    UNIT(the_last_of_many_is_followed);
    UNIT(a_line_cut_by_the_end_is_a_line);
    UNIT(text_that_fails_as_a_pickle_is_not_clean);
    UNIT(what_runs_by_frames_alone_is_a_pickle);
    UNIT(what_loads_bytes_is_not_kept);
    UNIT(objects_are_filled_as_picklers_do);
    UNIT(persistent_ids_that_are_texts_are_told);
    UNIT(plain_types_are_harmless);
    UNIT(values_are_looked_into);
    UNIT(bytes_kept_as_text_are_looked_into);
    UNIT(legacy_files_may_end_early);
    UNIT(names_promise_what_they_hold);
    UNIT(what_safetensors_is_not_is_followed);
    UNIT(long_places_are_cut);
}
