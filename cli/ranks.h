/* ranks.h - what the ranks of one command (comm.h) do together. convert, strip, add and rename are shared:
 * each rank writes a part of the output, and rank 0 merges them. So are hash, stat, diff and verify: each
 * rank reads its part of the tensors, and gets the results of all. Of any other command, rank 0 does all, and
 * the others wait for it. Rank 0 prints the report, or the error of the first rank that has failed, and all
 * ranks have the same exit code, the highest.
 *
 * They meet before the first byte is written, when all parts are written or read, and at the end. A rank that
 * fails goes to the end and waits for the others, who find it there at their next meeting; so none waits
 * forever. */
#pragma once

#include "cmd.h"

/* ranks_check_launcher - refuses CMD, if it writes and a launcher of an MPI has started several processes
 * that do not know of each other. Returns EXIT_OK, or EXIT_TROUBLE after printing the error. */
int ranks_check_launcher(const struct cmd *cmd);
/* ranks_are_several - returns true if there is more than one. */
bool ranks_are_several(void);
/* ranks_leave_to_first - makes rank 0 do all of the command, for a reason that only the command has; returns
 * true in the other ranks. */
bool ranks_leave_to_first(void);
/* ranks_divide - returns true if the ranks share the work of the command, of which this one has part *PART of
 * *PARTS. */
bool ranks_divide(uint32_t *part, uint32_t *parts);
/* ranks_take_part - returns true if this rank has a part in CMD, whose options were parsed and which has
 * COUNT OPERANDS. */
bool ranks_take_part(const struct cmd *cmd, int count, char *const *operands);
/* ranks_agree - is `planned` of ckpt_write_options: nonzero if the ranks have several plans, or one has
 * failed. USER is not used. */
int ranks_agree(void *user, const char *plan_id);
/* ranks_complete - waits until all ranks have written their parts of the output of P; then rank 0 merges
 * them. Returns EXIT_OK, also if P was not divided, or EXIT_TROUBLE after printing the error. */
int ranks_complete(const ckpt_plan *p);
/* ranks_exchange - is `exchange` of ckpt_work: brings the results of all ranks to each. USER is not used. */
int ranks_exchange(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                   size_t *all_bytes);
/* ranks_overflowed - returns how many values overflowed in cast number INDEX of P, in all ranks. */
uint64_t ranks_overflowed(const ckpt_plan *p, size_t index);
/* ranks_keep_error - keeps ERR, and returns true if it is not to be printed now: it is not of rank 0, or the
 * rank has only stopped because another one failed. */
bool ranks_keep_error(const ckpt_error *err);
/* ranks_end - waits for all ranks, of which this one has STATUS, prints the first error and removes what was
 * written if one has failed. Returns the exit code. */
int ranks_end(int status);
