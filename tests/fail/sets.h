/* sets.h - scenarios for in_turn: a set of shards is written to a folder that may hold other shards, or read
 * from it. */
#ifndef FAIL_SETS_H
#define FAIL_SETS_H

#include <stdbool.h>
#include <stddef.h>

/* sets_begin - makes a temporary folder, removed when the program ends.
 * sets_set_up - sets up the K-th of sets_count() scenarios with the checkpoint or the set at PATH; false: the
 * scenario does not apply to it.
 * sets_restore - restores the folder to its state at the beginning of the scenario.
 * sets_run - writes or reads the set; one of the calls in it may fail.
 * sets_check - aborts unless the folder is in a state that the scenario permits after sets_run(). */
void sets_begin(void);
size_t sets_count(void);
bool sets_set_up(const char *path, size_t k);
void sets_restore(void);
void sets_run(void);
void sets_check(void);

#endif
