/* Graphs are written as the expected bytes, and these are read as the same graphs. */
#include <stdlib.h>

#include "base/cursor.h"
#include "base/map.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_write.h"
#include "graph.h"
#include "unit.h"

#define BYTES(text) "" text, sizeof(text) - 1 /* a pointer and a size */
#define NO_ENTRY    UINT32_MAX
#define PROTO_SIZE  2u /* size of the opcode PROTO and its argument */

static const struct {
    const char *in; /* the pickle that is read */
    size_t in_size;
    const char *out; /* the bytes that are written after PROTO 2 */
    size_t out_size;
} exact_pickles[] = {
    /* numbers and text get the shortest opcode of protocol 2 */
    {BYTES("N."), BYTES("N.")},
    {BYTES("I01\n."), BYTES("\x88.")},
    {BYTES("I00\n."), BYTES("\x89.")},
    {BYTES("I255\n."), BYTES("K\xff.")},
    {BYTES("I256\n."), BYTES("M\x00\x01.")},
    {BYTES("I65536\n."), BYTES("J\x00\x00\x01\x00.")},
    {BYTES("I-1\n."), BYTES("J\xff\xff\xff\xff.")},
    {BYTES("I-2147483648\n."), BYTES("J\x00\x00\x00\x80.")},
    {BYTES("I2147483648\n."), BYTES("\x8a\x05\x00\x00\x00\x80\x00.")},
    {BYTES("I-2147483649\n."), BYTES("\x8a\x05\xff\xff\xff\x7f\xff.")},
    {BYTES("I9223372036854775807\n."), BYTES("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.")},
    {BYTES("I9223372036854775808\n."), BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.")},
    {BYTES("F1.5\n."), BYTES("G\x3f\xf8\x00\x00\x00\x00\x00\x00.")},
    {BYTES("\x8c\x02\xc3\xa9."), BYTES("X\x02\x00\x00\x00\xc3\xa9.")},
    {BYTES("S'\\xff'\n."), BYTES("U\x01\xff.")},
    {BYTES(")."), BYTES(").")},
    {BYTES("(K\x01t."), BYTES("K\x01\x85.")},
    /* tuples of up to three items need no MARK; one item is added by APPEND, several are added by APPENDS */
    {BYTES("(K\x01K\x02K\x03K\x04t."), BYTES("(K\x01K\x02K\x03K\x04t.")},
    {BYTES("(K\x01l."), BYTES("]K\x01"
                              "a.")},
    {BYTES("]K\x01"
           "aK\x02"
           "a."),
     BYTES("](K\x01K\x02"
           "e.")},
    {BYTES("(K\x01Nd."), BYTES("}K\x01Ns.")},
    {BYTES("}K\x01NsK\x02Ns."), BYTES("}(K\x01NK\x02Nu.")},
    {BYTES("(K\x01K\x02Q\x85t."), BYTES("K\x01K\x02Q\x85\x86.")},
    /* only values that repeat are put into the memo */
    {BYTES("]q\x00q\x05."), BYTES("].")},
    {BYTES("]q\x07h\x07\x86."), BYTES("]q\x00h\x00\x86.")},
    {BYTES("(\x8c\x01z\x8c\x01zU\x01zU\x01zt."), BYTES("(X\x01\x00\x00\x00zq\x00h\x00U\x01zq\x01h\x01t.")},
    {BYTES("cm\nn\ncm\nn\n\x86."), BYTES("cm\nn\nq\x00h\x00\x86.")},
    {BYTES("K\x01\x85q\x00h\x00h\x00\x87."), BYTES("K\x01\x85q\x00h\x00h\x00\x87.")},
    /* calls, with items and BUILD in the order of the file */
    {BYTES("cm\nn\n)R."), BYTES("cm\nn\n)R.")},
    {BYTES("cm\nn\nK\x01\x85\x81}b."), BYTES("cm\nn\nK\x01\x85\x81}b.")},
    {BYTES("cm\nn\n)R}b(K\x01Nu."), BYTES("cm\nn\n)R}bK\x01Ns.")},
    {BYTES("cm\nn\n)RK\x01Ns}bK\x04Ns."), BYTES("cm\nn\n)RK\x01Ns}bK\x04Ns.")},
    {BYTES("cm\nn\n)RN\x61}bK\x04\x61."), BYTES("cm\nn\n)RN\x61}bK\x04\x61.")},
    {BYTES("cm\nn\n)}\x92."), BYTES("ccopyreg\n__newobj_ex__\ncm\nn\n)}\x87R.")},
    {BYTES("(K\x01im\nn\n."), BYTES("(cm\nn\nK\x01o.")},
    {BYTES("(cm\nn\no."), BYTES("(cm\nn\no.")},
    /* types that protocol 2 has no opcode for */
    {BYTES("C\x02z\xff."),
     BYTES("c_codecs\nencode\nX\x03\x00\x00\x00z\xc3\xbfX\x06\x00\x00\x00latin1\x86R.")},
    {BYTES("C\x00."), BYTES("c_codecs\nencode\nX\x00\x00\x00\x00X\x06\x00\x00\x00latin1\x86R.")},
    {BYTES("\x8c\x02\xc3\xbf"
           "C\x01\xff\x86."),
     BYTES("X\x02\x00\x00\x00\xc3\xbfq\x00"
           "c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R\x86.")},
    {BYTES("\x96\x00\x00\x00\x00\x00\x00\x00\x00."), BYTES("c__builtin__\nbytearray\n)R.")},
    {BYTES("\x96\x01\x00\x00\x00\x00\x00\x00\x00z."),
     BYTES(
         "c__builtin__\nbytearray\nc_codecs\nencode\nX\x01\x00\x00\x00zX\x06\x00\x00\x00latin1\x86R\x85R.")},
    {BYTES("\x8f(K\x01K\x02\x90."), BYTES("c__builtin__\nset\n](K\x01K\x02"
                                          "e\x85R.")},
    {BYTES("(K\x01\x91."), BYTES("c__builtin__\nfrozenset\n]K\x01"
                                 "a\x85R.")},
    /* a dotted name of protocol 4 is written as getattr(); in earlier protocols, a dot is part of the name */
    {BYTES("\x80\x04\x8c\x01m\x8c\x05"
           "A.B.C\x93."),
     BYTES("c__builtin__\ngetattr\nq\x00h\x00"
           "cm\nA\nX\x01\x00\x00\x00"
           "B\x86RX\x01\x00\x00\x00"
           "C\x86R.")},
    {BYTES("\x80\x02"
           "cm\nA.B\n."),
     BYTES("cm\nA.B\n.")},
    {BYTES("\x80\x02"
           "cm\n\xff.\xff\n."),
     BYTES("cm\n\xff.\xff\n.")},
    /* values that contain themselves */
    {BYTES("]q\x00h\x00"
           "a."),
     BYTES("]q\x00h\x00"
           "a.")},
    {BYTES("]q\x00h\x00\x85q\x01"
           "a0h\x01."),
     BYTES("]q\x00h\x00\x85q\x01"
           "a0h\x01.")},
    {BYTES("]q\x00(h\x00NNNtq\x01"
           "a0h\x01."),
     BYTES("(]q\x00(h\x00NNNtq\x01"
           "aNNN1h\x01.")},
    {BYTES("\x8fq\x00(cm\nn\n)\x81}K\x01h\x00sb\x90."),
     BYTES("c__builtin__\nset\nq\x00]cm\nn\n)\x81q\x01}K\x01h\x00]h\x01"
           "a\x85Rq\x02sba00h\x02.")},
};

/* write_graph - pickles ROOT to OUT, which the caller frees, even after a failure. */
static ckpt_status write_graph(const ckpt_value *root, const struct pickle_hooks *hooks, buf *out,
                               ckpt_error *err)
{
    buf_init(out, SIZE_MAX);
    ckpt_status st = pickle_write(root, hooks, out, err);
    CU_ASSERT(st != CKPT_OK || (out->len > 3 && memcmp(out->data, "\x80\x02", 2) == 0));
    return st;
}

static void print_bytes(const char *what, const void *bytes, size_t n)
{
    printf("\n    %s ", what);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = ((const unsigned char *)bytes)[i];
        printf(c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
}

/* check_bytes - checks that OUT is PROTO 2 and the N bytes WANT. */
static void check_bytes(const buf *out, const void *want, size_t n)
{
    bool same = out->len == PROTO_SIZE + n && memcmp(out->data + PROTO_SIZE, want, n) == 0;
    if (!same) {
        print_bytes("expected", want, n);
        print_bytes("got     ", out->data + PROTO_SIZE, out->len - PROTO_SIZE);
    }
    CU_ASSERT(same);
}

static void graphs_are_written_as_the_expected_bytes(void)
{
    for (size_t i = 0; i < sizeof exact_pickles / sizeof *exact_pickles; i++) {
        struct graph g, reread;
        ckpt_error err;
        buf out, rewritten;
        graph_read(&g, exact_pickles[i].in, exact_pickles[i].in_size);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        CU_ASSERT_EQUAL(write_graph(g.root, NULL, &out, &err), CKPT_OK);
        check_bytes(&out, exact_pickles[i].out, exact_pickles[i].out_size);
        graph_read(&reread, out.data, out.len); /* the output must be readable and writable again */
        CU_ASSERT_EQUAL_FATAL(reread.status, CKPT_OK);
        CU_ASSERT_EQUAL(write_graph(reread.root, NULL, &rewritten, &err), CKPT_OK);
        graph_free(&reread);
        graph_read(&reread, rewritten.data, rewritten.len);
        CU_ASSERT_EQUAL(reread.status, CKPT_OK);
        graph_free(&reread);
        buf_free(&out);
        buf_free(&rewritten);
        graph_free(&g);
    }
}

static void graphs_that_protocol_2_cannot_hold_are_refused(void)
{
    static const struct {
        const char *pickle;
        size_t size;
        const char *words; /* words of the error message */
    } refused_graphs[] = {
        {BYTES("]Nb."), "changed by BUILD"},
        {BYTES("\x80\x03"
               "ccommands\nT\n."),
         "it would be 'T' of 'subprocess'"},
        {BYTES("\x80\x04\x8c\x09itertools\x8c\x04izip\x93."), "'zip' of 'builtins'"},
        {BYTES("cm\nn\nNb\x85."), "changed by BUILD"},
        {BYTES("cm\nn\n)R(N\x90."), "ADDITEMS"},
        {BYTES("cm\nn\n)R}bK\x01Ns}b."), "then by BUILD again"},
        {BYTES("cm\nn\n)RN\x61NNs}bN\x61."), "both before and after its BUILD"},
        {BYTES("\x80\x04\x8c\x01m\x8c\x02.n\x93."), "one of the two is empty"},
        {BYTES("\x8c\x03m\nm\x8c\x01n\x93."), "a newline is in it"},
        /* a set with an object whose argument is the set */
        {BYTES("\x8fq\x00(cm\nn\nh\x00\x85R\x90."), "contains itself in a way"},
    };
    for (size_t i = 0; i < sizeof refused_graphs / sizeof *refused_graphs; i++) {
        struct graph g;
        ckpt_error err;
        buf out;
        graph_read(&g, refused_graphs[i].pickle, refused_graphs[i].size);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        CU_ASSERT_EQUAL(write_graph(g.root, NULL, &out, &err), CKPT_ELOSSY);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, refused_graphs[i].words));
        buf_free(&out);
        graph_free(&g);
    }
}

