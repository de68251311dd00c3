/* ckpt_tensor_borrow returns the bytes that ckpt_tensor_read copies, or an error with the reason why they
 * must be copied. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "small_files.h"
#include "unit.h"

static uint64_t nborrowed, nrefused;

/* check_borrow - checks that tensor I of F has the same bytes when borrowed and when copied. */
static void check_borrow(ckpt_file *f, uint32_t i)
{
    const ckpt_tensor t = tensor_at(f, i);
    unsigned char *copy = malloc((size_t)t.nbytes + 1);
    const void *bytes = f; /* a refusal must set BYTES to NULL and N to 0 */
    size_t n = 1;
    ckpt_error err;
    ckpt_status read_status = ckpt_tensor_read(
        f, i, 0, ckpt_dtype_bits((ckpt_dtype)t.dtype) < 8 ? t.nbytes : t.elements, copy, NULL);
    ckpt_status st = ckpt_tensor_borrow(f, i, &bytes, &n, &err);
    if (st == CKPT_OK) {
        nborrowed++;
        CU_ASSERT(n == t.nbytes && bytes && (read_status != CKPT_OK || memcmp(bytes, copy, n) == 0));
    } else {
        nrefused++;
        CU_ASSERT(bytes == NULL && n == 0 && err.status == st && err.what[0]);
        CU_ASSERT(err.where[0] || !t.name.len);
        CU_ASSERT(st == read_status || (st == CKPT_EUNSUPPORTED && strstr(err.hint, "ckpt_tensor_read")));
    }
    free(copy);
}

static int check_file(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    ckpt_file *f;
    (void)walk;
    if (type != FTW_F || st->st_size > 300000 || ckpt_open(path, NULL, &f, NULL) != CKPT_OK)
        return 0;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        if (tensor_at(f, i).nbytes < 1000000)
            check_borrow(f, i);
    ckpt_close(f);
    return 0;
}

static void borrowed_bytes_equal_copied_bytes(void)
{
    nborrowed = nrefused = 0;
    CU_ASSERT_EQUAL(nftw(unit_corpus_path("torch"), check_file, 16, FTW_PHYS), 0);
    CU_ASSERT_EQUAL(nftw(unit_corpus_path("vectors"), check_file, 16, FTW_PHYS), 0);
    CU_ASSERT(nborrowed > 3000 && nrefused > 100);
}

/* get_refusal - borrows the tensor NAME ("": the first one) of a corpus file. Returns the error message, or
 * "" if the bytes were borrowed. */
static const char *get_refusal(const char *corpus_file, const char *name)
{
    static ckpt_error err;
    const void *bytes;
    size_t n;
    ckpt_file *f = open_corpus_file(corpus_file);
    uint32_t row = *name ? ckpt_tensor_find(f, (ckpt_str){name, strlen(name)}) : 0;
    ckpt_status st = ckpt_tensor_borrow(f, row, &bytes, &n, &err);
    CU_ASSERT(st == CKPT_OK || st == CKPT_EUNSUPPORTED);
    close_open_files();
    return st == CKPT_OK ? "" : err.what;
}

static void refusals_give_the_reason(void)
{
    CU_ASSERT_STRING_EQUAL(get_refusal("torch/badexp/01_ok.pt", ""), "");
    CU_ASSERT_PTR_NOT_NULL(strstr(get_refusal("torch/exp/05_deflate_data.pt", ""), "compressed"));
    CU_ASSERT_PTR_NOT_NULL(strstr(get_refusal("torch/t215/conj.pt", ""), "a conjugate or negative view"));
    CU_ASSERT_PTR_NOT_NULL(strstr(get_refusal("torch/t215/neg.pt", ""), "not contiguous"));
    CU_ASSERT_PTR_NOT_NULL(strstr(get_refusal("torch/t215/expanded.pt", ""), "not contiguous"));
    CU_ASSERT_PTR_NOT_NULL(strstr(get_refusal("torch/t215/channels_last.pt", ""), "not contiguous"));
}

static int64_t read_from_memory(void *user, uint64_t offset, void *buf, size_t n)
{
    memcpy(buf, (const char *)user + offset, n);
    return (int64_t)n;
}

static void memory_is_borrowed_but_bytes_of_callbacks_are_not(void)
{
    static char file[200];
    const char header[] = "{\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                          "\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
    const void *bytes;
    size_t n, size = 8 + sizeof header - 1 + 3;
    ckpt_file *f;
    ckpt_plan *p;
    ckpt_error err;
    file[0] = (char)(sizeof header - 1); /* the length of the header */
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + size - 3, "abc", 3);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(file, size, "memory", NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 1, &bytes, &n, NULL), CKPT_OK);
    CU_ASSERT(bytes == file + size - 3 && n == 3);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 0, &bytes, &n, NULL), CKPT_OK);
    CU_ASSERT(bytes != NULL && n == 0);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 2, &bytes, &n, NULL), CKPT_EUSAGE);
    ckpt_close(f);
    ckpt_callbacks callbacks = CKPT_INIT(ckpt_callbacks);
    callbacks.size = size;
    callbacks.read_at = read_from_memory;
    callbacks.user = file;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_callbacks(&callbacks, "callbacks", NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 1, &bytes, &n, &err), CKPT_EUNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "read_at"));
    CU_ASSERT(err.offset == size - 3 && strcmp(err.file, "callbacks") == 0 && strcmp(err.where, "t") == 0);
    ckpt_close(f);
    /* while a plan of the file exists, reading the bytes must not fault */
    CU_ASSERT_EQUAL_FATAL(ckpt_open(unit_corpus_path("torch/badexp/01_ok.pt"), NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 0, &bytes, &n, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    ckpt_close(f);
    char *copy = malloc(n);
    memcpy(copy, bytes, n);
    CU_ASSERT(memcmp(copy, bytes, n) == 0);
    free(copy);
    ckpt_plan_free(p);
}

static void shards_can_be_borrowed(void)
{
    ckpt_file *f;
    const void *bytes;
    size_t n;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(unit_corpus_path("torch/t215/eco/hf_gpt2_sharded"), NULL, &f, NULL),
                          CKPT_OK);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, i, &bytes, &n, NULL), CKPT_OK);
        check_borrow(f, i);
    }
    ckpt_close(f);
}

/* A file that was truncated after it had been opened is refused, although its mapping exists. */
static void changed_files_are_refused(void)
{
    char path[] = "/tmp/unit-borrow-XXXXXX";
    int fd = mkstemp(path);
    FILE *in = fopen(unit_corpus_path("torch/badexp/01_ok.pt"), "rb");
    char bytes[65536];
    const void *borrowed;
    size_t n = fread(bytes, 1, sizeof bytes, in);
    ckpt_file *f;
    ckpt_error err;
    fclose(in);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 0, &borrowed, &n, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ftruncate(fd, 100), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_borrow(f, 0, &borrowed, &n, &err), CKPT_ECHANGED);
    CU_ASSERT(borrowed == NULL && n == 0 && strcmp(err.file, path) == 0);
    ckpt_close(f);
    close(fd);
    unlink(path);
}

void suite_borrow(void)
{
    UNIT(borrowed_bytes_equal_copied_bytes);
    UNIT(refusals_give_the_reason);
    UNIT(memory_is_borrowed_but_bytes_of_callbacks_are_not);
    UNIT(shards_can_be_borrowed);
    UNIT(changed_files_are_refused);
}
