/* product.c - sizes as products of named numbers. */
#include "op/mem/product.h"

bool product_value(ckpt_str text, const struct letters *l, uint64_t *out)
{
    size_t digits = 0;
    uint64_t product = 1;
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    if (digits && !str_uint(str_of(text.ptr, digits), &product))
        return false;
    for (size_t i = digits; i < text.len; i++) {
        if (!letter_known(l, text.ptr[i]))
            return false;
        product = size_mul(product, letter_get(l, text.ptr[i]));
    }
    *out = product;
    return true;
}
