/* tar.h - the members of torch 0.1's tar archives, for the scanner. */
#pragma once

#include "codec/tar.h"
#include "core/value.h"

/* In the members "storages" and "tensors" of torch 0.1's tar archives, each pickle is followed by a count and
 * by numbers: the elements of the storage; or the sizes, strides and storage offset of the tensor. */
struct torch_tar_numbers {
    uint64_t count;          /* of elements, or of dimensions */
    uint64_t offset, nbytes; /* the position of the numbers in the member */
};

/* torch_tar_find - finds the regular file NAME among the COUNT members in LIST; NULL: there is none. */
const struct tar_entry *torch_tar_find(const struct tar_entry *list, size_t count, const char *name);
/* torch_tar_read_numbers - fills *OUT for the pickle that ends at POS of the member SRC. VALUE, its value,
 * describes a tensor if IS_TENSOR, else a storage. Fails if the member ends before the numbers do.
 * Fields of *OUT that cannot be read or do not fit 64 bits are 0. */
ckpt_status torch_tar_read_numbers(source *src, const ckpt_value *value, bool is_tensor, uint64_t pos,
                                   struct torch_tar_numbers *out, ckpt_error *err);
