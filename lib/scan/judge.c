/*
 * judge.c - what the imports and calls of a pickle amount to.
 *
 * Names are harmless by list, never by not being known as bad: a checkpoint
 * needs few (a typical one fewer than fifteen), while millions of callables
 * exist and one that resolves names reopens all. The lists are torch's own
 * (op/weights_only.def) and ours (op/known_names.def), compared as exact
 * pairs of module and name; a name with a dot is on neither, since from
 * protocol 4 on it is followed attribute by attribute.
 *
 * A name alone does not tell all: _codecs.encode looks its second argument up
 * among modules, _rebuild_from_type_v2 calls its first. What else a listed name
 * is given cannot do harm by itself; what it was made from has been judged.
 */
#include "scan/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "core/python2.h"
#include "op/known_names.h"
#include "op/weights_only.h"
#include "scan/judge_numpy.h"
#include "scan/judge_objects.h"

#define NAMES_MAX   ((uint64_t)16 << 20) /* memory for names that were met */
#define ARGS_MAX    ((uint64_t)1 << 20)
#define ARGS_NODES  64u
#define RESULTS     ((uint64_t)1 << 20) /* calls of which it is told whether what they return is used */
#define MEMO_TOLD   1u
#define LEFT_TOLD   2u
#define PERSID_TOLD 4u

struct judge {
    struct scan *s;
    struct scan_pickle p;
    bool telling;
    uint64_t error_offset;
    bool worth; /* something is to be told */
    unsigned told;
    arena *names;
    map *called, *imported; /* names on no list: called somewhere, told as imported */
    map *payloads;          /* constants that are scanned by themselves */
    struct numpy_judge numpy;
    map *results, *dropped; /* calls by their nodes, to their numbers; numbers of those dropped at once */
};

/* -------------------------------------------------------------------- names */

struct pair {
    ckpt_str module, name;
};

/* modern - the pair as Python 3 imports it. */
static struct pair modern(const struct trace_global *g)
{
    if (g->verdict >= 0 && g->python3[0].ptr)
        return (struct pair){g->python3[0], g->python3[1]};
    struct pair p = {g->module, g->name};
    if (g->protocol < 3)
        (void)python2_translate(&p.module, &p.name);
    return p;
}

static ckpt_scan_verdict judge_name(const struct trace_global *g)
{
    struct pair p = modern(g);
    return g->literal ? name_verdict(p.module, p.name) : CKPT_SCAN_UNRESOLVED;
}

/* verdict_of - of a global, asked once. */
static ckpt_scan_verdict verdict_of(const struct trace_global *g)
{
    struct trace_global *cache = (struct trace_global *)(uintptr_t)g; /* its verdict is ours */
    if (cache->verdict < 0) {
        struct pair p = modern(g);
        cache->verdict = (int32_t)judge_name(g);
        cache->python3[0] = p.module;
        cache->python3[1] = p.name;
    }
    return (ckpt_scan_verdict)cache->verdict;
}

static const ckpt_scan_rule *rule_for(ckpt_scan_verdict v)
{
    switch (v) {
    case CKPT_SCAN_UNKNOWN_CALLABLE: return scan_rule(SCAN_PKL001);
    case CKPT_SCAN_UNRESOLVED: return scan_rule(SCAN_PKL003);
    case CKPT_SCAN_KNOWN_EXEC: return scan_rule(SCAN_PKL002);
    default: return NULL;
    }
}

/* key - "module\nname" in the arena; .ptr NULL: its ceiling is reached, which only costs a line more,
 * or out of memory, which is kept. */
static ckpt_str key_of(struct judge *j, const struct trace_global *g)
{
    ckpt_str key = arena_printf(j->names, "%.*s\n%.*s", (int)g->module.len, g->module.ptr, (int)g->name.len,
                                g->name.ptr);
    if (!key.ptr && !arena_full(j->names))
        (void)scan_failed(j->s, CKPT_ENOMEM, NULL);
    return key;
}

/* met - was G put into M before? Puts it there. */
static bool met(struct judge *j, map *m, const struct trace_global *g)
{
    uint32_t old = MAP_NONE;
    ckpt_str key = key_of(j, g);
    if (key.ptr && !map_put(m, key, 1, &old))
        (void)scan_failed(j->s, CKPT_ENOMEM, NULL);
    return old != MAP_NONE;
}

