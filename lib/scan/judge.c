/*
 * judge.c - judges the imports and calls of a pickle for `ckpt scan`.
 *
 * A name is harmless only if it is listed as harmless. A checkpoint needs few names (typically fewer than
 * fifteen), while there are millions of callables, and one that resolves names gives access to all others.
 * The lists, torch's (op/weights_only.def) and ckpt's (op/known_names.def), hold exact pairs of module and
 * name. No name in them has a dot, because loaders resolve such names attribute by attribute from protocol 4
 * on.
 *
 * For some listed names the arguments matter, too: _codecs.encode imports the codec that its second argument
 * names, _rebuild_from_type_v2 calls its first argument; for numpy's see judge_numpy.c. Arguments of other
 * listed names can do no harm: if they were made by calls, these calls were judged.
 */
#include "scan/judge.h"

#include <stdlib.h>

#include "core/python2.h"
#include "format/recognize.h"
#include "op/weights_only.h"

#define NEWOBJ          0x81u
#define NAMES_MEMORY    ((uint64_t)16 << 20) /* bytes */
#define ARGS_MEMORY     ((uint64_t)1 << 20)  /* bytes, for the arguments of one call */
#define ARGS_NODES      64u
#define RESULTS_MAX     ((uint64_t)1 << 20) /* calls for which the scan records whether the result is used */
#define REPORTED_MEMO   1u                  /* a memo entry is put again */
#define REPORTED_STACK  2u                  /* values are left on the stack */
#define REPORTED_PERSID 4u                  /* an unusual persistent id */

struct judge {
    struct scan *scan;
    struct scan_pickle pickle;
    bool reporting;        /* in the second pass */
    uint64_t error_offset; /* where the first pass failed, or CKPT_NO_OFFSET */
    bool needs_report;     /* the first pass found something to report */
    unsigned reported;     /* flags REPORTED_…: findings that are reported once for a pickle */
    arena *names;
    map *called;   /* names with a call that is a finding */
    map *imported; /* names whose import was reported */
    map *payloads; /* constants that are scanned as files of their own */
    struct numpy_judge numpy;
    map *results;         /* trace_ref of a result -> number of its call */
    map *dropped_results; /* the numbers of calls whose result is popped unused */
};

/* -------------------------------------------------------------------- names */

struct full_name {
    ckpt_str module, name;
};

/* get_python3_name - returns module and name of GLOBAL as Python 3 imports them. */
static struct full_name get_python3_name(const struct trace_global *global)
{
    if (global->verdict >= 0 && global->python3[0].ptr)
        return (struct full_name){global->python3[0], global->python3[1]};
    struct full_name python3 = {global->module, global->name};
    if (global->protocol < 3)
        (void)python2_translate(&python3.module, &python3.name);
    return python3;
}

/* is_torch_script_class - returns true if CLASS is one of the TorchScript archive that is being scanned: its
 * code is in the archive, which is a finding, and Python does not load it by its name. */
static bool is_torch_script_class(const struct scan *scan, struct full_name class)
{
    return scan->archive_has_code && class.name.len && !str_has(class.name, STR_LIT(".")) &&
           (str_is(class.module, "__torch__") || str_starts(class.module, STR_LIT("__torch__.")));
}

static ckpt_scan_verdict judge_name(const struct scan *scan, const struct trace_global *global)
{
    struct full_name python3 = get_python3_name(global);
    if (!global->has_constant_name)
        return CKPT_SCAN_UNRESOLVED;
    return is_torch_script_class(scan, python3) ? CKPT_SCAN_ALLOW_LISTED
                                                : name_verdict(python3.module, python3.name);
}

/* get_verdict - returns judge_name of GLOBAL, which is computed once and kept in GLOBAL. */
static ckpt_scan_verdict get_verdict(const struct scan *scan, const struct trace_global *global)
{
    struct trace_global *cache =
        (struct trace_global *)(uintptr_t)global; /* only the judge uses its verdict */
    if (cache->verdict < 0) {
        struct full_name python3 = get_python3_name(global);
        cache->verdict = (int32_t)judge_name(scan, global);
        cache->python3[0] = python3.module;
        cache->python3[1] = python3.name;
    }
    return (ckpt_scan_verdict)cache->verdict;
}

