/* metadata.h - the texts of a safetensors header or an index, as values below "__metadata__". */
#ifndef CLI_METADATA_H
#define CLI_METADATA_H

#include "json.h"

/* metadata_next - the first text of F from number *I on that records no tie; *I moves past it. *OUT is valid
 * until the next call. False: there is none. Below a root (ui.root) there are none. */
bool metadata_next(const ckpt_file *f, size_t *i, ckpt_leaf *out);
/* metadata_find - what NAME, "__metadata__" or "__metadata__.KEY", is; NULL: nothing. */
const ckpt_value *metadata_find(const ckpt_file *f, ckpt_str name);
/* metadata_json - a list of all texts, as `metadata`. */
void metadata_json(json *to, const ckpt_file *f);

#endif
