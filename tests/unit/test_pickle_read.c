/* Every opcode of a pickle is read, malformed pickles are refused, and damage at any byte is handled. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/store.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_read.h"
#include "codec/pickle_text.h"
#include "graph.h"
#include "unit.h"

#define BYTES(text)  "" text, sizeof(text) - 1 /* a pointer and a size */
#define FIRST_OFFSET 1000 /* the offset that errors report for the first byte of a pickle of graph_read() */

/* A pickle, and the result of reading it: GRAPH as graph_text() writes it, or NULL if the pickle is refused
 * with STATUS and WORDS in the message. */
struct program {
    const char *bytes;
    size_t n;
    const char *graph;
    ckpt_status status;
    const char *words;
};

#define READ_AS(pickle, graph)         {BYTES(pickle), graph, CKPT_OK, NULL}
#define REFUSED(pickle, status, words) {BYTES(pickle), NULL, status, words}

/* Pickles that together use every opcode that is not refused. */
static const struct program valid_programs[] = {
    READ_AS("N.", "N"),
    READ_AS("\x80\x02\x88.", "T"),
    READ_AS("\x89.", "F"),
    READ_AS("I01\n.", "T"),
    READ_AS("I00\n.", "F"),
    READ_AS("I-12\n.", "-12"),
    READ_AS("I 0x1F \n.", "31"),
    READ_AS("I9223372036854775808\n.", "0x008000000000000000"),
    READ_AS("L-9223372036854775808L\n.", "-9223372036854775808"),
    READ_AS("L-9223372036854775809L\n.", "0xff7fffffffffffffff"),
    READ_AS("L5\n.", "5"),
    READ_AS("J\xff\xff\xff\xff.", "-1"),
    READ_AS("K\xff.", "255"),
    READ_AS("M\xff\xff.", "65535"),
    READ_AS("\x8a\x00.", "0"),
    READ_AS("\x8a\x05\x00\x00\x00\x80\x00.", "2147483648"),
    READ_AS("\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00.", "0x008000000000000000"),
    READ_AS("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff.", "-1"),
    READ_AS("\x8b\x02\x00\x00\x00\x00\x80.", "-32768"),
    READ_AS("F-1.5e3\n.", "-1500"),
    READ_AS("Fnan\n.", "nan"),
    READ_AS("F-inf\n.", "-inf"),
    READ_AS("G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5"),
    READ_AS("S'a\\'\\x41\\n\\101\\q'\n.", "s'a'A\nA\\q'"),
    READ_AS("S'\\1012\\7b\\608'\n.", "s'A2\ab08'"), /* \ooo takes at most three digits */
    READ_AS("S\"\"  \n.", "s''"),
    READ_AS("T\x02\x00\x00\x00\xff!.", "s'\xff!'"),
    READ_AS("U\x02hi.", "s'hi'"),
    READ_AS("V\\u00e9\xe9\\\\u00e9\\U0001f600\n.", "'\xc3\xa9\xc3\xa9\\\\u00e9\xf0\x9f\x98\x80'"),
    READ_AS("X\x03\x00\x00\x00\xed\xa0\x80.", "'\xed\xa0\x80'"),
    READ_AS("\x8c\x01z.", "'z'"),
    READ_AS("\x8d\x01\x00\x00\x00\x00\x00\x00\x00z.", "'z'"),
    READ_AS("B\x01\x00\x00\x00\xff.", "b'\xff'"),
    READ_AS("C\x00.", "b''"),
    READ_AS("\x8e\x01\x00\x00\x00\x00\x00\x00\x00z.", "b'z'"),
    READ_AS("\x96\x01\x00\x00\x00\x00\x00\x00\x00z.", "a'z'"),
    READ_AS("].", "[]"),
    READ_AS("(K\x01K\x02l.", "[1,2]"),
    READ_AS("]K\x01"
            "a.",
            "[1]"),
    READ_AS("](K\x01K\x02"
            "e.",
            "[1,2]"),
    READ_AS("](e.", "[]"),
    READ_AS(").", "()"),
    READ_AS("(K\x01t.", "(1)"),
    READ_AS("(t.", "()"),
    READ_AS("N\x85.", "(N)"),
    READ_AS("NK\x01\x86.", "(N,1)"),
    READ_AS("NK\x01K\x02\x87.", "(N,1,2)"),
    READ_AS("}.", "{}"),
    READ_AS("(K\x01Nd.", "{1:N}"),
    READ_AS("}K\x01Ns.", "{1:N}"),
    READ_AS("}(K\x01NK\x01\x88u.", "{1:N,1:T}"),
    READ_AS("}(u.", "{}"),
    READ_AS("\x8f(K\x01K\x02\x90.", "set(1,2)"),
    READ_AS("(K\x01\x91.", "frozenset(1)"),
    READ_AS("cm\nn\n.", "<m n>"),
    READ_AS("\x8c\x01mU\x01n\x93.", "<m n>"),
    READ_AS("(K\x01im\nn\n.", "I<m n>(1)"),
    READ_AS("(cm\nn\nK\x01o.", "O<m n>(1)"),
    READ_AS("cm\nn\nK\x01\x85R.", "R<m n>(1)"),
    READ_AS("cm\nn\n)\x81.", "N<m n>()"),
    READ_AS("cm\nn\n)}\x92.", "X<m n>(){}"),
    READ_AS("cm\nn\n)R(K\x01K\x02u}b.", "R<m n>()+{1:2}!{}"),
    READ_AS("cm\nn\n)R(K\x01K\x02"
            "eK\x03"
            "a.",
            "R<m n>()+[1,2,3]"),
    READ_AS("cm\nn\n)RK\x01K\x02s(K\x03\x90.", "R<m n>()+[3]+{1:2}"),
    READ_AS("cm\nn\nNb.", "<m n>"),
    READ_AS("Pid 1\n.", "@'id 1'"),
    READ_AS("K\x07Q.", "@7"),
    READ_AS("K\x01NK\x02"
            "00.",
            "1"),
    READ_AS("K\x01(0.", "1"), /* POP removes a MARK */
    READ_AS("K\x01(K\x02K\x03"
            "1.",
            "1"),                  /* POP_MARK */
    READ_AS("]2\x86.", "([],[])"), /* DUP */
    READ_AS("]p0\n0g0\n.", "[]"),
    READ_AS("]q\x05"
            "0h\x05.",
            "[]"),
    READ_AS("]r\xff\xff\xff\xff"
            "0j\xff\xff\xff\xff.",
            "[]"),
    READ_AS("]p18446744073709551615\n0g18446744073709551615\n.", "[]"),
    READ_AS("]\x94"
            "0N\x94"
            "0h\x00h\x01\x86.",
            "([],N)"),
    READ_AS("]q\x01N\x94"
            "0h\x01.",
            "N"), /* the index of MEMOIZE is the number of entries, here 1 */
    READ_AS("]q\x01q\x01N\x94"
            "0h\x01.",
            "N"), /* an entry that is put twice counts once */
    READ_AS("]q\x01"
            "0}q\x01"
            "0h\x01.",
            "{}"), /* PUT may replace an entry */
    READ_AS("]q\x00h\x00"
            "a.",
            "[^]"),
    READ_AS("NK\x01.", "1"), /* STOP ignores the values below */
    READ_AS("\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x01.", "1"),
    READ_AS("\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01\x95\x01\x00\x00\x00\x00\x00\x00\x00.", "1"),
};

