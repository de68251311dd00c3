/* The value graph: each kind of Python object that real files contain, built as pickle builds it, and
 * malformed objects. */
#include <math.h>

#include "core/numpy.h"
#include "core/repr.h"
#include "core/value.h"
#include "op/plain.h"
#include "unit.h"

static arena *test_arena;

static ckpt_value *new_text(const char *s) { return value_str(test_arena, str_c(s)); }
static ckpt_value *new_int(int64_t i) { return value_int(test_arena, i); }
static ckpt_value *new_none(void) { return value_new(test_arena, CKPT_V_NONE, 0); }
static ckpt_value *new_global(const char *module, const char *name)
{
    return value_global(test_arena, str_c(module), str_c(name), 0);
}

static ckpt_value *new_bool(bool b)
{
    ckpt_value *v = value_new(test_arena, CKPT_V_BOOL, 0);
    v->u.b = b;
    return v;
}

static ckpt_value *new_float(double f)
{
    ckpt_value *v = value_new(test_arena, CKPT_V_FLOAT, 0);
    v->u.f = f;
    return v;
}

static ckpt_value *new_bytes(ckpt_value_type type, ckpt_str s)
{
    ckpt_value *v = value_new(test_arena, type, 0);
    v->u.str = s;
    return v;
}

#define COUNT(...)  (sizeof((ckpt_value *[]){__VA_ARGS__}) / sizeof(ckpt_value *))
#define TUPLE(...)  value_tuple(test_arena, COUNT(__VA_ARGS__), (ckpt_value *[]){__VA_ARGS__})
#define LIST(...)   new_seq(CKPT_V_LIST, COUNT(__VA_ARGS__), (ckpt_value *[]){__VA_ARGS__})
#define EMPTY_TUPLE value_tuple(test_arena, 0, NULL)
/* Calls of the global NAME of MODULE: REDUCE with arguments, NEWOBJ without arguments. */
#define REDUCE(module, name, ...)                                                                            \
    value_call(test_arena, CALL_REDUCE, new_global(module, name), TUPLE(__VA_ARGS__), 0)
#define NEWOBJ(module, name) value_call(test_arena, CALL_NEWOBJ, new_global(module, name), EMPTY_TUPLE, 0)

static ckpt_value *new_seq(ckpt_value_type type, size_t n, ckpt_value **items)
{
    ckpt_value *v = value_new(test_arena, type, 0);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT(value_append(test_arena, v, items[i]));
    return v;
}

static ckpt_value *new_dict(const char *key, ckpt_value *val)
{
    ckpt_value *v = value_new(test_arena, CKPT_V_DICT, 0);
    if (key)
        CU_ASSERT(value_put(test_arena, v, new_text(key), val));
    return v;
}

/* with_state - applies BUILD with STATE to V, and returns V. */
static ckpt_value *with_state(ckpt_value *v, ckpt_value *state)
{
    CU_ASSERT(value_add_state(test_arena, v, state));
    return v;
}

static ckpt_value *new_dtype(const char *code, const char *order)
{
    return with_state(REDUCE("numpy", "dtype", new_text(code), new_bool(false), new_bool(true)),
                      TUPLE(new_int(3), new_text(order), new_none()));
}

static ckpt_value *new_scalar(const char *code, const char *order, ckpt_str bytes)
{
    return REDUCE("numpy.core.multiarray", "scalar", new_dtype(code, order), new_bytes(CKPT_V_BYTES, bytes));
}

/* text_of - returns the text of V, of which at most NODES nodes are printed. */
static const char *text_of(const ckpt_value *v, size_t nodes)
{
    static char out[16384];
    size_t n = ckpt_value_text(v, nodes, out, sizeof out);
    CU_ASSERT_EQUAL(n, strlen(out));
    return out;
}

static const char *type_name(const ckpt_value *v)
{
    static char out[256];
    CU_ASSERT_PTR_EQUAL(ckpt_value_type_name(v, out, sizeof out), out);
    return out;
}

#define CHECK_TEXT(v, want) CU_ASSERT_STRING_EQUAL(text_of(v, 100), want)
#define CHECK_TYPE(v, want) CU_ASSERT_STRING_EQUAL(type_name(v), want)

static void builtin_values_have_text(void)
{
    CHECK_TEXT(NULL, "None");
    CHECK_TEXT(new_none(), "None");
    CHECK_TEXT(new_bool(true), "True");
    CHECK_TEXT(new_int(INT64_MIN), "-9223372036854775808");
    CHECK_TEXT(new_text("adam"), "'adam'");
    CHECK_TEXT(new_text("it's\n\x1b\\\xe2\x80\xae"), "'it\\'s\\n\\u{1b}\\\\\\u{202e}'");
    CHECK_TEXT(new_bytes(CKPT_V_STR8, STR_LIT("py2\xff")), "'py2\\xff'");
    CHECK_TEXT(new_bytes(CKPT_V_BYTES, STR_LIT("a\0\xc3\xa4'")), "b'a\\x00\\xc3\\xa4\\''");
    CHECK_TEXT(new_bytes(CKPT_V_BYTEARRAY, STR_LIT("a")), "bytearray(b'a')");
    CHECK_TYPE(NULL, "NoneType");
    CHECK_TYPE(new_bool(false), "bool");
    CHECK_TYPE(new_bytes(CKPT_V_BIGINT, STR_LIT("\1")), "int");
    CHECK_TYPE(new_bytes(CKPT_V_STR8, STR_LIT("")), "str");
    CHECK_TYPE(value_new(test_arena, CKPT_V_FROZENSET, 0), "frozenset");
}

