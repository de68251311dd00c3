/*
 * yaml.c - scans YAML, as configurations in .nemo, hydra's and speechbrain's are written. Loaders import and
 * call
 *   !!python/…   what the tag names; any other tag is for the program to resolve: speechbrain's !new:
 *   _target_ …   the class or function that its value names, with the other keys for arguments; see
 *                config_keys.def
 *   name   likewise, in "pipeline" and "preprocessors" (pyannote; in a list of Rasa's)
 *   loader_module, keras_module, model_code_path   what its value names, a module or file (MLflow)
 *   location   what torchsnapshot opens, if the file is called .snapshot_metadata
 *   python_model, data …   what MLflow opens, if it is called MLmodel
 *   activation, backbone, head   expressions, which YOLO evaluates; see yolo.c
 *   "$…"   as a value in a configuration of MONAI, an expression of Python; see monai.c
 * Text that is called .yaml must be read to its end. Other text may be YAML by chance: if it can be read to
 * its end, the keys of config_keys.def and the tags of Python count.
 */
#include "codec/yaml_scan.h"

#include "scan/scan.h"

#define NEMO_CONFIG "model_config.yaml" /* where NeMo calls "target", whatever the other keys are */
#define UNNAMED_MAX ((size_t)1 << 20)   /* bytes of text of any name that are read as YAML on trial */

static bool is_harmless_tag(ckpt_str tag)
{
    static const char prefix[] = "!<tag:yaml.org,2002:";
    static const char harmless[] =
        "str int float bool null seq map omap pairs set timestamp binary merge value python/none "
        "python/bool python/str python/unicode python/bytes python/int python/long python/float "
        "python/complex python/list python/tuple python/dict";
    if (str_starts(tag, str_c(prefix)) && str_ends(tag, STR_LIT(">")))
        tag = str_of(tag.ptr + sizeof prefix - 1, tag.len - sizeof prefix);
    else if (str_starts(tag, STR_LIT("!!")))
        tag = str_skip(tag, 2);
    else
        return str_is(tag, "!");
    return str_matches_word(tag, harmless, str_eq);
}

/* Keys that name what a loader imports, runs or opens. */
static const struct config_key {
    const char *key; /* or several with blanks between them */
    enum { NAMES_TARGET, NAMES_MODULE, NAMES_FILE, NAMES_EXPRESSION } names;
    enum scan_key counts; /* ALWAYS: it means nothing else; a value that is no scalar is reported, too */
    const char *packages; /* of a module: those whose modules are harmless; of a file: where the key is one */
    const char *what;     /* a module is */
    bool in_pipeline;     /* it counts only in a file that has the text "pipeline" or "preprocessors" */
} config_keys[] = {
#define TARGET_KEY(key, counts) {key, NAMES_TARGET, SCAN_KEY_##counts, NULL, NULL, false},
#include "scan/config_keys.def"
#undef TARGET_KEY
    {"name", NAMES_TARGET, SCAN_KEY_DOTTED, NULL, NULL, true},
    {"loader_module", NAMES_MODULE, SCAN_KEY_OTHER, "mlflow", "what MLflow imports", false},
    {"keras_module", NAMES_MODULE, SCAN_KEY_OTHER, "keras tensorflow tf_keras", "what MLflow imports", false},
    {"model_code_path", NAMES_MODULE, SCAN_KEY_OTHER, "", "what MLflow runs", false},
    {"custom_imports", NAMES_MODULE, SCAN_KEY_ALWAYS, "null ~", "by which mmengine imports modules", false},
    {"trust_remote_code", NAMES_MODULE, SCAN_KEY_OTHER,
     "false False FALSE no No NO off Off OFF n N 0 null ~ None", TRUSTS_CODE, false},
    {"activation", NAMES_EXPRESSION, SCAN_KEY_DOTTED, NULL, NULL, false},
    {"location", NAMES_FILE, SCAN_KEY_OTHER, ".snapshot_metadata", NULL, false},
    {"agent_data code data dense_model model_binary model_data path persist_dir pickled_model python_model "
     "saved_model_dir sparse_model tools_data",
     NAMES_FILE, SCAN_KEY_OTHER, "MLmodel", NULL, false},
};

/* How far a key and its value were read. */
enum key_state { NO_KEY, AFTER_KEY, BEFORE_VALUE };

#define LEVELS (2 * YAML_DEPTH) /* block and flow collections within each other */