static bool error_contains(const struct graph *g, const char *words)
{
    bool found = strstr(g->err.what, words) != NULL;
    if (!found)
        printf("\n    expected \"%s\" in \"%s\"\n", words, g->err.what);
    return found;
}

static void check_program(const struct program *p)
{
    struct graph g;
    graph_read(&g, p->bytes, p->n);
    CU_ASSERT_EQUAL(g.status, p->status);
    if (p->graph && g.status == CKPT_OK) {
        if (strcmp(graph_text(g.root), p->graph) != 0)
            printf("\n    expected %s, got %s\n", p->graph, graph_text(g.root));
        CU_ASSERT_STRING_EQUAL(graph_text(g.root), p->graph);
        CU_ASSERT_EQUAL(g.next, p->n);
    } else if (g.status != CKPT_OK) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(p->words);
        CU_ASSERT(error_contains(&g, p->words));
        CU_ASSERT(g.err.offset >= FIRST_OFFSET && g.err.offset <= FIRST_OFFSET + p->n);
    }
    graph_free(&g);
}

static void valid_programs_have_all_opcodes(void)
{
    bool is_used[256] = {false};
    unsigned opcode_count = 0;
    for (size_t i = 0; i < sizeof valid_programs / sizeof *valid_programs; i++) {
        struct graph g;
        check_program(&valid_programs[i]);
        graph_read(&g, valid_programs[i].bytes, valid_programs[i].n);
        for (unsigned op = 0; op < 256; op++)
            is_used[op] |= g.facts.first_use[op] != UINT64_MAX;
        graph_free(&g);
    }
    for (unsigned op = 0; op < 256; op++) {
        const struct pickle_op *o = pickle_op((uint8_t)op);
        opcode_count += o != NULL;
        bool is_refused = op == PICKLE_EXT1 || op == PICKLE_EXT2 || op == PICKLE_EXT4 ||
                          op == PICKLE_NEXT_BUFFER || op == PICKLE_READONLY_BUFFER;
        CU_ASSERT_EQUAL(is_used[op], o != NULL && !is_refused);
    }
    CU_ASSERT_EQUAL(opcode_count, 68); /* the opcodes of protocols 0 to 5 */
}