static void floats_have_the_shortest_text_that_reads_back(void)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0.001, "0.001"},
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e16, "1e+16"},
        {1e15, "1000000000000000.0"},
        {123456.75, "123456.75"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {1.5e300, "1.5e+300"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-2.5, "-2.5"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {0x1p-1017, "7.120236347223045e-307"}, /* …044e-307 is nearer, but another float */
        {9007199254740993.0, "9007199254740992.0"},
        {76.13, "76.13"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_TEXT(new_float(cases[i].number), cases[i].text);
    char out[REPR_FLOAT_ROOM];
    repr_float((double)0.1f, REPR_SINGLE, out);
    CU_ASSERT_STRING_EQUAL(out, "0.1");
    repr_float((double)16777216.0f, REPR_SINGLE, out);
    CU_ASSERT_STRING_EQUAL(out, "16777216.0");
    repr_float(0.0999755859375, REPR_HALF, out);
    CU_ASSERT_STRING_EQUAL(out, "0.1");
    repr_float(65504, REPR_HALF, out);
    CU_ASSERT_STRING_EQUAL(out, "65500.0");
    repr_float(0x1p-24, REPR_HALF, out);
    CU_ASSERT_STRING_EQUAL(out, "6e-08");
}

static void big_integers_are_exact(void)
{
    unsigned char bytes[REPR_BIG_MAX_BYTES + 1] = {0};
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, STR_LIT("")), "0");
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, STR_LIT("\0\0\0\0\0\0\0\0\1")), "18446744073709551616");
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, STR_LIT("\0\0\0\0\0\0\0\0\xff")), "-18446744073709551616");
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff")), "-1");
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\0")),
               "18446744073709551615");
    bytes[250] = 1; /* 2^2000 */
    const char *big = text_of(new_bytes(CKPT_V_BIGINT, str_of((char *)bytes, 251)), 1);
    CU_ASSERT_EQUAL(strlen(big), 603); /* its first 60 and last 12 digits follow */
    CU_ASSERT_NSTRING_EQUAL(big, "114813069527425452423283320117768198402231770208869520047764", 60);
    CU_ASSERT_STRING_EQUAL(big + 603 - 12, "851149029376");
    memset(bytes, 0, sizeof bytes);
    bytes[REPR_BIG_MAX_BYTES - 1] = 0x80; /* the smallest int of this length */
    big = text_of(new_bytes(CKPT_V_BIGINT, str_of((char *)bytes, REPR_BIG_MAX_BYTES)), 1);
    CU_ASSERT_EQUAL(big[0], '-');
    CU_ASSERT_EQUAL(strlen(big), 1 + 1233); /* 2^4095 has 1233 digits */
    CHECK_TEXT(new_bytes(CKPT_V_BIGINT, str_of((char *)bytes, sizeof bytes)), "<int, 513 bytes>");
}

static void containers_have_text(void)
{
    CHECK_TEXT(EMPTY_TUPLE, "()");
    CHECK_TEXT(TUPLE(new_int(1)), "(1,)");
    CHECK_TEXT(TUPLE(new_int(1), new_int(2)), "(1, 2)");
    CHECK_TEXT(LIST(new_int(1), LIST(new_text("a")), new_dict(NULL, NULL)), "[1, ['a'], {}]");
    ckpt_value *d = new_dict("lr", new_float(0.1));
    CU_ASSERT(value_put(test_arena, d, new_int(3), new_none()));
    CU_ASSERT(value_put(test_arena, d, TUPLE(new_int(1), new_int(2)), new_bool(true)));
    CHECK_TEXT(d, "{'lr': 0.1, 3: None, (1, 2): True}");
    CHECK_TEXT(new_seq(CKPT_V_SET, 1, (ckpt_value *[]){new_int(1)}), "{1}");
    CHECK_TEXT(value_new(test_arena, CKPT_V_SET, 0), "set()");
    CHECK_TEXT(value_new(test_arena, CKPT_V_FROZENSET, 0), "frozenset()");
    CHECK_TEXT(new_seq(CKPT_V_FROZENSET, 1, (ckpt_value *[]){new_int(1)}), "frozenset({1})");
    CHECK_TEXT(REDUCE("__builtin__", "set", LIST(new_int(1), new_int(2))), "{1, 2}");
    CHECK_TEXT(REDUCE("builtins", "set", value_new(test_arena, CKPT_V_LIST, 0)), "set()");
    CHECK_TEXT(REDUCE("__builtin__", "frozenset", LIST(new_int(1))), "frozenset({1})");
    CHECK_TYPE(REDUCE("__builtin__", "frozenset", LIST(new_int(1))), "frozenset");
}

