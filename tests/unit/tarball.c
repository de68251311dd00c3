/* tarball.c - writes the ustar format. */
#include "tarball.h"

#include <stdio.h>
#include <string.h>

/* offsets in a header */
enum { SIZE_OFFSET = 124, CHECKSUM_OFFSET = 148, TYPE_OFFSET = 156, MAGIC_OFFSET = 257, PREFIX_OFFSET = 345 };

void tar_seal(unsigned char *header)
{
    unsigned sum = 0;
    memset(header + CHECKSUM_OFFSET, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + CHECKSUM_OFFSET, 8, "%06o", sum);
}

void tar_put(buf *b, const char *name, const char *prefix, char type, const char *size_field,
             ckpt_str payload)
{
    unsigned char header[512] = {0};
    snprintf((char *)header, 100, "%s", name);
    snprintf((char *)header + SIZE_OFFSET, 13, "%s", size_field);
    header[TYPE_OFFSET] = (unsigned char)type;
    memcpy(header + MAGIC_OFFSET, "ustar\00000", 8);
    snprintf((char *)header + PREFIX_OFFSET, 155, "%s", prefix);
    tar_seal(header);
    buf_put(b, header, sizeof header);
    buf_put_str(b, payload);
    while (b->len % 512)
        buf_byte(b, 0);
}

void tar_member(buf *b, const char *name, char type, ckpt_str payload)
{
    char size[13];
    snprintf(size, sizeof size, "%011zo", payload.len);
    tar_put(b, name, "", type, size, payload);
}

void tar_end(buf *b)
{
    for (int i = 0; i < 1024; i++)
        buf_byte(b, 0);
}
