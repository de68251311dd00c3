/* sets.h - scenarios for each_call.c. Some write a set of shards to a folder that may already contain files;
 * the others read a set from a folder. */
#ifndef FAIL_SETS_H
#define FAIL_SETS_H

#include <stdbool.h>
#include <stddef.h>

/* sets_begin - makes a temporary folder, removed when the program ends. */
void sets_begin(void);
/* sets_count - returns the number of scenarios. */
size_t sets_count(void);
/* sets_set_up - sets up scenario number K with the checkpoint or the set of shards at PATH, and runs it once
 * without failing calls. Returns false if PATH is a set and the scenario reads none. */
bool sets_set_up(const char *path, size_t k);
/* sets_restore - restores the folder to its state at the beginning of the scenario. */
void sets_restore(void);
/* sets_run - writes or reads the set; one of the calls that this makes may fail. */
void sets_run(void);
/* sets_check - aborts unless the folder is in a state that the scenario permits after sets_run(). */
void sets_check(void);

#endif
