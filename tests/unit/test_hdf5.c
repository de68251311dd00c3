/* Randomly damaged HDF5 files of Keras and h5py are read or refused. Checksums are compared, and cyclic
 * structures are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"
#include "codec/hdf5_internal.h"
#include "core/check.h"
#include "format/keras/keras.h"
#include "pseudo_random.h"
#include "unit.h"

#define MAX_BYTES 65536u
#define MUTANTS   490u /* number of damaged copies of each of the 24 files */

static const char *const sample_files[] = {
    "keras/hdf5/links.h5",
    "keras/hdf5/latest.h5",
    "keras/hdf5/track_order.h5",
    "keras/hdf5/types.h5",
    "keras/hdf5/filters.h5",
    "keras/hdf5/filters_latest.h5",
    "keras/hdf5/userblock512.h5",
    "keras/k3/base.weights.h5",
    "keras/k3/bad/gzip.weights.h5",
    "keras/k3/dtype_bfloat16.h5",
    "keras/k3/rnn.h5",
    "keras/k3/own_vars.weights.h5",
    "keras/k3/bad/extra.weights.h5",
    "keras/hdf5/dense_group_latest.h5",
    "keras/hdf5/index_v110.h5",
    "keras/hdf5/index_v200.h5",
    "keras/hdf5/array_pages.h5",
    "keras/hdf5/r_factors.h5",
    "keras/hdf5/edges_unfiltered.h5",
    "keras/hdf5/filters_other.h5",
    "keras/hdf5/szip.h5",
    "keras/hdf5/precision.h5",
    "keras/hdf5/huge_attributes.h5",
    "keras/hdf5/texts_chunked.h5",
};

/* The file that is being tested. In the functions below, N is the number of its bytes. */
static unsigned char bytes[MAX_BYTES];

/* load_corpus_file - reads up to MAX_BYTES of the corpus file NAME into `bytes`, and returns their number. */
static size_t load_corpus_file(const char *name)
{
    FILE *in = fopen(unit_corpus_path(name), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(in);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    return n;
}

/* read_all - opens the file and hashes each tensor. Every error must have a message, and the status that is
 * returned. */
static ckpt_status read_all(size_t n, ckpt_error *err)
{
    ckpt_file *f;
    uint8_t sum[CKPT_DIGEST_MAX];
    unsigned char *copy = unit_guard(bytes, n);
    ckpt_status st = ckpt_open_memory(copy, n, "test", NULL, &f, err);
    for (uint32_t i = 0; st == CKPT_OK && i < ckpt_tensor_count(f); i++) {
        ckpt_status read_status = CKPT_OK;
        if (tensor_at(f, i).has_data)
            read_status = ckpt_digest_tensor(f, i, CKPT_SHA256, sum, err);
        CU_ASSERT(read_status == CKPT_OK || (err->what[0] && err->status == read_status));
    }
    CU_ASSERT(st == CKPT_OK || (err->what[0] && err->status == st));
    if (st == CKPT_OK)
        ckpt_close(f);
    unit_guard_free(copy, n);
    return st;
}

/* mutate_bytes - changes the file at a random offset: flips a bit, sets a byte, writes a number of 4 or 8
 * bytes, which may be an offset in the file, or copies 8 or 40 bytes from another offset. */
static void mutate_bytes(size_t n)
{
    static const unsigned char special[] = {0, 1, 0x7f, 0x80, 0xff};
    size_t at = (size_t)(next_random() % (n - 40)), from = (size_t)(next_random() % (n - 40));
    unsigned char number[8];
    store_u64le(number, next_random() % n);
    switch (next_random() % 6) {
    case 0: bytes[at] ^= (unsigned char)(1u << next_random() % 8); break;
    case 1: bytes[at] = special[next_random() % 5]; break;
    case 2: memset(bytes + at, 0xff, next_random() % 2 ? 4 : 8); break;
    case 3: memcpy(bytes + at, number, 8); break;
    case 4: store_u64le(number, next_random()), memcpy(bytes + at, number, next_random() % 2 ? 4 : 8); break;
    default: memmove(bytes + at, bytes + from, next_random() % 2 ? 8 : 40); break;
    }
}

static void mutants_are_read_or_refused(void)
{
    ckpt_error err;
    size_t nrefused = 0;
    for (size_t k = 0; k < sizeof sample_files / sizeof *sample_files; k++) {
        size_t n = load_corpus_file(sample_files[k]);
        unsigned char *original = malloc(n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(original);
        memcpy(original, bytes, n);
        CU_ASSERT_EQUAL(read_all(n, &err), CKPT_OK);
        for (unsigned i = 0; i < MUTANTS; i++) {
            size_t size = next_random() % 20 ? n
                                             : (size_t)(next_random() % n); /* some copies are truncated */
            memcpy(bytes, original, n);
            for (uint64_t nchanges = 1 + next_random() % 4; nchanges--;)
                mutate_bytes(n);
            nrefused += read_all(size, &err) != CKPT_OK;
        }
        free(original);
    }
    CU_ASSERT(nrefused > 1000); /* enough changes hit HDF5 structures, not only elements of tensors */
}

/* The expected checksums are those that lookup3.c lists for hashlittle with the seed 0. */
static void the_checksum_is_lookup3(void)
{
    static const char text[] = "Four score and seven years ago";
    CU_ASSERT_EQUAL(hdf5_checksum((const unsigned char *)text, sizeof text - 1), 0x17770551);
    CU_ASSERT_EQUAL(hdf5_checksum((const unsigned char *)"", 0), 0xdeadbeef);
}

/* find_last - returns the offset of the last occurrence of TEXT, of SIZE bytes, in the first N bytes of the
 * file. */
static size_t find_last(size_t n, const char *text, size_t size)
{
    for (size_t i = n - size; i > 0; i--)
        if (memcmp(bytes + i, text, size) == 0)
            return i;
    CU_FAIL_FATAL("the text is not in the file");
    return 0;
}

/* hash_tensor - opens the file and hashes the tensor NAME. */
static ckpt_status hash_tensor(size_t n, const char *name, ckpt_error *err)
{
    ckpt_file *f;
    uint8_t sum[CKPT_DIGEST_MAX];
    ckpt_status st = ckpt_open_memory(bytes, n, "test", NULL, &f, err);
    if (st != CKPT_OK)
        return st;
    uint32_t row = ckpt_tensor_find(f, (ckpt_str){name, strlen(name)});
    st = row == CKPT_NO_TENSOR ? CKPT_ENOTFOUND : ckpt_digest_tensor(f, row, CKPT_SHA256, sum, err);
    ckpt_close(f);
    return st;
}

/* find_checksummed_byte - changes every seventh byte in turn, until a checksum of the tensor NAME fails.
 * Returns the offset of that byte, or 0 if there is none. */
static size_t find_checksummed_byte(size_t n, const char *name)
{
    ckpt_error err;
    for (size_t at = 0; at < n; at += 7) {
        bytes[at] ^= 1;
        ckpt_status st = hash_tensor(n, name, &err);
        bytes[at] ^= 1;
        if (st == CKPT_ECHECKSUM)
            return at;
    }
    return 0;
}

static void fletcher32_is_compared(void)
{
    ckpt_error err;
    size_t n = load_corpus_file("keras/hdf5/filters.h5");
    CU_ASSERT_EQUAL(hash_tensor(n, "fletcher", &err), CKPT_OK);
    size_t at = find_checksummed_byte(n, "fletcher");
    CU_ASSERT_NOT_EQUAL_FATAL(at, 0);
    bytes[at] ^= 1;
    CU_ASSERT_EQUAL(hash_tensor(n, "fletcher", &err), CKPT_ECHECKSUM);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "fletcher32"));
    CU_ASSERT_EQUAL(hash_tensor(n, "chunk_edge", &err), CKPT_OK);
}

