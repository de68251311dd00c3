/* plain.c - decides which values are plain data, for `ckpt sanitize`. The check goes depth first, with a
 * stack instead of recursion. If a node is bad, so are all nodes on the path to it, and these verdicts are
 * kept for later checks. The other verdicts of a check that found a bad node are dropped, because a loop may
 * lead from their nodes to nodes that were not visited yet. */
#include "op/plain.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "core/elements.h"
#include "core/number.h"
#include "core/numpy.h"
#include "core/view.h"
#include "core/graph_visit.h"
#include "op/weights_only.h"

#define MAX_INT_BYTES  255u  /* of LONG1; torch does not support LONG4 */
#define SCALAR_MAX     1024u /* bytes of a scalar, which may be text */
#define PATH_MAX_BYTES 4096u
#define MAX_WORK       (UINT64_C(1) << 28) /* steps of all checks of a file */

enum verdict { NOT_CHECKED, GOOD, BAD };

struct plain_step {
    const ckpt_value *v;
    bool is_entered; /* its children are on the stack above it */
};

/* -------------------------------------------------------------- single nodes */

enum plain_kind plain_kind_of(const ckpt_value *global)
{
    static const struct {
        enum plain_kind what;
        const char *module, *name;
    } names[] = {
#define PLAIN(what, module, name) {PLAIN_##what, module, name},
#include "op/plain.def"
#undef PLAIN
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (value_is_global(global, names[i].module, names[i].name))
            return names[i].what;
    return PLAIN_OTHER;
}

bool is_plain_value_call(const ckpt_value *value)
{
    return value->type == CKPT_V_CALL && value_call_kind_of(value) == CALL_REDUCE &&
           plain_kind_of(value->u.call.callable) == PLAIN_VALUE;
}

bool is_torch_constant(const ckpt_value *value)
{
    ckpt_str name = value_name(value);
    bool is_lowercase = name.len && name.ptr[0] >= 'a' && name.ptr[0] <= 'z'; /* a class has a capital */
    return is_lowercase && str_is(value_module(value), "torch") && !(value->flags & VALUE_DOTTED) &&
           !str_has(name, STR_LIT(".")) && !str_is(name, "device") &&
           weights_only_allows(value_module(value), name);
}

/* holds_storage - returns true if VALUE is a call that makes the bytes of a storage, which is written
 * instead. */
static bool holds_storage(const ckpt_file *f, const ckpt_value *value)
{
    if (!value_calls(value, "torch.storage", "_load_from_bytes", 1))
        return false;
    bool held = file_storage_held_by(f, value) != CKPT_NO_STORAGE;
    for (size_t i = 0; !held && i < f->nparts; i++)
        held = file_storage_held_by(f->parts[i], value) != CKPT_NO_STORAGE;
    return held;
}

static bool is_storage_id(const ckpt_value *value)
{
    ckpt_str tag;
    return value->u.pid && value->u.pid->type == CKPT_V_TUPLE &&
           value_text(value_item(value->u.pid, 0), &tag) && str_is(tag, "storage");
}

static bool is_plain_call(const ckpt_value *value)
{
    const struct value_call *c = &value->u.call;
    const struct value_extra *extra = value_extra_of(value);
    bool is_ordered_dict = value_is_global(c->callable, "collections", "OrderedDict");
    bool is_set = is_builtin(c->callable, "set");
    if (!is_ordered_dict && !is_set && !is_plain_value_call(value) &&
        plain_kind_of(c->callable) != PLAIN_TENSOR)
        return false;
    if (value_call_kind_of(value) != CALL_REDUCE || c->args->type != CKPT_V_TUPLE || extra->kwargs ||
        extra->nitems)
        return false;
    if (!is_ordered_dict)
        return !extra->npairs && !extra->nstates;
    return !extra->nstates || (extra->nstates == 1 && extra->states[0]->type == CKPT_V_DICT);
}

/* is_plain_node - returns true if VALUE itself is plain data, apart from nodes below it. */
static bool is_plain_node(const ckpt_file *f, const ckpt_value *value)
{
    if (value->flags & VALUE_NOT_REWRITABLE)
        return false;
    switch (value->type) {
    case CKPT_V_BIGINT: return value->u.str.len <= MAX_INT_BYTES;
    case CKPT_V_STR8:
        return !(value->flags & VALUE_SPAN) && value->u.str.len <= 255 &&
               utf8_check(value->u.str, false, NULL);
    case CKPT_V_FROZENSET: return false;
    case CKPT_V_GLOBAL:
        return !(value->flags & VALUE_DOTTED) && weights_only_allows(value_module(value), value_name(value));
    case CKPT_V_PERSID: return is_storage_id(value);
    case CKPT_V_CALL: return holds_storage(f, value) || is_plain_call(value);
    default: return true;
    }
}

/* ----------------------------------------------------------- everything below */

static bool push_node(void *user, const ckpt_value *value)
{
    struct plain_checker *p = user;
    if (!value || (value->type < CKPT_V_STR8 && value->type != CKPT_V_BIGINT))
        return true;
    return arena_push(NULL, &p->waiting, &p->n, &p->cap, &(struct plain_step){value, false},
                      sizeof *p->waiting);
}

/* assume_good - assumes that VALUE is plain data until a node below it turns out not to be. */
static bool assume_good(struct plain_checker *checker, const ckpt_value *value)
{
    return ARENA_PUSH(NULL, checker, visited, &value) && map_set_num(checker->verdicts, ptr_key(value), GOOD);
}

static bool set_bad(struct plain_checker *checker, const ckpt_value *value)
{
    bool ok = map_set_num(checker->verdicts, ptr_key(value), BAD);
    for (size_t i = 0; ok && i < checker->nvisited; i++)
        ok = map_set_num(checker->verdicts, ptr_key(checker->visited[i]), NOT_CHECKED);
    for (size_t i = 0; ok && i < checker->n; i++)
        if (checker->waiting[i].is_entered)
            ok = map_set_num(checker->verdicts, ptr_key(checker->waiting[i].v), BAD);
    return ok;
}

/* check_top - checks the top of the stack, and sets *BAD_ONE to it if it is bad. False: out of memory. */
static bool check_top(struct plain_checker *checker, const ckpt_value **bad_one)
{
    struct plain_step *top = &checker->waiting[checker->n - 1];
    const ckpt_value *v = top->v;
    uint32_t verdict = map_get_num(checker->verdicts, ptr_key(v)); /* enum verdict; MAP_NONE: NOT_CHECKED */
    if (top->is_entered || verdict == GOOD) {
        checker->n--;
        return true;
    }
    if (verdict == BAD || !is_plain_node(checker->file, v)) {
        *bad_one = v;
        checker->n--;
        return set_bad(checker, v);
    }
    top->is_entered = true;
    bool skips_children = v->type == CKPT_V_PERSID ||
                          holds_storage(checker->file, v); /* its children are not written */
    return assume_good(checker, v) && (skips_children || graph_visit_children(v, push_node, checker));
}

ckpt_status check_plain(struct plain_checker *checker, const ckpt_value *value, const ckpt_value **bad,
                        ckpt_error *err)
{
    *bad = NULL;
    checker->n = checker->nvisited = 0;
    CKPT_TRY_ALLOC(push_node(checker, value), err);
    while (checker->n && !*bad) {
        if (++checker->work > MAX_WORK)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "checking the values takes too many steps");
        CKPT_TRY_ALLOC(check_top(checker, bad), err);
    }
    return CKPT_OK;
}

