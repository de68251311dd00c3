/* torch01.h - writes tar archives as torch 0.1 did. */
#ifndef UNIT_TORCH01_H
#define UNIT_TORCH01_H

#include "bytes.h"
#include "tarball.h"

/* The member "storages": its count; (key 7, "cpu", torch.FloatStorage); 4 elements and their bytes; no
 * views. */
#define COUNT    "\x80\x02K\x01."
#define STORAGE  "\x80\x02K\x07X\x03\0\0\0cpuctorch\nFloatStorage\n\x87."
#define FOUR     "\x04\0\0\0\0\0\0\0"
#define DATA     "0123456789abcdef"
#define NO_VIEWS "\x80\x02]."
/* The member "tensors": its count; (key 8, storage 7, class); 2 sizes and 2 strides; the offset. */
#define TENSOR                                                                                               \
    "\x80\x02K\x08K\x07"                                                                                     \
    "ctorch\nFloatTensor\n\x87."
#define SHAPE                                                                                                \
    "\x02\0\0\0\0\0\0\0"                                                                                     \
    "\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"                                                                   \
    "\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
#define START "\0\0\0\0\0\0\0\0"
/* The member "pickle": {"w": the tensor of key 8}. */
#define OBJECT "\x80\x02}U\x01wK\x08Qs."

/* torch01_put - appends an archive of MEMBERS with the names torch01_names; skips those whose .ptr is NULL.
 * torch01_sound has the members of a valid archive: the tensor w of 2 x 2 floats in DATA. */
extern const char *const torch01_names[3];
extern const ckpt_str torch01_sound[3];
void torch01_put(buf *b, const ckpt_str members[3]);

#endif
