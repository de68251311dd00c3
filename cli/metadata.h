/* metadata.h - the metadata of a safetensors header or a shard index, as values below "__metadata__". */
#ifndef CLI_METADATA_H
#define CLI_METADATA_H

#include "json.h"

/* metadata_next - sets *OUT to the next pair of F's metadata from index *I on that does not record a tie, and
 * moves *I past it. *OUT is valid until the next call. False: there is none, as always with --root. */
bool metadata_next(const ckpt_file *f, size_t *i, ckpt_leaf *out);
/* metadata_find - returns the value that NAME, "__metadata__" or "__metadata__.KEY", names, or NULL. */
const ckpt_value *metadata_find(const ckpt_file *f, ckpt_str name);
/* metadata_json - adds a list of all pairs, as "metadata". */
void metadata_json(json *to, const ckpt_file *f);

#endif
