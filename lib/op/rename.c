/* rename.c - strip, add, rename: each is a way to name keys, run by keys.c. */
#include "op/rename.h"

#include "base/text.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "op/keys.h"
#include "op/prefix.h"

#define MODULE STR_LIT("module.")

struct prefixing {
    ckpt_str prefix;
    bool anywhere;
    struct prefixes seen; /* of the keys it was held against */
};

static ckpt_status check_prefix(const char *prefix, ckpt_error *err)
{
    if (!*prefix)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an empty prefix");
    if (!utf8_check(str_c(prefix), false, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the prefix \"%s\" is not UTF-8", prefix);
    return CKPT_OK;
}

/* ---- strip */

static ckpt_status strip_key(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err)
{
    struct prefixing *x = n->user;
    prefixes_add(&x->seen, s);
    *out = prefix_strip(n->p->a, s, x->prefix, x->anywhere);
    if (!out->ptr)
        return fail_memory(err);
    if (out->len < s.len && out->len > 1 && out->ptr[0] == '.' && s.ptr[0] != '.' &&
        x->prefix.ptr[x->prefix.len - 1] != '.') {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" without \"%.*s\" would begin with a dot",
                   STR_ARG(s), STR_ARG(x->prefix));
        fail_hint(err, "the prefix is \"%.*s.\"", STR_ARG(x->prefix));
        return CKPT_EUSAGE;
    }
    return CKPT_OK;
}

void plan_notice_no_match(ckpt_plan *plan, const char *verb, ckpt_str what, const struct prefixes *seen)
{
    char there[300];
    (void)prefixes_text(seen, there, sizeof there);
    plan_notice(plan, "no key %s \"%.*s\"; nothing renamed%s%s", verb, STR_ARG(what),
                *there ? "; keys begin with " : "", there);
}

ckpt_status ckpt_plan_strip(ckpt_plan *plan, const char *prefix, bool anywhere, ckpt_error *err)
{
    CKPT_REQUIRE(err, plan && prefix);
    CKPT_TRY(check_prefix(prefix, err));
    bool dot = prefix[strlen(prefix) - 1] == '.';
    struct prefixing x = {.prefix = str_c(prefix), .anywhere = anywhere};
    struct naming n = {.p = plan, .key = strip_key, .stripped = x.prefix, .user = &x};
    if (!dot) { /* a component as people name it */
        x.prefix = keys_join(plan->a, x.prefix, STR_LIT("."));
        if (!x.prefix.ptr)
            return fail_memory(err);
        n.stripped = x.prefix;
        CKPT_TRY(keys_rename(&n, err));
        if (n.changed) {
            plan->prefix = x.prefix;
            plan_notice(plan, "\"%s\" is taken for the prefix \"%s.\"", prefix, prefix);
            return CKPT_OK;
        }
        x = (struct prefixing){.prefix = str_c(prefix), .anywhere = anywhere};
        n.stripped = x.prefix;
    }
    CKPT_TRY(keys_rename(&n, err));
    if (!n.changed)
        plan_notice_no_match(plan, anywhere ? "holds" : "begins with", str_c(prefix), &x.seen);
    else if (!dot)
        plan_notice(plan, "the prefix \"%s\" does not end with a dot", prefix);
    return CKPT_OK;
}

/* ---- add */

