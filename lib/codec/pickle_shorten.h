/* pickle_shorten.h - texts of a pickle replaced by shorter ones where they stand, small pairs
 * left out; every other opcode stays as it is, and so does the pickle's length. */
#ifndef CODEC_PICKLE_SHORTEN_H
#define CODEC_PICKLE_SHORTEN_H

#include "core/file.h"

/* The opcode that made V, a text, is to push TEXT. Where that has no .ptr, V is the key of a pair that
 * goes: its value is a dict of one number under a key that was there before, and V and the dict are
 * nowhere else in the graph. */
struct pickle_text {
    const ckpt_value *v;
    ckpt_str text;
};

/* pickle_shorten - the N texts of LIST, which it sorts, in the SIZE bytes of a pickle that
 * was read, with FACTS. False: that cannot be, and the bytes are of no use any more. */
bool pickle_shorten(unsigned char *bytes, size_t size, const struct pickle_facts *facts,
                    struct pickle_text *list, size_t n);
/* pickle_is_shortened - are the SIZE bytes NOW those of OLD with LIST, which is in order, and PUTs that
 * nothing reads? Then each opcode does what it did, but for those texts and pairs. */
bool pickle_is_shortened(const unsigned char *now, source *old, size_t size, const struct pickle_text *list,
                         size_t n);

#endif
