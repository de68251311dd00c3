/* Tests codec/pickle_trace on every opcode: valid, with too few values on the stack, truncated, and with
 * operands of the wrong type. Each stream begins with a call of os.system, which the trace must always
 * report. Opcodes that fill the stack, the opcode under test and its argument follow. The trace must report
 * the expected steps, and stop where it is expected to. */
#include <stdio.h>

#include "codec/pickle_ops.h"
#include "codec/pickle_trace.h"
#include "unit.h"

#define CALL_OS_SYSTEM  "cos\nsystem\n)R0"
#define OS_SYSTEM_STEPS "import os.system;call os.system;drop;"
#define GLOBAL          "ca\nb\n"    /* opcode GLOBAL: the name a.b */
#define TEXT            "X\1\0\0\0t" /* opcode BINUNICODE: the text 't' */
#define MAX_SETUPS      12

struct bytes {
    const char *ptr;
    size_t n;
};
#define BYTES(text) {text, sizeof(text) - 1}

/* A test of one opcode. A setup is a sequence of opcodes that fill the stack. */
struct opcode_test {
    unsigned char code;
    struct bytes setup;
    struct bytes argument;
    struct bytes ending;  /* opcodes after the argument; if empty, STOP */
    size_t operand_count; /* values that the opcode takes from the stack; MARKED: all above the last MARK */
    const char *steps;    /* steps that must be reported, as add_step() writes them; NULL: none */
    struct bytes stopping_setups[MAX_SETUPS]; /* after each of these, the trace stops at the opcode */
    struct bytes other_setups[MAX_SETUPS];    /* after each of these, the opcode is valid, too */
};

enum { MARKED = 100 };

/* NO_CALLABLE - setups that push a value that cannot be called, then ARGS. NO_ARGUMENTS - setups that push
 * CALLABLE, then a value that cannot be its arguments, then MORE. */
#define NO_CALLABLE(args)                                                                                    \
    BYTES("N" args), BYTES("K\1" args), BYTES(TEXT args), BYTES(")" args), BYTES("]" args), BYTES("}" args), \
        BYTES("\x8f" args), BYTES("\x88" args)
#define NO_ARGUMENTS(callable, more)                                                                         \
    BYTES(callable "N" more), BYTES(callable "K\1" more), BYTES(callable "\x88" more),                       \
        BYTES(callable "I1\n" more), BYTES(callable "\x8a\1\5" more)
/* ITERABLE_ARGUMENTS - setups that push CALLABLE, then arguments that pickle.py accepts, though they are no
 * tuple, because it can iterate over them, then MORE. */
#define ITERABLE_ARGUMENTS(callable, more)                                                                   \
    BYTES(callable TEXT more), BYTES(callable "S'a'\n" more), BYTES(callable "C\1a" more),                   \
        BYTES(callable "]" more), BYTES(callable "}" more), BYTES(callable "\x8f" more),                     \
        BYTES(callable "\x96\1\0\0\0\0\0\0\0a" more)