/* The root node of a group's B-tree is made its own child, so that the level does not decrease from parent
 * to child. A node has its type at byte 4 (0: names), its level at byte 5, and the file offset of its first
 * child at byte 32. */
static void cyclic_trees_are_refused(void)
{
    ckpt_error err;
    size_t n = load_corpus_file("keras/hdf5/types.h5"), tree = find_last(n, "TREE\0", 5);
    while (tree && bytes[tree + 4])
        tree = find_last(tree, "TREE\0", 5);
    bytes[tree + 5] = 1;
    store_u64le(bytes + tree + 32, tree);
    CU_ASSERT_EQUAL(read_all(n, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "level"));
}

/* A heap larger than the file is refused before memory is allocated. */
static void sizes_beyond_the_file_are_refused(void)
{
    ckpt_error err;
    size_t n = load_corpus_file("keras/hdf5/links.h5"), heap = find_last(n, "HEAP\0", 5);
    memset(bytes + heap + 8, 0x7f, 8); /* the size of the heap */
    CU_ASSERT_EQUAL(read_all(n, &err), CKPT_ETRUNCATED);
    n = load_corpus_file("keras/hdf5/links.h5");
    memset(bytes + 40, 0x7f, 8); /* the size of the file, in the superblock */
    CU_ASSERT_EQUAL(read_all(n, &err), CKPT_ETRUNCATED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.where, "superblock"));
}

/* verify reports a data set whose name a value has already, as config.json of a .keras archive may have. The
 * data set gets no row, and then u8, a hard link to it, must not get the bytes of u4, the next row. */
