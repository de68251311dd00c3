/* Tests format/kit by adding tensors and values to a toy file, as a reader of a format would. */
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/dtype.h"
#include "format/format.h"
#include "format/kit.h"
#include "format/salvage.h"
#include "io/block_cache.h"
#include "unit.h"

static struct {
    unsigned char bytes[4096]; /* the bytes of the file */
    ckpt_file *file;
    struct kit kit;
    ckpt_error err;
} toy;

static const struct format format_toy = {.name = "toy", .title = "toy", .flat = true};

static void open_toy(void)
{
    source *src = source_mem(toy.bytes, sizeof toy.bytes, 0);
    for (size_t i = 0; i < sizeof toy.bytes; i++)
        toy.bytes[i] = (unsigned char)(i * 31 >> 2);
    CU_ASSERT_EQUAL_FATAL(file_new("toy", src, NULL, &toy.file, NULL), CKPT_OK);
    toy.file->format = &format_toy;
    CU_ASSERT_EQUAL_FATAL(kit_begin(&toy.kit, toy.file, value_new(toy.file->a, CKPT_V_DICT, 0), &toy.err),
                          CKPT_OK);
}

static void finish_toy(ckpt_status st)
{
    CU_ASSERT_EQUAL(kit_end(&toy.kit, st), st);
    CU_ASSERT_EQUAL(table_finish(&toy.file->table, NULL), CKPT_OK);
}

static void close_toy(void) { ckpt_close(toy.file); }

/* make_tensor - returns a float32 tensor NAME of ROWS x COLUMNS at OFFSET of the file. */
static struct kit_tensor make_tensor(const char *name, uint64_t rows, uint64_t columns, uint64_t offset)
{
    static uint64_t shape[8][2]; /* of the last eight tensors */
    static unsigned turn;
    uint64_t *s = shape[turn++ % 8];
    s[0] = rows;
    s[1] = columns;
    return (struct kit_tensor){.name = str_c(name),
                               .t = {.dtype = CKPT_DT_F32, .ndim = 2, .shape = s},
                               .src = toy.file->src,
                               .src_offset = offset,
                               .nbytes = KIT_AS_NEEDED};
}

static uint32_t find_row(const char *name) { return ckpt_tensor_find(toy.file, str_c(name)); }

/* holds_bytes - returns true if the tensor NAME holds the COUNT bytes at WANT. */
static bool holds_bytes(const char *name, const void *want, size_t count)
{
    unsigned char got[512];
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    CU_ASSERT_FATAL(count <= sizeof got);
    return ckpt_tensor_at(toy.file, find_row(name), &t) && t.nbytes == count &&
           ckpt_tensor_read(toy.file, find_row(name), 0, t.elements, got, NULL) == CKPT_OK &&
           memcmp(got, want, count) == 0;
}

static void tensors_and_values_are_added(void)
{
    struct kit inner;
    ckpt_tensor a = CKPT_INIT(ckpt_tensor), b = CKPT_INIT(ckpt_tensor);
    unsigned char want[48];
    open_toy();
    struct kit_tensor x = make_tensor("w", 3, 4, 100);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("column_major", 3, 4, 100);
    x.column_major = true;
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("big_endian", 3, 4, 100);
    x.big_endian = true;
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("meta", 1u << 20, 1u << 20, 0);
    x.src = NULL;
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_value(&toy.kit, STR_LIT("note"), value_str(toy.file->a, STR_LIT("text"))),
                    CKPT_OK);
    CU_ASSERT_EQUAL(kit_begin_mapping(&inner, &toy.kit, STR_LIT("inner")), CKPT_OK);
    x = make_tensor("a", 2, 2, 200);
    x.key = STR_LIT("both"); /* its storage has 10 floats; "a" and "b" view the first four */
    x.nbytes = 40;
    CU_ASSERT_EQUAL(kit_add_tensor(&inner, &x), CKPT_OK);
    x.name = STR_LIT("b");
    CU_ASSERT_EQUAL(kit_add_tensor(&inner, &x), CKPT_OK);
    CU_ASSERT_EQUAL(kit_end(&inner, CKPT_OK), CKPT_OK);
    CU_ASSERT_EQUAL(kit_begin_mapping(&inner, &toy.kit, STR_LIT("empty")), CKPT_OK);
    CU_ASSERT_EQUAL(kit_end(&inner, CKPT_OK), CKPT_OK);
    finish_toy(CKPT_OK);
    CU_ASSERT(holds_bytes("w", toy.bytes + 100, 48));
    for (size_t i = 0; i < 12; i++)
        memcpy(want + 4 * i, toy.bytes + 100 + 4 * (i % 4 * 3 + i / 4), 4);
    CU_ASSERT(holds_bytes("column_major", want, 48));
    for (size_t i = 0; i < 48; i++)
        want[i] = toy.bytes[100 + i / 4 * 4 + 3 - i % 4];
    CU_ASSERT(holds_bytes("big_endian", want, 48));
    CU_ASSERT(ckpt_tensor_at(toy.file, find_row("meta"), &a) && !a.has_data && a.nbytes == UINT64_C(1) << 42);
    CU_ASSERT(ckpt_tensor_at(toy.file, find_row("inner.a"), &a) &&
              ckpt_tensor_at(toy.file, find_row("inner.b"), &b));
    CU_ASSERT(a.storage == b.storage && b.alias_of == find_row("inner.a") && a.npath == 2 &&
              a.file_offset == 200);
    CU_ASSERT_EQUAL(ckpt_leaf_count(toy.file), 2);
    CU_ASSERT(str_is(ckpt_leaf_at(toy.file, 0)->name, "note") &&
              str_is(ckpt_leaf_at(toy.file, 1)->name, "empty"));
    close_toy();
}

