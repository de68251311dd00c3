/*
 * yaml.c - scans YAML, as configurations in .nemo, hydra's and speechbrain's are written. Loaders import and
 * call
 *   !!python/…   what the tag names; any other tag is for the program to resolve: speechbrain's !new:
 *   _target_     the class or function that its value names, with the other keys for arguments (hydra, NeMo)
 *   target, class_path   likewise (NeMo, latent-diffusion; Lightning)
 *   loader_module        what its value names, a module (MLmodel of MLflow)
 * Text that is called .yaml must be read to its end. Other text may be YAML by chance: if it can be read to
 * its end, _target_ and the tags of Python count.
 */
#include "codec/yaml_scan.h"

#include "base/text.h"
#include "op/weights_only.h"
#include "scan/scan.h"

#define UNNAMED_MAX ((size_t)1 << 20) /* bytes of text of any name that are read as YAML on trial */

/* Classes that only compute. A name is compared exactly. */
static const struct target_list harmless_targets[] = {
#define TARGETS(module, names) {module, names},
#include "scan/config_targets.def"
#undef TARGETS
};

static bool is_harmless_target(ckpt_str module, ckpt_str name)
{
    ckpt_scan_verdict verdict = name_verdict(module, name);
    return (verdict == CKPT_SCAN_ALLOW_LISTED && !name_is_only_value(module, name)) ||
           target_list_has(harmless_targets, sizeof harmless_targets / sizeof *harmless_targets, module,
                           name);
}

ckpt_status scan_config_target(struct scanner *x, source *src, ckpt_str where, size_t at, ckpt_str target)
{
    ckpt_str name = str_after_last(target, '.');
    if (target.ptr && name.len + 1 < target.len && /* bounded: a part of the text */
        is_harmless_target(str_of(target.ptr, target.len - name.len - 1), name))
        return CKPT_OK;
    return target.ptr
               ? scan_found(x->scan, SCAN_CONFIG_TARGET, where, src, at, "it names %.*s", STR_ARG(target))
               : scan_found(x->scan, SCAN_CONFIG_TARGET, where, src, at,
                            "it names what is computed while loading");
}

/* is_data_file_name - returns true if TEXT ends in a suffix of data files: it is no class or function. */
static bool is_data_file_name(ckpt_str text)
{
    return str_matches_word(str_after_last(text, '.'),
                            "ckpt csv gguf h5 hdf5 jpeg jpg json jsonl mp3 mp4 npy npz onnx parquet pdf png "
                            "pt pth safetensors tsv txt wav yaml yml",
                            str_eq);
}

/* is_dotted_name - returns true if TEXT is identifiers with dots between them, at least two. */
static bool is_dotted_name(ckpt_str text)
{
    bool has_dot = false, begins = true;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_letter = c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        bool is_part = is_letter || (!begins && c >= '0' && c <= '9');
        if (!is_part && (c != '.' || begins))
            return false;
        has_dot |= c == '.';
        begins = c == '.';
    }
    return has_dot && !begins;
}

static bool is_harmless_tag(ckpt_str tag)
{
    static const char prefix[] = "!<tag:yaml.org,2002:";
    static const char harmless[] =
        "str int float bool null seq map omap pairs set timestamp binary merge value python/none "
        "python/bool python/str python/unicode python/bytes python/int python/long python/float "
        "python/complex python/list python/tuple python/dict";
    if (str_starts(tag, str_c(prefix)) && str_ends(tag, STR_LIT(">")))
        tag = str_of(tag.ptr + sizeof prefix - 1, tag.len - sizeof prefix); /* bounded: it has both */
    else if (str_starts(tag, STR_LIT("!!")))
        tag = str_skip(tag, 2);
    else
        return str_is(tag, "!");
    return str_matches_word(tag, harmless, str_eq);
}

/* How far a key and its value were read. */
enum key_state { NO_KEY, AFTER_TARGET, BEFORE_VALUE };

struct yaml_visit {
    struct scanner *x;
    source *src;
    ckpt_str where;
    yaml_scan y;
    enum key_state state;
    bool is_certain;       /* the key is _target_, which means nothing else */
    bool after_loader_key; /* the last scalar is the key loader_module */
    bool has_anchor;       /* an anchor precedes the token: an alias may use it elsewhere */
    bool is_yaml_name;
    bool reporting;
    bool found;
};

static ckpt_status report_target(struct yaml_visit *v, ckpt_str target)
{
    v->found = true;
    return v->reporting ? scan_config_target(v->x, v->src, v->where, v->y.token_at, target) : CKPT_OK;
}

/* report_tag - reports TAG. In text of another name, which may be YAML by chance, only tags of Python count.
 * */
static ckpt_status report_tag(struct yaml_visit *v, const char *what, ckpt_str tag)
{
    if (!v->is_yaml_name && tag.len && str_find(tag, STR_LIT("python/"), 0) == SIZE_MAX)
        return CKPT_OK;
    v->found = true;
    return v->reporting ? scan_found(v->x->scan, SCAN_YAML_TAG, v->where, v->src, v->y.token_at, "%s %.*s",
                                     what, STR_ARG(tag))
                        : CKPT_OK;
}