static void items_are_appended_in_batches_of_a_thousand(void)
{
    for (unsigned n = 999; n <= 2001; n += 501) {
        struct graph g;
        ckpt_error err;
        buf in, out;
        unsigned appends_opcodes = 0, append_opcodes = 0;
        buf_init(&in, SIZE_MAX);
        buf_put_cstr(&in, "](");
        for (unsigned i = 0; i < n; i++)
            buf_put_cstr(&in, "N");
        buf_put_cstr(&in, "e.");
        graph_read(&g, in.data, in.len);
        CU_ASSERT_EQUAL(write_graph(g.root, NULL, &out, &err), CKPT_OK);
        for (size_t i = PROTO_SIZE; i < out.len; i++) {
            appends_opcodes += out.data[i] == PICKLE_APPENDS;
            append_opcodes += out.data[i] == PICKLE_APPEND;
        }
        CU_ASSERT_EQUAL(appends_opcodes, n <= 1000 ? 1 : 2);
        CU_ASSERT_EQUAL(append_opcodes, n == 2001); /* the last item, after two batches */
        graph_free(&g);
        buf_free(&in);
        buf_free(&out);
    }
}

/* ------------------------------------------------------------------- hooks */

/* The changes that the hooks make: one entry of CONTAINER is dropped, another gets NEW_NAME, and REPLACEMENT
 * is written instead of REPLACED. */