static const struct opcode_test tests[] = {
    {.code = PICKLE_MARK, .ending = BYTES("1N.")},
    {.code = PICKLE_STOP,
     .setup = BYTES("N"),
     .ending = BYTES(""),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES("}"), BYTES(")")}},
    {.code = PICKLE_POP,
     .setup = BYTES("N"),
     .ending = BYTES("N."),
     .operand_count = 1,
     .other_setups = {BYTES("("), BYTES("K\1"), BYTES("]")}},
    {.code = PICKLE_POP_MARK,
     .setup = BYTES("("),
     .ending = BYTES("N."),
     .operand_count = MARKED,
     .other_setups = {BYTES("(N"), BYTES("(NN"), BYTES("((")}},
    {.code = PICKLE_DUP,
     .setup = BYTES("N"),
     .ending = BYTES("0."),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES(")")}},
    {.code = PICKLE_FLOAT, .argument = BYTES("1.5\n")},
    {.code = PICKLE_INT, .argument = BYTES("12\n")},
    {.code = PICKLE_BININT, .argument = BYTES("\1\2\3\4")},
    {.code = PICKLE_BININT1, .argument = BYTES("\1")},
    {.code = PICKLE_LONG, .argument = BYTES("12L\n")},
    {.code = PICKLE_BININT2, .argument = BYTES("\1\2")},
    {.code = PICKLE_NONE},
    {.code = PICKLE_PERSID, .argument = BYTES("id\n"), .steps = "persistent id;"},
    {.code = PICKLE_BINPERSID,
     .setup = BYTES("N"),
     .operand_count = 1,
     .steps = "persistent id;",
     .other_setups = {BYTES(")"), BYTES("K\1"), BYTES(TEXT)}},
    {.code = PICKLE_REDUCE,
     .setup = BYTES(GLOBAL ")"),
     .operand_count = 2,
     .steps = "call a.b;",
     .stopping_setups = {NO_CALLABLE(")")}},
    {.code = PICKLE_REDUCE,
     .setup = BYTES(GLOBAL ")"),
     .operand_count = 2,
     .steps = "call a.b;",
     .stopping_setups = {NO_ARGUMENTS(GLOBAL, "")},
     .other_setups = {ITERABLE_ARGUMENTS(GLOBAL, "")}},
    {.code = PICKLE_STRING, .argument = BYTES("'t'\n")},
    {.code = PICKLE_BINSTRING, .argument = BYTES("\3\0\0\0abc")},
    {.code = PICKLE_SHORT_BINSTRING, .argument = BYTES("\3abc")},
    {.code = PICKLE_UNICODE, .argument = BYTES("t\n")},
    {.code = PICKLE_BINUNICODE, .argument = BYTES("\3\0\0\0abc")},
    {.code = PICKLE_APPEND,
     .setup = BYTES("]N"),
     .operand_count = 2,
     .stopping_setups = {BYTES("NN"), BYTES("K\1N"), BYTES(TEXT "N"), BYTES(")N"), BYTES("}N"),
                         BYTES("\x8fN")}},
    {.code = PICKLE_BUILD,
     .setup = BYTES("]N"),
     .operand_count = 2,
     .steps = "change;",
     .other_setups = {BYTES("K\1N"), BYTES("}}"), BYTES("))")}},
    {.code = PICKLE_GLOBAL, .argument = BYTES("a\nb\n"), .steps = "import a.b;"},
    {.code = PICKLE_DICT,
     .setup = BYTES("(NN"),
     .operand_count = MARKED,
     .stopping_setups = {BYTES("(N"), BYTES("(NNN")},
     .other_setups = {BYTES("(")}},
    {.code = PICKLE_EMPTY_DICT},
    {.code = PICKLE_APPENDS,
     .setup = BYTES("](N"),
     .operand_count = MARKED,
     .stopping_setups = {BYTES("(N"), BYTES("N(N"), BYTES("K\1(N"), BYTES(TEXT "(N"), BYTES(")(N"),
                         BYTES("}(N"), BYTES("\x8f(N")},
     .other_setups = {BYTES("]("), BYTES("](NN"), BYTES("N(")}},
    {.code = PICKLE_GET,
     .setup = BYTES("Np7\n0"),
     .argument = BYTES("7\n"),
     .stopping_setups = {BYTES(""), BYTES("Np8\n0")},
     .other_setups = {BYTES("Nq\7"
                            "0"),
                      BYTES("Nr\7\0\0\0"
                            "0")}},
    {.code = PICKLE_BINGET,
     .setup = BYTES("Nq\7"
                    "0"),
     .argument = BYTES("\7"),
     .stopping_setups = {BYTES(""), BYTES("Nq\6"
                                          "0")},
     .other_setups = {BYTES("Np7\n0")}},
    {.code = PICKLE_INST,
     .setup = BYTES("(N"),
     .argument = BYTES("a\nb\n"),
     .operand_count = MARKED,
     .steps = "import a.b;call a.b;",
     .other_setups = {BYTES("("), BYTES("(NN")}},
    {.code = PICKLE_LONG_BINGET,
     .setup = BYTES("Nr\7\0\0\1"
                    "0"),
     .argument = BYTES("\7\0\0\1"),
     .stopping_setups = {BYTES(""), BYTES("Nr\7\0\0\0"
                                          "0")}},
    {.code = PICKLE_LIST,
     .setup = BYTES("(N"),
     .operand_count = MARKED,
     .other_setups = {BYTES("("), BYTES("(NN")}},
    {.code = PICKLE_EMPTY_LIST},
    {.code = PICKLE_OBJ,
     .setup = BYTES("(" GLOBAL "N"),
     .operand_count = MARKED,
     .steps = "call a.b;",
     .stopping_setups = {BYTES("("), BYTES("(N"), BYTES("(K\1"), BYTES("(" TEXT), BYTES("()"), BYTES("(]"),
                         BYTES("(}"), BYTES("(\x8f")},
     .other_setups = {BYTES("(" GLOBAL), BYTES("(" GLOBAL "NN")}},
    {.code = PICKLE_PUT,
     .setup = BYTES("N"),
     .argument = BYTES("7\n"),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES(")")}},
    {.code = PICKLE_BINPUT,
     .setup = BYTES("N"),
     .argument = BYTES("\7"),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES(")")}},
    {.code = PICKLE_LONG_BINPUT,
     .setup = BYTES("N"),
     .argument = BYTES("\7\0\0\1"),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES(")")}},
    {.code = PICKLE_SETITEM,
     .setup = BYTES("}NN"),
     .operand_count = 3,
     .stopping_setups = {BYTES("NNN"), BYTES("K\1NN"), BYTES(TEXT "NN"), BYTES(")NN"), BYTES("\x8fNN")},
     .other_setups = {BYTES("]NN")}},
    {.code = PICKLE_TUPLE,
     .setup = BYTES("(N"),
     .operand_count = MARKED,
     .other_setups = {BYTES("("), BYTES("(NN")}},
    {.code = PICKLE_EMPTY_TUPLE},
    {.code = PICKLE_SETITEMS,
     .setup = BYTES("}(NN"),
     .operand_count = MARKED,
     .stopping_setups = {BYTES("(NN"), BYTES("}(N"), BYTES("N(NN"), BYTES("K\1(NN"), BYTES(TEXT "(NN"),
                         BYTES(")(NN"), BYTES("\x8f(NN")},
     .other_setups = {BYTES("}("), BYTES("](NN"), BYTES("}(NNNN")}},
    {.code = PICKLE_BINFLOAT, .argument = BYTES("\0\0\0\0\0\0\0\0")},
    {.code = PICKLE_PROTO, .argument = BYTES("\2"), .ending = BYTES("N.")},
    {.code = PICKLE_NEWOBJ,
     .setup = BYTES(GLOBAL ")"),
     .operand_count = 2,
     .steps = "call a.b;",
     .stopping_setups = {NO_CALLABLE(")")}},
    {.code = PICKLE_NEWOBJ,
     .setup = BYTES(GLOBAL ")"),
     .operand_count = 2,
     .steps = "call a.b;",
     .stopping_setups = {NO_ARGUMENTS(GLOBAL, "")},
     .other_setups = {ITERABLE_ARGUMENTS(GLOBAL, "")}},
    {.code = PICKLE_EXT1, .argument = BYTES("\1"), .steps = "extension 1;"},
    {.code = PICKLE_EXT2, .argument = BYTES("\1\2"), .steps = "extension 513;"},
    {.code = PICKLE_EXT4, .argument = BYTES("\1\0\1\0"), .steps = "extension 65537;"},
    {.code = PICKLE_TUPLE1, .setup = BYTES("N"), .operand_count = 1, .other_setups = {BYTES("]")}},
    {.code = PICKLE_TUPLE2, .setup = BYTES("NN"), .operand_count = 2, .other_setups = {BYTES("]}")}},
    {.code = PICKLE_TUPLE3, .setup = BYTES("NNN"), .operand_count = 3, .other_setups = {BYTES("]})")}},
    {.code = PICKLE_NEWTRUE},
    {.code = PICKLE_NEWFALSE},
    {.code = PICKLE_LONG1, .argument = BYTES("\2ab")},
    {.code = PICKLE_LONG4, .argument = BYTES("\2\0\0\0ab")},
    {.code = PICKLE_BINBYTES, .argument = BYTES("\2\0\0\0ab")},
    {.code = PICKLE_SHORT_BINBYTES, .argument = BYTES("\2ab")},
    {.code = PICKLE_SHORT_BINUNICODE, .argument = BYTES("\2ab")},
    {.code = PICKLE_BINUNICODE8, .argument = BYTES("\2\0\0\0\0\0\0\0ab")},
    {.code = PICKLE_BINBYTES8, .argument = BYTES("\2\0\0\0\0\0\0\0ab")},
    {.code = PICKLE_EMPTY_SET},
    {.code = PICKLE_ADDITEMS,
     .setup = BYTES("\x8f(N"),
     .operand_count = MARKED,
     .stopping_setups = {BYTES("(N"), BYTES("N(N"), BYTES("K\1(N"), BYTES(TEXT "(N"), BYTES(")(N"),
                         BYTES("}(N"), BYTES("](N")},
     .other_setups = {BYTES("\x8f("), BYTES("\x8f(NN")}},
    {.code = PICKLE_FROZENSET,
     .setup = BYTES("(N"),
     .operand_count = MARKED,
     .other_setups = {BYTES("("), BYTES("(NN")}},
    {.code = PICKLE_NEWOBJ_EX,
     .setup = BYTES(GLOBAL ")}"),
     .operand_count = 3,
     .steps = "call a.b;",
     .stopping_setups = {NO_CALLABLE(")}")}},
    {.code = PICKLE_NEWOBJ_EX,
     .setup = BYTES(GLOBAL ")}"),
     .operand_count = 3,
     .steps = "call a.b;",
     .stopping_setups = {NO_ARGUMENTS(GLOBAL, "}")},
     .other_setups = {ITERABLE_ARGUMENTS(GLOBAL, "}")}},
    {.code = PICKLE_NEWOBJ_EX,
     .setup = BYTES(GLOBAL ")}"),
     .operand_count = 3,
     .steps = "call a.b;",
     .stopping_setups = {BYTES(GLOBAL ")N"), BYTES(GLOBAL ")K\1"), BYTES(GLOBAL ")]"), BYTES(GLOBAL "))"),
                         BYTES(GLOBAL ")\x8f")}},
    {.code = PICKLE_STACK_GLOBAL,
     .setup = BYTES("\x8c\1a\x8c\1b"),
     .operand_count = 2,
     .steps = "import a.b;",
     .stopping_setups = {BYTES("NN"), BYTES("\x8c\1aN"), BYTES("N\x8c\1b"), BYTES("K\1K\1"), BYTES("))"),
                         BYTES("\x8c\1a)"), BYTES("]\x8c\1b"), BYTES("\x8c\1a}"), BYTES("\x8c\1a\x88")},
     .other_setups = {BYTES("X\1\0\0\0aX\1\0\0\0b"), BYTES("Va\nVb\n")}},
    {.code = PICKLE_MEMOIZE,
     .setup = BYTES("N"),
     .operand_count = 1,
     .other_setups = {BYTES("]"), BYTES(")")}},
    {.code = PICKLE_FRAME, .argument = BYTES("\2\0\0\0\0\0\0\0"), .ending = BYTES("N.")},
    {.code = PICKLE_BYTEARRAY8, .argument = BYTES("\2\0\0\0\0\0\0\0ab")},
    {.code = PICKLE_NEXT_BUFFER, .steps = "buffer;"},
    {.code = PICKLE_READONLY_BUFFER, .setup = BYTES("N"), .operand_count = 1, .other_setups = {BYTES("]")}},
};

