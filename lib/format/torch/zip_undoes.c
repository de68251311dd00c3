/*
 * zip_undoes.c - checks whether an undo journal belongs to an interrupted edit of this archive. The caller
 * opens the archive as the journal would restore it, without writing a byte.
 *
 * The journal must restore exactly what torch_zip_in_place changes: either the pickle and its CRC-32 in both
 * headers; or the name of its record and the directory, and then it removes only the bytes that the edit
 * appended. Tensors and local headers do not change in an edit, so they show what the directory was.
 *
 * While an edit is half done, the pickle does not match its CRC-32, or a record has two names. If neither is
 * the case, no edit was interrupted, and the journal is refused. Without a CRC-32 this cannot be checked.
 */
#include "codec/zip_patch.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"

/* find_pickle - returns the archive of F and sets *I to the entry of its pickle; NULL: it has none. */
static zip *find_pickle(const ckpt_file *f, size_t *i)
{
    struct torch_archive *ta = f->container;
    return torch_archive_require(ta, "data.pkl", i, NULL) == CKPT_OK ? ta->z : NULL;
}

/* is_half_changed - can IS, the current file, be what an interrupted edit made of WAS? */
static bool is_half_changed(const ckpt_file *is, const ckpt_file *was)
{
    size_t i;
    if (is->format != &format_torch_zip)
        return false;
    zip *z = find_pickle(is, &i);
    return !z || z->crc_none ||
           (!zip_patch_is_consistent(z, i) && table_same_places(&is->table, &was->table));
}

bool torch_zip_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo)
{
    size_t i;
    zip *z = find_pickle(was, &i);
    return z && zip_patch_undoes(z, i, now, undo) && (!is || is_half_changed(is, was));
}
