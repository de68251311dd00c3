/* Tests codec/pickle_trace on every opcode: valid, with too few values on the stack, truncated, and with
 * operands of the wrong type. Each case follows a call of os.system, which must always be reported, and lists
 * the other steps to be reported and where the trace stops. */
#include <stdio.h>

#include "codec/pickle_ops.h"
#include "codec/pickle_trace.h"
#include "unit.h"

#define FIRST       "cos\nsystem\n)R0"
#define FIRST_STEPS "Ios.system Cos.system D "
#define GLOBAL      "ca\nb\n"
#define TEXT        "X\1\0\0\0t"
#define MAX_CASES   12

struct bytes {
    const char *at;
    size_t n;
};
#define BYTES(text)                                                                                          \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }

/* A test of one opcode. A step is I for an import, C for a call, P for a persistent ID; see add_step. */
struct row {
    unsigned char code;
    struct bytes setup, argument,
        ending;           /* opcodes that fill the stack; the argument of the opcode; the end of the pickle */
    size_t needs;       /* values that the opcode takes; MARKED: all above the last MARK */
    const char *before; /* steps of the setup */
    const char *steps;  /* steps of the opcode */
    struct bytes wrong[MAX_CASES], lenient[MAX_CASES]; /* other setups that stop the trace, or do not */
};

enum { MARKED = 100 };

/* NO_CALLABLE - setups with a value that cannot be called. NO_ARGUMENTS - with arguments that are no
 * tuple. */
#define NO_CALLABLE(args)                                                                                    \
    BYTES("N" args), BYTES("K\1" args), BYTES(TEXT args), BYTES(")" args), BYTES("]" args), BYTES("}" args), \
        BYTES("\x8f" args), BYTES("\x88" args)
#define NO_ARGUMENTS(callable, more)                                                                         \
    BYTES(callable "N" more), BYTES(callable "K\1" more), BYTES(callable "\x88" more),                       \
        BYTES(callable "I1\n" more), BYTES(callable "\x8a\1\5" more)
/* SPREAD - setups with arguments that are no tuple, but that pickle.py iterates over. */
#define SPREAD(callable, more)                                                                               \
    BYTES(callable TEXT more), BYTES(callable "S'a'\n" more), BYTES(callable "C\1a" more),                   \
        BYTES(callable "]" more), BYTES(callable "}" more), BYTES(callable "\x8f" more),                     \
        BYTES(callable "\x96\1\0\0\0\0\0\0\0a" more)