/* -------------------------------------------------------------------- cases */

/* The steps that were reported, each followed by ';'. */
struct steps {
    char text[512];
    size_t n;
    uint64_t last_call; /* offset of the last call */
};

static const struct trace_global *callable_of(const struct trace_step *s)
{
    const struct trace_node *c = trace_node(s->subject);
    return trace_global(c->kind == TRACE_CALL ? c->items[0] : s->subject);
}

static bool add_step(void *user, const struct trace_step *s)
{
    static const char *const names[] = {
        [TRACE_STEP_IMPORT] = "import",   [TRACE_STEP_CALL] = "call",
        [TRACE_STEP_CHANGE] = "change",   [TRACE_STEP_PERSID] = "persistent id",
        [TRACE_STEP_BUFFER] = "buffer",   [TRACE_STEP_MEMO] = "memo",
        [TRACE_STEP_FRAME] = "frame",     [TRACE_STEP_LEFTOVER] = "leftover",
        [TRACE_STEP_PAYLOAD] = "payload", [TRACE_STEP_DROP] = "drop",
        [TRACE_STEP_WRAPPER] = "wrapper"};
    struct steps *t = user;
    size_t room = sizeof t->text - t->n;
    int n;
    if (s->what == TRACE_STEP_STORED) /* test_tracer.c tests this step */
        return true;
    if (s->what == TRACE_STEP_IMPORT || s->what == TRACE_STEP_CALL) {
        const struct trace_global *g = callable_of(s);
        t->last_call = s->what == TRACE_STEP_CALL ? s->offset : t->last_call;
        n = snprintf(t->text + t->n, room, "%s %.*s.%.*s;", names[s->what], (int)(g ? g->module.len : 1),
                     g ? g->module.ptr : "?", (int)(g ? g->name.len : 1), g ? g->name.ptr : "?");
    } else if (s->what == TRACE_STEP_EXTENSION) {
        n = snprintf(t->text + t->n, room, "extension %d;", (int)s->number);
    } else {
        n = snprintf(t->text + t->n, room, "%s;", names[s->what]);
    }
    t->n += n > 0 && (size_t)n < room ? (size_t)n : 0;
    return true;
}

