/* Tracing pickles: memo numbers as Python reads them, lines that cross a window, and limits. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "codec/pickle_trace.h"
#include "unit.h"

static bool accept_step(void *user, const struct trace_step *s)
{
    (void)user;
    (void)s;
    return true;
}

/* trace - traces the N BYTES. Returns the status, and sets NEXT to the offset at which the trace ends. */
static ckpt_status trace(const char *bytes, size_t n, uint64_t *next)
{
    ckpt_error err;
    struct trace_end end;
    unsigned char *at = unit_guard(bytes, n);
    source *src = source_mem(at, n, 0);
    struct trace_options o = {.step = accept_step};
    ckpt_status st = pickle_trace(src, 0, n, &o, &end, &err);
    *next = end.next_offset;
    source_unref(src);
    unit_guard_free(at, n);
    return st;
}

/* As int() of Python does, GET accepts blanks around a number, a sign, and '_' between digits. */
static void memo_numbers_are_read_as_int_does(void)
{
    static const struct {
        const char *line;
        bool is_12;
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
        {"18446744073709551628", false}, /* 2^64 + 12 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pickle[100];
        int n = snprintf(pickle, sizeof pickle, "Np12\n0g%s\n.", cases[i].line);
        uint64_t next = 0;
        CU_ASSERT_EQUAL(trace(pickle, (size_t)n, &next), cases[i].is_12 ? CKPT_OK : CKPT_EFORMAT);
        CU_ASSERT_EQUAL(next, cases[i].is_12 ? (uint64_t)n : 6); /* 6: the offset of GET */
    }
}