struct edits {
    const ckpt_value *container;
    uint32_t dropped_entry, renamed_entry; /* indices, or NO_ENTRY */
    const char *new_name;
    const ckpt_value *replaced, *replacement;
};

static const ckpt_value *replace_node(void *user, const ckpt_value *v)
{
    const struct edits *e = user;
    return v == e->replaced ? e->replacement : v;
}

static bool edit_entry(void *user, const ckpt_value *v, uint32_t i, ckpt_str *text)
{
    const struct edits *e = user;
    CU_ASSERT_PTR_NULL(text->ptr);
    if (v == e->container && i == e->renamed_entry)
        *text = str_c(e->new_name);
    return v != e->container || i != e->dropped_entry;
}

/* write_leaf - writes a persistent id as ("k", "k", m.n, True, 2^64 - 1), and fails if the id is None. */
static ckpt_status write_leaf(void *user, pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    char key[8] = "k";
    (void)user;
    if (v->u.pid->type == CKPT_V_NONE)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "no such storage");
    pickle_put_op(w, PICKLE_MARK);
    pickle_put_text(w, str_c(key));
    memset(key, 'x', sizeof key); /* pickle_put_text() must have copied the key */
    pickle_put_text(w, STR_LIT("k"));
    pickle_put_global(w, STR_LIT("m"), STR_LIT("n"));
    pickle_put_bool(w, true);
    pickle_put_uint(w, UINT64_MAX);
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_BINPERSID);
    return CKPT_OK;
}

