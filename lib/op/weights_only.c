/*
 * weights_only.c - predicts whether torch.load(weights_only=True) loads a file. torch's unpickler for that
 * (torch/_weights_only_unpickler.py) runs 34 opcodes, imports and calls only names in a list, allows BUILD,
 * APPEND and SETITEM for few types, and accepts only storages as persistent ids. This file applies these
 * rules to what codec/pickle_read recorded (struct pickle_facts), and reports the first violation.
 */
#include "op/weights_only.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "core/graph_visit.h"

/* What a call makes, by the name of its callable. REFUSED: the name is not allowed. */
enum made_kind { REFUSED, OTHER, TYPE, ORDERED_DICT, COUNTER, TENSOR, PARAMETER };

static const struct allowed {
    const char *name;
    enum made_kind makes;
} allowed[] = {
#define ALLOWED(name, makes) {name, makes},
#include "op/weights_only.def"
#undef ALLOWED
};

const char *weights_only_allowed_name(size_t index)
{
    return index < sizeof allowed / sizeof *allowed ? allowed[index].name : NULL;
}

/* The opcodes that torch's unpickler supports. */
static const unsigned char allowed_opcodes[] = {
    0x80, '.', '(', 't', 0x85, 0x86, 0x87, ')', ']', '}', 0x8f, 'N', 0x88, 0x89, 'J', 'K', 'M',
    0x8a, 'G', 'X', 'U', 'c',  'R',  0x81, 'b', 'a', 'e', 's',  'u', 'Q',  'h',  'j', 'q', 'r',
};

struct violation {
    uint64_t offset; /* UINT64_MAX: none */
    bool is_opcode;  /* it is an opcode that torch does not support */
    char text[512];
};

/* report_violation - sets *FIRST to the violation at OFFSET, unless it has one at OFFSET or before. */
static void CKPT_PRINTF(3, 4) report_violation(struct violation *first, uint64_t offset, const char *fmt, ...)
{
    va_list ap;
    if (offset >= first->offset)
        return;
    first->offset = offset;
    first->is_opcode = false;
    va_start(ap, fmt);
    (void)vsnprintf(first->text, sizeof first->text, fmt, ap);
    va_end(ap);
}

/* ---- names */

/* python3_module - returns the Python 3 name of a Python 2 module with allowed names; else MODULE itself. */
static ckpt_str python3_module(ckpt_str module)
{
    if (str_is(module, "__builtin__"))
        return STR_LIT("builtins");
    if (str_is(module, "UserDict") || str_is(module, "UserList") || str_is(module, "UserString"))
        return STR_LIT("collections");
    return str_is(module, "copy_reg") ? STR_LIT("copyreg") : module;
}

/* compare_full_name - compares FULL, NUL-terminated, with MODULE.NAME. */
static int compare_full_name(const char *full, ckpt_str module, ckpt_str name)
{
    ckpt_str f = str_c(full);
    if (f.len <= module.len || !str_starts(f, module))
        return str_eq(f, module) ? -1 : str_compare(f, module);
    if (f.ptr[module.len] != '.')
        return (unsigned char)f.ptr[module.len] < '.' ? -1 : 1;
    return str_compare(str_skip(f, module.len + 1), name);
}

static enum made_kind lookup_name(ckpt_str module, ckpt_str name)
{
    size_t lo = 0, hi = sizeof allowed / sizeof *allowed;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = compare_full_name(allowed[mid].name, module, name);
        if (c == 0)
            return allowed[mid].makes;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return REFUSED;
}

static enum made_kind lookup_global(const ckpt_value *global)
{
    return global->type == CKPT_V_GLOBAL
               ? lookup_name(python3_module(value_module(global)), value_name(global))
               : REFUSED;
}

bool weights_only_allows(ckpt_str module, ckpt_str name)
{
    return lookup_name(python3_module(module), name) != REFUSED;
}