static void a_hard_link_to_a_duplicate_name_has_its_own_bytes(void)
{
    /* a symbol begins with the offset of its name and that of its object header */
    enum { U2 = 11592 + 8 + 40, U8 = U2 + 2 * 40 };
    struct kit k;
    struct check c;
    ckpt_file *f;
    ckpt_error err;
    ckpt_verify_result result = CKPT_INIT(ckpt_verify_result);
    size_t n = load_corpus_file("keras/hdf5/types.h5");
    memcpy(bytes + U8 + 8, bytes + U2 + 8, 8);
    CU_ASSERT_EQUAL_FATAL(file_new("test", source_mem(bytes, n, 0), NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(check_init(&c, NULL, &result, NULL), CKPT_OK);
    f->check = &c;
    CU_ASSERT_EQUAL_FATAL(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), &err), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_value(&k, STR_LIT("u2"), value_new(f->a, CKPT_V_NONE, 0)), CKPT_OK);
    CU_ASSERT_EQUAL(kit_end(&k, keras_read_hdf5(&k, f->src)), CKPT_OK);
    CU_ASSERT_EQUAL(table_finish(&f->table, NULL), CKPT_OK);
    const ckpt_tensor u4 = tensor_at(f, ckpt_tensor_find(f, STR_LIT("u4")));
    const ckpt_tensor u8 = tensor_at(f, ckpt_tensor_find(f, STR_LIT("u8")));
    CU_ASSERT_EQUAL(result.findings, 1);
    CU_ASSERT(u8.dtype == CKPT_DT_U16 && u8.has_data && u8.file_offset != u4.file_offset);
    check_free(&c);
    f->check = NULL;
    ckpt_close(f);
}

/* A hard link that one changed byte makes a soft link leads nowhere, so that its tensor would be missing. */
static void a_symbol_has_an_address_or_is_a_soft_link(void)
{
    static const unsigned char kinds[] = {2, 3, 255};
    enum { U2 = 11592 + 8 + 40, KIND = 16 };
    ckpt_error err;
    for (size_t i = 0; i < sizeof kinds; i++) {
        size_t n = load_corpus_file("keras/hdf5/types.h5");
        bytes[U2 + KIND] = kinds[i];
        CU_ASSERT_EQUAL(read_all(n, &err), CKPT_EFORMAT);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "kind"));
    }
    size_t n = load_corpus_file("keras/hdf5/types.h5");
    memset(bytes + U2 + 8, 0xff, 8); /* the address of its object */
    CU_ASSERT_EQUAL(read_all(n, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "kind"));
}

/* A size that was damaged may be larger than the greatest size, which is stored after it. */
static void sizes_are_at_most_the_greatest_sizes(void)
{
    static const struct {
        uint64_t size, max;
        ckpt_status status;
    } cases[] = {{5, 4, CKPT_EFORMAT}, {4, 4, CKPT_OK}, {0, 4, CKPT_OK}, {5, UINT64_MAX, CKPT_OK}};
    unsigned char space[20] = {2, 1, 1, 1}; /* version, rank, flag 1, kind */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_error err;
        struct hdf5 h = {.err = &err};
        struct hdf5_space out;
        store_u64le(space + 4, cases[i].size);
        store_u64le(space + 12, cases[i].max);
        CU_ASSERT_EQUAL(hdf5_read_space(&h, cursor_of(space, sizeof space, 0), &out), cases[i].status);
    }
}

/* read_type - reads the datatype in the N bytes of TYPE. */
static struct hdf5_type read_type(const unsigned char *type, size_t n)
{
    ckpt_error err;
    struct hdf5_type out = {.kind = HDF5_UNREADABLE};
    struct hdf5 h = {.a = arena_new(1 << 20), .scratch = arena_new(1 << 20), .err = &err};
    const struct hdf5_message message = {.is_there = true, .body = cursor_of(type, n, 0)};
    CU_ASSERT_EQUAL(hdf5_read_type(&h, message, &out), CKPT_OK);
    arena_free(h.scratch);
    arena_free(h.a);
    return out;
}

/* An enum (class 8) of 16 bytes, whose numbers are integers (class 0) of 12 bits in 2 bytes, and a text
 * (class 9) of such integers: no number may be read from 16 bytes. */
static void numbers_in_other_types_have_their_size(void)
{
    unsigned char type[38] = {0x38, 1, 0, 0, 16, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 12, 0, 'a'};
    CU_ASSERT_EQUAL(read_type(type, sizeof type).kind, HDF5_UNREADABLE);
    type[4] = 2;
    CU_ASSERT(read_type(type, sizeof type).kind == HDF5_NUMBER && read_type(type, sizeof type).is_converted);
    type[0] = 0x19;
    type[4] = 16;
    CU_ASSERT(read_type(type, 20).kind == HDF5_TEXT && !read_type(type, 20).is_converted);
}

void suite_hdf5(void)
{
    UNIT(mutants_are_read_or_refused);
    UNIT(the_checksum_is_lookup3);
    UNIT(fletcher32_is_compared);
    UNIT(cyclic_trees_are_refused);
    UNIT(sizes_beyond_the_file_are_refused);
    UNIT(a_hard_link_to_a_duplicate_name_has_its_own_bytes);
    UNIT(a_symbol_has_an_address_or_is_a_soft_link);
    UNIT(sizes_are_at_most_the_greatest_sizes);
    UNIT(numbers_in_other_types_have_their_size);
}