static const struct program refused_programs[] = {
    REFUSED("\x82\x63.", CKPT_EUNSUPPORTED, "EXT1"),
    REFUSED("\x83\x63\x01.", CKPT_EUNSUPPORTED, "EXT2"),
    REFUSED("\x84\x63\x01\x00\x00.", CKPT_EUNSUPPORTED, "EXT4"),
    REFUSED("\x97.", CKPT_EUNSUPPORTED, "NEXT_BUFFER"),
    REFUSED("N\x98.", CKPT_EUNSUPPORTED, "READONLY_BUFFER"),
    REFUSED("\x80\x06N.", CKPT_EUNSUPPORTED, "protocol 6"),
    REFUSED("\xff", CKPT_EFORMAT, "byte 0xff is not a pickle opcode"),
    REFUSED("", CKPT_ETRUNCATED, "without STOP"),
    REFUSED("N", CKPT_ETRUNCATED, "without STOP"),
    REFUSED(".", CKPT_EFORMAT, "STOP takes 1 value from the stack, where 0 are"),
    REFUSED("N(.", CKPT_EFORMAT, "above the last MARK"),
    /* values on the stack that have the wrong type */
    REFUSED("K\x01)R.", CKPT_EFORMAT, "REDUCE calls an int made at byte 0x0"),
    REFUSED("cm\nn\n]R.", CKPT_EFORMAT, "REDUCE has a list for arguments"),
    REFUSED("])\x81.", CKPT_EFORMAT, "NEWOBJ calls a list"),
    REFUSED("cm\nn\nN\x81.", CKPT_EFORMAT, "NEWOBJ has None for arguments"),
    REFUSED("cm\nn\n)]\x92.", CKPT_EFORMAT, "NEWOBJ_EX has a list for keyword arguments"),
    REFUSED("K\x01)}\x92.", CKPT_EFORMAT, "NEWOBJ_EX calls an int"),
    REFUSED("cm\nn\nN}\x92.", CKPT_EFORMAT, "NEWOBJ_EX has None for arguments"),
    REFUSED("(K\x01o.", CKPT_EFORMAT, "OBJ calls an int"),
    REFUSED("(o.", CKPT_EFORMAT, "OBJ finds 0 values above the MARK"),
    REFUSED("}K\x01"
            "a.",
            CKPT_EFORMAT, "APPEND adds to a dict made at byte 0x0; a list or an object"),
    REFUSED("}(K\x01"
            "e.",
            CKPT_EFORMAT, "APPENDS adds to a dict"),
    REFUSED("](K\x01\x90.", CKPT_EFORMAT, "ADDITEMS adds to a list made at byte 0x0; a set or an object"),
    REFUSED("]K\x01Ns.", CKPT_EFORMAT, "SETITEM sets items of a list made at byte 0x0; a dict"),
    REFUSED("](K\x01Nu.", CKPT_EFORMAT, "SETITEMS sets items of a list"),
    REFUSED("}(K\x01u.", CKPT_EFORMAT, "SETITEMS finds 1 item above the MARK"),
    REFUSED("(K\x01"
            "d.",
            CKPT_EFORMAT, "DICT finds 1 item above the MARK"),
    REFUSED("K\x01U\x01n\x93.", CKPT_EFORMAT, "STACK_GLOBAL must have two texts, a module and a name"),
    REFUSED("U\x01mC\x01n\x93.", CKPT_EFORMAT, "found a str and bytes"),
    REFUSED("U\x00U\x01n\x93.", CKPT_EFORMAT, "STACK_GLOBAL empty module or name"),
    REFUSED("c\nn\n.", CKPT_EFORMAT, "GLOBAL empty module or name"),
    REFUSED("(im\n\n.", CKPT_EFORMAT, "INST empty module or name"),
    /* memo */
    REFUSED("Nq\x01h\x02.", CKPT_EFORMAT, "BINGET reads memo entry 2, which is not among those put before"),
    REFUSED("j\x01\x00\x01\x00.", CKPT_EFORMAT, "LONG_BINGET reads memo entry 65537"),
    REFUSED("g0\n.", CKPT_EFORMAT, "GET reads memo entry 0"),
    REFUSED("Np-1\n.", CKPT_EFORMAT, "PUT has '-1'"),
    REFUSED("Np18446744073709551616\n.", CKPT_EFORMAT, "PUT has"),
    REFUSED("Np\n.", CKPT_EFORMAT, "PUT has ''"),
    /* arguments of opcodes, and names */
    REFUSED("Ix\n.", CKPT_EFORMAT, "INT has 'x' where an integer belongs"),
    REFUSED("I010\n.", CKPT_EFORMAT, "INT has '010'"),
    REFUSED("I\n.", CKPT_EFORMAT, "INT has ''"),
    REFUSED("L1LL\n.", CKPT_EFORMAT, "LONG has '1L'"),
    REFUSED("F1.5x\n.", CKPT_EFORMAT, "FLOAT has '1.5x'"),
    REFUSED("F0x1p3\n.", CKPT_EFORMAT, "FLOAT has"),
    REFUSED("F1,5\n.", CKPT_EFORMAT, "FLOAT has"),
    REFUSED("F\n.", CKPT_EFORMAT, "FLOAT has"),
    REFUSED("Sab\n.", CKPT_EFORMAT, "STRING has"),
    REFUSED("S'ab\"\n.", CKPT_EFORMAT, "STRING has"),
    REFUSED("S'\n.", CKPT_EFORMAT, "STRING has"),
    REFUSED("S'\\x4'\n.", CKPT_EFORMAT, "STRING has"),
    REFUSED("S'\\'\n.", CKPT_EFORMAT, "STRING has"),
    REFUSED("V\\u12\n.", CKPT_EFORMAT, "UNICODE has"),
    REFUSED("V\\U00110000\n.", CKPT_EFORMAT, "UNICODE has"),
    REFUSED("T\xff\xff\xff\xff.", CKPT_EFORMAT, "BINSTRING has a length of -1"),
    REFUSED("\x8b\xff\xff\xff\xff.", CKPT_EFORMAT, "LONG4 has a length of -1"),
    REFUSED("X\xff\xff\xff\x7f.", CKPT_ETRUNCATED, "BINUNICODE needs 2147483647 more bytes, 1 are left"),
    REFUSED("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", CKPT_ETRUNCATED, "BINUNICODE8 needs"),
    REFUSED("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", CKPT_ETRUNCATED, "BINBYTES8 needs"),
    REFUSED("\x96\xff\xff\xff\xff\xff\xff\xff\xff.", CKPT_ETRUNCATED, "BYTEARRAY8 needs"),
    REFUSED("\x8b\xff\xff\xff\x7f.", CKPT_ETRUNCATED, "LONG4 needs"),
    REFUSED("}(K\x01NK\x01Tu.", CKPT_ETRUNCATED, "BINSTRING"), /* T is BINSTRING, not True */
    REFUSED("X\x02\x00\x00\x00\xc0\x80.", CKPT_EFORMAT, "not UTF-8"),
    REFUSED("X\x01\x00\x00\x00\xc3.", CKPT_EFORMAT, "not UTF-8"),
    REFUSED("\x8c\x01\xff.", CKPT_EFORMAT, "SHORT_BINUNICODE has text that is not UTF-8"),
    REFUSED("cabc", CKPT_ETRUNCATED, "GLOBAL needs a line"),
    REFUSED("\x80\x03"
            "cm\n\xff\n.",
            CKPT_EFORMAT, "GLOBAL has a name that is not UTF-8"),
    REFUSED("\x80\x04"
            "cm\na.\xff\n.",
            CKPT_EFORMAT, "GLOBAL has a name that is not UTF-8"),
    REFUSED("\x80\x05(i\xff\na.b\n.", CKPT_EFORMAT, "INST has a name that is not UTF-8"),
    REFUSED("\x80\x05U\x01mU\x03z.\xff\x93.", CKPT_EFORMAT, "STACK_GLOBAL has a name that is not UTF-8"),
    REFUSED("\x80\x04\x8c\x01m\x8c\x05z.\xed\xa0\x80\x93.", CKPT_EFORMAT,
            "STACK_GLOBAL has a name that is not UTF-8"),
    REFUSED("Sabc", CKPT_ETRUNCATED, "STRING needs"),
    /* frames */
    REFUSED("\x95\x05\x00\x00\x00\x00\x00\x00\x00N.", CKPT_ETRUNCATED, "FRAME of 5 bytes, 2 are left"),
    REFUSED("\x95\x01\x00\x00\x00\x00\x00\x00\x00K\x01.", CKPT_EFORMAT,
            "BININT1 crosses the end of its frame"),
    REFUSED("\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x95\x01\x00\x00\x00\x00\x00\x00\x00N.", CKPT_EFORMAT,
            "FRAME begins inside the previous frame, which ends"),
};

