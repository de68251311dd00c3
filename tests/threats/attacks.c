/* attacks.c - attacks DIR: writes files that make a loader call functions, each by one technique, and
 * harmless files that look similar. Prints a line TECHNIQUE NAME EXIT RULE LOADER for each file: EXIT is the
 * exit status of `ckpt scan` for it, RULE the finding that scan must report ("-": none). LOADER is "pickle"
 * if oracle.py reads all pickles of the file, else "-". No test calls any of these functions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls of os.system in protocols 0, 1 and 2; a function that loads a pickle; an object whose state may be
 * any. */
#define CALL   "cos\nsystem\n(S'id'\ntR."
#define CALL_1 "cos\nsystem\n(U\x02idtR."
#define CALL_2 "\x80\x02" CALL_1
#define LOADS  "ctorch.storage\n_load_from_bytes\n"
#define SPACE  "ctypes\nSimpleNamespace\n)R"
#define MAGIC  "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." /* of torch.save before 1.6 */

struct attack {
    const char *technique, *name, *rule, *loader;
    int code;
    const char *bytes;
    size_t n;
};

#define FILE_OF(technique, name, code, rule, loader, bytes)                                                  \
    {                                                                                                        \
        technique, name, rule, loader, code, bytes, sizeof(bytes) - 1                                        \
    }
#define ATTACK(technique, name, rule, bytes) FILE_OF(technique, name, 1, rule, "pickle", bytes)
#define HARMLESS(name, bytes)                FILE_OF("control", name, 0, "-", "pickle", bytes)