/* get_broken_rule - returns the rule that a name of verdict VERDICT breaks; NULL: none. */
static const ckpt_scan_rule *get_broken_rule(ckpt_scan_verdict verdict)
{
    switch (verdict) {
    case CKPT_SCAN_UNKNOWN_CALLABLE: return scan_rule(SCAN_UNKNOWN_CALLABLE);
    case CKPT_SCAN_UNRESOLVED: return scan_rule(SCAN_UNRESOLVED_CALLABLE);
    case CKPT_SCAN_KNOWN_EXEC: return scan_rule(SCAN_KNOWN_EXEC);
    default: return NULL;
    }
}

/* make_name_key - returns "module\nname" of GLOBAL in the arena. .ptr NULL: the arena is full, which at worst
 * repeats a line of the report, or memory ran out, which is noted for the end of the scan. */
static ckpt_str make_name_key(struct judge *judge, const struct trace_global *global)
{
    ckpt_str key = ARENA_CONCAT(judge->names, global->module, STR_LIT("\n"), global->name);
    if (!key.ptr && !arena_full(judge->names))
        (void)scan_note_system_failure(judge->scan, CKPT_ENOMEM, NULL);
    return key;
}

/* add_seen - adds GLOBAL to SEEN. Returns true if GLOBAL was in it already. */
static bool add_seen(struct judge *judge, map *seen, const struct trace_global *global)
{
    uint32_t earlier = MAP_NONE;
    ckpt_str key = make_name_key(judge, global);
    if (key.ptr && !map_put(seen, key, 1, &earlier))
        (void)scan_note_system_failure(judge->scan, CKPT_ENOMEM, NULL);
    return earlier != MAP_NONE;
}

/* ------------------------------------------------------------------- calls */

/* get_tuple_item - returns item INDEX of TUPLE; 0: it is no tuple, or has no such item. */
static trace_ref get_tuple_item(trace_ref tuple, uint32_t index)
{
    const struct trace_node *n = trace_node(tuple);
    return n && n->kind == TRACE_TUPLE && index < n->nkept ? n->items[index] : 0;
}

/* read_value - returns REF as up to NODES nodes in A. NULL: REF is 0, or there was a system failure. */
static ckpt_value *read_value(struct scan *scan, const struct trace_step *step, trace_ref ref, arena *a,
                              size_t nodes)
{
    ckpt_error why;
    ckpt_value *v = a && ref ? step->t->value(step->t, ref, a, nodes, &why) : NULL;
    if (ref && !v)
        (void)scan_note_system_failure(scan, a ? why.status : CKPT_ENOMEM, a ? &why : NULL);
    return v;
}

/* is_text - returns true if REF is a constant with the text EXPECTED. */
static bool is_text(struct scan *scan, const struct trace_step *step, trace_ref ref, const char *expected)
{
    if (!ref || trace_node(ref))
        return false;
    arena *a = arena_new(ARGS_MEMORY);
    ckpt_value *v = read_value(scan, step, ref, a, 1);
    ckpt_str text;
    bool matches = v && value_text(v, &text) && str_is(text, expected);
    arena_free(a);
    return matches;
}

static bool loads_bytes(const struct trace_global *global)
{
    return str_is(global->module, "torch.storage") && str_is(global->name, "_load_from_bytes");
}

/* is_scanned_payload - returns true if REF is scanned as a file, directly or through _codecs.encode. */
static bool is_scanned_payload(const struct judge *judge, trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    if (n && n->kind == TRACE_CALL && n->nkept > 1) {
        const struct trace_global *g = trace_global(n->items[0]);
        ref = g && str_is(g->module, "_codecs") && str_is(g->name, "encode") ? get_tuple_item(n->items[1], 0)
                                                                             : 0;
    }
    return ref && map_get_num(judge->payloads, ref) != MAP_NONE;
}

/* makes_known_object - returns true if ARGS are those of _reconstructor as protocols 0 and 1 have it: (class,
 * object, None), with a class that is on the lists. */
