/* Vector and scalar code that dequantizes ggml blocks must give the same bits. tests/corpus/truth/gguf.jsonl
 * has the values that gguf-py gives. */
#include <stdlib.h>

#include "core/convert.h"
#include "core/dequantize.h"
#include "core/number.h"
#include "unit.h"

#define BLOCKS 40u

static void fill_random(unsigned char *p, size_t n)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (unsigned char)(x >> 24);
    }
}

static void vector_and_scalar_code_agree(void)
{
    unsigned nsupported = 0;
    unsigned char in[BLOCKS * 300];
    unsigned char *scalar = malloc(BLOCKS * 256 * 4), *vector = malloc(BLOCKS * 256 * 4);
    CU_ASSERT_FATAL(scalar && vector);
    fill_random(in, sizeof in);
    for (unsigned dt = 0; dt < DTYPE_COUNT; dt++) {
        const struct dtype_info *d = dtype_info((ckpt_dtype)dt);
        struct conversion c;
        struct convert_tally t = {0};
        CU_ASSERT(conversion_init(&c, (ckpt_dtype)dt, CKPT_DT_F32) || d->klass != 'k' ||
                  !dequantize_supports((ckpt_dtype)dt));
        if (!dequantize_supports((ckpt_dtype)dt))
            continue;
        size_t size = BLOCKS * 4 * (size_t)d->block_elems;
        unsigned char *blocks = unit_guard(in, BLOCKS * (size_t)d->block_bytes);
        nsupported++;
        dequantize_scalar((ckpt_dtype)dt, blocks, BLOCKS, scalar);
        memset(vector, 0, size);
        dequantize((ckpt_dtype)dt, blocks, BLOCKS, vector);
        CU_ASSERT(memcmp(scalar, vector, size) == 0);
        memset(vector, 0, size);
        CU_ASSERT_FATAL(conversion_init(&c, (ckpt_dtype)dt, CKPT_DT_F32));
        convert_run(&c, blocks, BLOCKS * (size_t)d->block_elems, vector, &t);
        CU_ASSERT(memcmp(scalar, vector, size) == 0);
        unit_guard_free(blocks, BLOCKS * (size_t)d->block_bytes);
    }
    CU_ASSERT_EQUAL(nsupported, 23); /* number of dtypes of class 'k' in dtype.def that ggml can dequantize */
    free(scalar);
    free(vector);
}

/* q8_0 is a float16 scale and 32 signed bytes; q4_0 a float16 scale and 16 bytes of low and high nibbles. */
static void known_blocks_are_decoded(void)
{
    double x[64];
    unsigned char q8[34] = {0x00, 0x38, 1, 0xff, 0x80}; /* the scale 0.5, then 1, -1, -128, 0 */
    number_decode(CKPT_DT_Q8_0, q8, 32, x);
    CU_ASSERT(x[0] == 0.5 && x[1] == -0.5 && x[2] == -64 && x[3] == 0);
    unsigned char q4[18] = {0x00, 0x40, 0x8f, 0x08}; /* the scale 2; a nibble N stands for N - 8 */
    number_decode(CKPT_DT_Q4_0, q4, 32, x);
    CU_ASSERT(x[0] == 14 && x[1] == 0 && x[2] == -16 && x[16] == 0 && x[17] == -16);
    unsigned char mx[17] = {128, 0x31}; /* the scale 2^(128 - 127), then float4 numbers */
    number_decode(CKPT_DT_MXFP4, mx, 32, x);
    CU_ASSERT(x[0] == 1 && x[16] == 3);
}

void suite_dequantize(void)
{
    UNIT(vector_and_scalar_code_agree);
    UNIT(known_blocks_are_decoded);
}
