/* regexp.c - compiles an expression to instructions and runs all threads of them at the same time, a
 * character of the text at a time, as in K. Thompson, "Regular Expression Search Algorithm" (CACM 11/6,
 * 1968), with the bounds of groups in each thread, as in R. Pike's sam. At most one thread is at an
 * instruction, so a character takes no more steps than there are instructions.
 *
 * Jumps are relative, so that the instructions of an atom can be moved and copied by repetitions. */
#include "base/regexp.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define MAX_INSTRUCTIONS 20000u
#define MAX_DEPTH        64u     /* groups in groups */
#define MAX_CLASSES      128u    /* bracket expressions and \d, \w, … */
#define MAX_RANGES       1024u   /* of all classes; each takes at least a byte of the pattern */
#define MAX_REPEAT       255     /* as RE_DUP_MAX of POSIX */
#define STEPS_PER_TEXT   100000u /* work that is allowed for any text … */
#define STEPS_PER_BYTE   2000u   /* … and for each byte of it */
#define SLOTS            (2 * REGEXP_GROUPS)
#define UNSET            UINT32_MAX       /* of a slot: the group did not begin */
#define OPEN             (UINT32_MAX - 1) /* of a slot of an end: the group began, but did not end */

enum op { CHARACTER, ANY, CLASS, SPLIT, JUMP, SAVE, AT_START, AT_END, WORD_EDGE, NOT_WORD_EDGE, MATCHED };

struct instruction {
    enum op op;
    uint32_t arg; /* code point; number of a class or slot */
    int32_t x, y; /* SPLIT: to the preferred and the other instruction; JUMP: x. Relative */
};

struct range {
    uint32_t low, high;
};

struct class {
    uint32_t first, n; /* ranges */
    bool negated;
};

struct thread {
    uint32_t pc;
    uint32_t slot[SLOTS];
};

struct thread_list {
    struct thread *threads;
    uint32_t n;
};

struct regexp {
    struct instruction *code;
    uint32_t n;
    struct class classes[MAX_CLASSES];
    uint32_t nclasses;
    struct range ranges[MAX_RANGES];
    uint32_t nranges;
    size_t ngroups;
    bool any_case;
    bool is_repeated[REGEXP_GROUPS]; /* the group is in a repetition */
    bool is_literal, is_anchored;    /* the expression is LITERAL, all of it ASCII, perhaps after ^ */
    char literal[REGEXP_MAX_PATTERN];
    size_t nliteral;
    struct thread_list current, next;
    uint32_t *visited; /* by instruction: generation in which it was reached last */
    uint32_t generation;
    struct pending *stack;
    uint64_t steps_left;
};

/* What is left to do when the threads that begin at an instruction are added. */
struct pending {
    uint32_t pc;
    uint32_t slot, value; /* if slot is not UNSET: to be restored, instead of going on at pc */
};

/* ------------------------------------------------------------------ parser */

/* A group that is being parsed, or the complete expression. */
struct open_group {
    uint32_t start;      /* its first instruction */
    uint32_t branch;     /* the first instruction of the current branch */
    uint32_t atom;       /* of the last atom in this branch, or NO_ATOM */
    int32_t last_jump;   /* JUMP at the end of an earlier branch; its x is the distance to the one before */
    size_t number;       /* 0: has none */
    size_t first_inside; /* number of the first group that begins in it */
    const char *opened_at;
};

#define NO_ATOM UINT32_MAX

struct parser {
    regexp *re;
    const char *pattern, *at;
    struct open_group open[MAX_DEPTH];
    size_t depth;                            /* index of the innermost open group */
    size_t atom_groups_from, atom_groups_to; /* numbers of the groups in the last atom */
    ckpt_error *err;
};

static ckpt_status fail_at(struct parser *parser, const char *at, const char *what)
{
    return fail(parser->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "column %zu of \"%s\": %s",
                (size_t)(at - parser->pattern) + 1, parser->pattern, what);
}

/* insert_room - moves the instructions from AT on by COUNT. Returns false if there would be too many. */
static bool insert_room(regexp *re, uint32_t at, uint32_t count)
{
    if (count > MAX_INSTRUCTIONS - re->n)
        return false;
    memmove(re->code + at + count, re->code + at, (re->n - at) * sizeof *re->code);
    re->n += count;
    return true;
}

