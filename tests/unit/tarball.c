/* tarball.c - writes the ustar format. */
#include "tarball.h"

#include <stdio.h>
#include <string.h>

void tar_seal(unsigned char *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

void tar_put(buf *b, const char *name, const char *prefix, char type, const char *size_field,
             ckpt_str payload)
{
    unsigned char h[512] = {0};
    snprintf((char *)h, 100, "%s", name);
    snprintf((char *)h + 124, 13, "%s", size_field);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    snprintf((char *)h + 345, 155, "%s", prefix);
    tar_seal(h);
    buf_put(b, h, sizeof h);
    buf_str(b, payload);
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