static void check_mapping(const ckpt_value *v, size_t n, const char *first_key)
{
    const ckpt_value *key = NULL, *val = NULL;
    CU_ASSERT_EQUAL(ckpt_value_count(v), n);
    CU_ASSERT_FATAL(ckpt_value_item(v, 0, &key, &val));
    CU_ASSERT_PTR_NOT_NULL_FATAL(key);
    CU_ASSERT(str_is(ckpt_value_str(key), first_key));
    CU_ASSERT_PTR_NOT_NULL(val);
    CU_ASSERT(!ckpt_value_item(v, n, &key, &val));
    CU_ASSERT(!ckpt_value_item(v, SIZE_MAX, &key, &val));
}

static void mappings_have_items(void)
{
    ckpt_value *od = value_ordered_dict(test_arena);
    CU_ASSERT(value_put(test_arena, od, new_text("k"), new_int(1)));
    CU_ASSERT(value_put(test_arena, od, new_text("l"), new_int(2)));
    with_state(od, new_dict("_metadata", new_none()));
    check_mapping(od, 2, "k");
    CHECK_TEXT(od, "OrderedDict({'k': 1, 'l': 2})");
    CHECK_TEXT(value_ordered_dict(test_arena), "OrderedDict()");
    CHECK_TYPE(od, "collections.OrderedDict");

    ckpt_value *py2 = REDUCE("collections", "OrderedDict",
                             LIST(LIST(new_text("k"), new_int(1)), LIST(new_text("l"), new_int(2))));
    check_mapping(py2, 2, "k");
    CHECK_TEXT(py2, "OrderedDict({'k': 1, 'l': 2})");
    CU_ASSERT(value_put(test_arena, py2, new_text("m"), new_int(3)));
    check_mapping(py2, 3, "k");

    ckpt_value *counter = REDUCE("collections", "Counter", new_dict("k", new_int(1)));
    check_mapping(counter, 1, "k");
    CHECK_TEXT(counter, "Counter({'k': 1})");

    ckpt_value *dd = REDUCE("collections", "defaultdict", new_global("__builtin__", "list"));
    CU_ASSERT_EQUAL(ckpt_value_count(dd), 0);
    CU_ASSERT(value_put(test_arena, dd, new_text("k"), new_int(1)));
    check_mapping(dd, 1, "k");
    CHECK_TEXT(dd, "defaultdict({'k': 1})");

    ckpt_value *sub = NEWOBJ("my.mod", "Config");
    CU_ASSERT(value_put(test_arena, sub, new_text("k"), new_int(1)));
    check_mapping(with_state(sub, new_dict("attr", new_none())), 1, "k");
    CHECK_TEXT(sub, "Config({'k': 1})");
    CHECK_TYPE(sub, "my.mod.Config");

    ckpt_value *old = REDUCE("copy_reg", "_reconstructor", new_global("my", "D"),
                             new_global("__builtin__", "dict"), new_dict("k", new_int(1)));
    check_mapping(old, 1, "k");
    CHECK_TEXT(old, "D({'k': 1})");
    CHECK_TYPE(old, "my.D");
}

static void objects_have_attributes(void)
{
    ckpt_value *ns = with_state(NEWOBJ("argparse", "Namespace"), new_dict("lr", new_float(0.1)));
    check_mapping(ns, 1, "lr");
    CHECK_TEXT(ns, "Namespace(lr=0.1)");
    CHECK_TYPE(ns, "argparse.Namespace");
    CHECK_TEXT(NEWOBJ("argparse", "Namespace"), "Namespace()");

    ckpt_value *slots = with_state(NEWOBJ("m", "S"),
                                   TUPLE(new_dict("a", new_int(1)), new_dict("b c", new_int(2))));
    check_mapping(slots, 2, "a");
    CHECK_TEXT(slots, "S(a=1, 'b c'=2)");
    check_mapping(with_state(NEWOBJ("m", "S"), TUPLE(new_none(), new_dict("b", new_int(2)))), 1, "b");

    ckpt_value *old = with_state(REDUCE("copy_reg", "_reconstructor", new_global("m", "Old"),
                                        new_global("__builtin__", "object"), new_none()),
                                 new_dict("x", new_int(1)));
    check_mapping(old, 1, "x");
    CHECK_TEXT(old, "Old(x=1)");

    ckpt_value *twice = with_state(with_state(NEWOBJ("m", "T"), new_dict("x", new_int(1))),
                                   new_dict("y", new_int(2)));
    check_mapping(twice, 1, "y"); /* the second state is read */
    CU_ASSERT_EQUAL(value_extra_of(twice)->nstates, 2);

    ckpt_value *odd = with_state(NEWOBJ("m", "T"), TUPLE(new_int(1), new_int(2)));
    CU_ASSERT_EQUAL(ckpt_value_count(odd), 0);
    CHECK_TEXT(odd, "T()");
}

