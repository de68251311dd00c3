/* torch01.h - writes tar archives as torch 0.1 did. */
#ifndef UNIT_TORCH01_H
#define UNIT_TORCH01_H

#include "bytes.h"
#include "tarball.h"

/* The member "storages": the number of storages; for each, the pickle of (key, "cpu", class), the number of
 * its elements, and their bytes; then the views. Keys are BININT1: "K\x07" is 7. */
#define COUNT_1       "\x80\x02K\x01."
#define STORAGE_7     "\x80\x02K\x07X\x03\0\0\0cpuctorch\nFloatStorage\n\x87."
#define FOUR_ELEMENTS "\x04\0\0\0\0\0\0\0"
#define DATA          "0123456789abcdef"
#define NO_VIEWS      "\x80\x02]."
/* The end of the member "storages": a list of one view. */
#define VIEWS(key, root, offset, elements) "\x80\x02](" key root offset elements "ta."

/* The member "tensors": the number of tensors; for each, the pickle of (key, key of its storage, class), the
 * number of dimensions, the sizes, the strides, and the offset. */
#define TENSOR(key, storage) "\x80\x02" key storage "ctorch\nFloatTensor\n\x87."
#define TENSOR_8             TENSOR("K\x08", "K\x07")
#define SHAPE_2X2                                                                                            \
    "\x02\0\0\0\0\0\0\0"                                                                                     \
    "\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"                                                                   \
    "\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
#define OFFSET_0 "\0\0\0\0\0\0\0\0"

/* The member "pickle": {"w": the tensor of key 8}. */
#define ROOT_OBJECT "\x80\x02}U\x01wK\x08Qs."

/* torch01_put - appends an archive of MEMBERS, which are in the order of the enum and get the names
 * torch01_names; skips those whose .ptr is NULL. torch01_valid_members has the members of a valid archive:
 * the tensor w of 2 x 2 floats in DATA. */
enum { STORAGES, TENSORS, PICKLE };
extern const char *const torch01_names[3];
extern const ckpt_str torch01_valid_members[3];
void torch01_put(buf *b, const ckpt_str members[3]);

#endif