/* ------------------------------------------------------------------- calls */

static trace_ref item(trace_ref tuple, uint32_t i)
{
    const struct trace_node *n = trace_node(tuple);
    return n && n->kind == TRACE_TUPLE && i < n->kept ? n->items[i] : 0;
}

/* shown - R as nodes of A; NULL: there is nothing, or a lack of memory or disk, which is kept. */
static ckpt_value *shown(struct scan *to, const struct trace_step *s, trace_ref r, arena *a, size_t nodes)
{
    ckpt_error why;
    ckpt_value *v = a && r ? s->t->value(s->t, r, a, nodes, &why) : NULL;
    if (r && !v)
        (void)scan_failed(to, a ? why.status : CKPT_ENOMEM, a ? &why : NULL);
    return v;
}

/* text_is - is R the constant text WANT? */
static bool text_is(struct scan *to, const struct trace_step *s, trace_ref r, const char *want)
{
    if (!r || trace_node(r))
        return false;
    arena *a = arena_new(ARGS_MAX);
    ckpt_value *v = shown(to, s, r, a, 1);
    ckpt_str text;
    bool same = v && value_text(v, &text) && str_is(text, want);
    arena_free(a);
    return same;
}

static bool loads_bytes(const struct trace_global *g)
{
    return str_is(g->module, "torch.storage") && str_is(g->name, "_load_from_bytes");
}

/* opened - is R a constant that is scanned by itself, as it is or by latin1? */
static bool opened(const struct judge *j, trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    if (n && n->kind == TRACE_CALL && n->kept > 1) {
        const struct trace_global *g = trace_global(n->items[0]);
        r = g && str_is(g->module, "_codecs") && str_is(g->name, "encode") ? item(n->items[1], 0) : 0;
    }
    return r && map_get_num(j->payloads, r) != MAP_NONE;
}

/* unusual - what speaks against these arguments of a listed callable; NULL: nothing. */
static const char *unusual(struct scan *to, const struct trace_step *s, const struct trace_global *g,
                           trace_ref args)
{
    const struct trace_node *n = trace_node(args);
    struct pair p = modern(g);
    if (!n || (n->kind >= TRACE_LIST && n->kind <= TRACE_FROZENSET))
        return "its arguments are no tuple; pickle.py takes them, and joblib loads by it";
    if (n->kind != TRACE_TUPLE)
        return "its arguments are computed while loading";
    if (str_is(p.module, "_codecs") && n->n > 1 && !text_is(to, s, item(args, 1), "latin1") &&
        !text_is(to, s, item(args, 1), "latin-1"))
        return "only the latin1 codec is used by pickles";
    return NULL;
}

#define NESTED 16u /* _rebuild_from_type_v2 of itself; torch has one */

/* unusual_all - the same, of what it calls in turn, too. */
static const char *unusual_all(struct scan *to, const struct trace_step *s, const struct trace_global *g,
                               trace_ref args)
{
    const char *why = unusual(to, s, g, args);
    for (unsigned i = 0; !why && str_is(g->name, "_rebuild_from_type_v2"); i++) {
        g = trace_global(item(args, 0));
        if (!g || verdict_of(g) != CKPT_SCAN_ALLOW_LISTED || i == NESTED)
            return "it calls its first argument, which is on no list";
        args = item(args, 2);
        why = unusual(to, s, g, args);
    }
    return why;
}

/* describe - fills in names, arguments and torch's view of a call. */
static void describe(const struct judge *j, const struct trace_step *s, const struct trace_global *g,
                     trace_ref args, arena *a, ckpt_scan_record *r)
{
    r->where = j->p.where;
    r->offset = s->offset;
    r->file_offset = source_pos(j->p.src, s->offset);
    r->opcode = s->opname;
    r->error_offset = j->error_offset;
    r->framed = j->p.framed;
    r->plain = j->p.plain;
    r->weights_only = 0;
    if (g) {
        struct pair p = modern(g);
        r->module = g->module;
        r->name = g->name;
        r->new_module = p.module;
        r->new_name = p.name;
        bool op = s->opcode == 'R' || s->opcode == 0x81 || s->opcode == 'c';
        r->weights_only = op && g->literal && weights_only_lists(g->module, g->name);
    }
    r->args = shown(j->s, s, args, a, ARGS_NODES);
}