/* numpy.dtype(NAME, False, True), of which LENGTH is the length of NAME; BUILD sets its STATE */
#define DTYPE(length, name, state)  "cnumpy\ndtype\n(U" length name "\x89\x88tR(" state "tb"
#define STATE(version, size, flags) "K" version "U\x01|NNNJ" size "\0\0\0J\x01\0\0\0K" flags
#define ARRAY(dtype, data)                                                                                   \
    "\x80\x02"                                                                                               \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01"                                   \
    "btR(K\x01K\x01\x85" dtype "\x89" data "tb."
#define EIGHT                                                                                                \
    "U\x08"                                                                                                  \
    "AAAAAAAA"

static const struct attack attacks[] = {
    /* objects that hold torch.storage._load_from_bytes, for the program to call */
    ATTACK("held-loader", "held_result.pkl", "PKL002", LOADS "."),
    ATTACK("held-loader", "held_list.pkl", "PKL002", "](" LOADS "e."),
    ATTACK("held-loader", "held_dict.pkl", "PKL002", "}(S'f'\n" LOADS "u."),
    ATTACK("held-loader", "held_tuple.pkl", "PKL002", "(" LOADS "t."),
    ATTACK("held-loader", "held_factory.pkl", "PKL002", "ccollections\ndefaultdict\n(" LOADS "tR."),
    ATTACK("held-loader", "held_append.pkl", "PKL002", SPACE "}S'append'\n" LOADS "sbC\x17" CALL_2 "a."),
    ATTACK("held-loader", "held_extend.pkl", "PKL002", SPACE "}S'extend'\n" LOADS "sb(C\x17" CALL_2 "e."),
    ATTACK("held-loader", "held_add.pkl", "PKL002", SPACE "}S'add'\n" LOADS "sb(C\x17" CALL_2 "\x90."),
    ATTACK("held-loader", "held_setstate.pkl", "PKL002",
           SPACE "}S'__setstate__'\n" LOADS "sbC\x17" CALL_2 "b."),
    ATTACK("held-loader", "held_memo.pkl", "PKL002", LOADS "p7\n0](g7\ne."),
    ATTACK("held-loader", "held_bytes.pkl", "PKL002", LOADS "(C\x17" CALL_2 "tR."),

    /* opcodes that call a function in an object's state, as `append` */
    ATTACK("state-called", "state_append.pkl", "PKL003", SPACE "}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_appends.pkl", "PKL003", SPACE "}S'extend'\nc_codecs\nencode\nsb(S'a'\ne."),
    ATTACK("state-called", "state_empty.pkl", "PKL003", SPACE "}S'extend'\nc_codecs\nencode\nsb(e."),
    ATTACK("state-called", "state_additems.pkl", "PKL003", SPACE "}S'add'\nc_codecs\nencode\nsb(S'a'\n\x90."),
    ATTACK("state-called", "state_build.pkl", "PKL003", SPACE "}S'__setstate__'\nc_codecs\nencode\nsb}b."),
    ATTACK("state-called", "state_ordered.pkl", "PKL003",
           "ccollections\nOrderedDict\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_namespace.pkl", "PKL003",
           "cargparse\nNamespace\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_argument.pkl", "PKL003",
           "ctypes\nSimpleNamespace\n(}S'__setstate__'\nc_codecs\nencode\nstR}b."),

    /* a line that is cut off by the end of the file */
    ATTACK("cut-line", "cut_inst", "PKL002", "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.txt", "PKL002", "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.pkl", "PKL002", "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.json", "PKL002", "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_global", "PKL002", "cos\nsystemX"),
    ATTACK("cut-line", "cut_module", "PKL002", "cantigravity\n"),

    /* memo indices that a parser of 64-bit numbers may misread */
    ATTACK("memo-number", "memo_2_64.pkl", "PKL002",
           "cos\nsystem\np18446744073709551616\n0g18446744073709551616\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_2_64_two.pkl", "PKL002",
           "cos\nsystem\np18446744073709551616\n0ccollections\nOrderedDict\np18446744073709551617\n"
           "0g18446744073709551616\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_signs.pkl", "PKL002", "cos\nsystem\np +1_0 \n0g10\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_text.txt", "PKL002", "I1\np99999999999999999999999\n0" CALL),
    ATTACK("memo-replaced", "memo_replaced.pkl", "PKL002",
           "ccollections\nOrderedDict\np0\n0cos\nsystem\np0\n0g0\n(S'id'\ntR."),

    /* pickles in bytes, of protocols 0 and 1, which have no PROTO opcode, as arguments of loaders */
    ATTACK("old-payload", "payload_p0.pkl", "PKL002",
           "\x80\x03"
           "C\x15" CALL "."),
    ATTACK("old-payload", "payload_p1.pkl", "PKL002",
           "\x80\x03"
           "C\x13" CALL_1 "."),
    ATTACK("old-payload", "payload_text.pkl", "PKL002", "\x80\x02X\x13\0\0\0" CALL_1 "."),
    ATTACK("old-payload", "payload_unicode_line.pkl", "PKL002",
           "Vcos\\u000asystem\\u000a(S'id'\\u000atR.\n."),
    ATTACK("old-payload", "payload_string_line.pkl", "PKL002", "S'cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    ATTACK("old-payload", "payload_octal_line.pkl", "PKL002",
           "S'\\200\\002cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    ATTACK("old-payload", "payload_in_stream.pkl", "PKL002", "\x80\x03" LOADS "C\x24" MAGIC CALL_2 "\x85R."),

    /* dtypes that contradict their flags, or hide objects in fields */
    ATTACK("numpy-flags", "numpy_object_flags.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\0")), EIGHT)),
    ATTACK("numpy-flags", "numpy_object_partly.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x01")), EIGHT)),
    ATTACK("numpy-flags", "numpy_object_bytes.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")), EIGHT)),
    ATTACK("numpy-flags", "numpy_number_flags.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "f8", STATE("\x03", "\x08", "\x3f")), EIGHT)),
    ATTACK("numpy-flags", "numpy_old_state.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "V8", STATE("\x02", "\x08", "\x10")), EIGHT)),
    ATTACK("numpy-flags", "numpy_fields.pkl", "PKL014",
           ARRAY(DTYPE("\x02", "V8",
                       "K\x03U\x01|NU\x01"
                       "a\x85}U\x01"
                       "acnumpy\ndtype\nU\x02O8\x89\x88\x87RK\0\x86sJ\x08\0\0\0J\1\0\0\0K\0"),
                 EIGHT)),
    ATTACK("numpy-flags", "numpy_spelled.pkl", "PKL014",
           ARRAY(DTYPE("\x05", "O,f4,", STATE("\x03", "\x08", "\0")), EIGHT)),
    ATTACK("numpy-flags", "numpy_scalar.pkl", "PKL014",
           "\x80\x02"
           "cnumpy.core.multiarray\nscalar\n" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\0")) EIGHT
           "\x86R."),
    ATTACK("numpy-flags", "numpy_frombuffer.pkl", "PKL014",
           "\x80\x02"
           "cnumpy._core.numeric\n_frombuffer\n(" EIGHT DTYPE("\x02", "O8",
                                                              STATE("\x03", "\x08", "\0")) "K\x01\x85U\x01"
                                                                                           "CtR."),

    /* the opcodes that call */
    ATTACK("opcode", "call_reduce.pkl", "PKL002", CALL_2),
    ATTACK("opcode", "call_inst.pkl", "PKL002", "(S'id'\nios\nsystem\n."),
    ATTACK("opcode", "call_obj.pkl", "PKL002", "(cos\nsystem\nS'id'\no."),
    ATTACK("opcode", "call_newobj.pkl", "PKL002",
           "\x80\x02"
           "cos\nsystem\n(U\x02idt\x81."),
    ATTACK("opcode", "call_newobj_ex.pkl", "PKL002",
           "\x80\x04"
           "cos\nsystem\n(U\x02idt}\x92."),
    ATTACK("opcode", "call_list.pkl", "PKL002", "cos\nsystem\n(S'id'\nlR."),
    ATTACK("opcode", "call_build.pkl", "PKL004", "ccollections\nOrderedDict\n}S'a'\nI1\nsb."),
    ATTACK("opcode", "call_extension.pkl", "PKL003", "\x80\x02\x82\x01)R."),
    ATTACK("opcode", "call_dup.pkl", "PKL002", "cos\nsystem\n20(S'id'\ntR."),

    /* the opcodes that name a function */
    ATTACK("name", "name_stack.pkl", "PKL002", "\x80\x04\x8c\x02os\x8c\x06system\x93(\x8c\x02idtR."),
    ATTACK("name", "name_lines.pkl", "PKL002", "Vos\nVsys\\u0074em\n\x93(S'id'\ntR."),
    ATTACK("name", "name_python2.pkl", "PKL002",
           "\x80\x02"
           "c__builtin__\neval\n(U\x01"
           "1tR."),
    ATTACK("name", "name_dotted.pkl", "PKL001",
           "\x80\x04\x8c\x0b"
           "collections\x8c\x0f"
           "abc.sys.modules\x93."),
    ATTACK("name", "name_computed.pkl", "PKL003",
           "\x80\x04\x8c\x02os"
           "c__builtin__\nstr\n\x8c\x06system\x85R\x93(\x8c\x02idtR."),
    ATTACK("name", "name_unlisted.pkl", "PKL001", "cmy_module\nmy_class\n)R."),
    ATTACK("name", "name_result.pkl", "PKL003", "c__builtin__\nstr\n)R)R."),

    /* malformed pickles, whose calls precede the error */
    ATTACK("broken", "broken_after.pkl", "PKL002",
           "\x80\x02"
           "cos\nsystem\n(U\x02idtRX\xff\0\0\0"),
    ATTACK("broken", "broken_protocol.pkl", "PKL002", "cos\nsystem\n(S'id'\ntR\x80\x09."),
    ATTACK("broken", "broken_opcode.pkl", "PKL002", "cos\nsystem\n(S'id'\ntR\xff"),

    /* frames of which Python's two unpicklers read different bytes */
    ATTACK("frame", "frame_text.pkl", "PKL007", "\x80\x04\x95\x03\0\0\0\0\0\0\0X\x02\0\0\0ab0" CALL_1),
    ATTACK("frame", "frame_hides.pkl", "PKL007",
           "\x80\x04\x95\x07\0\0\0\0\0\0\0X\x08\0\0\0abPPPPPPU\x14"
           "cos\nsystem\n\x8c\x02id\x85R.0."),

    /* harmless functions with harmful arguments */
    ATTACK("argument", "argument_codec.pkl", "PKL005", "c_codecs\nencode\n(S'x'\nS'rot13'\ntR."),
    ATTACK("argument", "argument_type.pkl", "PKL005",
           "ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n(S'id'\nt}tR."),

    /* pickles with the suffix of another format, and pickles that are text */
    ATTACK("disguise", "disguise.txt", "PKL002", CALL),
    ATTACK("disguise", "disguise.json", "PKL002", CALL),
    ATTACK("disguise", "disguise.safetensors", "PKL002", CALL_2),
    ATTACK("disguise", "disguise_odd_name.pkl", "PKL002", "ctorch.ops\na-b\n0" CALL),

    /* two formats in one file */
    ATTACK("concatenated", "after_stop.pkl", "PKL002", "\x80\x02N." CALL_2),
    ATTACK("concatenated", "after_text.pkl", "PKL002", "N." CALL),

    HARMLESS("torch_version.pkl", "ctorch.torch_version\nTorchVersion\n(S'2.1.0'\nt\x81."),
    HARMLESS("numpy_types.pkl", "(cnumpy\nfloat64\ncnumpy\nint32\ncnumpy\nuint8\nt."),
    HARMLESS("numpy_array.pkl", ARRAY(DTYPE("\x02", "f8", STATE("\x03", "\x08", "\0")), EIGHT)),
    HARMLESS("numpy_objects.pkl", ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")), "]K\x01"
                                                                                            "a")),
    HARMLESS("namespace.pkl", SPACE "}S'lr'\nF0.1\nsb."),
    HARMLESS("deque.pkl", "ccollections\ndeque\n)R(I1\nI2\ne."),
    HARMLESS("ordered.pkl", "ccollections\nOrderedDict\n)R(S'a'\nI1\nS'b'\nI2\nu}S'_metadata'\nNsb."),
    HARMLESS("factory.pkl", "ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(S'a'\n(lu."),
    HARMLESS("memo.pkl", "(lp0\nI1\nag0\n0."),
    HARMLESS("numbers.pkl", "(I1\nL2L\nF0.5\nNt."),
    HARMLESS("words.txt", "a list of words,\nthree of them\n"),
    HARMLESS("text_value.pkl", "S'a text of two lines\\nby hand'\n."),
};

