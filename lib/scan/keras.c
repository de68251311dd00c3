/*
 * keras.c - judges the objects {"module", "class_name", "config"} by which Keras describes a model. Its
 * loader (keras/src/saving/serialization_lib.py, CVE-2025-1550, -8747, -9906) takes "MODULE.CLASS_NAME" for
 * the name of a class in its public interface, or imports the module; "class_name" may be "layers.X" of the
 * module "keras". If "class_name" is "function", "config" is the name of a function. So only the full name
 * counts:
 *   Lambda, __lambda__   bytecode
 *   TorchModuleWrapper   a pickled torch module in base64 (CVE-2025-49655)
 *   TFSMLayer            loads a SavedModel, whose graph can read and write files
 *   areas of Keras other than those of layers, losses and so on: they fetch, load, write or unpack files
 *                        (keras.utils.get_file, CVE-2025-8747)
 *   StringLookup and others read a file if their "vocabulary" is a text (CVE-2025-12058)
 */
#include "scan/scan.h"

/* The parts of Keras whose classes and functions only compute. */
static const char areas[] =
    "activations backend constraints distillation dtype_policies engine initializers layers legacy "
    "losses metrics models ops optimizers quantizers random regularizers samplers tokenizers";
/* Keys of a "config" whose text is the path of a file that is read when the object is made. */
static const char file_keys[] = "vocabulary proto merges vocabulary_file filepath file_path filename";

static bool is_listed(ckpt_str word, const char *words) { return str_matches_word(word, words, str_eq); }

/* A name as loaders put it together: MODULE.NAME, both of which may have dots. */
struct full_name {
    ckpt_str module, name;
};

/* take_component - removes the first component of NAME, and returns it. */
static ckpt_str take_component(struct full_name *name)
{
    return str_take_until(name->module.len ? &name->module : &name->name, '.');
}

static const char roots[] = "keras keras_hub keras_nlp keras_cv tf_keras";

/* get_area - returns the part of Keras that NAME is in, "layers" for keras.layers.Dense; "keras" itself for
 * keras.Model; empty: NAME is no name of Keras. */
static ckpt_str get_area(struct full_name name)
{
    ckpt_str root = take_component(&name);
    if (!is_listed(root, roots))
        return STR_LIT("");
    ckpt_str area = take_component(&name);
    while (name.name.len && is_listed(area, "src api _legacy _tf_keras keras"))
        area = take_component(&name);
    return name.name.len ? area : root;
}

const char *keras_describe_code(ckpt_str class_name)
{
    ckpt_str last = str_after_last(class_name, '.');
    static const char *const classes[][2] = {
        {"Lambda", "a Lambda layer, which carries bytecode"},
        {"__lambda__", "a lambda function, which is bytecode"},
        {"TorchModuleWrapper", "a torch module, which is a pickle in base64"},
        {"TFSMLayer", "a SavedModel, whose graph can read and write files"},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (str_is(last, classes[i][0]))
            return classes[i][1];
    return NULL;
}

/* acts_outside - returns true if NAME, of a function if IS_FUNCTION, else of a class, is not in a part of
 * Keras that only computes. */
static bool acts_outside(struct full_name name, bool is_function)
{
    ckpt_str area = get_area(name);
    if (is_listed(str_after_last(name.name, '.'),
                  "gelu_approximate FeatureSpace")) /* in utils; they compute */
        return false;
    if (is_listed(area, roots) || str_is(area, "models")) /* the classes of models, load_model */
        return is_function;
    return !is_listed(area, areas);
}

void keras_note_text(struct keras_object *object, ckpt_str key, ckpt_str text)
{
    if (str_is(key, "module"))
        object->module = text;
    if (str_is(key, "class_name"))
        object->class_name = text;
    if (str_is(key, "config"))
        object->function = text;
    if (text.len && is_listed(key, file_keys))
        object->file_key = key;
}

ckpt_status keras_judge(const struct scanned *in, const struct keras_object *object, size_t at)
{
    bool is_function = is_listed(object->class_name, "function type __typespec__");
    struct full_name name = {object->module,
                             is_function && object->function.len ? object->function : object->class_name};
    const char *what = keras_describe_code(object->class_name);
    if (!object->class_name.len)
        return CKPT_OK;
    if (what)
        return SCAN_FOUND(in, SCAN_KERAS_CODE, at, "%s", what);
    if (object->module.len && !get_area(name).len)
        return SCAN_FOUND(in, SCAN_KERAS_CODE, at, "the class %.*s of the module %.*s",
                          STR_ARG(object->class_name), STR_ARG(object->module));
    if (object->module.len && acts_outside(name, is_function))
        return SCAN_FOUND(in, SCAN_KERAS_CODE, at, "a %s of %.*s (%.*s), which may act outside the model",
                          is_function ? "function" : "class", STR_ARG(object->module), STR_ARG(name.name));
    return !object->config_file_key.len
               ? CKPT_OK
               : SCAN_FOUND(in, SCAN_KERAS_CODE, at,
                            "the class %.*s, which reads the file that its \"%.*s\" names",
                            STR_ARG(name.name), STR_ARG(object->config_file_key));
}