static bool tell_call(struct judge *j, const struct trace_step *s, const struct trace_global *g,
                      trace_ref args, ckpt_scan_verdict verdict, const ckpt_scan_rule *rule, const char *why)
{
    arena *a = arena_new(ARGS_MAX);
    ckpt_scan_record r = {.what = CKPT_SCAN_CALL, .rule = rule, .verdict = verdict, .call = s->number};
    describe(j, s, g, args, a, &r);
    r.result_used = j->s->opts->all_calls && s->number < RESULTS
                        ? map_get_num(j->dropped, s->number) == MAP_NONE
                        : -1;
    if (why)
        r.text = str_c(why);
    bool go = scan_record(j->s, &r);
    arena_free(a);
    return go;
}

/* called - the name behind what is called: a global, or the class of a module that torch's
 * legacy format keeps with its source, ('module', class, file, source). */
static const struct trace_global *called(struct scan *to, const struct trace_step *s, trace_ref callable)
{
    const struct trace_node *n = trace_node(callable);
    trace_ref id = n && n->kind == TRACE_PERSID && n->kept ? n->items[0] : 0;
    return id && text_is(to, s, item(id, 0), "module") ? trace_global(item(id, 1)) : trace_global(callable);
}

/* of_numbers - *WHY: what speaks against an array of numpy that the call of G makes. False: it cannot be
 * read. */
static bool of_numbers(struct judge *j, const struct trace_step *s, const struct trace_global *g,
                       const char **why)
{
    struct pair p = modern(g);
    ckpt_status st = numpy_call(&j->numpy, s, p.module, p.name, why);
    return st == CKPT_OK || !scan_failed(j->s, st, &j->numpy.err);
}

static bool call(struct judge *j, const struct trace_step *s)
{
    const struct trace_node *c = trace_node(s->subject);
    const struct trace_global *g = called(j->s, s, c->items[0]);
    trace_ref args = c->kept > 1 ? c->items[1] : 0;
    ckpt_scan_verdict v = g ? verdict_of(g) : CKPT_SCAN_UNRESOLVED;
    /* torch.storage._load_from_bytes runs a stream that stands right here and is judged too. */
    if (g && loads_bytes(g) && opened(j, item(args, 0)))
        v = CKPT_SCAN_ALLOW_LISTED;
    const char *why = g ? NULL : "calls what another call returned, or what is not in the file";
    const ckpt_scan_rule *rule = rule_for(v);
    if (v == CKPT_SCAN_ALLOW_LISTED && (why = unusual_all(j->s, s, g, args)) != NULL)
        rule = scan_rule(SCAN_PKL005);
    else if (v == CKPT_SCAN_ALLOW_LISTED && !of_numbers(j, s, g, &why))
        return false;
    else if (why && g)
        rule = scan_rule(SCAN_PKL014);
    v = rule && v == CKPT_SCAN_ALLOW_LISTED ? rule->verdict : v;
    if (!j->telling) {
        j->worth = j->worth || rule;
        if (j->s->opts->all_calls && s->number < RESULTS &&
            !map_set_num(j->results, s->subject, (uint32_t)s->number))
            return !scan_failed(j->s, CKPT_ENOMEM, NULL);
        if (rule && g)
            (void)met(j, j->called, g);
        return true;
    }
    if (!rule && !j->s->opts->all_calls)
        return true;
    return tell_call(j, s, g, args, v, rule, why);
}

static bool import(struct judge *j, const struct trace_step *s)
{
    const struct trace_global *g = trace_global(s->subject);
    ckpt_scan_verdict v = verdict_of(g);
    if (v > j->s->result->verdict && v == CKPT_SCAN_ALLOW_LISTED)
        j->s->result->verdict = v;
    if (v == CKPT_SCAN_ALLOW_LISTED || loads_bytes(g))
        return true; /* of the latter, calls and held() tell */
    if (!j->telling) {
        j->worth = true;
        return true;
    }
    ckpt_str key = key_of(j, g);
    if ((key.ptr && map_get(j->called, key) != MAP_NONE) || met(j, j->imported, g))
        return true; /* the call says it all, or it was said */
    ckpt_scan_record r = {.what = CKPT_SCAN_FINDING, .rule = rule_for(v), .verdict = v};
    describe(j, s, g, 0, NULL, &r);
    r.text = g->literal ? STR_LIT("imported, and not called here")
                        : STR_LIT("module and name are computed while loading");
    return scan_record(j->s, &r);
}