static void malformed_pickles_are_refused(void)
{
    for (size_t i = 0; i < sizeof refused_programs / sizeof *refused_programs; i++)
        check_program(&refused_programs[i]);
}

/* put_argument - writes a valid argument of opcode OP to OUT, and returns its size. */
static size_t put_argument(const struct pickle_op *op, unsigned char *out)
{
    static const struct {
        const char *bytes;
        size_t n;
    } arguments[] = {
        [PICKLE_ARG_NONE] = {BYTES("")},
        [PICKLE_ARG_U1] = {BYTES("\x00")},
        [PICKLE_ARG_U2] = {BYTES("\x00\x00")},
        [PICKLE_ARG_U4] = {BYTES("\x00\x00\x00\x00")},
        [PICKLE_ARG_U8] = {BYTES("\x00\x00\x00\x00\x00\x00\x00\x00")},
        [PICKLE_ARG_I4] = {BYTES("\x00\x00\x00\x00")},
        [PICKLE_ARG_F8] = {BYTES("\x00\x00\x00\x00\x00\x00\x00\x00")},
        [PICKLE_ARG_LINE] = {BYTES("0\n")},
        [PICKLE_ARG_LINES] = {BYTES("a\nb\n")},
        [PICKLE_ARG_B1] = {BYTES("\x01z")},
        [PICKLE_ARG_B4] = {BYTES("\x01\x00\x00\x00z")},
        [PICKLE_ARG_B8] = {BYTES("\x01\x00\x00\x00\x00\x00\x00\x00z")},
        [PICKLE_ARG_BI4] = {BYTES("\x01\x00\x00\x00z")},
    };
    memcpy(out, arguments[op->argument].bytes, arguments[op->argument].n);
    return arguments[op->argument].n;
}

/* Opcodes that take values from the stack or the memo, and opcodes that take all values above the last
 * MARK. */
static const char value_takers[] = "02QRabsh\x81\x85\x86\x87\x92\x93\x94pqrjg";
static const char mark_takers[] = "1telduoi\x90\x91";

static void an_empty_stack_is_reported_as_underflow(void)
{
    for (unsigned op = 1; op < 256; op++) {
        const struct pickle_op *o = pickle_op((uint8_t)op);
        bool takes_values = strchr(value_takers, (char)op) != NULL,
             takes_to_mark = strchr(mark_takers, (char)op) != NULL;
        if (!o || (!takes_values && !takes_to_mark))
            continue;
        unsigned char bytes[64] = {(unsigned char)op};
        size_t n = 1 + put_argument(o, bytes + 1);
        bytes[n++] = '.';
        struct graph g;
        graph_read(&g, bytes, n);
        CU_ASSERT_EQUAL(g.status, CKPT_EFORMAT);
        CU_ASSERT_EQUAL(g.err.offset, FIRST_OFFSET);
        CU_ASSERT(strncmp(g.err.what, o->name, strlen(o->name)) == 0);
        if (takes_to_mark)
            CU_ASSERT(error_contains(&g, "MARK, and none is on the stack"));
        graph_free(&g);
        /* None of three lists below a MARK may be taken. This is not tested with POP, which may take the
         * MARK, nor with GETs, which take from the memo. */
        if (!takes_values || op == '0' || strchr("hgj", (char)op))
            continue;
        memmove(bytes + 4, bytes, n);
        memcpy(bytes, "]]](", 4);
        graph_read(&g, bytes, n + 4);
        CU_ASSERT_EQUAL(g.status, CKPT_EFORMAT);
        CU_ASSERT(error_contains(&g, "above the last MARK"));
        graph_free(&g);
    }
}

static void every_prefix_is_refused(void)
{
    for (size_t i = 0; i < sizeof valid_programs / sizeof *valid_programs; i++)
        for (size_t n = 0; n < valid_programs[i].n; n++) {
            struct graph g;
            graph_read(&g, valid_programs[i].bytes, n);
            CU_ASSERT_NOT_EQUAL(g.status, CKPT_OK);
            CU_ASSERT(g.err.what[0] != 0);
            graph_free(&g);
        }
}

static void every_changed_byte_is_read_safely(void)
{
    for (size_t i = 0; i < sizeof valid_programs / sizeof *valid_programs; i++)
        for (size_t at = 0; at < valid_programs[i].n; at++)
            for (unsigned mask = 1; mask < 256; mask = mask < 128 ? mask * 2 : mask + 127) {
                unsigned char bytes[128];
                struct graph g;
                memcpy(bytes, valid_programs[i].bytes, valid_programs[i].n);
                bytes[at] ^= (unsigned char)mask; /* one bit, or all bits */
                graph_read_limited(&g, bytes, valid_programs[i].n, 1 << 20, 0);
                CU_ASSERT(g.status == CKPT_OK ? g.root != NULL : g.err.what[0] != 0);
                graph_free(&g);
            }
}

