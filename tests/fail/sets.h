/* sets.h - scenes for in_turn: sets of shards written over what a folder may hold, and read from it. */
#ifndef FAIL_SETS_H
#define FAIL_SETS_H

#include <stdbool.h>
#include <stddef.h>

/* sets_begin - a folder of its own, which goes when the program ends. sets_scene - the K-th of sets_scenes()
 * with the checkpoint or the set at PATH is set up; false: it is none for that. sets_ready - the folder as it
 * is before it. sets_run - the calls, of which one may fail; sets_check - what is there now. */
void sets_begin(void);
size_t sets_scenes(void);
bool sets_scene(const char *path, size_t k);
void sets_ready(void);
void sets_run(void);
void sets_check(void);

#endif
