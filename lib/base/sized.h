/* sized.h - structs of the public interface that begin with struct_size: those of a program that was built
 * before or after this library are shorter or longer than ours. */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "base/error.h"

/* sized_check - may OUT be filled? CKPT_EUSAGE: it is NULL, or its struct_size was not set. */
ckpt_status sized_check(const void *out, ckpt_error *err);
/* sized_clear - sized_check, and all of OUT but its struct_size is 0. */
ckpt_status sized_clear(void *out, ckpt_error *err);
/* sized_take - the options GIVEN (NULL: the defaults) into OWN of SIZE bytes; what GIVEN is too short for
 * is 0. CKPT_EUSAGE: its struct_size was not set, or it has an option that we do not. */
ckpt_status sized_take(const void *given, void *own, size_t size, ckpt_error *err);
/* sized_give - the SIZE bytes of OWN into OUT, which sized_check has seen, as far as it is long enough; what
 * it has beyond them is 0. Its struct_size stays. */
void sized_give(void *out, const void *own, size_t size);
/* sized_of - the struct_size of GIVEN. */
uint32_t sized_of(const void *given);

#endif
