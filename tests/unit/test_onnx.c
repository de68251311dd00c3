/* ONNX: values are read from every field of a TensorProto, constants get names, and malformed messages are
 * refused. These bytes begin the fields of a TensorProto:
 *
 *   \x08 dims,       \x0a packed      \x42 name
 *   \x10 data_type                    \x4a raw_data
 *   \x1a segment                      \x51 double_data
 *   \x25 float_data, \x22 packed      \x58 uint64_data
 *   \x28 int32_data, \x2a packed      \x6a external_data
 *   \x32 string_data                  \x70 data_location
 *   \x38 int64_data
 */
#include "base/buf.h"
#include "bytes.h"
#include "format/registry.h"
#include "unit.h"

static ckpt_error err;
static buf message; /* the current model */

/* put_field - appends a field with this NUMBER and the bytes TEXT. */
static void put_field(buf *b, unsigned number, ckpt_str text)
{
    buf_byte(b, (unsigned char)(number << 3 | 2));
    size_t n = text.len;
    for (; n >= 128; n >>= 7)
        buf_byte(b, (unsigned char)(n | 128));
    buf_byte(b, (unsigned char)n);
    buf_put_str(b, text);
}

/* model_of - returns a model of IR version 10, producer "p" and operator set 24, with the graph GRAPH. */
static ckpt_str model_of(ckpt_str graph)
{
    buf_free(&message);
    buf_init(&message, 1u << 20);
    buf_put_cstr(&message, "\x08\x0a\x12\x01p\x42\x02\x10\x18");
    put_field(&message, 7, graph);
    return buf_view(&message);
}

/* open_graph - opens a model with GRAPH, or salvages it if SALVAGE. Returns NULL after an error, and sets
 * err. */
static ckpt_file *open_graph(ckpt_str graph, bool salvage)
{
    ckpt_file *f = NULL;
    ckpt_str model = model_of(graph);
    struct opening o = {.path = "test", .src = source_mem(model.ptr, model.len, 0)};
    o.how = salvage ? OPEN_SALVAGE : OPEN_WHOLE;
    return format_open(&o, &f, &err) == CKPT_OK ? f : NULL;
}

/* open_tensor - opens a model with the single initializer TENSOR. */
static ckpt_file *open_tensor(ckpt_str tensor)
{
    buf graph;
    buf_init(&graph, 1u << 16);
    put_field(&graph, 5, tensor);
    ckpt_file *f = open_graph(buf_view(&graph), false);
    buf_free(&graph);
    return f;
}

/* tensor_is - returns true if the TensorProto TENSOR is read as the bytes WANT. */
static bool tensor_is(ckpt_str tensor, ckpt_str want)
{
    unsigned char got[256];
    ckpt_file *f = open_tensor(tensor);
    const struct storage *s = f && f->table.nstorages == 1 ? f->table.storages : NULL;
    bool is_read = s && s->nbytes == want.len && source_read(s->src, s->off, got, want.len, &err) == CKPT_OK;
    bool equal = is_read && memcmp(got, want.ptr, want.len) == 0;
    ckpt_close(f);
    return equal;
}

/* is_refused - returns whether reading TENSOR fails with STATUS, and with FOUND as the value that the message
 * reports as found. */
static bool is_refused(ckpt_str tensor, ckpt_status status, const char *found)
{
    ckpt_file *f = open_tensor(tensor);
    bool refused = !f && err.status == status && strcmp(err.found, found) == 0;
    if (!refused)
        printf("the tensor is %s: %s (found %s)\n", f ? "read" : "refused", err.what, err.found);
    ckpt_close(f);
    return refused;
}

