/*
 * text.c - scans text. Text is only data, except where a loader takes it for more: JSON can describe a model
 * of Keras (keras.c).
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
    struct keras_object keras;
    ckpt_str key; /* the last key; empty after a value that is a text */
};

/* end_object - judges O, which ends at AT, and notes in OUTER, the object around it, what it needs of O. */
static ckpt_status end_object(struct scanner *x, const struct open_object *o, struct open_object *outer,
                              source *src, ckpt_str where, size_t at)
{
    if (str_is(outer->key, "config"))
        outer->keras.config_file_key = o->keras.file_key;
    return keras_judge(x, &o->keras, src, where, at);
}

static ckpt_status scan_json(struct scanner *x, json_scan *json, struct open_object *open, source *src,
                             ckpt_str where)
{
    ckpt_status st = CKPT_OK;
    for (enum json_event e = json_next(json); st == CKPT_OK && e != JSON_END && e != JSON_ERROR;
         e = json_next(json)) {
        struct open_object *o = &open[json->depth]; /* bounded: JSON_DEPTH at most */
        if (e == JSON_OBJECT) {
            *o = (struct open_object){.key = STR_LIT("")};
        } else if (e == JSON_KEY) {
            o->key = json->str;
        } else if (e == JSON_STRING) {
            keras_note_text(&o->keras, o->key, json->str);
            o->key = STR_LIT("");
        } else if (e == JSON_OBJECT_END) { /* bounded: it was open just now */
            st = end_object(x, &open[json->depth + 1], o, src, where, json->event_at);
        }
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
