/* torch01.h - archives of torch 0.1, byte by byte. */
#ifndef UNIT_TORCH01_H
#define UNIT_TORCH01_H

#include "bytes.h"
#include "tarball.h"

/* What their members are made of. storages: how many; (key 7, "cpu", torch.FloatStorage); 4
 * elements; no views */
#define COUNT    "\x80\x02K\x01."
#define STORAGE  "\x80\x02K\x07X\x03\0\0\0cpuctorch\nFloatStorage\n\x87."
#define FOUR     "\x04\0\0\0\0\0\0\0"
#define DATA     "0123456789abcdef"
#define NO_VIEWS "\x80\x02]."
/* tensors: how many; (key 8, storage 7, class); 2 sizes, strides, an offset */
#define TENSOR                                                                                               \
    "\x80\x02K\x08K\x07"                                                                                     \
    "ctorch\nFloatTensor\n\x87."
#define SHAPE                                                                                                \
    "\x02\0\0\0\0\0\0\0"                                                                                     \
    "\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"                                                                   \
    "\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
#define START  "\0\0\0\0\0\0\0\0"
#define OBJECT "\x80\x02}U\x01wK\x08Qs."

/* torch01_put - an archive of MEMBERS under the names of torch01_names; one without .ptr is left out.
 * torch01_sound - such members: w, of 2 by 2 elements of DATA. */
extern const char *const torch01_names[3];
extern const ckpt_str torch01_sound[3];
void torch01_put(buf *b, const ckpt_str members[3]);

#endif