static ckpt_status fail_too_large(struct parser *parser)
{
    return fail_at(parser, parser->at, "too large an expression");
}

static ckpt_status insert(struct parser *parser, uint32_t at, struct instruction instruction)
{
    if (!insert_room(parser->re, at, 1))
        return fail_too_large(parser);
    parser->re->code[at] = instruction;
    return CKPT_OK;
}

static ckpt_status append(struct parser *parser, enum op op, uint32_t arg)
{
    return insert(parser, parser->re->n, (struct instruction){.op = op, .arg = arg});
}

/* begin_atom - notes that the next instructions are an atom, to which a repetition may apply. */
static void begin_atom(struct parser *parser)
{
    parser->open[parser->depth].atom = parser->re->n;
    parser->atom_groups_from = parser->atom_groups_to = parser->re->ngroups + 1;
}

static ckpt_status append_atom(struct parser *parser, enum op op, uint32_t arg)
{
    begin_atom(parser);
    return append(parser, op, arg);
}

static ckpt_status add_range(struct parser *parser, uint32_t low, uint32_t high)
{
    regexp *re = parser->re;
    if (re->nranges == MAX_RANGES)
        return fail_too_large(parser);
    re->ranges[re->nranges++] = (struct range){low, high};
    return CKPT_OK;
}

/* The ranges of the classes that have names, as pairs of their ends. */
static const struct {
    const char *name, *ends;
    /* clang-format off */
} named_classes[] = {
    {"alpha", "AZaz"},   {"digit", "09"},   {"alnum", "09AZaz"}, {"upper", "AZ"},
    {"lower", "az"},     {"space", "\t\r  "}, {"blank", "\t\t  "}, {"punct", "!/:@[`{~"},
    {"print", " ~"},     {"graph", "!~"},   {"cntrl", "\1\37\177\177"}, {"xdigit", "09AFaf"},
    {"d", "09"},         {"w", "09AZ__az"}, {"s", "\t\r  "},
};
/* clang-format on */

/* add_named_class - adds the ranges of the class called NAME, NBYTES bytes. False: there is none. */
static bool add_named_class(struct parser *parser, const char *name, size_t nbytes, ckpt_status *st)
{
    for (size_t i = 0; i < sizeof named_classes / sizeof *named_classes; i++) {
        if (strlen(named_classes[i].name) != nbytes || memcmp(named_classes[i].name, name, nbytes) != 0)
            continue;
        *st = CKPT_OK;
        for (const char *end = named_classes[i].ends; *st == CKPT_OK && *end; end += 2)
            *st = add_range(parser, (unsigned char)end[0], (unsigned char)end[1]);
        return true;
    }
    return false;
}

/* read_character - returns the code point at parser->at, or its byte if it is not UTF-8, and moves after
 * it. */
static uint32_t read_character(struct parser *parser)
{
    size_t pos = 0;
    uint32_t cp = utf8_next(str_c(parser->at), &pos, false);
    cp = cp == UTF8_BAD ? 0x110000u + (unsigned char)*parser->at : cp;
    parser->at += pos;
    return cp;
}

/* read_member - reads a member of a bracket expression that may begin or end a range, and sets *CP to it. */
static ckpt_status read_member(struct parser *parser, uint32_t *cp)
{
    if (parser->at[0] == '[' && (parser->at[1] == '.' || parser->at[1] == '=')) {
        const char *start = parser->at;
        char kind = parser->at[1];
        parser->at += 2;
        *cp = *parser->at ? read_character(parser) : 0;
        if (*cp == 0 || parser->at[0] != kind || parser->at[1] != ']')
            return fail_at(parser, start, "unknown collating element");
        parser->at += 2;
        return CKPT_OK;
    }
    *cp = read_character(parser);
    return CKPT_OK;
}