static const struct row rows[] = {
    /* code, setup, argument, ending, needs, before, steps, wrong, lenient */
    {'(', BYTES(""), BYTES(""), BYTES("1N."), 0, "", "", {{0}}, {{0}}},
    {'.', BYTES("N"), BYTES(""), BYTES(""), 1, "", "", {{0}}, {BYTES("]"), BYTES("}"), BYTES(")")}},
    {'0', BYTES("N"), BYTES(""), BYTES("N."), 1, "", "", {{0}}, {BYTES("("), BYTES("K\1"), BYTES("]")}},
    {'1',
     BYTES("("),
     BYTES(""),
     BYTES("N."),
     MARKED,
     "",
     "",
     {{0}},
     {BYTES("(N"), BYTES("(NN"), BYTES("((")}},
    {'2', BYTES("N"), BYTES(""), BYTES("0."), 1, "", "", {{0}}, {BYTES("]"), BYTES(")")}},
    {'F', BYTES(""), BYTES("1.5\n"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'I', BYTES(""), BYTES("12\n"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'J', BYTES(""), BYTES("\1\2\3\4"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'K', BYTES(""), BYTES("\1"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'L', BYTES(""), BYTES("12L\n"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'M', BYTES(""), BYTES("\1\2"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'N', BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'P', BYTES(""), BYTES("id\n"), BYTES("."), 0, "", "P ", {{0}}, {{0}}},
    {'Q', BYTES("N"), BYTES(""), BYTES("."), 1, "", "P ", {{0}}, {BYTES(")"), BYTES("K\1"), BYTES(TEXT)}},
    {'R', BYTES(GLOBAL ")"), BYTES(""), BYTES("."), 2, "Ia.b ", "Ca.b ", {NO_CALLABLE(")")}, {{0}}},
    {'R',
     BYTES(GLOBAL ")"),
     BYTES(""),
     BYTES("."),
     2,
     "Ia.b ",
     "Ca.b ",
     {NO_ARGUMENTS(GLOBAL, "")},
     {SPREAD(GLOBAL, "")}},
    {'S', BYTES(""), BYTES("'t'\n"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'T', BYTES(""), BYTES("\3\0\0\0abc"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'U', BYTES(""), BYTES("\3abc"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'V', BYTES(""), BYTES("t\n"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'X', BYTES(""), BYTES("\3\0\0\0abc"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'a',
     BYTES("]N"),
     BYTES(""),
     BYTES("."),
     2,
     "",
     "",
     {BYTES("NN"), BYTES("K\1N"), BYTES(TEXT "N"), BYTES(")N"), BYTES("}N"), BYTES("\x8fN")},
     {{0}}},
    {'b', BYTES("]N"), BYTES(""), BYTES("."), 2, "", "W ", {{0}}, {BYTES("K\1N"), BYTES("}}"), BYTES("))")}},
    {'c', BYTES(""), BYTES("a\nb\n"), BYTES("."), 0, "", "Ia.b ", {{0}}, {{0}}},
    {'d', BYTES("(NN"), BYTES(""), BYTES("."), MARKED, "", "", {BYTES("(N"), BYTES("(NNN")}, {BYTES("(")}},
    {'}', BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'e',
     BYTES("](N"),
     BYTES(""),
     BYTES("."),
     MARKED,
     "",
     "",
     {BYTES("(N"), BYTES("N(N"), BYTES("K\1(N"), BYTES(TEXT "(N"), BYTES(")(N"), BYTES("}(N"),
      BYTES("\x8f(N")},
     {BYTES("]("), BYTES("](NN"), BYTES("N(")}},
    {'g',
     BYTES("Np7\n0"),
     BYTES("7\n"),
     BYTES("."),
     0,
     "",
     "",
     {BYTES(""), BYTES("Np8\n0")},
     {BYTES("Nq\7"
            "0"),
      BYTES("Nr\7\0\0\0"
            "0")}},
    {'h',
     BYTES("Nq\7"
           "0"),
     BYTES("\7"),
     BYTES("."),
     0,
     "",
     "",
     {BYTES(""), BYTES("Nq\6"
                       "0")},
     {BYTES("Np7\n0")}},
    {'i',
     BYTES("(N"),
     BYTES("a\nb\n"),
     BYTES("."),
     MARKED,
     "",
     "Ia.b Ca.b ",
     {{0}},
     {BYTES("("), BYTES("(NN")}},
    {'j',
     BYTES("Nr\7\0\0\1"
           "0"),
     BYTES("\7\0\0\1"),
     BYTES("."),
     0,
     "",
     "",
     {BYTES(""), BYTES("Nr\7\0\0\0"
                       "0")},
     {{0}}},
    {'l', BYTES("(N"), BYTES(""), BYTES("."), MARKED, "", "", {{0}}, {BYTES("("), BYTES("(NN")}},
    {']', BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'o',
     BYTES("(" GLOBAL "N"),
     BYTES(""),
     BYTES("."),
     MARKED,
     "Ia.b ",
     "Ca.b ",
     {BYTES("("), BYTES("(N"), BYTES("(K\1"), BYTES("(" TEXT), BYTES("()"), BYTES("(]"), BYTES("(}"),
      BYTES("(\x8f")},
     {BYTES("(" GLOBAL), BYTES("(" GLOBAL "NN")}},
    {'p', BYTES("N"), BYTES("7\n"), BYTES("."), 1, "", "", {{0}}, {BYTES("]"), BYTES(")")}},
    {'q', BYTES("N"), BYTES("\7"), BYTES("."), 1, "", "", {{0}}, {BYTES("]"), BYTES(")")}},
    {'r', BYTES("N"), BYTES("\7\0\0\1"), BYTES("."), 1, "", "", {{0}}, {BYTES("]"), BYTES(")")}},
    {'s',
     BYTES("}NN"),
     BYTES(""),
     BYTES("."),
     3,
     "",
     "",
     {BYTES("NNN"), BYTES("K\1NN"), BYTES(TEXT "NN"), BYTES(")NN"), BYTES("\x8fNN")},
     {BYTES("]NN")}},
    {'t', BYTES("(N"), BYTES(""), BYTES("."), MARKED, "", "", {{0}}, {BYTES("("), BYTES("(NN")}},
    {')', BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'u',
     BYTES("}(NN"),
     BYTES(""),
     BYTES("."),
     MARKED,
     "",
     "",
     {BYTES("(NN"), BYTES("}(N"), BYTES("N(NN"), BYTES("K\1(NN"), BYTES(TEXT "(NN"), BYTES(")(NN"),
      BYTES("\x8f(NN")},
     {BYTES("}("), BYTES("](NN"), BYTES("}(NNNN")}},
    {'G', BYTES(""), BYTES("\0\0\0\0\0\0\0\0"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x80, BYTES(""), BYTES("\2"), BYTES("N."), 0, "", "", {{0}}, {{0}}},
    {0x81, BYTES(GLOBAL ")"), BYTES(""), BYTES("."), 2, "Ia.b ", "Ca.b ", {NO_CALLABLE(")")}, {{0}}},
    {0x81,
     BYTES(GLOBAL ")"),
     BYTES(""),
     BYTES("."),
     2,
     "Ia.b ",
     "Ca.b ",
     {NO_ARGUMENTS(GLOBAL, "")},
     {SPREAD(GLOBAL, "")}},
    {0x82, BYTES(""), BYTES("\1"), BYTES("."), 0, "", "X1 ", {{0}}, {{0}}},
    {0x83, BYTES(""), BYTES("\1\2"), BYTES("."), 0, "", "X513 ", {{0}}, {{0}}},
    {0x84, BYTES(""), BYTES("\1\0\1\0"), BYTES("."), 0, "", "X65537 ", {{0}}, {{0}}},
    {0x85, BYTES("N"), BYTES(""), BYTES("."), 1, "", "", {{0}}, {BYTES("]")}},
    {0x86, BYTES("NN"), BYTES(""), BYTES("."), 2, "", "", {{0}}, {BYTES("]}")}},
    {0x87, BYTES("NNN"), BYTES(""), BYTES("."), 3, "", "", {{0}}, {BYTES("]})")}},
    {0x88, BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x89, BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8a, BYTES(""), BYTES("\2ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8b, BYTES(""), BYTES("\2\0\0\0ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'B', BYTES(""), BYTES("\2\0\0\0ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {'C', BYTES(""), BYTES("\2ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8c, BYTES(""), BYTES("\2ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8d, BYTES(""), BYTES("\2\0\0\0\0\0\0\0ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8e, BYTES(""), BYTES("\2\0\0\0\0\0\0\0ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x8f, BYTES(""), BYTES(""), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x90,
     BYTES("\x8f(N"),
     BYTES(""),
     BYTES("."),
     MARKED,
     "",
     "",
     {BYTES("(N"), BYTES("N(N"), BYTES("K\1(N"), BYTES(TEXT "(N"), BYTES(")(N"), BYTES("}(N"), BYTES("](N")},
     {BYTES("\x8f("), BYTES("\x8f(NN")}},
    {0x91, BYTES("(N"), BYTES(""), BYTES("."), MARKED, "", "", {{0}}, {BYTES("("), BYTES("(NN")}},
    {0x92, BYTES(GLOBAL ")}"), BYTES(""), BYTES("."), 3, "Ia.b ", "Ca.b ", {NO_CALLABLE(")}")}, {{0}}},
    {0x92,
     BYTES(GLOBAL ")}"),
     BYTES(""),
     BYTES("."),
     3,
     "Ia.b ",
     "Ca.b ",
     {NO_ARGUMENTS(GLOBAL, "}")},
     {SPREAD(GLOBAL, "}")}},
    {0x92,
     BYTES(GLOBAL ")}"),
     BYTES(""),
     BYTES("."),
     3,
     "Ia.b ",
     "Ca.b ",
     {BYTES(GLOBAL ")N"), BYTES(GLOBAL ")K\1"), BYTES(GLOBAL ")]"), BYTES(GLOBAL "))"),
      BYTES(GLOBAL ")\x8f")},
     {{0}}},
    {0x93,
     BYTES("\x8c\1a\x8c\1b"),
     BYTES(""),
     BYTES("."),
     2,
     "",
     "Ia.b ",
     {BYTES("NN"), BYTES("\x8c\1aN"), BYTES("N\x8c\1b"), BYTES("K\1K\1"), BYTES("))"), BYTES("\x8c\1a)"),
      BYTES("]\x8c\1b"), BYTES("\x8c\1a}"), BYTES("\x8c\1a\x88")},
     {BYTES("X\1\0\0\0aX\1\0\0\0b"), BYTES("Va\nVb\n")}},
    {0x94, BYTES("N"), BYTES(""), BYTES("."), 1, "", "", {{0}}, {BYTES("]"), BYTES(")")}},
    {0x95, BYTES(""), BYTES("\2\0\0\0\0\0\0\0"), BYTES("N."), 0, "", "", {{0}}, {{0}}},
    {0x96, BYTES(""), BYTES("\2\0\0\0\0\0\0\0ab"), BYTES("."), 0, "", "", {{0}}, {{0}}},
    {0x97, BYTES(""), BYTES(""), BYTES("."), 0, "", "B ", {{0}}, {{0}}},
    {0x98, BYTES("N"), BYTES(""), BYTES("."), 1, "", "", {{0}}, {BYTES("]")}},
};

/* -------------------------------------------------------------------- cases */

struct steps {
    char text[512];
    size_t n;
    uint64_t call; /* offset of the last call */
};

static const struct trace_global *callable_of(const struct trace_step *s)
{
    const struct trace_node *c = trace_node(s->subject);
    return trace_global(c->kind == TRACE_CALL ? c->items[0] : s->subject);
}

static bool add_step(void *user, const struct trace_step *s)
{
    static const char letters[] = {
        [TRACE_STEP_CHANGE] = 'W', [TRACE_STEP_PERSID] = 'P',  [TRACE_STEP_EXTENSION] = 'X',
        [TRACE_STEP_BUFFER] = 'B', [TRACE_STEP_MEMO] = 'M',    [TRACE_STEP_FRAME] = 'F',
        [TRACE_STEP_LEFT] = 'L',   [TRACE_STEP_PAYLOAD] = 'Y', [TRACE_STEP_DROP] = 'D'};
    struct steps *t = user;
    size_t room = sizeof t->text - t->n;
    int n;
    if (s->what == TRACE_STEP_STORED) /* tested in test_tracer.c */
        return true;
    if (s->what == TRACE_STEP_IMPORT || s->what == TRACE_STEP_CALL) {
        const struct trace_global *g = callable_of(s);
        t->call = s->what == TRACE_STEP_CALL ? s->offset : t->call;
        n = snprintf(t->text + t->n, room, "%c%.*s.%.*s ", s->what == TRACE_STEP_CALL ? 'C' : 'I',
                     (int)(g ? g->module.len : 1), g ? g->module.ptr : "?", (int)(g ? g->name.len : 1),
                     g ? g->name.ptr : "?");
    } else if (s->what == TRACE_STEP_EXTENSION) {
        n = snprintf(t->text + t->n, room, "X%d ", (int)s->number);
    } else {
        n = snprintf(t->text + t->n, room, "%c ", letters[s->what]);
    }
    t->n += n > 0 && (size_t)n < room ? (size_t)n : 0;
    return true;
}

static unsigned cases;

/* check_trace - tracing the N bytes must report FIRST_STEPS, BEFORE and STEPS, with the last call at CALL,
 * and stop at the offset BREAKS, or, if that is SIZE_MAX, at the STOP of the pickle. */
static void check_trace(const unsigned char *bytes, size_t n, const char *before, const char *steps,
                        size_t breaks, size_t call)
{
    char want[512], what[96];
    struct steps t = {.n = 0};
    struct trace_options o = {.step = add_step, .user = &t};
    struct trace_end end;
    source *src;
    ckpt_error err;
    unsigned char *guarded = unit_guard(bytes, n);
    cases++;
    src = source_mem(guarded, n, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    ckpt_status st = pickle_trace(src, 0, n, &o, &end, &err);
    snprintf(want, sizeof want, "%s%s%s", FIRST_STEPS, before, steps);
    uint64_t next = breaks == SIZE_MAX ? n : breaks;
    bool good = (st == CKPT_OK) == (breaks == SIZE_MAX) && end.stopped == (breaks == SIZE_MAX) &&
                end.next == next && strcmp(t.text, want) == 0 && (call == SIZE_MAX || t.call == call);
    if (!good) {
        size_t at = 0;
        for (size_t i = sizeof FIRST - 1; i < n && at + 3 < sizeof what; i++)
            at += (size_t)snprintf(what + at, sizeof what - at, "%02x ", bytes[i]);
        printf("\n    %s: steps \"%s\", not \"%s\"; at %d of %d, not %d: %s", what, t.text, want,
               (int)end.next, (int)n, (int)next, st == CKPT_OK ? "stopped" : err.what);
    }
    CU_ASSERT(good);
    source_unref(src);
    unit_guard_free(guarded, n);
}

struct stream {
    unsigned char bytes[256];
    size_t n;
};

static void put_bytes(struct stream *s, const void *bytes, size_t n)
{
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* begin_stream - returns a stream of FIRST and SETUP. */
static struct stream begin_stream(const struct bytes *setup)
{
    struct stream s = {.n = 0};
    put_bytes(&s, FIRST, sizeof FIRST - 1);
    put_bytes(&s, setup->at, setup->n);
    return s;
}

/* setup_steps - returns the steps of SETUP, which holds at most one GLOBAL. */
static const char *setup_steps(const struct bytes *setup)
{
    for (size_t i = 0; i + 5 <= setup->n; i++)
        if (memcmp(setup->at + i, GLOBAL, 5) == 0)
            return "Ia.b ";
    return "";
}

static void check_valid(const struct row *r, const struct bytes *setup)
{
    struct stream s = begin_stream(setup);
    size_t at = s.n;
    put_bytes(&s, &r->code, 1);
    put_bytes(&s, r->argument.at, r->argument.n);
    bool calls = strchr(r->steps, 'C') != NULL;
    if (r->code != '.' && r->code != 0x95) /* without STOP, the steps are the same */
        check_trace(s.bytes, s.n, setup_steps(setup), r->steps, s.n, calls ? at : SIZE_MAX);
    put_bytes(&s, r->ending.at, r->ending.n);
    bool left = r->code == '1' && setup->n == 2 && setup->at[1] == '(';
    char steps[64];
    snprintf(steps, sizeof steps, "%s%s", r->steps, left ? "L " : "");
    check_trace(s.bytes, s.n, setup_steps(setup), steps, SIZE_MAX, calls ? at : SIZE_MAX);
}

/* check_stops - the trace of SETUP, the opcode and CUT bytes of its argument must stop at the opcode. */
static void check_stops(const struct row *r, const struct bytes *setup, size_t cut, const char *steps)
{
    struct stream s = begin_stream(setup);
    size_t at = s.n;
    put_bytes(&s, &r->code, 1);
    put_bytes(&s, r->argument.at, cut);
    if (cut == r->argument.n)
        put_bytes(&s, "NN.", 3);
    check_trace(s.bytes, s.n, setup_steps(setup), steps, at, SIZE_MAX);
}

static void valid_opcodes_are_traced(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_valid(&rows[i], &rows[i].setup);
        for (size_t l = 0; l < MAX_CASES && rows[i].lenient[l].at; l++)
            check_valid(&rows[i], &rows[i].lenient[l]);
    }
}

static void stack_underflow_stops_the_trace(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const struct bytes none = BYTES(""), three = BYTES("NNN"), below_mark = BYTES("NNN(");
        /* INST imports its class before it looks for the MARK */
        const char *steps = r->code == 'i' ? "Ia.b " : "";
        if (r->needs == MARKED) {
            check_stops(r, &none, r->argument.n, steps);
            check_stops(r, &three, r->argument.n, steps);
        } else {
            for (size_t n = 0; n < r->needs; n++) {
                const struct bytes few = {"NNN", n}, below = {"NNN(NNN", 4 + n};
                check_stops(r, &few, r->argument.n, "");
                if (n || r->code != '0') /* POP may remove the MARK */
                    check_stops(r, &below, r->argument.n, "");
            }
            if (r->needs > 0 && r->code != '0')
                check_stops(r, &below_mark, r->argument.n, "");
        }
    }
}

static void operands_of_the_wrong_type_stop_the_trace(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t w = 0; w < MAX_CASES && rows[i].wrong[w].at; w++)
            check_stops(&rows[i], &rows[i].wrong[w], rows[i].argument.n, "");
}

/* check_cut_line - a line that the end of the file cuts must be read without its last byte, as pickle.py
 * does. */
static void check_cut_line(const struct row *r, size_t n)
{
    const char *steps = r->code == 'c' ? "Ia. " : r->code == 'i' ? "Ia. Ca. " : r->steps;
    struct stream s = begin_stream(&r->setup);
    put_bytes(&s, &r->code, 1);
    put_bytes(&s, r->argument.at, n);
    check_trace(s.bytes, s.n, setup_steps(&r->setup), steps, s.n, SIZE_MAX);
}

static void truncated_arguments_stop_the_trace_or_are_read(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t n = 0; n < rows[i].argument.n; n++) {
            uint8_t kind = pickle_op(rows[i].code)->argument;
            bool index = rows[i].code == 'g' || rows[i].code == 'p'; /* of one digit, the last byte */
            if ((kind == PICKLE_ARG_LINE && n > 0 && !index) || (kind == PICKLE_ARG_LINES && n > 1))
                check_cut_line(&rows[i], n);
            else
                check_stops(&rows[i], &rows[i].setup, n, "");
        }
}

static void malformed_arguments_stop_the_trace(void)
{
    static const struct bytes streams[] = {BYTES("gx\nN."),
                                           BYTES("g\nN."),
                                           BYTES("g-1\nN."),
                                           BYTES("Npx\n."),
                                           BYTES("Np-1\n."),
                                           BYTES("\x80\6N."),
                                           BYTES("\x80\377N."),
                                           BYTES("T\377\377\377\377N."),
                                           BYTES("\x8b\0\0\0\x80N."),
                                           BYTES("X\377\377\377\377N."),
                                           BYTES("B\377\377\377\377N."),
                                           BYTES("\x8d\377\377\377\377\377\377\377\377N."),
                                           BYTES("\x8e\377\377\377\377\377\377\377\177N."),
                                           BYTES("\x96\0\0\0\0\0\0\0\x80N.")};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const struct bytes none = BYTES("");
        struct stream s = begin_stream(&none);
        size_t at = s.n + (streams[i].at[0] == 'N');
        put_bytes(&s, streams[i].at, streams[i].n);
        check_trace(s.bytes, s.n, "", "", at, SIZE_MAX);
    }
}

static void bytes_that_are_no_opcodes_stop_the_trace(void)
{
    const struct bytes none = BYTES("");
    for (unsigned c = 0; c < 256; c++) {
        struct stream s = begin_stream(&none);
        unsigned char byte = (unsigned char)c;
        if (pickle_op((uint8_t)c))
            continue;
        put_bytes(&s, &byte, 1);
        put_bytes(&s, "N.", 2);
        check_trace(s.bytes, s.n, "", "", sizeof FIRST - 1, SIZE_MAX);
    }
}

static void every_opcode_is_tested(void)
{
    unsigned ops = 0;
    bool has[256] = {false};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        has[rows[i].code] = true;
    for (unsigned c = 0; c < 256; c++) {
        CU_ASSERT_EQUAL(has[c], pickle_op((uint8_t)c) != NULL);
        ops += has[c];
    }
    CU_ASSERT_EQUAL(ops, 68);
    CU_ASSERT(cases >= 400);
}

void suite_opcodes(void)
{
    UNIT(valid_opcodes_are_traced);
    UNIT(stack_underflow_stops_the_trace);
    UNIT(operands_of_the_wrong_type_stop_the_trace);
    UNIT(truncated_arguments_stop_the_trace_or_are_read);
    UNIT(malformed_arguments_stop_the_trace);
    UNIT(bytes_that_are_no_opcodes_stop_the_trace);
    UNIT(every_opcode_is_tested);
}
