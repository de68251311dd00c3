/* sized.c - see sized.h. The size that a program was built with is the first field of each struct. */
#include "base/sized.h"

#include <string.h>

#define SMALLEST 8u    /* no struct was smaller in any version */
#define LARGEST  4096u /* a larger number is not a size, but uninitialized memory */

uint32_t sized_struct_size(const void *given)
{
    uint32_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static ckpt_status check_size(uint32_t size, ckpt_error *err)
{
    if (size >= SMALLEST && size <= LARGEST)
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "struct_size is {%u}, expected {=the sizeof of the struct}\n"
                "set it with CKPT_INIT, see libckpt(3)",
                size);
}

ckpt_status sized_struct_check(const void *out, ckpt_error *err)
{
    return out ? check_size(sized_struct_size(out), err)
               : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "no place to put the result (NULL)");
}

ckpt_status sized_struct_clear(void *out, ckpt_error *err)
{
    CKPT_TRY(sized_struct_check(out, err));
    memset((unsigned char *)out + sizeof(uint32_t), 0, sized_struct_size(out) - sizeof(uint32_t));
    return CKPT_OK;
}

static ckpt_status check_unknown(const unsigned char *given, size_t from, size_t size, ckpt_error *err)
{
    for (size_t i = from; i < size; i++)
        if (given[i])
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "an option of a newer version of libckpt is set (byte {%zu} of its struct; {=this "
                        "version has %zu})",
                        i, from);
    return CKPT_OK;
}

ckpt_status sized_struct_copy_in(const void *given, void *own, size_t size, ckpt_error *err)
{
    uint32_t ours = (uint32_t)size;
    memset(own, 0, size);
    if (given) {
        uint32_t theirs = sized_struct_size(given);
        CKPT_TRY(check_size(theirs, err));
        CKPT_TRY(check_unknown(given, size, theirs, err));
        memcpy(own, given, theirs < ours ? theirs : ours);
    }
    memcpy(own, &ours, sizeof ours);
    return CKPT_OK;
}

void sized_struct_copy_out(void *out, const void *own, size_t size)
{
    size_t theirs = sized_struct_size(out), n = theirs < size ? theirs : size;
    unsigned char *to = out;
    memcpy(to + sizeof(uint32_t), (const unsigned char *)own + sizeof(uint32_t), n - sizeof(uint32_t));
    if (n < theirs)
        memset(to + n, 0, theirs - n);
}
