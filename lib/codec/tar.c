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

CKPT_PRINTF(2, 3) static ckpt_status tar_fail(struct tar_listing *listing, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(listing->err, CKPT_EFORMAT, source_pos(listing->src, listing->pos), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

/* read_text - returns the text in a field of NBYTES bytes, which ends with NUL unless it fills the field. */
static ckpt_str read_text(const unsigned char *field, size_t nbytes)
{
    const unsigned char *end = memchr(field, 0, nbytes);
    return str_of((const char *)field, end ? (size_t)(end - field) : nbytes);
}

/* parse_number - parses a field of NBYTES bytes, which is octal text, or a big-endian number if its first bit
 * is set. False: malformed or negative. */
static bool parse_number(const unsigned char *bytes, size_t nbytes, uint64_t *out)
{
    uint64_t v = 0;
    if (bytes[0] & 0x80) {
        for (size_t i = 0; i < nbytes; i++) {
            if (v >> 56)
                return false;
            v = v << 8 | (i ? bytes[i] : bytes[i] & 0x7Fu);
        }
        *out = v;
        return (bytes[0] & 0x40) == 0; /* the sign */
    }
    size_t i = 0;
    while (i < nbytes && bytes[i] == ' ')
        i++;
    for (; i < nbytes && bytes[i] >= '0' && bytes[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(bytes[i] - '0');
    *out = v;
    return i == nbytes || bytes[i] == 0 || bytes[i] == ' ';
}

/* is_checksum_right - returns true if the checksum of the header BYTES is the sum of its bytes, those of the
 * checksum field counted as blanks. Old writers summed signed characters. Sets *TOTAL to the unsigned sum. */
static bool is_checksum_right(const unsigned char *bytes, uint32_t *total)
{
    uint64_t stated;
    uint32_t sum = 0, negative_chars = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        unsigned char c = i >= 148 && i < 156 ? ' ' : bytes[i];
        sum += c;
        negative_chars += c >> 7;
    }
    *total = sum;
    int64_t signed_sum = (int64_t)sum - 256 * (int64_t)negative_chars;
    return parse_number(bytes + 148, 8, &stated) && (stated == sum || (int64_t)stated == signed_sum);
}

bool tar_is_header(const unsigned char *block)
{
    uint32_t sum;
    uint64_t size;
    return is_checksum_right(block, &sum) && parse_number(block + 124, 12, &size);
}

/* read_pax - reads path and size from TEXT, records of the form "LENGTH key=value\n". False: malformed. */
static bool read_pax(struct tar_listing *listing, ckpt_str text)
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
            listing->next_name = value;
        if (str_is(key, "size")) {
            listing->has_next_size = value.len > 0; /* an empty value deletes the key */
            if (listing->has_next_size && !str_uint(value, &listing->next_size))
                return false;
        }
        text = str_skip(text, (size_t)len);
    }
    return true;
}

/* read_extension - reads the payload of a member of type 'L' or 'x', which describes the next member. */
static ckpt_status read_extension(struct tar_listing *listing, char type, uint64_t data, uint64_t size)
{
    if (size > MAX_EXTENSION)
        return tar_fail(listing, "a name or pax record of more than {=1 MiB}: {%llu bytes}",
                        (unsigned long long)size);
    char *text = arena_alloc(listing->a, (size_t)size + 1);
    CKPT_TRY_ALLOC(text, listing->err);
    CKPT_TRY(source_read(listing->src, data, text, (size_t)size, listing->err));
    if (type == 'L')
        listing->next_name = read_text((const unsigned char *)text, (size_t)size);
    else if (!read_pax(listing, str_of(text, (size_t)size)))
        return tar_fail(listing, "a pax record {\"%.*s\"}, which is not {=\"length key=value\"}",
                        STR_ARG(str_of(text, (size_t)size)));
    return CKPT_OK;
}

static ckpt_str read_name(struct tar_listing *listing, const unsigned char *bytes)
{
    ckpt_str name = read_text(bytes, 100), prefix = read_text(bytes + 345, 155);
    if (memcmp(bytes + 257, "ustar\0", 6) != 0 || prefix.len == 0)
        return arena_str(listing->a, name);
    return ARENA_CONCAT(listing->a, prefix, STR_LIT("/"), name);
}

static ckpt_status add_entry(struct tar_listing *listing, const unsigned char *bytes, uint64_t data,
                             uint64_t size)
{
    ckpt_str name = listing->next_name.ptr ? listing->next_name : read_name(listing, bytes);
    struct tar_entry e = {name, data, size, bytes[156] ? (char)bytes[156] : '0'};
    CKPT_TRY_ALLOC(name.ptr &&
                       arena_push(listing->a, &listing->entries, &listing->n, &listing->cap, &e, sizeof e),
                   listing->err);
    listing->next_name = str_of(NULL, 0);
    listing->has_next_size = false;
    return CKPT_OK;
}

/* skip_sparse_map - moves *DATA past the blocks that continue the GNU sparse header BYTES. */
static ckpt_status skip_sparse_map(struct tar_listing *listing, const unsigned char *bytes, uint64_t *data)
{
    unsigned char block[BLOCK];
    bool continues = bytes[156] == 'S' && bytes[482];
    while (continues) {
        CKPT_TRY(source_read(listing->src, *data, block, BLOCK, listing->err));
        continues = block[504] != 0;
        *data += BLOCK;
    }
    return CKPT_OK;
}

/* add_damaged - adds a member for the damaged header BYTES. All bytes up to the next valid header are its
 * payload. */
static ckpt_status add_damaged(struct tar_listing *listing, const unsigned char *bytes)
{
    unsigned char block[BLOCK];
    uint64_t data = listing->pos + BLOCK, next = data;
    uint32_t sum;
    for (; range_within(next, BLOCK, listing->src->size); next += BLOCK) {
        CKPT_TRY(source_read(listing->src, next, block, BLOCK, listing->err));
        if (memcmp(block + 257, "ustar", 5) == 0 && is_checksum_right(block, &sum))
            break;
    }
    if (!range_within(next, BLOCK, listing->src->size))
        next = listing->src->size;
    listing->pos = next;
    return add_entry(listing, bytes, data, next - data);
}

static ckpt_status read_member(struct tar_listing *listing, const unsigned char *bytes)
{
    uint64_t size, data = listing->pos + BLOCK;
    uint32_t sum;
    char type = (char)bytes[156];
    ckpt_str stated = read_text(bytes + 148, 8), size_text = read_text(bytes + 124, 12);
    if (listing->lenient && (!is_checksum_right(bytes, &sum) || !parse_number(bytes + 124, 12, &size)))
        return add_damaged(listing, bytes);
    if (!is_checksum_right(bytes, &sum))
        return tar_fail(listing,
                        "the checksum of a member's header is wrong: {\"%.*s\"}, its bytes make {=%06o}",
                        STR_ARG(stated), sum);
    if (!parse_number(bytes + 124, 12, &size))
        return tar_fail(listing, "the size of a member is {\"%.*s\"}, it must be {=a number}",
                        STR_ARG(size_text));
    if (listing->has_next_size && type != 'L' && type != 'x')
        size = listing->next_size;
    if (type >= '1' && type <= '6')
        size = 0; /* links, devices, folders: the size field counts no stored bytes */
    CKPT_TRY(skip_sparse_map(listing, bytes, &data));
    if (listing->lenient && data <= listing->src->size && size > listing->src->size - data)
        size = listing->src->size - data;
    if (!range_within(data, size, listing->src->size))
        return fail(listing->err, CKPT_ETRUNCATED, source_pos(listing->src, listing->pos),
                    "a member of {=%llu bytes}, of which the file has {%llu}", (unsigned long long)size,
                    (unsigned long long)(data < listing->src->size ? listing->src->size - data : 0));
    if (type == 'L' || type == 'x')
        CKPT_TRY(read_extension(listing, type, data, size));
    else if (type != 'K' && type != 'g')
        CKPT_TRY(add_entry(listing, bytes, data, size));
    listing->pos = data + size + (BLOCK - size % BLOCK) % BLOCK;
    return CKPT_OK;
}

static ckpt_status list_members(struct tar_listing *listing)
{
    static const unsigned char zeros[BLOCK];
    unsigned char block[BLOCK];
    while (listing->pos < listing->src->size) {
        if (!range_within(listing->pos, BLOCK, listing->src->size))
            return listing->lenient
                       ? CKPT_OK
                       : fail(listing->err, CKPT_ETRUNCATED, source_pos(listing->src, listing->pos),
                              "the file {ends} inside {=a member's header}");
        CKPT_TRY(source_read(listing->src, listing->pos, block, BLOCK, listing->err));
        if (memcmp(block, zeros, BLOCK) == 0)
            break;
        CKPT_TRY(read_member(listing, block));
    }
    return CKPT_OK;
}

ckpt_status tar_list(source *src, arena *a, bool lenient, struct tar_entry **out, size_t *count,
                     ckpt_error *err)
{
    struct tar_listing t = {.src = src, .a = a, .lenient = lenient, .err = err};
    CKPT_TRY(list_members(&t));
    *out = t.entries;
    *count = t.n;
    return CKPT_OK;
}