static void failing_allocations_are_reported(void)
{
    static const char pickle[] = "(]q\x00(K\x01G\x3f\xf8\x00\x00\x00\x00\x00\x00"
                                 "X\x02\x00\x00\x00hie"
                                 "}U\x01"
                                 "aNscm\nn\n)R(K\x05K\x06u}bNQt.";
    struct graph g;
    uint64_t failing_allocation = 1; /* the number of the allocation that fails */
    for (;; failing_allocation++) {
        graph_read_limited(&g, pickle, sizeof pickle - 1, UINT64_MAX, failing_allocation);
        bool done = g.status != CKPT_ENOMEM;
        graph_free(&g);
        if (done)
            break;
    }
    CU_ASSERT(failing_allocation > 6); /* at least nodes, text and four lists of facts */
    CU_ASSERT_EQUAL(g.status, CKPT_OK);
    graph_read_limited(&g, BYTES("(((((]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]t."), 512, 0);
    CU_ASSERT_EQUAL(g.status, CKPT_ELIMIT);
    CU_ASSERT(error_contains(&g, "needs more memory than is allowed"));
    graph_free(&g);
}

/* ------------------------------------------------------- sizes and windows */

static void put_repeated(buf *b, const char *bytes, size_t n, size_t count)
{
    while (count--)
        buf_put(b, bytes, n);
}

/* put_long_text - appends a BINUNICODE whose text is SHIFT letters 'a' and TIMES copies of UNIT. */
static void put_long_text(buf *b, size_t shift, const char *unit, size_t times)
{
    buf_byte(b, 'X');
    buf_u32le(b, (uint32_t)(shift + strlen(unit) * times));
    put_repeated(b, "a", 1, shift);
    put_repeated(b, unit, strlen(unit), times);
}

/* Text larger than the reader's window of 64 KiB is kept as a range of the file. */
static void large_text_stays_in_the_file(void)
{
    for (size_t shift = 0; shift < 5; shift++) {
        struct graph g;
        buf b;
        buf_init(&b, SIZE_MAX);
        put_long_text(&b, shift, "\xf0\x9f\x98\x80", 70000);
        buf_byte(&b, '.');
        graph_read(&g, b.data, b.len);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        CU_ASSERT(g.root->flags & VALUE_SPAN);
        CU_ASSERT_EQUAL(g.root->u.span->off, 5);
        CU_ASSERT_EQUAL(g.root->u.span->nbytes, shift + 280000);
        CU_ASSERT_EQUAL(g.root->u.span->count, shift + 70000);
        CU_ASSERT(arena_used(g.a) < 4096);
        graph_free(&g);
        for (size_t at = 65530; at < 65545; at++) { /* around the end of the first window */
            unsigned char valid_byte = b.data[at];
            b.data[at] ^= 0xc0;
            graph_read(&g, b.data, b.len);
            CU_ASSERT_EQUAL(g.status, CKPT_EFORMAT);
            graph_free(&g);
            b.data[at] = valid_byte;
        }
        buf_free(&b);
    }
}

static void bytes_are_copied_if_they_fit_into_a_window(void)
{
    for (size_t n = 65535; n < 65538; n++) {
        struct graph g;
        buf b;
        buf_init(&b, SIZE_MAX);
        buf_byte(&b, 'B');
        buf_u32le(&b, (uint32_t)n);
        put_repeated(&b, "\xff", 1, n);
        buf_put_cstr(&b, "K\x05\x86.");
        graph_read(&g, b.data, b.len);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        const ckpt_value *v = g.root->u.seq.items[0];
        CU_ASSERT_EQUAL((v->flags & VALUE_SPAN) != 0, n > 65536);
        CU_ASSERT_EQUAL(v->flags & VALUE_SPAN ? v->u.span->count : v->u.str.len, n);
        graph_free(&g);
        graph_read(&g, b.data, n); /* the data are truncated */
        CU_ASSERT_EQUAL(g.status, CKPT_ETRUNCATED);
        graph_free(&g);
        buf_free(&b);
    }
}

static void opcodes_may_cross_windows(void)
{
    struct graph g;
    buf b;
    buf_init(&b, SIZE_MAX);
    buf_byte(&b, '(');
    for (unsigned i = 0; i < 40000; i++) {
        buf_put_cstr(&b, "cmodule.name\nclass\n)RM");
        buf_u16le(&b, (uint16_t)i);
    }
    buf_put_cstr(&b, "t.");
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(g.root->u.seq.n, 80000);
    bool as_expected = true;
    for (unsigned i = 0; i < 40000; i++) {
        const ckpt_value *call = g.root->u.seq.items[2 * i], *number = g.root->u.seq.items[2 * i + 1];
        as_expected = as_expected && value_calls(call, "module.name", "class", 0) &&
                      number->u.i == (int64_t)i &&
                      value_offset(call) == 1 + i * 24 + 20; /* of these 24 bytes, REDUCE is byte 20 */
    }
    CU_ASSERT(as_expected);
    CU_ASSERT_EQUAL(g.facts.ncalls, 40000);
    graph_free(&g);
    buf_free(&b);
}

static void long_lines_are_refused(void)
{
    struct graph g;
    buf b;
    buf_init(&b, SIZE_MAX);
    buf_byte(&b, 'c');
    put_repeated(&b, "m", 1, 4097);
    buf_put_cstr(&b, "\nn\n.");
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL(g.status, CKPT_EFORMAT);
    CU_ASSERT(error_contains(&g, "GLOBAL has a line of more than 4096 bytes"));
    graph_free(&g);
    b.data[1] = 'c'; /* a line of 4096 bytes is allowed */
    graph_read(&g, b.data + 1, b.len - 1);
    CU_ASSERT_EQUAL(g.status, CKPT_OK);
    graph_free(&g);
    buf_free(&b);
    buf_init(&b, SIZE_MAX);
    buf_byte(&b, 'L');
    put_repeated(&b, "7", 1, 65536);
    buf_put_cstr(&b, "\n.");
    graph_read(&g, b.data, b.len);
    CU_ASSERT(error_contains(&g, "LONG has a line of more than 65535 bytes"));
    graph_free(&g);
    buf_free(&b);
    buf_init(&b, SIZE_MAX); /* UNICODE has no limit: in protocol 0 its line may be an array */
    buf_put_cstr(&b, "V");
    put_repeated(&b, "\\u0041\xe9", 7, 100000);
    buf_put_cstr(&b, "\n.");
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    CU_ASSERT_EQUAL(g.root->u.str.len, 300000);
    CU_ASSERT(memcmp(g.root->u.str.ptr + 299997, "A\xc3\xa9", 3) == 0);
    graph_free(&g);
    buf_free(&b);
}