static ckpt_status add_key(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err)
{
    const struct prefixing *x = n->user;
    *out = keys_join(n->p->a, x->prefix, s);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_plan_add(ckpt_plan *plan, const char *prefix, ckpt_error *err)
{
    CKPT_REQUIRE(err, plan && prefix);
    CKPT_TRY(check_prefix(prefix, err));
    struct prefixing x = {.prefix = arena_str(plan->a, str_c(prefix))};
    struct naming n = {.p = plan, .key = add_key, .root_module = true, .user = &x};
    if (!x.prefix.ptr)
        return fail_memory(err);
    CKPT_TRY(keys_rename(&n, err));
    if (!n.changed)
        plan_notice(plan, "no state dict to add \"%s\" to; nothing renamed", prefix);
    else if (x.prefix.ptr[x.prefix.len - 1] != '.')
        plan_notice(plan, "the prefix \"%s\" does not end with a dot", prefix);
    return CKPT_OK;
}

/* ---- strip --auto */

struct automatic {
    unsigned modules; /* leading `module.` to take off this group's keys */
    bool counter;     /* an AveragedModel's n_averaged was seen */
    size_t inner;     /* keys that keep a `module.` */
    ckpt_str example; /* one of them */
};

/* leading - S without up to *MAX leading `module.`; *MAX becomes how many there were. */
static ckpt_str leading(ckpt_str s, unsigned *max)
{
    unsigned found = 0;
    for (; found < *max && str_starts(s, MODULE) && s.len > MODULE.len; found++)
        s = str_skip(s, MODULE.len);
    *max = found;
    return s;
}

/* auto_begin - how many `module.` do all keys share? n_averaged, which
 * AveragedModel keeps beside its module, does not count. */
static ckpt_status auto_begin(struct naming *n, const struct group *g, ckpt_error *err)
{
    struct automatic *x = n->user;
    unsigned shared = 1000; /* nobody wraps that often */
    bool any = false, counter = false;
    for (size_t i = 0; i < g->n && shared; i++) {
        if (g->slots[i].fixed)
            continue;
        ckpt_str s = prefix_strip_certain(n->p->a, g->slots[i].now);
        if (!s.ptr)
            return fail_memory(err);
        if (str_is(s, "n_averaged")) {
            counter = true;
            continue;
        }
        any = true;
        (void)leading(s, &shared);
    }
    x->modules = any ? shared : 0;
    x->counter |= counter && x->modules;
    return CKPT_OK;
}

static ckpt_status auto_key(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err)
{
    struct automatic *x = n->user;
    unsigned modules = x->modules;
    ckpt_str bare = prefix_strip_certain(n->p->a, s);
    if (!bare.ptr)
        return fail_memory(err);
    /* A module path ("module.", all of it wrapper) may end up empty, a key may not. */
    *out = leading(bare, &modules);
    if (modules < x->modules && str_eq(*out, MODULE))
        *out = STR_LIT("");
    return CKPT_OK;
}

static void auto_end(struct naming *n, const struct group *g)
{
    struct automatic *x = n->user;
    for (size_t i = 0; !g->optimizer && i < g->n; i++)
        if (!g->slots[i].fixed && prefix_inside(g->slots[i].then, MODULE) && !x->inner++)
            x->example = g->slots[i].then;
}

ckpt_status ckpt_plan_strip_auto(ckpt_plan *plan, ckpt_error *err)
{
    struct automatic x = {0};
    char word[SHELL_MOST];
    struct naming n = {.p = plan, .key = auto_key, .begin = auto_begin, .end = auto_end, .user = &x};
    CKPT_REQUIRE(err, plan);
    CKPT_TRY(keys_rename(&n, err));
    if (!n.changed)
        plan_notice(plan, "no key begins with a wrapper's prefix; nothing renamed");
    if (x.counter)
        plan_notice(plan, "\"n_averaged\", the counter of an AveragedModel, stays");
    if (x.inner)
        plan_notice(plan,
                    "%zu key%s still hold%s \"module.\" (%.*s), which may be a real submodule; if it is not: "
                    "ckpt strip --anywhere module. %s",
                    x.inner, x.inner == 1 ? "" : "s", x.inner == 1 ? "s" : "", STR_ARG(x.example),
                    shell_path(plan->file->path, word));
    return CKPT_OK;
}

/* ---- rename by a map */

struct mapping_names {
    map *index; /* from -> number */
    const ckpt_str *to;
    bool *used;
    ckpt_str where;
};

static ckpt_status map_begin(struct naming *n, const struct group *g, ckpt_error *err)
{
    struct mapping_names *x = n->user;
    (void)err;
    x->where = g->where;
    return CKPT_OK;
}

static ckpt_status map_key(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err)
{
    struct mapping_names *x = n->user;
    ckpt_str where = x->where;
    uint32_t i = map_get(x->index, s);
    *out = s;
    if (i != MAP_NONE) {
        *out = x->to[i];
        x->used[i] = true;
        return CKPT_OK;
    }
    if (!where.len)
        return CKPT_OK;
    where = keys_join(n->p->a, where, STR_LIT("."));
    ckpt_str full = where.ptr ? keys_join(n->p->a, where, s) : where;
    if (!full.ptr)
        return fail_memory(err);
    i = map_get(x->index, full);
    if (i == MAP_NONE)
        return CKPT_OK;
    if (!str_starts(x->to[i], where) || x->to[i].len == where.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%.*s\" would leave its mapping: the new name must begin with \"%.*s\"", STR_ARG(full),
                    STR_ARG(where));
    *out = str_skip(x->to[i], where.len);
    x->used[i] = true;
    return CKPT_OK;
}

static ckpt_status no_key(ckpt_str name, ckpt_error *err)
{
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no key is called \"%.*s\"", STR_ARG(name));
    fail_hint(err, "`ckpt ls` lists the names; one may stand with the path of its state dict or without");
    return CKPT_ENOTFOUND;
}

