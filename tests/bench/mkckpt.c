/*
 * mkckpt.c - writes a checkpoint of any size, the same bytes every time, without torch:
 *
 *   mkckpt [-n TENSORS] [-b BYTES] [-p PREFIX] [-s SEED] [--sparse] [--changed] OUT
 *
 * OUT ends in .pt or .safetensors. BYTES is the size of all tensors together; the units K, M, G and T are
 * powers of 1024. Tensors are named as in language models, after PREFIX. With --sparse, the data are holes
 * (all zero), so that a file of terabytes takes no space. With --changed, the lowest bit of the first element
 * of the middle tensor is inverted. A .pt is like those of torch.save since 2.6: a zip archive with stored
 * records, each aligned to 64 bytes by an extra field "FB", with CRCs, and with zip64 if needed.
 *
 * Prints the size of the metadata: of a .safetensors, its header; of a .pt, its pickle, its central directory
 * and the end of central directory records.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"

#define BLOCK_BYTES 65536u /* bytes of data made at a time */

static uint64_t ntensors = 100, total_bytes = 64u << 20, seed = 1;
static uint64_t elements_per_tensor;
static const char *prefix = "", *out_path;
static bool sparse, changed;
static uint64_t metadata_bytes;
static FILE *out;

static void format_tensor_name(uint64_t i, char *name, size_t cap)
{
    static const char *const layers[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                         "mlp.down_proj",    "input_layernorm",  "post_attention_layernorm"};
    snprintf(name, cap, "%smodel.layers.%" PRIu64 ".%s.weight", prefix, i / 9, layers[i % 9]);
}

/* ------------------------------------------------------------------- data */

static uint32_t crc_table[8][256];

static void init_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
        crc_table[0][i] = crc;
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

static uint64_t xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* fill_random - fills FLOATS with N float32 between -1 and 1, never 0: a random sign and mantissa, and an
 * exponent from 0x70 to 0x7e. */
static void fill_random(uint32_t *floats, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t random = xorshift(state);
        uint32_t sign_and_mantissa = (uint32_t)random & 0x807fffffu;
        uint32_t exponent = 0x70u + (uint32_t)(random >> 40) % 15u;
        floats[i] = sign_and_mantissa | exponent << 23;
    }
}

static void flush_text(struct text *t)
{
    if (t->len && fwrite(t->bytes, 1, t->len, out) != t->len)
        die(out_path);
    t->len = 0;
}

/* write_data - writes the bytes of tensor I and returns their CRC-32. With --sparse, returns 0: then no CRC
 * is stored. */
static uint32_t write_data(uint64_t i)
{
    static uint32_t block[BLOCK_BYTES / 4];
    uint64_t left = elements_per_tensor * 4, state = (seed + i + 1) * 0x9e3779b97f4a7c15u;
    uint32_t crc = 0;
    if (sparse) {
        if (fseeko(out, (off_t)left, SEEK_CUR) != 0)
            die(out_path);
        return 0;
    }
    for (size_t n; left; left -= n) {
        n = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        fill_random(block, n / 4, &state);
        if (changed && i == ntensors / 2 && left == elements_per_tensor * 4)
            block[0] ^= 1;
        crc = crc32(crc, (unsigned char *)block, n);
        if (fwrite(block, 1, n, out) != n)
            die(out_path);
    }
    return crc;
}

/* -------------------------------------------------------------------- .pt */

/* append_pickle_tensor - appends the call of torch._utils._rebuild_tensor_v2 that makes tensor I: storage I,
 * offset 0, one dimension, stride 1. */
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
    append_pickle_int(p, elements_per_tensor);
    append_str(p, "t");
    append_pickle_put(p);
    append_str(p, "Q"); /* BINPERSID: the storage */
    append_pickle_int(p, 0);
    append_pickle_int(p, elements_per_tensor);
    append_str(p, "\x85");
    append_pickle_put(p);
    append_str(p, "K\x01\x85"); /* the stride, (1,) */
    append_pickle_put(p);
    append_str(p, "\x89"); /* requires_grad: False */
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

static struct text central_directory;
static uint64_t nentries;

/* append_zip64_extra - appends the extra field of zip64, if SIZE does not fit into 32 bits; in a central
 * header also if OFFSET does not. */
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

