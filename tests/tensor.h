/* tensor.h - returns rows and storages by value, for tests that have checked that these exist. */
#ifndef TENSOR_H
#define TENSOR_H

#include "ckpt.h"

static inline ckpt_tensor tensor_at(const ckpt_file *f, uint32_t i)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    (void)ckpt_tensor_at(f, i, &t);
    return t;
}

static inline ckpt_storage storage_at(const ckpt_file *f, uint32_t i)
{
    ckpt_storage s = CKPT_INIT(ckpt_storage);
    (void)ckpt_storage_at(f, i, &s);
    return s;
}

/* tensor_read_nothing - the callback read_at of tensors whose bytes no test reads; returns an error. */
static inline int64_t tensor_read_nothing(void *user, uint64_t offset, void *into, size_t n)
{
    (void)user;
    (void)offset;
    (void)into;
    (void)n;
    return -1;
}

#endif
