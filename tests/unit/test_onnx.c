/* ONNX: values in every field, names of tensors that are no initializers, malformed messages. */
#include "base/buf.h"
#include "bytes.h"
#include "format/format.h"
#include "unit.h"

static ckpt_error err;
static buf message; /* of the test: a model with one graph */

/* field - NUMBER, with the bytes TEXT. */
static void field(buf *b, unsigned number, ckpt_str text)
{
    buf_byte(b, (unsigned char)(number << 3 | 2));
    size_t n = text.len;
    for (; n >= 128; n >>= 7)
        buf_byte(b, (unsigned char)(n | 128));
    buf_byte(b, (unsigned char)n);
    buf_str(b, text);
}

/* model_of - GRAPH as that of a model. */
static ckpt_str model_of(ckpt_str graph)
{
    buf_free(&message);
    buf_init(&message, 1u << 20);
    buf_text(&message, "\x08\x0a\x12\x01p\x42\x02\x10\x18");
    field(&message, 7, graph);
    return buf_view(&message);
}

/* open_graph - as HOW; NULL: ERR is why not. */
static ckpt_file *open_graph(ckpt_str graph, int how)
{
    ckpt_file *f = NULL;
    ckpt_str model = model_of(graph);
    struct opening o = {.path = "test", .src = source_mem(model.ptr, model.len, 0)};
    o.how = how ? OPEN_SALVAGE : OPEN_WHOLE;
    return format_open(&o, &f, &err) == CKPT_OK ? f : NULL;
}

/* open_tensor - a model with the initializer TENSOR alone. */
static ckpt_file *open_tensor(ckpt_str tensor)
{
    buf graph;
    buf_init(&graph, 1u << 16);
    field(&graph, 5, tensor);
    ckpt_file *f = open_graph(buf_view(&graph), 0);
    buf_free(&graph);
    return f;
}

/* holds - does the only tensor of the model with TENSOR have the bytes WANT? */
static bool holds(ckpt_str tensor, ckpt_str want)
{
    unsigned char got[256];
    ckpt_file *f = open_tensor(tensor);
    const struct storage *s = f && f->table.nstorages == 1 ? f->table.storages : NULL;
    bool is = s && s->s.nbytes == want.len && source_read(s->src, s->off, got, want.len, &err) == CKPT_OK &&
              memcmp(got, want.ptr, want.len) == 0;
    ckpt_close(f);
    return is;
}

static bool refused(ckpt_str tensor, ckpt_status status, const char *found)
{
    ckpt_file *f = open_tensor(tensor);
    bool is = !f && err.status == status && strcmp(err.found, found) == 0;
    if (!is)
        printf("%s: %s (%s)\n", f ? "read" : "refused", err.what, err.found);
    ckpt_close(f);
    return is;
}

static void values_in_every_field(void)
{
    /* float32 [2]: packed, one by one, both */
    CU_ASSERT_TRUE(holds(TEXT("\x08\x02\x10\x01\x22\x08"
                              "abcdefgh"),
                         TEXT("abcdefgh")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x02\x10\x01\x25"
                              "abcd\x25"
                              "efgh"),
                         TEXT("abcdefgh")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x02\x10\x01\x25"
                              "abcd\x22\x04"
                              "efgh"),
                         TEXT("abcdefgh")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x01\x10\x01\x25"
                              "abcd"),
                         TEXT("abcd")));
    /* float64 [1], complex64 [1] */
    CU_ASSERT_TRUE(holds(TEXT("\x08\x01\x10\x0b\x51"
                              "abcdefgh"),
                         TEXT("abcdefgh")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x01\x10\x0e\x25"
                              "abcd\x25"
                              "efgh"),
                         TEXT("abcdefgh")));
    /* int8 [3], packed and one by one; the last is -1 as int32_data have it; sizes packed */
    CU_ASSERT_TRUE(
        holds(TEXT("\x0a\x01\x03\x10\x03\x28\x01\x2a\x0b\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
              TEXT("\x01\x02\xff")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x01\x10\x07\x38\x80\x01"), TEXT("\x80\0\0\0\0\0\0\0"))); /* int64 */
    CU_ASSERT_TRUE(holds(TEXT("\x08\x01\x10\x0c\x58\x05"), TEXT("\x05\0\0\0")));             /* uint32 */
    /* uint4 [3], uint2 [5] in raw data and in int32_data, float6 [5] in raw data: 0, 1, 2, 3, 4 */
    CU_ASSERT_TRUE(holds(TEXT("\x08\x03\x10\x15\x4a\x02\x21\x03"), TEXT("\1\2\3")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x05\x10\x19\x2a\x03\xe4\x01\x01"), TEXT("\0\1\2\3\1")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x05\x10\x1b\x4a\x04\x40\x20\x0c\x04"), TEXT("\0\1\2\3\4")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\x02\x10\x08\x32\0\x32\x02"
                              "ab"),
                         TEXT("\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0ab")));
    CU_ASSERT_TRUE(holds(TEXT("\x08\0\x10\x01"), TEXT("")));
}

