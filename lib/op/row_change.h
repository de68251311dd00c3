/* row_change.h - changes the tensors of an open file: a row gets other elements, or shares those of another,
 * a mapping gets a new tensor. The file itself is not written to. Other plans of the file see the change. */
#pragma once

#include "core/plan.h"

/* What a row becomes: a dense tensor. */
struct new_tensor {
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    const uint64_t *stride; /* in elements; NULL: row-major */
    uint64_t elements, nbytes;
    source *src; /* has the NBYTES bytes at AT */
    uint64_t at;
};

/* row_replace - makes row ROW of F what NEW describes; takes over NEW's reference to its source, even on
 * failure. Its name and place stay. */
ckpt_status row_replace(ckpt_file *f, uint32_t row, const struct new_tensor *new, ckpt_error *err);
/* row_share - makes ROW another name of the tensor OF. */
ckpt_status row_share(ckpt_file *f, uint32_t row, uint32_t of, ckpt_error *err);
/* row_check_place - refuses ROW if its mapping is in several places, which a change would reach, too. */
ckpt_status row_check_place(ckpt_plan *p, uint32_t row, ckpt_error *err);
/* rows_find_ties - finds again which tensors of F are the same, after rows were changed. */
ckpt_status rows_find_ties(ckpt_file *f, ckpt_error *err);
/* row_add - adds to the mapping that has row LIKE, as its last entry under the text KEY, a tensor that
 * shares the elements of LIKE; *ROW is its number. KEY must be in the arena of the file, and new in the
 * mapping. P is the only plan of the file. CKPT_EUNSUPPORTED: LIKE is in no mapping with text keys. */
ckpt_status row_add(ckpt_plan *p, uint32_t like, ckpt_str key, uint32_t *row, ckpt_error *err);
/* row_find_key - returns the text of the last key of ROW's path, as the plan has it now; .ptr NULL: it is no
 * text. */
ckpt_str row_find_key(const ckpt_plan *p, uint32_t row);
/* row_find_mapping - sets *ROW to a tensor of the mapping to which a tensor called NAME is to be added, and
 * *MAPPING_LEN to the length of that mapping's name, with the dot: of those with which NAME begins, the one
 * with the longest name. False: there is none. The entries of P are up to date. */
bool row_find_mapping(const ckpt_plan *p, ckpt_str name, uint32_t *row, size_t *mapping_len);
/* rows_note_lost_attributes - reports the attributes of changed tensors as dropped, or refuses to lose them
 * if STRICT: they may be about what a tensor was, as ds_shape of DeepSpeed. For formats that hold objects. */
ckpt_status rows_note_lost_attributes(ckpt_plan *p, bool strict, ckpt_error *err);