static bool makes_known_object(const struct scan *scan, const struct trace_node *args)
{
    const struct trace_global *class = args->nkept == 3 ? trace_global(args->items[0]) : NULL,
                              *base = args->nkept == 3 ? trace_global(args->items[1]) : NULL;
    if (!class || !base || args->nitems != 3 || get_verdict(scan, class) != CKPT_SCAN_ALLOW_LISTED)
        return false;
    struct full_name class_name = get_python3_name(class), base_name = get_python3_name(base);
    return name_use(class_name.module, class_name.name) != NAME_VALUE &&
           str_is(base_name.module, "builtins") && str_is(base_name.name, "object") &&
           !trace_node(args->items[2]);
}

/* is_array - returns true if REF is what a function of numpy returns. */
static bool is_array(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    bool is_call = n && n->kind == TRACE_CALL && n->nkept;
    const struct trace_global *g = is_call ? trace_global(n->items[0]) : NULL;
    return g && str_starts(g->module, STR_LIT("numpy"));
}

/* holds_unusual_pairs - returns true if an item of REF, of which a mapping is made, is an array, a mapping or
 * a set, and not a pair. */
static bool holds_unusual_pairs(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    for (uint32_t i = 0; n && n->kind >= TRACE_TUPLE && n->kind != TRACE_DICT && i < n->nkept; i++) {
        const struct trace_node *item = trace_node(n->items[i]);
        if (is_array(n->items[i]) || (item && item->kind >= TRACE_DICT))
            return true;
    }
    return false;
}

/* is_made_of_array - returns true if the container NAME, called with ARGS, takes its items from an array, or
 * keys and values from what is no pair: a search for a key does not find it there. */
static bool is_made_of_array(struct full_name name, const struct trace_node *args)
{
    bool is_mapping = (str_is(name.module, "builtins") && str_is(name.name, "dict")) ||
                      (str_is(name.module, "collections") &&
                       str_matches_word(name.name, "OrderedDict defaultdict Counter", str_eq));
    bool is_sequence = (str_is(name.module, "builtins") &&
                        str_matches_word(name.name, "list tuple frozenset", str_eq)) ||
                       (str_is(name.module, "collections") && str_is(name.name, "deque"));
    for (uint32_t i = 0; (is_mapping || is_sequence) && i < args->nkept; i++)
        if (is_array(args->items[i]) || (is_mapping && holds_unusual_pairs(args->items[i])))
            return true;
    return false;
}

/* find_unusual_arguments - returns what is unusual about ARGS for the allow-listed GLOBAL; NULL: nothing. */
static const char *find_unusual_arguments(struct scan *scan, const struct trace_step *step,
                                          const struct trace_global *global, trace_ref args)
{
    const struct trace_node *n = trace_node(args);
    struct full_name python3 = get_python3_name(global);
    if (!n || (n->kind >= TRACE_LIST && n->kind <= TRACE_FROZENSET))
        return "its arguments are not a tuple: only pickle.py and joblib accept that";
    if (n->kind != TRACE_TUPLE)
        return "its arguments are computed while loading";
    switch (name_use(python3.module, python3.name)) {
    case NAME_VALUE: return "it is harmless to keep, but no pickler calls it";
    case NAME_NEW:
        if (step->opcode != NEWOBJ || n->nitems)
            return "picklers make it by NEWOBJ, without arguments and a call of its constructor";
        break;
    case NAME_CONSTANT:
        if (n->nitems != 1 || trace_node(get_tuple_item(args, 0)))
            return "picklers call it with one constant";
        break;
    default: break;
    }
    if (str_is(python3.module, "copyreg") && !makes_known_object(scan, n))
        return "it makes an object of a class that is on no list, or not as picklers do";
    if (str_is(python3.module, "_codecs") && n->nitems > 1 &&
        !is_text(scan, step, get_tuple_item(args, 1), "latin1") &&
        !is_text(scan, step, get_tuple_item(args, 1), "latin-1"))
        return "only the latin1 codec is used by pickles";
    if (str_is(python3.module, "torch.jit._pickle") && str_is(python3.name, "restore_type_tag") &&
        !trace_node(get_tuple_item(args, 0)))
        return "torch calls it with a list or mapping";
    return is_made_of_array(python3, n)
               ? "picklers make a container of pairs, a list or a mapping, not of an array"
               : NULL;
}