/* Where the lists of layers of YOLO are. */
struct layers {
    enum { NO_LAYERS, BEFORE_LAYERS, IN_LAYERS } state;
    size_t level;       /* of the mapping that has the key */
    bool is_indentless; /* the items of the list are as far to the left as that key */
    size_t value_level; /* of the mapping in the list whose values are no layers; 0: none */
    bool may_be_key;    /* the last token is a key of such a list if a colon follows */
    bool follows_colon;
};

struct yaml_visit {
    const struct scanned *in;
    const struct yaml_file *f;
    yaml_scan y;
    enum key_state state;
    const struct config_key *key; /* unless the state is NO_KEY */
    bool has_anchor;              /* an anchor precedes the token: an alias may use it elsewhere */
    struct layers layers;
    bool has_classes;   /* a scalar is "nc", which YOLO needs */
    bool has_pipeline;  /* a scalar is "pipeline" or "preprocessors" */
    bool may_be_params; /* the last scalar or alias may be the key "params", or bring that key */
    struct target_object mappings[LEVELS + 1]; /* [level]: of those that are open */
    size_t level;                              /* how many collections are open */
    bool is_monai;                             /* it is a configuration of MONAI */
    /* the last scalar, if it is an expression of MONAI unless it turns out to be a key; else empty */
    char expression[YAML_TEXT_MAX];
    size_t expression_length, expression_at;
    bool reporting, found;
};

static bool is_certain(const struct config_key *key) { return key->counts == SCAN_KEY_ALWAYS; }

/* find_key - returns the row of TEXT in config_keys; NULL: it has none that applies to the file. */
static const struct config_key *find_key(const struct yaml_visit *visit, ckpt_str text)
{
    for (size_t i = 0; i < sizeof config_keys / sizeof *config_keys; i++) {
        const struct config_key *k = &config_keys[i];
        bool applies = k->names == NAMES_FILE         ? str_is(visit->f->name, k->packages)
                       : k->names == NAMES_TARGET     ? !k->in_pipeline || visit->f->is_yaml_name
                       : k->names == NAMES_EXPRESSION ? visit->f->is_yaml_name
                                                      : !is_certain(k) || visit->f->is_yaml_name;
        if (applies && str_matches_word(text, k->key, str_eq))
            return k;
    }
    return NULL;
}

static ckpt_status report_module(struct yaml_visit *visit, ckpt_str module)
{
    ckpt_str package = str_before(module, '.');
    if (module.ptr && str_matches_word(package, visit->key->packages, str_eq))
        return CKPT_OK;
    visit->found = true;
    return visit->reporting ? SCAN_FOUND(visit->in, SCAN_LOADER_CODE, visit->y.token_at, "%.*s, %s",
                                         STR_ARG(is_certain(visit->key) ? str_c(visit->key->key)
                                                 : module.ptr ? module
                                                              : STR_LIT("the value of an anchor or alias")),
                                         visit->key->what)
                            : CKPT_OK;
}

static ckpt_status report_location(struct yaml_visit *visit, ckpt_str path)
{
    if (path.ptr && !scan_path_leaves_folder(path))
        return CKPT_OK;
    visit->found = true;
    if (!visit->reporting)
        return CKPT_OK;
    return path.ptr ? SCAN_FOUND(visit->in, SCAN_EXTERNAL_PATH, visit->y.token_at,
                                 "an entry is in \"%.*s\", outside of the folder", STR_ARG(path))
                    : SCAN_FOUND(visit->in, SCAN_EXTERNAL_PATH, visit->y.token_at,
                                 "an entry is in a file that an anchor or alias names, perhaps outside of "
                                 "the folder");
}

static ckpt_status report_activation(struct yaml_visit *visit, ckpt_str text)
{
    if (text.ptr && yolo_is_activation(text))
        return CKPT_OK;
    visit->found = true;
    return visit->reporting
               ? SCAN_FOUND(visit->in, SCAN_EVALUATED_TEXT, visit->y.token_at,
                            "{%.*s} is not {=a class of torch.nn}, and YOLO evaluates it",
                            STR_ARG(text.ptr ? text : STR_LIT("the value of an anchor or alias")))
               : CKPT_OK;
}

