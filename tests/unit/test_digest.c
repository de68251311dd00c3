/* Digests match published test vectors, and the digest of a file does not depend on its format. */
#include <stdlib.h>

#include "core/file.h"
#include "op/hash_xxh3.h"
#include "small_files.h"
#include "unit.h"

static void to_hex(const uint8_t *digest, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    out[2 * n] = '\0';
}

static void published_test_vectors_match(void)
{
    uint8_t d[CKPT_DIGEST_MAX];
    char text[65];
    ckpt_file *f = open_safetensors("{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                    "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}",
                                    "abc", 3);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, ckpt_tensor_find(f, (ckpt_str){"t", 1}), CKPT_SHA256, d, NULL),
                    CKPT_OK);
    to_hex(d, 32, text); /* the digest of "abc" */
    CU_ASSERT_STRING_EQUAL(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, ckpt_tensor_find(f, (ckpt_str){"z", 1}), CKPT_SHA256, d, NULL),
                    CKPT_OK);
    to_hex(d, 32, text); /* the digest of no bytes */
    CU_ASSERT_STRING_EQUAL(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, ckpt_tensor_find(f, (ckpt_str){"z", 1}), CKPT_XXH3, d, NULL),
                    CKPT_OK);
    to_hex(d, 16, text);
    CU_ASSERT_STRING_EQUAL(text, "99aa06d3014798d86001c324468d497f"); /* XXH3_128bits("") */
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, 99, CKPT_SHA256, d, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, 0, (ckpt_algorithm)7, d, NULL), CKPT_EUSAGE);
    close_open_files();
}

/* For every length, alignment and split, the AVX2 kernel gives the same digest as the baseline kernel. */
static void xxh3_kernels_agree(void)
{
    enum { MAX_LENGTH = 1200 };
    static _Alignas(64) unsigned char b[MAX_LENGTH + 40];
    uint8_t want[XXH3_BYTES], got[XXH3_BYTES];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)(i * i * 3 >> 2);
    for (size_t n = 0; n <= MAX_LENGTH; n += n < 620 ? 1 : 29) {
        size_t start = n % 37, cut = n * 5 / 7;
        void *baseline = xxh3_new(), *avx2 = xxh3_new(), *split = xxh3_new();
        CU_ASSERT(xxh3_update_with(XXH3_BASELINE, baseline, b + start, n));
        xxh3_final(baseline, want);
        if (!xxh3_update_with(XXH3_AVX2, avx2, b + start, n))
            xxh3_update(avx2, b + start, n);
        xxh3_final(avx2, got);
        CU_ASSERT(memcmp(got, want, XXH3_BYTES) == 0);
        if (!xxh3_update_with(XXH3_AVX2, split, b + start, cut))
            xxh3_update(split, b + start, cut);
        CU_ASSERT(xxh3_update_with(XXH3_BASELINE, split, b + start + cut, n - cut));
        xxh3_final(split, got);
        CU_ASSERT(memcmp(got, want, XXH3_BYTES) == 0);
        xxh3_free(baseline);
        xxh3_free(avx2);
        xxh3_free(split);
    }
}