/* needs_import - returns true if torch allows MODULE.NAME only after torch.distributed.tensor is imported. */
static bool needs_import(ckpt_str module, ckpt_str name)
{
    return str_matches_word(module,
                            "torch.distributed.tensor torch.distributed.tensor._dtensor_spec "
                            "torch.distributed.tensor.placement_types torch.distributed._mesh_layout",
                            str_eq) ||
           (str_is(module, "torch.distributed.device_mesh") && str_is(name, "DeviceMesh"));
}

static void check_globals(const struct pickle_facts *facts, struct violation *first)
{
    for (size_t i = 0; i < facts->nglobals; i++) {
        const ckpt_value *g = facts->globals[i];
        ckpt_str module = python3_module(value_module(g)), name = value_name(g);
        if (lookup_global(g) != REFUSED)
            continue;
        report_violation(first, value_offset(g), "GLOBAL %.*s.%.*s at 0x%" PRIx64 " %s", STR_ARG(module),
                         STR_ARG(name), value_offset(g),
                         needs_import(module, name) ? "needs torch.distributed.tensor to be imported first"
                                                    : "is not allowed by default");
        return;
    }
}

/* ---- opcodes, calls, changes */

static void check_opcodes(const struct pickle_facts *facts, struct violation *first)
{
    for (unsigned op = 0; op < 256; op++) {
        if (facts->first_use[op] == UINT64_MAX || memchr(allowed_opcodes, (int)op, sizeof allowed_opcodes))
            continue;
        report_violation(first, facts->first_use[op], "opcode %u at 0x%" PRIx64 " is not supported%s", op,
                         facts->first_use[op], op == 0x95 ? " (pickle protocol 4 or 5)" : "");
        first->is_opcode |= first->offset == facts->first_use[op];
    }
}

static void check_calls(const struct pickle_facts *facts, struct violation *first)
{
    char name[128];
    for (size_t i = 0; i < facts->ncalls; i++) {
        const ckpt_value *c = facts->calls[i];
        if (lookup_global(c->u.call.callable) != REFUSED)
            continue;
        (void)ckpt_value_type_name(c->u.call.callable, name, sizeof name);
        report_violation(first, value_offset(c),
                         "%s at 0x%" PRIx64 " calls a %s, which is not an allowed function",
                         value_call_kind_of(c) == CALL_REDUCE ? "REDUCE" : "NEWOBJ", value_offset(c), name);
        return;
    }
}

/* may_change - returns true if torch allows the opcode of MUTATION for its target: BUILD (b), SETITEM (s),
 * SETITEMS (u), APPEND (a) or APPENDS (e). */
static bool may_change(const struct pickle_mutation *mutation)
{
    const ckpt_value *v = mutation->target;
    enum made_kind made = v->type == CKPT_V_CALL ? lookup_global(v->u.call.callable) : REFUSED;
    if (mutation->opcode == 'b')
        return (made != REFUSED && made != OTHER) || v->type == CKPT_V_SET;
    if (mutation->opcode == 's' || mutation->opcode == 'u')
        return v->type == CKPT_V_DICT || made == ORDERED_DICT || made == COUNTER;
    return v->type == CKPT_V_LIST;
}

static void check_changes(const struct pickle_facts *facts, struct violation *first)
{
    char name[128];
    for (size_t i = 0; i < facts->nmutations; i++) {
        const struct pickle_mutation *m = &facts->mutations[i];
        if (may_change(m))
            continue;
        const char *op = m->opcode == 'b'                       ? "BUILD"
                         : m->opcode == 's' || m->opcode == 'u' ? "SETITEMS"
                                                                : "APPENDS";
        (void)ckpt_value_type_name(m->target, name, sizeof name);
        report_violation(first, m->offset, "%s at 0x%" PRIx64 " on a %s is not allowed", op, m->offset, name);
        return;
    }
}

/* is_known_location - returns true if torch has a deserializer for the location TEXT. "cpu" has no index.
 * Whether the device exists does not depend on the file. */
static bool is_known_location(ckpt_str text)
{
    return str_matches_word(text, "cpu meta", str_eq) ||
           str_matches_word(text, "cuda mps privateuse1 hpu xpu mtia", str_starts);
}

