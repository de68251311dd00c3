/* product.c - sizes as products of named numbers. */
#include "op/mem/product.h"

#include "base/checked.h"

uint64_t size_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return checked_add(a, b, &sum) ? sum : TOO_LARGE;
}

uint64_t size_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return checked_mul(a, b, &product) ? product : TOO_LARGE;
}

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
