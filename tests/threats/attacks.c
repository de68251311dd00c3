/* attacks.c - attacks DIR: files from which a loader would run what they name, each made by one technique,
 * and harmless ones that look alike. A line for each on standard output: TECHNIQUE NAME EXIT RULE LOADER
 * EXIT and RULE are what `ckpt scan` must answer ("-": no finding at all); LOADER is what oracle.py reads it
 * with: pickle, one after the other to the end of the file, or "-". Nothing here is run, by anyone: names
 * are names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL   "cos\nsystem\n(S'id'\ntR." /* protocol 0 */
#define CALL_1 "cos\nsystem\n(U\x02idtR."
#define CALL_2 "\x80\x02" CALL_1
#define LOADS  "ctorch.storage\n_load_from_bytes\n"
#define SPACE  "ctypes\nSimpleNamespace\n)R"
#define MAGIC  "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." /* a stream of torch.save begins */

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
#define EVIL(technique, name, rule, bytes) FILE_OF(technique, name, 1, rule, "pickle", bytes)
#define FINE(name, bytes)                  FILE_OF("control", name, 0, "-", "pickle", bytes)

/* numpy.dtype(SPELLED, False, True) with a state of VERSION, … */
#define DTYPE(n, spelled, state)    "cnumpy\ndtype\n(U" n spelled "\x89\x88tR(" state "tb"
#define STATE(version, size, flags) "K" version "U\x01|NNNJ" size "\0\0\0J\x01\0\0\0K" flags
#define ARRAY(dtype, data)                                                                                   \
    "\x80\x02"                                                                                               \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01"                                   \
    "btR(K\x01K\x01\x85" dtype "\x89" data "tb."
#define EIGHT                                                                                                \
    "U\x08"                                                                                                  \
    "AAAAAAAA"

static const struct attack attacks[] = {
    /* whoever holds torch.storage._load_from_bytes calls it */
    EVIL("held-loader", "held_result.pkl", "PKL002", LOADS "."),
    EVIL("held-loader", "held_list.pkl", "PKL002", "](" LOADS "e."),
    EVIL("held-loader", "held_dict.pkl", "PKL002", "}(S'f'\n" LOADS "u."),
    EVIL("held-loader", "held_tuple.pkl", "PKL002", "(" LOADS "t."),
    EVIL("held-loader", "held_factory.pkl", "PKL002", "ccollections\ndefaultdict\n(" LOADS "tR."),
    EVIL("held-loader", "held_append.pkl", "PKL002", SPACE "}S'append'\n" LOADS "sbC\x17" CALL_2 "a."),
    EVIL("held-loader", "held_extend.pkl", "PKL002", SPACE "}S'extend'\n" LOADS "sb(C\x17" CALL_2 "e."),
    EVIL("held-loader", "held_add.pkl", "PKL002", SPACE "}S'add'\n" LOADS "sb(C\x17" CALL_2 "\x90."),
    EVIL("held-loader", "held_setstate.pkl", "PKL002",
         SPACE "}S'__setstate__'\n" LOADS "sbC\x17" CALL_2 "b."),
    EVIL("held-loader", "held_memo.pkl", "PKL002", LOADS "p7\n0](g7\ne."),
    EVIL("held-loader", "held_bytes.pkl", "PKL002", LOADS "(C\x17" CALL_2 "tR."),

    /* what an object's state holds is called by what changes it */
    EVIL("state-called", "state_append.pkl", "PKL003", SPACE "}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    EVIL("state-called", "state_appends.pkl", "PKL003", SPACE "}S'extend'\nc_codecs\nencode\nsb(S'a'\ne."),
    EVIL("state-called", "state_additems.pkl", "PKL003", SPACE "}S'add'\nc_codecs\nencode\nsb(S'a'\n\x90."),
    EVIL("state-called", "state_build.pkl", "PKL003", SPACE "}S'__setstate__'\nc_codecs\nencode\nsb}b."),
    EVIL("state-called", "state_ordered.pkl", "PKL003",
         "ccollections\nOrderedDict\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    EVIL("state-called", "state_namespace.pkl", "PKL003",
         "cargparse\nNamespace\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    EVIL("state-called", "state_argument.pkl", "PKL003",
         "ctypes\nSimpleNamespace\n(}S'__setstate__'\nc_codecs\nencode\nstR}b."),

    /* a line that the end of the file cuts */
    EVIL("cut-line", "cut_inst", "PKL002", "(S'id'\niposix\nsystemX"),
    EVIL("cut-line", "cut_inst.txt", "PKL002", "(S'id'\niposix\nsystemX"),
    EVIL("cut-line", "cut_inst.pkl", "PKL002", "(S'id'\niposix\nsystemX"),
    EVIL("cut-line", "cut_inst.json", "PKL002", "(S'id'\niposix\nsystemX"),
    EVIL("cut-line", "cut_global", "PKL002", "cos\nsystemX"),
    EVIL("cut-line", "cut_module", "PKL002", "cantigravity\n"),

    /* numbers of memo entries that a reader of 64 bits takes for others */
    EVIL("memo-number", "memo_2_64.pkl", "PKL002",
         "cos\nsystem\np18446744073709551616\n0g18446744073709551616\n(S'id'\ntR."),
    EVIL("memo-number", "memo_2_64_two.pkl", "PKL002",
         "cos\nsystem\np18446744073709551616\n0ccollections\nOrderedDict\np18446744073709551617\n"
         "0g18446744073709551616\n(S'id'\ntR."),
    EVIL("memo-number", "memo_signs.pkl", "PKL002", "cos\nsystem\np +1_0 \n0g10\n(S'id'\ntR."),
    EVIL("memo-number", "memo_text.txt", "PKL002", "I1\np99999999999999999999999\n0" CALL),
    EVIL("memo-replaced", "memo_replaced.pkl", "PKL002",
         "ccollections\nOrderedDict\np0\n0cos\nsystem\np0\n0g0\n(S'id'\ntR."),

    /* payloads of protocols without a number, as loaders are given them */
    EVIL("old-payload", "payload_p0.pkl", "PKL002",
         "\x80\x03"
         "C\x15" CALL "."),
    EVIL("old-payload", "payload_p1.pkl", "PKL002",
         "\x80\x03"
         "C\x13" CALL_1 "."),
    EVIL("old-payload", "payload_text.pkl", "PKL002", "\x80\x02X\x13\0\0\0" CALL_1 "."),
    EVIL("old-payload", "payload_unicode_line.pkl", "PKL002", "Vcos\\u000asystem\\u000a(S'id'\\u000atR.\n."),
    EVIL("old-payload", "payload_string_line.pkl", "PKL002", "S'cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    EVIL("old-payload", "payload_octal_line.pkl", "PKL002", "S'\\200\\002cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    EVIL("old-payload", "payload_in_stream.pkl", "PKL002", "\x80\x03" LOADS "C\x24" MAGIC CALL_2 "\x85R."),

    /* how calls are spelled */
    EVIL("opcode", "call_reduce.pkl", "PKL002", CALL_2),
    EVIL("opcode", "call_inst.pkl", "PKL002", "(S'id'\nios\nsystem\n."),
    EVIL("opcode", "call_obj.pkl", "PKL002", "(cos\nsystem\nS'id'\no."),
    EVIL("opcode", "call_newobj.pkl", "PKL002",
         "\x80\x02"
         "cos\nsystem\n(U\x02idt\x81."),
    EVIL("opcode", "call_newobj_ex.pkl", "PKL002",
         "\x80\x04"
         "cos\nsystem\n(U\x02idt}\x92."),
    EVIL("opcode", "call_list.pkl", "PKL002", "cos\nsystem\n(S'id'\nlR."),
    EVIL("opcode", "call_build.pkl", "PKL004", "ccollections\nOrderedDict\n}S'a'\nI1\nsb."),
    EVIL("opcode", "call_extension.pkl", "PKL003", "\x80\x02\x82\x01)R."),
    EVIL("opcode", "call_dup.pkl", "PKL002", "cos\nsystem\n20(S'id'\ntR."),

    /* how names are spelled */
    EVIL("name", "name_stack.pkl", "PKL002", "\x80\x04\x8c\x02os\x8c\x06system\x93(\x8c\x02idtR."),
    EVIL("name", "name_lines.pkl", "PKL002", "Vos\nVsys\\u0074em\n\x93(S'id'\ntR."),
    EVIL("name", "name_python2.pkl", "PKL002",
         "\x80\x02"
         "c__builtin__\neval\n(U\x01"
         "1tR."),
    EVIL("name", "name_dotted.pkl", "PKL001",
         "\x80\x04\x8c\x0b"
         "collections\x8c\x0f"
         "abc.sys.modules\x93."),
    EVIL("name", "name_computed.pkl", "PKL003",
         "\x80\x04\x8c\x02os"
         "c__builtin__\nstr\n\x8c\x06system\x85R\x93(\x8c\x02idtR."),
    EVIL("name", "name_unlisted.pkl", "PKL001", "cmy_module\nmy_class\n)R."),
    EVIL("name", "name_result.pkl", "PKL003", "c__builtin__\nstr\n)R)R."),

    /* what runs before the error */
    EVIL("broken", "broken_after.pkl", "PKL002",
         "\x80\x02"
         "cos\nsystem\n(U\x02idtRX\xff\0\0\0"),
    EVIL("broken", "broken_protocol.pkl", "PKL002", "cos\nsystem\n(S'id'\ntR\x80\x09."),
    EVIL("broken", "broken_opcode.pkl", "PKL002", "cos\nsystem\n(S'id'\ntR\xff"),

    /* frames that are read otherwise */
    EVIL("frame", "frame_text.pkl", "PKL007", "\x80\x04\x95\x03\0\0\0\0\0\0\0X\x02\0\0\0ab0" CALL_1),
    EVIL("frame", "frame_hides.pkl", "PKL007",
         "\x80\x04\x95\x07\0\0\0\0\0\0\0X\x08\0\0\0abPPPPPPU\x14"
         "cos\nsystem\n\x8c\x02id\x85R.0."),

    /* arguments that make a harmless name do more */
    EVIL("argument", "argument_codec.pkl", "PKL005", "c_codecs\nencode\n(S'x'\nS'rot13'\ntR."),
    EVIL("argument", "argument_type.pkl", "PKL005",
         "ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n(S'id'\nt}tR."),

    /* the name of a file, and text */
    EVIL("disguise", "disguise.txt", "PKL002", CALL),
    EVIL("disguise", "disguise.json", "PKL002", CALL),
    EVIL("disguise", "disguise.safetensors", "PKL002", CALL_2),
    EVIL("disguise", "disguise_odd_name.pkl", "PKL002", "ctorch.ops\na-b\n0" CALL),

    /* two formats in one file */
    EVIL("concatenated", "after_stop.pkl", "PKL002", "\x80\x02N." CALL_2),
    EVIL("concatenated", "after_text.pkl", "PKL002", "N." CALL),

    FINE("torch_version.pkl", "ctorch.torch_version\nTorchVersion\n(S'2.1.0'\nt\x81."),
    FINE("numpy_types.pkl", "(cnumpy\nfloat64\ncnumpy\nint32\ncnumpy\nuint8\nt."),
    FINE("numpy_array.pkl", ARRAY(DTYPE("\x02", "f8", STATE("\x03", "\x08", "\0")), EIGHT)),
    FINE("numpy_objects.pkl", ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")), "]K\x01"
                                                                                        "a")),
    FINE("namespace.pkl", SPACE "}S'lr'\nF0.1\nsb."),
    FINE("deque.pkl", "ccollections\ndeque\n)R(I1\nI2\ne."),
    FINE("ordered.pkl", "ccollections\nOrderedDict\n)R(S'a'\nI1\nS'b'\nI2\nu}S'_metadata'\nNsb."),
    FINE("factory.pkl", "ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(S'a'\n(lu."),
    FINE("memo.pkl", "(lp0\nI1\nag0\n0."),
    FINE("numbers.pkl", "(I1\nL2L\nF0.5\nNt."),
    FINE("words.txt", "a list of words,\nthree of them\n"),
    FINE("text_value.pkl", "S'a text of two lines\\nby hand'\n."),
};

/* ------------------------------------------------------------------- made */

static unsigned char made[1 << 20];
static size_t size;

static void put(const void *bytes, size_t n)
{
    if (n > sizeof made - size)
        abort();
    memcpy(made + size, bytes, n);
    size += n;
}
static void text(const char *s) { put(s, strlen(s)); }
static void many(size_t n, const char *s)
{
    while (n-- > 0)
        text(s);
}

static const char *folder;
static int failed;

static void keep(const char *technique, const char *name, int code, const char *rule, const char *loader)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(made, 1, size, f) != size)
        failed = 1;
    if (f && fclose(f) != 0)
        failed = 1;
    printf("%s\t%s\t%d\t%s\t%s\n", technique, name, code, rule, loader);
    size = 0;
}

