/* salvage.h - which rows of a damaged file are lost. */
#ifndef FORMAT_SALVAGE_H
#define FORMAT_SALVAGE_H

#include "codec/zip.h"
#include "core/file.h"

/* salvage_rows - once F was read: lists the rows whose storages are lost, and puts None in their place in
 * lists and tuples, so that their neighbours keep theirs. */
ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err);
/* salvage_blind - a notice of F where changed bytes cannot be seen. */
void salvage_blind(ckpt_file *f);
/* salvage_raw - says in ERR how many bytes of Z a dump without names could give. */
void salvage_raw(const zip *z, ckpt_error *err);

#endif