/* ------------------------------------------------------------- all the rest */

/* finding - RULE at the step, in words, with the name of G (may be NULL). */
static bool finding(struct judge *j, const struct trace_step *s, enum scan_rule rule,
                    const struct trace_global *g, trace_ref args, const char *text)
{
    if (!j->telling) {
        j->worth = true;
        return true;
    }
    arena *a = arena_new(ARGS_MAX);
    ckpt_scan_record r = {.what = CKPT_SCAN_FINDING, .rule = scan_rule(rule)};
    describe(j, s, g, args, a, &r);
    r.weights_only = -1;
    r.text = str_c(text);
    bool go = scan_record(j->s, &r);
    arena_free(a);
    return go;
}

/* held - of what loads bytes and is not simply called: who has it may call it with any. */
static bool held(struct judge *j, const struct trace_step *s)
{
    const struct trace_global *g = trace_global(s->subject);
    return !loads_bytes(g) ||
           finding(j, s, SCAN_PKL002, g, 0, "kept in a value, from where it may be called with any bytes");
}

static bool once(struct judge *j, const struct trace_step *s, unsigned flag, enum scan_rule rule,
                 const char *text)
{
    if (j->told & flag)
        return true;
    j->told |= flag;
    return finding(j, s, rule, NULL, 0, text);
}

/* change - BUILD, APPEND … on something that is no plain container. What a listed call made may be filled
 * as its writers do; an import belongs to the program that loads. */
static bool change(struct judge *j, const struct trace_step *s)
{
    const struct trace_node *n = trace_node(s->subject);
    const struct trace_global *g = trace_global(s->subject);
    if (g)
        return finding(j, s, SCAN_PKL004, g, s->with,
                       "writes to it: every later user of the module is affected");
    if (n && (n->kind == TRACE_OPAQUE || n->kind == TRACE_PERSID))
        return finding(j, s, SCAN_PKL004, NULL, s->with, "changes an object that is not in the file");
    g = n && n->kind == TRACE_CALL ? called(j->s, s, n->items[0]) : NULL;
    if (n && n->n > 3) /* callable, arguments, keywords: no pickler changes what has got its state */
        return finding(j, s, SCAN_PKL003, g, s->with,
                       "changes it once more after BUILD: that may call what its state holds");
    if (!g || verdict_of(g) != CKPT_SCAN_ALLOW_LISTED)
        return true; /* the call is a finding */
    struct pair p = modern(g);
    const char *why = object_change(s, n, p.module, p.name), *odd;
    ckpt_status st = numpy_change(&j->numpy, s, p.module, p.name, &odd);
    if (st != CKPT_OK)
        return !scan_failed(j->s, st, &j->numpy.err);
    return (!why || finding(j, s, SCAN_PKL003, g, s->with, why)) &&
           (!odd || j->p.plain || finding(j, s, SCAN_PKL014, g, s->with, odd)); /* reported once */
}

/* names_tensor - is the constant R an id of torch? A number or digits, of 0.1; of protocol 0, which knows
 * ids of one line alone, how Python shows ('storage', …). What cannot be read is kept, and is one. */
static bool names_tensor(struct scan *to, const struct trace_step *s, trace_ref r)
{
    arena *a = arena_new(ARGS_MAX);
    ckpt_value *v = shown(to, s, r, a, 1);
    bool text = v && (v->type == CKPT_V_STR || v->type == CKPT_V_STR8 || v->type == CKPT_V_BYTES);
    bool number = !v || v->type == CKPT_V_INT || v->type == CKPT_V_BIGINT || (text && v->u.str.len > 0);
    for (size_t i = 0; text && i < v->u.str.len; i++)
        number = number && v->u.str.ptr[i] >= '0' && v->u.str.ptr[i] <= '9';
    if (text && s->opcode == 'P')
        number = number || str_starts(v->u.str, STR_LIT("('storage', "));
    arena_free(a);
    return number;
}

/* persid - torch's ids: ('storage', …), ('module', …), numbers. */
static bool persid(struct judge *j, const struct trace_step *s)
{
    const struct trace_node *n = trace_node(s->subject);
    trace_ref first = item(s->subject, 0);
    if ((!n && names_tensor(j->s, s, s->subject)) || (n && n->kind == TRACE_TUPLE && n->n == 0))
        return true;
    if (first && (text_is(j->s, s, first, "storage") || text_is(j->s, s, first, "module")))
        return true;
    return once(j, s, PERSID_TOLD, SCAN_PKL012, "a persistent id that is no (\"storage\", …)");
}