static void malformed_tensors(void)
{
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01"), CKPT_EFORMAT, "no"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x1d"), CKPT_EUNSUPPORTED, "29"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x01"), CKPT_EFORMAT, "no values"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x01\x28\x01"), CKPT_EFORMAT, "field 5"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x02\x10\x01\x25"
                                "abcd"),
                           CKPT_EFORMAT, "4 bytes"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x03\x2a\x02\1\2"), CKPT_EFORMAT, "more"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x02\x10\x06\x2a\x02\x80\1"), CKPT_EFORMAT, "fewer"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x03\x10\x03\x2a\x02\1\2"), CKPT_EFORMAT, "2 bytes"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x03\x2a\x01\x80\x10\x03"), CKPT_EFORMAT, "malformed"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x02\x10\x08\x32\0"), CKPT_EFORMAT, "1 texts"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x08\x4a\x01x"), CKPT_EFORMAT, "raw data"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x03\x10\x15\x4a\x01\x21"), CKPT_EFORMAT, "1 bytes"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x01\x1a\0\x4a\x04"
                                "abcd"),
                           CKPT_EUNSUPPORTED, "a segment"));
    CU_ASSERT_TRUE(refused(TEXT("\x0a\x01\x80\x10\x01"), CKPT_EFORMAT, "malformed"));
    CU_ASSERT_TRUE(refused(TEXT("\x10\x01\x4a\x05"
                                "abcd"),
                           CKPT_ETRUNCATED, "a field"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x02\x70\x01"), CKPT_EFORMAT, "no"));
    CU_ASSERT_TRUE(refused(TEXT("\x08\x01\x10\x02\x6a\x0d\x0a\x08location\x12\x01w\x70\x01"),
                           CKPT_EUNSUPPORTED, "no")); /* memory is no file of a folder */
    CU_ASSERT_TRUE(
        refused(TEXT("\x08\x01\x10\x02\x6a\x0b\x0a\x06offset\x12\x01-\x70\x01"), CKPT_EFORMAT, "\"-\""));
    CU_ASSERT_TRUE(
        refused(TEXT("\x6a\x0a\x0a\x06offset\x12\0\x6a\x0a\x0a\x06offset\x12\0"), CKPT_EFORMAT, "twice"));
    CU_ASSERT_TRUE(refused(TEXT("\x6a\x03\x0a\x06o"), CKPT_EFORMAT, "malformed"));
}

/* More sizes than are read; the error has the name, which comes after them. */
static void too_many_sizes(void)
{
    buf b;
    buf_init(&b, 256);
    for (int i = 0; i < 33; i++)
        buf_text(&b, "\x08\x01");
    buf_text(&b, "\x42\x01w\x10\x02");
    CU_ASSERT_TRUE(refused(buf_view(&b), CKPT_ELIMIT, "more"));
    CU_ASSERT_STRING_EQUAL(err.where, "w");
    CU_ASSERT_EQUAL(err.offset, 9 + 2 + 2 + 64);
    buf_free(&b);
}

#define SCALAR "\x10\x02\x4a\x01x" /* uint8 [] */

/* Two constants without a name of one node's output, one of a name, an initializer of that name. */
static void names_of_constants(void)
{
    ckpt_str graph = TEXT("\x0a\x1d\x12\x01o\x2a\x0b\x0a\x02"
                          "a0\x2a\x05" SCALAR "\x2a\x0b\x0a\x02"
                          "a1\x2a\x05" SCALAR "\x0a\x11\x12\x01o\x2a\x0c\x0a\0\x2a\x08" SCALAR
                          "\x42\x01w\x2a\x08" SCALAR "\x42\x01w");
    static const char *const names[] = {"w", "o", "node0/a1/o", "node1//w"};
    ckpt_file *f = open_graph(graph, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 4);
    for (uint32_t i = 0; i < 4; i++) {
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        CU_ASSERT_TRUE(ckpt_tensor_at(f, i, &t));
        CU_ASSERT_STRING_EQUAL(t.name.ptr, names[i]);
    }
    ckpt_close(f);
}

/* A constant whose values are not there, and one whose sizes are too many. */
static void malformed_constants(void)
{
    CU_ASSERT_PTR_NULL(open_graph(TEXT("\x0a\x08\x2a\x06\x2a\x04\x10\x02\x08\x03"), 0));
    CU_ASSERT_STRING_EQUAL(err.found, "no values");
    CU_ASSERT_PTR_NULL(open_graph(TEXT("\x0a\x1c\x2a\x1a\x2a\x18\x10\x0b"
                                       "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                                       "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x4a\0"),
                                  0));
    CU_ASSERT_STRING_EQUAL(err.found, "more");
}

/* What follows the graph of a model of version 3 and later; before that there was no such field. */
static void operator_sets(void)
{
    ckpt_str new = TEXT("\x08\x03\x3a\x02\x12\0"), old = TEXT("\x08\x02\x3a\x02\x12\0");
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL(ckpt_open_memory(new.ptr, new.len, "test", NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(err.allowed, "opset_import");
    CU_ASSERT_EQUAL(ckpt_open_memory(old.ptr, old.len, "test", NULL, &f, &err), CKPT_OK);
    ckpt_close(f);
}

/* graph { node { attribute { graph … } } } */
static void depth_is_bounded(void)
{
    static const struct {
        int graphs;
        bool is_read;
    } cases[] = {{33, true}, {34, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf inner, outer;
        buf_init(&inner, 1u << 16);
        field(&inner, 5, TEXT(SCALAR "\x42\x01w"));
        for (int k = 1; k < cases[i].graphs; k++)
            for (int level = 0; level < 3; level++) {
                static const unsigned numbers[] = {6, 5, 1};
                buf_init(&outer, 1u << 16);
                field(&outer, numbers[level], buf_view(&inner));
                buf_free(&inner);
                inner = outer;
            }
        ckpt_file *f = open_graph(buf_view(&inner), 0);
        CU_ASSERT_EQUAL(f != NULL, cases[i].is_read);
        CU_ASSERT_TRUE(f || err.status == CKPT_ELIMIT);
        ckpt_close(f);
        buf_free(&inner);
    }
}

/* Of two tensors the second is cut off, or a field of it malformed. */
static void salvage_keeps_what_is_whole(void)
{
    static const ckpt_str graphs[] = {
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x08\x42\x01w\x10\x02\x4a\x09x", 20},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x08\x42\x01w\x10\x02\x4f\x01x", 20},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x09\x42\x01w\x10\x02\x70\x01\x6a\0", 21},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x7f\x42\x01w\x10", 15},
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        CU_ASSERT_PTR_NULL(open_graph(graphs[i], 0));
        ckpt_file *f = open_graph(graphs[i], 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        CU_ASSERT_TRUE(ckpt_tensor_at(f, 0, &t) && t.has_data);
        CU_ASSERT_TRUE(!ckpt_tensor_at(f, 1, &t) || !t.has_data);
        ckpt_close(f);
    }
}

void suite_onnx(void)
{
    UNIT(values_in_every_field);
    UNIT(malformed_tensors);
    UNIT(too_many_sizes);
    UNIT(names_of_constants);
    UNIT(malformed_constants);
    UNIT(operator_sets);
    UNIT(depth_is_bounded);
    UNIT(salvage_keeps_what_is_whole);
    buf_free(&message);
}