/* report_layer - reports TEXT, which is in a list of layers; .ptr NULL: it is not known. */
static ckpt_status report_layer(struct yaml_visit *visit, ckpt_str text)
{
    if (text.ptr && yolo_is_layer(text))
        return CKPT_OK;
    visit->found = true;
    if (!visit->reporting)
        return CKPT_OK;
    return scan_target_runs_code(text)
               ? scan_config_target(visit->in, visit->y.token_at, text)
               : SCAN_FOUND(visit->in, SCAN_EVALUATED_TEXT, visit->y.token_at,
                            "{%.*s} is not {=the name of a layer or a number}, and YOLO evaluates it",
                            STR_ARG(text.ptr ? text : STR_LIT("the value of an anchor or alias")));
}

/* first_byte - returns the first byte of the last token; NUL: it has none. */
static char first_byte(const struct yaml_visit *visit)
{
    return visit->y.token_at < visit->y.bytes.len ? visit->y.bytes.ptr[visit->y.token_at] : '\0';
}

/* visit_item - judges TOKEN, which is in a list of layers. YOLO evaluates what is in lists in that list, and
 * the keys of a mapping in place of such a list. */
static ckpt_status visit_item(struct yaml_visit *visit, enum yaml_token token)
{
    struct layers *l = &visit->layers;
    size_t depth = visit->level - l->level + l->is_indentless;
    bool is_colon = token == YAML_KEY || token == YAML_VALUE;
    if (visit->level < l->value_level || (is_colon && !l->value_level))
        l->value_level = is_colon ? visit->level : 0;
    else if (visit->level == l->value_level && first_byte(visit) == ',') /* perhaps of [key: value, item] */
        l->value_level = 0;
    bool is_value = l->value_level && (visit->level > l->value_level || l->follows_colon);
    if (token == YAML_ALIAS)
        return report_layer(visit, (ckpt_str){NULL, 0});
    return token == YAML_SCALAR && depth > 1 && !is_value ? report_layer(visit, yaml_text(&visit->y))
                                                          : CKPT_OK;
}

/* visit_layers - follows TOKEN to the lists of layers, and judges it if it is in one. */
static ckpt_status visit_layers(struct yaml_visit *visit, enum yaml_token token)
{
    struct layers *l = &visit->layers;
    ckpt_status st = CKPT_OK;
    bool is_colon = token == YAML_KEY || token == YAML_VALUE;
    if (token == YAML_TAG || token == YAML_ANCHOR)
        return CKPT_OK;
    if (l->state == BEFORE_LAYERS) {
        bool is_list = token == YAML_OTHER && (first_byte(visit) == '[' || first_byte(visit) == '-');
        l->state = is_list ? IN_LAYERS : NO_LAYERS;
        l->is_indentless = visit->level == l->level;
        l->value_level = 0;
        if (token == YAML_ALIAS && visit->has_classes)
            st = report_layer(visit, (ckpt_str){NULL, 0});
    } else if (l->state == IN_LAYERS) {
        bool is_outside = visit->level < l->level ||
                          (visit->level == l->level && (is_colon || !l->is_indentless));
        l->state = is_outside ? NO_LAYERS : IN_LAYERS;
        st = is_outside ? CKPT_OK : visit_item(visit, token);
    }
    if (l->state == NO_LAYERS && is_colon && l->may_be_key) {
        l->state = BEFORE_LAYERS;
        l->level = visit->level;
    }
    ckpt_str text = token == YAML_SCALAR ? yaml_text(&visit->y) : STR_LIT("");
    visit->has_classes |= str_is(text, "nc");
    l->may_be_key = token == YAML_ALIAS || str_matches_word(text, "backbone head", str_eq);
    l->follows_colon = is_colon;
    return st;
}

/* note_target - notes TEXT, of which the other keys of its mapping decide whether it is a target. */
static ckpt_status note_target(struct yaml_visit *visit, ckpt_str text)
{
    visit->found = true;
    if (!visit->reporting)
        return CKPT_OK;
    ckpt_str kept = text.ptr ? ARENA_CONCAT(visit->in->x->a, text) : text;
    if (text.ptr && !kept.ptr)
        return scan_note_system_failure(visit->in->x->scan, CKPT_ENOMEM, NULL) ? CKPT_OK : CKPT_ENOMEM;
    scan_note_target(&visit->mappings[visit->level], visit->y.token_at, kept);
    return CKPT_OK;
}

/* move_to_level - judges the mappings that the last token ended, and begins those that it opened. */
static ckpt_status move_to_level(struct yaml_visit *visit, size_t level)
{
    for (; visit->level > level; visit->level--) {
        struct target_object *o = &visit->mappings[visit->level];
        o->has_params |= str_is(visit->f->name, NEMO_CONFIG);
        o->has_target &= visit->f->is_yaml_name || o->has_params; /* prose may have a line "target: a.b" */
        CKPT_TRY(scan_judge_object(visit->in, o));
    }
    while (visit->level < level)
        visit->mappings[++visit->level] = (struct target_object){.nkeys = 0};
    return CKPT_OK;
}

