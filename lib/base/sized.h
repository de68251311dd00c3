/* sized.h - structs of the public interface that begin with struct_size. In a program that was built with an
 * earlier or later version of the library, they are shorter or longer than here. */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "base/error.h"

/* sized_check - checks OUT, which is to be filled. CKPT_EUSAGE: it is NULL, or its struct_size was not
 * set. */
ckpt_status sized_check(const void *out, ckpt_error *err);
/* sized_clear - checks OUT as sized_check does, and zeroes all of it but its struct_size. */
ckpt_status sized_clear(void *out, ckpt_error *err);
/* sized_take - copies the options GIVEN (NULL: the defaults) to OWN of SIZE bytes; fields that GIVEN is too
 * short for become 0. CKPT_EUSAGE: its struct_size was not set, or it has an option of a later version. */
ckpt_status sized_take(const void *given, void *own, size_t size, ckpt_error *err);
/* sized_give - copies the SIZE bytes of OWN to OUT, which sized_check has passed, as far as OUT is long
 * enough; zeroes the rest of OUT. Its struct_size stays. */
void sized_give(void *out, const void *own, size_t size);
/* sized_of - returns the struct_size of GIVEN. */
uint32_t sized_of(const void *given);

#endif
