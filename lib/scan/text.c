/*
 * text.c - scans text. Text is only data, with one exception: Keras describes a model in JSON (config.json of
 * a .keras archive) by objects of {"module", "class_name", "config"}. Its loader imports the module and calls
 * the class (keras/src/saving/serialization_lib.py, CVE-2025-1550, -8747, -9906); a "Lambda" layer holds
 * marshalled bytecode, a "TorchModuleWrapper" a pickled torch module (CVE-2025-49655), and some functions of
 * Keras itself fetch, load or unpack files (keras.utils.get_file, -8747).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "codec/json_scan.h"
#include "format/recognize.h"
#include "scan/scan.h"

#define JSON_MAX ((uint64_t)64 << 20)
#define UTF8_BOM "\xef\xbb\xbf"

/* A JSON object that is not closed yet. */
struct open_object {
    ckpt_str module, class_name;
    ckpt_str key; /* the last key; empty after a value that is a text */
};

static bool is_keras_module(ckpt_str module)
{
    return !module.len || str_is(module, "keras") || str_starts(module, STR_LIT("keras.")) ||
           str_starts(module, STR_LIT("keras_hub.")) || str_starts(module, STR_LIT("keras_nlp.")) ||
           str_starts(module, STR_LIT("tf_keras."));
}

/* is_function_with_effects - returns true if O is a Keras function that does more than arithmetic. */
static bool is_function_with_effects(const struct open_object *o)
{
    static const char *const modules[] = {"utils", "saving", "config", "models", "datasets", "callbacks"};
    ckpt_str m = o->module;
    if (!str_is(o->class_name, "function") && !str_is(o->class_name, "type") &&
        !str_is(o->class_name, "__typespec__"))
        return false;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        ckpt_str part = str_c(modules[i]);
        size_t at = str_find(m, part, 0);
        if (at != SIZE_MAX && at > 0 && m.ptr[at - 1] == '.')
            return true;
    }
    return false;
}

/* judge_object - reports the object O, which ends at AT, if it makes Keras run code. */
static ckpt_status judge_object(struct scanner *x, const struct open_object *o, source *src, ckpt_str where,
                                size_t at)
{
    const char *what = str_is(o->class_name, "Lambda")       ? "a Lambda layer, which carries bytecode"
                       : str_is(o->class_name, "__lambda__") ? "a lambda function, which is bytecode"
                       : str_is(o->class_name, "TorchModuleWrapper")
                           ? "a torch module, which is a pickle in base64"
                           : NULL;
    if (what)
        return scan_found(x->scan, SCAN_KERAS_CODE, where, src, at, "%s", what);
    if (is_function_with_effects(o))
        return scan_found(x->scan, SCAN_KERAS_CODE, where, src, at,
                          "a function of %.*s, which may act outside the model", STR_ARG(o->module));
    if (o->class_name.len && !is_keras_module(o->module))
        return scan_found(x->scan, SCAN_KERAS_CODE, where, src, at, "the class %.*s of the module %.*s",
                          STR_ARG(o->class_name), STR_ARG(o->module));
    return CKPT_OK;
}

/* set_object_text - sets o->module or o->class_name to TEXT if the last key has that name. */
static void set_object_text(struct open_object *o, ckpt_str text)
{
    if (str_is(o->key, "module"))
        o->module = text;
    if (str_is(o->key, "class_name"))
        o->class_name = text;
    o->key = STR_LIT("");
}

static ckpt_status scan_json(struct scanner *x, json_scan *json, struct open_object *open, source *src,
                             ckpt_str where)
{
    ckpt_status st = CKPT_OK;
    for (enum json_event e = json_next(json); st == CKPT_OK && e != JSON_END && e != JSON_ERROR;
         e = json_next(json)) {
        struct open_object *o = &open[json->depth]; /* bounded: JSON_DEPTH at most */
        if (e == JSON_OBJECT)
            *o = (struct open_object){.key = STR_LIT("")};
        else if (e == JSON_KEY)
            o->key = json->str;
        else if (e == JSON_STRING)
            set_object_text(o, json->str);
        else if (e == JSON_OBJECT_END)
            st = judge_object(x, &open[json->depth + 1], src, where,
                              json->event_at); /* bounded: it was open just now */
    }
    return st;
}

/* accept_python_json - overwrites a byte order mark, NaN, Infinity and lone surrogates, which Python's json
 * accepts although RFC 8259 does not, with valid JSON of the same length. */
static void accept_python_json(char *text, size_t n)
{
    bool in_string = false;
    if (n >= 3 && memcmp(text, UTF8_BOM, 3) == 0)
        memset(text, ' ', 3);
    for (size_t i = 0; i < n; i++) {
        ckpt_str rest = str_of(text + i, n - i);
        if (in_string && text[i] == '\\') {
            /* \ud800 to \udfff, a surrogate, alone or in a pair */
            if (n - i >= 6 && text[i + 1] == 'u' && (text[i + 2] | 0x20) == 'd' &&
                strchr("89abcdefABCDEF", text[i + 3]))
                memcpy(text + i + 2, "fffd", 4);
            i++;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string &&
                   (str_starts(rest, STR_LIT("NaN")) || str_starts(rest, STR_LIT("Infinity")))) {
            size_t word = text[i] == 'N' ? 3 : 8;
            memset(text + i, '1', word);
            i += word - 1; /* bounded: inside the text */
        }
    }
}

ckpt_status scan_text(struct scanner *x, source *src, ckpt_str where, uint64_t *known_bytes, ckpt_error *err)
{
    json_scan json;
    ckpt_error why;
    scan_count_bytes(src, &x->scan->result->in_text, src->size);
    struct probe p = {.size = 0};
    CKPT_TRY(recognize_fill(&p, x->path, src, err));
    if (!recognize_json(&p)) {
        *known_bytes += src->size; /* bounded: the caller's sum is at most the size of its source */
        return CKPT_OK;
    }
    if (src->size > JSON_MAX)
        return scan_found(x->scan, SCAN_NOT_OPENED, where, src, 0,
                          "JSON of {%" PRIu64 " bytes}; up to {=64 MiB} are read", src->size);
    size_t n = (size_t)src->size;
    char *text = malloc(n);
    struct open_object *open = calloc(JSON_DEPTH + 2, sizeof *open);
    arena *a = arena_new(2 * JSON_MAX);
    ckpt_status st = text && open && a ? source_read(src, 0, text, n, err) : fail_memory(err);
    if (st == CKPT_OK) {
        accept_python_json(text, n);
        json_init(&json, str_of(text, n), 0, a, &why);
        why.status = CKPT_OK;
        st = scan_json(x, &json, open, src, where);
        if (st == CKPT_OK && scan_note_system_failure(x->scan, why.status, &why))
            st = fail(err, why.status, CKPT_NO_OFFSET, "%s", why.what);
        else if (st == CKPT_OK && why.status == CKPT_ELIMIT) /* invalid JSON is merely text */
            st = scan_found(x->scan, SCAN_NOT_OPENED, where, src, why.offset, "%s", why.what);
        else
            *known_bytes += n; /* bounded: the caller's sum is at most the size of its source */
    }
    arena_free(a);
    free(open);
    free(text);
    return st;
}
