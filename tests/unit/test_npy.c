/* Python literals and headers of .npy files, which are such literals, are read. All other text is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"
#include "codec/npy.h"
#include "unit.h"

/* check_literal - checks that TEXT is read as the literal WANT, or refused with the message WANT. */
static void check_literal(const char *text, const char *want)
{
    arena *a = arena_new(1 << 20);
    ckpt_value *v = NULL;
    ckpt_error err;
    char got[sizeof err.what];
    ckpt_status st = literal_read(a, str_c(text), 0, &v, &err);
    snprintf(got, sizeof got, "%s", st == CKPT_OK ? "" : err.what);
    if (st == CKPT_OK)
        (void)ckpt_value_text(v, 64, got, sizeof got);
    CU_ASSERT_STRING_EQUAL(got, want);
    if (strcmp(got, want) != 0)
        printf("  %s\n  is read as %s, not as %s\n", text, got, want);
    arena_free(a);
}

static void python_literals_are_read(void)
{
    check_literal("{'a': (2, 3), \"b\": [True, False, None],}", "{'a': (2, 3), 'b': [True, False, None]}");
    check_literal(" # x\n( 6 ) ", "6");
    check_literal("(6,)", "(6,)");
    check_literal("()", "()");
    check_literal("[[], {}, ((1))]", "[[], {}, 1]");
    check_literal("{1: {2: 3}}", "{1: {2: 3}}");
    check_literal("0x1f", "31");
    check_literal("[0b11, 0o17, 1_000, 2L, -3, 0, 00]", "[3, 15, 1000, 2, -3, 0, 0]");
    check_literal("'<' u'f4'\n\"x\"", "'<f4x'");
    check_literal("'\\x3cf4\\101\\u00e9\\'\\q'", "'<f4A\xc3\xa9\\'\\\\q'");
    check_literal("9223372036854775807", "9223372036854775807");
}

static void other_text_is_refused(void)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "(",
                                        "[1",
                                        "{1}",
                                        "{1:}",
                                        "{:1}",
                                        "{1:2",
                                        "(,)",
                                        "(1,,2)",
                                        "[1 2]",
                                        "1 2",
                                        ")",
                                        "]",
                                        "(1]",
                                        "x",
                                        "dict()",
                                        "f(1)",
                                        "1+2",
                                        "2.0",
                                        "1e3",
                                        "b'x'",
                                        "r'x'",
                                        "f'x'",
                                        "'x",
                                        "'x\n'",
                                        "'\\x3'",
                                        "'\\ud800'",
                                        "'\\U00110000'",
                                        "'\\N{BULLET}'",
                                        "9223372036854775808",
                                        "01",
                                        "0x",
                                        "1__0",
                                        "1_",
                                        "Truex",
                                        "--1",
                                        "...",
                                        "lambda: 1",
                                        "{1: 2, **{}}",
                                        "\0",
                                        "1;2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        arena *a = arena_new(1 << 20);
        ckpt_value *v = NULL;
        ckpt_error err;
        ckpt_status st = literal_read(a, str_c(texts[i]), 7, &v, &err);
        CU_ASSERT(st == CKPT_EFORMAT && err.offset == 7 && err.what[0]);
        if (st != CKPT_EFORMAT)
            printf("  %s is not refused\n", texts[i]);
        arena_free(a);
    }
}

static void the_depth_of_brackets_is_limited(void)
{
    char text[300] = "";
    for (size_t i = 0; i < LITERAL_MAX_DEPTH + 1; i++) {
        text[i] = '(';
        text[2 * LITERAL_MAX_DEPTH + 2 - i] = ')';
    }
    text[LITERAL_MAX_DEPTH + 1] = '1';
    check_literal(text, "brackets are nested more than 64 deep");
    text[0] = ' ';
    text[2 * LITERAL_MAX_DEPTH + 2] = ' ';
    check_literal(text, "1");
}

/* read_array - reads an array of format version VERSION with the header TEXT and no elements. */
static ckpt_status read_array(unsigned version, const char *text, struct npy_array *x, ckpt_error *err)
{
    unsigned char bytes[4096] = "\x93NUMPY";
    size_t n = strlen(text), prefix_size = version < 2 ? 10 : 12;
    bytes[6] = (unsigned char)version;
    store_u16le(bytes + 8, (uint16_t)n);
    memcpy(bytes + prefix_size, text, n);
    arena *a = arena_new(1 << 20);
    unsigned char *guarded = unit_guard(bytes, prefix_size + n);
    source *src = source_mem(guarded, prefix_size + n, 0);
    ckpt_status st = npy_read_array(src, 0, a, x, err);
    source_unref(src);
    unit_guard_free(guarded, prefix_size + n);
    arena_free(a);
    return st;
}

