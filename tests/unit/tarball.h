/* tarball.h - tar archives, byte by byte. */
#ifndef TARBALL_H
#define TARBALL_H

#include "base/buf.h"

/* tar_seal - puts the checksum into the header H, of 512 bytes. */
void tar_seal(unsigned char *h);
/* tar_put - a member: its header with SIZE as it is to be written, then PAYLOAD. */
void tar_put(buf *b, const char *name, const char *prefix, char type, const char *size, ckpt_str payload);
/* tar_member - the same with its true size and no prefix. tar_end - what stands behind the last one. */
void tar_member(buf *b, const char *name, char type, ckpt_str payload);
void tar_end(buf *b);

#endif
