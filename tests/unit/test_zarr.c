/* Zarr arrays: their metadata, the keys of chunks, and decoding chunks. */
#include <stdio.h>

#include "../tablecrc.h"
#include "bytes.h"
#include "codec/blosc.h"
#include "codec/zarr.h"
#include "unit.h"

/* Metadata of the versions 2 and 3 of Zarr, and codecs of version 3. */
#define METADATA_V2(shape, chunks, dtype, more)                                                              \
    "{\"zarr_format\":2,\"shape\":" shape ",\"chunks\":" chunks ",\"dtype\":\"" dtype                        \
    "\",\"order\":\"C\",\"filters\":null," more "}"
#define UNCOMPRESSED "\"compressor\":null,\"fill_value\":null"
#define METADATA_V3(codecs)                                                                                  \
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4,6],\"data_type\":\"int16\",\"fill_value\":-2,"  \
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,4]}},"                       \
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\":[" codecs "]}"
#define BYTES_CODEC(endian) "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"" endian "\"}}"
#define SHARDING_CODEC(more)                                                                                 \
    "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2,2],\"codecs\":[" BYTES_CODEC(      \
        "little") "]," more "}}"
#define INDEX_CODECS "\"index_codecs\":[" BYTES_CODEC("little") ",{\"name\":\"crc32c\"}]"

static arena *metadata_arena;
static struct zarr_array array;
static ckpt_error err;

/* parse - reads the metadata TEXT into ARRAY; if they are refused, the reason is in err. */
static ckpt_status parse(const char *text)
{
    if (metadata_arena)
        arena_free(metadata_arena);
    metadata_arena = arena_new(1 << 20);
    err = (ckpt_error){0};
    return zarr_read(str_of(text, strlen(text)), strstr(text, "node_type") != NULL, metadata_arena, &array,
                     &err);
}

static void check_fails(const char *text, ckpt_status st, const char *what)
{
    CU_ASSERT_EQUAL(parse(text), st);
    CU_ASSERT(strstr(err.what, what) != NULL);
    if (!strstr(err.what, what))
        printf("  %s\n", err.what);
}

/* is_chunk - returns whether KEY is the key of the chunk whose first element is at [X, Y]. */
static bool is_chunk(const char *key, uint64_t x, uint64_t y)
{
    uint64_t at[ZARR_DIMS] = {0};
    return zarr_is_chunk_key(&array, str_of(key, strlen(key)), at) && at[0] == x && at[1] == y;
}

static void metadata_of_version_2_are_read(void)
{
    uint64_t stride[2];
    CU_ASSERT_EQUAL(
        parse(METADATA_V2("[5,6]", "[4,4]", ">f4", "\"compressor\":{\"id\":\"zlib\"},\"fill_value\":1.5")),
        CKPT_OK);
    CU_ASSERT_EQUAL(array.dtype, CKPT_DT_F32);
    CU_ASSERT_TRUE(array.encoding.big_endian && array.has_fill);
    CU_ASSERT_EQUAL(memcmp(array.fill, "\x3f\xc0\0\0", 4), 0);
    CU_ASSERT_EQUAL(array.encoding.decoded_bytes, 4 * 4 * 4);
    CU_ASSERT_EQUAL(array.nbytes, 5 * 6 * 4);
    zarr_get_strides(&array, stride);
    CU_ASSERT_EQUAL(stride[0], 4);
    CU_ASSERT_TRUE(is_chunk("0.0", 0, 0));
    CU_ASSERT_TRUE(is_chunk("1.1", 4, 4));
    CU_ASSERT_FALSE(is_chunk("2.0", 8, 0));
    CU_ASSERT_FALSE(is_chunk("00.0", 0, 0));
    CU_ASSERT_FALSE(is_chunk("0/0", 0, 0));
    CU_ASSERT_FALSE(is_chunk("0", 0, 0));
    CU_ASSERT_FALSE(is_chunk("0.0.0", 0, 0));
    CU_ASSERT_FALSE(is_chunk("99999999999999999999.0", 0, 0));
    CU_ASSERT_EQUAL(parse(METADATA_V2("[]", "[]", "<i8", UNCOMPRESSED)), CKPT_OK);
    CU_ASSERT_TRUE(is_chunk("0", 0, 0));
    CU_ASSERT_FALSE(array.has_fill);
}