static ckpt_status parse_bracket_items(struct parser *parser, const char *start)
{
    bool first = true;
    for (; *parser->at && (first || *parser->at != ']'); first = false) {
        ckpt_status st;
        const char *item = parser->at;
        uint32_t low, high;
        if (item[0] == '[' && item[1] == ':') {
            const char *end = strstr(item + 2, ":]");
            if (!end || !add_named_class(parser, item + 2, (size_t)(end - item) - 2, &st))
                return fail_at(parser, item, "unknown character class");
            CKPT_TRY(st);
            parser->at = end + 2;
            continue;
        }
        if (item[0] == '\\' && strchr("dws", item[1]) && item[1]) {
            (void)add_named_class(parser, item + 1, 1, &st);
            CKPT_TRY(st);
            parser->at += 2;
            continue;
        }
        CKPT_TRY(read_member(parser, &low));
        high = low;
        if (parser->at[0] == '-' && parser->at[1] && parser->at[1] != ']') {
            parser->at++;
            CKPT_TRY(read_member(parser, &high));
        }
        if (high < low)
            return fail_at(parser, item, "invalid range of characters");
        CKPT_TRY(add_range(parser, low, high));
    }
    return *parser->at == ']' ? CKPT_OK : fail_at(parser, start, "unmatched [");
}

/* append_class - appends an instruction for the ranges from FIRST on. */
static ckpt_status append_class(struct parser *parser, uint32_t first, bool negated)
{
    regexp *re = parser->re;
    if (re->nclasses == MAX_CLASSES)
        return fail_too_large(parser);
    re->classes[re->nclasses] = (struct class){first, re->nranges - first, negated};
    return append_atom(parser, CLASS, re->nclasses++);
}

static ckpt_status parse_bracket(struct parser *parser)
{
    const char *start = parser->at++;
    uint32_t first = parser->re->nranges;
    bool negated = *parser->at == '^';
    parser->at += negated;
    CKPT_TRY(parse_bracket_items(parser, start));
    parser->at++;
    return append_class(parser, first, negated);
}

static ckpt_status parse_escape(struct parser *parser)
{
    const char *start = parser->at++;
    char c = *parser->at;
    char lower = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    uint32_t first = parser->re->nranges;
    ckpt_status st;
    if (!c)
        return fail_at(parser, start, "backslash at the end");
    if (c >= '1' && c <= '9')
        return fail_at(parser, start, "references to a group are not supported in an expression");
    if (c == 'b' || c == 'B') {
        parser->at++;
        parser->open[parser->depth].atom = NO_ATOM;
        return append(parser, c == 'b' ? WORD_EDGE : NOT_WORD_EDGE, 0);
    }
    if (add_named_class(parser, &lower, 1, &st)) {
        CKPT_TRY(st);
        parser->at++;
        return append_class(parser, first, c != lower);
    }
    if ((lower >= 'a' && lower <= 'z') || strchr("0<>`'", c))
        return fail_at(parser, start, "unknown escape");
    return append_atom(parser, CHARACTER, read_character(parser));
}

static ckpt_status open_group(struct parser *parser)
{
    const char *start = parser->at;
    bool has_number = start[1] != '?';
    if (!has_number && start[2] != ':')
        return fail_at(parser, start, "only (?:…) is understood, and (?i) at the start of the expression");
    if (parser->depth + 1 == MAX_DEPTH)
        return fail_at(parser, start, "more than 63 groups in each other");
    begin_atom(parser);
    struct open_group group = {.start = parser->re->n,
                               .atom = NO_ATOM,
                               .last_jump = -1,
                               .number = has_number ? ++parser->re->ngroups : 0,
                               .opened_at = start};
    group.first_inside = parser->re->ngroups + !has_number;
    if (group.number && group.number < REGEXP_GROUPS)
        CKPT_TRY(append(parser, SAVE, (uint32_t)(2 * group.number)));
    group.branch = parser->re->n;
    parser->open[++parser->depth] = group;
    parser->at += has_number ? 1 : 3;
    return CKPT_OK;
}

/* end_branches - makes the end of each earlier branch of the innermost group jump to the next instruction. */
static void end_branches(struct parser *parser)
{
    for (int32_t jump = parser->open[parser->depth].last_jump, before; jump >= 0; jump = before) {
        struct instruction *code = &parser->re->code[jump];
        before = code->y;
        code->x = (int32_t)parser->re->n - jump;
    }
}