static unsigned ntraced; /* number of calls of check_trace() */

/* check_trace - checks that tracing the N bytes reports OS_SYSTEM_STEPS, SETUP_STEPS and STEPS, with the last
 * call at the offset LAST_CALL (SIZE_MAX: anywhere). The trace must break off at BREAK_OFFSET, or end at
 * the STOP of the pickle if BREAK_OFFSET is SIZE_MAX. */
static void check_trace(const unsigned char *bytes, size_t n, const char *setup_steps, const char *steps,
                        size_t break_offset, size_t last_call)
{
    char want[512], hex[96];
    struct steps t = {.n = 0};
    struct trace_options o = {.step = add_step, .user = &t};
    struct trace_end end;
    source *src;
    ckpt_error err;
    unsigned char *guarded = unit_guard(bytes, n);
    ntraced++;
    src = source_mem(guarded, n, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    ckpt_status st = pickle_trace(src, 0, n, &o, &end, &err);
    snprintf(want, sizeof want, "%s%s%s", OS_SYSTEM_STEPS, setup_steps, steps);
    uint64_t next = break_offset == SIZE_MAX ? n : break_offset;
    bool as_expected = (st == CKPT_OK) == (break_offset == SIZE_MAX) &&
                       end.reached_stop == (break_offset == SIZE_MAX) && end.next_offset == next &&
                       strcmp(t.text, want) == 0 && (last_call == SIZE_MAX || t.last_call == last_call);
    if (!as_expected) {
        size_t len = 0;
        for (size_t i = sizeof CALL_OS_SYSTEM - 1; i < n && len + 3 < sizeof hex; i++)
            len += (size_t)snprintf(hex + len, sizeof hex - len, "%02x ", bytes[i]);
        printf("\n    %s\n    has the steps \"%s\", not \"%s\", and ends at byte %d of %d, not %d: %s", hex,
               t.text, want, (int)end.next_offset, (int)n, (int)next, st == CKPT_OK ? "no error" : err.what);
    }
    CU_ASSERT(as_expected);
    source_unref(src);
    unit_guard_free(guarded, n);
}

struct stream {
    unsigned char bytes[256];
    size_t n;
};

static void put_bytes(struct stream *s, const void *bytes, size_t n)
{
    if (n) /* BYTES may be NULL if it is empty */
        memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* begin_stream - returns a stream of CALL_OS_SYSTEM and SETUP. */
static struct stream begin_stream(const struct bytes *setup)
{
    struct stream s = {.n = 0};
    put_bytes(&s, CALL_OS_SYSTEM, sizeof CALL_OS_SYSTEM - 1);
    put_bytes(&s, setup->ptr, setup->n);
    return s;
}

/* steps_of_setup - returns the steps of SETUP, which holds at most one GLOBAL. */
static const char *steps_of_setup(const struct bytes *setup)
{
    for (size_t i = 0; i + 5 <= setup->n; i++)
        if (memcmp(setup->ptr + i, GLOBAL, 5) == 0)
            return "import a.b;";
    return "";
}

static const char *steps_of(const struct opcode_test *test) { return test->steps ? test->steps : ""; }

/* check_valid - checks the trace of the opcode after SETUP, with and without the end of the pickle. */
static void check_valid(const struct opcode_test *test, const struct bytes *setup)
{
    struct stream s = begin_stream(setup);
    size_t at = s.n;
    put_bytes(&s, &test->code, 1);
    put_bytes(&s, test->argument.ptr, test->argument.n);
    bool has_call = strstr(steps_of(test), "call") != NULL;
    struct bytes ending = test->code == PICKLE_STOP || test->ending.n ? test->ending
                                                                      : (struct bytes)BYTES(".");
    if (test->code != PICKLE_STOP && test->code != PICKLE_FRAME) /* a FRAME contains the ending */
        check_trace(s.bytes, s.n, steps_of_setup(setup), steps_of(test), s.n, has_call ? at : SIZE_MAX);
    put_bytes(&s, ending.ptr, ending.n);
    bool leaves_mark = test->code == PICKLE_POP_MARK && setup->n == 2 && setup->ptr[1] == PICKLE_MARK;
    char steps[64];
    snprintf(steps, sizeof steps, "%s%s", steps_of(test), leaves_mark ? "leftover;" : "");
    check_trace(s.bytes, s.n, steps_of_setup(setup), steps, SIZE_MAX, has_call ? at : SIZE_MAX);
}

/* check_stops - checks that the trace of SETUP, the opcode and the first LENGTH bytes of its argument
 * reports STEPS and stops at the opcode. */
static void check_stops(const struct opcode_test *test, const struct bytes *setup, size_t length,
                        const char *steps)
{
    struct stream s = begin_stream(setup);
    size_t at = s.n;
    put_bytes(&s, &test->code, 1);
    put_bytes(&s, test->argument.ptr, length);
    if (length == test->argument.n)
        put_bytes(&s, "NN.", 3);
    check_trace(s.bytes, s.n, steps_of_setup(setup), steps, at, SIZE_MAX);
}

static void valid_opcodes_are_traced(void)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        check_valid(&tests[i], &tests[i].setup);
        for (size_t k = 0; k < MAX_SETUPS && tests[i].other_setups[k].ptr; k++)
            check_valid(&tests[i], &tests[i].other_setups[k]);
    }
}

