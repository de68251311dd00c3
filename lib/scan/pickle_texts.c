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

/* is_key - returns true if V is TEXT, also as a text of numpy. */
static bool is_key(const ckpt_value *v, const char *text)
{
    unsigned char b[TEXT_BYTES];
    struct numpy_dtype dtype;
    ckpt_str s;
    if (value_text(v, &s))
        return str_is(s, text);
    size_t n = numpy_scalar_of(v, &dtype) && dtype.kind == 'U'
                   ? copy_small_bytes(value_arg(v, 1), b, sizeof b)
                   : SIZE_MAX;
    return n != SIZE_MAX && numpy_is_text(b, n, str_c(text));
}

/* get_entry - sets *KEY and *VAL to entry I of V: a pair of a mapping, or of a sequence of pairs, which a
 * mapping can be made of. False: past the last one. *KEY is NULL if an item is no pair. */
static bool get_entry(const ckpt_value *v, uint32_t i, const ckpt_value **key, const ckpt_value **val)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    *key = NULL;
    if (i < n) {
        *key = pairs[i].key;
        *val = pairs[i].val;
        return true;
    }
    const ckpt_value *item = value_item(v, i - n);
    if (value_is_sequence(item) && item->u.seq.n == 2) {
        *key = item->u.seq.items[0];
        *val = item->u.seq.items[1];
    }
    return item != NULL;
}

/* judge_target - reports V, what a key names. */
static ckpt_status judge_target(const struct texts *h, const ckpt_value *v)
{
    ckpt_str text;
    return scan_config_target(&h->in, value_offset(v), value_text(v, &text) ? text : (ckpt_str){NULL, 0});
}

/* judge_instantiator - reports what _instantiator in V names, and notes V in h->below. */
static ckpt_status judge_instantiator(struct texts *h, const ckpt_value *v)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(v, i, &key, &val); i++) {
        if (!is_key(key, LIGHTNING_INSTANTIATOR) || val->type == CKPT_V_NONE)
            continue;
        CKPT_TRY(judge_target(h, val));
        CKPT_TRY_ALLOC(graph_visit_add(&h->below, v), h->err);
    }
    return CKPT_OK;
}

/* find_entry - returns the last value of KEY in V; NULL: it has none. */
static const ckpt_value *find_entry(const ckpt_value *v, const char *key)
{
    const ckpt_value *k, *val, *found = NULL;
    for (uint32_t i = 0; get_entry(v, i, &k, &val); i++)
        if (k && is_key(k, key))
            found = val;
    return found;
}

/* judge_architecture - reports the class that V, in the record of pyannote.audio, names, unless it is one of
 * pyannote.audio's models. */
static ckpt_status judge_architecture(struct texts *h, const ckpt_value *v)
{
    const ckpt_value *module = find_entry(v, "module"), *class = module ? find_entry(v, "class") : NULL;
    ckpt_str module_name, class_name, target = {NULL, 0};
    if (!class)
        return CKPT_OK;
    if (value_text(module, &module_name) && value_text(class, &class_name)) {
        target = ARENA_CONCAT(h->in.x->a, module_name, STR_LIT("."), class_name);
        CKPT_TRY_ALLOC(target.ptr, h->err);
    }
    return scan_config_target(&h->in, value_offset(module), target);
}

/* unwrap - returns the value of V, if that is a node of omegaconf; else V. */
static const ckpt_value *unwrap(const ckpt_value *v)
{
    const ckpt_value *inner = v && v->type == CKPT_V_CALL ? value_get(value_state(v), "_val") : NULL;
    return inner ? inner : v;
}

/* is_numpy_text - returns true if V is a text of numpy. */
static bool is_numpy_text(const ckpt_value *v)
{
    struct numpy_dtype dtype;
    return numpy_scalar_of(v, &dtype) && dtype.kind == 'U';
}

/* judge_stored_target - reports V, what hydra and others would import and call. Unless IS_CERTAIN, V may also
 * be something else. */
static ckpt_status judge_stored_target(const struct texts *h, const ckpt_value *v, bool is_certain)
{
    ckpt_str text;
    v = unwrap(v);
    if (!v || v->type == CKPT_V_NONE)
        return CKPT_OK;
    uint64_t at = value_offset(v);
    if (!value_text(v, &text))
        return is_certain || is_numpy_text(v) ? scan_stored_target(&h->in, at, (ckpt_str){NULL, 0}) : CKPT_OK;
    return is_certain || scan_may_be_target(text) ? scan_stored_target(&h->in, at, text) : CKPT_OK;
}