static ckpt_status close_group(struct parser *parser)
{
    struct open_group group = parser->open[parser->depth];
    if (!parser->depth)
        return fail_at(parser, parser->at, "unmatched parenthesis");
    parser->at++;
    end_branches(parser);
    parser->depth--;
    parser->atom_groups_from = group.first_inside;
    parser->atom_groups_to = parser->re->ngroups + 1;
    if (group.number && group.number < REGEXP_GROUPS)
        return append(parser, SAVE, (uint32_t)(2 * group.number + 1));
    return CKPT_OK;
}

static ckpt_status next_branch(struct parser *parser)
{
    struct open_group *group = &parser->open[parser->depth];
    uint32_t length = parser->re->n - group->branch;
    parser->at++;
    CKPT_TRY(
        insert(parser, group->branch, (struct instruction){.op = SPLIT, .x = 1, .y = (int32_t)length + 2}));
    CKPT_TRY(append(parser, JUMP, 0));
    parser->re->code[parser->re->n - 1].y = group->last_jump;
    group->last_jump = (int32_t)parser->re->n - 1;
    group->branch = parser->re->n;
    group->atom = NO_ATOM;
    return CKPT_OK;
}

/* make_optional - puts an instruction before those from START on that may skip them, and SKIPPED more. */
static ckpt_status make_optional(struct parser *parser, uint32_t start, uint32_t skipped)
{
    int32_t distance = (int32_t)(parser->re->n - start + skipped) + 1;
    return insert(parser, start, (struct instruction){.op = SPLIT, .x = 1, .y = distance});
}

/* repeat_forever - makes the instructions from START on repeat, at least once. */
static ckpt_status repeat_forever(struct parser *parser, uint32_t start)
{
    int32_t back = (int32_t)start - (int32_t)parser->re->n;
    return insert(parser, parser->re->n, (struct instruction){.op = SPLIT, .x = back, .y = 1});
}

/* repeat_any - makes the instructions from START on repeat any number of times. */
static ckpt_status repeat_any(struct parser *parser, uint32_t start)
{
    CKPT_TRY(make_optional(parser, start, 1));
    return insert(parser, parser->re->n,
                  (struct instruction){.op = JUMP, .x = (int32_t)start - (int32_t)parser->re->n});
}

/* repeat_counted - repeats the atom from START on LEAST to MOST times; MOST -1: without a limit. */
static ckpt_status repeat_counted(struct parser *parser, uint32_t start, int least, int most)
{
    regexp *re = parser->re;
    uint32_t length = re->n - start;
    int copies = most < 0 ? (least ? least : 1) : most;
    if (most == 0) {
        re->n = start;
        return CKPT_OK;
    }
    if (length && (uint32_t)copies > (MAX_INSTRUCTIONS - re->n) / length / 2)
        return fail_too_large(parser);
    struct instruction *atom = malloc((length + 1) * sizeof *atom);
    CKPT_TRY_ALLOC(atom, parser->err);
    memcpy(atom, re->code + start, length * sizeof *atom);
    re->n = start;
    uint32_t last = start;
    for (int i = 0; i < copies; i++) {
        bool is_optional = i >= least && most >= 0;
        if (is_optional) { /* skips this copy and all after it, each with such an instruction before it */
            int32_t left = (int32_t)((uint32_t)(copies - i) * (length + 1));
            re->code[re->n++] = (struct instruction){.op = SPLIT, .x = 1, .y = left};
        }
        last = re->n;
        memcpy(re->code + re->n, atom, length * sizeof *atom);
        re->n += length;
    }
    free(atom);
    if (most >= 0)
        return CKPT_OK;
    return least ? repeat_forever(parser, last) : repeat_any(parser, last);
}

/* read_count - reads a number of at most MAX_REPEAT; -1: there is none. */
static int read_count(struct parser *parser)
{
    int n = -1;
    for (; *parser->at >= '0' && *parser->at <= '9' && n <= MAX_REPEAT; parser->at++)
        n = (n < 0 ? 0 : n) * 10 + (*parser->at - '0');
    return n;
}