/* ------------------------------------------------- files that functions write */

static unsigned char content[1 << 20];
static size_t size;

static void put_bytes(const void *bytes, size_t n)
{
    if (n > sizeof content - size)
        abort();
    memcpy(content + size, bytes, n);
    size += n;
}
static void put_text(const char *s) { put_bytes(s, strlen(s)); }
static void put_repeated(size_t n, const char *s)
{
    while (n-- > 0)
        put_text(s);
}

static const char *folder;
static int failed;

static void write_attack(const char *technique, const char *name, int code, const char *rule,
                         const char *loader)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(content, 1, size, f) != size)
        failed = 1;
    if (f && fclose(f) != 0)
        failed = 1;
    printf("%s\t%s\t%d\t%s\t%s\n", technique, name, code, rule, loader);
    size = 0;
}

/* make_long_lines - writes pickles with lines longer than a reader's buffer may be. */
static void make_long_lines(void)
{
    put_text("cos\nsystem\np25\n0ccollections\nOrderedDict\np0\n0g");
    put_repeated(4095, "0");
    put_text("25\n(S'id'\ntR.");
    write_attack("long-line", "long_get.pkl", 1, "PKL002", "pickle");
    put_text("ccollections\nOrderedDict\np0\n0cos\nsystem\np");
    put_repeated(4095, "0");
    put_text("25\n0g25\n(S'id'\ntR.");
    write_attack("long-line", "long_put.pkl", 1, "PKL002", "pickle");
    put_text("cos\nsystem\np");
    put_repeated(9000, " ");
    put_text("7\n0g7\n(S'id'\ntR.");
    write_attack("long-line", "long_blank.pkl", 1, "PKL002", "pickle");
    put_text("c");
    put_repeated(5000, "m");
    put_text("\nname\n0" CALL);
    write_attack("long-line", "long_global.pkl", 1, "PKL002", "pickle");
    put_text("(S'id'\ni");
    put_repeated(4094, "m");
    put_text("\xc3\xa9\xc3\xa9\nname\n0" CALL);
    write_attack("long-line", "long_inst", 1, "PKL002", "pickle");
}

