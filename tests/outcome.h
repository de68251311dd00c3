/* outcome.h - compares the table of a damaged file that could still be opened with the table of the original:
 *
 *   same        names, types, shapes and offsets are equal: the damaged bytes do not affect them
 *   one change  one property changed, to a value that the format permits: of one tensor (and of the tensors
 *               that a quantized or sparse one consists of), of the tensors of one storage, or in the same
 *               way of every tensor that differs
 *   several     more than that changed; tensors may be missing or new. Only damage to the file's structure
 *               may do this: to its first four bytes; to opcodes, memo indices, lengths and strings of a
 *               pickle (a class with a changed name makes no tensor); to names of members of a zip archive
 *
 * A truncated file must be refused or have the same table. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "ckpt.h"

enum outcome { OUTCOME_SAME, OUTCOME_ONE_CHANGE, OUTCOME_SEVERAL };

enum outcome outcome_compare(const ckpt_file *original, const ckpt_file *damaged);
/* outcome_describe - writes the first three differences to OUT. */
void outcome_describe(const ckpt_file *original, const ckpt_file *damaged, char *out, size_t cap);
/* outcome_structure - returns for each of SIZE bytes at DATA whether it belongs to the structure of the file,
 * as above. The caller frees it. */
bool *outcome_structure(const unsigned char *data, size_t size);

#endif
