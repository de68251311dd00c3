/* salvage.h - what is lost of a damaged file, and what is left. */
#pragma once

#include "format/format.h"

/* salvage_rows - lists the rows of F whose storages are lost, and replaces them by None in lists and tuples,
 * so that the items after them keep their positions. Called after F was read. */
ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err);
/* salvage_leave_out_unfit - if P is of a salvaged file of a flat format, leaves out the tensors whose dtype
 * the format TO does not have, and lists them as dropped. */
ckpt_status salvage_leave_out_unfit(ckpt_plan *p, const struct format *to, ckpt_error *err);
/* salvage_note_stray - notes as a loss COUNT bytes after the last WHAT, "tensor" or "storage", of a file
 * without checksums: a download that was resumed too early inserts bytes, and what follows them is
 * shifted. */
void salvage_note_stray(ckpt_file *f, uint64_t count, const char *what);
/* salvage_left_nothing - returns true if parts of F are lost, and what is left has no tensors and no values;
 * the metadata of a flat format do not count. */
bool salvage_left_nothing(const ckpt_file *f);
/* salvage_note_no_checksums - adds a notice to F if changed bytes cannot be detected. */
void salvage_note_no_checksums(ckpt_file *f);
/* salvage_hint_raw_bytes - sets the hint of ERR: how many intact bytes of ARCHIVE have no names. */
void salvage_hint_raw_bytes(const zip *archive, ckpt_error *err);