/* make_long_series - writes files of many pickles, of which only the last calls a function. */
static void make_long_series(void)
{
    static const size_t counts[] = {15, 16, 17, 100, 4000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char name[64];
        put_repeated(counts[i], "N.");
        put_text(CALL);
        snprintf(name, sizeof name, "series_%zu", counts[i]);
        write_attack("series", name, 1, "PKL002", "pickle");
    }
    put_repeated(20, "(lp0\n.");
    put_text(CALL);
    write_attack("series", "series_lists.txt", 1, "PKL002", "pickle");
}

/* ------------------------------------------------------------ containers */

/* put_number - writes V as N bytes, little-endian. */
static void put_number(uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned char b = (unsigned char)(v >> 8 * i);
        put_bytes(&b, 1);
    }
}

static uint32_t compute_crc32(const char *b, size_t n)
{
    uint32_t c = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        c ^= (unsigned char)b[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320 : 0);
    }
    return ~c;
}

/* put_zip_fields - writes the fields that the local and the central header of a zip member share. */
static void put_zip_fields(const char *name, const char *bytes, size_t n)
{
    put_number(20, 2);
    put_number(0, 8); /* flags, stored, time, date */
    put_number(compute_crc32(bytes, n), 4);
    put_number(n, 4);
    put_number(n, 4);
    put_number(strlen(name), 2);
    put_number(0, 2);
}