#define NESTED_MAX 16u /* calls of _rebuild_from_type_v2 within each other; torch nests none */

/* check_call_arguments - returns what is unusual about ARGS for GLOBAL; NULL: nothing. If GLOBAL is
 * _rebuild_from_type_v2, which calls its first argument, checks that call, too. */
static const char *check_call_arguments(struct scan *scan, const struct trace_step *step,
                                        const struct trace_global *global, trace_ref args)
{
    const char *why = find_unusual_arguments(scan, step, global, args);
    for (unsigned i = 0; !why && str_is(global->name, "_rebuild_from_type_v2"); i++) {
        global = trace_global(get_tuple_item(args, 0));
        if (!global || get_verdict(scan, global) != CKPT_SCAN_ALLOW_LISTED || i == NESTED_MAX)
            return "it calls its first argument, which is on no list";
        args = get_tuple_item(args, 2);
        why = find_unusual_arguments(scan, step, global, args);
        if (!why && str_starts(global->module, STR_LIT("numpy")))
            why = "it makes an array of numpy, which torch does not do this way";
    }
    return why;
}

/* describe_step - fills RECORD with the place, names and arguments of the step, and weights_only's
 * verdict. */
static void describe_step(const struct judge *judge, const struct trace_step *step,
                          const struct trace_global *global, trace_ref args, arena *a,
                          ckpt_scan_record *record)
{
    record->where = judge->pickle.where;
    record->offset = step->offset;
    record->file_offset = source_pos(judge->pickle.src, step->offset);
    record->opcode = step->opname;
    record->error_offset = judge->error_offset;
    record->framed = judge->pickle.by_frame;
    record->plain = judge->pickle.arrays_as_opcodes;
    record->weights_only = 0;
    if (global) {
        struct full_name python3 = get_python3_name(global);
        record->module = global->module;
        record->name = global->name;
        record->new_module = python3.module;
        record->new_name = python3.name;
        /* REDUCE, NEWOBJ, GLOBAL */
        bool accepted_opcode = step->opcode == 'R' || step->opcode == NEWOBJ || step->opcode == 'c';
        record->weights_only = accepted_opcode && global->has_constant_name &&
                               weights_only_allows(global->module, global->name);
    }
    record->args = read_value(judge->scan, step, args, a, ARGS_NODES);
}

static bool report_call(struct judge *judge, const struct trace_step *step, const struct trace_global *global,
                        trace_ref args, ckpt_scan_verdict verdict, const ckpt_scan_rule *rule,
                        const char *why)
{
    arena *a = arena_new(ARGS_MEMORY);
    ckpt_scan_record r = {.what = CKPT_SCAN_CALL, .rule = rule, .verdict = verdict, .call = step->number};
    describe_step(judge, step, global, args, a, &r);
    r.result_used = judge->scan->opts->all_calls && step->number < RESULTS_MAX
                        ? map_get_num(judge->dropped_results, step->number) == MAP_NONE
                        : -1;
    if (why)
        r.text = str_c(why);
    bool continues = scan_report_record(judge->scan, &r);
    arena_free(a);
    return continues;
}

/* find_called_name - returns the global that CALLABLE is, or the class in a persistent id of torch's legacy
 * format, ('module', class, file, source); NULL: neither. */
static const struct trace_global *find_called_name(struct scan *scan, const struct trace_step *step,
                                                   trace_ref callable)
{
    const struct trace_node *n = trace_node(callable);
    trace_ref id = n && n->kind == TRACE_PERSID && n->nkept ? n->items[0] : 0;
    return id && is_text(scan, step, get_tuple_item(id, 0), "module") ? trace_global(get_tuple_item(id, 1))
                                                                      : trace_global(callable);
}

/* check_numpy_call - sets *WHY to what is dangerous about the numpy array that the call of GLOBAL makes;
 * NULL: nothing. False: memory or disk failed. */
