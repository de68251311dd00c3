/*
 * digest.c - SHA-256 and XXH3-128 of tensors and files, for `ckpt hash`, verify and scan. The only file that
 * includes openssl, whose library is loaded when it is needed.
 *
 * A tensor's digest is that of its row-major contiguous little-endian bytes. The digest of
 * a file is over a record for each row, sorted by the bytes of the names, then in document order:
 *
 *   SIZE      DESCRIPTION
 *   8         length of the name
 *   n         name, joined with '.'
 *   8         length of the dtype's name
 *   n         dtype, torch's name ("float32")
 *   8         number of dimensions
 *   8 each    dimensions, outermost first
 *   32 or 16  the tensor's digest (SHA-256, or XXH3-128 in canonical form)
 *
 * The record of a quantised tensor has two texts before its digest: its kind and its note, each after its
 * length. The note has scale and zero point, or the axis; by their bytes alone, two tensors of different
 * values would be equal. The record of a row without bytes (sparse, nested, meta …) has the two texts
 * instead of a digest.
 *
 * All numbers are unsigned, 64 bits, little-endian. Nothing in a record depends on the format of the file.
 */
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/library.h"
#include "base/sized.h"
#include "base/store.h"
#include "base/text.h"
#include "core/convert.h"
#include "core/parallel_rows.h"
#include "core/tensor.h"
#include "io/address.h"
#include "io/journal.h"
#include "op/digest.h"
#include "op/hash_xxh3.h"
#include "op/share.h"

#define FUNCTIONS(X)                                                                                         \
    X(EVP_DigestFinal_ex)                                                                                    \
    X(EVP_DigestInit_ex)                                                                                     \
    X(EVP_DigestUpdate)                                                                                      \
    X(EVP_MD_CTX_free)                                                                                       \
    X(EVP_MD_CTX_new)                                                                                        \
    X(EVP_sha256)

struct libcrypto {
    FUNCTIONS(LIBRARY_POINTER)
};

#ifdef LIBCRYPTO_SONAME
LIBRARY_NOTE(libcrypto, LIBCRYPTO_SONAME, "required")
LIBRARY_LOADED(libcrypto, FUNCTIONS, "computes SHA-256", LIBCRYPTO_SONAME)
#else
LIBRARY_LINKED(libcrypto, FUNCTIONS)
#endif

static ckpt_status begin_sha256(struct hash *h, ckpt_error *err)
{
    CKPT_TRY(load_libcrypto(&h->lib, err));
    h->sha = h->lib->EVP_MD_CTX_new();
    CKPT_TRY_ALLOC(h->sha, err);
    h->failed = h->lib->EVP_DigestInit_ex(h->sha, h->lib->EVP_sha256(), NULL) != 1;
    return CKPT_OK;
}

ckpt_status hash_begin(struct hash *hash, ckpt_algorithm alg, ckpt_error *err)
{
    *hash = (struct hash){0};
    if (alg == CKPT_XXH3) {
        hash->xxh = xxh3_new();
        return hash->xxh ? CKPT_OK : fail_memory(err);
    }
    if (alg != CKPT_SHA256)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "unknown digest algorithm %d", (int)alg);
    return begin_sha256(hash, err);
}

void hash_put(struct hash *hash, const void *bytes, size_t nbytes)
{
    if (hash->xxh)
        xxh3_update(hash->xxh, bytes, nbytes);
    else if (hash->sha && hash->lib->EVP_DigestUpdate(hash->sha, bytes, nbytes) != 1)
        hash->failed = true;
}

void hash_u64(struct hash *hash, uint64_t number)
{
    unsigned char b[8];
    store_u64le(b, number);
    hash_put(hash, b, sizeof b);
}

void hash_text(struct hash *hash, ckpt_str text)
{
    hash_u64(hash, text.len);
    hash_put(hash, text.ptr, text.len);
}

ckpt_status hash_end(struct hash *hash, ckpt_status st, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    memset(out, 0, CKPT_DIGEST_MAX);
    if (st == CKPT_OK && hash->xxh)
        xxh3_final(hash->xxh, out);
    if (st == CKPT_OK && hash->sha &&
        (hash->failed || hash->lib->EVP_DigestFinal_ex(hash->sha, out, NULL) != 1))
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "libcrypto refuses SHA-256 here");
    if (hash->xxh)
        xxh3_free(hash->xxh);
    if (hash->sha)
        hash->lib->EVP_MD_CTX_free(hash->sha);
    return st;
}

