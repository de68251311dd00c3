/* Every opcode followed by codec/pickle_trace: as it should be, with too little on the stack, with too
 * little in the stream, with operands of the wrong type. Each case runs behind a call of os.system,
 * which must be told whatever comes later, and says exactly what else is told and where it breaks off. */
#include <stdio.h>

#include "codec/pickle_ops.h"
#include "codec/pickle_trace.h"
#include "unit.h"

#define FIRST      "cos\nsystem\n)R0"
#define FIRST_TOLD "Ios.system Cos.system D "
#define GLOBAL     "ca\nb\n"
#define TEXT       "X\1\0\0\0t"
#define MOST       12

struct bytes {
    const char *at;
    size_t n;
};
#define BYTES(text)                                                                                          \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }

struct row {
    unsigned char code;
    struct bytes setup, argument,
        rest;           /* what it needs on the stack, what follows it, what ends the pickle */
    size_t needs;       /* values it takes; MARKED: all above a mark, and those below */
    const char *before; /* told by the setup */
    const char *told;   /* told by it */
    struct bytes wrong[MOST], lenient[MOST]; /* setups with which it breaks off, or goes on as told */
};

enum { MARKED = 100 };

/* Targets that take no items, and things that cannot be called. */
#define NO_CALLABLE(args)                                                                                    \
    BYTES("N" args), BYTES("K\1" args), BYTES(TEXT args), BYTES(")" args), BYTES("]" args), BYTES("}" args), \
        BYTES("\x8f" args), BYTES("\x88" args)
#define NO_ARGUMENTS(callable, more)                                                                         \
    BYTES(callable "N" more), BYTES(callable "K\1" more), BYTES(callable "\x88" more),                       \
        BYTES(callable "I1\n" more), BYTES(callable "\x8a\1\5" more)
/* no tuples, and yet pickle.py calls with what it finds in them */
#define SPREAD(callable, more)                                                                               \
    BYTES(callable TEXT more), BYTES(callable "S'a'\n" more), BYTES(callable "C\1a" more),                   \
        BYTES(callable "]" more), BYTES(callable "}" more), BYTES(callable "\x8f" more),                     \
        BYTES(callable "\x96\1\0\0\0\0\0\0\0a" more)