static void values_in_every_field_are_read(void)
{
    /* float32 [2]: two packed values, two unpacked, one of each; float32 [1]: one unpacked */
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x02\x10\x01\x22\x08"
                                  "abcdefgh"),
                             TEXT("abcdefgh")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x02\x10\x01\x25"
                                  "abcd\x25"
                                  "efgh"),
                             TEXT("abcdefgh")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x02\x10\x01\x25"
                                  "abcd\x22\x04"
                                  "efgh"),
                             TEXT("abcdefgh")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x01\x10\x01\x25"
                                  "abcd"),
                             TEXT("abcd")));
    /* float64 [1], complex64 [1] */
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x01\x10\x0b\x51"
                                  "abcdefgh"),
                             TEXT("abcdefgh")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x01\x10\x0e\x25"
                                  "abcd\x25"
                                  "efgh"),
                             TEXT("abcdefgh")));
    /* int8 [3], its dims packed, in int32_data: 1 unpacked, then 2 and -1 packed; -1 takes ten bytes */
    CU_ASSERT_TRUE(
        tensor_is(TEXT("\x0a\x01\x03\x10\x03\x28\x01\x2a\x0b\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                  TEXT("\x01\x02\xff")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x01\x10\x07\x38\x80\x01"), TEXT("\x80\0\0\0\0\0\0\0"))); /* int64 */
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x01\x10\x0c\x58\x05"), TEXT("\x05\0\0\0")));             /* uint32 */
    /* uint4 [3] in raw data, uint2 [5] in int32_data, float6 [5] in raw data */
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x03\x10\x15\x4a\x02\x21\x03"), TEXT("\1\2\3")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x05\x10\x19\x2a\x03\xe4\x01\x01"), TEXT("\0\1\2\3\1")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x05\x10\x1b\x4a\x04\x40\x20\x0c\x04"), TEXT("\0\1\2\3\4")));
    /* string [2]: "" and "ab", each of which is read as its length in 8 bytes, then the text */
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\x02\x10\x08\x32\0\x32\x02"
                                  "ab"),
                             TEXT("\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0ab")));
    CU_ASSERT_TRUE(tensor_is(TEXT("\x08\0\x10\x01"), TEXT(""))); /* float32 [0] */
}

static void malformed_tensors_are_refused(void)
{
    /* no data_type; a data_type that does not exist; no values; float32 in int32_data */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01"), CKPT_EFORMAT, "no"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x1d"), CKPT_EUNSUPPORTED, "29"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x01"), CKPT_EFORMAT, "no values"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x01\x28\x01"), CKPT_EFORMAT, "field 5"));
    /* float32 [2] with one value */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x02\x10\x01\x25"
                                   "abcd"),
                              CKPT_EFORMAT, "4 bytes"));
    /* int8 [1] with two values, int32 [2] with one, int8 [3] with two, a value that is cut off */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x03\x2a\x02\1\2"), CKPT_EFORMAT, "more"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x02\x10\x06\x2a\x02\x80\1"), CKPT_EFORMAT, "fewer"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x03\x10\x03\x2a\x02\1\2"), CKPT_EFORMAT, "2 bytes"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x03\x2a\x01\x80\x10\x03"), CKPT_EFORMAT, "malformed"));
    /* string [2] with one text; string [1] in raw_data; uint4 [3] in one byte */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x02\x10\x08\x32\0"), CKPT_EFORMAT, "1 texts"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x08\x4a\x01x"), CKPT_EFORMAT, "raw data"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x03\x10\x15\x4a\x01\x21"), CKPT_EFORMAT, "1 bytes"));
    /* a segment of a tensor; packed dims that are cut off; raw_data that is cut off */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x01\x1a\0\x4a\x04"
                                   "abcd"),
                              CKPT_EUNSUPPORTED, "a segment"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x0a\x01\x80\x10\x01"), CKPT_EFORMAT, "malformed"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x10\x01\x4a\x05"
                                   "abcd"),
                              CKPT_ETRUNCATED, "a field"));
    CU_ASSERT_TRUE(
        is_refused(TEXT("\x08\x01\x10\x02\x70\x01"), CKPT_EFORMAT, "none")); /* without external_data */
    CU_ASSERT_TRUE(is_refused(TEXT("\x08\x01\x10\x02\x6a\x0d\x0a\x08location\x12\x01w\x70\x01"),
                              CKPT_EUNSUPPORTED, "no")); /* external data, though the model is in memory */
    CU_ASSERT_TRUE(
        is_refused(TEXT("\x08\x01\x10\x02\x6a\x0b\x0a\x06offset\x12\x01-\x70\x01"), CKPT_EFORMAT, "\"-\""));
    CU_ASSERT_TRUE(
        is_refused(TEXT("\x6a\x0a\x0a\x06offset\x12\0\x6a\x0a\x0a\x06offset\x12\0"), CKPT_EFORMAT, "twice"));
    CU_ASSERT_TRUE(is_refused(TEXT("\x6a\x03\x0a\x06o"), CKPT_EFORMAT, "malformed"));
}

/* The error names the tensor, although in the file the name comes after the dims. */
static void too_many_dims_are_refused(void)
{
    buf b;
    buf_init(&b, 256);
    for (int i = 0; i < 33; i++)
        buf_put_cstr(&b, "\x08\x01");
    buf_put_cstr(&b, "\x42\x01w\x10\x02");
    CU_ASSERT_TRUE(is_refused(buf_view(&b), CKPT_ELIMIT, "more"));
    CU_ASSERT_STRING_EQUAL(err.where, "w");
    /* after the 9 bytes before the graph, the keys and lengths of graph and tensor, and 32 dims of 2 bytes */
    CU_ASSERT_EQUAL(err.offset, 9 + 2 + 2 + 64);
    buf_free(&b);
}