static void metadata_of_version_3_are_read(void)
{
    uint64_t stride[2];
    CU_ASSERT_EQUAL(parse(METADATA_V3(
                        "{\"name\":\"transpose\",\"configuration\":{\"order\":[1,0]}}," BYTES_CODEC("big"))),
                    CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(array.fill, "\xff\xfe", 2), 0);
    zarr_get_strides(&array, stride);
    CU_ASSERT_EQUAL(stride[0], 1);
    CU_ASSERT_EQUAL(stride[1], 2);
    CU_ASSERT_TRUE(is_chunk("c/1/1", 2, 4));
    CU_ASSERT_FALSE(is_chunk("1/1", 2, 4));
    CU_ASSERT_EQUAL(parse(METADATA_V3(SHARDING_CODEC(INDEX_CODECS))), CKPT_OK);
    CU_ASSERT_TRUE(array.is_sharded && array.index_has_crc);
    CU_ASSERT_EQUAL(array.chunks_in_shard, 2); /* of 2 x 2 elements, in a shard of 2 x 4 */
    CU_ASSERT_EQUAL(array.encoding.decoded_bytes, 2 * 2 * 2);
}

static void malformed_metadata_are_refused(void)
{
    check_fails("[]", CKPT_EFORMAT, "the version of Zarr is missing");
    check_fails(METADATA_V2("[5]", "[0]", "<f4", UNCOMPRESSED), CKPT_EFORMAT, "the shape of chunks");
    check_fails(METADATA_V2("[5]", "[4,4]", "<f4", UNCOMPRESSED), CKPT_EFORMAT, "the shape of chunks");
    check_fails(METADATA_V2("[-1]", "[1]", "<f4", UNCOMPRESSED), CKPT_EFORMAT, "the shape is");
    check_fails(METADATA_V2("[4611686018427387904]", "[1]", "<f4", UNCOMPRESSED), CKPT_EFORMAT,
                "fewer than 2^63 bytes");
    check_fails(METADATA_V2("[1]", "[4611686018427387904]", "<f4", UNCOMPRESSED), CKPT_EFORMAT, "a chunk");
    check_fails(METADATA_V2("[1]", "[1]", "<U4", UNCOMPRESSED), CKPT_EUNSUPPORTED, "the dtype is '<U4'");
    check_fails(METADATA_V2("[1]", "[1]", "<f4", "\"compressor\":{\"id\":\"lz4\"}"), CKPT_EUNSUPPORTED,
                "a codec is {'id': 'lz4'}");
    check_fails(METADATA_V3(""), CKPT_EFORMAT, "one with bytes");
    check_fails(METADATA_V3(BYTES_CODEC("middle")), CKPT_EUNSUPPORTED, "little or big");
    check_fails(METADATA_V3("\"bytes\",\"gzip\",\"sharding_indexed\""), CKPT_EUNSUPPORTED,
                "a codec is 'sharding_indexed'");
    check_fails(METADATA_V3("{\"name\":\"transpose\",\"configuration\":{\"order\":[0,0]}}"), CKPT_EFORMAT,
                "each dimension once");
    check_fails(METADATA_V3(SHARDING_CODEC("\"index_codecs\":[\"bytes\",\"gzip\"]")), CKPT_EUNSUPPORTED,
                "the codecs of a shard's index");
    check_fails(METADATA_V3(SHARDING_CODEC(INDEX_CODECS ",\"index_location\":\"middle\"")), CKPT_EUNSUPPORTED,
                "start or end");
    check_fails("{\"zarr_format\":3,\"node_type\":\"group\"}", CKPT_EUNSUPPORTED,
                "the type of the node is 'group'");
}

/* decode_chunk - decodes the chunk of N bytes at P to OUT, and sets SIZE to the size of the result. */
static ckpt_status decode_chunk(const void *p, size_t n, unsigned char out[64], size_t *size)
{
    source *src = source_mem(p, n, 0), *decoded;
    spool *to = spool_new(array.encoding.decoded_bytes);
    ckpt_status st = zarr_decode(&array.encoding, src, to, &err);
    decoded = spool_source(to);
    *size = (size_t)decoded->size;
    (void)source_read(decoded, 0, out, *size, NULL);
    source_unref(decoded);
    source_unref(src);
    return st;
}