/* The digest is the SHA-256 of "abc" alone. */
static void payload_digests_exclude_the_header(void)
{
    uint8_t d[CKPT_DIGEST_MAX], file_digest[CKPT_DIGEST_MAX];
    char text[65];
    ckpt_file *f = open_safetensors("{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", "abc",
                                    3);
    CU_ASSERT_EQUAL(ckpt_digest_payload(f, CKPT_SHA256, NULL, d, NULL), CKPT_OK);
    to_hex(d, 32, text);
    CU_ASSERT_STRING_EQUAL(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CU_ASSERT_EQUAL(ckpt_digest_payload(f, (ckpt_algorithm)7, NULL, d, NULL), CKPT_EUSAGE);
    CU_ASSERT(ckpt_digest_bytes("/nowhere/at/all", CKPT_SHA256, NULL, file_digest, NULL) != CKPT_OK);
    close_open_files();
}

static void digest_file(ckpt_file *f, ckpt_algorithm alg, uint8_t out[CKPT_DIGEST_MAX])
{
    uint8_t *d = calloc(ckpt_tensor_count(f) + 1, CKPT_DIGEST_MAX);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        if (tensor_at(f, i).has_data)
            CU_ASSERT_EQUAL(ckpt_digest_tensor(f, i, alg, d + i * CKPT_DIGEST_MAX, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_file(f, alg, d, out, NULL), CKPT_OK);
    free(d);
}

/* The digest of a file with one tensor is the digest of the record of that tensor. The record is built here
 * as the manual describes it. */
static void file_digest_is_as_documented(void)
{
    uint8_t got[CKPT_DIGEST_MAX], want[CKPT_DIGEST_MAX], tensor[CKPT_DIGEST_MAX];
    /* the length of the name, the name, the length of the dtype, the dtype, the number of dimensions, the
     * sizes 1 and 3, and the digest of the bytes; each number takes 8 bytes */
    unsigned char record[8 + 1 + 8 + 5 + 8 + 16 + 16] = {1, 0, 0, 0, 0,   0,   0,   0,   't', 5, 0, 0, 0,
                                                         0, 0, 0, 0, 'u', 'i', 'n', 't', '8', 2, 0, 0, 0,
                                                         0, 0, 0, 0, 1,   0,   0,   0,   0,   0, 0, 0, 3};
    ckpt_file *f = open_safetensors("{\"t\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[0,3]}}",
                                    "abc", 3);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, 0, CKPT_XXH3, tensor, NULL), CKPT_OK);
    memcpy(record + sizeof record - 16, tensor, 16);
    void *x = xxh3_new();
    xxh3_update(x, record, sizeof record);
    xxh3_final(x, want);
    xxh3_free(x);
    digest_file(f, CKPT_XXH3, got);
    CU_ASSERT(memcmp(got, want, 16) == 0);
    close_open_files();
}

static void digests_do_not_depend_on_order_and_offsets(void)
{
    uint8_t a[CKPT_DIGEST_MAX], b[CKPT_DIGEST_MAX], c[CKPT_DIGEST_MAX];
    digest_file(open_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                 "xy", 2),
                CKPT_SHA256, a);
    digest_file(open_safetensors("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                 "yx", 2),
                CKPT_SHA256, b);
    digest_file(open_safetensors("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                 "yx", 2),
                CKPT_SHA256, c);
    CU_ASSERT(memcmp(a, b, 32) == 0);
    CU_ASSERT(memcmp(a, c, 32) != 0);
    close_open_files();
}

/* A zip archive and a legacy file of the same weights have the same digest. */
static void digests_do_not_depend_on_the_format(void)
{
    uint8_t a[CKPT_DIGEST_MAX], b[CKPT_DIGEST_MAX];
    digest_file(open_corpus_file("torch/t26/state_dict.pt"), CKPT_XXH3, a);
    digest_file(open_corpus_file("torch/t26/state_dict_legacy.pt"), CKPT_XXH3, b);
    CU_ASSERT(memcmp(a, b, 16) == 0);
    close_open_files();
}

/* The digest must cover the note of a tensor, such as the scale of a quantized tensor, or whether a sparse
 * tensor is coalesced. */
static void digests_cover_properties_outside_the_bytes(void)
{
    uint8_t before[CKPT_DIGEST_MAX], after[CKPT_DIGEST_MAX];
    static const char *const files[] = {"torch/t26/quant_per_tensor.pt", "torch/t26/sparse_coo.pt",
                                        "torch/t26/meta.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ckpt_file *f = open_corpus_file(files[i]);
        size_t k = 0;
        while (k < f->table.nrows && table_tensor(&f->table, k).kind == CKPT_DENSE)
            k++;
        CU_ASSERT_FATAL(k < f->table.nrows);
        struct row r = table_row(&f->table, k);
        digest_file(f, CKPT_XXH3, before);
        r.t.note = STR_LIT("another note");
        CU_ASSERT_FATAL(table_replace_row(&f->table, k, &r));
        digest_file(f, CKPT_XXH3, after);
        CU_ASSERT(memcmp(before, after, 16) != 0);
    }
    close_open_files();
}

void suite_digest(void)
{
    UNIT(published_test_vectors_match);
    UNIT(xxh3_kernels_agree);
    UNIT(payload_digests_exclude_the_header);
    UNIT(file_digest_is_as_documented);
    UNIT(digests_do_not_depend_on_order_and_offsets);
    UNIT(digests_do_not_depend_on_the_format);
    UNIT(digests_cover_properties_outside_the_bytes);
}