/* check_edit - checks that the pickle IN is written as WANT if DROPPED_ENTRY of its root is dropped and
 * RENAMED_ENTRY gets the name "z". */
static void check_edit(const char *in, size_t n, uint32_t dropped_entry, uint32_t renamed_entry,
                       const char *want, size_t want_size)
{
    struct graph g;
    ckpt_error err;
    buf out;
    graph_read(&g, in, n);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    struct edits e = {
        .container = g.root, .dropped_entry = dropped_entry, .renamed_entry = renamed_entry, .new_name = "z"};
    struct pickle_hooks hooks = {
        .user = &e, .replace = replace_node, .keep_entry = edit_entry, .write_leaf = write_leaf};
    CU_ASSERT_EQUAL(write_graph(g.root, &hooks, &out, &err), CKPT_OK);
    check_bytes(&out, want, want_size);
    buf_free(&out);
    graph_free(&g);
}

static void hooks_edit_every_container(void)
{
    check_edit(BYTES("}(\x8c\x01gK\x01K\x02K\x03u."), NO_ENTRY, 0,
               BYTES("}(X\x01\x00\x00\x00zK\x01K\x02K\x03u."));
    check_edit(BYTES("}(U\x01gK\x01K\x02K\x03u."), 1, 0,
               BYTES("}U\x01zK\x01s.")); /* z is a str of Python 2, too */
    check_edit(BYTES("}(K\x01NK\x02Nu."), 0, NO_ENTRY, BYTES("}K\x02Ns."));
    check_edit(BYTES("}K\x01Ns."), 0, NO_ENTRY, BYTES("}."));
    check_edit(BYTES("](K\x01K\x02K\x03"
                     "e."),
               1, 0,
               BYTES("](X\x01\x00\x00\x00zK\x03"
                     "e."));
    check_edit(BYTES("K\x01K\x02\x86."), 1, 0, BYTES("X\x01\x00\x00\x00z\x85."));
    check_edit(BYTES("K\x01\x85."), 0, NO_ENTRY, BYTES(")."));
    check_edit(BYTES("(K\x01K\x02K\x03K\x04t."), 3, 0, BYTES("(X\x01\x00\x00\x00zK\x02K\x03t."));
    check_edit(BYTES("\x8f(K\x01K\x02\x90."), 0, 1, BYTES("c__builtin__\nset\n]X\x01\x00\x00\x00za\x85R."));
    check_edit(BYTES("cm\nn\n)R(K\x01K\x02K\x03K\x04u."), 0, 1, BYTES("cm\nn\n)RX\x01\x00\x00\x00zK\x04s."));
    check_edit(BYTES("cm\nn\n)R(K\x01K\x02"
                     "e."),
               0, 1,
               BYTES("cm\nn\n)RX\x01\x00\x00\x00z"
                     "a."));
    /* the entries of an object with pairs are its pairs, not its items */
    check_edit(BYTES("cm\nn\n)R(K\x01K\x02"
                     "eK\x03K\x04s."),
               0, 1,
               BYTES("cm\nn\n)R(K\x01K\x02"
                     "e."));
    /* a shared value is written in full at its second use when the first is dropped */
    check_edit(BYTES("}(K\x01]q\x00(K\x05K\x06"
                     "eK\x02h\x00u."),
               0, NO_ENTRY,
               BYTES("}K\x02](K\x05K\x06"
                     "es."));
}

