/* product.h - sizes as products of named numbers, as a paper writes them: "2Thr" is 2·T·h·r. They are
 * computed with size_add and size_mul, so that a size which 64 bits do not hold is TOO_LARGE. */
#ifndef OP_MEM_PRODUCT_H
#define OP_MEM_PRODUCT_H

#include "base/checked.h"
#include "base/str.h"

#define TOO_LARGE UINT64_MAX

/* The numbers by their letters, which family.h lists. */
struct letters {
    uint64_t value[128];
    bool known[128];
};

static inline void letter_set(struct letters *l, char name, uint64_t value)
{
    l->value[(unsigned char)name & 127] = value;
    l->known[(unsigned char)name & 127] = true;
}
static inline bool letter_known(const struct letters *l, char name)
{
    return l->known[(unsigned char)name & 127];
}
static inline uint64_t letter_get(const struct letters *l, char name)
{
    return letter_known(l, name) ? l->value[(unsigned char)name & 127] : 0;
}
/* product_value - sets *OUT to the value of TEXT: digits, then letters, one factor each. False: a letter is
 * not known. */
bool product_value(ckpt_str text, const struct letters *l, uint64_t *out);

#endif