/* report_loader_module - reports MODULE, the value of loader_module, unless it is one of MLflow. */
static ckpt_status report_loader_module(struct yaml_visit *v, ckpt_str module)
{
    if (str_is(module, "mlflow") || str_starts(module, STR_LIT("mlflow.")))
        return CKPT_OK;
    v->found = true;
    return v->reporting ? scan_found(v->x->scan, SCAN_LOADER_CODE, v->where, v->src, v->y.token_at,
                                     "%.*s, what MLflow imports", STR_ARG(module))
                        : CKPT_OK;
}

/* visit_scalar - judges a scalar: a key, if a colon follows, or the value of such a key. */
static ckpt_status visit_scalar(struct yaml_visit *v)
{
    ckpt_str text = yaml_text(&v->y);
    bool is_target = str_is(text, "_target_");
    bool may_be_target = v->is_yaml_name && (str_is(text, "target") || str_is(text, "class_path"));
    ckpt_status st = CKPT_OK;
    bool is_name = !text.ptr || (is_dotted_name(text) && !is_data_file_name(text));
    if (v->after_loader_key)
        st = report_loader_module(v, text);
    v->after_loader_key = !v->after_loader_key && str_is(text, "loader_module");
    if (st != CKPT_OK)
        return st;
    if (v->state == BEFORE_VALUE && (v->is_certain || is_name))
        st = report_target(v, text);
    else if (v->state == AFTER_TARGET && v->is_certain) /* the key was no key */
        st = report_target(v, (ckpt_str){NULL, 0});
    v->state = is_target || (may_be_target && v->state != BEFORE_VALUE) ? AFTER_TARGET : NO_KEY;
    v->is_certain = is_target;
    if (st == CKPT_OK && v->state == AFTER_TARGET && v->has_anchor)
        st = report_target(v, (ckpt_str){NULL, 0});
    return st;
}

static ckpt_status visit_token(struct yaml_visit *v, enum yaml_token token)
{
    ckpt_status st = CKPT_OK;
    bool had_anchor = v->has_anchor;
    v->has_anchor = had_anchor && token == YAML_TAG;
    switch (token) {
    case YAML_TAG:
        return yaml_text(&v->y).ptr && is_harmless_tag(yaml_text(&v->y))
                   ? CKPT_OK
                   : report_tag(v, "the tag", yaml_text(&v->y));
    case YAML_TAG_DIRECTIVE: return report_tag(v, "%TAG, which gives tags another meaning", STR_LIT(""));
    case YAML_ANCHOR: v->has_anchor = true; return CKPT_OK;
    case YAML_SCALAR:
        v->has_anchor = had_anchor;
        st = visit_scalar(v);
        v->has_anchor = false;
        return st;
    case YAML_KEY:
    case YAML_VALUE:
        if (v->state == AFTER_TARGET) {
            v->state = BEFORE_VALUE;
            return CKPT_OK;
        }
        break;
    default: break;
    }
    v->after_loader_key = v->after_loader_key && (token == YAML_KEY || token == YAML_VALUE);
    if (v->state != NO_KEY && (v->is_certain || token == YAML_ALIAS))
        st = report_target(v, (ckpt_str){NULL, 0});
    v->state = NO_KEY;
    return st;
}

/* visit_tokens - judges all tokens. CKPT_EFORMAT: TEXT is no YAML. */
static ckpt_status visit_tokens(struct yaml_visit *v, ckpt_str text, ckpt_error *err)
{
    enum yaml_token token;
    ckpt_status st = CKPT_OK;
    yaml_init(&v->y, text, err);
    v->state = NO_KEY;
    do {
        token = yaml_next(&v->y);
        st = token == YAML_ERROR ? CKPT_EFORMAT : visit_token(v, token);
    } while (st == CKPT_OK && token != YAML_END);
    return st;
}

/* is_worth_reading - returns true if TEXT, whose name is not that of YAML, is read as YAML all the same. */
static bool is_worth_reading(ckpt_str text)
{
    if (text.len <= UNNAMED_MAX)
        return true;
    return str_find(text, STR_LIT("_target_"), 0) != SIZE_MAX ||
           str_find(text, STR_LIT("!!python/"), 0) != SIZE_MAX ||
           str_find(text, STR_LIT("tag:yaml.org,2002:python"), 0) != SIZE_MAX;
}

ckpt_status scan_yaml(struct scanner *x, source *src, ckpt_str where, ckpt_str text, bool is_yaml_name,
                      bool *all_read, ckpt_error *err)
{
    ckpt_error why;
    *all_read = true;
    if (!is_yaml_name && !is_worth_reading(text))
        return CKPT_OK;
    struct yaml_visit *v = arena_alloc(x->a, sizeof *v);
    if (!v)
        return fail_memory(err);
    *v = (struct yaml_visit){
        .x = x, .src = src, .where = where, .is_yaml_name = is_yaml_name, .reporting = is_yaml_name};
    ckpt_status st = visit_tokens(v, text, &why);
    if (st == CKPT_OK && !is_yaml_name && v->found) {
        v->reporting = true;
        st = visit_tokens(v, text, &why);
    }
    if (st != CKPT_EFORMAT)
        return st;
    *all_read = !is_yaml_name;
    return is_yaml_name ? scan_found(x->scan, SCAN_NOT_OPENED, where, src, why.offset, "%s", why.what)
                        : CKPT_OK;
}