/* make_list - returns a list of strings, one for each of CHARACTERS. */
static ckpt_value *make_list(const char *characters)
{
    ckpt_value *list = value_new(toy.file->a, CKPT_V_LIST, 0);
    for (; *characters; characters++)
        CU_ASSERT_FATAL(value_append(toy.file->a, list, value_str(toy.file->a, str_of(characters, 1))));
    return list;
}

/* leaf_is - returns true if leaf I has the name NAME, a path of NPATH elements, and the text VALUE. */
static bool leaf_is(size_t i, const char *name, uint32_t npath, const char *value)
{
    char text[32];
    const ckpt_leaf *leaf = ckpt_leaf_at(toy.file, i);
    CU_ASSERT_PTR_NOT_NULL_FATAL(leaf);
    (void)ckpt_value_text(leaf->value, 8, text, sizeof text);
    return str_is(leaf->name, name) && leaf->npath == npath && strcmp(text, value) == 0;
}

/* Each item of a list gets a name of its own, as in pickles, so that the values of a pickle and of another
 * format can be compared. */
static void items_of_lists_are_values(void)
{
    struct kit inner;
    open_toy();
    ckpt_value *nested = value_new(toy.file->a, CKPT_V_LIST, 0);
    CU_ASSERT_FATAL(value_append(toy.file->a, nested, make_list("ab")) &&
                    value_append(toy.file->a, nested, make_list("")) &&
                    value_append(toy.file->a, nested, make_list("c")));
    CU_ASSERT_EQUAL(kit_add_value(&toy.kit, STR_LIT("empty"), make_list("")), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_value(&toy.kit, STR_LIT("x.y"), make_list("pq")), CKPT_OK);
    CU_ASSERT_EQUAL(kit_begin_mapping(&inner, &toy.kit, STR_LIT("in")), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_value(&inner, STR_LIT("nested"), nested), CKPT_OK);
    CU_ASSERT_EQUAL(kit_end(&inner, CKPT_OK), CKPT_OK);
    finish_toy(CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_leaf_count(toy.file), 7);
    CU_ASSERT(leaf_is(0, "empty", 1, "[]"));
    CU_ASSERT(leaf_is(1, "x.y.0", 2, "'p'") && leaf_is(2, "x.y.1", 2, "'q'"));
    CU_ASSERT(leaf_is(3, "in.nested.0.0", 4, "'a'") && leaf_is(4, "in.nested.0.1", 4, "'b'"));
    CU_ASSERT(leaf_is(5, "in.nested.1", 3, "[]") && leaf_is(6, "in.nested.2.0", 4, "'c'"));
    close_toy();
}

static void the_number_of_values_is_limited(void)
{
    open_toy();
    toy.file->limits.max_tensors = 2;
    CU_ASSERT_EQUAL(kit_add_value(&toy.kit, STR_LIT("x"), make_list("pqr")), CKPT_ELIMIT);
    CU_ASSERT_STRING_EQUAL(toy.err.what, "more than 2 values");
    finish_toy(CKPT_OK);
    close_toy();
}

/* add_fails - returns true if adding X fails with the status ST and a message that contains WHAT. Closes the
 * toy file. */
static bool add_fails(const struct kit_tensor *x, ckpt_status st, const char *what)
{
    bool ok = kit_add_tensor(&toy.kit, x) == st && strstr(toy.err.what, what) &&
              str_is(str_c(toy.err.where), "w");
    if (!ok)
        printf("\nthe error is %s: %s\n", toy.err.where, toy.err.what);
    CU_ASSERT_EQUAL(kit_end(&toy.kit, st), st);
    close_toy();
    return ok;
}