static bool check_numpy_call(struct judge *judge, const struct trace_step *step,
                             const struct trace_global *global, const char **why)
{
    struct full_name python3 = get_python3_name(global);
    ckpt_status st = numpy_judge_call(&judge->numpy, step, python3.module, python3.name, why);
    return st == CKPT_OK || !scan_note_system_failure(judge->scan, st, &judge->numpy.err);
}

static bool judge_call(struct judge *judge, const struct trace_step *step)
{
    const struct trace_node *call = trace_node(step->subject);
    const struct trace_global *g = find_called_name(judge->scan, step, call->items[0]);
    trace_ref args = call->nkept > 1 ? call->items[1] : 0;
    ckpt_scan_verdict verdict = g ? get_verdict(judge->scan, g) : CKPT_SCAN_UNRESOLVED;
    /* torch.storage._load_from_bytes loads a stream that is in this file and is judged as well. */
    if (g && loads_bytes(g) && is_scanned_payload(judge, get_tuple_item(args, 0)))
        verdict = CKPT_SCAN_ALLOW_LISTED;
    const char *why = g ? NULL : "calls what another call returned, or what is not in the file";
    const ckpt_scan_rule *rule = get_broken_rule(verdict);
    if (verdict == CKPT_SCAN_ALLOW_LISTED) {
        const char *numpy_why = NULL;
        why = check_call_arguments(judge->scan, step, g, args);
        if (!why && !check_numpy_call(judge, step, g, &numpy_why))
            return false;
        rule = why ? scan_rule(SCAN_UNUSUAL_ARGUMENTS) : numpy_why ? scan_rule(SCAN_NUMPY_OBJECTS) : NULL;
        why = why ? why : numpy_why;
        verdict = rule ? rule->verdict : verdict;
    }
    if (!judge->reporting) {
        judge->needs_report = judge->needs_report || rule;
        if (judge->scan->opts->all_calls && step->number < RESULTS_MAX &&
            !map_set_num(judge->results, step->subject, (uint32_t)step->number))
            return !scan_note_system_failure(judge->scan, CKPT_ENOMEM, NULL);
        if (rule && g)
            (void)add_seen(judge, judge->called, g);
        return true;
    }
    if (!rule && !judge->scan->opts->all_calls)
        return true;
    return report_call(judge, step, g, args, verdict, rule, why);
}

static bool judge_import(struct judge *judge, const struct trace_step *step)
{
    const struct trace_global *g = trace_global(step->subject);
    ckpt_scan_verdict v = get_verdict(judge->scan, g);
    if (v > judge->scan->result->verdict && v == CKPT_SCAN_ALLOW_LISTED)
        judge->scan->result->verdict = v;
    if (v == CKPT_SCAN_ALLOW_LISTED || loads_bytes(g))
        return true; /* judge_call() and judge_stored_global() report uses of _load_from_bytes */
    if (!judge->reporting) {
        judge->needs_report = true;
        return true;
    }
    ckpt_str key = make_name_key(judge, g);
    if ((key.ptr && map_get(judge->called, key) != MAP_NONE) || add_seen(judge, judge->imported, g))
        return true; /* the call will be reported, or the import was */
    ckpt_scan_record r = {.what = CKPT_SCAN_FINDING, .rule = get_broken_rule(v), .verdict = v};
    describe_step(judge, step, g, 0, NULL, &r);
    r.text = g->has_constant_name ? STR_LIT("imported, and not called here")
                                  : STR_LIT("module and name are computed while loading");
    return scan_report_record(judge->scan, &r);
}

/* ----------------------------------------------------------------- changes
 * BUILD calls __setstate__, APPEND and APPENDS call append and extend, ADDITEMS calls add. Loaders look these
 * methods up in the object: a file that sets the object's attributes (by BUILD or as arguments) can choose
 * the function that is called. Picklers write the items of an object before its state, the state once, and
 * items only for a type that has items. */

#define ADDITEMS "\x90"

/* The opcodes, besides one BUILD, that may change the result of a call: APPEND a, APPENDS e, SETITEM s,
 * SETITEMS u, ADDITEMS. */
