/*
 * treespec.c - scans the texts "in_spec" and "out_spec" in the JSON of an exported program. torch.export.load
 * reads them by treespec_loads (torch/utils/_pytree.py), which imports modules that they name:
 *   [1, {"type": …, "context": …, "children_spec": […]}]
 *   "context"                  JSON in a text, for most types; an object {"__enum__", "fqn", "name"} in it
 *   "fqn"                      "MODULE:CLASS", imported
 *   "default_factory_module"   imported, in the "context" of a collections.defaultdict
 *   "default_factory_name"     the attribute of that module that makes missing values
 * Types themselves are looked up in a registry of torch, and not imported.
 */
#include "base/text.h"
#include "codec/json_scan.h"
#include "scan/scan.h"

/* The JSON in a text. */
struct spec {
    struct scanner *x;
    source *src;
    ckpt_str where;
    size_t at; /* offset in SRC of the outermost text */
    json_scan json;
    ckpt_str key;
};

static bool is_known_module(ckpt_str module)
{
    return str_matches_word(module, "builtins collections enum torch", str_eq) ||
           str_starts(module, STR_LIT("torch."));
}

static bool is_known_factory(ckpt_str name)
{
    return str_matches_word(name,
                            "bool bytearray bytes complex dict float frozenset int list object set str tuple "
                            "Counter OrderedDict defaultdict deque",
                            str_eq);
}

/* check_name - reports TEXT, under the current key, if it names what is not known to be harmless. */
static ckpt_status check_name(const struct spec *s, ckpt_str text)
{
    size_t colon = str_find(text, STR_LIT(":"), 0);
    ckpt_str module = colon != SIZE_MAX && str_is(s->key, "fqn") ? str_of(text.ptr, colon) : text;
    bool names_module = str_is(s->key, "fqn") || str_is(s->key, "default_factory_module");
    if ((!names_module || is_known_module(module)) &&
        (!str_is(s->key, "default_factory_name") || is_known_factory(text)))
        return CKPT_OK;
    return scan_found(s->x->scan, SCAN_CONFIG_TARGET, s->where, s->src, s->at,
                      "the \"%.*s\" of a treespec names %.*s", STR_ARG(s->key), STR_ARG(text));
}

/* begin_text - sets S to the begin of the JSON in TEXT, of which it makes a copy in A. */
static ckpt_status begin_text(struct spec *s, ckpt_str text, arena *a, ckpt_error *why)
{
    char *copy = arena_alloc(a, text.len + 1); /* bounded: a text in memory */
    if (!copy)
        return arena_full(a) ? fail(why, CKPT_ELIMIT, 0, "texts need too much memory") : fail_memory(why);
    memcpy(copy, text.ptr, text.len);
    scan_accept_python_json(copy, text.len);
    json_init(&s->json, str_of(copy, text.len), 0, a, why);
    s->key = STR_LIT("");
    return CKPT_OK;
}

/* visit_context - checks the names in TEXT, a context. Text that is no JSON is data. */
static ckpt_status visit_context(const struct spec *outer, ckpt_str text, arena *a, ckpt_error *why)
{
    struct spec s = *outer;
    CKPT_TRY(begin_text(&s, text, a, why));
    for (enum json_event e = json_next(&s.json); e != JSON_END && e != JSON_ERROR; e = json_next(&s.json)) {
        if (e == JSON_KEY)
            s.key = s.json.str;
        if (e == JSON_STRING)
            CKPT_TRY(check_name(&s, s.json.str));
    }
    return why->status == CKPT_EFORMAT ? CKPT_OK : why->status;
}

/* visit_spec - checks the names in TEXT and in the contexts in it. */
static ckpt_status visit_spec(struct spec *s, ckpt_str text, arena *a, ckpt_error *why)
{
    ckpt_error context_error;
    CKPT_TRY(begin_text(s, text, a, why));
    for (enum json_event e = json_next(&s->json); e != JSON_END && e != JSON_ERROR; e = json_next(&s->json)) {
        if (e == JSON_KEY)
            s->key = s->json.str;
        if (e == JSON_STRING)
            CKPT_TRY(check_name(s, s->json.str));
        if (e != JSON_STRING || !str_is(s->key, "context"))
            continue;
        context_error.status = CKPT_OK;
        ckpt_status st = visit_context(s, s->json.str, a, &context_error);
        if (st != CKPT_OK) {
            *why = context_error;
            return st;
        }
    }
    return why->status;
}

ckpt_status scan_treespec(struct scanner *x, source *src, ckpt_str where, struct scan_text_value value,
                          arena *a, ckpt_error *err)
{
    struct spec *s = arena_alloc(a, sizeof *s);
    ckpt_error why = {.status = CKPT_OK};
    if (!value.text.len) /* there is none */
        return CKPT_OK;
    if (!s)
        return fail_memory(err);
    *s = (struct spec){.x = x, .src = src, .where = where, .at = value.at};
    ckpt_status st = visit_spec(s, value.text, a, &why);
    if (why.status == CKPT_OK)
        return st;
    if (scan_note_system_failure(x->scan, why.status, &why))
        return fail(err, why.status, CKPT_NO_OFFSET, "%s", why.what);
    return scan_found(x->scan, SCAN_NOT_OPENED, where, src, value.at, "a treespec that is not {=JSON}: %s",
                      why.what);
}
