/* pickle_line.c - see pickle_line.h. */
#include "codec/pickle_line.h"

#include "io/reader.h"

enum { NORMAL, SLASH, HEX, OCTAL };

/* decode_escape - decodes CHARACTER, the character after a backslash. Returns the number of code points in
 * OUT; 0 if more characters of the escape follow. */
static int decode_escape(struct pickle_line *line, unsigned char character, uint32_t out[2])
{
    static const char names[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = character ? strchr(names, character) : NULL;
    line->state = NORMAL;
    line->value = 0;
    if (line->unicode ? character == 'u' || character == 'U' : character == 'x') {
        line->state = HEX;
        line->digits = character == 'x' ? 2 : character == 'u' ? 4 : 8;
        return 0;
    }
    if (!line->unicode && character >= '0' && character <= '7') {
        line->state = OCTAL;
        line->digits = 2;
        line->value = character - '0';
        return 0;
    }
    bool is_known = !line->unicode && found;
    out[0] = is_known ? (unsigned char)bytes[found - names] : '\\';
    out[1] = character;
    return is_known ? 1 : 2;
}

int pickle_line_escape(struct pickle_line *line, unsigned char character, uint32_t out[2])
{
    int n = 0;
    if (line->state == SLASH)
        return decode_escape(line, character, out);
    if (line->state == HEX) {
        if (str_digit((char)character) > 15)
            return -1;
        line->value = line->value << 4 | str_digit((char)character);
        line->state = --line->digits ? HEX : NORMAL;
        out[0] = line->value;
        return line->state == HEX ? 0 : line->value > 0x10ffff ? -1 : 1;
    }
    if (line->state == OCTAL) {
        bool is_digit = line->digits && character >= '0' && character <= '7';
        line->value = is_digit ? line->value << 3 | (uint32_t)(character - '0') : line->value;
        line->digits -= is_digit;
        if (is_digit && line->digits)
            return 0;
        out[n++] = (unsigned char)line->value;
        line->state = NORMAL;
        if (is_digit)
            return n;
    }
    line->state = character == '\\' ? SLASH : NORMAL;
    out[n] = character;
    return character == '\\' ? n : n + 1;
}

int pickle_line_end(struct pickle_line *line, uint32_t out[2])
{
    out[0] = line->state == OCTAL ? (unsigned char)line->value : '\\';
    return line->state == NORMAL                                             ? 0
           : line->state == OCTAL || (line->state == SLASH && line->unicode) ? 1
                                                                             : -1;
}

/* decode_into - decodes the NBYTES bytes at BYTES to the spool TO. Sets *IS_VALID to false if they do not
 * encode bytes. */
static ckpt_status decode_into(struct pickle_line *line, const unsigned char *bytes, size_t nbytes, spool *to,
                               bool *is_valid, ckpt_error *err)
{
    unsigned char out[4096];
    size_t decoded = 0;
    for (size_t i = 0; i < nbytes && *is_valid; i++) {
        uint32_t cp[2];
        int ncps = pickle_line_next(line, bytes[i], cp);
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

ckpt_status pickle_line_spool(const struct trace_payload *payload, source *src, source **out, ckpt_error *err)
{
    struct pickle_line l = {.unicode = payload->encoding == TRACE_ENC_UNICODE};
    reader r;
    bool is_valid = true;
    *out = NULL;
    CKPT_TRY(reader_init(&r, src, payload->start, payload->start + payload->size, err));
    spool *to = spool_new(payload->size + 1);
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