#define HEADER(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static void valid_headers_are_read(void)
{
    struct npy_array x;
    CU_ASSERT(read_array(1, HEADER("'>f8'", "True", "(2, 3)"), &x, NULL) == CKPT_OK && x.fortran_order &&
              x.ndim == 2 && x.shape[1] == 3 && x.nbytes == 48 && x.dtype.big_endian && x.dtype.kind == 'f');
    CU_ASSERT(read_array(2,
                         HEADER("[('a', '<i4'), ('', '|V4'), (('t', 'b'), [('x', '<f2', (2, 2))], 3)]",
                                "False", "(5,)"),
                         &x, NULL) == CKPT_OK &&
              x.dtype.record && x.dtype.bytes == 4 + 4 + 3 * 8 && x.nbytes == 5 * 32 && !x.holds_objects);
    CU_ASSERT(read_array(3, HEADER("[('a', [('b', '|O')])]", "False", "()"), &x, NULL) == CKPT_OK &&
              x.holds_objects);
    CU_ASSERT(read_array(1, HEADER("'O'", "False", "(0,)"), &x, NULL) == CKPT_OK && x.holds_objects);
    /* the product of all sizes but 0 and of the bytes of an element must be below 2^63 */
    CU_ASSERT(read_array(1, HEADER("'<f4'", "False", "(0, 4611686018427387903)"), &x, NULL) == CKPT_EFORMAT);
    CU_ASSERT(read_array(1, HEADER("'|u1'", "False", "(0, 9223372036854775807)"), &x, NULL) == CKPT_OK &&
              x.nbytes == 0);
}

static void check_refused(unsigned version, const char *text, const char *reason)
{
    struct npy_array x;
    ckpt_error err = {.status = CKPT_OK};
    bool refused_as_expected = read_array(version, text, &x, &err) == CKPT_EFORMAT &&
                               strstr(err.what, reason);
    CU_ASSERT(refused_as_expected);
    if (!refused_as_expected)
        printf("  %s\n  has status %u: %s\n", text, err.status, err.what);
}

static void malformed_headers_are_refused(void)
{
    check_refused(0, HEADER("'<f4'", "False", "(2,)"), "version 0.0");
    check_refused(4, HEADER("'<f4'", "False", "(2,)"), "version 4.0");
    check_refused(3, HEADER("'\xff'", "False", "(2,)"), "a header that is not UTF-8");
    check_refused(1, "[1, 2]",
                  "the header is of type list; it must be a dict with only the keys "
                  "descr, fortran_order and shape");
    check_refused(1, "{'descr': '<f4', 'shape': ()}", "the header is a dict with other keys");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}",
                  "the header is a dict with other keys");
    check_refused(1, HEADER("'<f4'", "0", "(2,)"), "fortran_order is 0; True or False is allowed");
    check_refused(1, HEADER("'<f4'", "False", "[2]"), "the shape [2] is not a tuple");
    check_refused(1, HEADER("'<f4'", "False", "(True,)"),
                  "the size True in its shape is not a non-negative integer");
    check_refused(1, HEADER("'<f4'", "False", "(-1,)"),
                  "the size -1 in its shape is not a non-negative integer");
    check_refused(1, HEADER("'<f4'", "False", "(4294967296, 4294967296)"), "the product of its sizes");
    check_refused(1, HEADER("'<q9'", "False", "(2,)"), "descr '<q9' is not a dtype of numpy");
    check_refused(1, HEADER("'<M8[xs]'", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("'<f99999999999999999999'", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("'|S2147483648'", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("('<f4', (3,))", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("[('a', '<f4', (2147483647, 2))]", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("[('a', '|S2147483647'), ('b', '|S1')]", "False", "(2,)"),
                  "not a dtype of numpy");
    check_refused(1, HEADER("[('a',)]", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("[(1, '<f4')]", "False", "(2,)"), "not a dtype of numpy");
    check_refused(1, HEADER("__import__('os')", "False", "(2,)"), "a Python literal belongs there");
}

void suite_npy(void)
{
    UNIT(python_literals_are_read);
    UNIT(other_text_is_refused);
    UNIT(the_depth_of_brackets_is_limited);
    UNIT(valid_headers_are_read);
    UNIT(malformed_headers_are_refused);
}
