/*
 * mkckpt.c - writes a checkpoint of any size, the same bytes every time, without torch:
 *
 *   mkckpt [-n TENSORS] [-b BYTES] [-p PREFIX] [-s SEED] [--sparse] [--changed] OUT
 *
 * BYTES is the size of all tensors together; the units K, M, G and T are powers of 1024. A name is PREFIX and
 * a name as in language models. With --sparse the data are holes (all zero), so that a file of terabytes
 * takes no space; with --changed the lowest bit of the first element of the middle tensor is inverted. A .pt
 * is like those of torch.save since 2.6: a stored zip, records 64-byte aligned by an "FB" extra field, CRCs,
 * zip64 if needed.
 *
 * OUT ends in .pt or .safetensors. Prints the size of the metadata: of a .safetensors, its header; of a .pt,
 * its pickle, central directory and the records after that.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 65536u

static uint64_t ntensors = 100, total_bytes = 64u << 20, seed = 1;
static uint64_t elements; /* of each tensor */
static const char *prefix = "", *out_path;
static bool sparse, changed;
static uint64_t metadata_bytes;
static FILE *out;

/* Bytes that are collected in memory. */
struct text {
    char *bytes;
    size_t len, cap;
};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void append(struct text *t, const void *bytes, size_t n)
{
    if (t->len + n > t->cap) {
        t->cap = (t->len + n) * 2;
        t->bytes = realloc(t->bytes, t->cap);
        if (!t->bytes)
            die("memory");
    }
    memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

static void append_str(struct text *t, const char *s) { append(t, s, strlen(s)); }

/* append_le - appends the N lowest bytes of V, beginning with the lowest. */
static void append_le(struct text *t, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8) {
        unsigned char b = (unsigned char)(v & 0xff);
        append(t, &b, 1);
    }
}

static void format_tensor_name(uint64_t i, char *name, size_t cap)
{
    static const char *const parts[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                        "mlp.down_proj",    "input_layernorm",  "post_attention_layernorm"};
    snprintf(name, cap, "%smodel.layers.%" PRIu64 ".%s.weight", prefix, i / 9, parts[i % 9]);
}

/* ------------------------------------------------------------------- data */

static uint32_t crc_table[8][256];

static void init_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 0xff];
}

