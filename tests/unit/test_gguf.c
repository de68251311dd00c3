/* GGUF: a zip archive after a header is refused, and files of gguf-py are written again byte for byte. */
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"
#include "bytes.h"
#include "unit.h"
#include "zipped.h"

/* little-endian numbers of 4 and 8 bytes, whose lowest byte is N */
#define U32(n) n "\0\0\0"
#define U64(n) n "\0\0\0\0\0\0\0"
#define EMPTY                                                                                                \
    "GGUF" U32("\x03") U64("\0") U64("\0") "\0\0\0\0\0\0\0\0" /* no tensors, no pairs, 8 bytes of padding */

/* open_and_close - opens the bytes B. If that succeeds, closes the file again. */
static ckpt_status open_and_close(ckpt_str b, ckpt_file **f, ckpt_error *err)
{
    unsigned char *copy = unit_guard(b.ptr, b.len);
    ckpt_status st = ckpt_open_memory(copy, b.len, "test", NULL, f, err);
    if (st == CKPT_OK)
        ckpt_close(*f);
    unit_guard_free(copy, b.len);
    return st;
}

/* An archive after a GGUF header without tensors is refused. */
static void archives_after_a_header_are_refused(void)
{
    const struct member one = {.name = "member", .bytes = TEXT("bytes")};
    ckpt_error err;
    ckpt_file *f;
    buf b;
    buf_init(&b, 4096);
    buf_put(&b, EMPTY, sizeof EMPTY - 1);
    zip_put(&b, &one, 1, b.len);
    CU_ASSERT_EQUAL(open_and_close(buf_view(&b), &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "after a header without tensors"));
    buf_free(&b);
}

/* read_corpus_file - returns the N bytes of the corpus file NAME; the caller frees them. */
static unsigned char *read_corpus_file(const char *name, size_t *n)
{
    FILE *in = fopen(unit_corpus_path(name), "rb");
    unsigned char *bytes = malloc(1 << 20);
    CU_ASSERT_FATAL(in && bytes);
    *n = fread(bytes, 1, 1 << 20, in);
    fclose(in);
    return bytes;
}

/* write_as_gguf - opens the N BYTES and writes them as GGUF to memory: *NOUT bytes at *OUT, which the caller
 * frees. ARCHITECTURE is added to the metadata unless it is NULL. */
static ckpt_status write_as_gguf(const void *bytes, size_t n, const char *architecture, void **out,
                                 size_t *nout)
{
    const ckpt_write_options o = {.struct_size = sizeof o, .format = "gguf", .architecture = architecture};
    ckpt_error err;
    ckpt_file *f;
    ckpt_plan *p;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, n, "test", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    ckpt_status st = ckpt_plan_write_memory(p, &o, out, nout, NULL, &err);
    ckpt_plan_free(p);
    ckpt_close(f);
    return st;
}

/* Files written by gguf-py are written again byte for byte. */
static void unchanged_files_are_written_as_they_were(void)
{
    static const char *const names[] = {"gguf/metadata.gguf",  "gguf/quantised.gguf",
                                        "gguf/align4096.gguf", "gguf/rand_IQ2_XS.gguf",
                                        "gguf/odd_zero.gguf",  "gguf/no_tensors.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n, nwritten = 0;
        void *written = NULL;
        unsigned char *bytes = read_corpus_file(names[i], &n);
        CU_ASSERT_EQUAL(write_as_gguf(bytes, n, NULL, &written, &nwritten), CKPT_OK);
        CU_ASSERT(nwritten == n && written && memcmp(written, bytes, n) == 0);
        ckpt_free(written);
        free(bytes);
    }
}

/* Counts and lengths have 4 bytes in version 1, and 8 in version 3. The pairs are a = "xy" and b = ["z"]. */
static void older_files_become_version_3(void)
{
    static const char version_1[] = "GGUF" U32("\x01") U32("\0") U32("\x02") U32("\x01") "a" U32("\x08")
        U32("\x02") "xy" U32("\x01") "b" U32("\x09") U32("\x08") U32("\x01") U32("\x01") "z";
    static const char version_3[] = "GGUF" U32("\x03") U64("\0") U64("\x02") U64("\x01") "a" U32("\x08")
        U64("\x02") "xy" U64("\x01") "b" U32("\x09") U32("\x08") U64("\x01") U64("\x01") "z";
    size_t nwritten = 0;
    void *written = NULL;
    CU_ASSERT_EQUAL(write_as_gguf(version_1, sizeof version_1 - 1, NULL, &written, &nwritten), CKPT_OK);
    CU_ASSERT(nwritten >= sizeof version_3 - 1 && written &&
              memcmp(written, version_3, sizeof version_3 - 1) == 0);
    ckpt_free(written);
    CU_ASSERT_EQUAL(write_as_gguf(version_1, sizeof version_1 - 1, "net", &written, &nwritten), CKPT_OK);
    /* the first pair, after a header of 24 bytes: the length of its key and the key */
    CU_ASSERT(written && memcmp((char *)written + 24, U64("\x14") "general.architecture", 8 + 20) == 0);
    ckpt_free(written);
}

/* read_q8_1 - opens a file of two tensors of q8_1, [1, 256] each, whose blocks have WIDTH bytes. */
static ckpt_status read_q8_1(unsigned width, ckpt_error *err)
{
    static const char info[] = U64("\x01") "a" U32("\x01") "\0\x01\0\0\0\0\0\0" U32("\x09");
    char bytes[1024] = "GGUF" U32("\x03") U64("\x02") U64("\0");
    size_t n = 24, data = 96;
    ckpt_file *f;
    for (char name = 'a'; name <= 'b'; name++) {
        memcpy(bytes + n, info, sizeof info - 1);
        bytes[n + 8] = name;
        n += sizeof info - 1;
        store_u64le((unsigned char *)bytes + n, name == 'a' ? 0 : 8 * width);
        n += 8;
    }
    return open_and_close(str_of(bytes, data + 2 * 8 * width), &f, err);
}

/* A block of q8_1 has 36 bytes. Files with 40, as an older gguf-py wrote them, are named as such. */
static void wide_q8_1_is_named(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(read_q8_1(36, &err), CKPT_OK);
    CU_ASSERT_EQUAL(read_q8_1(40, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "q8_1 have 40 bytes"));
    CU_ASSERT_EQUAL(read_q8_1(44, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NULL(strstr(err.what, "q8_1"));
}

void suite_gguf(void)
{
    UNIT(wide_q8_1_is_named);
    UNIT(archives_after_a_header_are_refused);
    UNIT(unchanged_files_are_written_as_they_were);
    UNIT(older_files_become_version_3);
}