static void sequences_have_items(void)
{
    const ckpt_value *key = new_int(0), *val;
    ckpt_value *size = REDUCE("torch", "Size", TUPLE(new_int(2), new_int(3)));
    CU_ASSERT_EQUAL(ckpt_value_count(size), 2);
    CU_ASSERT(ckpt_value_item(size, 1, &key, &val));
    CU_ASSERT_PTR_NULL(key);
    CU_ASSERT_EQUAL(ckpt_value_int(val), 3);
    CHECK_TEXT(size, "torch.Size([2, 3])");
    CHECK_TEXT(REDUCE("torch", "Size", EMPTY_TUPLE), "torch.Size()");
    CHECK_TYPE(size, "torch.Size");

    ckpt_value *deque = REDUCE("collections", "deque", EMPTY_TUPLE, new_int(5));
    CU_ASSERT(value_append(test_arena, deque, new_int(7)));
    CU_ASSERT_EQUAL(ckpt_value_count(deque), 1);
    CHECK_TEXT(deque, "deque([7])");

    ckpt_value *list = NEWOBJ("my", "List");
    CU_ASSERT(value_append(test_arena, list, new_int(7)));
    CHECK_TEXT(list, "List([7])");

    ckpt_value *named = value_call(test_arena, CALL_NEWOBJ, new_global("my", "Outer.Point"),
                                   TUPLE(new_int(1), new_int(2)), 0);
    CU_ASSERT_EQUAL(ckpt_value_count(named), 2);
    CHECK_TEXT(named, "Point(1, 2)");
    CHECK_TYPE(named, "my.Outer.Point");
    ckpt_value *by_newobj = REDUCE("copyreg", "__newobj__", new_global("my", "Point"), new_int(1));
    CU_ASSERT_EQUAL(ckpt_value_count(by_newobj), 1);
    CHECK_TEXT(by_newobj, "Point(1)");
    CHECK_TYPE(by_newobj, "my.Point");
}