/* check_storage - checks the persistent id ID: (storage, class, key, location, numel), and a sixth item in
 * the legacy format, in which a storage cannot be untyped. Returns false after reporting a violation. */
static bool check_storage(const ckpt_value *id, uint64_t offset, struct violation *first)
{
    ckpt_str location;
    const ckpt_value *klass = value_item(id, 1), *at = value_item(id, 3);
    if (value_count(id) == 6 && value_is_global(klass, "torch.storage", "UntypedStorage"))
        report_violation(first, offset,
                         "the storage at 0x%" PRIx64
                         " is untyped, which torch.load cannot read in the legacy format",
                         offset);
    else if (value_text(at, &location) && !is_known_location(location))
        report_violation(first, offset,
                         "the storage at 0x%" PRIx64 " is on \"%.*s\", a device that torch does not know",
                         offset, STR_ARG(location));
    else
        return true;
    return false;
}

static void check_persids(const struct pickle_facts *facts, struct violation *first)
{
    ckpt_str tag;
    for (size_t i = 0; i < facts->npersids; i++) {
        const ckpt_value *v = facts->persids[i], *id = v->u.pid, *item = value_item(id, 0);
        bool is_storage = !item || (value_text(item, &tag) && str_is(tag, "storage"));
        if (id->type != CKPT_V_INT && !(id->type == CKPT_V_TUPLE && is_storage)) {
            report_violation(first, value_offset(v), "the persistent id at 0x%" PRIx64 " is not a storage",
                             value_offset(v));
            return;
        }
        if (!check_storage(id, value_offset(v), first))
            return;
    }
}

/* ---- str of Python 2 */

/* check_texts - checks that each str of Python 2 is UTF-8, because torch.load decodes it as that. */
static ckpt_status check_texts(const ckpt_value *root, const struct pickle_facts *facts,
                               struct violation *first, ckpt_error *err)
{
    struct graph_visit visit = {.seen = map_new(0)};
    const ckpt_value *v = NULL;
    bool ok = visit.seen && graph_visit_add(&visit, root);
    for (size_t i = 0; ok && i < facts->ncalls; i++) /* also calls that the root does not reach */
        ok = graph_visit_add(&visit, facts->calls[i]);
    while (ok && (v = graph_visit_next(&visit, &ok)) != NULL) {
        ckpt_str s;
        if (v->type == CKPT_V_STR8 && value_text(v, &s) && !utf8_check(s, false, NULL))
            report_violation(first, value_offset(v),
                             "the Python 2 string at 0x%" PRIx64
                             " is not UTF-8 (encoding=\"latin1\" needs weights_only=False)",
                             value_offset(v));
    }
    graph_visit_free(&visit);
    return ok ? CKPT_OK : fail_memory(err);
}

/* ---- verdict */

static ckpt_status check_pickle(const ckpt_file *f, const struct pickle_facts *facts, struct violation *first,
                                ckpt_error *err)
{
    check_opcodes(facts, first);
    check_globals(facts, first);
    check_calls(facts, first);
    check_changes(facts, first);
    check_persids(facts, first);
    return facts->first_use['U'] == UINT64_MAX ? CKPT_OK : check_texts(f->root, facts, first, err);
}

ckpt_status weights_only_check(ckpt_file *f, arena *a, struct weights_only *out, ckpt_error *err)
{
    struct violation first = {.offset = UINT64_MAX};
    *out = (struct weights_only){.verdict = f->loading.by ? 1 : -1, .why = STR_LIT("")};
    if (!f->loading.by)
        return CKPT_OK;
    if (f->loading.refusal.len) {
        *out = (struct weights_only){.why = f->loading.refusal};
        return CKPT_OK;
    }
    for (size_t i = 0; i < f->npickles && first.offset == UINT64_MAX; i++)
        CKPT_TRY(check_pickle(f, f->pickles[i], &first, err));
    if (first.offset == UINT64_MAX)
        return CKPT_OK;
    *out = (struct weights_only){.why = arena_str(a, str_c(first.text)), .is_opcode = first.is_opcode};
    return out->why.ptr ? CKPT_OK : fail_memory(err);
}