static void checksums_of_chunks_are_checked(void)
{
    unsigned char chunk[20] = "0123456789abcdef", out[64];
    size_t n;
    uint32_t crc = tablecrc_of(chunk, 16);
    for (int i = 0; i < 4; i++)
        chunk[16 + i] = (unsigned char)(crc >> 8 * i);
    CU_ASSERT_EQUAL(parse(METADATA_V3("\"bytes\",\"crc32c\"")), CKPT_OK);
    CU_ASSERT_TRUE(zarr_has_checksums(&array.encoding));
    CU_ASSERT_EQUAL(decode_chunk(chunk, 20, out, &n), CKPT_OK);
    CU_ASSERT_TRUE(n == 16 && memcmp(out, chunk, 16) == 0);
    chunk[3] ^= 1;
    CU_ASSERT_EQUAL(decode_chunk(chunk, 20, out, &n), CKPT_ECHECKSUM);
    CU_ASSERT_EQUAL(decode_chunk(chunk, 3, out, &n), CKPT_ETRUNCATED);
}

/* decode_blosc - decodes the Blosc buffer BYTES to OUT, at most MAX_BYTES bytes. */
static ckpt_status decode_blosc(ckpt_str bytes, uint64_t max_bytes, char out[64])
{
    spool *to = spool_new(64);
    ckpt_status st = blosc_decode((const unsigned char *)bytes.ptr, bytes.len, max_bytes, to, &err);
    source *decoded = spool_source(to);
    memset(out, 0, 64);
    (void)source_read(decoded, 0, out, (size_t)decoded->size, NULL);
    source_unref(decoded);
    return st;
}

/* A Blosc buffer. Its header has the versions, the flags, the element size, the decoded size, the block size
 * and the size of the buffer. Then come the offset of the only block, 20, and the block. */
#define BLOSC(flags, element, size, block_size, buffer_size, block)                                          \
    TEXT("\2\1" flags element size "\0\0\0" block_size "\0\0\0" buffer_size "\0\0\0\x14\0\0\0" block)

static void blosc_is_decoded(void)
{
    char out[64];
    /* flags 2: not compressed */
    CU_ASSERT_EQUAL(decode_blosc(TEXT("\2\1\2\1\3\0\0\0\3\0\0\0\x13\0\0\0xyz"), 3, out), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "xyz");
    /* LZ4: "ab", 8 bytes copied from 2 bytes back, and "c" */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x30", "\1", "\x0b", "\x0b", "\x1f",
                                       "\7\0\0\0\x24"
                                       "ab\2\0\x10"
                                       "c"),
                                 11, out),
                    CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "ababababab"
                                "c");
    /* shuffled elements of 2 bytes: in one stream, then in a stream for each byte of an element */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x31", "\2", "\5", "\5", "\x1d",
                                       "\5\0\0\0"
                                       "acbde"),
                                 5, out),
                    CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "abcde");
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x21", "\2", "\4", "\4", "\x20",
                                       "\2\0\0\0"
                                       "ac\2\0\0\0"
                                       "bd"),
                                 4, out),
                    CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "abcd");
    /* shuffled bits: bit 0 of eight elements, bit 1 of them … "c" differs from "a" in bit 1 */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x34", "\1", "\x8", "\x8", "\x20",
                                       "\x8\0\0\0"
                                       "\xff\2\0\0\0\xff\xff\0"),
                                 8, out),
                    CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "acaaaaaa");
    /* BloscLZ: "ab", 8 bytes copied from 2 bytes back, and "c" */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x10", "\1", "\x0b", "\x0b", "\x1f",
                                       "\7\0\0\0\1"
                                       "ab\xc0\1\0"
                                       "c"),
                                 11, out),
                    CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "ababababab"
                                "c");
}