void plain_checker_free(struct plain_checker *checker)
{
    free(checker->waiting);
    free(checker->visited);
    map_free(checker->verdicts);
}

/* ------------------------------------------------------------- plain values */

static ckpt_value *make_complex(arena *a, const double in[2])
{
    ckpt_value *name = value_global(a, STR_LIT("__builtin__"), STR_LIT("complex"), 0);
    ckpt_value *halves[2] = {value_float(a, in[0]), value_float(a, in[1])};
    ckpt_value *args = halves[0] && halves[1] ? value_tuple(a, 2, halves) : NULL;
    return name && args ? value_call(a, CALL_REDUCE, name, args, 0) : NULL;
}

static ckpt_value *make_number(arena *a, ckpt_dtype dt, const unsigned char *bytes)
{
    double x[2];
    if (!number_is_complex(dt))
        return value_number(a, dt, load_number(bytes, dtype_info(dt)->block_bytes, false));
    number_decode(dt, bytes, 1, x);
    return make_complex(a, x);
}

/* make_text - returns NBYTES bytes of UTF-32 as text, without the NULs at the end, which are padding. */
static ckpt_value *make_text(arena *a, const unsigned char *bytes, size_t nbytes)
{
    char text[SCALAR_MAX];
    size_t len = 0;
    for (size_t i = 0; i + 4 <= nbytes; i += 4) { /* a code point has at most 4 bytes in UTF-8, too */
        uint32_t cp = load_u32le(bytes + i);
        len += utf8_put(cp > 0x10ffff ? 0xfffd : cp, text + len);
    }
    while (len && text[len - 1] == '\0')
        len--;
    ckpt_str s = arena_str(a, str_of(text, len));
    return s.ptr ? value_str(a, s) : NULL;
}