static void stack_underflow_stops_the_trace(void)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        const struct opcode_test *test = &tests[i];
        const struct bytes no_setup = BYTES(""), values_without_mark = BYTES("NNN");
        /* INST imports its class before it looks for the MARK */
        const char *steps = test->code == PICKLE_INST ? "import a.b;" : "";
        if (test->operand_count == MARKED) {
            check_stops(test, &no_setup, test->argument.n, steps);
            check_stops(test, &values_without_mark, test->argument.n, steps);
        } else {
            for (size_t n = 0; n < test->operand_count; n++) {
                const struct bytes too_few = {"NNN", n}, too_few_above_mark = {"NNN(NNN", 4 + n};
                check_stops(test, &too_few, test->argument.n, "");
                if (n || test->code != PICKLE_POP) /* POP may remove the MARK */
                    check_stops(test, &too_few_above_mark, test->argument.n, "");
            }
        }
    }
}

static void operands_of_the_wrong_type_stop_the_trace(void)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        for (size_t k = 0; k < MAX_SETUPS && tests[i].stopping_setups[k].ptr; k++)
            check_stops(&tests[i], &tests[i].stopping_setups[k], tests[i].argument.n, "");
}

/* check_truncated_line - checks a pickle that ends after the first N bytes of the argument, which is one line
 * or two. pickle.py takes the last byte of an incomplete line for its newline and drops it. The trace must do
 * the same. */
