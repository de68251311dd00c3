/* tensors.h - rows for tensors that JSON describes: storages that are
 * records of an archive, under names in a mapping. */
#ifndef FORMAT_TORCH_TENSORS_H
#define FORMAT_TORCH_TENSORS_H

#include "codec/json_scan.h"
#include "format/torch/archive.h"

/* tensors_int - the integer that event E is: a number, or text as protobuf's
 * JSON writes 64 bits. */
bool tensors_int(const json_scan *j, enum json_event e, uint64_t *out);
/* tensors_put - KEY of MAPPING becomes tensor T, all of whose storage is record
 * RECORD (without top). PREFIX is MAPPING's own path, of NPREFIX elements with
 * their STEPS. T needs dtype, shape, stride (NULL: dense) and storage_offset. */
ckpt_status tensors_put(struct torch_archive *ta, ckpt_value *mapping, const ckpt_path_elem *prefix,
                        const struct step *steps, uint32_t nprefix, ckpt_str key, const char *record,
                        const ckpt_tensor *t, ckpt_error *err);

#endif