static ckpt_status parse_count(struct parser *parser, uint32_t atom)
{
    const char *start = parser->at++;
    int least = read_count(parser), most = least;
    if (*parser->at == ',') {
        parser->at++;
        most = read_count(parser);
        least = least < 0 ? 0 : least;
    }
    if (!*parser->at)
        return fail_at(parser, start, "unmatched {");
    if (*parser->at != '}' || least < 0 || least > MAX_REPEAT || most > MAX_REPEAT ||
        (most >= 0 && most < least))
        return fail_at(parser, start, "malformed repetition count: {m}, {m,} or {m,n}, up to 255");
    parser->at++;
    return repeat_counted(parser, atom, least, most);
}

/* check_greedy - refuses Python's .*? and .*+, which POSIX reads as a repetition of a repetition. */
static ckpt_status check_greedy(struct parser *parser)
{
    if (*parser->at != '?' && *parser->at != '+')
        return CKPT_OK;
    const char *what = *parser->at == '?' ? "a repetition that matches as little as possible is not supported"
                                          : "a repetition that gives nothing back is not supported";
    ckpt_status st = fail_at(parser, parser->at - 1, what);
    error_add_hint(parser->err, "exclude the character that ends it: '[^.]*\\.' in place of '.*?\\.'");
    return st;
}

static ckpt_status parse_repetition(struct parser *parser)
{
    uint32_t atom = parser->open[parser->depth].atom;
    char c = *parser->at;
    if (atom == NO_ATOM)
        return fail_at(parser, parser->at, "nothing to repeat");
    for (size_t i = parser->atom_groups_from; c != '?' && i < parser->atom_groups_to && i < REGEXP_GROUPS;
         i++)
        parser->re->is_repeated[i] = true;
    if (c != '{')
        parser->at++;
    CKPT_TRY(c == '{'   ? parse_count(parser, atom)
             : c == '*' ? repeat_any(parser, atom)
             : c == '+' ? repeat_forever(parser, atom)
                        : make_optional(parser, atom, 0));
    return check_greedy(parser);
}

static ckpt_status parse_one(struct parser *parser)
{
    switch (*parser->at) {
    case '[': return parse_bracket(parser);
    case '\\': return parse_escape(parser);
    case '(': return open_group(parser);
    case ')': return close_group(parser);
    case '|': return next_branch(parser);
    case '*':
    case '+':
    case '?':
    case '{': return parse_repetition(parser);
    case '^':
    case '$':
        parser->open[parser->depth].atom = NO_ATOM;
        return append(parser, *parser->at++ == '^' ? AT_START : AT_END, 0);
    case '.': parser->at++; return append_atom(parser, ANY, 0);
    default: return append_atom(parser, CHARACTER, read_character(parser));
    }
}

static ckpt_status parse(struct parser *parser)
{
    CKPT_TRY(append(parser, SAVE, 0));
    parser->open[0] = (struct open_group){.start = 1, .branch = 1, .atom = NO_ATOM, .last_jump = -1};
    while (*parser->at)
        CKPT_TRY(parse_one(parser));
    if (parser->depth)
        return fail_at(parser, parser->open[parser->depth].opened_at, "unmatched parenthesis");
    end_branches(parser);
    CKPT_TRY(append(parser, SAVE, 1));
    return append(parser, MATCHED, 0);
}

/* find_literal - sets is_literal and what belongs to it. */
static void find_literal(regexp *re)
{
    const struct instruction *first = re->code + 1, *end = re->code + re->n - 2; /* SAVE 0; SAVE 1, MATCHED */
    re->is_anchored = first->op == AT_START;
    first += re->is_anchored;
    re->is_literal = !re->any_case && (size_t)(end - first) <= sizeof re->literal;
    for (; re->is_literal && first < end; first++) {
        re->is_literal = first->op == CHARACTER && first->arg < 0x80;
        re->literal[re->nliteral++] = (char)first->arg;
    }
}

static void alloc_threads(struct thread_list *list, uint32_t count)
{
    list->threads = calloc(count, sizeof *list->threads);
}