static uint32_t crc32(uint32_t crc, const unsigned char *p, size_t n)
{
    for (crc = ~crc; n >= 8; p += 8, n -= 8) {
        uint32_t a = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_table[7][a & 0xff] ^ crc_table[6][a >> 8 & 0xff] ^ crc_table[5][a >> 16 & 0xff] ^
              crc_table[4][a >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^
              crc_table[0][p[7]];
    }
    for (; n; p++, n--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

static uint64_t xorshift(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* fill_random - makes N float32 between -1 and 1, never 0: random sign and mantissa, exponents 0x70..0x7e. */
static void fill_random(uint32_t *v, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = xorshift(state);
        v[i] = (uint32_t)(x & 0x807fffffu) | (0x70u + (uint32_t)(x >> 40) % 15u) << 23;
    }
}

static void flush_text(struct text *t)
{
    if (t->len && fwrite(t->bytes, 1, t->len, out) != t->len)
        die(out_path);
    t->len = 0;
}

/* write_data - writes the bytes of tensor I and returns their CRC-32; 0 when sparse, for which none is
 * stored. */
static uint32_t write_data(uint64_t i)
{
    static uint32_t block[BLOCK / 4];
    uint64_t left = elements * 4, state = (seed + i + 1) * 0x9e3779b97f4a7c15u;
    uint32_t crc = 0;
    if (sparse) {
        if (fseeko(out, (off_t)left, SEEK_CUR) != 0)
            die(out_path);
        return 0;
    }
    for (size_t n; left; left -= n) {
        n = left < BLOCK ? (size_t)left : BLOCK;
        fill_random(block, n / 4, &state);
        if (changed && i == ntensors / 2 && left == elements * 4)
            block[0] ^= 1;
        crc = crc32(crc, (unsigned char *)block, n);
        if (fwrite(block, 1, n, out) != n)
            die(out_path);
    }
    return crc;
}

/* -------------------------------------------------------------------- .pt */

static void append_pickle_int(struct text *p, uint64_t v)
{
    if (v < 256) {
        append_str(p, "K");
        append_le(p, v, 1);
    } else if (v < 65536) {
        append_str(p, "M");
        append_le(p, v, 2);
    } else if (v < 0x80000000u) {
        append_str(p, "J");
        append_le(p, v, 4);
    } else {
        append(p, "\x8a\x08", 2);
        append_le(p, v, 8);
    }
}

/* The next index in the next_memo. All objects but small scalars are memoized, as by CPython's pickler. */
static uint32_t next_memo;

static void append_pickle_put(struct text *p)
{
    append_str(p, next_memo < 256 ? "q" : "r");
    append_le(p, next_memo, next_memo < 256 ? 1 : 4);
    next_memo++;
}

static void append_pickle_str(struct text *p, const char *s)
{
    append_str(p, "X");
    append_le(p, strlen(s), 4);
    append_str(p, s);
    append_pickle_put(p);
}

/* append_pickle_shared - appends S, which all tensors use, as a text or as a GLOBAL; from the second call on,
 * a BINGET from the memo. */
static void append_pickle_shared(struct text *p, const char *s, bool global)
{
    static struct {
        const char *s;
        uint32_t memo_index;
    } known[8];
    int i = 0;
    while (known[i].s && strcmp(known[i].s, s) != 0)
        i++;
    if (known[i].s) {
        append_str(p, "h");
        append_le(p, known[i].memo_index, 1);
        return;
    }
    known[i].s = s;
    known[i].memo_index = next_memo;
    if (!global) {
        append_pickle_str(p, s);
        return;
    }
    append_str(p, "c");
    append_str(p, s);
    append_pickle_put(p);
}

static void append_pickle_tensor(struct text *p, uint64_t i)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRIu64, i);
    append_pickle_shared(p, "torch._utils\n_rebuild_tensor_v2\n", true);
    append_str(p, "((");
    append_pickle_shared(p, "storage", false);
    append_pickle_shared(p, "torch\nFloatStorage\n", true);
    append_pickle_str(p, key);
    append_pickle_shared(p, "cpu", false);
    append_pickle_int(p, elements);
    append_str(p, "t");
    append_pickle_put(p);
    append_str(p, "Q");
    append_pickle_int(p, 0);
    append_pickle_int(p, elements);
    append_str(p, "\x85");
    append_pickle_put(p);
    append_str(p, "K\x01\x85");
    append_pickle_put(p);
    append_str(p, "\x89");
    append_pickle_shared(p, "collections\nOrderedDict\n", true);
    append_str(p, ")R");
    append_pickle_put(p);
    append_str(p, "t");
    append_pickle_put(p);
    append_str(p, "R");
    append_pickle_put(p);
}

static void make_pickle(struct text *p)
{
    char name[256];
    append(p, "\x80\x02", 2);
    append_pickle_shared(p, "collections\nOrderedDict\n", true);
    append_str(p, ")R");
    append_pickle_put(p);
    for (uint64_t i = 0; i < ntensors; i++) {
        if (i % 1000 == 0) /* as CPython's pickler, in batches of 1000 */
            append_str(p, i ? "u(" : "(");
        format_tensor_name(i, name, sizeof name);
        append_pickle_str(p, name);
        append_pickle_tensor(p, i);
    }
    append_str(p, "u.");
}

static struct text directory;
static uint64_t nentries;

/* append_zip64_extra - appends the fields that do not fit into 32 bits, if any; of a central header also
 * OFFSET. */
static void append_zip64_extra(struct text *t, uint64_t size, uint64_t offset, bool central)
{
    struct text body = {0};
    if (size >= 0xffffffffu) {
        append_le(&body, size, 8);
        append_le(&body, size, 8);
    }
    if (central && offset >= 0xffffffffu)
        append_le(&body, offset, 8);
    if (body.len) {
        append_le(t, 1, 2);
        append_le(t, body.len, 2);
        append(t, body.bytes, body.len);
    }
    free(body.bytes);
}

static uint32_t limit_to_32_bits(uint64_t v) { return v >= 0xffffffffu ? 0xffffffffu : (uint32_t)v; }

/* append_shared_fields - appends the fields that the local and the central header of a record share. */
static void append_shared_fields(struct text *t, uint32_t crc, uint64_t size, size_t name_len,
                                 size_t extra_len)
{
    append_le(t, 45, 2);          /* version needed: 4.5, for zip64 */
    append_le(t, 0x800, 2);       /* the name is UTF-8 */
    append_le(t, 0, 2);           /* stored */
    append_le(t, 0x00210000u, 4); /* time and date: 1980-01-01 */
    append_le(t, crc, 4);
    append_le(t, limit_to_32_bits(size), 4);
    append_le(t, limit_to_32_bits(size), 4);
    append_le(t, name_len, 2);
    append_le(t, extra_len, 2);
}

/* write_record - writes the record RECORD of the archive: DATA, or tensor I if that is NULL; the CRC-32 of a
 * tensor is written to the local header afterwards. */
static void write_record(const char *record, const struct text *data, uint64_t i)
{
    char name[64];
    struct text local = {0}, extra = {0}, central = {0};
    uint64_t offset = (uint64_t)ftello(out), size = data ? data->len : elements * 4;
    snprintf(name, sizeof name, "archive/%s", record);
    append_zip64_extra(&extra, size, 0, false);
    /* The data begin after the local header of 30 bytes, name, extra field, and an "FB" field of 4 bytes and
     * padding. */
    size_t pad = (size_t)(64 - (offset + 30 + strlen(name) + extra.len + 4) % 64) % 64;
    append_le(&extra, 0x4246, 2); /* "FB" */
    append_le(&extra, pad, 2);
    for (size_t k = 0; k < pad; k++)
        append_str(&extra, "Z");
    append_le(&local, 0x04034b50, 4);
    uint32_t crc = data ? crc32(0, (unsigned char *)data->bytes, data->len) : 0;
    append_shared_fields(&local, crc, size, strlen(name), extra.len);
    append_str(&local, name);
    append(&local, extra.bytes, extra.len);
    flush_text(&local);
    if (data)
        fwrite(data->bytes, 1, data->len, out);
    else
        crc = write_data(i);
    if (!data && crc) {
        uint64_t end = (uint64_t)ftello(out);
        append_le(&local, crc, 4);
        fseeko(out, (off_t)offset + 14, SEEK_SET); /* the CRC-32 of the local header */
        flush_text(&local);
        fseeko(out, (off_t)end, SEEK_SET);
    }
    append_zip64_extra(&central, size, offset, true);
    append_le(&directory, 0x02014b50, 4);
    append_le(&directory, 45, 2);
    append_shared_fields(&directory, crc, size, strlen(name), central.len);
    append_le(&directory, 0, 10);
    append_le(&directory, limit_to_32_bits(offset), 4);
    append_str(&directory, name);
    append(&directory, central.bytes, central.len);
    nentries++;
    free(local.bytes);
    free(extra.bytes);
    free(central.bytes);
}

/* write_directory - writes the central directory and the records after it. */
static void write_directory(void)
{
    uint64_t start = (uint64_t)ftello(out), size = directory.len;
    struct text *t = &directory;
    uint64_t count_16_bits = nentries < 0xffff ? nentries : 0xffff;
    append_le(t, 0x06064b50, 4); /* zip64 end of central directory record */
    append_le(t, 44, 8);
    append_le(t, 45, 2);
    append_le(t, 45, 2);
    append_le(t, 0, 8);
    append_le(t, nentries, 8);
    append_le(t, nentries, 8);
    append_le(t, size, 8);
    append_le(t, start, 8);
    append_le(t, 0x07064b50, 4); /* zip64 end of central directory locator */
    append_le(t, 0, 4);
    append_le(t, start + size, 8);
    append_le(t, 1, 4);
    append_le(t, 0x06054b50, 4); /* end of central directory record */
    append_le(t, 0, 4);
    append_le(t, count_16_bits, 2);
    append_le(t, count_16_bits, 2);
    append_le(t, limit_to_32_bits(size), 4);
    append_le(t, limit_to_32_bits(start), 4);
    append_le(t, 0, 2);
    metadata_bytes += t->len;
    flush_text(t);
}

static void write_pt(void)
{
    struct text p = {0}, little = {0}, version = {0};
    char key[40];
    append_str(&little, "little");
    append_str(&version, "3\n");
    make_pickle(&p);
    metadata_bytes = p.len;
    write_record("data.pkl", &p, 0);
    write_record("byteorder", &little, 0);
    for (uint64_t i = 0; i < ntensors; i++) {
        snprintf(key, sizeof key, "data/%" PRIu64, i);
        write_record(key, NULL, i);
    }
    write_record("version", &version, 0);
    write_directory();
}

/* ------------------------------------------------------------ safetensors */

static void write_safetensors(void)
{
    struct text h = {0}, size = {0};
    char name[256], line[512];
    append_str(&h, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint64_t i = 0; i < ntensors; i++) {
        format_tensor_name(i, name, sizeof name);
        snprintf(line, sizeof line,
                 ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64
                 "]}",
                 name, elements, i * elements * 4, (i + 1) * elements * 4);
        append_str(&h, line);
    }
    append_str(&h, "}");
    while (h.len % 8)
        append_str(&h, " ");
    append_le(&size, h.len, 8);
    metadata_bytes = h.len + 8;
    flush_text(&size);
    flush_text(&h);
    for (uint64_t i = 0; i < ntensors; i++)
        write_data(i);
}

/* ------------------------------------------------------------------- main */

static uint64_t parse_number(const char *s)
{
    char *end;
    uint64_t v = strtoull(s, &end, 10);
    static const char units[] = "KMGT";
    const char *u = *end ? strchr(units, *end) : NULL;
    return u ? v << (10 * (u - units + 1)) : v;
}

static bool ends_with(const char *s, const char *end)
{
    return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--sparse") == 0) {
            sparse = true;
            continue;
        }
        if (strcmp(argv[i], "--changed") == 0) {
            changed = true;
            continue;
        }
        if (argv[i][0] != '-') {
            out_path = argv[i];
            continue;
        }
        switch (argv[i++][1]) {
        case 'n': ntensors = parse_number(value); break;
        case 'b': total_bytes = parse_number(value); break;
        case 's': seed = parse_number(value); break;
        case 'p': prefix = value; break;
        default: out_path = NULL; i = argc;
        }
    }
    if (!out_path || !ntensors) {
        fprintf(stderr, "usage: mkckpt [-n N] [-b BYTES] [-p PREFIX] [-s SEED] [--sparse] [--changed] OUT\n");
        return 2;
    }
    elements = total_bytes / 4 / ntensors;
    init_crc_table();
    out = fopen(out_path, "wb");
    if (!out)
        die(out_path);
    if (ends_with(out_path, ".safetensors"))
        write_safetensors();
    else
        write_pt();
    off_t end = ftello(out);
    if (fflush(out) != 0 || ftruncate(fileno(out), end) != 0 || fclose(out) != 0)
        die(out_path);
    printf("%" PRIu64 "\n", metadata_bytes);
    return 0;
}