static void malformed_blosc_is_refused(void)
{
    char out[64];
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x30", "\1", "\x0b", "\x0b", "\x1f",
                                       "\7\0\0\0\x24"
                                       "ab\3\0\x10"
                                       "c"),
                                 11, out),
                    CKPT_EFORMAT); /* a copy from before the output */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x30", "\1", "\x0b", "\x0b", "\x1f",
                                       "\7\0\0\0\xf4"
                                       "ab\2\0\x10"
                                       "c"),
                                 11, out),
                    CKPT_EFORMAT); /* more literals than there are bytes */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x30", "\1", "\x0b", "\x0b", "\x1f",
                                       "\x7f\0\0\0\x24"
                                       "ab\2\0\x10"
                                       "c"),
                                 11, out),
                    CKPT_EFORMAT); /* the block has 127 bytes, of which 7 are there */
    /* not compressed: the size of the buffer is 20 instead of 19; the decoded size is 4 instead of 3 */
    CU_ASSERT_EQUAL(decode_blosc(TEXT("\2\1\2\1\3\0\0\0\3\0\0\0\x14\0\0\0xyz"), 3, out), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(decode_blosc(TEXT("\2\1\2\1\4\0\0\0\4\0\0\0\x13\0\0\0xyz"), 3, out), CKPT_EFORMAT);
    /* BloscLZ: a copy from 3 bytes back, after 2 literals */
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\x10", "\1", "\x0a", "\x0a", "\x1d",
                                       "\5\0\0\0\1"
                                       "ab\xc0\2"),
                                 10, out),
                    CKPT_EFORMAT);
    CU_ASSERT_EQUAL(decode_blosc(BLOSC("\xb0", "\1", "\2", "\2", "\x15", "x"), 3, out), CKPT_EUNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(err.found, "compressor 5");
}

/* read_index - reads the index of the shard of N bytes at P. */
static ckpt_status read_index(const unsigned char *p, size_t n, struct zarr_stored_chunk **chunks)
{
    source *src = source_mem(p, n, 0);
    ckpt_status st = zarr_read_index(&array, src, 0, n, metadata_arena, chunks, &err);
    source_unref(src);
    return st;
}

static void the_index_of_a_shard_is_read(void)
{
    /* a chunk of 8 bytes, then the index: the offset and size of each of two chunks, then one CRC-32C */
    enum { INDEX_SIZE = 2 * 16 + 4, SHARD_SIZE = 8 + INDEX_SIZE };
    unsigned char shard[SHARD_SIZE] = "01234567", *index = shard + 8;
    struct zarr_stored_chunk *chunks;
    memset(index, 0, 16);
    index[8] = 8;                 /* the first chunk has 8 bytes at offset 0 */
    memset(index + 16, 0xff, 16); /* the second chunk is not stored */
    uint32_t crc = tablecrc_of(index, 32);
    for (int i = 0; i < 4; i++)
        index[32 + i] = (unsigned char)(crc >> 8 * i);
    CU_ASSERT_EQUAL(parse(METADATA_V3(SHARDING_CODEC(INDEX_CODECS))), CKPT_OK);
    CU_ASSERT_EQUAL(read_index(shard, SHARD_SIZE, &chunks), CKPT_OK);
    CU_ASSERT_TRUE(chunks[0].at == 0 && chunks[0].nbytes == 8 && chunks[1].at == UINT64_MAX);
    CU_ASSERT_EQUAL(read_index(shard, INDEX_SIZE - 1, &chunks), CKPT_ETRUNCATED);
    index[0] = 1;
    CU_ASSERT_EQUAL(read_index(shard, SHARD_SIZE, &chunks), CKPT_ECHECKSUM);
    /* from here on, the shard begins with the index, which has no CRC-32C */
    CU_ASSERT_EQUAL(
        parse(METADATA_V3(SHARDING_CODEC("\"index_location\":\"start\",\"index_codecs\":[\"bytes\"]"))),
        CKPT_OK);
    CU_ASSERT_EQUAL(read_index(index, INDEX_SIZE, &chunks), CKPT_OK);
    index[8] = 40; /* the first chunk has more bytes than the shard */
    CU_ASSERT_EQUAL(read_index(index, INDEX_SIZE, &chunks), CKPT_ETRUNCATED);
    arena_free(metadata_arena);
    metadata_arena = NULL;
}

void suite_zarr(void)
{
    UNIT(metadata_of_version_2_are_read);
    UNIT(metadata_of_version_3_are_read);
    UNIT(malformed_metadata_are_refused);
    UNIT(checksums_of_chunks_are_checked);
    UNIT(blosc_is_decoded);
    UNIT(malformed_blosc_is_refused);
    UNIT(the_index_of_a_shard_is_read);
}