ckpt_status regexp_compile(const char *pattern, regexp **out, ckpt_error *err)
{
    regexp *re = *out = NULL;
    if (strlen(pattern) > REGEXP_MAX_PATTERN)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an expression of %zu bytes; 1 to %u are allowed",
                    strlen(pattern), REGEXP_MAX_PATTERN);
    re = calloc(1, sizeof *re);
    if (!re || !(re->code = calloc(MAX_INSTRUCTIONS, sizeof *re->code))) {
        regexp_free(re);
        return fail_memory(err);
    }
    re->any_case = strncmp(pattern, "(?i)", 4) == 0;
    struct parser *p = calloc(1, sizeof *p);
    ckpt_status st = CKPT_ENOMEM;
    if (p) {
        *p = (struct parser){
            .re = re, .pattern = pattern, .at = pattern + (re->any_case ? 4 : 0), .err = err};
        st = parse(p);
        free(p);
    }
    if (st == CKPT_OK) {
        find_literal(re);
        alloc_threads(&re->current, re->n);
        alloc_threads(&re->next, re->n);
        re->visited = calloc(re->n, sizeof *re->visited);
        re->stack = calloc(2 * (size_t)re->n + 1, sizeof *re->stack);
        if (!re->current.threads || !re->next.threads || !re->visited || !re->stack)
            st = CKPT_ENOMEM;
    }
    if (st == CKPT_OK)
        *out = re;
    else
        regexp_free(re);
    return st == CKPT_ENOMEM ? fail_memory(err) : st;
}

void regexp_free(regexp *re)
{
    if (!re)
        return;
    free(re->code);
    free(re->current.threads);
    free(re->next.threads);
    free(re->visited);
    free(re->stack);
    free(re);
}

size_t regexp_group_count(const regexp *re) { return re->ngroups; }

/* ----------------------------------------------------------------- matcher */

/* The text, and the character at a position of it. */
struct position {
    ckpt_str text;
    size_t at, after;      /* offsets of the character and of the next one */
    uint32_t before, here; /* the characters before and at it; UNSET: there is none */
};

static uint32_t fold(uint32_t cp) { return cp >= 'A' && cp <= 'Z' ? cp - 'A' + 'a' : cp; }

static bool is_word(uint32_t cp)
{
    return (cp >= '0' && cp <= '9') || (fold(cp) >= 'a' && fold(cp) <= 'z') || cp == '_';
}

static uint32_t decode(ckpt_str text, size_t at, size_t *after)
{
    *after = at;
    if (at == text.len)
        return UNSET;
    uint32_t cp = utf8_next(text, after, false);
    return cp == UTF8_BAD ? 0x110000u + (unsigned char)text.ptr[at] : cp;
}

static void advance(struct position *pos)
{
    pos->before = pos->here;
    pos->at = pos->after;
    pos->here = decode(pos->text, pos->at, &pos->after);
}

static bool ranges_have(const regexp *re, const struct class *class, uint32_t cp)
{
    for (uint32_t i = 0; i < class->n; i++)
        if (cp >= re->ranges[class->first + i].low && cp <= re->ranges[class->first + i].high)
            return true;
    return false;
}

static bool class_has(const regexp *re, const struct class *class, uint32_t cp)
{
    bool found = ranges_have(re, class, cp);
    if (re->any_case && !found && fold(cp) != cp)
        found = ranges_have(re, class, fold(cp));
    if (re->any_case && !found && cp >= 'a' && cp <= 'z')
        found = ranges_have(re, class, cp - 'a' + 'A');
    return found != class->negated;
}

static bool accepts(const regexp *re, const struct instruction *code, uint32_t cp)
{
    if (cp == UNSET)
        return false;
    switch (code->op) {
    case ANY: return true;
    case CHARACTER: return cp == code->arg || (re->any_case && fold(cp) == fold(code->arg));
    case CLASS: return class_has(re, &re->classes[code->arg], cp);
    default: return false;
    }
}

static bool holds(enum op op, const struct position *pos)
{
    bool is_edge = is_word(pos->before) != is_word(pos->here); /* UNSET is no word */
    return op == AT_START ? pos->at == 0
           : op == AT_END ? pos->at == pos->text.len
                          : is_edge == (op == WORD_EDGE);
}

/* compare_threads - returns < 0 if LEFT is preferred to RIGHT: it began earlier, or the first group outside
 * of repetitions in which they differ began at the same place and is longer. */