/* drop - the result of a call goes, unused: what is weighed first is known when it is told. */
static bool drop(struct judge *j, const struct trace_step *s)
{
    uint32_t number = j->telling ? MAP_NONE : map_get_num(j->results, s->subject);
    return number == MAP_NONE || map_set_num(j->dropped, number, 1) || !scan_failed(j->s, CKPT_ENOMEM, NULL);
}

static bool step(void *user, const struct trace_step *s)
{
    struct judge *j = user;
    switch (s->what) {
    case TRACE_STEP_IMPORT: return import(j, s);
    case TRACE_STEP_CALL: return call(j, s);
    case TRACE_STEP_CHANGE: return change(j, s);
    case TRACE_STEP_PERSID: return persid(j, s);
    case TRACE_STEP_EXTENSION:
        return finding(j, s, SCAN_PKL003, NULL, 0,
                       "an extension code: a name in a registry of the loading program");
    case TRACE_STEP_BUFFER:
        return finding(j, s, SCAN_PKL013, NULL, 0,
                       "uses out-of-band buffers (protocol 5), which are not in the file");
    case TRACE_STEP_MEMO:
        return j->p.plain ||
               once(j, s, MEMO_TOLD, SCAN_PKL008, "a memo entry is put again with another value");
    case TRACE_STEP_LEFT:
        return j->p.plain || once(j, s, LEFT_TOLD, SCAN_PKL009, "values or marks are left on the stack");
    case TRACE_STEP_FRAME:
        return finding(j, s, SCAN_PKL007, NULL, 0,
                       "goes beyond the end of a frame: some loaders refuse it, some read other opcodes");
    case TRACE_STEP_DROP: return drop(j, s);
    case TRACE_STEP_HELD: return held(j, s);
    case TRACE_STEP_PAYLOAD: /* what torch.save makes of a storage is followed as torch.load does */
        return !scan_torch_stream(s->payload->head, s->payload->nhead) ||
               map_put_num(j->payloads, s->subject, 1, NULL) || !scan_failed(j->s, CKPT_ENOMEM, NULL);
    }
    return true;
}

static bool suspect(const struct trace_global *g) { return judge_name(g) == CKPT_SCAN_KNOWN_EXEC; }

static void forget(struct judge *j)
{
    map_free(j->called);
    map_free(j->imported);
    map_free(j->payloads);
    map_free(j->results);
    map_free(j->dropped);
    arena_free(j->names);
    j->called = j->imported = j->payloads = j->results = j->dropped = NULL;
    j->names = NULL;
}

static ckpt_status begin(void *user, const struct scan_pickle *p, bool tell, uint64_t error_offset)
{
    struct judge *j = user;
    j->p = *p;
    j->telling = tell;
    j->error_offset = error_offset;
    j->told = 0;
    j->numpy.dtype = NULL;
    if (tell)
        return CKPT_OK;
    forget(j);
    j->worth = false;
    j->called = map_new(0);
    j->imported = map_new(0);
    j->payloads = map_new(0);
    j->results = map_new(0);
    j->dropped = map_new(0);
    j->names = arena_new(NAMES_MAX);
    return j->called && j->imported && j->payloads && j->results && j->dropped && j->names ? CKPT_OK
                                                                                           : CKPT_ENOMEM;
}

static bool end(void *user, const struct trace_end *e)
{
    struct judge *j = user;
    if (!j->telling && !j->p.framed && !j->p.plain)
        j->s->result->calls += e->calls;
    return j->worth || (j->s->opts->all_calls && e->calls && !j->p.plain);
}

ckpt_status judge_new(struct scan *s, struct judge **out, ckpt_error *err)
{
    struct judge *j = calloc(1, sizeof *j);
    if (!j)
        return fail_memory(err);
    j->s = s;
    s->step = step;
    s->begin = begin;
    s->end = end;
    s->suspect = suspect;
    s->judge = j;
    *out = j;
    return CKPT_OK;
}

void judge_free(struct judge *j)
{
    if (!j)
        return;
    forget(j);
    free(j);
}