ckpt_status digest_xxh3(const void *bytes, size_t nbytes, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    struct hash h;
    CKPT_TRY(hash_begin(&h, CKPT_XXH3, err));
    hash_put(&h, bytes, nbytes);
    return hash_end(&h, CKPT_OK, out, err);
}

/* ---- tensors as another dtype */

/* is_castable - returns true if TENSOR has data of a float dtype, so that ckpt_file_digest_as applies to
 * it. */
static bool is_castable(const ckpt_tensor *tensor)
{
    return tensor->has_data && dtype_is_float((ckpt_dtype)tensor->dtype);
}

ckpt_dtype ckpt_digest_dtype(const ckpt_file *file, uint32_t index)
{
    if (!file || index >= file->table.nrows)
        return CKPT_DT_NONE;
    const ckpt_tensor t = table_tensor(&file->table, index);
    return file->digest_dtype && is_castable(&t) ? file->digest_dtype : (ckpt_dtype)t.dtype;
}

ckpt_status ckpt_file_digest_as(ckpt_file *file, ckpt_dtype dtype, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct conversion c;
    CKPT_REQUIRE(err, file);
    if (!conversion_init(&c, CKPT_DT_F32, dtype))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{%s} is not a type that tensors are cast to",
                    dtype ? ckpt_dtype_name(dtype) : "an unknown type");
    for (uint32_t i = 0; i < file->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&file->table, i);
        if (is_castable(&t) && !conversion_init(&c, (ckpt_dtype)t.dtype, dtype)) {
            (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "{%s} cannot become {=%s}",
                       ckpt_tensor_dtype_name(&t), ckpt_dtype_name(dtype));
            return name_tensor_if_failed(file, i, CKPT_ELOSSY, err);
        }
    }
    file->digest_dtype = dtype;
    return CKPT_OK;
}

/* The hash of the bytes of a tensor that were read so far. */
struct tensor_hash {
    struct hash h;
    const struct conversion *conversion; /* NULL: as it is stored */
    struct parallel_context *run;        /* NULL: not on a thread of parallel_run */
};

#define CONVERTED_AT_ONCE 2048u /* elements; a multiple of the block size of any dtype */

/* hash_converted - converts and hashes COUNT bytes, which are whole blocks. */
static void hash_converted(struct tensor_hash *hash, const unsigned char *bytes, size_t count)
{
    unsigned char out[CONVERTED_AT_ONCE * 8];
    struct convert_tally ignored = {0};
    const size_t max_bytes = (size_t)CONVERTED_AT_ONCE / hash->conversion->in_elems *
                             hash->conversion->in_width;
    while (count) {
        size_t nbytes = count < max_bytes ? count : max_bytes,
               elements = nbytes / hash->conversion->in_width * hash->conversion->in_elems;
        convert_run(hash->conversion, bytes, elements, out, &ignored);
        hash_put(&hash->h, out, elements * hash->conversion->out_width);
        bytes += nbytes;
        count -= nbytes;
    }
}

static int hash_chunk(void *user, const void *bytes, size_t nbytes)
{
    struct tensor_hash *t = user;
    if (t->conversion)
        hash_converted(t, bytes, nbytes);
    else
        hash_put(&t->h, bytes, nbytes);
    return t->run && !parallel_advance(t->run, nbytes);
}

static ckpt_status digest_row(ckpt_file *file, uint32_t index, ckpt_algorithm alg,
                              struct parallel_context *run, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    struct tensor_hash t = {.run = run};
    struct conversion c;
    ckpt_dtype from = index < file->table.nrows ? table_dtype_of(&file->table, index) : CKPT_DT_NONE,
               to = ckpt_digest_dtype(file, index);
    if (from != to && conversion_init(&c, from, to))
        t.conversion = &c;
    CKPT_TRY(hash_begin(&t.h, alg, err));
    return hash_end(&t.h, ckpt_tensor_stream(file, index, hash_chunk, &t, err), out, err);
}

ckpt_status ckpt_digest_tensor(ckpt_file *file, uint32_t index, ckpt_algorithm alg,
                               uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    CKPT_REQUIRE(err, file);
    return digest_row(file, index, alg, NULL, out, err);
}