static const struct {
    const char *module, *name, *opcodes;
} fillable[] = {
    {"builtins", "bytearray", "aesu"},    {"builtins", "dict", "su"},
    {"builtins", "list", "aesu"},         {"builtins", "set", ADDITEMS},
    {"collections", "Counter", "su"},     {"collections", "OrderedDict", "su"},
    {"collections", "defaultdict", "su"}, {"collections", "deque", "aesu"},
};

static bool takes_items(ckpt_str module, ckpt_str name, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof fillable / sizeof *fillable; i++)
        if (str_is(module, fillable[i].module) && str_is(name, fillable[i].name))
            return strchr(fillable[i].opcodes, (char)opcode) != NULL;
    return false;
}

/* arguments_set_attributes - returns true if NODE, a call of NAME, stores its arguments as attributes. */
static bool arguments_set_attributes(const struct trace_node *node, ckpt_str name)
{
    const struct trace_node *args = trace_node(node->items[1]);
    return str_is(name, "_rebuild_from_type_v2") || str_is(name, "_rebuild_parameter_with_state") ||
           ((str_is(name, "SimpleNamespace") || str_is(name, "Namespace")) &&
            !(args && args->kind == TRACE_TUPLE && args->nitems == 0));
}

/* find_unusual_change - returns what is dangerous about STEP, a change of the object NODE, which a call of
 * the allow-listed MODULE.NAME made; NULL: nothing. */
static const char *find_unusual_change(const struct trace_step *step, const struct trace_node *node,
                                       ckpt_str module, ckpt_str name)
{
    if (step->opcode == 'b')
        return arguments_set_attributes(node, name)
                   ? "gives it a state after its arguments gave it attributes: that may call one of them"
                   : NULL;
    return takes_items(module, name, step->opcode)
               ? NULL
               : "puts items into an object whose type has none: that may call what its state holds";
}

/* -------------------------------------------------------------- other steps */

/* report_step - reports a finding of RULE at STEP, with the name of GLOBAL (may be NULL) and ARGS (0:
 * none). */
static bool report_step(struct judge *judge, const struct trace_step *step, enum scan_rule rule,
                        const struct trace_global *global, trace_ref args, const char *text)
{
    if (!judge->reporting) {
        judge->needs_report = true;
        return true;
    }
    arena *a = arena_new(ARGS_MEMORY);
    ckpt_scan_record r = {.what = CKPT_SCAN_FINDING, .rule = scan_rule(rule)};
    describe_step(judge, step, global, args, a, &r);
    r.weights_only = -1;
    r.text = str_c(text);
    bool continues = scan_report_record(judge->scan, &r);
    arena_free(a);
    return continues;
}

/* judge_stored_global - reports a stored function that loads bytes: any user of the value may call it. */
static bool judge_stored_global(struct judge *judge, const struct trace_step *step)
{
    const struct trace_global *g = trace_global(step->subject);
    return !loads_bytes(g) || report_step(judge, step, SCAN_KNOWN_EXEC, g, 0,
                                          "kept in a value, from where it may be called with any bytes");
}

/* report_once - reports a finding at STEP unless FLAG is set in judge->reported, and sets FLAG. */
static bool report_once(struct judge *judge, const struct trace_step *step, unsigned flag,
                        enum scan_rule rule, const char *text)
{
    if (judge->reported & flag)
        return true;
    judge->reported |= flag;
    return report_step(judge, step, rule, NULL, 0, text);
}

/* judge_change - judges BUILD, APPEND … of an object that is not a builtin container. The result of an
 * allow-listed call may be changed in the ways in which picklers do; an imported object, which belongs to the
 * loading program, may not be changed. */
