/*
 * dequantize.c - converts ggml's blocks to float32 in memory, or copies as many bytes, to be timed:
 *
 *   dequantize TYPE|copy GB
 *
 * TYPE is a name of ckpt_dtype_name. Writes GB times 2^30 bytes, 64 MiB at a time, on one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dequantize.h"

#define CALL_BYTES ((size_t)64 << 20) /* converted or copied in one call */

int main(int argc, char **argv)
{
    bool copy = argc > 1 && strcmp(argv[1], "copy") == 0;
    ckpt_dtype dtype = argc > 1 ? dtype_by_name(str_c(argv[1])) : CKPT_DT_NONE;
    unsigned char *in = malloc(CALL_BYTES), *out = malloc(CALL_BYTES);
    if (argc != 3 || (!copy && !dequantize_supports(dtype)) || !in || !out) {
        fprintf(stderr, "usage: dequantize TYPE|copy GB\n");
        return 2;
    }
    for (size_t i = 0; i < CALL_BYTES; i++)
        in[i] = (unsigned char)(i * 2654435761u >> 13); /* varied bytes */
    memset(out, 1, CALL_BYTES); /* so that its pages exist before the first conversion */
    size_t nblocks = copy ? 0 : CALL_BYTES / sizeof(float) / dtype_info(dtype)->block_elems;
    const long calls_per_gb = (long)((1u << 30) / CALL_BYTES);
    for (long left = calls_per_gb * strtol(argv[2], NULL, 10); left > 0; left--) {
        if (copy)
            memcpy(out, in, CALL_BYTES);
        else
            dequantize(dtype, in, nblocks, out);
        __asm__ volatile("" : : "r"(out) : "memory"); /* so that the compiler keeps the copy */
    }
    return 0;
}
