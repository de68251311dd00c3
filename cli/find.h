/* find.h - "state_dict.fc.weight" to the value it means. */
#ifndef CLI_FIND_H
#define CLI_FIND_H

#include "text.h"

struct found {
    uint32_t row;            /* CKPT_NO_TENSOR: not a tensor */
    const ckpt_value *value; /* may be NULL for a tensor */
};

/* find_path - what NAME (keys joined with '.') is in F. Tensors first, then the
 * graph: keys may hold dots themselves. Then the metadata. ROOT: what F was narrowed to, or empty. */
bool find_path(const ckpt_file *f, ckpt_str root, ckpt_str name, struct found *out);
/* find_similar_name - the tensor, or else the value, whose name ends in NAME or is nearest to it, or empty.
 * */
ckpt_str find_similar_name(const ckpt_file *f, const char *name);
/* notice_no_match - a notice that no tensor of F passes the globs, with the first such glob and the nearest
 * names. */
void notice_no_match(const ckpt_file *f, const char *const *globs, size_t nglobs);
/* text_no_match - the same as a text. */
void text_no_match(struct text *to, const ckpt_file *f, const char *const *globs, size_t nglobs);
/* any_row_matches - does any tensor of F pass the globs? */
bool any_row_matches(const ckpt_file *f, const char *const *globs, size_t nglobs);
/* text_key - a mapping's key as paths spell it. */
void text_key(struct text *t, const ckpt_value *key);

#endif