static bool judge_change(struct judge *judge, const struct trace_step *step)
{
    const struct trace_node *n = trace_node(step->subject);
    const struct trace_global *g = trace_global(step->subject);
    if (g)
        return report_step(judge, step, SCAN_IMPORT_CHANGED, g, step->operand,
                           "writes to it: every later user of the module is affected");
    if (n && (n->kind == TRACE_OPAQUE || n->kind == TRACE_PERSID))
        return report_step(judge, step, SCAN_IMPORT_CHANGED, NULL, step->operand,
                           "changes an object that is not in the file");
    g = n && n->kind == TRACE_CALL ? find_called_name(judge->scan, step, n->items[0]) : NULL;
    /* a fourth item is the operand of an earlier BUILD: no pickler changes an object after BUILD */
    if (n && n->nitems > 3)
        return report_step(judge, step, SCAN_UNRESOLVED_CALLABLE, g, step->operand,
                           "changes it once more after BUILD: that may call what its state holds");
    if (!g || get_verdict(judge->scan, g) != CKPT_SCAN_ALLOW_LISTED)
        return true; /* no call, or the call is a finding */
    struct full_name python3 = get_python3_name(g);
    const char *why = find_unusual_change(step, n, python3.module, python3.name), *numpy_why;
    ckpt_status st = numpy_judge_build(&judge->numpy, step, python3.module, python3.name, &numpy_why);
    if (st != CKPT_OK)
        return !scan_note_system_failure(judge->scan, st, &judge->numpy.err);
    if (why && !report_step(judge, step, SCAN_UNRESOLVED_CALLABLE, g, step->operand, why))
        return false;
    return !numpy_why || judge->pickle.arrays_as_opcodes || /* it was reported in the scan as joblib */
           report_step(judge, step, SCAN_NUMPY_OBJECTS, g, step->operand, numpy_why);
}

/* is_torch_id - returns true if the constant REF is a persistent id of torch, or if REF cannot be read,
 * which is noted for the end of the scan. torch 0.1 writes a number or digits; in protocol 0 an id is a
 * line of text, the repr of ('storage', …). */
static bool is_torch_id(struct scan *scan, const struct trace_step *step, trace_ref ref)
{
    arena *a = arena_new(ARGS_MEMORY);
    ckpt_value *v = read_value(scan, step, ref, a, 1);
    bool is_text_value = v && (v->type == CKPT_V_STR || v->type == CKPT_V_STR8 || v->type == CKPT_V_BYTES);
    bool is_id = !v || v->type == CKPT_V_INT || v->type == CKPT_V_BIGINT ||
                 (is_text_value && v->u.str.len > 0);
    for (size_t i = 0; is_text_value && i < v->u.str.len; i++)
        is_id = is_id && v->u.str.ptr[i] >= '0' && v->u.str.ptr[i] <= '9';
    if (is_text_value && step->opcode == 'P')
        is_id = is_id || str_starts(v->u.str, STR_LIT("('storage', "));
    arena_free(a);
    return is_id;
}

/* judge_persid - reports any id but a number, ('storage', …) and ('module', …), which torch writes. */
static bool judge_persid(struct judge *judge, const struct trace_step *step)
{
    const struct trace_node *n = trace_node(step->subject);
    trace_ref first = get_tuple_item(step->subject, 0);
    if ((!n && is_torch_id(judge->scan, step, step->subject)) ||
        (n && n->kind == TRACE_TUPLE && n->nitems == 0))
        return true;
    if (first &&
        (is_text(judge->scan, step, first, "storage") || is_text(judge->scan, step, first, "module")))
        return true;
    return report_once(judge, step, REPORTED_PERSID, SCAN_PERSISTENT_ID,
                       "a persistent id that is not (\"storage\", …)");
}

/* note_dropped - records for the second pass that the result of a call is popped unused. */
static bool note_dropped(struct judge *judge, const struct trace_step *step)
{
    uint32_t number = judge->reporting ? MAP_NONE : map_get_num(judge->results, step->subject);
    return number == MAP_NONE || map_set_num(judge->dropped_results, number, 1) ||
           !scan_note_system_failure(judge->scan, CKPT_ENOMEM, NULL);
}

