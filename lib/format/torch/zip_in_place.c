/*
 * zip_in_place.c - renames tensors in an archive in place.
 *
 * The pickle is written again from its graph, with the same storage keys:
 *
 *   If the new pickle is not longer than the old one, it replaces the old one. Unused PUTs fill it up, so
 *   that no size, offset or other record changes.
 *   If the new pickle is longer, the old record is renamed to <top>/data.old, in its local header too, and a
 *   new <top>/data.pkl and the central directory are written after the storages.
 *
 * Refused: graphs that the writer has to change (whole modules, embedded checkpoints), deflated pickles,
 * archives with unreferenced bytes.
 */
#include <stdio.h>

#include "codec/pickle_write.h"
#include "codec/zip_patch.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"

static ckpt_status refuse_in_place(ckpt_error *err, const char *why)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s; it cannot be edited in place", why);
}

/* check_editable - fails unless an edit of F has to change only its pickle, which is entry ENTRY. */
static ckpt_status check_editable(const ckpt_file *f, const struct zip_entry *entry, ckpt_error *err)
{
    if (f->replacements.n)
        return refuse_in_place(err, "it holds a whole module, which is written as its state dict");
    if (f->nparts || f->npickles != 1 || !f->root)
        return refuse_in_place(err, "it holds more than one pickle");
    if (entry->method != ZIP_STORED || (entry->flags & ZIP_FLAGS_OPAQUE))
        return refuse_in_place(err, "its pickle is compressed");
    if (entry->duplicate)
        return refuse_in_place(err, "it holds two records called data.pkl");
    return CKPT_OK;
}

/* name_old_pickle - sets *OUT to an unused name for the old pickle: data.old, data.o01 … */
static ckpt_status name_old_pickle(const zip *archive, ckpt_str name, ckpt_str *out, ckpt_error *err)
{
    for (unsigned k = 0; k < 100; k++) {
        char suffix[4] = "old";
        if (k)
            (void)snprintf(suffix, sizeof suffix, "o%02u", k);
        ckpt_str candidate = ARENA_CONCAT(archive->a, str_of(name.ptr, name.len - 3), str_c(suffix));
        CKPT_TRY_ALLOC(candidate.ptr, err);
        if (candidate.len == name.len && zip_find(archive, candidate) < 0) {
            *out = candidate;
            return CKPT_OK;
        }
    }
    return refuse_in_place(err, "it holds a hundred old pickles of earlier edits");
}

static ckpt_status make_patches(struct torch_archive *ta, size_t index, ckpt_str bytes, bool fits_in_place,
                                struct patches *out, ckpt_error *err)
{
    ckpt_str old_name;
    CKPT_TRY_ALLOC(bytes.ptr, err);
    if (fits_in_place)
        return zip_patch_replace(ta->z, index, bytes, out, err);
    CKPT_TRY(name_old_pickle(ta->z, ta->z->entries[index].name, &old_name, err));
    return zip_patch_append(ta->z, index, old_name, bytes, out, err);
}

/* rewrite_pickle - writes the pickle of P's file, entry INDEX, again with P's names; OUT gets the patches. */
static ckpt_status rewrite_pickle(ckpt_plan *p, struct torch_archive *ta, size_t index, struct patches *out,
                                  ckpt_error *err)
{
    bool literal = file_needs_protocol_3(p->file);
    struct pickle_hooks hooks = {.user = p, .keep_entry = plan_edit_entry, .has_literal_names = literal};
    size_t size = (size_t)ta->z->entries[index].usize;
    bool fits_in_place;
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = pickle_write_filled(p->file->root, &hooks, size, &b, &fits_in_place, err);
    if (st == CKPT_OK)
        st = make_patches(ta, index, arena_str(p->a, buf_view(&b)), fits_in_place, out, err);
    buf_free(&b);
    return st;
}

ckpt_status torch_zip_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err)
{
    struct torch_archive *ta = p->file->container;
    size_t i;
    CKPT_TRY(torch_archive_require(ta, "data.pkl", &i, err));
    CKPT_TRY(check_editable(p->file, &ta->z->entries[i], err));
    return rewrite_pickle(p, ta, i, out, err);
}

/* -------------------------------------------------------------- undo journals
 * If an edit replaced the pickle, its journal restores the pickle, and the CRC-32 in both headers. If an edit
 * appended a pickle, its journal restores the name of the old record and the central directory, and removes
 * the new bytes. No edit changes storages or their local headers: the old central directory must match them.
 *
 * While an edit is half done, the pickle does not match its CRC-32, or its local header and the central
 * directory give it different names. If neither is so, no edit was interrupted, and the journal is refused.
 * In an archive without CRC-32s this cannot be checked, and the journal is accepted. */

/* find_zip_and_pickle - returns the zip of F and sets *INDEX to the entry of its pickle; NULL: it has
 * none. */
static zip *find_zip_and_pickle(const ckpt_file *f, size_t *index)
{
    ckpt_error ignored;
    struct torch_archive *ta = f->container;
    return torch_archive_require(ta, "data.pkl", index, &ignored) == CKPT_OK ? ta->z : NULL;
}

/* is_half_changed - returns true if an interrupted edit of OLD may have made CURRENT. */
static bool is_half_changed(const ckpt_file *current, const ckpt_file *old)
{
    size_t i;
    if (current->format != &format_torch_zip)
        return false;
    zip *z = find_zip_and_pickle(current, &i);
    return !z || z->crc_none ||
           (!zip_patch_is_consistent(z, i) && table_same_places(&current->table, &old->table));
}

bool torch_zip_undoes(const ckpt_file *old, const ckpt_file *current, source *now, const struct patches *undo)
{
    size_t i;
    zip *z = find_zip_and_pickle(old, &i);
    return z && zip_patch_undoes(z, i, now, undo) && (!current || is_half_changed(current, old));
}