static void persistent_ids_are_written_by_the_leaf_hook(void)
{
    check_edit(
        BYTES("K\x01Qq\x00h\x00K\x02Q\x87."), NO_ENTRY, NO_ENTRY,
        BYTES("(X\x01\x00\x00\x00kq\x00h\x00"
              "cm\nn\nq\x02\x88\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00tQq\x01h\x01(h\x00h\x00h\x02\x88"
              "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00tQ\x87."));
    struct graph g;
    ckpt_error err;
    buf out;
    struct pickle_hooks hooks = {.write_leaf = write_leaf};
    graph_read(&g, BYTES("]NQa."));
    CU_ASSERT_EQUAL(write_graph(g.root, &hooks, &out, &err), CKPT_ELOSSY);
    CU_ASSERT_STRING_EQUAL(err.what, "no such storage");
    buf_free(&out);
    ckpt_value *tensor = value_new(g.a, CKPT_V_TENSOR, 0); /* cannot be written without the hook */
    CU_ASSERT_EQUAL(write_graph(tensor, NULL, &out, &err), CKPT_ELOSSY);
    buf_free(&out);
    graph_free(&g);
}

static void a_shared_value_is_replaced_by_one_shared_value(void)
{
    struct graph g;
    ckpt_error err;
    buf out;
    graph_read(&g, BYTES("cm\nn\n)Rq\x00h\x00\x86."));
    struct edits e = {.replaced = g.root->u.seq.items[0], .replacement = value_ordered_dict(g.a)};
    struct pickle_hooks hooks = {.user = &e, .replace = replace_node};
    CU_ASSERT_EQUAL(write_graph(g.root, &hooks, &out, &err), CKPT_OK);
    check_bytes(&out, BYTES("ccollections\nOrderedDict\n)Rq\x00h\x00\x86."));
    buf_free(&out);
    graph_free(&g);
}

/* ------------------------------------------------------------------- sizes */

/* A text of 200,000 bytes, and a second reference to the text. */
static void large_text_is_streamed(void)
{
    static const char ops[] = {PICKLE_BINUNICODE, PICKLE_BINSTRING, PICKLE_BINBYTES};
    for (size_t k = 0; k < 3; k++) {
        struct graph g, reread;
        ckpt_error err;
        buf in, out;
        buf_init(&in, SIZE_MAX);
        buf_byte(&in, (unsigned char)ops[k]);
        buf_u32le(&in, 200000);
        for (unsigned i = 0; i < 100000; i++)
            buf_put_cstr(&in, "\xc3\xa9");
        buf_put(&in, "q\0h\0\x86.", 6);
        graph_read(&g, in.data, in.len);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        CU_ASSERT_EQUAL(write_graph(g.root, NULL, &out, &err), CKPT_OK);
        graph_read(&reread, out.data, out.len);
        CU_ASSERT_EQUAL_FATAL(reread.status, CKPT_OK);
        const ckpt_value *v = reread.root->u.seq.items[0];
        CU_ASSERT_PTR_EQUAL(v, reread.root->u.seq.items[1]);
        /* graph_text() shows text that was not loaded as "~type:bytes:characters" */
        if (ops[k] == PICKLE_BINBYTES) /* each byte becomes a character of two bytes */
            CU_ASSERT_STRING_EQUAL(graph_text(v), "R<_codecs encode>(~0:400000:200000,'latin1')");
        if (ops[k] == PICKLE_BINUNICODE)
            CU_ASSERT_STRING_EQUAL(graph_text(v), "~0:200000:100000");
        if (ops[k] != PICKLE_BINBYTES)
            check_bytes(&out, in.data, in.len);
        out.len = 0;
        out.max = 100000;
        CU_ASSERT_EQUAL(pickle_write(g.root, NULL, &out, &err), CKPT_ELIMIT);
        buf_free(&in);
        buf_free(&out);
        graph_free(&reread);
        graph_free(&g);
    }
}

static void the_depth_of_nesting_is_limited(void)
{
    for (size_t depth = 1000000; depth <= 1100000; depth += 100000) {
        struct graph g;
        ckpt_error err;
        buf in, out;
        buf_init(&in, SIZE_MAX);
        for (size_t i = 0; i < depth; i++)
            buf_byte(&in, ']');
        for (size_t i = 1; i < depth; i++)
            buf_byte(&in, 'a');
        buf_byte(&in, '.');
        graph_read(&g, in.data, in.len);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        ckpt_status st = write_graph(g.root, NULL, &out, &err);
        CU_ASSERT_EQUAL(st, depth > 1 << 20 ? CKPT_ELIMIT : CKPT_OK);
        if (st == CKPT_OK)
            check_bytes(&out, in.data, in.len);
        buf_free(&in);
        buf_free(&out);
        graph_free(&g);
    }
}

/* write_cyclic_tuple - writes a tuple of N lists that each contain the tuple. The output is nested N deep,
 * and its size *SIZE grows with N * N. */