static bool judge_step(void *user, const struct trace_step *step)
{
    struct judge *j = user;
    switch (step->what) {
    case TRACE_STEP_IMPORT: return judge_import(j, step);
    case TRACE_STEP_CALL: return judge_call(j, step);
    case TRACE_STEP_CHANGE: return judge_change(j, step);
    case TRACE_STEP_PERSID: return judge_persid(j, step);
    case TRACE_STEP_EXTENSION:
        return report_step(j, step, SCAN_UNRESOLVED_CALLABLE, NULL, 0,
                           "an extension code: a name in a registry of the loading program");
    case TRACE_STEP_BUFFER:
        return report_step(j, step, SCAN_PICKLE_NOT_FOLLOWED, NULL, 0,
                           "uses out-of-band buffers (protocol 5), which are not in the file");
    case TRACE_STEP_MEMO:
        return j->pickle.arrays_as_opcodes || report_once(j, step, REPORTED_MEMO, SCAN_MEMO_REPLACED,
                                                          "a memo entry is put again with a different value");
    case TRACE_STEP_LEFTOVER:
        return j->pickle.arrays_as_opcodes ||
               report_once(j, step, REPORTED_STACK, SCAN_STACK_LEFT, "values or marks are left on the stack");
    case TRACE_STEP_FRAME:
        return report_step(j, step, SCAN_FRAME_CROSSED, NULL, 0,
                           "goes beyond the end of a frame: some loaders refuse it, some read other opcodes");
    case TRACE_STEP_DROP: return note_dropped(j, step);
    case TRACE_STEP_STORED: return judge_stored_global(j, step);
    case TRACE_STEP_WRAPPER:
        return report_step(j, step, SCAN_UNUSUAL_ARGUMENTS, NULL, 0,
                           "a NumpyArrayWrapper whose attributes are not those that joblib writes");
    case TRACE_STEP_PAYLOAD: /* a storage as torch.save writes it is scanned separately */
        if (!recognize_magic_number(str_of((const char *)step->payload->head, step->payload->nhead)))
            return true;
        return map_put_num(j->payloads, step->subject, 1, NULL) ||
               !scan_note_system_failure(j->scan, CKPT_ENOMEM, NULL);
    }
    return true;
}

static bool is_known_exec(const struct scan *scan, const struct trace_global *global)
{
    return judge_name(scan, global) == CKPT_SCAN_KNOWN_EXEC;
}

static void free_maps(struct judge *judge)
{
    map_free(judge->called);
    map_free(judge->imported);
    map_free(judge->payloads);
    map_free(judge->results);
    map_free(judge->dropped_results);
    arena_free(judge->names);
}

static ckpt_status judge_begin(void *user, const struct scan_pickle *pickle, bool reporting,
                               uint64_t error_offset)
{
    struct judge *j = user;
    j->pickle = *pickle;
    j->reporting = reporting;
    j->error_offset = error_offset;
    j->reported = 0;
    j->numpy.cached_node = NULL;
    if (reporting)
        return CKPT_OK;
    free_maps(j);
    j->needs_report = false;
    j->called = map_new(0);
    j->imported = map_new(0);
    j->payloads = map_new(0);
    j->results = map_new(0);
    j->dropped_results = map_new(0);
    j->names = arena_new(NAMES_MEMORY);
    bool ok = j->called && j->imported && j->payloads && j->results && j->dropped_results && j->names;
    return ok ? CKPT_OK : CKPT_ENOMEM;
}

static bool judge_end(void *user, const struct trace_end *traced)
{
    struct judge *j = user;
    if (!j->reporting && !j->pickle.by_frame && !j->pickle.arrays_as_opcodes)
        j->scan->result->calls += traced->calls;
    return j->needs_report || (j->scan->opts->all_calls && traced->calls && !j->pickle.arrays_as_opcodes);
}

ckpt_status judge_new(struct scan *scan, struct judge **out, ckpt_error *err)
{
    struct judge *j = calloc(1, sizeof *j);
    CKPT_TRY_ALLOC(j, err);
    j->scan = scan;
    scan->judge_step = judge_step;
    scan->judge_begin = judge_begin;
    scan->judge_end = judge_end;
    scan->is_known_exec = is_known_exec;
    scan->judge = j;
    *out = j;
    return CKPT_OK;
}

void judge_free(struct judge *judge)
{
    if (!judge)
        return;
    free_maps(judge);
    free(judge);
}
