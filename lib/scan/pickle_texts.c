/*
 * pickle_texts.c - judges texts in a pickle by which programs import and call functions after they loaded it.
 *
 * Lightning's load_from_checkpoint (core/saving.py, _load_state) reads the hyper-parameters, which are in the
 * mapping "hyper_parameters", "datamodule_hyper_parameters" or, as before 1.0, "hparams" or
 * "module_arguments":
 *   _instantiator            a function, imported and called with all of them. From 2.6.6 on only
 *                            instantiate_module of Lightning's cli.py is
 *   _class_path, class_path  also deeper: classes, which instantiate_module imports and calls
 * An _instantiator in any mapping is judged, whatever its place, because the keys on the way to it may be
 * computed. A text may also be one of numpy, which is equal to Python's.
 *
 * pyannote.audio's Model.from_pretrained imports the class by which it loads a checkpoint:
 *   {"pyannote.audio": {"architecture": {"module": "pyannote.audio.models…", "class": "PyanNet"}}}
 *
 * Models whose parameters are configurations make parts of themselves of these, so that any mapping may have
 *   _target_, _component_    a class or function (hydra, NeMo; torchtune), in omegaconf's nodes, too
 *   target, params           likewise (latent-diffusion)
 *
 * mmengine's inferencers run a text as a program, which is only expected to hold values (python_config.c):
 *   {"message_hub": {"runtime_info": {"cfg": …}}} or {"meta": {"cfg": …}}
 */
#include <inttypes.h>

#include "codec/pickle_read.h"
#include "core/graph_visit.h"
#include "core/numpy.h"
#include "scan/scan.h"

#define GRAPH_MEMORY ((uint64_t)64 << 20) /* bytes */
#define TEXT_BYTES   128u                 /* of the longest text of numpy that is compared, in UTF-32 */
#define CONFIG_MAX   ((uint64_t)4 << 20)  /* bytes of the longest configuration that is read */

/* The texts without which nothing is judged, so that few pickles are read a second time. */
enum { INSTANTIATOR, PYANNOTE, TARGET, COMPONENT, RUNTIME_INFO, LDM_TARGET, LDM_PARAMS, META, CFG };
const char *const scan_sought_texts[] = {[INSTANTIATOR] = LIGHTNING_INSTANTIATOR,
                                         [PYANNOTE] = PYANNOTE_RECORD,
                                         [TARGET] = "_target_",
                                         [COMPONENT] = "_component_",
                                         [RUNTIME_INFO] = "runtime_info",
                                         [LDM_TARGET] = "target",
                                         [LDM_PARAMS] = "params",
                                         [META] = "meta",
                                         [CFG] = "cfg",
                                         NULL};

/* is_worth_reading - returns true if a pickle with the texts whose bits are set in SOUGHT may name what a
 * program calls. */
static bool is_worth_reading(uint32_t sought)
{
    const uint32_t ldm = 1u << LDM_TARGET | 1u << LDM_PARAMS, meta = 1u << META | 1u << CFG;
    return sought & (1u << INSTANTIATOR | 1u << PYANNOTE | 1u << TARGET | 1u << COMPONENT) ||
           sought & 1u << RUNTIME_INFO || (sought & ldm) == ldm || (sought & meta) == meta;
}

struct texts {
    struct scanned in;
    struct graph_visit below;   /* mappings with an _instantiator, and what they hold */
    struct graph_visit records; /* what the records of pyannote.audio hold */
    arena *a;                   /* of the graph */
    ckpt_error *err;
};

/* is_key - returns true if VALUE is TEXT, also as a text of numpy. */
static bool is_key(const ckpt_value *value, const char *text)
{
    unsigned char b[TEXT_BYTES];
    struct numpy_dtype dtype;
    ckpt_str s;
    if (value_text(value, &s))
        return str_is(s, text);
    size_t n = numpy_scalar_of(value, &dtype) && dtype.kind == 'U'
                   ? copy_small_bytes(value_arg(value, 1), b, sizeof b)
                   : SIZE_MAX;
    return n != SIZE_MAX && numpy_is_text(b, n, str_c(text));
}

/* get_entry - sets *KEY and *VAL to entry INDEX of VALUE: a pair of a mapping, or of a sequence of pairs,
 * which a mapping can be made of. False: past the last one. *KEY is NULL if an item is no pair. */
static bool get_entry(const ckpt_value *value, uint32_t index, const ckpt_value **key, const ckpt_value **val)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(value, &n);
    *key = NULL;
    if (index < n) {
        *key = pairs[index].key;
        *val = pairs[index].val;
        return true;
    }
    const ckpt_value *item = value_item(value, index - n);
    if (value_is_sequence(item) && item->u.seq.n == 2) {
        *key = item->u.seq.items[0];
        *val = item->u.seq.items[1];
    }
    return item != NULL;
}

