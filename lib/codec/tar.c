/*
 * tar.c - lists the members of an uncompressed tar (POSIX.1-1988 ustar, GNU, POSIX.1-2001 pax).
 *
 * Each member is a header of 512 bytes and a payload, padded with zeros to a multiple of 512:
 * OFFSET SIZE DESCRIPTION
 *   0   100  name           124 12  size: octal text, or big-endian if its top bit is set
 *   148 8    checksum       156 1   type
 *   257 8    "ustar\0" 00, or "ustar  " (GNU)
 *   345 155  prefix, put before the name with '/' (not in GNU's dialect)
 *   482 1    GNU sparse (type S): not 0 if a block of its map follows; byte 504 of that block is not 0 if
 *            another one follows
 * The payload of type L (GNU) is the name of the next member, that of type x (pax) its "path" and "size".
 * Type g has defaults for all members. Two blocks of zeros, or the end of the file, end the archive.
 *
 * Refused: headers with a wrong checksum, negative sizes, payloads that exceed the file, names and pax
 * records longer than 1 MiB.
 */
#include "codec/tar.h"

#include "base/cursor.h"

#define BLOCK         512u
#define MAX_EXTENSION (1u << 20) /* bytes of a payload of type L or x */

struct tar_listing {
    source *src;
    arena *a;
    uint64_t pos;
    ckpt_str next_name; /* of the next member, by type L or x; .ptr NULL: none was given */
    uint64_t next_size; /* of the next member, by type x */
    bool has_next_size; /* next_size was given */
    struct tar_entry *entries;
    size_t n, cap;
    bool lenient; /* see tar_list */
    ckpt_error *err;
};

