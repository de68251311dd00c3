/*
 * embedded_archive.c - opens the torch.save archives that torch.export keeps as records. Each is read as a
 * file of its own, because it has its own storage keys. Then its rows are added to the outer file, below the
 * path of the record. A torch.save archive holds no further archives, so nothing nests.
 */
#include "format/torch/archive.h"

#include "core/check.h"
#include "format/registry.h"

struct embedding {
    ckpt_file *f, *embedded;
    const ckpt_path_elem *prefix; /* the path of the record in F */
    const struct step *steps;     /* the steps of PREFIX */
    uint32_t nprefix;
    uint32_t first_row, first_storage; /* of the embedded file, as indexes in the table of F */
    ckpt_error *err;
};

static ckpt_status add_storages(const struct embedding *embedding)
{
    uint32_t index;
    for (size_t i = 0; i < embedding->embedded->table.nstorages; i++) {
        struct storage s = embedding->embedded->table.storages[i];
        if (s.src)
            (void)source_ref(s.src);
        s.in_key_index = false; /* the same key may name another storage in F */
        CKPT_TRY(table_add_storage(&embedding->f->table, &s, &index, embedding->err));
    }
    return CKPT_OK;
}

static ckpt_path_elem *prepend_path(const struct embedding *embedding, const ckpt_path_elem *path,
                                    uint32_t count)
{
    ckpt_path_elem *out = arena_array(embedding->f->a, (uint64_t)embedding->nprefix + count, sizeof *out);
    for (uint32_t i = 0; out && i < embedding->nprefix; i++)
        out[i] = embedding->prefix[i];
    for (uint32_t i = 0; out && i < count; i++)
        out[embedding->nprefix + i] = path[i];
    return out;
}

static ckpt_status add_embedded_row(const struct embedding *embedding, size_t number)
{
    struct row r = table_row(&embedding->embedded->table, number);
    struct step *steps = arena_array(embedding->f->a, (uint64_t)embedding->nprefix + r.t.npath,
                                     sizeof *steps);
    ckpt_value *v = (ckpt_value *)(uintptr_t)r.t.value;
    bool is_first_row = value_row(v) == number; /* a node may have several rows */
    ckpt_path_elem *path = prepend_path(embedding, r.t.path, r.t.npath);
    CKPT_TRY_ALLOC(steps && path, embedding->err);
    for (uint32_t k = 0; k < embedding->nprefix; k++)
        steps[k] = embedding->steps[k];
    for (uint32_t k = 0; k < r.t.npath; k++)
        steps[embedding->nprefix + k] = r.steps[k];
    r.steps = steps;
    r.t.path = path;
    r.t.npath += embedding->nprefix;
    r.t.name = str_of(NULL, 0);
    if (r.t.storage != CKPT_NO_STORAGE)
        r.t.storage += embedding->first_storage;
    if (r.t.part_of != CKPT_NO_TENSOR)
        r.t.part_of += embedding->first_row;
    uint32_t index;
    CKPT_TRY(file_add_row(embedding->f, &r, &index, embedding->err));
    if (is_first_row)
        value_set_row(v, index);
    return CKPT_OK;
}

static ckpt_status add_leaves_and_facts(const struct embedding *embedding)
{
    ckpt_file *f = embedding->f, *inner = embedding->embedded;
    for (size_t i = 0; i < inner->nleaves; i++) {
        ckpt_path_elem *path = prepend_path(embedding, inner->leaves[i].path, inner->leaves[i].npath);
        CKPT_TRY_ALLOC(path, embedding->err);
        CKPT_TRY(file_add_leaf(f, path, inner->leaves[i].npath + embedding->nprefix, inner->leaves[i].value,
                               embedding->err));
    }
    CKPT_TRY(file_add_pickles_of(f, inner, embedding->err));
    for (size_t i = 0; i < inner->notices.n; i++)
        file_notice(f, "%s", inner->notices.text[i]);
    return checked_add(f->unaccounted, inner->unaccounted, &f->unaccounted) ? CKPT_OK
                                                                            : fail_memory(embedding->err);
}

/* add_contents - adds storages, rows, leaves and notices of the embedded file to the outer one. The nodes of
 * these rows and leaves stay in the arena of the embedded file. */
static ckpt_status add_contents(struct embedding *embedding)
{
    embedding->first_row = (uint32_t)embedding->f->table.nrows;
    embedding->first_storage = (uint32_t)embedding->f->table.nstorages;
    CKPT_TRY(add_storages(embedding));
    for (size_t i = 0; i < embedding->embedded->table.nrows; i++)
        CKPT_TRY(add_embedded_row(embedding, i));
    return add_leaves_and_facts(embedding);
}

static ckpt_status open_embedded(struct torch_archive *ta, const char *record, ckpt_file **out,
                                 ckpt_error *err)
{
    ckpt_file *f = ta->f;
    source *src;
    size_t i;
    ckpt_file **grown = arena_grow(f->a, f->parts, f->nparts, &f->cap_parts, f->nparts + 1, sizeof *grown);
    CKPT_TRY_ALLOC(grown, err);
    f->parts = grown;
    CKPT_TRY(torch_archive_require(ta, record, &i, err));
    CKPT_TRY(zip_locate_payload(ta->z, i, err));
    CKPT_TRY(torch_archive_open_record(ta, i, &src, err));
    const struct opening o = {.path = f->path, .src = src, .limits = &f->limits, .only = &format_torch_zip};
    CKPT_TRY(format_open(&o, out, err));
    grown[f->nparts++] = *out;
    return CKPT_OK;
}

ckpt_status torch_embed_archive(struct torch_archive *ta, const char *record, ckpt_value *mapping,
                                const ckpt_path_elem *prefix, const struct step *steps, uint32_t nprefix,
                                ckpt_str key, ckpt_error *err)
{
    arena *a = ta->f->a;
    ckpt_path_elem *path;
    struct step *path_steps;
    ckpt_value *k = value_str(a, key);
    CKPT_TRY_ALLOC(k && path_of_entry(a, mapping, prefix, steps, nprefix, key, &path, &path_steps), err);
    struct embedding e = {
        .f = ta->f, .prefix = path, .steps = path_steps, .nprefix = nprefix + 1, .err = err};
    ckpt_status st = open_embedded(ta, record, &e.embedded, err);
    if (st == CKPT_OK)
        st = add_contents(&e);
    if (st != CKPT_OK)
        error_add_where(err, "%.*s%s", STR_ARG(ta->top), record);
    CKPT_TRY(st);
    const ckpt_value *root = file_replacement_of(e.embedded, e.embedded->root);
    return value_put(a, mapping, k, (ckpt_value *)(uintptr_t)root) ? CKPT_OK : fail_memory(err);
}
