/* salvage.h - finds the lost rows of a damaged file. */
#ifndef FORMAT_SALVAGE_H
#define FORMAT_SALVAGE_H

#include "codec/zip.h"
#include "core/file.h"

/* salvage_rows - after F was read: lists the rows whose storages are lost, and replaces them by None in
 * lists and tuples, so that indexes do not change. */
ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err);
/* salvage_note_no_checksums - adds a notice to F if changed bytes cannot be detected. */
void salvage_note_no_checksums(ckpt_file *f);
/* salvage_hint_raw_bytes - sets the hint of ERR: how many intact bytes of Z have no names. */
void salvage_hint_raw_bytes(const zip *z, ckpt_error *err);

#endif
