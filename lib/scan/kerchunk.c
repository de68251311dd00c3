/*
 * kerchunk.c - finds templates of Jinja in the references of kerchunk, JSON by which fsspec makes one array
 * of parts of other files (fsspec/implementations/reference.py):
 *   {"version": 1, "templates": {"u": TEMPLATE}, "refs": {"a/0": [TEMPLATE, offset, length]},
 *    "gen": [{"key": TEMPLATE, "url": TEMPLATE, …}]}
 * Any of "templates", "refs" and "gen" may be missing. fsspec 2026.9 renders them in the sandbox of Jinja;
 * versions without it let an attribute lead from any name to all of Python. They are data if they only put
 * together names, numbers and calls of templates: "{{u}}/{{i * 2}}".
 */
#include "codec/json_scan.h"
#include "scan/scan.h"

/* get_code - returns the text between the next "{{" or "{%" of TEXT at or after *POS and its end, and moves
 * *POS after it; .ptr NULL: there is none. */
static ckpt_str get_code(ckpt_str text, size_t *pos)
{
    for (size_t i = *pos; i + 1 < text.len; i++) {
        bool is_value = text.ptr[i + 1] == '{';
        if (text.ptr[i] != '{' || (!is_value && text.ptr[i + 1] != '%'))
            continue;
        ckpt_str rest = str_skip(text, is_value ? i + 2 : i + 1);
        size_t end = str_find(rest, is_value ? STR_LIT("}}") : STR_LIT("%}"), 0);
        ckpt_str code = str_first(rest, end);
        *pos = (size_t)(code.ptr - text.ptr) + code.len;
        return code;
    }
    return (ckpt_str){NULL, 0};
}

/* is_plain - returns true if CODE has no statement, attribute, item or filter. */
static bool is_plain(ckpt_str code)
{
    for (size_t i = 0; i < code.len; i++) {
        char next = i + 1 < code.len ? code.ptr[i + 1] : '\0';
        bool is_fraction = code.ptr[i] == '.' && next >= '0' && next <= '9';
        if (code.ptr[i] && strchr("%.[|", code.ptr[i]) && !is_fraction)
            return false;
    }
    return true;
}

/* visit_texts - reports the templates of FILE if REPORTING. Sets *FOUND to whether FILE has the keys that
 * fsspec needs. */
static ckpt_status visit_texts(const struct yaml_file *file, bool reporting, bool *found, arena *a)
{
    json_scan json;
    ckpt_error ignored;
    ckpt_status st = CKPT_OK;
    bool has_version = false, has_parts = false, is_template = false;
    json_init(&json, file->text, 0, a, &ignored);
    for (enum json_event e = json_next(&json); st == CKPT_OK && e != JSON_END && e != JSON_ERROR;
         e = json_next(&json)) {
        if (e == JSON_KEY && json.depth == 1) {
            has_version |= str_is(json.str, "version");
            has_parts |= str_matches_word(json.str, "refs gen", str_eq);
            is_template = str_matches_word(json.str, "templates refs gen", str_eq);
        }
        size_t pos = 0;
        ckpt_str code = {NULL, 0};
        if (reporting && is_template && e == JSON_STRING)
            code = get_code(json.str, &pos);
        while (code.ptr && is_plain(code))
            code = get_code(json.str, &pos);
        if (code.ptr)
            st = SCAN_FOUND(file->in, SCAN_EVALUATED_TEXT, json.event_at,
                            "{%.*s} is more than {=names and numbers}, and fsspec renders it by Jinja",
                            STR_ARG(code));
    }
    *found = has_version && has_parts;
    return st;
}

ckpt_status kerchunk_scan_json(const struct yaml_file *file, ckpt_error *err)
{
    bool found = false;
    bool may_have_template = str_has(file->text, STR_LIT("{{")) || str_has(file->text, STR_LIT("{%")) ||
                             str_has(file->text, STR_LIT("\\u00"));
    if (!may_have_template)
        return CKPT_OK;
    arena *a = arena_new(2 * (uint64_t)file->text.len + 65536);
    CKPT_TRY_ALLOC(a, err);
    ckpt_status st = visit_texts(file, false, &found, a);
    if (st == CKPT_OK && found)
        st = visit_texts(file, true, &found, a);
    arena_free(a);
    return st;
}
