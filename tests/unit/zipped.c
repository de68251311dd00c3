/* zipped.c - see zipped.h. */
#include "zipped.h"

#include "base/crc32.h"
#include "codec/zip_header.h"

static void put_header(buf *b, const struct member *m, bool local)
{
    buf_u32le(b, local ? ZIP_LOCAL : ZIP_CENTRAL);
    if (!local)
        buf_u16le(b, 10); /* version made by */
    buf_u16le(b, 10);     /* version needed */
    buf_u16le(b, (uint16_t)m->flags);
    buf_u16le(b, (uint16_t)m->method);
    buf_u32le(b, 0); /* time and date */
    buf_u32le(b, m->method || m->crc ? m->crc : crc32_update(0, m->bytes.ptr, m->bytes.len));
    buf_u32le(b, (uint32_t)m->bytes.len);
    buf_u32le(b, m->method ? m->usize : (uint32_t)m->bytes.len);
    buf_u16le(b, (uint16_t)strlen(m->name));
    buf_u16le(b, 0); /* length of the extra field */
}

void zip_put(buf *b, const struct member *m, size_t n, size_t before)
{
    static const unsigned char zeros[10] = {0}; /* length of the comment, disk, attributes */
    buf directory;
    uint32_t at = 0;
    buf_init(&directory, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        if (!m[i].reuses_previous) {
            at = (uint32_t)(b->len - before);
            put_header(b, &m[i], true);
            buf_put_cstr(b, m[i].name);
            buf_put_str(b, m[i].bytes);
        }
        put_header(&directory, &m[i], false);
        buf_put(&directory, zeros, sizeof zeros);
        buf_u32le(&directory, at);
        buf_put_cstr(&directory, m[i].name);
    }
    uint32_t start = (uint32_t)(b->len - before);
    buf_put_str(b, buf_view(&directory));
    buf_u32le(b, ZIP_END);
    buf_u32le(b, 0);           /* this disk, and the disk of the central directory */
    buf_u16le(b, (uint16_t)n); /* entries on this disk, and on all disks */
    buf_u16le(b, (uint16_t)n);
    buf_u32le(b, (uint32_t)directory.len);
    buf_u32le(b, start);
    buf_u16le(b, 0); /* length of the comment */
    buf_free(&directory);
}
