/* The value graph: every Python object that real files hold, as pickle writes it, and malformed ones. */
#include <math.h>

#include "core/numpy.h"
#include "core/repr.h"
#include "core/value.h"
#include "unit.h"

static arena *a;

static ckpt_value *text(const char *z) { return value_str(a, str_c(z)); }
static ckpt_value *num(int64_t i) { return value_int(a, i); }
static ckpt_value *none(void) { return value_new(a, CKPT_V_NONE, 0); }
static ckpt_value *global(const char *m, const char *n) { return value_global(a, str_c(m), str_c(n), 0); }

static ckpt_value *boolean(bool b)
{
    ckpt_value *v = value_new(a, CKPT_V_BOOL, 0);
    v->u.b = b;
    return v;
}

static ckpt_value *floating(double f)
{
    ckpt_value *v = value_new(a, CKPT_V_FLOAT, 0);
    v->u.f = f;
    return v;
}

static ckpt_value *bytes_value(ckpt_value_type type, ckpt_str s)
{
    ckpt_value *v = value_new(a, type, 0);
    v->u.str = s;
    return v;
}

#define COUNT(...)        (sizeof((ckpt_value *[]){__VA_ARGS__}) / sizeof(ckpt_value *))
#define TUPLE(...)        value_tuple(a, COUNT(__VA_ARGS__), (ckpt_value *[]){__VA_ARGS__})
#define LIST(...)         seq(CKPT_V_LIST, COUNT(__VA_ARGS__), (ckpt_value *[]){__VA_ARGS__})
#define EMPTY             value_tuple(a, 0, NULL)
#define REDUCE(m, n, ...) value_call(a, CALL_REDUCE, global(m, n), TUPLE(__VA_ARGS__), 0)
#define NEWOBJ(m, n)      value_call(a, CALL_NEWOBJ, global(m, n), EMPTY, 0)

static ckpt_value *seq(ckpt_value_type type, size_t n, ckpt_value **items)
{
    ckpt_value *v = value_new(a, type, 0);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT(value_append(a, v, items[i]));
    return v;
}

static ckpt_value *dict(const char *key, ckpt_value *val)
{
    ckpt_value *v = value_new(a, CKPT_V_DICT, 0);
    if (key)
        CU_ASSERT(value_put(a, v, text(key), val));
    return v;
}

static ckpt_value *built(ckpt_value *v, ckpt_value *state)
{
    CU_ASSERT(value_build(a, v, state));
    return v;
}

static ckpt_value *dtype(const char *code, const char *order)
{
    return built(REDUCE("numpy", "dtype", text(code), boolean(false), boolean(true)),
                 TUPLE(num(3), text(order), none()));
}

static ckpt_value *scalar(const char *code, const char *order, ckpt_str bytes)
{
    return REDUCE("numpy.core.multiarray", "scalar", dtype(code, order), bytes_value(CKPT_V_BYTES, bytes));
}

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

static void builtin_values(void)
{
    CHECK_TEXT(NULL, "None");
    CHECK_TEXT(none(), "None");
    CHECK_TEXT(boolean(true), "True");
    CHECK_TEXT(num(INT64_MIN), "-9223372036854775808");
    CHECK_TEXT(text("adam"), "'adam'");
    CHECK_TEXT(text("it's\n\x1b\\\xe2\x80\xae"), "'it\\'s\\n\\u{1b}\\\\\\u{202e}'");
    CHECK_TEXT(bytes_value(CKPT_V_STR8, STR_LIT("py2\xff")), "'py2\\xff'");
    CHECK_TEXT(bytes_value(CKPT_V_BYTES, STR_LIT("a\0\xc3\xa4'")), "b'a\\x00\\xc3\\xa4\\''");
    CHECK_TEXT(bytes_value(CKPT_V_BYTEARRAY, STR_LIT("a")), "bytearray(b'a')");
    CHECK_TYPE(NULL, "NoneType");
    CHECK_TYPE(boolean(false), "bool");
    CHECK_TYPE(bytes_value(CKPT_V_BIGINT, STR_LIT("\1")), "int");
    CHECK_TYPE(bytes_value(CKPT_V_STR8, STR_LIT("")), "str");
    CHECK_TYPE(value_new(a, CKPT_V_FROZENSET, 0), "frozenset");
}

