/* unit.h - what every suite uses. A suite is one function that adds its tests:
 *
 *     static void finds_nothing(void) { CU_ASSERT(…); }
 *     void suite_map(void) { UNIT(finds_nothing); }
 */
#ifndef UNIT_H
#define UNIT_H

#include <CUnit/Basic.h>
#include <string.h>

#include "../tensor.h"

/* unit_add - adds a test under its own name to the suite being made. */
void unit_add(const char *name, void (*test)(void));
#define UNIT(test) unit_add(#test, test)

/* unit_guard - SIZE bytes of DATA copied so that they end exactly at an
 * unmapped page: one byte too far faults in any build. Free with
 * unit_guard_free. */
unsigned char *unit_guard(const void *data, size_t size);
void unit_guard_free(unsigned char *at, size_t size);

/* unit_host - N elements of WIDTH bytes, little-endian as tensors are, become the host's; or back. */
void unit_host(void *at, size_t n, size_t width);

/* unit_timed - may a test hold the clock to a promise: an optimized build,
 * without sanitizers, not under valgrind? */
bool unit_timed(void);

/* unit_corpus - path of a file below the test corpus, in a static buffer. */
const char *unit_corpus(const char *below);

#endif
