/* outcome.h - compares the tables of an original file and of a damaged copy that could be opened:
 *
 *   same        names, types, shapes and offsets are equal: the damaged bytes do not affect them
 *   one change  the tensors that differ are one tensor (with those that a quantized or sparse one consists
 *               of), or share one storage, or all differ in the same way: the damage changed one value to
 *               another that the format permits
 *   several     more than that changed; tensors may be missing or new. Only damage to the file's structure
 *               may do this: to its first four bytes; to opcodes, memo indices, lengths and strings of a
 *               pickle (a class with a changed name makes no tensor); to names of members of a zip archive
 *
 * A truncated file must be refused or have the same table. robust.c makes exceptions: an ONNX file may be
 * truncated, and a file may differ if there is a notice that bytes are ignored. */
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