static void integers_of_any_size_are_read(void)
{
    unsigned char out[4400];
    struct graph g;
    buf b;
    CU_ASSERT_EQUAL(pickle_text_bigint(STR_LIT("340282366920938463463374607431768211456"), out),
                    17); /* 2^128 */
    CU_ASSERT(out[16] == 1 && out[15] == 0 && out[0] == 0);
    CU_ASSERT_EQUAL(pickle_text_bigint(STR_LIT("-0x80000000000000000000"), out), 10);
    CU_ASSERT(out[9] == 0x80 && out[8] == 0);
    CU_ASSERT_EQUAL(pickle_text_bigint(STR_LIT("0o7777777777777777777777777"), out), 10);
    CU_ASSERT(out[9] == 7 && out[8] == 0xff && out[0] == 0xff);
    char digits[4302];
    memset(digits, '9', sizeof digits);
    /* 10^4300 - 1 has 14285 bits, which are 1786 bytes; Python refuses integers of more digits */
    CU_ASSERT_EQUAL(pickle_text_bigint(str_of(digits, 4300), out), 1786);
    CU_ASSERT_EQUAL(pickle_text_bigint(str_of(digits, 4301), out), PICKLE_TEXT_BAD);
    buf_init(&b, SIZE_MAX); /* a LONG4 larger than a window */
    buf_put_cstr(&b, "\x8b");
    buf_u32le(&b, 100001);
    put_repeated(&b, "\x80", 1, 100000);
    buf_put_cstr(&b, "\x7f.");
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    CU_ASSERT_EQUAL(g.root->type, CKPT_V_BIGINT);
    CU_ASSERT_EQUAL(g.root->u.str.len, 100001);
    graph_free(&g);
    b.data[b.len - 2] = 0xff; /* -1 in 100001 bytes becomes a small int */
    memset(b.data + 5, 0xff, 100000);
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL(g.status, CKPT_OK);
    CU_ASSERT_STRING_EQUAL(graph_text(g.root), "-1");
    graph_free(&g);
    buf_free(&b);
}

/* ------------------------------------------------------------------ memory */

static void nested_shared_lists_stay_small(void)
{
    struct graph g;
    buf b;
    buf_init(&b, SIZE_MAX);
    buf_put_cstr(&b, "]");
    put_repeated(&b, "2\x86", 2, 5000); /* 2^5000 lists if shared lists were copied */
    buf_put_cstr(&b, ".");
    graph_read(&g, b.data, b.len);
    CU_ASSERT_EQUAL(g.status, CKPT_OK);
    CU_ASSERT(arena_used(g.a) < 5000 * 64);
    CU_ASSERT(g.root->u.seq.items[0] == g.root->u.seq.items[1]);
    CU_ASSERT(g.root->u.seq.items[0]->flags & VALUE_SHARED);
    CU_ASSERT(!(g.root->flags & VALUE_SHARED));
    graph_free(&g);
    buf_free(&b);
}

static void a_memo_of_distant_indices_stays_small(void)
{
    struct graph g;
    buf b;
    buf_init(&b, SIZE_MAX);
    buf_byte(&b, ']');
    for (uint32_t i = 0; i < 2000; i++) {
        buf_byte(&b, 'r');
        buf_u32le(&b, UINT32_MAX - i * 1000003u);
    }
    buf_put_cstr(&b, "0j");
    buf_u32le(&b, UINT32_MAX - 1999 * 1000003u);
    buf_byte(&b, '.');
    graph_read_limited(&g, b.data, b.len, 1 << 16, 0);
    CU_ASSERT_EQUAL(g.status, CKPT_OK);
    CU_ASSERT_EQUAL(g.root->type, CKPT_V_LIST);
    graph_free(&g);
    buf_free(&b);
}

/* HOOKS - makes an OrderedDict(), puts it in the memo as I and in a tuple. */
#define HOOKS(i)  "h\0)Rq" i "\x85"
#define TWO_HOOKS "\x80\2ccollections\nOrderedDict\nq\0(" HOOKS("\1") HOOKS("\2")

static void empty_hooks_share_a_node(void)
{
    struct graph g;
    graph_read(&g, TWO_HOOKS "t.", sizeof TWO_HOOKS "t." - 1);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    const ckpt_value *first = value_item(value_item(g.root, 0), 0);
    CU_ASSERT_PTR_EQUAL(value_item(value_item(g.root, 1), 0), first);
    CU_ASSERT(value_is_global(first->u.call.callable, "collections", "OrderedDict"));
    CU_ASSERT_EQUAL(first->flags & VALUE_SHARED, 0); /* so a rewrite makes one for each tensor */
    graph_free(&g);
}

static void hooks_in_the_memo_are_distinguished(void)
{
    static const char pickle[] = TWO_HOOKS "h\1h\0K\1s0t.";
    struct graph g;
    uint32_t n;
    graph_read(&g, pickle, sizeof pickle - 1);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    const ckpt_value *first = value_item(value_item(g.root, 0), 0),
                     *second = value_item(value_item(g.root, 1), 0);
    CU_ASSERT_PTR_NOT_EQUAL(first, second);
    CU_ASSERT(first->flags & VALUE_SHARED && !(second->flags & VALUE_SHARED));
    CU_ASSERT(value_pairs(first, &n) && n == 1);
    CU_ASSERT_EQUAL(g.facts.ncalls, 2);
    graph_free(&g);
}