/* judge_target - reports VALUE, what a key names. */
static ckpt_status judge_target(const struct texts *texts, const ckpt_value *value)
{
    ckpt_str text;
    return scan_config_target(&texts->in, value_offset(value),
                              value_text(value, &text) ? text : (ckpt_str){NULL, 0});
}

/* judge_instantiator - reports what _instantiator in VALUE names, and notes VALUE in texts->below. */
static ckpt_status judge_instantiator(struct texts *texts, const ckpt_value *value)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(value, i, &key, &val); i++) {
        if (!is_key(key, LIGHTNING_INSTANTIATOR) || val->type == CKPT_V_NONE)
            continue;
        CKPT_TRY(judge_target(texts, val));
        CKPT_TRY_ALLOC(graph_visit_add(&texts->below, value), texts->err);
    }
    return CKPT_OK;
}

/* find_entry - returns the last value of KEY in VALUE; NULL: it has none. */
static const ckpt_value *find_entry(const ckpt_value *value, const char *key)
{
    const ckpt_value *k, *val, *found = NULL;
    for (uint32_t i = 0; get_entry(value, i, &k, &val); i++)
        if (k && is_key(k, key))
            found = val;
    return found;
}

/* judge_architecture - reports the class that VALUE, in the record of pyannote.audio, names, unless it is one
 * of pyannote.audio's models. */
static ckpt_status judge_architecture(struct texts *texts, const ckpt_value *value)
{
    const ckpt_value *module = find_entry(value, "module"),
                     *class = module ? find_entry(value, "class") : NULL;
    ckpt_str module_name, class_name, target = {NULL, 0};
    if (!class)
        return CKPT_OK;
    if (value_text(module, &module_name) && value_text(class, &class_name)) {
        target = ARENA_CONCAT(texts->in.x->a, module_name, STR_LIT("."), class_name);
        CKPT_TRY_ALLOC(target.ptr, texts->err);
    }
    return scan_config_target(&texts->in, value_offset(module), target);
}

/* unwrap - returns the value of VALUE, if that is a node of omegaconf; else VALUE. */
static const ckpt_value *unwrap(const ckpt_value *value)
{
    const ckpt_value *inner = value && value->type == CKPT_V_CALL ? value_get(value_state(value), "_val")
                                                                  : NULL;
    return inner ? inner : value;
}

/* is_numpy_text - returns true if VALUE is a text of numpy. */
static bool is_numpy_text(const ckpt_value *value)
{
    struct numpy_dtype dtype;
    return numpy_scalar_of(value, &dtype) && dtype.kind == 'U';
}

/* judge_stored_target - reports VALUE, what hydra and others would import and call. Unless IS_CERTAIN, VALUE
 * may also be something else. */
static ckpt_status judge_stored_target(const struct texts *texts, const ckpt_value *value, bool is_certain)
{
    ckpt_str text;
    value = unwrap(value);
    if (!value || value->type == CKPT_V_NONE)
        return CKPT_OK;
    uint64_t at = value_offset(value);
    if (!value_text(value, &text))
        return is_certain || is_numpy_text(value) ? scan_stored_target(&texts->in, at, (ckpt_str){NULL, 0})
                                                  : CKPT_OK;
    return is_certain || scan_may_be_target(text) ? scan_stored_target(&texts->in, at, text) : CKPT_OK;
}

/* judge_targets - reports what VALUE, any value, names for hydra and others. */
static ckpt_status judge_targets(const struct texts *texts, const ckpt_value *value)
{
    const ckpt_value *key, *val, *target = find_entry(value, "target");
    for (uint32_t i = 0; get_entry(value, i, &key, &val); i++)
        if (key && (is_key(key, "_target_") || is_key(key, "_component_")))
            CKPT_TRY(judge_stored_target(texts, val, true));
    return target && find_entry(value, "params") ? judge_stored_target(texts, target, false) : CKPT_OK;
}

/* judge_config - reports what mmengine runs of VALUE, a text that it takes for a program. */
static ckpt_status judge_config(const struct texts *texts, const ckpt_value *value)
{
    ckpt_str text;
    if (value_text(value, &text))
        return scan_python_config(&texts->in, value_offset(value), text);
    if (!value || (value->type != CKPT_V_STR && value->type != CKPT_V_STR8) || !(value->flags & VALUE_SPAN))
        return CKPT_OK;
    uint64_t n = value->u.span->nbytes;
    if (n > CONFIG_MAX)
        return SCAN_FOUND(&texts->in, SCAN_NOT_OPENED, value_offset(value),
                          "a configuration of {%" PRIu64 " bytes}; up to {=4 MiB} are read", n);
    char *bytes = arena_alloc(texts->a, (size_t)n);
    CKPT_TRY_ALLOC(bytes, texts->err);
    CKPT_TRY(source_read(value->u.span->src, value->u.span->off, bytes, (size_t)n, texts->err));
    return scan_python_config(&texts->in, value_offset(value), str_of(bytes, (size_t)n));
}

