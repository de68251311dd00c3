/*
 * tensors.c - tensors described outside of any pickle.
 *
 * A record that several tensors name is one storage: they are tied.
 */
#include "format/torch/tensors.h"

#include "core/check.h"

bool tensors_int(const json_scan *j, enum json_event e, uint64_t *out)
{
    return (e == JSON_NUMBER || e == JSON_STRING) && json_uint(j, out);
}

static ckpt_status storage_of(struct torch_archive *ta, const char *record, const ckpt_tensor *t,
                              uint32_t *index, ckpt_error *err)
{
    ckpt_file *f = ta->f;
    size_t i;
    CKPT_TRY(torch_archive_need(ta, record, &i, err));
    const struct zip_entry *e = &ta->z->entries[i];
    CKPT_TRY(file_storage_find(f, e->name, index, err));
    if (*index != CKPT_NO_STORAGE)
        return CKPT_OK;
    struct storage s = {.crc = e->crc, .dtype = t->dtype};
    s.s.nbytes = e->usize;
    s.s.key = e->name;
    s.s.location = t->location;
    s.has_crc = !ta->z->crc_none;
    CKPT_TRY(torch_archive_member(ta, i, &s.src, err));
    s.s.file_offset = source_pos(s.src, 0);
    return file_storage_add(f, &s, index, err);
}

ckpt_status tensors_put(struct torch_archive *ta, ckpt_value *mapping, const ckpt_path_elem *prefix,
                        const struct step *steps, uint32_t nprefix, ckpt_str key, const char *record,
                        const ckpt_tensor *t, ckpt_error *err)
{
    arena *a = ta->f->a;
    struct row row = {.t = *t};
    ckpt_path_elem *path;
    struct step *to;
    ckpt_value *k = value_str(a, key), *v = value_new(a, CKPT_V_TENSOR, 0);
    if (!k || !v || !path_below(a, mapping, prefix, steps, nprefix, key, &path, &to))
        return fail_memory(err);
    row.t.path = path;
    row.t.npath = nprefix + 1;
    row.t.value = v;
    row.t.part_of = CKPT_NO_TENSOR;
    row.t.has_shape = row.t.has_data = true;
    row.steps = to;
    ckpt_status st = storage_of(ta, record, t, &row.t.storage, err);
    if (st == CKPT_OK)
        st = file_row(ta->f, &row, &v->row, err);
    else
        fail_where(err, "%.*s", STR_ARG(key));
    CKPT_TRY(st);
    return value_put(a, mapping, k, v) ? CKPT_OK : fail_memory(err);
}