/* What digest_item needs; OUT has CKPT_DIGEST_MAX bytes for each row of the file. */
struct digests {
    const ckpt_file *file;
    ckpt_algorithm alg;
    const struct parallel_item *items;
    uint8_t *out;
};

/* digest_of_item - returns where the digest of item INDEX is. */
static uint8_t *digest_of_item(const struct digests *digests, size_t index)
{
    return digests->out + (size_t)digests->items[index].row * CKPT_DIGEST_MAX;
}

static ckpt_status digest_item(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    const struct digests *d = user;
    const struct parallel_item *item = &d->items[index];
    return digest_row(item->file, item->row, d->alg, run, digest_of_item(d, index), err);
}

static ckpt_status describe_digests(void *user, struct hash *facts, ckpt_error *err)
{
    const struct digests *d = user;
    hash_u64(facts, d->alg);
    hash_u64(facts, d->file->digest_dtype);
    return share_describe_file(d->file, facts, err);
}

static void put_digest(void *user, size_t index, buf *out)
{
    buf_put(out, digest_of_item(user, index), CKPT_DIGEST_MAX);
}

static bool take_digest(void *user, size_t index, cursor *in)
{
    const unsigned char *digest = cursor_take(in, CKPT_DIGEST_MAX);
    if (digest)
        memcpy(digest_of_item(user, index), digest, CKPT_DIGEST_MAX);
    return digest != NULL;
}

/* digest_shared - computes the digests of the items of JOB, or of those of a part. */
static ckpt_status digest_shared(struct digests *digests, const struct parallel_job *job,
                                 const ckpt_work *work, ckpt_error *err)
{
    struct share share;
    struct share_list list = {.put = put_digest, .take = take_digest, .user = digests};
    ckpt_status st = share_start(&share, work, "hash", describe_digests, digests, err);
    CKPT_THEN(st, share_deal(&share, job->items, job->n, &list, err));
    CKPT_THEN(st, share_run(&share, &list, job, err));
    CKPT_THEN(st, share_exchange(&share, &list, 1, err));
    free(list.owners);
    return st;
}

void digest_aliases(const struct table *table, uint8_t *digests)
{
    for (size_t i = 0; i < table->nrows; i++) {
        size_t first = table_alias_of(table, i);
        if (first != CKPT_NO_TENSOR)
            memcpy(digests + i * CKPT_DIGEST_MAX, digests + first * CKPT_DIGEST_MAX, CKPT_DIGEST_MAX);
    }
}

ckpt_status ckpt_digest_tensors(ckpt_file *file, ckpt_algorithm alg, const ckpt_work *how, uint8_t *digests,
                                ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_work work;
    if (file && digests)
        memset(digests, 0, (size_t)file->table.nrows * CKPT_DIGEST_MAX);
    CKPT_REQUIRE(err, file && (digests || !file->table.nrows) && alg <= CKPT_XXH3);
    CKPT_TRY(sized_struct_copy_in(how, &work, sizeof work, err));
    struct parallel_item *items = calloc(file->table.nrows + 1, sizeof *items);
    struct digests d = {file, alg, items, digests};
    struct parallel_job parallel = {.items = items, .process = digest_item, .user = &d};
    CKPT_TRY_ALLOC(items, err);
    for (uint32_t i = 0; i < file->table.nrows; i++)
        if (table_has_data(&file->table, i) && table_alias_of(&file->table, i) == CKPT_NO_TENSOR)
            items[parallel.n++] = (struct parallel_item){.file = file, .row = i};
    parallel.threads = work.threads;
    parallel.progress = work.progress;
    parallel.progress_user = work.user;
    ckpt_status st = digest_shared(&d, &parallel, &work, err);
    free(items);
    if (st == CKPT_OK)
        digest_aliases(&file->table, digests);
    return st;
}

static void hash_row(struct hash *hash, const ckpt_tensor *tensor, ckpt_dtype dtype, const uint8_t *digest,
                     size_t size)
{
    hash_text(hash, tensor->name);
    hash_text(hash, str_c(dtype == tensor->dtype ? ckpt_tensor_dtype_name(tensor) : ckpt_dtype_name(dtype)));
    hash_u64(hash, tensor->ndim);
    for (uint32_t k = 0; k < tensor->ndim; k++)
        hash_u64(hash, tensor->shape[k]);
    if (!tensor->has_data || tensor->kind == CKPT_QUANTIZED) {
        hash_text(hash, str_c(ckpt_kind_name((ckpt_kind)tensor->kind)));
        hash_text(hash, tensor->note);
    }
    if (tensor->has_data)
        hash_put(hash, digest, size);
}