/* judge_targets - reports what V, any value, names for hydra and others. */
static ckpt_status judge_targets(const struct texts *h, const ckpt_value *v)
{
    const ckpt_value *key, *val, *target = find_entry(v, "target");
    for (uint32_t i = 0; get_entry(v, i, &key, &val); i++)
        if (key && (is_key(key, "_target_") || is_key(key, "_component_")))
            CKPT_TRY(judge_stored_target(h, val, true));
    return target && find_entry(v, "params") ? judge_stored_target(h, target, false) : CKPT_OK;
}

/* judge_config - reports what mmengine runs of V, a text that it takes for a program. */
static ckpt_status judge_config(const struct texts *h, const ckpt_value *v)
{
    ckpt_str text;
    if (value_text(v, &text))
        return scan_python_config(&h->in, value_offset(v), text);
    if (!v || (v->type != CKPT_V_STR && v->type != CKPT_V_STR8) || !(v->flags & VALUE_SPAN))
        return CKPT_OK;
    uint64_t n = v->u.span->nbytes;
    if (n > CONFIG_MAX)
        return SCAN_FOUND(&h->in, SCAN_NOT_OPENED, value_offset(v),
                          "a configuration of {%" PRIu64 " bytes}; up to {=4 MiB} are read", n);
    char *bytes = arena_alloc(h->a, (size_t)n);
    CKPT_TRY_ALLOC(bytes, h->err);
    CKPT_TRY(source_read(v->u.span->src, v->u.span->off, bytes, (size_t)n, h->err));
    return scan_python_config(&h->in, value_offset(v), str_of(bytes, (size_t)n));
}

/* judge_configs - reports what mmengine runs of V, any value. */
static ckpt_status judge_configs(const struct texts *h, const ckpt_value *v)
{
    CKPT_TRY(judge_config(h, find_entry(find_entry(v, "runtime_info"), "cfg")));
    return judge_config(h, find_entry(find_entry(v, "meta"), "cfg"));
}

/* judge_node - reports V, any value, if a program calls what it names, and notes what is judged later. */
static ckpt_status judge_node(struct texts *h, const ckpt_value *v)
{
    CKPT_TRY(judge_targets(h, v));
    CKPT_TRY(judge_configs(h, v));
    return graph_visit_add(&h->records, find_entry(v, PYANNOTE_RECORD)) ? judge_instantiator(h, v)
                                                                        : fail_memory(h->err);
}

/* judge_class_paths - reports the classes that V names. */
static ckpt_status judge_class_paths(struct texts *h, const ckpt_value *v)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(v, i, &key, &val); i++)
        if ((is_key(key, "_class_path") || is_key(key, "class_path")) && val->type != CKPT_V_NONE)
            CKPT_TRY(judge_target(h, val));
    return CKPT_OK;
}

/* judge_each - judges each node of VISIT. */
static ckpt_status judge_each(struct texts *h, struct graph_visit *visit,
                              ckpt_status (*judge)(struct texts *h, const ckpt_value *v))
{
    const ckpt_value *v;
    bool ok = true;
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && (v = graph_visit_next(visit, &ok)))
        st = judge(h, v);
    return ok ? st : fail_memory(h->err);
}

static ckpt_status judge_graph(struct texts *h, const ckpt_value *root)
{
    struct graph_visit all = {.seen = map_new(16)};
    h->below.seen = map_new(16);
    h->records.seen = map_new(16);
    bool ok = all.seen && h->below.seen && h->records.seen && graph_visit_add(&all, root);
    ckpt_status st = ok ? judge_each(h, &all, judge_node) : fail_memory(h->err);
    if (st == CKPT_OK)
        st = judge_each(h, &h->below, judge_class_paths);
    if (st == CKPT_OK)
        st = judge_each(h, &h->records, judge_architecture);
    graph_visit_free(&all);
    graph_visit_free(&h->below);
    graph_visit_free(&h->records);
    return st;
}

/* read_graph - sets *ROOT to the graph of the pickle SOUGHT in H->src, which for joblib becomes a source that
 * begins with it; the caller releases that. */
static ckpt_status read_graph(struct texts *h, struct scan_sought sought, ckpt_value **root, ckpt_error *why)
{
    uint64_t next, size = h->in.src->size;
    if (!sought.is_joblib)
        return pickle_read(h->a, h->in.src, sought.pos, size, NULL, root, &next, why);
    CKPT_TRY(source_slice(h->in.src, sought.pos, size - sought.pos, &h->in.src, why));
    return pickle_read_joblib(h->a, h->in.src, NULL, root, &next, why);
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