static const struct row rows[] = {
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

struct told {
    char text[512];
    size_t n;
    uint64_t call; /* offset of the last one */
};

static const struct trace_global *callable(const struct trace_step *s)
{
    const struct trace_node *c = trace_node(s->subject);
    return trace_global(c->kind == TRACE_CALL ? c->items[0] : s->subject);
}

static bool take(void *user, const struct trace_step *s)
{
    static const char letters[] = {
        [TRACE_STEP_CHANGE] = 'W', [TRACE_STEP_PERSID] = 'P',  [TRACE_STEP_EXTENSION] = 'X',
        [TRACE_STEP_BUFFER] = 'B', [TRACE_STEP_MEMO] = 'M',    [TRACE_STEP_FRAME] = 'F',
        [TRACE_STEP_LEFT] = 'L',   [TRACE_STEP_PAYLOAD] = 'Y', [TRACE_STEP_DROP] = 'D'};
    struct told *t = user;
    size_t room = sizeof t->text - t->n;
    int n;
    if (s->what == TRACE_STEP_STORED) /* test_tracer.c has them */
        return true;
    if (s->what == TRACE_STEP_IMPORT || s->what == TRACE_STEP_CALL) {
        const struct trace_global *g = callable(s);
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

/* follow - FIRST and then the N bytes: must tell FIRST_TOLD, BEFORE and TOLD, and nothing else; BREAKS:
 * where it breaks off, or SIZE_MAX: it comes to its STOP. */
static void follow(const unsigned char *bytes, size_t n, const char *before, const char *told, size_t breaks,
                   size_t call)
{
    char want[512], what[96];
    struct told t = {.n = 0};
    struct trace_options o = {.step = take, .user = &t};
    struct trace_end end;
    source *src;
    ckpt_error err;
    unsigned char *guarded = unit_guard(bytes, n);
    cases++;
    src = source_mem(guarded, n, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    ckpt_status st = pickle_trace(src, 0, n, &o, &end, &err);
    snprintf(want, sizeof want, "%s%s%s", FIRST_TOLD, before, told);
    uint64_t next = breaks == SIZE_MAX ? n : breaks;
    bool good = (st == CKPT_OK) == (breaks == SIZE_MAX) && end.stopped == (breaks == SIZE_MAX) &&
                end.next == next && strcmp(t.text, want) == 0 && (call == SIZE_MAX || t.call == call);
    if (!good) {
        size_t at = 0;
        for (size_t i = sizeof FIRST - 1; i < n && at + 3 < sizeof what; i++)
            at += (size_t)snprintf(what + at, sizeof what - at, "%02x ", bytes[i]);
        printf("\n    %s: told \"%s\", not \"%s\"; at %d of %d, not %d: %s", what, t.text, want,
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

static void put(struct stream *s, const void *bytes, size_t n)
{
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* begin - FIRST and SETUP. */
static struct stream begin(const struct bytes *setup)
{
    struct stream s = {.n = 0};
    put(&s, FIRST, sizeof FIRST - 1);
    put(&s, setup->at, setup->n);
    return s;
}

/* imports - what SETUP itself tells, which holds at most one GLOBAL. */
static const char *imports(const struct bytes *setup)
{
    for (size_t i = 0; i + 5 <= setup->n; i++)
        if (memcmp(setup->at + i, GLOBAL, 5) == 0)
            return "Ia.b ";
    return "";
}

static void fine(const struct row *r, const struct bytes *setup)
{
    struct stream s = begin(setup);
    size_t at = s.n;
    put(&s, &r->code, 1);
    put(&s, r->argument.at, r->argument.n);
    bool calls = strchr(r->told, 'C') != NULL;
    if (r->code != '.' && r->code != 0x95) /* no STOP follows: the same is told, then it breaks off */
        follow(s.bytes, s.n, imports(setup), r->told, s.n, calls ? at : SIZE_MAX);
    put(&s, r->rest.at, r->rest.n);
    bool left = r->code == '1' && setup->n == 2 && setup->at[1] == '(';
    char told[64];
    snprintf(told, sizeof told, "%s%s", r->told, left ? "L " : "");
    follow(s.bytes, s.n, imports(setup), told, SIZE_MAX, calls ? at : SIZE_MAX);
}

/* broken - SETUP, the opcode, and CUT bytes of its argument: it breaks off at the opcode. */
static void broken(const struct row *r, const struct bytes *setup, size_t cut, const char *told)
{
    struct stream s = begin(setup);
    size_t at = s.n;
    put(&s, &r->code, 1);
    put(&s, r->argument.at, cut);
    if (cut == r->argument.n)
        put(&s, "NN.", 3);
    follow(s.bytes, s.n, imports(setup), told, at, SIZE_MAX);
}

static void valid(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fine(&rows[i], &rows[i].setup);
        for (size_t l = 0; l < MOST && rows[i].lenient[l].at; l++)
            fine(&rows[i], &rows[i].lenient[l]);
    }
}

static void underflow(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const struct bytes none = BYTES(""), three = BYTES("NNN"), fenced = BYTES("NNN(");
        /* INST reads its names, and imports, before it looks for the mark */
        const char *told = r->code == 'i' ? "Ia.b " : "";
        if (r->needs == MARKED) {
            broken(r, &none, r->argument.n, told);
            broken(r, &three, r->argument.n, told);
        } else {
            for (size_t n = 0; n < r->needs; n++) {
                const struct bytes few = {"NNN", n}, below = {"NNN(NNN", 4 + n};
                broken(r, &few, r->argument.n, "");
                if (n || r->code != '0') /* POP takes the mark itself */
                    broken(r, &below, r->argument.n, "");
            }
            if (r->needs > 0 && r->code != '0')
                broken(r, &fenced, r->argument.n, "");
        }
    }
}

static void wrong_type(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t w = 0; w < MOST && rows[i].wrong[w].at; w++)
            broken(&rows[i], &rows[i].wrong[w], rows[i].argument.n, "");
}

/* cut_line - pickle.py takes a line that the end of the file cuts, without its last byte. */
static void cut_line(const struct row *r, size_t n)
{
    const char *told = r->code == 'c' ? "Ia. " : r->code == 'i' ? "Ia. Ca. " : r->told;
    struct stream s = begin(&r->setup);
    put(&s, &r->code, 1);
    put(&s, r->argument.at, n);
    follow(s.bytes, s.n, imports(&r->setup), told, s.n, SIZE_MAX);
}

static void cut_short(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t n = 0; n < rows[i].argument.n; n++) {
            uint8_t kind = pickle_op(rows[i].code)->argument;
            bool index = rows[i].code == 'g' || rows[i].code == 'p'; /* one digit, which is dropped */
            if ((kind == PICKLE_ARG_LINE && n > 0 && !index) || (kind == PICKLE_ARG_LINES && n > 1))
                cut_line(&rows[i], n);
            else
                broken(&rows[i], &rows[i].setup, n, "");
        }
}

/* arguments that no loader takes */
static void wrong_arguments(void)
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
        struct stream s = begin(&none);
        size_t at = s.n + (streams[i].at[0] == 'N');
        put(&s, streams[i].at, streams[i].n);
        follow(s.bytes, s.n, "", "", at, SIZE_MAX);
    }
}

static void no_opcodes(void)
{
    const struct bytes none = BYTES("");
    for (unsigned c = 0; c < 256; c++) {
        struct stream s = begin(&none);
        unsigned char byte = (unsigned char)c;
        if (pickle_op((uint8_t)c))
            continue;
        put(&s, &byte, 1);
        put(&s, "N.", 2);
        follow(s.bytes, s.n, "", "", sizeof FIRST - 1, SIZE_MAX);
    }
}

/* all 68 have a row, and there are as many cases as were promised */
static void nothing_is_left_out(void)
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
    UNIT(valid);
    UNIT(underflow);
    UNIT(wrong_type);
    UNIT(cut_short);
    UNIT(wrong_arguments);
    UNIT(no_opcodes);
    UNIT(nothing_is_left_out);
}