/* Memo numbers beyond 64 bits, with any number of zeros, are compared exactly. */
static void memo_numbers_of_any_size_are_read(void)
{
    static const struct {
        const char *put, *get;
        bool same;
    } cases[] = {
        {"18446744073709551615", "18446744073709551615", true},
        {"18446744073709551616", "1_8446744073709551616", true},
        {"18446744073709551616", "0", false},
        {"18446744073709551617", "18446744073709551616", false},
        {"9223372036854775808", "9223372036854775807", false},
        {"9223372036854775808", "9223372036854775809", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t zeros = 0; zeros < 10000; zeros += 3333) {
            uint64_t next;
            buf b;
            buf_init(&b, 1 << 20);
            buf_put_cstr(&b, "Np");
            for (size_t z = 0; z < zeros; z++)
                buf_byte(&b, '0');
            buf_put_cstr(&b, cases[i].put);
            buf_put_cstr(&b, "\n0g");
            for (size_t z = 0; z < zeros; z++)
                buf_byte(&b, '0');
            buf_put_cstr(&b, cases[i].get);
            buf_put_cstr(&b, "\n.");
            CU_ASSERT_EQUAL(trace((const char *)b.data, b.len, &next),
                            cases[i].same ? CKPT_OK : CKPT_EFORMAT);
            buf_free(&b);
        }
}

/* A line may cross the end of the window. If its line feed is missing, the pickle is refused as truncated. */
static void lines_that_cross_a_window_are_read(void)
{
    for (size_t pad = 65000; pad < 65560; pad += 7) {
        buf b;
        buf_init(&b, 1 << 20);
        buf_byte(&b, 'T');
        buf_u32le(&b, (uint32_t)pad);
        for (size_t i = 0; i < pad; i++)
            buf_byte(&b, 'x');
        buf_put_cstr(&b, "0cposix\nsystem\n.");
        uint64_t next = 0;
        CU_ASSERT(trace((const char *)b.data, b.len, &next) == CKPT_OK && next == b.len);
        CU_ASSERT(trace((const char *)b.data, b.len - 2, &next) == CKPT_ETRUNCATED);
        buf_free(&b);
    }
}

/* -------------------------------------------------- stops and memory limits */

#define OBJECT "cx\ny\n)R" /* what x.y() returns */
/* Valid and malformed pickles, which together have most opcodes. */
static const ckpt_str samples[] = {
#define SAMPLE(bytes) {bytes, sizeof(bytes) - 1}
    SAMPLE("\x80\x04\x95\x08\0\0\0\0\0\0\0X\x04\0\0\0abcd0N."),       /* an argument crosses its frame */
    SAMPLE("\x80\x04\x95\x04\0\0\0\0\0\0\0cos\nsystem\n."),           /* a line crosses its frame */
    SAMPLE("\x80\x04\x95\x0b\0\0\0\0\0\0\0\x95\x05\0\0\0\0\0\0\0N."), /* a frame in a frame */
    SAMPLE("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."),
    SAMPLE("Ppid\nQ."),
    SAMPLE("\x80\x02\x82\x01\x83\x01\0\x84\x01\0\0\0."),
    SAMPLE("\x80\x05\x97\x98."),
    SAMPLE("\x80\x02Nq\0"
           "0K\1q\0."),                 /* puts a memo entry twice */
    SAMPLE(OBJECT "0(" OBJECT "1NNN."), /* drops values, and leaves some on the stack */
    SAMPLE("cx\ny\nNb" OBJECT "Nb" OBJECT "NbNbNbNb."),
    SAMPLE(OBJECT "(K\1e" OBJECT "K\1a" OBJECT "(K\1K\2u" OBJECT "(K\1\x90."),
    SAMPLE("(U\x01"
           "aix\ny\n(cx\ny\nU\x01"
           "aocx\ny\n)}\x92)\x81."),
    SAMPLE("cx\ny\n))\x92."),
    SAMPLE("cx\ny\n)N\x92."),
    SAMPLE("cx\ny\nN}\x92."),
    SAMPLE("](K\1K\2e}(K\1K\2u\x8f(K\1\x90(K\1K\2\x91(K\1K\2d(l(t\x85\x86\x87."),
    SAMPLE("\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93h\0h\1\x93\x80\x03h\0h\1\x93."),
    SAMPLE("\x80\x04" OBJECT "\x8c\x01"
           "a\x93\x8c\x01"
           "a" OBJECT "\x93" OBJECT OBJECT "\x93."),
    SAMPLE("Nr\xff\xff\xff\x0fj\xff\xff\xff\x0f."),
    SAMPLE("C\x10\x80\x04"
           "34567890123456"
           "C\x10\x80\x06"
           "34567890123456"
           "C\x10\x80\x01"
           "34567890123456."),
    SAMPLE("C\x10\xc2\x80\x04"
           "4567890123456"
           "C\x10\xc2\x81\x04"
           "4567890123456"
           "C\x10\xc2\x80\x01"
           "4567890123456"
           "C\x10\xc2\x80\x06"
           "4567890123456."),
};

struct stop {
    size_t nsteps;  /* the steps that were traced */
    size_t at_step; /* the step at which the callback stops; 0: never */
};

static bool stop_at_step(void *user, const struct trace_step *s)
{
    struct stop *stop = user;
    (void)s;
    return ++stop->nsteps != stop->at_step;
}

/* trace_limited - traces BYTES until step STOP_AT (0: to the end) within MEMORY bytes (0: no limit). If
 * BUFFER_FRAMES, it follows a loader that reads each frame into a buffer. Sets STOP->nsteps. */
static ckpt_status trace_limited(const ckpt_str *bytes, bool buffer_frames, size_t stop_at, uint64_t memory,
                                 struct stop *stop)
{
    ckpt_error err = {0};
    struct trace_end end;
    source *src = source_mem(bytes->ptr, bytes->len, 0);
    *stop = (struct stop){.at_step = stop_at};
    struct trace_options o = {.step = stop_at_step,
                              .user = stop,
                              .buffer_frames = buffer_frames,
                              .reports_payloads = true,
                              .max_memory = memory};
    ckpt_status st = pickle_trace(src, 0, bytes->len, &o, &end, &err);
    CU_ASSERT(st == CKPT_OK || st == CKPT_ECANCELLED || (err.status == st && err.what[0]));
    CU_ASSERT(end.next_offset <= bytes->len && (end.reached_stop || st != CKPT_OK));
    source_unref(src);
    return st;
}

static void the_caller_can_stop_at_any_step(void)
{
    struct stop full_trace, stopped_trace;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int buffered = 0; buffered < 2; buffered++) {
            (void)trace_limited(&samples[i], buffered, 0, 0, &full_trace);
            for (size_t step = 1; step <= full_trace.nsteps; step++) {
                CU_ASSERT_EQUAL(trace_limited(&samples[i], buffered, step, 0, &stopped_trace),
                                CKPT_ECANCELLED);
                CU_ASSERT_EQUAL(stopped_trace.nsteps, step);
            }
        }
}