#define SCALAR "\x10\x02\x4a\x01x" /* uint8 [] */

/* The graph has a node with two unnamed constants, a node with the constant "w", and an initializer "w". */
static void constants_get_unique_names(void)
{
    ckpt_str graph = TEXT("\x0a\x1d\x12\x01o\x2a\x0b\x0a\x02"
                          "a0\x2a\x05" SCALAR "\x2a\x0b\x0a\x02"
                          "a1\x2a\x05" SCALAR "\x0a\x11\x12\x01o\x2a\x0c\x0a\0\x2a\x08" SCALAR
                          "\x42\x01w\x2a\x08" SCALAR "\x42\x01w");
    static const char *const names[] = {"w", "o", "node0/a1/o", "node1//w"};
    ckpt_file *f = open_graph(graph, false);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 4);
    for (uint32_t i = 0; i < 4; i++) {
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        CU_ASSERT_TRUE(ckpt_tensor_at(f, i, &t));
        CU_ASSERT_STRING_EQUAL(t.name.ptr, names[i]);
    }
    ckpt_close(f);
}

/* The first graph has a constant without values, the second a constant whose size is too large. */
static void malformed_constants_are_refused(void)
{
    CU_ASSERT_PTR_NULL(open_graph(TEXT("\x0a\x08\x2a\x06\x2a\x04\x10\x02\x08\x03"), false));
    CU_ASSERT_STRING_EQUAL(err.found, "no values");
    CU_ASSERT_PTR_NULL(open_graph(TEXT("\x0a\x1c\x2a\x1a\x2a\x18\x10\x0b"
                                       "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                                       "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x4a\0"),
                                  false));
    CU_ASSERT_STRING_EQUAL(err.found, "more");
}

/* Models of IR version 3 and later must have the field opset_import. */
static void operator_sets_are_required_since_version_3(void)
{
    ckpt_str version_3 = TEXT("\x08\x03\x3a\x02\x12\0"), version_2 = TEXT("\x08\x02\x3a\x02\x12\0");
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL(ckpt_open_memory(version_3.ptr, version_3.len, "test", NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(err.allowed, "opset_import");
    CU_ASSERT_EQUAL(ckpt_open_memory(version_2.ptr, version_2.len, "test", NULL, &f, &err), CKPT_OK);
    ckpt_close(f);
}

/* At most 33 graphs may be nested: graph { node { attribute { graph … } } }. */
static void the_depth_of_graphs_is_limited(void)
{
    static const struct {
        int ngraphs;
        bool is_read;
    } cases[] = {{33, true}, {34, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf inner, outer;
        buf_init(&inner, 1u << 16);
        put_field(&inner, 5, TEXT(SCALAR "\x42\x01w"));
        for (int k = 1; k < cases[i].ngraphs; k++)
            for (int level = 0; level < 3; level++) {
                static const unsigned numbers[] = {6, 5, 1}; /* the fields g, attribute and node */
                buf_init(&outer, 1u << 16);
                put_field(&outer, numbers[level], buf_view(&inner));
                buf_free(&inner);
                inner = outer;
            }
        ckpt_file *f = open_graph(buf_view(&inner), false);
        CU_ASSERT_EQUAL(f != NULL, cases[i].is_read);
        CU_ASSERT_TRUE(f || err.status == CKPT_ELIMIT);
        ckpt_close(f);
        buf_free(&inner);
    }
}

/* In each graph, the second of two tensors is truncated or has a malformed field. */
static void salvage_returns_intact_tensors(void)
{
    static const ckpt_str graphs[] = {
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x08\x42\x01w\x10\x02\x4a\x09x", 20},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x08\x42\x01w\x10\x02\x4f\x01x", 20},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x09\x42\x01w\x10\x02\x70\x01\x6a\0", 21},
        {"\x2a\x08" SCALAR "\x42\x01v\x2a\x7f\x42\x01w\x10", 15},
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        CU_ASSERT_PTR_NULL(open_graph(graphs[i], false));
        ckpt_file *f = open_graph(graphs[i], true);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        CU_ASSERT_TRUE(ckpt_tensor_at(f, 0, &t) && t.has_data);
        CU_ASSERT_TRUE(!ckpt_tensor_at(f, 1, &t) || !t.has_data);
        ckpt_close(f);
    }
}

void suite_onnx(void)
{
    UNIT(values_in_every_field_are_read);
    UNIT(malformed_tensors_are_refused);
    UNIT(too_many_dims_are_refused);
    UNIT(constants_get_unique_names);
    UNIT(malformed_constants_are_refused);
    UNIT(operator_sets_are_required_since_version_3);
    UNIT(the_depth_of_graphs_is_limited);
    UNIT(salvage_returns_intact_tensors);
    buf_free(&message);
}