static void metadata_are_read(void)
{
    ckpt_str text = {NULL, 0};
    open_toy();
    CU_ASSERT_EQUAL(kit_read_metadata(toy.file, toy.file->src, 96, 4000, &text, &toy.err), CKPT_OK);
    CU_ASSERT(text.len == 4000 && memcmp(text.ptr, toy.bytes + 96, 4000) == 0 && text.ptr[4000] == 0);
    CU_ASSERT_EQUAL(kit_read_metadata(toy.file, toy.file->src, 97, 4000, &text, &toy.err), CKPT_ETRUNCATED);
    CU_ASSERT_STRING_EQUAL(toy.err.what, "metadata of 4000 bytes, the file has 3999 there");
    CU_ASSERT_EQUAL(kit_read_metadata(toy.file, toy.file->src, UINT64_MAX, 1, &text, &toy.err),
                    CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(kit_read_metadata(toy.file, toy.file->src, 0, UINT64_MAX, &text, &toy.err), CKPT_ELIMIT);
    finish_toy(CKPT_OK);
    close_toy();
}

static void inconsistent_tensors_are_refused(void)
{
    open_toy();
    struct kit_tensor x = make_tensor("w", 3, 4, 100);
    x.nbytes = 47;
    CU_ASSERT(add_fails(&x, CKPT_EFORMAT, "47 bytes, its dtype and shape take 48"));
    open_toy();
    x = make_tensor("w", 3, 4, 4095);
    CU_ASSERT(add_fails(&x, CKPT_ETRUNCATED, "needs 48 bytes, the file has 1 there"));
    open_toy();
    x = make_tensor("w", UINT64_MAX / 2, 4, 0);
    CU_ASSERT(add_fails(&x, CKPT_EFORMAT, "the product of its 2 sizes does not fit 64 bits"));
    open_toy();
    x = make_tensor("w", 3, 4, 100);
    x.key = STR_LIT("k");
    x.nbytes = 48;
    x.t.storage_offset = 1;
    CU_ASSERT(add_fails(&x, CKPT_EFORMAT, "the view reaches byte 52"));
    open_toy();
    x = make_tensor("w", 3, 4, 100);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(toy.err.what, "the name \"w\" comes twice, once is allowed");
    finish_toy(CKPT_EFORMAT);
    close_toy();
}

/* ---------------------------------------------------------------------------- pieces */

/* make_tensor_stored_in_pieces - returns the tensor w of 6 x 8 floats, and sets LIST to its four pieces
 * of 3 x 4 floats. The pieces are stored from byte 1000 on. */
static struct kit_tensor make_tensor_stored_in_pieces(struct piece list[4])
{
    static const uint64_t offset[4][2] = {{0, 0}, {0, 4}, {3, 0}, {3, 4}}, size[2] = {3, 4};
    struct kit_tensor x = make_tensor("w", 6, 8, 0);
    for (size_t i = 0; i < 4; i++)
        list[i] = (struct piece){
            .offset = offset[i], .size = size, .src = toy.file->src, .at = 1000 + 48 * i};
    x.src = NULL;
    x.pieces = list;
    x.npieces = 4;
    return x;
}

static void digest_file(ckpt_file *f, uint8_t out[CKPT_DIGEST_MAX])
{
    uint8_t tensor_digests[2 * CKPT_DIGEST_MAX];
    memset(out, 0, CKPT_DIGEST_MAX);
    CU_ASSERT_FATAL(ckpt_tensor_count(f) <= 2);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(f, CKPT_XXH3, NULL, tensor_digests, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_file(f, CKPT_XXH3, tensor_digests, out, NULL), CKPT_OK);
}

/* check_convert - writes the toy file to FOLDER/NAME and opens that. If WITHOUT_PREFIX, the names of tensors
 * lose the prefix "module.", which must change the digest. Otherwise the digest must be the same. */
static void check_convert(const char *folder, const char *name, bool without_prefix)
{
    char path[64];
    uint8_t toy_digest[CKPT_DIGEST_MAX], written_digest[CKPT_DIGEST_MAX];
    ckpt_plan *p;
    ckpt_file *f;
    ckpt_error err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(toy.file, &p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(without_prefix ? ckpt_plan_strip(p, "module.", false, NULL) : CKPT_OK, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, path, NULL, NULL, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, &err), CKPT_OK);
    digest_file(toy.file, toy_digest);
    digest_file(f, written_digest);
    CU_ASSERT_EQUAL(memcmp(toy_digest, written_digest, sizeof toy_digest) == 0, !without_prefix);
    CU_ASSERT_EQUAL(ckpt_tensor_find(f, STR_LIT("w")) != CKPT_NO_TENSOR, true);
    ckpt_close(f);
    ckpt_plan_free(p);
    remove(path);
}

static void tensors_stored_in_pieces_are_read(void)
{
    struct piece list[4];
    unsigned char want[192];
    char folder[] = "/tmp/unit-kit-XXXXXX";
    ckpt_stats stats = CKPT_INIT(ckpt_stats);
    open_toy();
    struct kit_tensor x = make_tensor_stored_in_pieces(list);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("module.b", 3, 4, 8);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    finish_toy(CKPT_OK);
    for (size_t i = 0; i < 48; i++) {
        size_t row = i / 8, column = i % 8, piece = row / 3 * 2 + column / 4;
        memcpy(want + 4 * i, toy.bytes + 1000 + 48 * piece + 4 * (row % 3 * 4 + column % 4), 4);
    }
    CU_ASSERT(holds_bytes("w", want, sizeof want));
    CU_ASSERT_EQUAL(ckpt_stat(toy.file, (const uint32_t[]){0}, 1, NULL, &stats, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(stats.finite + stats.nan + stats.inf, 48);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    check_convert(folder, "a.safetensors", false);
    check_convert(folder, "a.pt", false);
    check_convert(folder, "b.pt", true);
    remove(folder);
    close_toy();
}

/* decode_inverted - decodes a block by inverting each byte. */
static ckpt_status decode_inverted(void *user, source *compressed, spool *out, ckpt_error *err)
{
    unsigned char bytes[48];
    size_t n = (size_t)compressed->size;
    (void)user;
    CU_ASSERT_FATAL(n <= sizeof bytes);
    CKPT_TRY(source_read(compressed, 0, bytes, n, err));
    for (size_t i = 0; i < n; i++)
        bytes[i] ^= 0xFF;
    return spool_write(out, bytes, n, err);
}

/* compress_pieces - inverts the bytes of the pieces of LIST in the toy file, and sets BLOCKS to them. The
 * pieces of LIST then refer to the decoded blocks, which have the original bytes. */
static void compress_pieces(struct piece *list, struct block blocks[4], block_cache *cache)
{
    static const struct block_decoder inverted = {.name = "inverted", .decode = decode_inverted};
    source *src;
    for (size_t i = 0; i < 4; i++) {
        for (size_t b = 0; b < 48; b++)
            toy.bytes[list[i].at + b] ^= 0xFF;
        blocks[i] = (struct block){.src = toy.file->src, .offset = list[i].at, .stored = 48, .size = 48};
    }
    CU_ASSERT_EQUAL_FATAL(source_blocks(cache, blocks, 4, &inverted, &src, NULL), CKPT_OK);
    for (size_t i = 0; i < 4; i++) {
        list[i].src = src;
        list[i].at = blocks[i].start;
    }
}

static void tensors_in_compressed_pieces_are_treated_as_any_tensor(void)
{
    struct piece list[4];
    struct block blocks[4];
    uint8_t uncompressed[CKPT_DIGEST_MAX], compressed[CKPT_DIGEST_MAX];
    char folder[] = "/tmp/unit-kit-XXXXXX", path[64];
    const ckpt_diff_options options = CKPT_INIT(ckpt_diff_options);
    ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);
    ckpt_error err;
    ckpt_file *f;
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    for (int is_compressed = 0; is_compressed < 2; is_compressed++) {
        block_cache *cache = block_cache_new(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
        open_toy();
        struct kit_tensor x = make_tensor_stored_in_pieces(list);
        if (is_compressed)
            compress_pieces(list, blocks, cache);
        CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
        if (is_compressed)
            source_unref(list[0].src);
        finish_toy(CKPT_OK);
        digest_file(toy.file, is_compressed ? compressed : uncompressed);
        if (is_compressed) { /* PATH has the uncompressed tensor, from the first turn of the loop */
            CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, &err), CKPT_OK);
            CU_ASSERT_EQUAL(ckpt_diff(toy.file, f, &options, NULL, NULL, &totals, &err), CKPT_OK);
            CU_ASSERT(totals.same == 1 && totals.changed == 0);
            ckpt_close(f);
            check_convert(folder, "b.pt", false);
        } else {
            ckpt_plan *p;
            CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(toy.file, &p, NULL), CKPT_OK);
            CU_ASSERT_EQUAL(ckpt_plan_write(p, path, NULL, NULL, &err), CKPT_OK);
            ckpt_plan_free(p);
        }
        close_toy();
        block_cache_unref(cache);
    }
    CU_ASSERT_EQUAL(memcmp(uncompressed, compressed, sizeof compressed), 0);
    remove(path);
    remove(folder);
}

