/* siblings.h - the tensors in the other shards of the set that a file, which was opened alone, belongs to. */
#ifndef FORMAT_HUB_SIBLINGS_H
#define FORMAT_HUB_SIBLINGS_H

#include "core/file.h"

/* siblings_list - sets *NAMES, which the caller frees with map_free, to the names of the tensors that an
 * index in the folder of F lists in other files; NULL: no index there lists F, or none can be read. Allocates
 * the names from A. Only CKPT_ENOMEM is an error. */
ckpt_status siblings_list(const ckpt_file *f, arena *a, map **names, ckpt_error *err);

#endif