static void other_objects_have_text(void)
{
    CHECK_TEXT(new_global("torch", "float16"), "torch.float16");
    CHECK_TYPE(new_global("torch", "float16"), "torch.dtype");
    CHECK_TYPE(new_global("torch", "uint4"), "torch.dtype");
    CHECK_TYPE(new_global("torch", "int8x"), "type or function torch.int8x");
    CHECK_TYPE(new_global("torch", "per_tensor_affine"), "torch.qscheme");
    CHECK_TYPE(new_global("__builtin__", "Ellipsis"), "ellipsis");
    CHECK_TEXT(REDUCE("__builtin__", "xrange", new_int(0), new_int(3)), "range(0, 3)");
    CHECK_TYPE(REDUCE("__builtin__", "xrange", new_int(0), new_int(3)), "range");
    CHECK_TYPE(REDUCE("exceptions", "ValueError", new_text("x")), "ValueError");
    CHECK_TYPE(new_global("torch.nn", "Linear"), "type or function torch.nn.Linear");
    CHECK_TYPE(new_global("builtins", "len"), "type or function len");
    CHECK_TEXT(new_global("os\x1b", "system"), "os\\u{1b}.system");
    CHECK_TYPE(value_call(test_arena, CALL_NEWOBJ, new_global("m\n", "\xff"), EMPTY_TUPLE, 0),
               "m\\u{a}.\\xff");
    CHECK_TEXT(REDUCE("torch", "device", new_text("cuda"), new_int(1)), "device('cuda:1')");
    CHECK_TEXT(REDUCE("torch", "device", new_text("cpu")), "device('cpu')");
    CHECK_TEXT(REDUCE("torch.serialization", "_get_layout", new_text("torch.strided")), "torch.strided");
    CHECK_TYPE(REDUCE("torch.serialization", "_get_layout", new_text("torch.strided")), "torch.layout");
    CHECK_TEXT(
        REDUCE("__builtin__", "getattr", new_global("torch._utils", "torch"), new_text("channels_last")),
        "torch.channels_last");
    CHECK_TYPE(
        REDUCE("__builtin__", "getattr", new_global("torch._utils", "torch"), new_text("channels_last")),
        "torch.memory_format");
    CHECK_TEXT(new_global("torch._utils", "torch.preserve_format"), "torch.preserve_format");
    CHECK_TYPE(new_global("torch._utils", "torch.preserve_format"), "torch.memory_format");
    CHECK_TEXT(new_global("torch._utils", "torch.other"), "torch._utils.torch.other");
    CHECK_TEXT(REDUCE("builtins", "getattr", new_global("m", "Color"), new_text("RED")), "m.Color.RED");
    CHECK_TYPE(REDUCE("builtins", "getattr", new_global("m", "Color"), new_text("RED")),
               "member m.Color.RED");
    CHECK_TYPE(new_global("m", "Color.RED"), "member m.Color.RED");
    CHECK_TEXT(REDUCE("builtins", "getattr", new_text("x"), new_text("upper")), "getattr('x', 'upper')");
    CHECK_TEXT(REDUCE("builtins", "getattr", new_global("m", "C"), new_text("a.b")),
               "getattr(m.C, 'a.b')"); /* the dot is part of the name */
    CHECK_TEXT(new_global("Queue", "Queue"), "queue.Queue");
    ckpt_value *inner = REDUCE("__builtin__", "getattr", new_global("m", "Sharded"), new_text("State"));
    ckpt_value *made = with_state(value_call(test_arena, CALL_NEWOBJ, inner, EMPTY_TUPLE, 0),
                                  new_dict("rank", new_int(0)));
    CHECK_TEXT(made, "State(rank=0)");
    CHECK_TYPE(made, "m.Sharded.State");
    CHECK_TEXT(REDUCE("__builtin__", "complex", new_float(1), new_float(-2.5)), "(1-2.5j)");
    CHECK_TEXT(REDUCE("__builtin__", "complex", new_float(0), new_float(2)), "2j");
    CHECK_TEXT(REDUCE("__builtin__", "complex", new_float(-0.0), new_float(2)), "(-0+2j)");
    CHECK_TEXT(REDUCE("_codecs", "encode", new_text("a\xc3\xbf\n"), new_text("latin1")), "b'a\\xff\\n'");
    CHECK_TYPE(REDUCE("_codecs", "encode", new_text("a"), new_text("latin1")), "bytes");
    CHECK_TEXT(REDUCE("_codecs", "encode", new_text("\xe2\x82\xac"), new_text("latin1")),
               "encode('\xe2\x82\xac', 'latin1')");
    CHECK_TEXT(value_call(test_arena, CALL_REDUCE, new_global("__builtin__", "bytes"), EMPTY_TUPLE, 0),
               "b''");
    CHECK_TEXT(value_call(test_arena, CALL_REDUCE, new_global("__builtin__", "bytearray"), EMPTY_TUPLE, 0),
               "bytearray(b'')");
    CHECK_TEXT(REDUCE("pathlib", "PosixPath", new_text("/"), new_text("a")), "PosixPath('/', 'a')");
    CHECK_TYPE(REDUCE("torch._utils", "_rebuild_tensor_v2", new_none()), "torch.Tensor");
    CHECK_TYPE(REDUCE("torch._utils", "_rebuild_parameter", new_none()), "torch.nn.parameter.Parameter");
    CHECK_TYPE(REDUCE("torch._tensor", "_rebuild_from_type_v2", new_none(), new_global("my", "Sub")),
               "my.Sub");
    ckpt_value *pid = value_new(test_arena, CKPT_V_PERSID, 0);
    pid->u.pid = TUPLE(new_text("storage"), new_global("torch", "FloatStorage"));
    CHECK_TYPE(pid, "torch.FloatStorage");
    pid->u.pid = new_text("17");
    CHECK_TYPE(pid, "persistent id");
    CHECK_TEXT(pid, "<storage>");
    ckpt_value *row = LIST(new_int(1));
    value_set_row(row, 0);
    CHECK_TEXT(row, "<tensor>");
    CU_ASSERT_EQUAL(ckpt_value_count(row), 0);
}