static ckpt_status write_cyclic_tuple(unsigned n, size_t *size)
{
    struct graph g;
    ckpt_error err;
    buf in, out;
    buf_init(&in, SIZE_MAX);
    buf_put_cstr(&in, "(");
    for (unsigned i = 0; i < n; i++) {
        buf_put_cstr(&in, "]r");
        buf_u32le(&in, i);
    }
    buf_put_cstr(&in, "tr");
    buf_u32le(&in, n);
    for (unsigned i = 0; i < n; i++) {
        buf_put_cstr(&in, "j");
        buf_u32le(&in, i);
        buf_put_cstr(&in, "j");
        buf_u32le(&in, n);
        buf_put_cstr(&in, "a0");
    }
    buf_put_cstr(&in, ".");
    graph_read(&g, in.data, in.len);
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    ckpt_status st = write_graph(g.root, NULL, &out, &err);
    if (st == CKPT_OK) {
        struct graph reread;
        graph_read(&reread, out.data, out.len);
        CU_ASSERT_EQUAL_FATAL(reread.status, CKPT_OK);
        CU_ASSERT_EQUAL(reread.root->u.seq.n, n);
        for (unsigned i = 0; i < n; i++)
            CU_ASSERT_PTR_EQUAL(reread.root->u.seq.items[i]->u.seq.items[0], reread.root);
        graph_free(&reread);
    }
    *size = out.len;
    buf_free(&in);
    buf_free(&out);
    graph_free(&g);
    return st;
}

static void cyclic_tuples_are_limited_in_size(void)
{
    size_t size;
    CU_ASSERT_EQUAL(write_cyclic_tuple(1, &size), CKPT_OK);
    CU_ASSERT_EQUAL(write_cyclic_tuple(40, &size), CKPT_OK);
    CU_ASSERT_EQUAL(write_cyclic_tuple(20000, &size), CKPT_ELOSSY);
    CU_ASSERT(size < 10000000);
}

static void nested_shared_lists_stay_small(void)
{
    struct graph g;
    ckpt_error err;
    buf in, out;
    buf_init(&in, SIZE_MAX);
    buf_put_cstr(&in, "]");
    for (unsigned i = 0; i < 300; i++)
        buf_put_cstr(&in, "2\x86"); /* pairs the last value with itself: 2^300 values in copies */
    buf_put_cstr(&in, ".");
    graph_read(&g, in.data, in.len);
    CU_ASSERT_EQUAL(write_graph(g.root, NULL, &out, &err), CKPT_OK);
    CU_ASSERT(out.len < 300 * 12); /* put, get and TUPLE2 of a level take fewer than 12 bytes */
    buf_free(&in);
    buf_free(&out);
    graph_free(&g);
}

/* ------------------------------------------------------------------ corpus */

/* A comparison of two value graphs. */
struct comparison {
    const ckpt_value **waiting; /* the nodes that are still to be compared, in pairs */
    size_t nwaiting, waiting_cap;
    map *numbers; /* maps a node of either graph to the number of the pair in which it was compared */
    uint32_t npairs;
    bool same;
};

static void compare_later(struct comparison *p, const ckpt_value *a, const ckpt_value *b)
{
    if (p->nwaiting + 2 > p->waiting_cap) {
        p->waiting_cap = p->waiting_cap ? p->waiting_cap * 2 : 64;
        p->waiting = realloc(p->waiting, p->waiting_cap * sizeof *p->waiting);
        if (!p->waiting)
            abort();
    }
    p->waiting[p->nwaiting++] = a;
    p->waiting[p->nwaiting++] = b;
}

static void compare_items(struct comparison *p, ckpt_value *const *a, uint32_t na, ckpt_value *const *b,
                          uint32_t nb)
{
    p->same = p->same && na == nb;
    for (uint32_t i = 0; p->same && i < na; i++)
        compare_later(p, a[i], b[i]);
}

static void compare_dict_pairs(struct comparison *p, const value_pair *a, uint32_t na, const value_pair *b,
                               uint32_t nb)
{
    p->same = p->same && na == nb;
    for (uint32_t i = 0; p->same && i < na; i++) {
        compare_later(p, a[i].key, b[i].key);
        compare_later(p, a[i].val, b[i].val);
    }
}

