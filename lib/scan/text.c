/*
 * text.c - scans text. Text is only data, except where a loader takes it for more: JSON can describe a model
 * of Keras (keras.c), skops (skops.c), MONAI (monai.c) or torch.export (exported_program.c), or name what a
 * loader imports (loader_keys).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "codec/json_scan.h"
#include "format/recognize.h"
#include "scan/scan.h"

#define TEXT_MAX       ((uint64_t)64 << 20) /* bytes of JSON and YAML */
#define UTF8_BOM       "\xef\xbb\xbf"
#define FIRST_ITEM     STR_LIT("[0]")
#define JSONPICKLE_KEY "json://" /* begins a key that jsonpickle reads as JSON */

/* A JSON object or array that is not closed yet. */
struct open_object {
    struct keras_object keras;
    struct skops_node skops;
    struct target_object target;
    ckpt_str outer_key; /* under which it is in the object around it */
    ckpt_str key;       /* the last key, until its value ends; in an array FIRST_ITEM, until that ends */
};

struct json_visit {
    const struct scanned *in;
    bool is_yaml; /* by its name: it is scanned as YAML, too, which reports what both may hold */
    json_scan json;
    struct open_object open[JSON_DEPTH + 2]; /* [depth] */
};

static ckpt_status check_expression(struct json_visit *visit, bool is_guard)
{
    size_t failed_at;
    ckpt_str text = visit->json.str;
    return expression_is_arithmetic(text, is_guard, &failed_at)
               ? CKPT_OK
               : SCAN_FOUND(visit->in, SCAN_EVALUATED_TEXT, visit->json.event_at,
                            "{%.*s} is not {=arithmetic}: character %zu of %.*s",
                            STR_ARG(str_skip(text, failed_at)), failed_at + 1, STR_ARG(text));
}

/* The libraries from which diffusers loads components, and its own modules of pipelines (0.42 and before). */
static const char diffusers_libraries[] =
    "diffusers transformers onnxruntime optimum ace_step allegro alt_diffusion amused animatediff anyflow "
    "audio_diffusion audioldm audioldm2 aura_flow blip_diffusion bria bria_fibo bria_fibo2 chroma "
    "chronoedit cogvideo cogview3 cogview4 consisid consistency_models controlnet controlnet_hunyuandit "
    "controlnet_sd3 controlnet_xs cosmos dance_diffusion ddim ddpm deepfloyd_if deprecated "
    "diffusion_gemma dit dreamlite easyanimate ernie_image flux flux2 glm_image helios hidream_image "
    "hunyuan_image hunyuan_video hunyuan_video1_5 hunyuandit i2vgen_xl ideogram4 joyimage kandinsky "
    "kandinsky2_2 kandinsky3 kandinsky5 kandinsky6 kolors krea2 latent_consistency_models "
    "latent_diffusion latent_diffusion_uncond latte ledits_pp llada2 longcat_audio_dit longcat_image ltx "
    "ltx2 lucy lumina lumina2 marigold mochi motif_video musicldm nucleusmoe_image omnigen ovis_image pag "
    "paint_by_example pia pixart_alpha pndm prx qwenimage qwenimage21 repaint rfd4_proteina sana "
    "sana_video sana_wm score_sde_ve semantic_stable_diffusion shap_e skyreels_v2 spectrogram_diffusion "
    "stable_audio stable_audio_3 stable_cascade stable_diffusion stable_diffusion_3 stable_diffusion_safe "
    "stable_diffusion_xl stable_video_diffusion stochastic_karras_ve t2i_adapter text_to_video_synthesis "
    "unclip unidiffuser versatile_diffusion visualcloze vq_diffusion wan wuerstchen z_image";

#define HUB_KERNEL "a kernel of the Hub that transformers downloads and imports"

/* Texts of configurations that name what a loader imports or runs: under KEY (NULL: any) in the value of
 * OUTER (NULL: any), also in an array or object of it, in files named FILE (NULL: any). */
