/*
 * dequantize.c - converts ggml's blocks to float32 in memory, or copies as many bytes, to be timed:
 *
 *   dequantize TYPE|copy GB
 *
 * TYPE is a name of ckpt_dtype_name. GB times 2^30 bytes are written, 64 MiB at a time, on one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dequantize.h"

#define OUT ((size_t)64 << 20)

int main(int argc, char **argv)
{
    bool copy = argc > 1 && strcmp(argv[1], "copy") == 0;
    ckpt_dtype dt = argc > 1 ? dtype_by_name(str_c(argv[1])) : CKPT_DT_NONE;
    unsigned char *in = malloc(OUT), *out = malloc(OUT);
    if (argc != 3 || (!copy && !dequantize_supports(dt)) || !in || !out) {
        fprintf(stderr, "usage: dequantize TYPE|copy GB\n");
        return 2;
    }
    for (size_t i = 0; i < OUT; i++)
        in[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(out, 1, OUT);
    size_t blocks = copy ? 0 : OUT / 4 / dtype_info(dt)->block_elems;
    for (long left = 16 * strtol(argv[2], NULL, 10); left > 0; left--) {
        if (copy)
            memcpy(out, in, OUT);
        else
            dequantize(dt, in, blocks, out);
        __asm__ volatile("" : : "r"(out) : "memory"); /* so that the compiler keeps the copy */
    }
    return 0;
}
