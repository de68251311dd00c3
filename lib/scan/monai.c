/*
 * monai.c - finds the expressions in the configurations of a MONAI bundle, in JSON or YAML. MONAI evaluates
 * each text that begins with "$" as Python, or imports what "$import …" names (bundle/config_item.py,
 * ConfigExpression); "@id" in it is another part of the configuration. A text "%FILE.json::id" stands for a
 * part of another file. What "_target_" names is judged like that of hydra.
 *
 * A "$" means nothing in other files. So it counts only where MONAI looks for configurations (the folders
 * configs and extra of a bundle), under the names that bundles give them, next to a "_target_", or if a text
 * imports a module. "${name}" is also an interpolation of hydra; without a call it does nothing in Python.
 */
#include "codec/json_scan.h"
#include "scan/scan.h"

#define FOLDERS "configs extra"
/* of files, without the suffix */
#define NAMES                                                                                                \
    "train training infer inference inference_trt evaluate evaluation multi_gpu_train multi_gpu_evaluate "   \
    "mgpu_train mgpu_evaluate"

bool monai_is_config_path(ckpt_str path)
{
    path = str_after_last(path, '!');
    ckpt_str name = str_after_last(path, '/'), folder = str_folder(path);
    if (!str_ends_any_case(name, STR_LIT(".json")) && !str_ends_any_case(name, STR_LIT(".yaml")) &&
        !str_ends_any_case(name, STR_LIT(".yml")))
        return false;
    folder.len -= folder.len > 0;
    name.len -= str_after_last(name, '.').len + 1;
    return str_matches_word(str_after_last(folder, '/'), FOLDERS, str_eq) ||
           str_matches_word(name, NAMES, str_eq);
}

bool monai_is_import(ckpt_str text)
{
    return str_starts(text, STR_LIT("$import ")) || str_starts(text, STR_LIT("$from "));
}

/* is_interpolation - returns true if TEXT is "${name}" of hydra, also with more text, and calls nothing. */
static bool is_interpolation(ckpt_str text)
{
    return str_starts(text, STR_LIT("${")) && !str_has(text, STR_LIT("("));
}

/* is_foreign_macro - returns true if TEXT stands for a part of a file outside of the folder. */
static bool is_foreign_macro(ckpt_str text)
{
    return str_starts(text, STR_LIT("%")) && scan_path_leaves_folder(str_skip(text, 1)) &&
           (str_has(text, STR_LIT(".json")) || str_has(text, STR_LIT(".y")));
}

bool monai_acts_on(ckpt_str text)
{
    size_t ignored;
    /* Python refuses white space before the expression */
    bool is_expression = text.len > 1 && text.ptr[0] == '$' && text.ptr[1] != ' ' && text.ptr[1] != '\t';
    return (is_expression && !is_interpolation(text) &&
            !expression_is_arithmetic(str_skip(text, 1), false, &ignored)) ||
           is_foreign_macro(text);
}

ckpt_status monai_report(const struct scanned *in, uint64_t at, ckpt_str text)
{
    if (is_foreign_macro(text))
        return SCAN_FOUND(in, SCAN_LOADER_CODE, at,
                          "%.*s, a configuration outside of the folder that MONAI reads and evaluates",
                          STR_ARG(text));
    return SCAN_FOUND(in, SCAN_EVALUATED_TEXT, at, "{%.*s} is not {=arithmetic}, and MONAI evaluates it",
                      STR_ARG(text));
}

/* visit_texts - reports the expressions in FILE if REPORTING. Else sets *IS_CONFIG if FILE has what only a
 * configuration has. */
static ckpt_status visit_texts(const struct yaml_file *file, bool reporting, bool *is_config, arena *a)
{
    json_scan json;
    ckpt_error ignored;
    ckpt_status st = CKPT_OK;
    json_init(&json, file->text, 0, a, &ignored);
    for (enum json_event e = json_next(&json); st == CKPT_OK && e != JSON_END && e != JSON_ERROR;
         e = json_next(&json)) {
        if (!reporting)
            *is_config |= (e == JSON_KEY && str_is(json.str, "_target_")) ||
                          (e == JSON_STRING && monai_is_import(json.str));
        else if (e == JSON_STRING && monai_acts_on(json.str))
            st = monai_report(file->in, json.event_at, json.str);
    }
    return st;
}

/* may_act - returns true if the JSON TEXT has a character by which MONAI acts on a text, or an escape of one.
 * Few files do, and only these are read again. */
static bool may_act(ckpt_str text)
{
    return str_has(text, STR_LIT("\"$")) || str_has(text, STR_LIT("\"%")) ||
           str_has(text, STR_LIT("\"\\u002"));
}

ckpt_status monai_scan_json(const struct yaml_file *file, ckpt_error *err)
{
    bool is_config = monai_is_config_path(file->in->where.len ? file->in->where : str_c(file->in->x->path));
    if (!may_act(file->text))
        return CKPT_OK;
    arena *a = arena_new(2 * (uint64_t)file->text.len + 65536);
    CKPT_TRY_ALLOC(a, err);
    ckpt_status st = is_config ? CKPT_OK : visit_texts(file, false, &is_config, a);
    if (st == CKPT_OK && is_config)
        st = visit_texts(file, true, &is_config, a);
    arena_free(a);
    return st;
}
