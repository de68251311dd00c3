/*
 * lightning.c - judges the hyper-parameters in a checkpoint of PyTorch Lightning, by whose texts
 * load_from_checkpoint imports and calls functions (core/saving.py, _load_state). They are in the mapping
 * "hyper_parameters", "datamodule_hyper_parameters" or, as before 1.0, "hparams" or "module_arguments":
 *   _instantiator            a function, imported and called with all of them. From 2.6.6 on only
 *                            instantiate_module of Lightning's cli.py is
 *   _class_path, class_path  also deeper: classes, which instantiate_module imports and calls
 * An _instantiator in any mapping is judged, whatever its place, because the keys on the way to it may be
 * computed. A text may also be one of numpy, which is equal to Python's.
 *
 * pyannote.audio's Model.from_pretrained imports the class by which it loads a checkpoint:
 *   {"pyannote.audio": {"architecture": {"module": "pyannote.audio.models…", "class": "PyanNet"}}}
 */
#include "codec/pickle_read.h"
#include "core/graph_visit.h"
#include "core/numpy.h"
#include "scan/scan.h"

#define GRAPH_MEMORY ((uint64_t)64 << 20) /* bytes */
#define TEXT_BYTES   128u                 /* of the longest text of numpy that is compared, in UTF-32 */

struct hyper_parameters {
    struct scanner *x;
    source *src;
    ckpt_str where;
    struct graph_visit below;   /* mappings with an _instantiator, and what they hold */
    struct graph_visit records; /* what the records of pyannote.audio hold */
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
    const ckpt_value *item = value_item(v, i - n); /* bounded: i >= n */
    if (value_is_sequence(item) && item->u.seq.n == 2) {
        *key = item->u.seq.items[0];
        *val = item->u.seq.items[1];
    }
    return item != NULL;
}

/* judge_target - reports V, what a key names. */
static ckpt_status judge_target(const struct hyper_parameters *h, const ckpt_value *v)
{
    ckpt_str text;
    return scan_config_target(h->x, h->src, h->where, v->offset,
                              value_text(v, &text) ? text : (ckpt_str){NULL, 0});
}

/* judge_instantiator - reports what _instantiator in V names, and notes V in h->below. */
static ckpt_status judge_instantiator(struct hyper_parameters *h, const ckpt_value *v)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(v, i, &key, &val); i++) {
        if (!is_key(key, LIGHTNING_INSTANTIATOR) || val->type == CKPT_V_NONE)
            continue;
        CKPT_TRY(judge_target(h, val));
        if (!graph_visit_add(&h->below, v))
            return fail_memory(h->err);
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
static ckpt_status judge_architecture(struct hyper_parameters *h, const ckpt_value *v)
{
    const ckpt_value *module = find_entry(v, "module"), *class = module ? find_entry(v, "class") : NULL;
    ckpt_str module_name, class_name, target = {NULL, 0};
    if (!class)
        return CKPT_OK;
    if (value_text(module, &module_name) && value_text(class, &class_name)) {
        target = ARENA_CONCAT(h->x->a, module_name, STR_LIT("."), class_name);
        if (!target.ptr)
            return fail_memory(h->err);
    }
    return scan_config_target(h->x, h->src, h->where, module->offset, target);
}

/* judge_node - reports V, any value, if Lightning calls what it names, and notes what is judged later. */
static ckpt_status judge_node(struct hyper_parameters *h, const ckpt_value *v)
{
    return graph_visit_add(&h->records, find_entry(v, PYANNOTE_RECORD)) ? judge_instantiator(h, v)
                                                                       : fail_memory(h->err);
}

/* judge_class_paths - reports the classes that V names. */
static ckpt_status judge_class_paths(struct hyper_parameters *h, const ckpt_value *v)
{
    const ckpt_value *key, *val;
    for (uint32_t i = 0; get_entry(v, i, &key, &val); i++)
        if ((is_key(key, "_class_path") || is_key(key, "class_path")) && val->type != CKPT_V_NONE)
            CKPT_TRY(judge_target(h, val));
    return CKPT_OK;
}

/* judge_each - judges each node of VISIT. */
static ckpt_status judge_each(struct hyper_parameters *h, struct graph_visit *visit,
                              ckpt_status (*judge)(struct hyper_parameters *h, const ckpt_value *v))
{
    const ckpt_value *v;
    bool ok = true;
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && (v = graph_visit_next(visit, &ok)))
        st = judge(h, v);
    return ok ? st : fail_memory(h->err);
}

static ckpt_status judge_graph(struct hyper_parameters *h, const ckpt_value *root)
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

ckpt_status lightning_judge(struct scanner *x, source *src, ckpt_str where, uint64_t pos, ckpt_error *err)
{
    struct hyper_parameters h = {.x = x, .src = src, .where = where, .err = err};
    ckpt_value *root;
    uint64_t next;
    ckpt_error why;
    arena *a = arena_new(GRAPH_MEMORY);
    ckpt_status st = a ? pickle_read(a, src, pos, src->size, NULL, &root, &next, &why) : fail_memory(&why);
    bool is_too_large = a && st == CKPT_ENOMEM && arena_full(a);
    if (st == CKPT_OK) {
        st = judge_graph(&h, root);
    } else if (!is_too_large && scan_note_system_failure(x->scan, st, &why)) {
        *err = why;
    } else {
        st = scan_found(x->scan, SCAN_PICKLE_NOT_FOLLOWED, where, src, pos,
                        "\"" LIGHTNING_INSTANTIATOR "\" or \"" PYANNOTE_RECORD
                        "\", by which loaders call functions: %s", why.what);
    }
    arena_free(a);
    return st;
}