/* put_zip - writes an archive of one stored member, with COMMENT and with offsets relative to BASE. */
static void put_zip(const char *name, const char *bytes, size_t n, const char *comment, size_t base)
{
    size_t start = size, directory;
    put_text("PK\3\4");
    put_zip_fields(name, bytes, n);
    put_text(name);
    put_bytes(bytes, n);
    directory = size;
    put_text("PK\1\2");
    put_number(20, 2);
    put_zip_fields(name, bytes, n);
    put_number(0, 10); /* comment, disk, attributes */
    put_number(start - base, 4);
    put_text(name);
    size_t end = size;
    put_text("PK\5\6");
    put_number(0, 4);
    put_number(1, 2);
    put_number(1, 2);
    put_number(end - directory, 4);
    put_number(directory - base, 4);
    put_number(strlen(comment), 2);
    put_text(comment);
}
#define ZIP(name, bytes, comment, base) put_zip(name, bytes, sizeof(bytes) - 1, comment, base)

#define HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static void put_safetensors(void)
{
    put_number(sizeof HEADER - 1, 8);
    put_text(HEADER "x");
}

/* put_short_string - writes a SHORT_BINSTRING of N bytes, including its opcode and length. */
static void put_short_string(size_t n)
{
    char length = (char)(n - 2);
    put_text("U");
    put_bytes(&length, 1);
    put_repeated(n - 2, "x");
}

/* make_polyglot - writes a safetensors file that is also a pickle. Its first byte, the lowest of the header's
 * length, is 0x58, BINUNICODE. The text of that opcode ends in a string of the metadata, in which
 * SHORT_BINSTRINGs follow; the last of them extends to the tensor's data, which contain the call. */