/* limit_to_32_bits - returns NUMBER, or 0xffffffff if the number is in the extra field of zip64. */
static uint32_t limit_to_32_bits(uint64_t number)
{
    return number >= 0xffffffffu ? 0xffffffffu : (uint32_t)number;
}

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

/* write_record - writes the record RECORD of the archive: DATA, or tensor I if DATA is NULL. The CRC-32 of a
 * tensor is known only after its data, and is then written to the local header. */
static void write_record(const char *record, const struct text *data, uint64_t i)
{
    char name[64];
    struct text local = {0}, extra = {0}, central_extra = {0}, crc_field = {0};
    uint64_t offset = (uint64_t)ftello(out), size = data ? data->len : elements_per_tensor * 4;
    snprintf(name, sizeof name, "archive/%s", record);
    append_zip64_extra(&extra, size, 0, false);
    /* Before the data are 30 bytes of local header, the name, the extra field of zip64, and the extra field
     * "FB" of 4 + PAD bytes. */
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
        append_le(&crc_field, crc, 4);
        fseeko(out, (off_t)offset + 14, SEEK_SET); /* the field CRC-32 in the local header */
        flush_text(&crc_field);
        fseeko(out, (off_t)end, SEEK_SET);
    }
    append_zip64_extra(&central_extra, size, offset, true);
    append_le(&central_directory, 0x02014b50, 4);
    append_le(&central_directory, 45, 2);
    append_shared_fields(&central_directory, crc, size, strlen(name), central_extra.len);
    append_le(&central_directory, 0, 10);
    append_le(&central_directory, limit_to_32_bits(offset), 4);
    append_str(&central_directory, name);
    append(&central_directory, central_extra.bytes, central_extra.len);
    nentries++;
    free(local.bytes);
    free(extra.bytes);
    free(central_extra.bytes);
    free(crc_field.bytes);
}

/* write_central_directory - writes the central directory and the end of central directory records. */
static void write_central_directory(void)
{
    uint64_t start = (uint64_t)ftello(out), size = central_directory.len;
    struct text *t = &central_directory;
    uint64_t count_16_bits = nentries < 0xffff ? nentries : 0xffff;
    append_le(t, 0x06064b50, 4); /* zip64 end of central directory record */
    append_le(t, 44, 8);         /* size of this record after this field */
    append_le(t, 45, 2);         /* version made by */
    append_le(t, 45, 2);         /* version needed */
    append_le(t, 0, 8);          /* this disk, disk of the directory */
    append_le(t, nentries, 8);   /* entries on this disk */
    append_le(t, nentries, 8);   /* entries */
    append_le(t, size, 8);
    append_le(t, start, 8);
    append_le(t, 0x07064b50, 4);   /* zip64 end of central directory locator */
    append_le(t, 0, 4);            /* disk of the zip64 end of central directory record */
    append_le(t, start + size, 8); /* offset of the zip64 end of central directory record */
    append_le(t, 1, 4);            /* total number of disks */
    append_le(t, 0x06054b50, 4);   /* end of central directory record */
    append_le(t, 0, 4);            /* this disk, disk of the directory */
    append_le(t, count_16_bits, 2);
    append_le(t, count_16_bits, 2);
    append_le(t, limit_to_32_bits(size), 4);
    append_le(t, limit_to_32_bits(start), 4);
    append_le(t, 0, 2); /* length of the comment */
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
    write_central_directory();
}

/* ------------------------------------------------------------ safetensors */

static void write_safetensors(void)
{
    struct text header = {0}, header_length = {0};
    char name[256], line[512];
    append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint64_t i = 0; i < ntensors; i++) {
        format_tensor_name(i, name, sizeof name);
        snprintf(line, sizeof line,
                 ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64
                 "]}",
                 name, elements_per_tensor, i * elements_per_tensor * 4, (i + 1) * elements_per_tensor * 4);
        append_str(&header, line);
    }
    append_str(&header, "}");
    while (header.len % 8)
        append_str(&header, " ");
    append_le(&header_length, header.len, 8);
    metadata_bytes = header.len + 8;
    flush_text(&header_length);
    flush_text(&header);
    for (uint64_t i = 0; i < ntensors; i++)
        write_data(i);
}

/* ------------------------------------------------------------------- main */

/* parse_number - returns the number TEXT, which may end in a unit. */
static uint64_t parse_number(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    return unit ? number << (10 * (unit - units + 1)) : number;
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
    elements_per_tensor = total_bytes / 4 / ntensors;
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