CKPT_PRINTF(2, 3) static ckpt_status tar_fail(struct tar_listing *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(t->err, CKPT_EFORMAT, source_pos(t->src, t->pos), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

/* read_text - returns the text in a field of N bytes, which ends with NUL unless it fills the field. */
static ckpt_str read_text(const unsigned char *field, size_t n)
{
    const unsigned char *end = memchr(field, 0, n);
    return str_of((const char *)field, end ? (size_t)(end - field) : n);
}

/* parse_number - parses a field of N bytes, which is octal text, or a big-endian number if its first bit is
 * set. False: malformed or negative. */
static bool parse_number(const unsigned char *b, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (b[0] & 0x80) {
        for (size_t i = 0; i < n; i++) {
            if (v >> 56)
                return false;
            v = v << 8 | (i ? b[i] : b[i] & 0x7Fu);
        }
        *out = v;
        return (b[0] & 0x40) == 0; /* the sign */
    }
    size_t i = 0;
    while (i < n && b[i] == ' ')
        i++;
    for (; i < n && b[i] >= '0' && b[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(b[i] - '0');
    *out = v;
    return i == n || b[i] == 0 || b[i] == ' ';
}

/* is_checksum_right - returns true if the checksum of the header B is the sum of its bytes, those of the
 * checksum field counted as blanks. Old writers summed signed characters. Sets *TOTAL to the unsigned sum. */
static bool is_checksum_right(const unsigned char *b, uint32_t *total)
{
    uint64_t stated;
    uint32_t sum = 0, negative_chars = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        unsigned char c = i >= 148 && i < 156 ? ' ' : b[i];
        sum += c;
        negative_chars += c >> 7;
    }
    *total = sum;
    int64_t signed_sum = (int64_t)sum - 256 * (int64_t)negative_chars;
    return parse_number(b + 148, 8, &stated) && (stated == sum || (int64_t)stated == signed_sum);
}

bool tar_is_header(const unsigned char *block)
{
    uint32_t sum;
    uint64_t size;
    return is_checksum_right(block, &sum) && parse_number(block + 124, 12, &size);
}

/* read_pax - reads path and size from TEXT, records of the form "LENGTH key=value\n". False: malformed. */
static bool read_pax(struct tar_listing *t, ckpt_str text)
{
    while (text.len) {
        uint64_t len = 0;
        size_t i = 0;
        for (; i < text.len && i < 8 && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
            len = len * 10 + (uint64_t)(text.ptr[i] - '0');
        if (i == 0 || i >= text.len || text.ptr[i] != ' ')
            return false;
        if (len <= i + 1 || len > text.len || text.ptr[len - 1] != '\n') /* LEN counts the digits, too */
            return false;
        ckpt_str rec = str_of(text.ptr + i + 1, (size_t)len - i - 2);
        size_t eq = str_find(rec, STR_LIT("="), 0);
        if (eq == SIZE_MAX)
            return false;
        ckpt_str key = str_of(rec.ptr, eq), value = str_skip(rec, eq + 1);
        if (str_is(key, "path"))
            t->next_name = value;
        if (str_is(key, "size")) {
            t->has_next_size = value.len > 0; /* an empty value deletes the key */
            if (t->has_next_size && !str_uint(value, &t->next_size))
                return false;
        }
        text = str_skip(text, (size_t)len);
    }
    return true;
}

/* read_extension - reads the payload of a member of type 'L' or 'x', which describes the next member. */
static ckpt_status read_extension(struct tar_listing *t, char type, uint64_t data, uint64_t size)
{
    if (size > MAX_EXTENSION)
        return tar_fail(t, "a name or pax record of more than {=1 MiB}: {%llu bytes}",
                        (unsigned long long)size);
    char *text = arena_alloc(t->a, (size_t)size + 1);
    CKPT_TRY_ALLOC(text, t->err);
    CKPT_TRY(source_read(t->src, data, text, (size_t)size, t->err));
    if (type == 'L')
        t->next_name = read_text((const unsigned char *)text, (size_t)size);
    else if (!read_pax(t, str_of(text, (size_t)size)))
        return tar_fail(t, "a pax record {\"%.*s\"}, which is not {=\"length key=value\"}",
                        STR_ARG(str_of(text, (size_t)size)));
    return CKPT_OK;
}

static ckpt_str read_name(struct tar_listing *t, const unsigned char *b)
{
    ckpt_str name = read_text(b, 100), prefix = read_text(b + 345, 155);
    if (memcmp(b + 257, "ustar\0", 6) != 0 || prefix.len == 0)
        return arena_str(t->a, name);
    return ARENA_CONCAT(t->a, prefix, STR_LIT("/"), name);
}

static ckpt_status add_entry(struct tar_listing *t, const unsigned char *b, uint64_t data, uint64_t size)
{
    ckpt_str name = t->next_name.ptr ? t->next_name : read_name(t, b);
    struct tar_entry e = {name, data, size, b[156] ? (char)b[156] : '0'};
    CKPT_TRY_ALLOC(name.ptr && arena_push(t->a, &t->entries, &t->n, &t->cap, &e, sizeof e), t->err);
    t->next_name = str_of(NULL, 0);
    t->has_next_size = false;
    return CKPT_OK;
}

/* skip_sparse_map - moves *DATA past the blocks that continue the GNU sparse header B. */
static ckpt_status skip_sparse_map(struct tar_listing *t, const unsigned char *b, uint64_t *data)
{
    unsigned char block[BLOCK];
    bool continues = b[156] == 'S' && b[482];
    while (continues) {
        CKPT_TRY(source_read(t->src, *data, block, BLOCK, t->err));
        continues = block[504] != 0;
        *data += BLOCK;
    }
    return CKPT_OK;
}

/* add_damaged - adds a member for the damaged header B. All bytes up to the next valid header are its
 * payload. */
static ckpt_status add_damaged(struct tar_listing *t, const unsigned char *b)
{
    unsigned char block[BLOCK];
    uint64_t data = t->pos + BLOCK, next = data;
    uint32_t sum;
    for (; range_within(next, BLOCK, t->src->size); next += BLOCK) {
        CKPT_TRY(source_read(t->src, next, block, BLOCK, t->err));
        if (memcmp(block + 257, "ustar", 5) == 0 && is_checksum_right(block, &sum))
            break;
    }
    if (!range_within(next, BLOCK, t->src->size))
        next = t->src->size;
    t->pos = next;
    return add_entry(t, b, data, next - data);
}

static ckpt_status read_member(struct tar_listing *t, const unsigned char *b)
{
    uint64_t size, data = t->pos + BLOCK;
    uint32_t sum;
    char type = (char)b[156];
    ckpt_str stated = read_text(b + 148, 8), size_text = read_text(b + 124, 12);
    if (t->lenient && (!is_checksum_right(b, &sum) || !parse_number(b + 124, 12, &size)))
        return add_damaged(t, b);
    if (!is_checksum_right(b, &sum))
        return tar_fail(t, "the checksum of a member's header is wrong: {\"%.*s\"}, its bytes make {=%06o}",
                        STR_ARG(stated), sum);
    if (!parse_number(b + 124, 12, &size))
        return tar_fail(t, "the size of a member is {\"%.*s\"}, it must be {=a number}", STR_ARG(size_text));
    if (t->has_next_size && type != 'L' && type != 'x')
        size = t->next_size;
    if (type >= '1' && type <= '6')
        size = 0; /* links, devices, folders: the size field counts no stored bytes */
    CKPT_TRY(skip_sparse_map(t, b, &data));
    if (t->lenient && data <= t->src->size && size > t->src->size - data)
        size = t->src->size - data;
    if (!range_within(data, size, t->src->size))
        return fail(t->err, CKPT_ETRUNCATED, source_pos(t->src, t->pos),
                    "a member of {=%llu bytes}, of which the file has {%llu}", (unsigned long long)size,
                    (unsigned long long)(data < t->src->size ? t->src->size - data : 0));
    if (type == 'L' || type == 'x')
        CKPT_TRY(read_extension(t, type, data, size));
    else if (type != 'K' && type != 'g')
        CKPT_TRY(add_entry(t, b, data, size));
    t->pos = data + size + (BLOCK - size % BLOCK) % BLOCK;
    return CKPT_OK;
}

static ckpt_status list_members(struct tar_listing *t)
{
    static const unsigned char zeros[BLOCK];
    unsigned char block[BLOCK];
    while (t->pos < t->src->size) {
        if (!range_within(t->pos, BLOCK, t->src->size))
            return t->lenient ? CKPT_OK
                              : fail(t->err, CKPT_ETRUNCATED, source_pos(t->src, t->pos),
                                     "the file {ends} inside {=a member's header}");
        CKPT_TRY(source_read(t->src, t->pos, block, BLOCK, t->err));
        if (memcmp(block, zeros, BLOCK) == 0)
            break;
        CKPT_TRY(read_member(t, block));
    }
    return CKPT_OK;
}

ckpt_status tar_list(source *src, arena *a, bool lenient, struct tar_entry **out, size_t *n, ckpt_error *err)
{
    struct tar_listing t = {.src = src, .a = a, .lenient = lenient, .err = err};
    CKPT_TRY(list_members(&t));
    *out = t.entries;
    *n = t.n;
    return CKPT_OK;
}
