/* unit.h - functions for every suite. A suite is a function that adds its tests:
 *
 *     static void finds_nothing(void) { CU_ASSERT(…); }
 *     void suite_map(void) { UNIT(finds_nothing); }
 */
#ifndef UNIT_H
#define UNIT_H

#include <CUnit/Basic.h>
#include <string.h>

#include "../tensor.h"

/* unit_add - adds TEST, called NAME, to the current suite. */
void unit_add(const char *name, void (*test)(void));
#define UNIT(test) unit_add(#test, test)

/* unit_guard - returns a copy of the SIZE bytes of DATA that ends exactly at an
 * unmapped page, so that reading one byte too many faults in any build. Free it
 * with unit_guard_free. */
unsigned char *unit_guard(const void *data, size_t size);
void unit_guard_free(unsigned char *at, size_t size);

/* unit_to_host_order - converts N elements of WIDTH bytes from little-endian to host byte order, or back. */
void unit_to_host_order(void *at, size_t n, size_t width);

/* unit_measures_memory - returns true if a test may check how much memory its process takes: without
 * sanitizers or valgrind, which need more. */
bool unit_measures_memory(void);

/* unit_corpus_path - returns the path of a file of the test corpus, in a static buffer. NAME is its path from
 * the folder of the corpus. */
const char *unit_corpus_path(const char *name);

#endif