static void check_truncated_line(const struct opcode_test *test, size_t n)
{
    const char *steps = test->code == PICKLE_GLOBAL ? "import a.;"
                        : test->code == PICKLE_INST ? "import a.;call a.;"
                                                    : steps_of(test);
    struct stream s = begin_stream(&test->setup);
    put_bytes(&s, &test->code, 1);
    put_bytes(&s, test->argument.ptr, n);
    check_trace(s.bytes, s.n, steps_of_setup(&test->setup), steps, s.n, SIZE_MAX);
}

static void truncated_arguments_stop_the_trace_or_are_read(void)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        for (size_t n = 0; n < tests[i].argument.n; n++) {
            uint8_t kind = pickle_op(tests[i].code)->argument;
            /* an index of one digit is empty without its last byte */
            bool is_index = tests[i].code == PICKLE_GET || tests[i].code == PICKLE_PUT;
            if ((kind == PICKLE_ARG_LINE && n > 0 && !is_index) || (kind == PICKLE_ARG_LINES && n > 1))
                check_truncated_line(&tests[i], n);
            else
                check_stops(&tests[i], &tests[i].setup, n, "");
        }
}

/* The streams have indices that are not numbers, protocols that do not exist, and lengths beyond the end of
 * the file. In streams that begin with "N" (NONE), the opcode after it stops the trace. */
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
        const struct bytes no_setup = BYTES("");
        struct stream s = begin_stream(&no_setup);
        size_t at = s.n + (streams[i].ptr[0] == 'N');
        put_bytes(&s, streams[i].ptr, streams[i].n);
        check_trace(s.bytes, s.n, "", "", at, SIZE_MAX);
    }
}

static void bytes_that_are_no_opcodes_stop_the_trace(void)
{
    const struct bytes no_setup = BYTES("");
    for (unsigned c = 0; c < 256; c++) {
        struct stream s = begin_stream(&no_setup);
        unsigned char byte = (unsigned char)c;
        if (pickle_op((uint8_t)c))
            continue;
        put_bytes(&s, &byte, 1);
        put_bytes(&s, "N.", 2);
        check_trace(s.bytes, s.n, "", "", sizeof CALL_OS_SYSTEM - 1, SIZE_MAX);
    }
}

static void every_opcode_is_tested(void)
{
    unsigned opcode_count = 0;
    bool is_tested[256] = {false};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        is_tested[tests[i].code] = true;
    for (unsigned c = 0; c < 256; c++) {
        CU_ASSERT_EQUAL(is_tested[c], pickle_op((uint8_t)c) != NULL);
        opcode_count += is_tested[c];
    }
    CU_ASSERT_EQUAL(opcode_count, 68); /* as in pickletools.py */
    CU_ASSERT(ntraced >= 400);
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
