/*
 * zip_reread.c - what a file of which the pickle got shorter texts will be,
 * without a second graph and a second table of it. Each step leads to the next:
 *
 *   the patched file is the same archive, its pickle but for one record;
 *   that pickle is the old one, opcode for opcode, but for texts that each stand in
 *   one place, and pairs of a text and a dict of one number that are not there, so its
 *   graph is the old one but for them, and without tensors less;
 *   the old graph, with the new texts in it for a moment, gives the rows that the
 *   table has, under the names that the plan gives them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "codec/pickle_shorten.h"
#include "codec/zip_patch.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"

static bool same_archive(zip *z, size_t i, ckpt_str bytes, const struct patches *out)
{
    bool same = false;
    source *after = source_patched(z->src, out);
    if (!after || zip_patch_holds(z, i, after, bytes, &same, NULL) != CKPT_OK)
        same = false;
    source_unref(after);
    return same;
}

bool torch_zip_reread(struct torch_archive *ta, size_t i, ckpt_str bytes, const struct pickle_text *list,
                      size_t n, const struct patches *out)
{
    return pickle_is_shortened((const unsigned char *)bytes.ptr, ta->kept[0], bytes.len, list, n) &&
           same_archive(ta->z, i, bytes, out);
}

/* ------------------------------------------------------------------- rows */

static bool same_numbers(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    return !a == !b && (!a || memcmp(a, b, n * sizeof *a) == 0); /* bounded: they are in memory */
}

/* same_name - is NAME what the path of T is joined to? */
static bool same_name(const ckpt_tensor *t, ckpt_str name)
{
    char digits[24];
    for (uint32_t k = 0; k < t->npath; k++) {
        const ckpt_path_elem *e = &t->path[k];
        ckpt_str one = e->str;
        if (e->is_int)
            one = str_of(digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, (int64_t)e->num));
        if (k && !str_starts(name, STR_LIT(".")))
            return false;
        name = str_skip(name, k ? 1 : 0);
        if (!str_starts(name, one))
            return false;
        name = str_skip(name, one.len);
    }
    return name.len == 0;
}

static bool same_row(void *user, uint32_t i, const ckpt_tensor *t)
{
    const ckpt_plan *p = user;
    ckpt_tensor old;
    return table_show(&p->file->table, i, &old) && p->entries[i].row == i && old.value == t->value &&
           old.dtype == t->dtype && old.kind == t->kind && old.ndim == t->ndim &&
           old.storage == t->storage && old.storage_offset == t->storage_offset &&
           old.has_data == t->has_data && old.has_shape == t->has_shape && old.conj == t->conj &&
           old.neg == t->neg && old.requires_grad == t->requires_grad && old.parameter == t->parameter &&
           old.part_of == t->part_of && old.npath == t->npath &&
           same_numbers(old.shape, t->shape, t->ndim) && same_numbers(old.stride, t->stride, t->ndim) &&
           same_name(t, p->entries[i].name);
}

bool torch_zip_same_rows(const ckpt_plan *p, struct torch_archive *ta)
{
    struct torch_storages st = torch_archive_storages(ta);
    return p->nentries == p->file->table.nrows &&
           torch_graph_again(p->file, p->file->root, &st, same_row, (void *)(uintptr_t)p);
}