bool plain_from_scalar(arena *a, const ckpt_value *value, ckpt_value **out)
{
    unsigned char bytes[SCALAR_MAX];
    struct numpy_dtype d;
    *out = NULL;
    if (!numpy_scalar_of(value, &d))
        return true;
    ckpt_dtype dt = numpy_known_dtype(&d);
    bool text = d.kind == 'U';
    if ((dt == CKPT_DT_NONE && !text) || d.bytes > sizeof bytes ||
        copy_small_bytes(value_arg(value, 1), bytes, sizeof bytes) != d.bytes)
        return true;
    if (d.big_endian)
        swap_bytes(bytes, d.bytes, text ? 4 : dtype_info(dt)->swap_bytes);
    *out = text ? make_text(a, bytes, d.bytes) : make_number(a, dt, bytes);
    return *out != NULL;
}

/* join_path_parts - joins PARTS as pathlib does: no SEP after a first part that ends in SEP ("/"). */
static ckpt_str join_path_parts(arena *a, const ckpt_value *parts, char sep)
{
    char *out = arena_alloc(a, PATH_MAX_BYTES);
    size_t n = 0;
    ckpt_str part = {0};
    for (uint32_t i = 0; out && i < value_count(parts); i++) {
        (void)value_text(value_item(parts, i), &part);
        if (n && out[n - 1] != sep)
            out[n++] = sep;
        if (part.len)
            memcpy(out + n, part.ptr, part.len);
        n += part.len; /* is_short_path() added them up */
    }
    return str_of(out, n);
}

/* is_short_path - returns true if VALUE is a pathlib path whose parts are texts that fit into
 * PATH_MAX_BYTES. */
static bool is_short_path(const ckpt_value *value)
{
    size_t left = PATH_MAX_BYTES;
    ckpt_str part;
    if (value->type != CKPT_V_CALL || !value_nargs(value))
        return false;
    enum plain_kind what = plain_kind_of(value->u.call.callable);
    if (what != PLAIN_POSIX && what != PLAIN_WINDOWS)
        return false;
    for (uint32_t i = 0; i < value_nargs(value); i++) {
        if (!value_text(value_arg(value, i), &part) || part.len >= left)
            return false;
        left -= part.len + 1;
    }
    return true;
}

bool plain_from_path(arena *a, const ckpt_value *value, ckpt_value **out)
{
    *out = NULL;
    if (!is_short_path(value))
        return true;
    bool windows = plain_kind_of(value->u.call.callable) == PLAIN_WINDOWS;
    ckpt_str text = join_path_parts(a, value->u.call.args, windows ? '\\' : '/');
    *out = text.ptr ? value_str(a, text) : NULL;
    return *out != NULL;
}
