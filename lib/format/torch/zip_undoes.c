/*
 * zip_undoes.c - can an undo journal be of an edit of this archive? The archive that it would
 * restore is read before a byte is written. What it puts back has to be, byte for byte, what
 * torch_zip_in_place has changed: the pickle and its CRC-32, in all places; or the name of its record, and
 * the directory, with nothing but the edit's own bytes cut off. All else, the tensors' bytes and the
 * members' headers, is as it was, so it shows what the directory was.
 *
 * An archive that is half changed has a pickle that its CRC-32 does not fit, or a record under another
 * name. One that has neither was not cut short, whatever the journal claims. Where no CRC-32 is recorded,
 * nothing shows that.
 */
#include "codec/zip_patch.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"

/* pickle_of - the archive of F, and the entry of its pickle; NULL: it is not there. */
static zip *pickle_of(const ckpt_file *f, size_t *i)
{
    struct torch_archive *ta = f->container;
    return torch_archive_need(ta, "data.pkl", i, NULL) == CKPT_OK ? ta->z : NULL;
}

/* is_half_changed - can IS, the file as it stands, be on the way to or from WAS? */
static bool is_half_changed(const ckpt_file *is, const ckpt_file *was)
{
    size_t i;
    if (is->format != &format_torch_zip)
        return false;
    zip *z = pickle_of(is, &i);
    return !z || z->crc_none || (!zip_patch_is_intact(z, i) && table_same_places(&is->table, &was->table));
}

bool torch_zip_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo)
{
    size_t i;
    zip *z = pickle_of(was, &i);
    return z && zip_patch_undoes(z, i, now, undo) && (!is || is_half_changed(is, was));
}