static void make_polyglot(void)
{
    /* LENGTH is that of the header; its bytes 1 to 4 are BINUNICODE's length: TEXT. FILLER bytes of data come
     * before the call. */
    enum { TEXT = 32, LENGTH = 0x58 + 256 * TEXT, FILLER = 80 };
    char tail[80];
    int n = snprintf(tail, sizeof tail,
                     "\"},\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                     FILLER + (int)sizeof CALL - 1, FILLER + (int)sizeof CALL - 1);
    put_number(LENGTH, 8);
    put_text("{\"__metadata__\":{\"k\":\"");
    put_repeated(5 + TEXT - size, "x");
    size_t left = 8 + LENGTH - (size_t)n - 2 - size; /* the last one extends beyond the header */
    for (; left > 256; left -= 128)
        put_short_string(128);
    put_short_string(left / 2);
    put_short_string(left - left / 2);
    put_text("U~");
    size_t begin = size + 126;
    put_text(tail);
    size_t data = size;
    put_repeated(begin - size, "x");
    put_text(CALL);
    put_repeated(data + FILLER + sizeof CALL - 1 - size, "x");
    write_attack("polyglot", "polyglot.safetensors", 1, "PKL002", "pickle");
}

/* make_zlib_text - writes a zlib stream that is all text: a stored block of 0x4020 bytes. */
static void make_zlib_text(void)
{
    put_text("\x78\x5e"
             "a\x20\x40\xdf\xbf" CALL);
    put_repeated(0x4020 - (sizeof CALL - 1), "x");
    put_text("abcd");
    write_attack("zlib-text", "zlib_text.joblib", 1, "PKL002", "-");
}

/* make_zip_tails - writes files to which an archive with a pickle is appended, and a pickle before an
 * archive. */
static void make_zip_tails(void)
{
    static const char npy[] = "\x93NUMPY\1\0\x46\0{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
    put_safetensors();
    ZIP("archive/data.pkl", CALL_2, "", size);
    write_attack("zip-tail", "tail.safetensors", 1, "PKL002", "-");
    put_safetensors();
    ZIP("archive/data.pkl", CALL_2, "a comment", 0);
    write_attack("zip-tail", "tail_comment.safetensors", 1, "PKL002", "-");
    put_bytes(npy, sizeof npy - 1);
    put_repeated(80 - 1 - size, " ");
    put_text("\nx");
    ZIP("archive/data.pkl", CALL_2, "a comment", 0);
    write_attack("zip-tail", "tail.npy", 1, "PKL002", "-");
    put_text("\x80\2N.");
    ZIP("data.pkl", CALL_2, "a comment", 0);
    write_attack("zip-tail", "tail.pkl", 1, "PKL002", "-");
    put_bytes(CALL_2, sizeof CALL_2 - 1);
    ZIP("archive/readme", "text\n", "", 0);
    write_attack("zip-front", "front.pt", 1, "PKL002", "pickle");
}

/* make_members - writes archives and other containers with a pickle in them, and harmless ones. */
static void make_members(void)
{
    ZIP("archive/data.pkl", CALL_2, "", 0);
    write_attack("member", "member.pt", 1, "PKL002", "-");
    ZIP("readme.txt", CALL, "", 0);
    write_attack("member", "member_text.zip", 1, "PKL002", "-");
    /* gzip, a stored block */
    put_bytes("\x1f\x8b\x08\0\0\0\0\0\0\3\1", 11);
    put_number(sizeof CALL_2 - 1, 2);
    put_number(0xffff - (sizeof CALL_2 - 1), 2);
    put_bytes(CALL_2, sizeof CALL_2 - 1);
    put_number(compute_crc32(CALL_2, sizeof CALL_2 - 1), 4);
    put_number(sizeof CALL_2 - 1, 4);
    write_attack("member", "member.joblib", 1, "PKL002", "-");
    put_text("\x93NUMPY\1");
    put_number(0, 1);
    put_number(70, 2);
    put_text("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }");
    put_repeated(80 - 1 - size, " ");
    put_text("\n");
    put_bytes(CALL_2, sizeof CALL_2 - 1);
    write_attack("member", "member.npy", 1, "PKL002", "-");
    put_safetensors();
    write_attack("control", "sound.safetensors", 0, "-", "-");
    ZIP("readme.txt", "text\n", "", 0);
    write_attack("control", "sound.zip", 0, "-", "-");
}

/* The storage of two numbers, as torch.save writes it inside of pickle.dumps(tensor). */
static const char storage_stream[] = MAGIC
    "\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\x0d\x00\x00\x00l"
    "ittle_endianq\x02\x88X\n\x00\x00\x00type_sizesq\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X"
    "\x03\x00\x00\x00intq\x06K\x04X\x04\x00\x00\x00longq\x07K\x04uu.\x80\x02(X\x07\x00\x00\x00st"
    "orageq\x00"
    "ctorch\nFloatStorage\nq\x01X\x01\x00\x00\x00"
    "0q\x02X\x03\x00\x00\x00"
    "cpuq\x03K\x02Ntq\x04Q.\x80\x02]q\x00X\x01\x00\x00\x00"
    "0q\x01"
    "a.\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@";

/* make_tensor - writes the result of pickle.dumps for a tensor of that storage. The bytes of the storage are
 * a line of the UNICODE opcode in PROTOCOL 0, and the text of BINUNICODE in PROTOCOL 1. */
static void make_tensor(int protocol)
{
    put_text("ctorch._utils\n_rebuild_tensor_v2\n(" LOADS "(c_codecs\nencode\n(");
    put_text(protocol ? "X" : "V");
    size_t length = size, bytes = 0;
    if (protocol)
        put_number(0, 4);
    for (size_t i = 0; i + 1 < sizeof storage_stream; i++) {
        unsigned char c = (unsigned char)storage_stream[i],
                      utf8[2] = {(unsigned char)(0xc0 | c >> 6), (unsigned char)(0x80 | (c & 0x3f))};
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", c);
        if (protocol)
            put_bytes(c < 0x80 ? &c : utf8, c < 0x80 ? 1 : 2);
        else if (c == 0 || c == '\n' || c == '\\' || c == '\r' || c == 0x1a)
            put_text(escape);
        else
            put_bytes(&c, 1);
    }
    bytes = size - length - 4;
    if (protocol)
        for (size_t i = 0; i < 4; i++)
            content[length + i] = (unsigned char)(bytes >> 8 * i);
    put_text(protocol ? "X" : "\nVlatin1\n");
    if (protocol) {
        put_number(6, 4);
        put_text("latin1");
    }
    put_text("tRtRI0\n(I2\nt(I1\ntI00\nccollections\nOrderedDict\n(tRtR.");
    write_attack("control", protocol ? "tensor_1.pkl" : "tensor_0.pkl", 0, "-", "pickle");
}

/* put_bits - writes the N lowest bits of V to a deflate stream; N 0 fills up the last byte. */
static void put_bits(unsigned v, unsigned n)
{
    static unsigned nbits, bits; /* not written yet */
    bits |= v << nbits;
    for (nbits += n; nbits >= 8; nbits -= 8, bits >>= 8)
        put_number(bits & 0xff, 1);
    if (n == 0 && nbits) {
        put_number(bits & 0xff, 1);
        nbits = bits = 0;
    }
}

/* put_huffman - writes a Huffman code of N bits, highest bit first. */
static void put_huffman(unsigned code, unsigned n)
{
    while (n-- > 0)
        put_bits(code >> n & 1, 1);
}

/* make_many_opcodes - writes a zlib stream of more opcodes than scan follows: NONE and POP, repeated by
 * matches of DEFLATE. */
static void make_many_opcodes(void)
{
    put_bytes("\x78\x9c", 2);
    put_bits(3, 3); /* the last block, with fixed Huffman codes */
    put_huffman(0x30 + 'N', 8);
    put_huffman(0x30 + '0', 8);
    for (int i = 0; i < 300000; i++) {
        put_huffman(0xc0 + 285 - 280, 8); /* length 258 */
        put_huffman(1, 5);                /* distance 2 */
    }
    put_bits(0, 7); /* end of block */
    put_bits(0, 0);
    put_number(0, 4); /* instead of the Adler-32 */
    write_attack("cost", "opcodes.joblib", 1, "PKL013", "-");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: attacks DIR\n");
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        const struct attack *a = &attacks[i];
        put_bytes(a->bytes, a->n);
        write_attack(a->technique, a->name, a->code, a->rule, a->loader);
    }
    make_long_lines();
    make_long_series();
    make_polyglot();
    make_zlib_text();
    make_zip_tails();
    make_members();
    make_tensor(0);
    make_tensor(1);
    make_many_opcodes();
    return failed || fflush(stdout) != 0;
}
