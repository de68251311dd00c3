/* pickle_line.c - see pickle_line.h. */
#include "codec/pickle_line.h"

#include <string.h>

#include "io/reader.h"

enum { NORMAL, SLASH, HEX, OCTAL };

/* decode_escape - decodes C, the character after a backslash. Returns the number of code points in OUT; 0 if
 * more characters of the escape follow. */
static int decode_escape(struct pickle_line *l, unsigned char c, uint32_t out[2])
{
    static const char names[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = c ? strchr(names, c) : NULL;
    l->state = NORMAL;
    l->value = 0;
    if (l->unicode ? c == 'u' || c == 'U' : c == 'x') {
        l->state = HEX;
        l->digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        return 0;
    }
    if (!l->unicode && c >= '0' && c <= '7') {
        l->state = OCTAL;
        l->digits = 2;
        l->value = c - '0';
        return 0;
    }
    bool is_known = !l->unicode && found;
    out[0] = is_known ? (unsigned char)bytes[found - names] : '\\';
    out[1] = c;
    return is_known ? 1 : 2;
}

int pickle_line_escape(struct pickle_line *l, unsigned char c, uint32_t out[2])
{
    int n = 0;
    if (l->state == SLASH)
        return decode_escape(l, c, out);
    if (l->state == HEX) {
        if (str_digit((char)c) > 15)
            return -1;
        l->value = l->value << 4 | str_digit((char)c);
        l->state = --l->digits ? HEX : NORMAL;
        out[0] = l->value;
        return l->state == HEX ? 0 : l->value > 0x10ffff ? -1 : 1;
    }
    if (l->state == OCTAL) {
        bool is_digit = l->digits && c >= '0' && c <= '7';
        l->value = is_digit ? l->value << 3 | (uint32_t)(c - '0') : l->value;
        l->digits -= is_digit;
        if (is_digit && l->digits)
            return 0;
        out[n++] = (unsigned char)l->value;
        l->state = NORMAL;
        if (is_digit)
            return n;
    }
    l->state = c == '\\' ? SLASH : NORMAL;
    out[n] = c;
    return c == '\\' ? n : n + 1;
}

int pickle_line_end(struct pickle_line *l, uint32_t out[2])
{
    out[0] = l->state == OCTAL ? (unsigned char)l->value : '\\';
    return l->state == NORMAL ? 0 : l->state == OCTAL || (l->state == SLASH && l->unicode) ? 1 : -1;
}

/* decode_into - decodes the N bytes at B to the spool TO. Sets *IS_VALID to false if they do not encode
 * bytes. */
static ckpt_status decode_into(struct pickle_line *l, const unsigned char *b, size_t n, spool *to,
                               bool *is_valid, ckpt_error *err)
{
    unsigned char out[4096];
    size_t decoded = 0;
    for (size_t i = 0; i < n && *is_valid; i++) {
        uint32_t cp[2];
        int ncps = pickle_line_next(l, b[i], cp);
        *is_valid = ncps >= 0;
        for (int k = 0; k < ncps && *is_valid; k++) {
            *is_valid = cp[k] <= 0xff;
            out[decoded++] = (unsigned char)cp[k];
        }
        if (decoded + 2 > sizeof out) {
            CKPT_TRY(spool_write(to, out, decoded, err));
            decoded = 0;
        }
    }
    return spool_write(to, out, decoded, err);
}

ckpt_status pickle_line_spool(const struct trace_payload *v, source *src, source **out, ckpt_error *err)
{
    struct pickle_line l = {.unicode = v->encoding == TRACE_ENC_UNICODE};
    reader r;
    bool is_valid = true;
    *out = NULL;
    CKPT_TRY(reader_init(&r, src, v->start, v->start + v->size, err));
    spool *to = spool_new(v->size + 1);
    ckpt_status st = to ? CKPT_OK : fail_memory(err);
    while (st == CKPT_OK && is_valid && reader_left(&r)) {
        size_t chunk_len = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *b = reader_take(&r, chunk_len);
        st = b ? decode_into(&l, b, chunk_len, to, &is_valid, err) : r.status;
    }
    reader_free(&r);
    uint32_t last[2];
    if (st == CKPT_OK && is_valid && pickle_line_end(&l, last) > 0) /* a truncated escape adds no byte */
        st = spool_write(to, &(unsigned char){(unsigned char)last[0]}, 1, err);
    if (st == CKPT_OK && is_valid)
        *out = spool_source(to);
    else
        spool_free(to);
    return st;
}