static ckpt_status run_map(ckpt_plan *p, size_t n, const ckpt_str *from, struct mapping_names *x,
                           ckpt_error *err)
{
    uint32_t old;
    if (!x->index || !x->used)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        if (!map_put(x->index, from[i], i, &old))
            return fail_memory(err);
        if (old != MAP_NONE)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the map names \"%.*s\" twice", STR_ARG(from[i]));
    }
    struct naming names = {
        .p = p, .key = map_key, .begin = map_begin, .modules_follow = true, .dry = true, .user = x};
    CKPT_TRY(keys_rename(&names, err));
    for (size_t i = 0; i < n; i++)
        if (!x->used[i])
            return no_key(from[i], err);
    names.dry = false;
    CKPT_TRY(keys_rename(&names, err));
    if (!names.changed)
        plan_notice(p, "the map renames nothing");
    return CKPT_OK;
}

ckpt_status plan_rename_pairs(ckpt_plan *p, size_t n, const ckpt_str *from, const ckpt_str *to,
                              ckpt_error *err)
{
    if (n >= MAP_NONE)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a rename map of %zu entries", n);
    struct mapping_names x = {.index = map_new(n), .to = to, .used = arena_array(p->a, n, sizeof *x.used)};
    ckpt_status st = run_map(p, n, from, &x, err);
    map_free(x.index);
    return st;
}

/* map_pairs - {"old": "new", …}: the texts end up in FROM and TO. ERR is set. */
static ckpt_status map_pairs(json_scan *j, arena *a, ckpt_str **from, ckpt_str **to, size_t *n,
                             ckpt_error *err)
{
    size_t cap_from = 0, cap_to = 0;
    enum json_event e = json_next(j);
    if (e != JSON_OBJECT)
        return e == JSON_ERROR ? err->status
                               : json_fail(j, "a rename map is {=a JSON object %s}", "{\"old\": \"new\"}");
    while ((e = json_next(j)) == JSON_KEY) {
        ckpt_str key = j->str;
        e = json_next(j);
        if (e != JSON_STRING)
            break;
        *from = arena_grow(a, *from, *n, &cap_from, *n + 1, sizeof **from);
        *to = arena_grow(a, *to, *n, &cap_to, *n + 1, sizeof **to);
        if (!*from || !*to)
            return fail_memory(err);
        (*from)[*n] = key;
        (*to)[(*n)++] = j->str;
    }
    if (e != JSON_OBJECT_END)
        return e == JSON_ERROR ? err->status : json_fail(j, "every value of a rename map is a string");
    e = json_next(j);
    return e == JSON_END ? CKPT_OK : err->status;
}

ckpt_status ckpt_plan_rename_map(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    source *src = NULL;
    ckpt_str *from = NULL, *to = NULL;
    size_t n = 0;
    json_scan j;
    ckpt_error own;
    if (!err)
        err = &own;
    CKPT_REQUIRE(err, plan && path);
    ckpt_status st = source_file_open(path, &src, err);
    if (st == CKPT_OK && src->size > plan->file->limits.max_header)
        st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "rename map of %llu bytes",
                  (unsigned long long)src->size);
    char *text = st == CKPT_OK ? arena_alloc(plan->a, (size_t)src->size) : NULL;
    if (st == CKPT_OK)
        st = text ? source_read(src, 0, text, (size_t)src->size, err) : fail_memory(err);
    if (st == CKPT_OK) {
        json_init(&j, str_of(text, (size_t)src->size), 0, plan->a, err);
        st = map_pairs(&j, plan->a, &from, &to, &n, err);
    }
    source_unref(src);
    if (st != CKPT_OK) {
        fail_file(err, path);
        return st;
    }
    return plan_rename_pairs(plan, n, from, to, err);
}