/* A tensor whose name cannot be read is named by the offset of its description. */
static void tensors_without_names_are_lost(void)
{
    open_toy();
    toy.file->salvage = true;
    for (uint64_t at = 16; at <= 32; at += 16) {
        struct kit_tensor x = make_tensor("", 3, 4, 8);
        x.name = (ckpt_str){NULL, 9};
        x.described_at = at;
        ckpt_status st = fail(&toy.err, CKPT_ETRUNCATED, at, "the name is cut off");
        CU_ASSERT_EQUAL(kit_add_faulty(&toy.kit, &x, st), CKPT_OK);
    }
    finish_toy(CKPT_OK);
    CU_ASSERT_EQUAL(salvage_rows(toy.file, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_lost_count(toy.file), 2);
    CU_ASSERT_STRING_EQUAL(ckpt_tensor_name(toy.file, ckpt_lost_at(toy.file, 1)->row).ptr,
                           "tensor at byte 0x20");
    close_toy();
}

static int record_finding(void *user, const ckpt_finding *finding)
{
    *(ckpt_finding *)user = *finding;
    return 0;
}

static void missing_pieces_are_reported(void)
{
    struct piece list[4];
    struct check c;
    ckpt_verify_result result = CKPT_INIT(ckpt_verify_result);
    ckpt_finding finding = {0};
    open_toy();
    struct kit_tensor x = make_tensor_stored_in_pieces(list);
    x.npieces = 3;
    CU_ASSERT(add_fails(&x, CKPT_EFORMAT, "no piece has [3:6, 4:8] of [6, 8]"));
    open_toy(); /* salvage keeps the other tensors */
    toy.file->salvage = true;
    x = make_tensor_stored_in_pieces(list);
    list[3].at = sizeof toy.bytes - 47;
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("b", 3, 4, 8);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    finish_toy(CKPT_OK);
    CU_ASSERT_EQUAL(salvage_rows(toy.file, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_lost_count(toy.file), 1);
    CU_ASSERT(strstr(ckpt_lost_at(toy.file, 0)->why.ptr, "piece 3 [3:6, 4:8] needs 48 bytes, 47 are left") !=
              NULL);
    CU_ASSERT(holds_bytes("b", toy.bytes + 8, 48));
    close_toy();
    open_toy(); /* verify goes on to the other tensors */
    CU_ASSERT_EQUAL_FATAL(check_init(&c, NULL, &result, NULL), CKPT_OK);
    c.report = record_finding;
    c.user = &finding;
    toy.file->check = &c;
    x = make_tensor_stored_in_pieces(list);
    x.npieces = 3;
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    x = make_tensor("b", 3, 4, 8);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    CU_ASSERT_EQUAL(kit_add_tensor(&toy.kit, &x), CKPT_OK);
    finish_toy(CKPT_OK);
    /* the missing piece, and the second tensor "b" */
    CU_ASSERT(result.findings == 2 && ckpt_tensor_count(toy.file) == 2);
    check_free(&c);
    toy.file->check = NULL;
    close_toy();
}

/* Each of the first 29 allocations fails in one round; adding the tensor needs fewer. */
static void column_major_order_is_not_lost_without_memory(void)
{
    ckpt_status st = CKPT_ENOMEM;
    for (uint64_t failing = 1; failing < 30; failing++) {
        open_toy();
        struct kit_tensor x = make_tensor("w", 3, 4, 100);
        x.column_major = true;
        arena_fail_at(toy.file->a, failing);
        st = kit_add_tensor(&toy.kit, &x);
        arena_fail_at(toy.file->a, 0);
        CU_ASSERT(st == CKPT_ENOMEM || (st == CKPT_OK && table_tensor(&toy.file->table, 0).stride));
        CU_ASSERT_EQUAL(kit_end(&toy.kit, st), st);
        close_toy();
    }
    CU_ASSERT_EQUAL(st, CKPT_OK);
}

void suite_kit(void)
{
    UNIT(tensors_and_values_are_added);
    UNIT(items_of_lists_are_values);
    UNIT(the_number_of_values_is_limited);
    UNIT(metadata_are_read);
    UNIT(inconsistent_tensors_are_refused);
    UNIT(tensors_stored_in_pieces_are_read);
    UNIT(tensors_in_compressed_pieces_are_treated_as_any_tensor);
    UNIT(tensors_without_names_are_lost);
    UNIT(missing_pieces_are_reported);
    UNIT(column_major_order_is_not_lost_without_memory);
}
