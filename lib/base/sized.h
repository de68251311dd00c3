/* sized.h - copies structs of the public interface that begin with struct_size. In a program that was built
 * with an earlier or later version of the library, they are shorter or longer than here. */
#pragma once

#include "base/error.h"

/* sized_struct_check - checks OUT, which the library is to fill. CKPT_EUSAGE: NULL, or no struct_size. */
ckpt_status sized_struct_check(const void *out, ckpt_error *err);
/* sized_struct_clear - checks OUT as sized_struct_check does, and zeroes all of it but its struct_size. */
ckpt_status sized_struct_clear(void *out, ckpt_error *err);
/* sized_struct_copy_in - copies the options GIVEN (NULL: the defaults) to OWN, of SIZE bytes. Fields that
 * GIVEN is too short for become 0. CKPT_EUSAGE: no struct_size, or an option of a later version is set. */
ckpt_status sized_struct_copy_in(const void *given, void *own, size_t size, ckpt_error *err);
/* sized_struct_copy_out - copies OWN, of SIZE bytes, to OUT, which sized_struct_check has accepted: as many
 * bytes as OUT has. If OUT is longer, zeroes its other bytes. The struct_size of OUT stays. */
void sized_struct_copy_out(void *out, const void *own, size_t size);
uint32_t sized_struct_size(const void *given);