/* judge_configs - reports what mmengine runs of VALUE, any value. */
static ckpt_status judge_configs(const struct texts *texts, const ckpt_value *value)
{
    CKPT_TRY(judge_config(texts, find_entry(find_entry(value, "runtime_info"), "cfg")));
    return judge_config(texts, find_entry(find_entry(value, "meta"), "cfg"));
}

/* judge_node - reports VALUE, any value, if a program calls what it names, and notes what is judged later. */
static ckpt_status judge_node(struct texts *texts, const ckpt_value *value)
{
    CKPT_TRY(judge_targets(texts, value));
    CKPT_TRY(judge_configs(texts, value));
    return graph_visit_add(&texts->records, find_entry(value, PYANNOTE_RECORD))
               ? judge_instantiator(texts, value)
               : fail_memory(texts->err);
}

/* judge_class_paths - reports the classes that VALUE names. */
static ckpt_status judge_class_paths(struct texts *texts, const ckpt_value *value)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(value, i, &key, &val); i++)
        if ((is_key(key, "_class_path") || is_key(key, "class_path")) && val->type != CKPT_V_NONE)
            CKPT_TRY(judge_target(texts, val));
    return CKPT_OK;
}

/* judge_each - judges each node of VISIT. */
static ckpt_status judge_each(struct texts *texts, struct graph_visit *visit,
                              ckpt_status (*judge)(struct texts *texts, const ckpt_value *v))
{
    const ckpt_value *v;
    bool ok = true;
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && (v = graph_visit_next(visit, &ok)))
        st = judge(texts, v);
    return ok ? st : fail_memory(texts->err);
}

static ckpt_status judge_graph(struct texts *texts, const ckpt_value *root)
{
    struct graph_visit all = {.seen = map_new(16)};
    texts->below.seen = map_new(16);
    texts->records.seen = map_new(16);
    bool ok = all.seen && texts->below.seen && texts->records.seen && graph_visit_add(&all, root);
    ckpt_status st = ok ? judge_each(texts, &all, judge_node) : fail_memory(texts->err);
    CKPT_THEN(st, judge_each(texts, &texts->below, judge_class_paths));
    CKPT_THEN(st, judge_each(texts, &texts->records, judge_architecture));
    graph_visit_free(&all);
    graph_visit_free(&texts->below);
    graph_visit_free(&texts->records);
    return st;
}

/* read_graph - sets *ROOT to the graph of the pickle SOUGHT in TEXTS->src, which for joblib becomes a source
 * that begins with it; the caller releases that. */
static ckpt_status read_graph(struct texts *texts, struct scan_sought sought, ckpt_value **root,
                              ckpt_error *why)
{
    uint64_t next, size = texts->in.src->size;
    if (!sought.is_joblib)
        return pickle_read(texts->a, texts->in.src, sought.pos, size, NULL, root, &next, why);
    CKPT_TRY(source_slice(texts->in.src, sought.pos, size - sought.pos, &texts->in.src, why));
    return pickle_read_joblib(texts->a, texts->in.src, NULL, root, &next, why);
}

ckpt_status scan_pickle_texts(const struct scanned *in, struct scan_sought sought, ckpt_error *err)
{
    struct texts h = {.in = *in, .err = err};
    ckpt_value *root;
    ckpt_error why;
    if (!is_worth_reading(sought.texts))
        return CKPT_OK;
    h.a = arena_new(GRAPH_MEMORY);
    ckpt_status st = h.a ? read_graph(&h, sought, &root, &why) : fail_memory(&why);
    bool is_too_large = h.a && st == CKPT_ENOMEM && arena_full(h.a);
    if (st == CKPT_OK) {
        st = judge_graph(&h, root);
    } else if (!is_too_large && scan_note_system_failure(in->x->scan, st, &why)) {
        *err = why;
    } else {
        st = SCAN_FOUND(in, SCAN_PICKLE_NOT_FOLLOWED, sought.pos,
                        "it has keys by which programs call functions, such as \"" LIGHTNING_INSTANTIATOR
                        "\": %s",
                        why.what);
    }
    if (h.in.src != in->src)
        source_unref(h.in.src);
    arena_free(h.a);
    return st;
}
