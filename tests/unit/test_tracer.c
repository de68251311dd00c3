/* What the tracer reads as Python does: numbers of memo entries; lines over the edge of its window. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "codec/pickle_trace.h"
#include "unit.h"

static bool go(void *user, const struct trace_step *s)
{
    (void)user;
    (void)s;
    return true;
}

/* follow - how it ends; *NEXT is where. */
static ckpt_status follow(const char *bytes, size_t n, uint64_t *next)
{
    ckpt_error err;
    struct trace_end end;
    unsigned char *at = unit_guard(bytes, n);
    source *src = source_mem(at, n, 0);
    struct trace_options o = {.step = go};
    ckpt_status st = pickle_trace(src, 0, n, &o, &end, &err);
    *next = end.next;
    source_unref(src);
    unit_guard_free(at, n);
    return st;
}

/* int() of Python takes blanks around a number, a sign, and '_' between digits. */
static void reads_memo_numbers_as_int_does(void)
{
    static const struct {
        const char *line;
        bool number;
    } cases[] = {
        {"12", true},
        {" \t12", true},
        {"12 \v\f\r", true},
        {"+12", true},
        {"1_2", true},
        {"0012", true},
        {"", false},
        {" ", false},
        {"+", false},
        {"-12", false},
        {"1__2", false},
        {"_12", false},
        {"12_", false},
        {"1x", false},
        {"1/", false},
        {"99999999999999999999999", false},
        {"18446744073709551619", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pickle[100];
        int n = snprintf(pickle, sizeof pickle, "Np12\n0g%s\n.", cases[i].line);
        uint64_t next = 0;
        CU_ASSERT_EQUAL(follow(pickle, (size_t)n, &next), cases[i].number ? CKPT_OK : CKPT_EFORMAT);
        CU_ASSERT_EQUAL(next, cases[i].number ? (uint64_t)n : 6); /* where it breaks off */
    }
}

/* A line may lie over the edge of the window, whatever its place there; without an end it is told. */
static void reads_lines_over_the_edge(void)
{
    for (size_t pad = 65000; pad < 65560; pad += 7) {
        buf b;
        buf_init(&b, 1 << 20);
        buf_byte(&b, 'T');
        buf_u32le(&b, (uint32_t)pad);
        for (size_t i = 0; i < pad; i++)
            buf_byte(&b, 'x');
        buf_text(&b, "0cposix\nsystem\n.");
        uint64_t next = 0;
        CU_ASSERT(follow((const char *)b.data, b.len, &next) == CKPT_OK && next == b.len);
        CU_ASSERT(follow((const char *)b.data, b.len - 2, &next) == CKPT_ETRUNCATED);
        buf_free(&b);
    }
}

void suite_tracer(void)
{
    UNIT(reads_memo_numbers_as_int_does);
    UNIT(reads_lines_over_the_edge);
}