static void floats_have_the_shortest_text_that_reads_back(void)
{
    static const struct {
        double x;
        const char *want;
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
        {0x1p-1017, "7.120236347223045e-307"}, /* these are not the nearest 16 digits, but they read back */
        {9007199254740993.0, "9007199254740992.0"},
        {76.13, "76.13"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_TEXT(floating(cases[i].x), cases[i].want);
    char out[REPR_FLOAT];
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
    unsigned char bytes[REPR_BIG_BYTES + 1] = {0};
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, STR_LIT("")), "0");
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, STR_LIT("\0\0\0\0\0\0\0\0\1")), "18446744073709551616");
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, STR_LIT("\0\0\0\0\0\0\0\0\xff")), "-18446744073709551616");
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff")), "-1");
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\0")),
               "18446744073709551615");
    bytes[250] = 1; /* 2^2000 */
    const char *big = text_of(bytes_value(CKPT_V_BIGINT, str_of((char *)bytes, 251)), 1);
    CU_ASSERT_EQUAL(strlen(big), 603);
    CU_ASSERT_NSTRING_EQUAL(big, "114813069527425452423283320117768198402231770208869520047764", 60);
    CU_ASSERT_STRING_EQUAL(big + 603 - 12, "851149029376");
    memset(bytes, 0, sizeof bytes);
    bytes[REPR_BIG_BYTES - 1] = 0x80; /* the smallest int of this length */
    big = text_of(bytes_value(CKPT_V_BIGINT, str_of((char *)bytes, REPR_BIG_BYTES)), 1);
    CU_ASSERT_EQUAL(big[0], '-');
    CU_ASSERT_EQUAL(strlen(big), 1 + 1233);
    CHECK_TEXT(bytes_value(CKPT_V_BIGINT, str_of((char *)bytes, sizeof bytes)), "<int, 513 bytes>");
}