static void compare_calls(struct comparison *p, const ckpt_value *a, const ckpt_value *b)
{
    const struct value_extra *extra_a = value_extra_of(a), *extra_b = value_extra_of(b);
    p->same = p->same && value_call_kind_of(a) == value_call_kind_of(b) && !extra_a->kwargs &&
              !extra_b->kwargs;
    bool same_order = extra_a->entries_before_build == extra_b->entries_before_build;
    p->same = p->same && (extra_a->nstates == 0 || same_order);
    compare_later(p, a->u.call.callable, b->u.call.callable);
    compare_later(p, a->u.call.args, b->u.call.args);
    compare_items(p, extra_a->states, extra_a->nstates, extra_b->states, extra_b->nstates);
    compare_items(p, extra_a->items, extra_a->nitems, extra_b->items, extra_b->nitems);
    compare_dict_pairs(p, extra_a->pairs, extra_a->npairs, extra_b->pairs, extra_b->npairs);
}

static bool have_same_text(const ckpt_value *a, const ckpt_value *b)
{
    if (a->flags & VALUE_SPAN)
        return b->flags & VALUE_SPAN && a->u.span->nbytes == b->u.span->nbytes &&
               a->u.span->count == b->u.span->count;
    return !(b->flags & VALUE_SPAN) && str_eq(a->u.str, b->u.str);
}

static void compare_nodes(struct comparison *p, const ckpt_value *a, const ckpt_value *b)
{
    switch (a->type) {
    case CKPT_V_NONE: break;
    case CKPT_V_BOOL: p->same = a->u.b == b->u.b; break;
    case CKPT_V_INT: p->same = a->u.i == b->u.i; break;
    case CKPT_V_FLOAT: p->same = memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0; break;
    case CKPT_V_BIGINT:
    case CKPT_V_STR:
    case CKPT_V_STR8: p->same = have_same_text(a, b); break;
    case CKPT_V_GLOBAL:
        p->same = str_eq(value_module(a), value_module(b)) && str_eq(value_name(a), value_name(b));
        break;
    case CKPT_V_LIST:
    case CKPT_V_TUPLE: compare_items(p, a->u.seq.items, a->u.seq.n, b->u.seq.items, b->u.seq.n); break;
    case CKPT_V_DICT:
        compare_dict_pairs(p, a->u.dict.pairs, a->u.dict.n, b->u.dict.pairs, b->u.dict.n);
        break;
    case CKPT_V_CALL: compare_calls(p, a, b); break;
    case CKPT_V_PERSID: compare_later(p, a->u.pid, b->u.pid); break;
    default: p->same = false;
    }
}

/* are_identical - returns true if A and B, graphs of pickles of protocol 2, have equal values, and lists,
 * calls and other values with children are shared in B where they are in A. */
static bool are_identical(const ckpt_value *a, const ckpt_value *b)
{
    struct comparison p = {.numbers = map_new(1024), .same = true};
    compare_later(&p, a, b);
    while (p.same && p.nwaiting) {
        b = p.waiting[--p.nwaiting];
        a = p.waiting[--p.nwaiting];
        bool ignores_sharing = a->type < CKPT_V_LIST || a->type == CKPT_V_GLOBAL ||
                               (a->type == CKPT_V_TUPLE && a->u.seq.n == 0);
        uint32_t number_a = map_get_num(p.numbers, ptr_key(a)), number_b = map_get_num(p.numbers, ptr_key(b));
        p.same = a->type == b->type && (ignores_sharing || number_a == number_b);
        if (!p.same || (!ignores_sharing && number_a != MAP_NONE))
            continue;
        if (!ignores_sharing && (!map_set_num(p.numbers, ptr_key(a), p.npairs) ||
                                 !map_set_num(p.numbers, ptr_key(b), p.npairs++)))
            abort();
        compare_nodes(&p, a, b);
    }
    map_free(p.numbers);
    free(p.waiting);
    return p.same;
}

/* puts_are_distinct - returns true if no two PUTs in the N bytes B have the same memo index. pickletools
 * refuses pickles that put an index twice. */
static bool puts_are_distinct(const unsigned char *b, size_t n)
{
    bool is_put[512] = {false}, distinct = true;
    for (size_t i = 0; distinct && i < n;) {
        bool is_long = b[i] == PICKLE_LONG_BINPUT;
        if (is_long || b[i] == PICKLE_BINPUT) {
            uint32_t index = is_long ? load_u32le(b + i + 1) : b[i + 1];
            distinct = index < 512 && !is_put[index];
            is_put[index % 512] = true;
        }
        /* the size of the opcode with its argument */
        i += is_long || strchr("jJ", b[i]) ? 5 : b[i] == 'M' ? 3 : strchr("\x80qhK", b[i]) ? 2 : 1;
    }
    return distinct;
}