static int compare_threads(const regexp *re, const struct thread *left, const struct thread *right)
{
    if (left->slot[0] != right->slot[0])
        return left->slot[0] < right->slot[0] ? -1 : 1;
    for (size_t i = 1; i <= re->ngroups && i < REGEXP_GROUPS; i++) {
        const uint32_t *x = &left->slot[2 * i], *y = &right->slot[2 * i];
        if (re->is_repeated[i] || (x[0] == y[0] && x[1] == y[1]))
            continue;
        if (x[0] != y[0]) /* what is before the group differs: the order of threads decides */
            return 0;
        return x[1] > y[1] ? -1 : 1;
    }
    return 0;
}

/* sort_threads - sorts by compare_threads(); equal ones stay in order. They are nearly sorted already. */
static void sort_threads(regexp *re, struct thread_list *list)
{
    for (uint32_t i = 1; i < list->n; i++) {
        uint32_t k = i;
        while (k && compare_threads(re, &list->threads[i], &list->threads[k - 1]) < 0 && re->steps_left) {
            k--;
            re->steps_left--;
        }
        if (k == i)
            continue;
        struct thread moved = list->threads[i];
        memmove(&list->threads[k + 1], &list->threads[k], (i - k) * sizeof moved);
        list->threads[k] = moved;
    }
}

static void push(regexp *re, uint32_t *depth, uint32_t pc, uint32_t slot, uint32_t value)
{
    re->stack[(*depth)++] = (struct pending){pc, slot, value};
}

/* follow - goes on from the instruction at PC that takes no character: sets *NEXT, or returns false. */
static bool follow(regexp *re, uint32_t *pc, uint32_t *slots, const struct position *pos, uint32_t *depth)
{
    const struct instruction *code = &re->code[*pc];
    switch (code->op) {
    case JUMP: *pc = (uint32_t)((int32_t)*pc + code->x); return true;
    case SPLIT:
        push(re, depth, (uint32_t)((int32_t)*pc + code->y), UNSET, 0);
        *pc = (uint32_t)((int32_t)*pc + code->x);
        return true;
    case SAVE:
        push(re, depth, 0, code->arg, slots[code->arg]);
        if (code->arg % 2 == 0) {
            push(re, depth, 0, code->arg + 1, slots[code->arg + 1]);
            slots[code->arg + 1] = OPEN;
        }
        slots[code->arg] = (uint32_t)pos->at;
        ++*pc;
        return true;
    default: ++*pc; return holds(code->op, pos);
    }
}

/* add_threads - adds to LIST the threads that go on at PC with SLOTS, in order of preference, unless there is
 * one at their instruction. */
static void add_threads(regexp *re, struct thread_list *list, uint32_t pc, uint32_t slots[SLOTS],
                        const struct position *pos)
{
    uint32_t depth = 0;
    push(re, &depth, pc, UNSET, 0);
    while (depth) {
        struct pending next = re->stack[--depth];
        if (next.slot != UNSET) {
            slots[next.slot] = next.value;
            continue;
        }
        for (pc = next.pc; re->visited[pc] != re->generation;) {
            re->visited[pc] = re->generation;
            re->steps_left -= re->steps_left != 0;
            if (re->code[pc].op <= CLASS || re->code[pc].op == MATCHED) {
                struct thread *thread = &list->threads[list->n++];
                thread->pc = pc;
                memcpy(thread->slot, slots, sizeof thread->slot);
                break;
            }
            if (!follow(re, &pc, slots, pos, &depth))
                break;
        }
    }
}

/* take_match - if a thread of LIST has matched, copies its slots to BEST and removes the threads that began
 * later: none of them can be preferred. */
static void take_match(const regexp *re, struct thread_list *list, uint32_t best[SLOTS])
{
    for (uint32_t i = 0; i < list->n; i++) {
        if (re->code[list->threads[i].pc].op != MATCHED)
            continue;
        memcpy(best, list->threads[i].slot, SLOTS * sizeof *best);
        break;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; best[0] != UNSET && i < list->n; i++)
        if (list->threads[i].slot[0] <= best[0])
            list->threads[kept++] = list->threads[i];
    list->n = best[0] != UNSET ? kept : list->n;
}