/* note_key - notes that TOKEN, a colon, makes the scalar or alias before it a key of its mapping. */
static void note_key(struct yaml_visit *visit, enum yaml_token token)
{
    struct target_object *o = &visit->mappings[visit->level];
    if (token == YAML_KEY || token == YAML_VALUE) {
        o->nkeys++;
        o->has_params |= visit->may_be_params;
    }
    visit->may_be_params = token == YAML_ALIAS ||
                           (token == YAML_SCALAR &&
                            str_matches_word(yaml_text(&visit->y), "params <<", str_eq));
}

/* report_value - reports TEXT, the value of visit->key; .ptr NULL: the value is not known. */
static ckpt_status report_value(struct yaml_visit *visit, ckpt_str text)
{
    if (visit->key->names == NAMES_MODULE)
        return report_module(visit, text);
    if (visit->key->names == NAMES_FILE)
        return report_location(visit, text);
    if (visit->key->names == NAMES_EXPRESSION)
        return report_activation(visit, text);
    bool is_certain_target = text.ptr ? scan_names_target(visit->key->counts, text)
                                      : visit->state == AFTER_KEY;
    if (visit->key->counts == SCAN_KEY_WITH_PARAMS && !is_certain_target)
        return note_target(visit, text);
    if (text.ptr ? !scan_names_target(visit->key->counts, text) : visit->key->counts == SCAN_KEY_RUNS_CODE)
        return CKPT_OK;
    if (visit->reporting && visit->key->in_pipeline && !visit->has_pipeline)
        return CKPT_OK;
    visit->found = true;
    return visit->reporting ? scan_config_target(visit->in, visit->y.token_at, text) : CKPT_OK;
}

/* report_tag - reports TAG. In text of another name, which may be YAML by chance, only tags of Python count.
 * */
static ckpt_status report_tag(struct yaml_visit *visit, const char *what, ckpt_str tag)
{
    if (!visit->f->is_yaml_name && tag.len && !str_has(tag, STR_LIT("python/")))
        return CKPT_OK;
    visit->found = true;
    return visit->reporting
               ? SCAN_FOUND(visit->in, SCAN_YAML_TAG, visit->y.token_at, "%s %.*s", what, STR_ARG(tag))
               : CKPT_OK;
}

/* visit_scalar - judges a scalar: a key, if a colon follows, or the value of such a key. */
static ckpt_status visit_scalar(struct yaml_visit *visit)
{
    static const ckpt_str unknown = {NULL, 0};
    ckpt_str text = yaml_text(&visit->y);
    const struct config_key *key = find_key(visit, text);
    visit->has_pipeline |= str_matches_word(text, "pipeline preprocessors", str_eq);
    bool is_value = visit->state == BEFORE_VALUE;
    if (is_value)
        CKPT_TRY(report_value(visit, text));
    else if (visit->state == AFTER_KEY && is_certain(visit->key)) /* the key was no key */
        CKPT_TRY(report_value(visit, unknown));
    visit->state = key && (is_certain(key) || !is_value) ? AFTER_KEY : NO_KEY;
    visit->key = key;
    return visit->state == AFTER_KEY && visit->has_anchor ? report_value(visit, unknown) : CKPT_OK;
}

/* note_expression - keeps the scalar that was read, if MONAI would evaluate it. */
static void note_expression(struct yaml_visit *visit)
{
    ckpt_str text = str_of(visit->y.text, visit->y.text_length);
    visit->is_monai |= str_is(text, "_target_") || monai_is_import(text);
    bool is_long = visit->y.text_is_cut && str_starts(text, STR_LIT("$"));
    if (!visit->f->is_yaml_name || !(is_long || monai_acts_on(text)))
        return;
    memcpy(visit->expression, text.ptr, text.len);
    visit->expression_length = text.len;
    visit->expression_at = visit->y.token_at;
}

/* report_expression - reports the scalar that note_expression kept, unless TOKEN, which follows it, makes it
 * a key. */