/* Lines of more bytes than a reader may have room for. */
static void long_lines(void)
{
    text("cos\nsystem\np25\n0ccollections\nOrderedDict\np0\n0g");
    many(4095, "0");
    text("25\n(S'id'\ntR.");
    keep("long-line", "long_get.pkl", 1, "PKL002", "pickle");
    text("ccollections\nOrderedDict\np0\n0cos\nsystem\np");
    many(4095, "0");
    text("25\n0g25\n(S'id'\ntR.");
    keep("long-line", "long_put.pkl", 1, "PKL002", "pickle");
    text("cos\nsystem\np");
    many(9000, " ");
    text("7\n0g7\n(S'id'\ntR.");
    keep("long-line", "long_blank.pkl", 1, "PKL002", "pickle");
    text("c");
    many(5000, "m");
    text("\nname\n0" CALL);
    keep("long-line", "long_global.pkl", 1, "PKL002", "pickle");
    text("(S'id'\ni");
    many(4094, "m");
    text("\xc3\xa9\xc3\xa9\nname\n0" CALL);
    keep("long-line", "long_inst", 1, "PKL002", "pickle");
}

/* Pickles that do nothing, before one that does. */
static void rows(void)
{
    static const size_t counts[] = {15, 16, 17, 100, 4000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char name[64];
        many(counts[i], "N.");
        text(CALL);
        snprintf(name, sizeof name, "row_%zu", counts[i]);
        keep("row", name, 1, "PKL002", "pickle");
    }
    many(20, "(lp0\n.");
    text(CALL);
    keep("row", "row_lists.txt", 1, "PKL002", "pickle");
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
        put(a->bytes, a->n);
        keep(a->technique, a->name, a->code, a->rule, a->loader);
    }
    long_lines();
    rows();
    return failed || fflush(stdout) != 0;
}