ckpt_status ckpt_digest_file(ckpt_file *file, ckpt_algorithm alg, const uint8_t *digests,
                             uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    CKPT_REQUIRE(err, file && (digests || !file->table.nrows));
    const struct table *t = &file->table;
    struct indexed_name *rows = calloc(t->nrows + 1, sizeof *rows);
    struct hash h;
    ckpt_status st = rows ? hash_begin(&h, alg, err) : fail_memory(err);
    if (st != CKPT_OK) {
        free(rows);
        return st;
    }
    for (uint32_t i = 0; i < t->nrows; i++)
        rows[i] = (struct indexed_name){table_name(t, i), i};
    st = names_sort(rows, t->nrows, str_compare) ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < t->nrows; i++) {
        const ckpt_tensor tensor = table_tensor(t, rows[i].index);
        hash_row(&h, &tensor, ckpt_digest_dtype(file, rows[i].index),
                 digests + (size_t)rows[i].index * CKPT_DIGEST_MAX,
                 alg == CKPT_XXH3 ? XXH3_BYTES : SHA256_BYTES);
    }
    free(rows);
    return hash_end(&h, st, out, err);
}

/* ---- bytes as they are on disk */

#define READ_SIZE (256u * 1024u)

/* hash_source - hashes the bytes of SRC from FROM to its end. Calls WORK->progress, unless that is NULL. */
static ckpt_status hash_source(struct hash *hash, source *src, uint64_t from, const ckpt_work *work,
                               ckpt_error *err)
{
    unsigned char *block = malloc(READ_SIZE);
    ckpt_status st = block ? CKPT_OK : fail_memory(err);
    source_advise_sequential(src);
    for (uint64_t at = from; st == CKPT_OK && at < src->size;) {
        size_t n = src->size - at < READ_SIZE ? (size_t)(src->size - at) : READ_SIZE;
        st = source_read(src, at, block, n, err);
        if (st != CKPT_OK)
            break;
        hash_put(hash, block, n);
        at += n;
        if (work->progress && work->progress(work->user, at - from, src->size - from))
            st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    }
    free(block);
    return st;
}

ckpt_status ckpt_digest_bytes(const char *path, ckpt_algorithm alg, const ckpt_work *how,
                              uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    source *src;
    struct hash h;
    ckpt_work work;
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    CKPT_REQUIRE(err, path && alg <= CKPT_XXH3);
    CKPT_TRY(sized_struct_copy_in(how, &work, sizeof work, err));
    if (address_is_url(path))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the digest of a file's bytes is not computed from a URL\ndownload the file");
    ckpt_status st = journal_open(path, NULL, &src, err);
    if (st == CKPT_OK) {
        st = hash_begin(&h, alg, err);
        CKPT_THEN(st, hash_end(&h, hash_source(&h, src, 0, &work, err), out, err));
        CKPT_THEN(st, source_check_unchanged(src, err));
        source_unref(src);
    }
    return name_file_if_failed(st, path, err);
}

ckpt_status ckpt_digest_payload(ckpt_file *file, ckpt_algorithm alg, const ckpt_work *how,
                                uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct hash h;
    ckpt_work work;
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    CKPT_REQUIRE(err, file);
    CKPT_TRY(sized_struct_copy_in(how, &work, sizeof work, err));
    ckpt_status st = file->data_offset
                         ? hash_begin(&h, alg, err)
                         : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                                "the file does not consist of a header and the tensors after it\n"
                                "a single .safetensors file does: ckpt convert writes one");
    CKPT_THEN(st, hash_end(&h, hash_source(&h, file->src, file->data_offset, &work, err), out, err));
    CKPT_THEN(st, file_check_unchanged(file, err));
    return name_file_if_failed(st, file->path, err);
}

ckpt_status digest_source(source *src, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    struct hash h;
    CKPT_TRY(hash_begin(&h, CKPT_SHA256, err));
    return hash_end(&h, hash_source(&h, src, 0, &(ckpt_work){0}, err), out, err);
}