static void facts_are_collected_in_order(void)
{
    static const char pickle[] = "\x80\x04]K\x01"
                                 "acm\nA\n)R(K\x01K\x02ucm\nB.C\n)\x81}b\x86Q0N0h";
    struct graph g;
    graph_read(&g, pickle, sizeof pickle - 1); /* the pickle is truncated, but its facts are kept */
    CU_ASSERT_EQUAL(g.status, CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(g.facts.protocol, 4);
    CU_ASSERT_EQUAL_FATAL(g.facts.nglobals, 2);
    CU_ASSERT_EQUAL(value_offset(g.facts.globals[0]), 6);
    CU_ASSERT_EQUAL(g.facts.globals[1]->flags, VALUE_DOTTED | VALUE_PYTHON3_NAME);
    CU_ASSERT_EQUAL_FATAL(g.facts.ncalls, 2);
    CU_ASSERT_EQUAL(value_call_kind_of(g.facts.calls[1]), CALL_NEWOBJ);
    CU_ASSERT_EQUAL_FATAL(g.facts.nmutations, 2); /* APPEND to the list is not counted */
    CU_ASSERT_EQUAL(g.facts.mutations[0].opcode, PICKLE_SETITEMS);
    CU_ASSERT_EQUAL(g.facts.mutations[0].target, g.facts.calls[0]);
    CU_ASSERT_EQUAL(g.facts.mutations[1].opcode, PICKLE_BUILD);
    CU_ASSERT_EQUAL_FATAL(g.facts.npersids, 1);
    CU_ASSERT_EQUAL(g.facts.first_use['c'], 6);
    CU_ASSERT_EQUAL(g.facts.first_use['K'], 3);
    CU_ASSERT_EQUAL(g.facts.first_use['h'], sizeof pickle - 2);
    CU_ASSERT_EQUAL(g.facts.first_use['X'], UINT64_MAX);
    graph_free(&g);
    graph_read(&g, BYTES("\x80\x02"
                         "cm\nB.C\n."));
    CU_ASSERT_EQUAL(g.root->flags, 0); /* before protocol 4, a dot is part of the name */
    graph_free(&g);
    graph_read(&g, BYTES("cm\nn\n)R](K\x01"
                         "eN\x86"
                         "b.")); /* the list in the state has an item, the object has none */
    CU_ASSERT_EQUAL(value_extra_of(g.root)->entries_before_build, 0);
    graph_free(&g);
    graph_read(&g, BYTES("]Nb."));
    CU_ASSERT_EQUAL(g.root->flags, VALUE_NOT_REWRITABLE);
    CU_ASSERT_EQUAL(g.facts.nmutations, 1);
    graph_free(&g);
}

/* A state dict that is written as torch.save does. */
struct state_dict {
    buf out;
    unsigned char nputs;
};

static void put_memo(struct state_dict *dict)
{
    buf_byte(&dict->out, PICKLE_BINPUT);
    buf_byte(&dict->out, dict->nputs++);
}

static void put_memoized(struct state_dict *dict, ckpt_str opcodes)
{
    buf_put_str(&dict->out, opcodes);
    put_memo(dict);
}

/* put_once - writes OPCODES and PUT for the first tensor, GET of memo entry INDEX for the others. */
static void put_once(struct state_dict *dict, bool first, ckpt_str opcodes, unsigned char index)
{
    if (first) {
        put_memoized(dict, opcodes);
    } else {
        buf_byte(&dict->out, PICKLE_BINGET);
        buf_byte(&dict->out, index);
    }
}

/* put_tensor - writes the tensor DIGIT, whose size and stride are pushed by the opcodes SIZES. */
static void put_tensor(struct state_dict *dict, char digit, ckpt_str sizes)
{
    bool first = dict->nputs == 1;
    const char key[] = {PICKLE_BINUNICODE, 1, 0, 0, 0, digit};
    put_memoized(dict, str_of(key, sizeof key));
    put_once(dict, first, STR_LIT("ctorch._utils\n_rebuild_tensor_v2\n"), 2);
    buf_put_cstr(&dict->out, "((");
    put_once(dict, first, STR_LIT("X\7\0\0\0storage"), 3);
    put_once(dict, first, STR_LIT("ctorch\nFloatStorage\n"), 4);
    put_memoized(dict, str_of(key, sizeof key));
    put_once(dict, first, STR_LIT("X\3\0\0\0cpu"), 6);
    put_memoized(dict, STR_LIT("M\1\2t"));
    buf_put_cstr(&dict->out, "QK\1");
    put_memoized(dict, sizes);
    put_memoized(dict, sizes);
    buf_byte(&dict->out, first ? PICKLE_NEWTRUE : PICKLE_NEWFALSE);
    put_once(dict, first, STR_LIT("ccollections\nOrderedDict\n"), 10);
    put_memoized(dict, STR_LIT(")R"));
    put_memoized(dict, STR_LIT("t"));
    put_memoized(dict, STR_LIT("R"));
}

#define FRAME_SIZE 9u /* a FRAME and its length */

/* make_state_dict - writes four tensors. If IS_FRAMED, they are in a FRAME: then no opcodes are read at
 * once. */
static struct state_dict make_state_dict(bool is_framed)
{
    struct state_dict dict = {.nputs = 0};
    const char text[256] = {PICKLE_BINUNICODE, 251 - 256}; /* what follows a tensor must not be short */
    buf_init(&dict.out, 4096);
    buf_put_cstr(&dict.out, "\x80\x02");
    if (is_framed)
        buf_put_str(&dict.out, STR_LIT("\x95\0\0\0\0\0\0\0\0"));
    put_memoized(&dict, STR_LIT("}"));
    buf_put_cstr(&dict.out, "(");
    put_tensor(&dict, '0', STR_LIT("K\2K\3\x86"));
    put_tensor(&dict, '1', STR_LIT("K\5\x85"));
    put_tensor(&dict, '2', STR_LIT("M\2\1K\1K\5\x87"));
    put_tensor(&dict, '3', STR_LIT("K\2K\3\x86"));
    buf_put_cstr(&dict.out, "N");
    buf_put(&dict.out, text, sizeof text);
    buf_put_cstr(&dict.out, "u.");
    if (is_framed)
        store_u64le(dict.out.data + 3, dict.out.len - 2 - FRAME_SIZE);
    return dict;
}

static bool have_same_offsets(ckpt_value *const *nodes, size_t count, ckpt_value *const *framed)
{
    for (size_t i = 0; i < count; i++)
        if (value_offset(nodes[i]) + FRAME_SIZE != value_offset(framed[i]))
            return false;
    return true;
}

static void compare_with_framed(const struct graph *g, const struct graph *framed)
{
    const struct pickle_facts *facts = &g->facts, *others = &framed->facts;
    CU_ASSERT_EQUAL(g->status, framed->status);
    CU_ASSERT_EQUAL(facts->ncalls, others->ncalls);
    CU_ASSERT_EQUAL(facts->npersids, others->npersids);
    for (size_t op = 0; op < 256; op++)
        if (op != 0x80 && op != 0x95)
            CU_ASSERT(facts->first_use[op] == others->first_use[op] ||
                      facts->first_use[op] + FRAME_SIZE == others->first_use[op]);
    if (g->status != CKPT_OK || framed->status != CKPT_OK) {
        CU_ASSERT_EQUAL(g->err.offset + FRAME_SIZE, framed->err.offset);
        return;
    }
    CU_ASSERT(have_same_offsets(facts->calls, facts->ncalls, others->calls));
    CU_ASSERT(have_same_offsets(facts->persids, facts->npersids, others->persids));
    ckpt_str text = arena_str(g->a, str_c(graph_text(g->root)));
    CU_ASSERT(str_is(text, graph_text(framed->root)));
}

/* What reads the opcodes of a tensor at once makes the same nodes as reading each by itself, whatever byte
 * of them differs. */
static void tensors_are_read_opcode_by_opcode(void)
{
    struct state_dict dict = make_state_dict(false), framed = make_state_dict(true);
    for (size_t at = 2; at < dict.out.len; at++)
        for (unsigned mask = 0; mask < 256; mask = mask == 0 ? 1 : mask < 128 ? mask * 2 : mask + 127) {
            struct graph g, other;
            unsigned char byte = dict.out.data[at];
            if ((byte ^ mask) == PICKLE_FRAME)
                continue;
            dict.out.data[at] = framed.out.data[at + FRAME_SIZE] = (unsigned char)(byte ^ mask);
            graph_read(&g, dict.out.data, dict.out.len);
            graph_read(&other, framed.out.data, framed.out.len);
            compare_with_framed(&g, &other);
            graph_free(&g);
            graph_free(&other);
            dict.out.data[at] = framed.out.data[at + FRAME_SIZE] = byte;
        }
    buf_free(&dict.out);
    buf_free(&framed.out);
}

static void equal_names_share_one_node(void)
{
    struct graph g;
    graph_read(&g, BYTES("(cm\nn\ncm\nn\nU\x01mU\x01mX\x01\x00\x00\x00mcm\na.b\n\x80\x04"
                         "cm\na.b\nt."));
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    ckpt_value **items = g.root->u.seq.items;
    CU_ASSERT_EQUAL_FATAL(g.root->u.seq.n, 7);
    CU_ASSERT(items[0] == items[1] && items[2] == items[3]);
    CU_ASSERT(items[3] != items[4]); /* a str of Python 2 is another type */
    CU_ASSERT(items[5] != items[6]); /* protocol 4 looks up a.b as an attribute */
    CU_ASSERT_EQUAL(g.facts.nglobals, 3);
    graph_free(&g);
}

static void a_pickle_ends_at_its_stop(void)
{
    static const char two_pickles[] = "K\x01.K\x02.";
    source *s = source_mem(two_pickles, sizeof two_pickles - 1, 0);
    arena *a = arena_new(UINT64_MAX);
    ckpt_value *v;
    uint64_t next = 0;
    ckpt_error err;
    CU_ASSERT_EQUAL(pickle_read(a, s, next, s->size, NULL, &v, &next, &err), CKPT_OK);
    CU_ASSERT(next == 3 && v->u.i == 1);
    CU_ASSERT_EQUAL(pickle_read(a, s, next, s->size, NULL, &v, &next, &err), CKPT_OK);
    CU_ASSERT(next == 6 && v->u.i == 2 && value_offset(v) == 3);
    /* the STOP at 2 is beyond the end that is given */
    CU_ASSERT_EQUAL(pickle_read(a, s, 0, 2, NULL, &v, &next, &err), CKPT_ETRUNCATED);
    arena_free(a);
    source_unref(s);
}

void suite_pickle_read(void)
{
    UNIT(valid_programs_have_all_opcodes);
    UNIT(malformed_pickles_are_refused);
    UNIT(an_empty_stack_is_reported_as_underflow);
    UNIT(every_prefix_is_refused);
    UNIT(every_changed_byte_is_read_safely);
    UNIT(failing_allocations_are_reported);
    UNIT(large_text_stays_in_the_file);
    UNIT(bytes_are_copied_if_they_fit_into_a_window);
    UNIT(opcodes_may_cross_windows);
    UNIT(long_lines_are_refused);
    UNIT(integers_of_any_size_are_read);
    UNIT(nested_shared_lists_stay_small);
    UNIT(a_memo_of_distant_indices_stays_small);
    UNIT(empty_hooks_share_a_node);
    UNIT(hooks_in_the_memo_are_distinguished);
    UNIT(facts_are_collected_in_order);
    UNIT(tensors_are_read_opcode_by_opcode);
    UNIT(equal_names_share_one_node);
    UNIT(a_pickle_ends_at_its_stop);
}
