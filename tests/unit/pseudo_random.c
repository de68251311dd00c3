/* pseudo_random.c - see pseudo_random.h. The bits are those of xorshift64 (Marsaglia, 2003). */
#include "pseudo_random.h"

const ckpt_dtype vector_dtypes[VECTOR_DTYPES] = {CKPT_DT_F64, CKPT_DT_F32, CKPT_DT_F16, CKPT_DT_BF16};

uint64_t next_random(void)
{
    static uint64_t seed = 1;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

void fill_random_elements(ckpt_dtype dt, unsigned char *p, size_t n, bool moderate)
{
    size_t width = ckpt_dtype_bits(dt) / 8;
    for (size_t i = 0; i < n * width; i++)
        p[i] = (unsigned char)(next_random() >> 24);
    for (size_t i = 0; moderate && i < n; i++) {
        unsigned char *top_byte = p + i * width + width - 1;
        /* the sign, and the upper bits of an exponent below 0 */
        *top_byte = (unsigned char)((*top_byte & 0x80) | (dt == CKPT_DT_F16 ? 0x2c : 0x3d));
    }
}
