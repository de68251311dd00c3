/* outcome.h - what may become of a file of which a few bytes were changed or cut off: it is refused by an
 * error that tells all, or its table is held against the one it had:
 *
 *   same   names, types, shapes, places are what they were: the bytes do not matter to them
 *   fact   one fact is another, as the bytes now say and no rule of the format forbids: in one tensor
 *          with its parts, in the tensors of one storage, or the same fact wherever it is used
 *   sense  more than that, even tensors gone or new. Only bytes that give a file its sense may do so: its
 *          first four, and of a pickle opcodes, places in the memo, lengths and words (a name that nobody
 *          knows makes no tensor), of an archive the names of members
 *
 * A file that is cut and still read must be the same. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "ckpt.h"

enum outcome { OUTCOME_SAME, OUTCOME_FACT, OUTCOME_SENSE };

/* outcome_of - two files that are open, one of them damaged */
enum outcome outcome_of(const ckpt_file *whole, const ckpt_file *damaged);
/* outcome_explain - how they differ, in words */
void outcome_explain(const ckpt_file *whole, const ckpt_file *damaged, char *out, size_t cap);
/* outcome_senses - for each of SIZE bytes at DATA, does it give the file its sense? To be freed. */
bool *outcome_senses(const unsigned char *data, size_t size);

#endif