/* A pickle can be made 1 or 3 bytes longer only if it has a small int, for which a longer opcode exists. */
static void pickles_are_filled_to_a_given_size(void)
{
    static const struct {
        const char *in;
        size_t n;
        bool has_small_int;
    } cases[] = {
        {BYTES("(]q\x00h\x00t."), false}, {BYTES("(]q\x00K\x07h\x00t."), true}, {BYTES("N."), false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct graph g;
        ckpt_error err;
        buf unfilled;
        graph_read(&g, cases[k].in, cases[k].n);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        CU_ASSERT_EQUAL(write_graph(g.root, NULL, &unfilled, &err), CKPT_OK);
        for (size_t size = unfilled.len - 1; size < unfilled.len + 40; size++) {
            bool fits, needs_small_int = size - unfilled.len == 1 || size - unfilled.len == 3;
            buf out;
            buf_init(&out, SIZE_MAX);
            CU_ASSERT_EQUAL(pickle_write_filled(g.root, NULL, size, &out, &fits, &err), CKPT_OK);
            CU_ASSERT_EQUAL(fits, size >= unfilled.len && (!needs_small_int || cases[k].has_small_int));
            if (fits) {
                struct graph reread;
                graph_read(&reread, out.data, out.len);
                CU_ASSERT(out.len == size && reread.status == CKPT_OK && reread.next == size);
                CU_ASSERT(puts_are_distinct(out.data, out.len));
                CU_ASSERT(reread.status == CKPT_OK && are_identical(g.root, reread.root));
                graph_free(&reread);
            } else {
                CU_ASSERT(out.len != size);
            }
            buf_free(&out);
        }
        buf_free(&unfilled);
        graph_free(&g);
    }
}

/* Opcodes of torch's weights_only unpickler, BINSTRING for Python 2 files, and LONG4 for large ints. */
static const char allowed_opcodes[] = "\x8b\x80.(t\x85\x86\x87)]}N\x88\x89JKM\x8aGXUcR\x81"
                                      "baesuQhjqrT";
static unsigned npickles, nfailed; /* pickles that were written; those that were changed, or not written */

static void check_pickle(const char *name, ckpt_str bytes)
{
    struct graph g, reread;
    ckpt_error err;
    buf out, rewritten;
    graph_read(&g, bytes.ptr, bytes.len);
    bool is_protocol_2 = g.facts.protocol == 2 && g.status == CKPT_OK;
    if (is_protocol_2 && write_graph(g.root, NULL, &out, &err) == CKPT_OK) {
        graph_read(&reread, out.data, out.len);
        CU_ASSERT_EQUAL_FATAL(reread.status, CKPT_OK);
        for (unsigned op = 0; op < 256; op++)
            CU_ASSERT(reread.facts.first_use[op] == UINT64_MAX || (op && strchr(allowed_opcodes, (char)op)));
        bool same = are_identical(g.root, reread.root) && out.len <= bytes.len;
        CU_ASSERT_EQUAL(write_graph(reread.root, NULL, &rewritten, &err), CKPT_OK);
        same = same && out.len == rewritten.len && memcmp(out.data, rewritten.data, out.len) == 0;
        npickles++;
        nfailed += !same;
        if (!same)
            printf("\n    %s differs\n", name);
        buf_free(&rewritten);
        graph_free(&reread);
    } else if (is_protocol_2) {
        printf("\n    %s is not written: %s\n", name, err.what);
        nfailed++;
    }
    if (is_protocol_2)
        buf_free(&out);
    graph_free(&g);
}

static void pickles_of_the_corpus_are_written_back(void)
{
    npickles = nfailed = 0;
    for_each_corpus_pickle(check_pickle);
    CU_ASSERT(npickles > 500);
    CU_ASSERT_EQUAL(nfailed, 0);
}

void suite_pickle_write(void)
{
    UNIT(graphs_are_written_as_the_expected_bytes);
    UNIT(graphs_that_protocol_2_cannot_hold_are_refused);
    UNIT(items_are_appended_in_batches_of_a_thousand);
    UNIT(hooks_edit_every_container);
    UNIT(persistent_ids_are_written_by_the_leaf_hook);
    UNIT(a_shared_value_is_replaced_by_one_shared_value);
    UNIT(large_text_is_streamed);
    UNIT(the_depth_of_nesting_is_limited);
    UNIT(cyclic_tuples_are_limited_in_size);
    UNIT(nested_shared_lists_stay_small);
    UNIT(pickles_are_filled_to_a_given_size);
    UNIT(pickles_of_the_corpus_are_written_back);
}
