/* tarball.h - writes tar archives. */
#ifndef TARBALL_H
#define TARBALL_H

#include "base/buf.h"

/* tar_seal - sets the checksum of the header H of 512 bytes. */
void tar_seal(unsigned char *h);
/* tar_put - appends a member. Its header has the text SIZE_FIELD as its size, which may be wrong. */
void tar_put(buf *b, const char *name, const char *prefix, char type, const char *size_field,
             ckpt_str payload);
/* tar_member - appends a member with its true size. tar_end - appends the two blocks that end an archive. */
void tar_member(buf *b, const char *name, char type, ckpt_str payload);
void tar_end(buf *b);

#endif
