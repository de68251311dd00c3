/*
 * read.c - reads a folder with one Zarr array (codec/zarr.c), as TensorStore and zarr-python write it; and
 * any OCDBT database (codec/ocdbt.c). Each value of the database becomes a tensor of bytes.
 */
#include "codec/zarr.h"
#include "format/folder.h"
#include "format/zarr/arrays.h"

static bool probe_zarr(const struct probe *p) { return probe_has(p, ZARR_V2) || probe_has(p, ZARR_V3); }
static bool probe_ocdbt(const struct probe *p) { return probe_has(p, OCDBT_MANIFEST); }

static ckpt_status add_keys(struct zarr_arrays *x, struct store *s, ckpt_value *dict)
{
    for (size_t i = 0; i < s->db.n; i++) {
        ckpt_value *node, *key = value_str(x->f->a, s->db.entries[i].key);
        CKPT_TRY(zarr_add_bytes(x, s, i, &node));
        if (!key || !value_put(x->f->a, dict, key, node))
            return fail_memory(x->err);
    }
    return CKPT_OK;
}

/* read_bare - reads F, a folder that is an array or a database. */
static ckpt_status read_bare(ckpt_file *f, bool is_ocdbt, ckpt_error *err)
{
    struct zarr_arrays x;
    struct store s = {.f = f, .err = err, .folder = {"", 0}};
    const struct zarr_source all = {&s, {"", 0}, {"", 0}, MISSING_FILL};
    ckpt_value *root = value_new(f->a, CKPT_V_DICT, 0);
    f->folder = f->path;
    s.trusted = is_ocdbt ? OCDBT_MANIFEST : probe_has(f->probe, ZARR_V2) ? ZARR_V2 : ZARR_V3;
    ckpt_status st = zarr_arrays_begin(&x, f, err);
    if (st == CKPT_OK)
        st = root ? store_open(&s, is_ocdbt) : fail_memory(err);
    if (st == CKPT_OK)
        st = is_ocdbt ? add_keys(&x, &s, root) : zarr_add_array(&x, &all, &root);
    if (st == CKPT_OK)
        st = zarr_arrays_make_graph(&x, root);
    store_close(&s);
    zarr_arrays_end(&x);
    return st;
}

static ckpt_status read_zarr(ckpt_file *f, ckpt_error *err) { return read_bare(f, false, err); }
static ckpt_status read_ocdbt(ckpt_file *f, ckpt_error *err) { return read_bare(f, true, err); }

const struct format format_zarr = {
    .name = "zarr", .title = "Zarr array", .probe = probe_zarr, .read = read_zarr};
const struct format format_ocdbt = {
    .name = "ocdbt", .title = "OCDBT database", .probe = probe_ocdbt, .read = read_ocdbt};