static void numpy_scalars_are_numbers(void)
{
    CHECK_TEXT(new_scalar("f8", "<", STR_LIT("\x48\xe1\x7a\x14\xae\x07\x53\x40")), "76.12");
    CHECK_TEXT(new_scalar("f8", ">", STR_LIT("\x40\x53\x07\xae\x14\x7a\xe1\x48")), "76.12");
    CHECK_TEXT(new_scalar("f4", "<", STR_LIT("\xcd\xcc\xcc\x3d")), "0.1");
    CHECK_TEXT(new_scalar("f2", "<", STR_LIT("\x66\x2e")), "0.1");
    CHECK_TEXT(new_scalar("i8", "<", STR_LIT("\xff\xff\xff\xff\xff\xff\xff\x7f")), "9223372036854775807");
    CHECK_TEXT(new_scalar("i4", ">", STR_LIT("\xff\xff\xff\xfe")), "-2");
    CHECK_TEXT(new_scalar("u8", "<", STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff")), "18446744073709551615");
    CHECK_TEXT(new_scalar("u2", "<", STR_LIT("\xff\xff")), "65535");
    CHECK_TEXT(new_scalar("b1", "|", STR_LIT("\1")), "True");
    CHECK_TEXT(new_scalar("c8", ">", STR_LIT("\x3f\x80\0\0\x40\0\0\0")), "(1+2j)");
    CHECK_TEXT(new_scalar("U2", "<", STR_LIT("a\0\0\0\xac\x20\0\0")), "'a\xe2\x82\xac'");
    CHECK_TEXT(new_scalar("U2", ">", STR_LIT("\0\0\0a\0\0\0\0")), "'a'");
    CHECK_TEXT(new_scalar("S3", "|", STR_LIT("ab\0")), "b'ab'");
    CHECK_TEXT(new_scalar("M8", "<", STR_LIT("\0\0\0\0\0\0\0\0")), "<numpy.datetime64>");
    CHECK_TEXT(new_scalar("f8", "<", STR_LIT("short")), "<numpy.float64>");
    CHECK_TEXT(new_scalar("f16", "<", STR_LIT("short")), "<numpy.longdouble>");
    CHECK_TYPE(new_scalar("f8", "<", STR_LIT("")), "numpy.float64");
    CHECK_TYPE(new_scalar("U7", "<", STR_LIT("")), "numpy.str_");
    CHECK_TYPE(new_scalar("b1", "|", STR_LIT("")), "numpy.bool");
    ckpt_value *from_protocol_2 = REDUCE(
        "numpy._core.multiarray", "scalar", new_dtype("f4", "<"),
        REDUCE("_codecs", "encode", new_text("\xc3\x8d\xc3\x8c\xc3\x8c="), new_text("latin1")));
    value_set_row(from_protocol_2, 3); /* a scalar that is listed as a tensor */
    CHECK_TEXT(from_protocol_2, "0.1");
    CHECK_TEXT(new_dtype("f4", "<"), "dtype('float32')");
    CHECK_TYPE(new_dtype("f4", "<"), "numpy.dtype");
    ckpt_value *array = REDUCE("numpy.core.multiarray", "_reconstruct", new_global("numpy", "ndarray"),
                               new_none(), new_none());
    CHECK_TYPE(array, "numpy.ndarray");
    struct numpy_dtype d;
    CU_ASSERT(!numpy_dtype_of(REDUCE("numpy", "dtype", new_text("")), &d));
    CU_ASSERT(!numpy_dtype_of(REDUCE("numpy", "dtype", new_int(4)), &d));
    CU_ASSERT(!numpy_dtype_of(NULL, &d));
}

/* A scalar of a float type that numpy itself does not have is not shown or written as an integer. */
static void scalars_of_ml_dtypes_keep_their_fraction(void)
{
    ckpt_value *bfloat16 = with_state(
        REDUCE("numpy", "dtype", new_global("ml_dtypes", "bfloat16"), new_bool(false), new_bool(true)),
        TUPLE(new_int(3), new_text("<"), new_none()));
    ckpt_value *one_and_a_half = REDUCE("numpy.core.multiarray", "scalar", bfloat16,
                                        new_bytes(CKPT_V_BYTES, STR_LIT("\xc0\x3f"))),
               *plain;
    CHECK_TEXT(one_and_a_half, "1.5");
    CU_ASSERT(plain_from_scalar(test_arena, one_and_a_half, &plain));
    CU_ASSERT(plain && plain->type == CKPT_V_FLOAT && plain->u.f == 1.5);
}

static void long_values_are_abbreviated(void)
{
    ckpt_value *d = new_dict("a", new_int(1));
    CU_ASSERT(value_put(test_arena, d, new_text("b"), LIST(new_int(2), new_int(3))));
    CU_ASSERT(value_put(test_arena, d, new_text("c"), new_int(4)));
    CU_ASSERT_STRING_EQUAL(text_of(d, 0), "{\xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 1), "{\xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 3), "{'a': 1, \xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 5), "{'a': 1, 'b': [\xe2\x80\xa6], \xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 9), "{'a': 1, 'b': [2, 3], 'c': 4}");
    CU_ASSERT_STRING_EQUAL(text_of(d, SIZE_MAX), "{'a': 1, 'b': [2, 3], 'c': 4}");
    char long_text[1200], out[16];
    /* text is truncated after 1000 bytes, but a character of 3 bytes at that limit is not split */
    for (int shift = 0; shift < 3; shift++) {
        memset(long_text, 'x', sizeof long_text);
        memcpy(long_text + 998 + shift, "\xe2\x82\xac", 3);
        const char *s = text_of(new_bytes(CKPT_V_STR, str_of(long_text, sizeof long_text)), 1);
        CU_ASSERT_PTR_NULL(strchr(s, '\\'));
        CU_ASSERT_PTR_NOT_NULL(strstr(s, "'\xe2\x80\xa6"));
        CU_ASSERT(strlen(s) > 998 && strlen(s) < 1010);
    }
    CU_ASSERT_EQUAL(ckpt_value_text(d, 9, out, sizeof out), 29);
    CU_ASSERT_STRING_EQUAL(out, "{'a': 1, 'b': [");
    CU_ASSERT_EQUAL(ckpt_value_text(d, 9, NULL, 0), 29);
    struct value_span span = {NULL, 100, 5000000, 4999999};
    ckpt_value *span_text = value_new(test_arena, CKPT_V_STR, 0);
    span_text->flags = VALUE_SPAN;
    span_text->u.span = &span;
    CHECK_TEXT(span_text, "<str, 4999999 characters>");
    CU_ASSERT_EQUAL(ckpt_value_str(span_text).len, 0);
    span_text->type = CKPT_V_BYTES;
    CHECK_TEXT(span_text, "<bytes, 4999999 bytes>");
}

static void cycles_end(void)
{
    ckpt_value *list = LIST(new_int(1));
    CU_ASSERT(value_append(test_arena, list, list));
    CHECK_TEXT(list, "[1, [\xe2\x80\xa6]]");
    ckpt_value *d = new_dict(NULL, NULL), *t = TUPLE(d);
    CU_ASSERT(value_put(test_arena, d, t, t));
    CHECK_TEXT(d, "{({\xe2\x80\xa6},): ({\xe2\x80\xa6},)}");
    ckpt_value *call = value_call(test_arena, CALL_REDUCE, NULL, NULL, 0);
    call->u.call.callable = call;
    call->u.call.args = call;
    CHECK_TEXT(call, "object()");
    CHECK_TYPE(call, "object");
    CU_ASSERT_EQUAL(value_nargs(call), 0);
    CU_ASSERT_PTR_NULL(value_arg(call, 0));
    call->u.call.args = TUPLE(call);
    CHECK_TEXT(call, "object(object(\xe2\x80\xa6))");
}

static void depth_and_sharing_are_bounded(void)
{
    ckpt_value *deep = value_new(test_arena, CKPT_V_LIST, 0);
    for (int i = 0; i < 100000; i++)
        deep = LIST(deep);
    CU_ASSERT(ckpt_value_text(deep, SIZE_MAX, NULL, 0) < 200);
    ckpt_value *wide = new_int(1);
    for (int i = 0; i < 40; i++)
        wide = LIST(wide, wide); /* 2^40 ints if shared lists were copied */
    CU_ASSERT(ckpt_value_text(wide, SIZE_MAX, NULL, 0) < 1000000);
}

static void getters_accept_every_type(void)
{
    for (unsigned t = 0; t <= CKPT_V_TENSOR; t++) {
        ckpt_value *v = value_new(test_arena, (ckpt_value_type)t, 77);
        const ckpt_value *key, *val;
        uint32_t n;
        ckpt_str s;
        int64_t i;
        if (t == CKPT_V_CALL)
            v = value_call(test_arena, CALL_OBJ, new_none(), new_none(), 77);
        if (t == CKPT_V_GLOBAL)
            v = value_global(test_arena, STR_LIT(""), STR_LIT(""), 77);
        CU_ASSERT_EQUAL((unsigned)ckpt_value_get_type(v), t);
        CU_ASSERT_EQUAL(ckpt_value_offset(v), 77);
        CU_ASSERT_EQUAL(ckpt_value_tensor(v), CKPT_NO_TENSOR);
        CU_ASSERT_EQUAL(value_nargs(v), 0);
        CU_ASSERT_EQUAL(value_count(v), 0);
        CU_ASSERT_PTR_NULL(value_pairs(v, &n));
        CU_ASSERT_EQUAL(n, 0);
        CU_ASSERT_PTR_NULL(value_get(v, "x"));
        CU_ASSERT_PTR_NULL(value_item(v, 0));
        CU_ASSERT_PTR_NULL(value_state(v));
        CU_ASSERT(!value_calls(v, "m", "n", 0));
        CU_ASSERT_EQUAL(value_text(v, &s), t == CKPT_V_STR || t == CKPT_V_STR8);
        CU_ASSERT_EQUAL(value_integer(v, &i), t == CKPT_V_INT || t == CKPT_V_BOOL);
        CU_ASSERT_EQUAL(value_module(v).len, 0);
        CU_ASSERT_EQUAL(ckpt_value_float(v), 0.0);
        CU_ASSERT(!ckpt_value_bool(v));
        CU_ASSERT_EQUAL(ckpt_value_str(v).len, 0);
        CU_ASSERT(!ckpt_value_item(v, 0, &key, &val));
        CU_ASSERT(strlen(type_name(v)) > 0);
        CU_ASSERT(strlen(text_of(v, 5)) > 0);
        char tiny[1] = {'x'};
        CU_ASSERT_EQUAL(ckpt_value_type_name(v, tiny, 1)[0], '\0');
    }
}

static void constructed_values_are_read(void)
{
    ckpt_value *v = REDUCE("m", "f", new_int(4), new_text("x"));
    CU_ASSERT(value_calls(v, "m", "f", 2));
    CU_ASSERT(!value_calls(v, "m", "f", 3));
    CU_ASSERT(!value_calls(v, "m", "g", 0));
    CU_ASSERT_EQUAL(ckpt_value_int(value_arg(v, 0)), 4);
    CU_ASSERT_PTR_NULL(value_arg(v, 2));
    CU_ASSERT_EQUAL(ckpt_value_float(new_int(4)), 4.0);
    CU_ASSERT_EQUAL(ckpt_value_int(new_bool(true)), 1);
    ckpt_value *d = new_dict("k", new_int(1));
    CU_ASSERT(value_put(test_arena, d, new_bytes(CKPT_V_STR8, STR_LIT("k")), new_int(2)));
    CU_ASSERT(value_put(test_arena, d, new_bytes(CKPT_V_BYTES, STR_LIT("k")), new_int(3)));
    CU_ASSERT_EQUAL(ckpt_value_int(value_get(d, "k")), 2); /* the last of the keys that are text is found */
    CU_ASSERT_EQUAL(value_count(d), 3);
    ckpt_value *od = value_ordered_dict(test_arena);
    CU_ASSERT(value_append(test_arena, od, new_int(1)));
    CU_ASSERT(value_put(test_arena, od, new_text("k"), new_int(1)));
    with_state(od, new_none());
    CU_ASSERT(value_append(test_arena, od, new_int(1)));
    with_state(od, d);
    CU_ASSERT_EQUAL(value_extra_of(od)->entries_before_build, 2);
    CU_ASSERT_PTR_EQUAL(value_state(od), d);
    CU_ASSERT(!value_add_state(test_arena, d, d));
    CU_ASSERT(!value_append(test_arena, d, d));
    CU_ASSERT(!value_put(test_arena, new_int(1), d, d));
    CU_ASSERT(value_is_global(new_global("a", "b"), "a", "b"));
    CU_ASSERT(!value_is_global(value_global(test_arena, STR_LIT("a\0x"), STR_LIT("b"), 0), "a", "b"));
}

/* The allocation number N fails, counted from the beginning of a constructor. */
static void failing_allocations_are_reported(void)
{
    ckpt_value *item = new_int(1), *tuple = TUPLE(item);
    for (uint64_t n = 1; n <= 3; n++) {
        ckpt_value *v;
        arena_fail_at(test_arena, n);
        v = value_global(test_arena, STR_LIT("m"), STR_LIT("n"), 0);
        CU_ASSERT_EQUAL(v == NULL, n <= 2); /* value_global allocates twice */
        arena_fail_at(test_arena, n);
        v = value_call(test_arena, CALL_REDUCE, item, tuple, 0);
        CU_ASSERT_EQUAL(v == NULL, n <= 1); /* value_call allocates once */
        arena_fail_at(test_arena, n);
        v = value_tuple(test_arena, 1, &item);
        CU_ASSERT_EQUAL(v == NULL, n <= 2); /* value_tuple allocates twice */
        arena_fail_at(test_arena, n);
        CU_ASSERT_PTR_NULL(value_ordered_dict(test_arena));
        arena_fail_at(test_arena, 0);
    }
    arena *small = arena_new(300);
    ckpt_value *list = value_new(small, CKPT_V_LIST, 0);
    uint32_t n = 0;
    while (value_append(small, list, item))
        n++;
    CU_ASSERT_EQUAL(value_count(list), n);
    CU_ASSERT_PTR_EQUAL(value_item(list, n - 1), item);
    CU_ASSERT(!value_append(small, list, item));
    arena_free(small);
}

#define TESTS(X)                                                                                             \
    X(builtin_values_have_text)                                                                              \
    X(floats_have_the_shortest_text_that_reads_back)                                                         \
    X(big_integers_are_exact)                                                                                \
    X(containers_have_text)                                                                                  \
    X(mappings_have_items)                                                                                   \
    X(objects_have_attributes)                                                                               \
    X(sequences_have_items)                                                                                  \
    X(other_objects_have_text)                                                                               \
    X(numpy_scalars_are_numbers)                                                                             \
    X(scalars_of_ml_dtypes_keep_their_fraction)                                                              \
    X(long_values_are_abbreviated)                                                                           \
    X(cycles_end)                                                                                            \
    X(depth_and_sharing_are_bounded)                                                                         \
    X(getters_accept_every_type) X(constructed_values_are_read) X(failing_allocations_are_reported)

/* IN_ARENA - defines test_TEST, which runs TEST with a new arena in the variable test_arena. */
#define IN_ARENA(test)                                                                                       \
    static void test_##test(void)                                                                            \
    {                                                                                                        \
        test_arena = arena_new((uint64_t)1 << 28);                                                           \
        test();                                                                                              \
        arena_free(test_arena);                                                                              \
        test_arena = NULL;                                                                                   \
    }
TESTS(IN_ARENA)

#define ADD(test) unit_add(#test, test_##test);

void suite_value(void) { TESTS(ADD) }