static ckpt_status report_expression(struct yaml_visit *visit, enum yaml_token token)
{
    ckpt_str text = str_of(visit->expression, visit->expression_length);
    visit->expression_length = 0;
    if (!text.len || (token == YAML_KEY && visit->y.key_is_scalar))
        return CKPT_OK;
    visit->found = true;
    return visit->reporting && visit->is_monai ? monai_report(visit->in, visit->expression_at, text)
                                               : CKPT_OK;
}

static ckpt_status visit_token(struct yaml_visit *visit, enum yaml_token token)
{
    ckpt_status st = report_expression(visit, token);
    CKPT_THEN(st, move_to_level(visit, token == YAML_END ? 0 : visit->y.nindents + visit->y.flow_depth));
    if (st == CKPT_OK && visit->f->is_yaml_name)
        st = visit_layers(visit, token);
    if (st != CKPT_OK)
        return st;
    note_key(visit, token);
    if (token == YAML_SCALAR)
        note_expression(visit);
    bool had_anchor = visit->has_anchor;
    visit->has_anchor = had_anchor && token == YAML_TAG;
    switch (token) {
    case YAML_TAG:
        return yaml_text(&visit->y).ptr && is_harmless_tag(yaml_text(&visit->y))
                   ? CKPT_OK
                   : report_tag(visit, "the tag", yaml_text(&visit->y));
    case YAML_TAG_DIRECTIVE: return report_tag(visit, "%TAG, which gives tags another meaning", STR_LIT(""));
    case YAML_ANCHOR: visit->has_anchor = true; return CKPT_OK;
    case YAML_SCALAR:
        visit->has_anchor = had_anchor;
        st = visit_scalar(visit);
        visit->has_anchor = false;
        return st;
    case YAML_KEY:
    case YAML_VALUE:
        if (visit->state == AFTER_KEY) {
            visit->state = BEFORE_VALUE;
            return CKPT_OK;
        }
        break;
    default: break;
    }
    if (visit->state != NO_KEY && (is_certain(visit->key) || token == YAML_ALIAS))
        st = report_value(visit, (ckpt_str){NULL, 0});
    visit->state = NO_KEY;
    return st;
}

/* visit_tokens - judges all tokens. CKPT_EFORMAT: the file is no YAML. */
static ckpt_status visit_tokens(struct yaml_visit *visit, ckpt_error *err)
{
    enum yaml_token token;
    ckpt_status st = CKPT_OK;
    yaml_init(&visit->y, visit->f->text, err);
    visit->state = NO_KEY;
    visit->level = 0;
    visit->layers = (struct layers){.state = NO_LAYERS};
    do {
        token = yaml_next(&visit->y);
        st = token == YAML_ERROR ? CKPT_EFORMAT : visit_token(visit, token);
    } while (st == CKPT_OK && token != YAML_END);
    return st;
}

/* is_worth_reading - returns true if TEXT, whose name is not that of YAML, is read as YAML all the same. */
static bool is_worth_reading(ckpt_str text)
{
    if (text.len <= UNNAMED_MAX)
        return true;
    for (size_t i = 0; i < sizeof config_keys / sizeof *config_keys; i++)
        if (is_certain(&config_keys[i]) && config_keys[i].names == NAMES_TARGET &&
            str_has(text, str_c(config_keys[i].key)))
            return true;
    return str_has(text, STR_LIT("class_path")) || str_has(text, STR_LIT("!!python/")) ||
           str_has(text, STR_LIT("tag:yaml.org,2002:python"));
}

ckpt_status scan_yaml(const struct yaml_file *file, bool *all_read, ckpt_error *err)
{
    ckpt_error why;
    *all_read = true;
    if (!file->is_yaml_name && !is_worth_reading(file->text))
        return CKPT_OK;
    struct yaml_visit *v = arena_alloc(file->in->x->a, sizeof *v);
    CKPT_TRY_ALLOC(v, err);
    *v = (struct yaml_visit){
        .in = file->in,
        .f = file,
        .is_monai = file->is_yaml_name &&
                    monai_is_config_path(file->in->where.len ? file->in->where : str_c(file->in->x->path))};
    ckpt_status st = visit_tokens(v, &why);
    if (v->found && (st == CKPT_OK || (st == CKPT_EFORMAT && file->is_yaml_name))) {
        v->reporting = true;
        st = visit_tokens(v, &why);
    }
    if (st != CKPT_EFORMAT)
        return st;
    *all_read = !file->is_yaml_name;
    return file->is_yaml_name ? SCAN_FOUND(file->in, SCAN_NOT_OPENED, why.offset, "%s", why.what) : CKPT_OK;
}