/* With any memory limit, the result is CKPT_ELIMIT or the same as without a limit. */
static void memory_is_limited(void)
{
    struct stop stop;
    size_t nrefused = 0; /* traces that the limit ended */
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        ckpt_status unlimited = trace_limited(&samples[i], false, 0, 0, &stop);
        for (uint64_t memory = 1; memory < 12000; memory += memory < 1000 ? 16 : 64) {
            ckpt_status st = trace_limited(&samples[i], false, 0, memory, &stop);
            CU_ASSERT(st == unlimited || st == CKPT_ELIMIT);
            nrefused += st == CKPT_ELIMIT;
        }
    }
    CU_ASSERT(nrefused > 100);
}

/* The opcodes in each loop push values and pop them again, so the tracer can use the same nodes each time. */
static void values_that_left_the_stack_take_no_memory(void)
{
    static const char *const loops[] = {
        "]0", "}0", "(]]]1", "]](]]ea0", OBJECT "0", "(NNNt(NNd0(NNt00", "](NNNNNe0", "KxQ0"};
    struct stop stop;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        buf b;
        buf_init(&b, 1 << 22);
        for (size_t n = 0; n < 100000; n++)
            buf_put_cstr(&b, loops[i]);
        buf_put_cstr(&b, "N.");
        CU_ASSERT_EQUAL(trace_limited(&(ckpt_str){(const char *)b.data, b.len}, false, 0, 20000, &stop),
                        CKPT_OK);
        buf_free(&b);
    }
}

/* Several pickles may share the counter of opcodes. */
static void the_number_of_opcodes_is_limited(void)
{
    uint64_t opcodes_left = 5;
    ckpt_error err;
    struct trace_end end;
    source *src = source_mem("N0N0N.", 6, 0);
    struct trace_options o = {.step = accept_step, .opcodes_left = &opcodes_left};
    CU_ASSERT_EQUAL(pickle_trace(src, 0, 6, &o, &end, &err), CKPT_ELIMIT);
    CU_ASSERT(opcodes_left == 0 && end.next_offset == 5); /* the offset of the sixth opcode */
    opcodes_left = 9;
    CU_ASSERT_EQUAL(pickle_trace(src, 0, 6, &o, &end, &err), CKPT_OK);
    CU_ASSERT_EQUAL(opcodes_left, 3);
    CU_ASSERT_EQUAL(pickle_trace(src, 0, 6, &o, &end, &err), CKPT_ELIMIT);
    source_unref(src);
}

/* A line, and a value that may be a file, cross the end of the first window. */
static void values_that_cross_the_first_window_are_read(void)
{
    struct stop stop;
    for (size_t pad = 4040; pad < 4100; pad++) {
        buf b;
        buf_init(&b, 1 << 20);
        for (size_t i = 0; i < pad; i++)
            buf_byte(&b, i % 2 ? '0' : 'N');
        buf_put_cstr(&b, pad % 2 ? "0" : "");
        buf_put(&b, "C\x12PK\3\4nnnnnnnnnnnnnn", 20);
        buf_put_cstr(&b, "cposix\nsystem\n.");
        CU_ASSERT_EQUAL(trace_limited(&(ckpt_str){(const char *)b.data, b.len}, false, 0, 0, &stop), CKPT_OK);
        /* a payload, an import, a stored global, and values left on the stack */
        CU_ASSERT_EQUAL(stop.nsteps, 4);
        buf_free(&b);
    }
}

void suite_tracer(void)
{
    UNIT(memo_numbers_are_read_as_int_does);
    UNIT(memo_numbers_of_any_size_are_read);
    UNIT(lines_that_cross_a_window_are_read);
    UNIT(the_caller_can_stop_at_any_step);
    UNIT(memory_is_limited);
    UNIT(values_that_left_the_stack_take_no_memory);
    UNIT(the_number_of_opcodes_is_limited);
    UNIT(values_that_cross_the_first_window_are_read);
}