/* step - replaces the current threads by those that go on after the character at POS, which moves on. */
static void step(regexp *re, struct position *pos)
{
    struct position next = *pos;
    struct thread_list old = re->current;
    advance(&next);
    re->generation++;
    re->next.n = 0;
    for (uint32_t i = 0; i < old.n; i++) {
        struct thread *thread = &old.threads[i];
        if (accepts(re, &re->code[thread->pc], pos->here))
            add_threads(re, &re->next, thread->pc + 1, thread->slot, &next);
    }
    re->current = re->next;
    re->next = old;
    *pos = next;
}

/* find_first - returns the first instruction that is not SAVE: each match begins with it. */
static const struct instruction *find_first(const regexp *re)
{
    const struct instruction *first = re->code;
    while (first->op == SAVE)
        first++;
    return first;
}

/* may_begin - returns false if FIRST, of find_first, excludes that a match begins at POS. */
static bool may_begin(const regexp *re, const struct instruction *first, const struct position *pos)
{
    switch (first->op) {
    case AT_START: return pos->at == 0;
    case CHARACTER:
    case CLASS: return accepts(re, first, pos->here);
    default: return true;
    }
}

/* match_literal - does regexp_find for an expression that is a literal: such a match has no groups. */
static void match_literal(const regexp *re, ckpt_str text, size_t from,
                          struct regexp_group groups[REGEXP_GROUPS])
{
    ckpt_str literal = str_of(re->literal, re->nliteral);
    bool is_at_start = re->is_anchored && !from && str_starts(text, literal);
    memset(groups, 0xFF, REGEXP_GROUPS * sizeof *groups); /* REGEXP_NO_MATCH */
    groups[0].start = is_at_start ? 0 : re->is_anchored ? REGEXP_NO_MATCH : str_find(text, literal, from);
    if (groups[0].start != REGEXP_NO_MATCH)
        groups[0].end = groups[0].start + literal.len;
}

void regexp_begin(regexp *re, ckpt_str text)
{
    uint64_t instructions = re->n < STEPS_PER_BYTE ? STEPS_PER_BYTE : 2 * (uint64_t)re->n;
    re->steps_left = STEPS_PER_TEXT + instructions * (text.len + 1);
}

/* run_threads - does regexp_find for any other expression. */
static ckpt_status run_threads(regexp *re, ckpt_str text, size_t from,
                               struct regexp_group groups[REGEXP_GROUPS], ckpt_error *err)
{
    const struct instruction *first = find_first(re);
    uint32_t best[SLOTS], none[SLOTS];
    size_t before = from, ignored;
    while (before && before + 4 > from && ((unsigned char)text.ptr[before - 1] & 0xC0) == 0x80)
        before--;
    struct position pos = {.text = text, .after = from, .here = UNSET};
    if (from)
        pos.here = decode(text, before ? before - 1 : 0, &ignored);
    memset(best, 0xFF, sizeof best);
    re->current.n = 0;
    re->generation++;
    for (advance(&pos);; step(re, &pos)) {
        if (best[0] == UNSET && may_begin(re, first, &pos)) {
            memset(none, 0xFF, sizeof none);
            add_threads(re, &re->current, 0, none, &pos);
        }
        sort_threads(re, &re->current);
        take_match(re, &re->current, best);
        bool may_go_on = re->current.n || (best[0] == UNSET && first->op != AT_START);
        if (pos.at == text.len || !may_go_on)
            break;
        if (!re->steps_left)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the expression takes too long for a key of %zu bytes", text.len);
    }
    for (size_t i = 0; i < REGEXP_GROUPS; i++) {
        bool is_in = best[2 * i] != UNSET && best[2 * i + 1] < OPEN;
        groups[i].start = is_in ? best[2 * i] : REGEXP_NO_MATCH;
        groups[i].end = is_in ? best[2 * i + 1] : REGEXP_NO_MATCH;
    }
    return CKPT_OK;
}

ckpt_status regexp_find(regexp *re, ckpt_str text, size_t from, struct regexp_group groups[REGEXP_GROUPS],
                        ckpt_error *err)
{
    if (!re->is_literal)
        return run_threads(re, text, from, groups, err);
    match_literal(re, text, from, groups);
    return CKPT_OK;
}
