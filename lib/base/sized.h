/* sized.h - copies structs of the public interface that begin with struct_size. In a program that was built
 * with an earlier or later version of the library, they are shorter or longer than here. */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "base/error.h"

/* sized_check - checks OUT, which the caller fills. CKPT_EUSAGE: it is NULL, or struct_size is not set. */
ckpt_status sized_check(const void *out, ckpt_error *err);
/* sized_clear - checks OUT as sized_check does, and zeroes all of it but its struct_size. */
ckpt_status sized_clear(void *out, ckpt_error *err);
/* sized_copy_in - copies the options GIVEN (NULL: the defaults) to OWN, of SIZE bytes. Fields that GIVEN is
 * too short for become 0. CKPT_EUSAGE: struct_size is not set, or an option of a later version is. */
ckpt_status sized_copy_in(const void *given, void *own, size_t size, ckpt_error *err);
/* sized_copy_out - copies OWN, of SIZE bytes, to OUT, which sized_check has accepted: as many bytes as OUT
 * has. If OUT is longer, zeroes its other bytes. The struct_size of OUT stays. */
void sized_copy_out(void *out, const void *own, size_t size);
/* sized_get_size - returns the struct_size of GIVEN. */
uint32_t sized_get_size(const void *given);

#endif
