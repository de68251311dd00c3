/* embedded_archive.h - a torch.save archive inside another archive. */
#ifndef FORMAT_TORCH_EMBEDDED_ARCHIVE_H
#define FORMAT_TORCH_EMBEDDED_ARCHIVE_H

#include "format/torch/archive.h"

/* torch_embed_archive - opens record RECORD (without top) as a torch.save archive and puts its root into
 * MAPPING as the value of KEY. PREFIX and STEPS, NPREFIX long, are the path of MAPPING. */
ckpt_status torch_embed_archive(struct torch_archive *ta, const char *record, ckpt_value *mapping,
                                const ckpt_path_elem *prefix, const struct step *steps, uint32_t nprefix,
                                ckpt_str key, ckpt_error *err);

#endif