static const struct loader_key {
    const char *outer, *key, *file;
    const char *packages; /* packages whose modules are harmless */
    const char *text;     /* only this text counts, or any with this character; NULL: any */
    enum scan_rule rule;
    const char *what;
} loader_keys[] = {
    {"auto_map", NULL, NULL, "transformers", NULL, SCAN_LOADER_CODE,
     "what transformers imports with trust_remote_code"},
    {"auto_mapping", "parent_library", NULL, "transformers torch diffusers timm sentence_transformers", NULL,
     SCAN_LOADER_CODE, "what peft imports"},
    {NULL, "megatron_core", NULL, "megatron", NULL, SCAN_LOADER_CODE, "what peft imports"},
    {"custom_pipelines", "impl", NULL, "", NULL, SCAN_LOADER_CODE,
     "what transformers imports with trust_remote_code"},
    {NULL, "type", "modules.json", "sentence_transformers torch", NULL, SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {NULL, "activation_function", NULL, "sentence_transformers torch", ".", SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {NULL, "activation_fn", NULL, "sentence_transformers torch", ".", SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {NULL, "sbert_ce_default_activation_function", NULL, "sentence_transformers torch", ".", SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {NULL, "[0]", "model_index.json", diffusers_libraries, NULL, SCAN_LOADER_CODE, "what diffusers imports"},
    {NULL, "[0]", "modular_model_index.json", diffusers_libraries, NULL, SCAN_LOADER_CODE,
     "what diffusers imports"},
    {NULL, "attn_implementation", NULL, "", "/", SCAN_LOADER_CODE, HUB_KERNEL},
    {"attn_implementation", NULL, NULL, "", "/", SCAN_LOADER_CODE, HUB_KERNEL},
    {NULL, "_attn_implementation", NULL, "", "/", SCAN_LOADER_CODE, HUB_KERNEL},
    {NULL, "_attn_implementation_internal", NULL, "", "/", SCAN_LOADER_CODE, HUB_KERNEL},
    {"types", NULL, NULL, "sentence_transformers torch", ".", SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {NULL, "tokenizer_class", "wordembedding_config.json", "sentence_transformers", ".", SCAN_LOADER_CODE,
     "what sentence-transformers imports"},
    {"custom_imports", NULL, NULL, "mmengine mmcv mmdet mmdet3d mmpose mmpretrain mmseg", NULL,
     SCAN_LOADER_CODE, "what mmengine imports"},
    {"plugins", NULL, "configuration.json", "modelscope", NULL, SCAN_LOADER_CODE,
     "what modelscope installs and imports"},
    {"steps", "class", NULL, "", ".", SCAN_CONFIG_TARGET, "what lerobot imports and calls"},
    {NULL, "characters_class", NULL, "", ".", SCAN_CONFIG_TARGET, "what Coqui TTS imports and calls"},
    {"filters", "id", NULL, "", "pickle", SCAN_LOADER_CODE, "a filter by which zarr unpickles the chunks"},
    {"compressor", "id", NULL, "", "pickle", SCAN_LOADER_CODE, "a filter by which zarr unpickles the chunks"},
    {"model", "handler", "MANIFEST.json", "image_classifier image_segmenter object_detector text_classifier",
     NULL, SCAN_LOADER_CODE, "what TorchServe imports and calls"},
    {"model", "requirementsFile", "MANIFEST.json", "", NULL, SCAN_LOADER_CODE,
     "packages that TorchServe installs, if it is configured to"},
    {NULL, "chat_template", NULL, NULL, NULL, SCAN_CHAT_TEMPLATE, "a chat template"},
    {"chat_template", "template", NULL, NULL, NULL, SCAN_CHAT_TEMPLATE, "a chat template"},
};

/* Texts that are the path of a file or folder that a loader opens: under KEY (NULL: any) in the value of
 * OUTER (NULL: any), also in an array or object of it, and in the outermost object's ROOT (NULL: any). */
static const struct path_key {
    const char *root, *outer, *key;
    bool in_yaml; /* the scan as YAML reports it, too */
    const char *what;
} path_keys[] = {
    {NULL, "weight_map", NULL, false, "a shard is"},
    {"manifest", NULL, "location", true, "an entry is in"}, /* torchsnapshot's .snapshot_metadata */
    {"weightsManifest", "paths", NULL, false, "a file of weights is"}, /* TensorFlow.js */
    {"itemInfoEntries", NULL, "path", false, "an item of Core ML is"},
    {NULL, NULL, "gguf_file", false, "the tokenizer that transformers reads is"},
};

/* matches_text - returns true if KEY counts TEXT, a name in the package PACKAGE. */
static bool matches_text(const struct loader_key *key, ckpt_str text, ckpt_str package)
{
    if (key->packages && str_matches_word(package, key->packages, str_eq))
        return false;
    bool is_char = key->text && strlen(key->text) == 1;
    return !key->text || str_is(text, key->text) || (is_char && str_has(text, str_c(key->text)));
}

static ckpt_str get_file_name(const struct scanner *scanner, ckpt_str where)
{
    ckpt_str path = where.len ? where : str_c(scanner->path);
    return str_after_last(str_after_last(path, '!'), '/');
}

/* report_loader_keys - reports TEXT, which is in OBJECT, by each row of loader_keys that matches, and as a
 * chat template in an object of them, {"chat_template": {"default": …}}. */
static ckpt_status report_loader_keys(struct json_visit *visit, const struct open_object *object,
                                      ckpt_str text)
{
    ckpt_str outer = visit->json.depth ? object[-1].outer_key : object->outer_key;
    ckpt_str package = str_before(text, '.');
    for (size_t i = 0; i < sizeof loader_keys / sizeof *loader_keys; i++) {
        const struct loader_key *k = &loader_keys[i];
        bool is_outer = !k->outer || str_is(object->outer_key, k->outer) || str_is(outer, k->outer);
        if (!is_outer || (k->key && !str_is(object->key, k->key)) ||
            (k->file && !str_is(get_file_name(visit->in->x, visit->in->where), k->file)) ||
            !matches_text(k, text, package))
            continue;
        CKPT_TRY(
            k->packages
                ? SCAN_FOUND(visit->in, k->rule, visit->json.event_at, "%.*s, %s", STR_ARG(text), k->what)
                : SCAN_FOUND(visit->in, k->rule, visit->json.event_at, "%s of %zu bytes", k->what, text.len));
    }
    bool is_named_template = str_is(object->outer_key, "chat_template") && object->key.len &&
                             !str_eq(object->key, FIRST_ITEM);
    return is_named_template && !str_is(object->key, "chat_template") && !str_is(object->key, "template")
               ? SCAN_FOUND(visit->in, SCAN_CHAT_TEMPLATE, visit->json.event_at,
                            "a chat template of %zu bytes", text.len)
               : CKPT_OK;
}

/* report_path - reports TEXT, which is in OBJECT, if it is a path by path_keys that leaves the folder. */
static ckpt_status report_path(struct json_visit *visit, const struct open_object *object, ckpt_str text)
{
    ckpt_str outer = visit->json.depth ? object[-1].outer_key : object->outer_key;
    if (!scan_path_leaves_folder(text))
        return CKPT_OK;
    for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++) {
        const struct path_key *k = &path_keys[i];
        bool is_outer = !k->outer || str_is(object->outer_key, k->outer) || str_is(outer, k->outer);
        bool is_root = !k->root || str_is(visit->open[1].key, k->root);
        if (is_outer && is_root && (!k->key || str_is(object->key, k->key)) &&
            !(k->in_yaml && visit->is_yaml))
            return SCAN_FOUND(visit->in, SCAN_EXTERNAL_PATH, visit->json.event_at,
                              "%s \"%.*s\", outside of the folder", k->what, STR_ARG(text));
    }
    return CKPT_OK;
}

/* is_item - returns true if KEY is that of an item in an array. */
static bool is_item(ckpt_str key) { return !key.len || str_eq(key, FIRST_ITEM); }

/* judge_exported_text - judges TEXT, which is in OBJECT, if it is in the graph of an exported program of
 * torch. */
static ckpt_status judge_exported_text(struct json_visit *visit, const struct open_object *object,
                                       ckpt_str text)
{
    if (visit->json.depth < 2 || !str_is(visit->open[1].key, "graph_module"))
        return CKPT_OK;
    struct exported_text t = {.text = text,
                              .at = visit->json.event_at,
                              .key = is_item(object->key) ? object->outer_key : object->key};
    t.is_input = is_item(object->outer_key) && str_is(object[-1].outer_key, "inputs");
    return exported_judge_text(visit->in, &t);
}

/* note_key - notes that OBJECT has the key TEXT. */
static void note_key(struct open_object *object, ckpt_str text)
{
    object->key = text;
    object->target.nkeys++;
    object->target.has_params |= str_is(text, "params");
}

/* judge_key - reports TEXT, the value of OBJECT's last key, if that key names what a loader calls, or notes
 * it if that depends on other keys of OBJECT. */
static ckpt_status judge_key(struct json_visit *visit, struct open_object *object, ckpt_str text)
{
    enum scan_key kind = scan_target_key(object->key);
    bool is_in_graph = str_is(visit->open[1].key, "graph_module"); /* judge_exported_text reports it */
    if (visit->is_yaml)
        return CKPT_OK;
    if (scan_names_target(kind, text) && !(kind == SCAN_KEY_WITH_PARAMS && is_in_graph))
        return scan_config_target(visit->in, visit->json.event_at, text);
    if (kind == SCAN_KEY_WITH_PARAMS)
        scan_note_target(&object->target, visit->json.event_at, text);
    return CKPT_OK;
}

static ckpt_status scan_json(const struct yaml_file *file, bool *is_json, ckpt_error *err);

/* scan_json_text - scans TEXT, which is in the JSON of VISIT, if it is JSON itself. */
static ckpt_status scan_json_text(struct json_visit *visit, ckpt_str text, ckpt_error *err)
{
    bool is_json;
    text = str_trim_start(text, " \t\r\n");
    if (!text.len || (*text.ptr != '{' && *text.ptr != '[') || !memchr(text.ptr, '"', text.len))
        return CKPT_OK;
    struct scanner *x = visit->in->x;
    struct scanned inner = {.x = x};
    CKPT_TRY(scan_join_offset(visit->in, "text", visit->json.event_at, &inner.where, err));
    if (x->depth >= x->scan->opts->max_depth)
        return scan_found(x->scan, SCAN_NOT_OPENED, inner.where, visit->in->src, visit->json.event_at,
                          "is nested too deep to be opened");
    char *bytes = malloc(text.len);
    inner.src = bytes ? source_mem(bytes, text.len, CKPT_NO_OFFSET) : NULL;
    ckpt_status st = inner.src ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK) {
        memcpy(bytes, text.ptr, text.len);
        scan_accept_python_json(bytes, text.len);
        const struct yaml_file f = {.in = &inner, .name = STR_LIT(""), .text = str_of(bytes, text.len)};
        x->depth++;
        st = scan_json(&f, &is_json, err);
        x->depth--;
    }
    source_unref(inner.src);
    free(bytes);
    return st;
}

/* visit_string - judges a text by the key of its object or array. */
static ckpt_status visit_string(struct json_visit *visit, struct open_object *object, ckpt_error *err)
{
    ckpt_str text = visit->json.str;
    keras_note_text(&object->keras, object->key, text);
    skops_note_text(&object->skops, object->key, text);
    if (str_is(object->key, "expr_str"))
        CKPT_TRY(check_expression(visit, false));
    if (str_is(object->key, "py/repr"))
        CKPT_TRY(SCAN_FOUND(visit->in, SCAN_EVALUATED_TEXT, visit->json.event_at,
                            "{%.*s}, which jsonpickle before 4 evaluates", STR_ARG(text)));
    if (str_is(object->outer_key, "guards_code"))
        CKPT_TRY(check_expression(visit, true));
    CKPT_TRY(judge_key(visit, object, text));
    if (str_is(object->outer_key, "weight_map"))
        CKPT_TRY(scan_check_tensor_name(visit->in, visit->json.event_at, object->key));
    CKPT_TRY(report_path(visit, object, text));
    CKPT_TRY(judge_exported_text(visit, object, text));
    CKPT_TRY(report_loader_keys(visit, object, text));
    struct scan_text_value value = {.text = text,
                                    .at = visit->json.event_at,
                                    .is_serialized = str_is(object->key, ":serialized:"),
                                    .is_in_spec = str_is(object->key, "in_spec")};
    if (value.is_in_spec || str_is(object->key, "out_spec"))
        CKPT_TRY(scan_treespec(visit->in, value, visit->json.a, err));
    else
        CKPT_TRY(scan_json_text(visit, text, err));
    return scan_base64(visit->in, value, err);
}

/* end_object - judges OBJECT, which ends here, and notes in OUTER, the object around it, what it needs of
 * OBJECT. */
static ckpt_status end_object(struct json_visit *visit, const struct open_object *object,
                              struct open_object *outer)
{
    if (str_is(outer->key, "config"))
        outer->keras.config_file_key = object->keras.file_key;
    skops_note_object(&outer->skops, outer->key, &object->skops);
    CKPT_TRY(scan_judge_object(visit->in, &object->target));
    CKPT_TRY(skops_judge(visit->in, &object->skops, visit->json.event_at));
    return keras_judge(visit->in, &object->keras, visit->json.event_at);
}

static ckpt_status visit_json(struct json_visit *visit, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    for (enum json_event e = json_next(&visit->json); st == CKPT_OK && e != JSON_END && e != JSON_ERROR;
         e = json_next(&visit->json)) {
        struct open_object *o = &visit->open[visit->json.depth];
        if (e == JSON_OBJECT || e == JSON_ARRAY) {
            *o = (struct open_object){.key = e == JSON_ARRAY ? FIRST_ITEM : STR_LIT(""),
                                      .outer_key = o[-1].key};
        } else if (e == JSON_KEY) {
            note_key(o, visit->json.str);
            if (str_starts(visit->json.str, STR_LIT(JSONPICKLE_KEY)))
                st = scan_json_text(visit, str_skip(visit->json.str, sizeof JSONPICKLE_KEY - 1), err);
        } else {
            if (e == JSON_STRING)
                st = visit_string(visit, o, err);
            else if (e == JSON_TRUE && str_is(o->key, "trust_remote_code"))
                st = SCAN_FOUND(visit->in, SCAN_LOADER_CODE, visit->json.event_at,
                                "trust_remote_code, " TRUSTS_CODE);
            else if (e == JSON_OBJECT_END)
                st = end_object(visit, &o[1], o);
            o->key = STR_LIT("");
        }
    }
    return st;
}

void scan_accept_python_json(char *text, size_t nbytes)
{
    bool in_string = false;
    if (nbytes >= 3 && memcmp(text, UTF8_BOM, 3) == 0)
        memset(text, ' ', 3);
    for (size_t i = 0; i < nbytes; i++) {
        ckpt_str rest = str_of(text + i, nbytes - i);
        if (in_string && text[i] == '\\') {
            /* \ud800 to \udfff, a surrogate, alone or in a pair */
            if (nbytes - i >= 6 && text[i + 1] == 'u' && (text[i + 2] | 0x20) == 'd' &&
                strchr("89abcdefABCDEF", text[i + 3]))
                memcpy(text + i + 2, "fffd", 4);
            i++;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string &&
                   (str_starts(rest, STR_LIT("NaN")) || str_starts(rest, STR_LIT("Infinity")))) {
            size_t word = text[i] == 'N' ? 3 : 8;
            memset(text + i, '1', word);
            i += word - 1;
        }
    }
}

/* scan_json - scans FILE as JSON. Sets *IS_JSON to false if it is no valid JSON, which is merely text. */
static ckpt_status scan_json(const struct yaml_file *file, bool *is_json, ckpt_error *err)
{
    ckpt_error why = {.status = CKPT_OK};
    arena *a = arena_new(2 * TEXT_MAX);
    struct json_visit *v = calloc(1, sizeof *v);
    ckpt_status st = a && v ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK) {
        v->in = file->in;
        v->is_yaml = file->is_yaml_name;
        json_init(&v->json, file->text, 0, a, &why);
        st = visit_json(v, err);
        if (st == CKPT_OK && scan_note_system_failure(file->in->x->scan, why.status, &why))
            st = fail(err, why.status, CKPT_NO_OFFSET, "%s", why.what);
        else if (st == CKPT_OK && why.status == CKPT_ELIMIT)
            st = SCAN_FOUND(file->in, SCAN_NOT_OPENED, why.offset, "%s", why.what);
        *is_json = why.status == CKPT_OK;
    }
    free(v);
    arena_free(a);
    return st;
}

static bool has_yaml_name(ckpt_str name)
{
    return str_ends_any_case(name, STR_LIT(".yaml")) || str_ends_any_case(name, STR_LIT(".yml")) ||
           str_is(name, "MLmodel") || str_is(name, ".snapshot_metadata");
}

/* Files of MLflow that hold only the name of a module, which MLflow imports. */
static const struct {
    const char *file, *packages; /* packages whose modules are harmless */
} module_files[] = {
    {"keras_module.txt", "keras tensorflow tf_keras"},
    {"pickle_module_info.txt", "mlflow torch"},
};

/* check_module_file - reports TEXT if NAME is that of a file in module_files. */
static ckpt_status check_module_file(const struct scanned *in, ckpt_str name, ckpt_str text)
{
    text = str_trim_end(text, " \t\r\n");
    ckpt_str package = str_before(text, '.');
    for (size_t i = 0; i < sizeof module_files / sizeof *module_files; i++)
        if (str_is(name, module_files[i].file) &&
            !str_matches_word(package, module_files[i].packages, str_eq))
            return SCAN_FOUND(in, SCAN_LOADER_CODE, 0, "%.*s, what MLflow imports", STR_ARG(text));
    return CKPT_OK;
}

/* check_folder_file - reports TEXT if NAME is that of the file by which DeepSpeed finds the folder of a
 * checkpoint, and the folder is elsewhere. */
static ckpt_status check_folder_file(const struct scanned *in, ckpt_str name, ckpt_str text)
{
    text = str_trim_start(str_trim_end(text, " \t\r\n"), " \t\r\n");
    return str_is(name, "latest") && scan_path_leaves_folder(text)
               ? SCAN_FOUND(in, SCAN_EXTERNAL_PATH, 0, "the checkpoint is in \"%.*s\", outside of the folder",
                            STR_ARG(text))
               : CKPT_OK;
}

ckpt_status scan_text(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    ckpt_str name = get_file_name(x, in->where);
    scan_count_bytes(in->src, &x->scan->result->in_text, in->src->size);
    if (str_ends_any_case(name, STR_LIT(".jinja")))
        CKPT_TRY(SCAN_FOUND(in, SCAN_CHAT_TEMPLATE, 0, "a template of %" PRIu64 " bytes", in->src->size));
    struct probe p = {.size = 0};
    CKPT_TRY(recognize_fill(&p, x->path, in->src, err));
    bool may_be_json = recognize_json(&p), is_yaml = has_yaml_name(name), is_json = false, all_read = true;
    if (in->src->size > TEXT_MAX && (may_be_json || is_yaml))
        return SCAN_FOUND(in, SCAN_NOT_OPENED, 0, "%s of {%" PRIu64 " bytes}; up to {=64 MiB} are read",
                          may_be_json ? "JSON" : "YAML", in->src->size);
    size_t n = in->src->size > TEXT_MAX ? 0 : (size_t)in->src->size;
    uint64_t incomplete = x->scan->result->found[CKPT_SCAN_INCOMPLETE];
    char *text = malloc(n ? n : 1);
    const struct yaml_file f = {in, name, str_of(text, n), is_yaml};
    ckpt_status st = text ? source_read(in->src, 0, text, n, err) : fail_memory(err);
    if (st == CKPT_OK && may_be_json) {
        scan_accept_python_json(text, n);
        st = scan_json(&f, &is_json, err);
    }
    if (st == CKPT_OK && is_json && !is_yaml)
        st = monai_scan_json(&f, err);
    if (st == CKPT_OK && is_json)
        st = kerchunk_scan_json(&f, err);
    if (st == CKPT_OK && str_ends_any_case(name, STR_LIT(".gin")))
        st = gin_scan(&f, err);
    CKPT_THEN(st, check_module_file(in, name, f.text));
    CKPT_THEN(st, check_folder_file(in, name, f.text));
    if (st == CKPT_OK && (!is_json || is_yaml))
        st = scan_yaml(&f, &all_read, err);
    if (all_read && incomplete == x->scan->result->found[CKPT_SCAN_INCOMPLETE])
        *known_bytes += in->src->size; /* the caller's sum is at most the size of its source */
    free(text);
    return st;
}
