/*
 * treespec.c - scans the texts "in_spec" and "out_spec" in the JSON of an exported program. torch.export.load
 * reads them by treespec_loads (torch/utils/_pytree.py), which imports modules that they name:
 *   [1, {"type": …, "context": …, "children_spec": […]}]
 *   "context"                  JSON in a text, for most types; an object {"__enum__", "fqn", "name"} in it
 *   "fqn"                      "MODULE:CLASS", imported
 *   "default_factory_module"   imported, in the "context" of a collections.defaultdict
 *   "default_factory_name"     the attribute of that module that makes missing values
 * Types themselves are looked up in a registry of torch, and not imported. Keys of mappings are texts in a
 * "context". Those of an "in_spec" are written into Python code: the keywords, in the context of a child of
 * the outermost object, as parameters, and keys of other mappings within the message of a guard.
 */
#include "codec/json_scan.h"
#include "scan/scan.h"

/* The JSON in a text. */
struct spec {
    const struct scanned *in;
    size_t at; /* offset in IN of the outermost text */
    bool is_in_spec;
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
static ckpt_status check_name(const struct spec *spec, ckpt_str text)
{
    size_t colon = str_find(text, STR_LIT(":"), 0);
    ckpt_str module = colon != SIZE_MAX && str_is(spec->key, "fqn") ? str_of(text.ptr, colon) : text;
    bool names_module = str_is(spec->key, "fqn") || str_is(spec->key, "default_factory_module");
    if ((!names_module || is_known_module(module)) &&
        (!str_is(spec->key, "default_factory_name") || is_known_factory(text)))
        return CKPT_OK;
    return SCAN_FOUND(spec->in, SCAN_CONFIG_TARGET, spec->at, "the \"%.*s\" of a treespec names %.*s",
                      STR_ARG(spec->key), STR_ARG(text));
}

/* The depth of the object that describes the keywords: [1, {"children_spec": [ARGUMENTS, KEYWORDS]}] */
#define KEYWORDS_DEPTH 4

/* check_key - reports TEXT if it is in an "in_spec" and is not allowed as a key. IS_KEYWORD: it is one of the
 * keywords, or in the context of the arguments, which has no texts. */
static ckpt_status check_key(const struct spec *spec, ckpt_str text, bool is_keyword)
{
    if (!spec->is_in_spec || (is_keyword ? exported_is_name(text) : exported_is_constant(text)))
        return CKPT_OK;
    return SCAN_FOUND(spec->in, SCAN_EVALUATED_TEXT, spec->at,
                      "the key {%.*s} of an \"in_spec\" is not {=%s}, and torch writes it into Python code",
                      STR_ARG(text), is_keyword ? "an identifier" : "a text without quotes and line ends");
}

/* begin_text - sets SPEC to the begin of the JSON in TEXT, of which it makes a copy in A. */
static ckpt_status begin_text(struct spec *spec, ckpt_str text, arena *a, ckpt_error *why)
{
    char *copy = arena_alloc(a, text.len + 1);
    if (!copy)
        return arena_full(a) ? fail(why, CKPT_ELIMIT, 0, "texts need too much memory") : fail_memory(why);
    memcpy(copy, text.ptr, text.len);
    scan_accept_python_json(copy, text.len);
    json_init(&spec->json, str_of(copy, text.len), 0, a, why);
    spec->key = STR_LIT("");
    return CKPT_OK;
}

/* visit_context - checks the names and keys in TEXT, a context. Text that is no JSON is data. */
static ckpt_status visit_context(const struct spec *outer, ckpt_str text, arena *a, ckpt_error *why)
{
    struct spec s = *outer;
    bool is_keyword = outer->json.depth == KEYWORDS_DEPTH;
    CKPT_TRY(begin_text(&s, text, a, why));
    for (enum json_event e = json_next(&s.json); e != JSON_END && e != JSON_ERROR; e = json_next(&s.json)) {
        if (e == JSON_KEY)
            s.key = s.json.str;
        if (e != JSON_STRING)
            continue;
        CKPT_TRY(check_name(&s, s.json.str));
        CKPT_TRY(check_key(&s, s.json.str, is_keyword));
    }
    return why->status == CKPT_EFORMAT ? CKPT_OK : why->status;
}

/* visit_spec - checks the names in TEXT and in the contexts in it. */
static ckpt_status visit_spec(struct spec *spec, ckpt_str text, arena *a, ckpt_error *why)
{
    ckpt_error context_error;
    CKPT_TRY(begin_text(spec, text, a, why));
    for (enum json_event e = json_next(&spec->json); e != JSON_END && e != JSON_ERROR;
         e = json_next(&spec->json)) {
        if (e == JSON_KEY)
            spec->key = spec->json.str;
        if (e != JSON_STRING)
            continue;
        CKPT_TRY(check_name(spec, spec->json.str));
        if (!str_is(spec->key, "context")) {
            CKPT_TRY(check_key(spec, spec->json.str, false));
            continue;
        }
        context_error.status = CKPT_OK;
        ckpt_status st = visit_context(spec, spec->json.str, a, &context_error);
        if (st != CKPT_OK) {
            *why = context_error;
            return st;
        }
    }
    return why->status;
}

ckpt_status scan_treespec(const struct scanned *in, struct scan_text_value value, arena *a, ckpt_error *err)
{
    struct spec *s = arena_alloc(a, sizeof *s);
    ckpt_error why = {.status = CKPT_OK};
    if (!value.text.len) /* there is none */
        return CKPT_OK;
    CKPT_TRY_ALLOC(s, err);
    *s = (struct spec){.in = in, .at = value.at, .is_in_spec = value.is_in_spec};
    ckpt_status st = visit_spec(s, value.text, a, &why);
    if (why.status == CKPT_OK)
        return st;
    if (scan_note_system_failure(in->x->scan, why.status, &why))
        return fail(err, why.status, CKPT_NO_OFFSET, "%s", why.what);
    return SCAN_FOUND(in, SCAN_NOT_OPENED, value.at, "a treespec that is not {=JSON}: %s", why.what);
}