static void containers(void)
{
    CHECK_TEXT(EMPTY, "()");
    CHECK_TEXT(TUPLE(num(1)), "(1,)");
    CHECK_TEXT(TUPLE(num(1), num(2)), "(1, 2)");
    CHECK_TEXT(LIST(num(1), LIST(text("a")), dict(NULL, NULL)), "[1, ['a'], {}]");
    ckpt_value *d = dict("lr", floating(0.1));
    CU_ASSERT(value_put(a, d, num(3), none()));
    CU_ASSERT(value_put(a, d, TUPLE(num(1), num(2)), boolean(true)));
    CHECK_TEXT(d, "{'lr': 0.1, 3: None, (1, 2): True}");
    CHECK_TEXT(seq(CKPT_V_SET, 1, (ckpt_value *[]){num(1)}), "{1}");
    CHECK_TEXT(value_new(a, CKPT_V_SET, 0), "set()");
    CHECK_TEXT(value_new(a, CKPT_V_FROZENSET, 0), "frozenset()");
    CHECK_TEXT(seq(CKPT_V_FROZENSET, 1, (ckpt_value *[]){num(1)}), "frozenset({1})");
    CHECK_TEXT(REDUCE("__builtin__", "set", LIST(num(1), num(2))), "{1, 2}");
    CHECK_TEXT(REDUCE("builtins", "set", value_new(a, CKPT_V_LIST, 0)), "set()");
    CHECK_TEXT(REDUCE("__builtin__", "frozenset", LIST(num(1))), "frozenset({1})");
    CHECK_TYPE(REDUCE("__builtin__", "frozenset", LIST(num(1))), "frozenset");
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

static void mappings(void)
{
    ckpt_value *od = value_ordered_dict(a);
    CU_ASSERT(value_put(a, od, text("k"), num(1)));
    CU_ASSERT(value_put(a, od, text("l"), num(2)));
    built(od, dict("_metadata", none()));
    check_mapping(od, 2, "k");
    CHECK_TEXT(od, "OrderedDict({'k': 1, 'l': 2})");
    CHECK_TEXT(value_ordered_dict(a), "OrderedDict()");
    CHECK_TYPE(od, "collections.OrderedDict");

    ckpt_value *py2 = REDUCE("collections", "OrderedDict",
                             LIST(LIST(text("k"), num(1)), LIST(text("l"), num(2))));
    check_mapping(py2, 2, "k");
    CHECK_TEXT(py2, "OrderedDict({'k': 1, 'l': 2})");
    CU_ASSERT(value_put(a, py2, text("m"), num(3)));
    check_mapping(py2, 3, "k");

    ckpt_value *counter = REDUCE("collections", "Counter", dict("k", num(1)));
    check_mapping(counter, 1, "k");
    CHECK_TEXT(counter, "Counter({'k': 1})");

    ckpt_value *dd = REDUCE("collections", "defaultdict", global("__builtin__", "list"));
    CU_ASSERT_EQUAL(ckpt_value_count(dd), 0);
    CU_ASSERT(value_put(a, dd, text("k"), num(1)));
    check_mapping(dd, 1, "k");
    CHECK_TEXT(dd, "defaultdict({'k': 1})");

    ckpt_value *sub = NEWOBJ("my.mod", "Config");
    CU_ASSERT(value_put(a, sub, text("k"), num(1)));
    check_mapping(built(sub, dict("attr", none())), 1, "k");
    CHECK_TEXT(sub, "Config({'k': 1})");
    CHECK_TYPE(sub, "my.mod.Config");

    ckpt_value *old = REDUCE("copy_reg", "_reconstructor", global("my", "D"), global("__builtin__", "dict"),
                             dict("k", num(1)));
    check_mapping(old, 1, "k");
    CHECK_TEXT(old, "D({'k': 1})");
    CHECK_TYPE(old, "my.D");
}

static void objects_with_attributes(void)
{
    ckpt_value *ns = built(NEWOBJ("argparse", "Namespace"), dict("lr", floating(0.1)));
    check_mapping(ns, 1, "lr");
    CHECK_TEXT(ns, "Namespace(lr=0.1)");
    CHECK_TYPE(ns, "argparse.Namespace");
    CHECK_TEXT(NEWOBJ("argparse", "Namespace"), "Namespace()");

    ckpt_value *slots = built(NEWOBJ("m", "S"), TUPLE(dict("a", num(1)), dict("b c", num(2))));
    check_mapping(slots, 2, "a");
    CHECK_TEXT(slots, "S(a=1, 'b c'=2)");
    check_mapping(built(NEWOBJ("m", "S"), TUPLE(none(), dict("b", num(2)))), 1, "b");

    ckpt_value *old = built(
        REDUCE("copy_reg", "_reconstructor", global("m", "Old"), global("__builtin__", "object"), none()),
        dict("x", num(1)));
    check_mapping(old, 1, "x");
    CHECK_TEXT(old, "Old(x=1)");

    ckpt_value *twice = built(built(NEWOBJ("m", "T"), dict("x", num(1))), dict("y", num(2)));
    check_mapping(twice, 1, "y");
    CU_ASSERT_EQUAL(value_more_of(twice)->nstates, 2);

    ckpt_value *odd = built(NEWOBJ("m", "T"), TUPLE(num(1), num(2)));
    CU_ASSERT_EQUAL(ckpt_value_count(odd), 0);
    CHECK_TEXT(odd, "T()");
}

static void sequences(void)
{
    const ckpt_value *key = num(0), *val;
    ckpt_value *size = REDUCE("torch", "Size", TUPLE(num(2), num(3)));
    CU_ASSERT_EQUAL(ckpt_value_count(size), 2);
    CU_ASSERT(ckpt_value_item(size, 1, &key, &val));
    CU_ASSERT_PTR_NULL(key);
    CU_ASSERT_EQUAL(ckpt_value_int(val), 3);
    CHECK_TEXT(size, "torch.Size([2, 3])");
    CHECK_TEXT(REDUCE("torch", "Size", EMPTY), "torch.Size()");
    CHECK_TYPE(size, "torch.Size");

    ckpt_value *deque = REDUCE("collections", "deque", EMPTY, num(5));
    CU_ASSERT(value_append(a, deque, num(7)));
    CU_ASSERT_EQUAL(ckpt_value_count(deque), 1);
    CHECK_TEXT(deque, "deque([7])");

    ckpt_value *list = NEWOBJ("my", "List");
    CU_ASSERT(value_append(a, list, num(7)));
    CHECK_TEXT(list, "List([7])");

    ckpt_value *named = value_call(a, CALL_NEWOBJ, global("my", "Outer.Point"), TUPLE(num(1), num(2)), 0);
    CU_ASSERT_EQUAL(ckpt_value_count(named), 2);
    CHECK_TEXT(named, "Point(1, 2)");
    CHECK_TYPE(named, "my.Outer.Point");
    ckpt_value *again = REDUCE("copyreg", "__newobj__", global("my", "Point"), num(1));
    CU_ASSERT_EQUAL(ckpt_value_count(again), 1);
    CHECK_TEXT(again, "Point(1)");
    CHECK_TYPE(again, "my.Point");
}

static void other_objects(void)
{
    CHECK_TEXT(global("torch", "float16"), "torch.float16");
    CHECK_TYPE(global("torch", "float16"), "torch.dtype");
    CHECK_TYPE(global("torch", "uint4"), "torch.dtype");
    CHECK_TYPE(global("torch", "int8x"), "type or function torch.int8x");
    CHECK_TYPE(global("torch", "per_tensor_affine"), "torch.qscheme");
    CHECK_TYPE(global("__builtin__", "Ellipsis"), "ellipsis");
    CHECK_TEXT(REDUCE("__builtin__", "xrange", num(0), num(3)), "range(0, 3)");
    CHECK_TYPE(REDUCE("__builtin__", "xrange", num(0), num(3)), "range");
    CHECK_TYPE(REDUCE("exceptions", "ValueError", text("x")), "ValueError");
    CHECK_TYPE(global("torch.nn", "Linear"), "type or function torch.nn.Linear");
    CHECK_TYPE(global("builtins", "len"), "type or function len");
    CHECK_TEXT(global("os\x1b", "system"), "os\\u{1b}.system");
    CHECK_TYPE(value_call(a, CALL_NEWOBJ, global("m\n", "\xff"), EMPTY, 0), "m\\u{a}.\\xff");
    CHECK_TEXT(REDUCE("torch", "device", text("cuda"), num(1)), "device('cuda:1')");
    CHECK_TEXT(REDUCE("torch", "device", text("cpu")), "device('cpu')");
    CHECK_TEXT(REDUCE("torch.serialization", "_get_layout", text("torch.strided")), "torch.strided");
    CHECK_TYPE(REDUCE("torch.serialization", "_get_layout", text("torch.strided")), "torch.layout");
    CHECK_TEXT(REDUCE("__builtin__", "getattr", global("torch._utils", "torch"), text("channels_last")),
               "torch.channels_last");
    CHECK_TYPE(REDUCE("__builtin__", "getattr", global("torch._utils", "torch"), text("x")),
               "torch.memory_format");
    CHECK_TEXT(REDUCE("builtins", "getattr", global("m", "Color"), text("RED")), "Color.RED");
    CHECK_TYPE(REDUCE("builtins", "getattr", global("m", "Color"), text("RED")), "m.Color");
    ckpt_value *inner = REDUCE("__builtin__", "getattr", global("m", "Sharded"), text("State"));
    ckpt_value *made = built(value_call(a, CALL_NEWOBJ, inner, EMPTY, 0), dict("rank", num(0)));
    CHECK_TEXT(made, "State(rank=0)");
    CHECK_TYPE(made, "m.Sharded.State");
    CHECK_TEXT(REDUCE("__builtin__", "complex", floating(1), floating(-2.5)), "(1-2.5j)");
    CHECK_TEXT(REDUCE("__builtin__", "complex", floating(0), floating(2)), "2j");
    CHECK_TEXT(REDUCE("__builtin__", "complex", floating(-0.0), floating(2)), "(-0+2j)");
    CHECK_TEXT(REDUCE("_codecs", "encode", text("a\xc3\xbf\n"), text("latin1")), "b'a\\xff\\n'");
    CHECK_TYPE(REDUCE("_codecs", "encode", text("a"), text("latin1")), "bytes");
    CHECK_TEXT(REDUCE("_codecs", "encode", text("\xe2\x82\xac"), text("latin1")),
               "encode('\xe2\x82\xac', 'latin1')");
    CHECK_TEXT(value_call(a, CALL_REDUCE, global("__builtin__", "bytes"), EMPTY, 0), "b''");
    CHECK_TEXT(REDUCE("pathlib", "PosixPath", text("/"), text("a")), "PosixPath('/', 'a')");
    CHECK_TYPE(REDUCE("torch._utils", "_rebuild_tensor_v2", none()), "torch.Tensor");
    CHECK_TYPE(REDUCE("torch._utils", "_rebuild_parameter", none()), "torch.nn.parameter.Parameter");
    CHECK_TYPE(REDUCE("torch._tensor", "_rebuild_from_type_v2", none(), global("my", "Sub")), "my.Sub");
    ckpt_value *pid = value_new(a, CKPT_V_PERSID, 0);
    pid->u.pid = TUPLE(text("storage"), global("torch", "FloatStorage"));
    CHECK_TYPE(pid, "torch.FloatStorage");
    pid->u.pid = text("17");
    CHECK_TYPE(pid, "persistent id");
    CHECK_TEXT(pid, "<storage>");
    ckpt_value *row = LIST(num(1));
    row->row = 0;
    CHECK_TEXT(row, "<tensor>");
    CU_ASSERT_EQUAL(ckpt_value_count(row), 0);
}

static void numpy_scalars_are_numbers(void)
{
    CHECK_TEXT(scalar("f8", "<", STR_LIT("\x48\xe1\x7a\x14\xae\x07\x53\x40")), "76.12");
    CHECK_TEXT(scalar("f8", ">", STR_LIT("\x40\x53\x07\xae\x14\x7a\xe1\x48")), "76.12");
    CHECK_TEXT(scalar("f4", "<", STR_LIT("\xcd\xcc\xcc\x3d")), "0.1");
    CHECK_TEXT(scalar("f2", "<", STR_LIT("\x66\x2e")), "0.1");
    CHECK_TEXT(scalar("i8", "<", STR_LIT("\xff\xff\xff\xff\xff\xff\xff\x7f")), "9223372036854775807");
    CHECK_TEXT(scalar("i4", ">", STR_LIT("\xff\xff\xff\xfe")), "-2");
    CHECK_TEXT(scalar("u8", "<", STR_LIT("\xff\xff\xff\xff\xff\xff\xff\xff")), "18446744073709551615");
    CHECK_TEXT(scalar("u2", "<", STR_LIT("\xff\xff")), "65535");
    CHECK_TEXT(scalar("b1", "|", STR_LIT("\1")), "True");
    CHECK_TEXT(scalar("c8", ">", STR_LIT("\x3f\x80\0\0\x40\0\0\0")), "(1+2j)");
    CHECK_TEXT(scalar("U2", "<", STR_LIT("a\0\0\0\xac\x20\0\0")), "'a\xe2\x82\xac'");
    CHECK_TEXT(scalar("U2", ">", STR_LIT("\0\0\0a\0\0\0\0")), "'a'");
    CHECK_TEXT(scalar("S3", "|", STR_LIT("ab\0")), "b'ab'");
    CHECK_TEXT(scalar("M8", "<", STR_LIT("\0\0\0\0\0\0\0\0")), "<numpy.datetime64>");
    CHECK_TEXT(scalar("f8", "<", STR_LIT("short")), "<numpy.float64>");
    CHECK_TEXT(scalar("f16", "<", STR_LIT("short")), "<numpy.longdouble>");
    CHECK_TYPE(scalar("f8", "<", STR_LIT("")), "numpy.float64");
    CHECK_TYPE(scalar("U7", "<", STR_LIT("")), "numpy.str_");
    CHECK_TYPE(scalar("b1", "|", STR_LIT("")), "numpy.bool");
    ckpt_value *p2 = REDUCE("numpy._core.multiarray", "scalar", dtype("f4", "<"),
                            REDUCE("_codecs", "encode", text("\xc3\x8d\xc3\x8c\xc3\x8c="), text("latin1")));
    p2->row = 3; /* a scalar that is listed as a tensor */
    CHECK_TEXT(p2, "0.1");
    CHECK_TEXT(dtype("f4", "<"), "dtype('float32')");
    CHECK_TYPE(dtype("f4", "<"), "numpy.dtype");
    ckpt_value *array = REDUCE("numpy.core.multiarray", "_reconstruct", global("numpy", "ndarray"), none(),
                               none());
    CHECK_TYPE(array, "numpy.ndarray");
    struct numpy_dtype d;
    CU_ASSERT(!numpy_dtype_of(REDUCE("numpy", "dtype", text("")), &d));
    CU_ASSERT(!numpy_dtype_of(REDUCE("numpy", "dtype", num(4)), &d));
    CU_ASSERT(!numpy_dtype_of(NULL, &d));
}

static void long_values_are_abbreviated(void)
{
    ckpt_value *d = dict("a", num(1));
    CU_ASSERT(value_put(a, d, text("b"), LIST(num(2), num(3))));
    CU_ASSERT(value_put(a, d, text("c"), num(4)));
    CU_ASSERT_STRING_EQUAL(text_of(d, 0), "{\xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 1), "{\xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 3), "{'a': 1, \xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 5), "{'a': 1, 'b': [\xe2\x80\xa6], \xe2\x80\xa6} 3 items");
    CU_ASSERT_STRING_EQUAL(text_of(d, 9), "{'a': 1, 'b': [2, 3], 'c': 4}");
    CU_ASSERT_STRING_EQUAL(text_of(d, SIZE_MAX), "{'a': 1, 'b': [2, 3], 'c': 4}");
    char long_text[1200], out[16];
    for (int shift = 0; shift < 3; shift++) {
        memset(long_text, 'x', sizeof long_text);
        memcpy(long_text + 998 + shift, "\xe2\x82\xac", 3);
        const char *s = text_of(bytes_value(CKPT_V_STR, str_of(long_text, sizeof long_text)), 1);
        CU_ASSERT_PTR_NULL(strchr(s, '\\'));
        CU_ASSERT_PTR_NOT_NULL(strstr(s, "'\xe2\x80\xa6"));
        CU_ASSERT(strlen(s) > 998 && strlen(s) < 1010);
    }
    CU_ASSERT_EQUAL(ckpt_value_text(d, 9, out, sizeof out), 29);
    CU_ASSERT_STRING_EQUAL(out, "{'a': 1, 'b': [");
    CU_ASSERT_EQUAL(ckpt_value_text(d, 9, NULL, 0), 29);
    struct value_span span = {NULL, 100, 5000000, 4999999};
    ckpt_value *far = value_new(a, CKPT_V_STR, 0);
    far->flags = VALUE_SPAN;
    far->u.span = &span;
    CHECK_TEXT(far, "<str, 4999999 characters>");
    CU_ASSERT_EQUAL(ckpt_value_str(far).len, 0);
    far->type = CKPT_V_BYTES;
    CHECK_TEXT(far, "<bytes, 4999999 bytes>");
}

static void cycles_end(void)
{
    ckpt_value *list = LIST(num(1));
    CU_ASSERT(value_append(a, list, list));
    CHECK_TEXT(list, "[1, [\xe2\x80\xa6]]");
    ckpt_value *d = dict(NULL, NULL), *t = TUPLE(d);
    CU_ASSERT(value_put(a, d, t, t));
    CHECK_TEXT(d, "{({\xe2\x80\xa6},): ({\xe2\x80\xa6},)}");
    ckpt_value *call = value_call(a, CALL_REDUCE, NULL, NULL, 0);
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
    ckpt_value *deep = value_new(a, CKPT_V_LIST, 0);
    for (int i = 0; i < 100000; i++)
        deep = LIST(deep);
    CU_ASSERT(ckpt_value_text(deep, SIZE_MAX, NULL, 0) < 200);
    ckpt_value *wide = num(1);
    for (int i = 0; i < 40; i++)
        wide = LIST(wide, wide); /* 2^40 ints, as a tree */
    CU_ASSERT(ckpt_value_text(wide, SIZE_MAX, NULL, 0) < 1000000);
}

static void getters_accept_every_type(void)
{
    for (unsigned t = 0; t <= CKPT_V_TENSOR; t++) {
        ckpt_value *v = value_new(a, (ckpt_value_type)t, 77);
        const ckpt_value *key, *val;
        uint32_t n;
        ckpt_str s;
        int64_t i;
        if (t == CKPT_V_CALL)
            v = value_call(a, CALL_OBJ, none(), none(), 77);
        if (t == CKPT_V_GLOBAL)
            v = value_global(a, STR_LIT(""), STR_LIT(""), 77);
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

static void reads_constructed_values(void)
{
    ckpt_value *v = REDUCE("m", "f", num(4), text("x"));
    CU_ASSERT(value_calls(v, "m", "f", 2));
    CU_ASSERT(!value_calls(v, "m", "f", 3));
    CU_ASSERT(!value_calls(v, "m", "g", 0));
    CU_ASSERT_EQUAL(ckpt_value_int(value_arg(v, 0)), 4);
    CU_ASSERT_PTR_NULL(value_arg(v, 2));
    CU_ASSERT_EQUAL(ckpt_value_float(num(4)), 4.0);
    CU_ASSERT_EQUAL(ckpt_value_int(boolean(true)), 1);
    ckpt_value *d = dict("k", num(1));
    CU_ASSERT(value_put(a, d, bytes_value(CKPT_V_STR8, STR_LIT("k")), num(2)));
    CU_ASSERT(value_put(a, d, bytes_value(CKPT_V_BYTES, STR_LIT("k")), num(3)));
    CU_ASSERT_EQUAL(ckpt_value_int(value_get(d, "k")), 2); /* a dict keeps the last one */
    CU_ASSERT_EQUAL(value_count(d), 3);
    ckpt_value *od = value_ordered_dict(a);
    CU_ASSERT(value_append(a, od, num(1)));
    CU_ASSERT(value_put(a, od, text("k"), num(1)));
    built(od, none());
    CU_ASSERT(value_append(a, od, num(1)));
    built(od, d);
    CU_ASSERT_EQUAL(value_more_of(od)->build_items, 2);
    CU_ASSERT_PTR_EQUAL(value_state(od), d);
    CU_ASSERT(!value_build(a, d, d));
    CU_ASSERT(!value_append(a, d, d));
    CU_ASSERT(!value_put(a, num(1), d, d));
    CU_ASSERT(value_is_global(global("a", "b"), "a", "b"));
    CU_ASSERT(!value_is_global(value_global(a, STR_LIT("a\0x"), STR_LIT("b"), 0), "a", "b"));
}

/* Each constructor fails at each of its allocations. */
static void failing_allocations_are_reported(void)
{
    ckpt_value *item = num(1), *tuple = TUPLE(item);
    for (uint64_t n = 1; n <= 3; n++) {
        ckpt_value *v;
        arena_fail_at(a, n);
        v = value_global(a, STR_LIT("m"), STR_LIT("n"), 0);
        CU_ASSERT_EQUAL(v == NULL, n <= 2);
        arena_fail_at(a, n);
        v = value_call(a, CALL_REDUCE, item, tuple, 0);
        CU_ASSERT_EQUAL(v == NULL, n <= 1);
        arena_fail_at(a, n);
        v = value_tuple(a, 1, &item);
        CU_ASSERT_EQUAL(v == NULL, n <= 2);
        arena_fail_at(a, n);
        CU_ASSERT_PTR_NULL(value_ordered_dict(a));
        arena_fail_at(a, 0);
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
    X(builtin_values)                                                                                        \
    X(floats_have_the_shortest_text_that_reads_back)                                                         \
    X(big_integers_are_exact)                                                                                \
    X(containers)                                                                                            \
    X(mappings)                                                                                              \
    X(objects_with_attributes)                                                                               \
    X(sequences)                                                                                             \
    X(other_objects)                                                                                         \
    X(numpy_scalars_are_numbers)                                                                             \
    X(long_values_are_abbreviated)                                                                           \
    X(cycles_end)                                                                                            \
    X(depth_and_sharing_are_bounded)                                                                         \
    X(getters_accept_every_type) X(reads_constructed_values) X(failing_allocations_are_reported)

/* IN_ARENA - defines test_TEST, which runs TEST with a new arena A. */
#define IN_ARENA(test)                                                                                       \
    static void test_##test(void)                                                                            \
    {                                                                                                        \
        a = arena_new((uint64_t)1 << 28);                                                                    \
        test();                                                                                              \
        arena_free(a);                                                                                       \
        a = NULL;                                                                                            \
    }
TESTS(IN_ARENA)

#define ADD(test) unit_add(#test, test_##test);

void suite_value(void) { TESTS(ADD) }
