/* Archives that libarchive opens: their members are reported in order, and damage is an error. */
#include <stdio.h>

#include "codec/unpack_archive.h"
#include "sample_7z.h"
#include "unit.h"

/* The members that record_member() records. */
struct reported_members {
    char text[256];              /* each member as "name=bytes;" */
    ckpt_status callback_status; /* the status that record_member() returns */
};

static ckpt_status record_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct reported_members *t = user;
    char got[64] = {0};
    size_t n = strlen(t->text);
    CU_ASSERT_EQUAL(source_read(bytes, 0, got, bytes->size < 63 ? (size_t)bytes->size : 63, err), CKPT_OK);
    snprintf(t->text + n, sizeof t->text - n, "%.*s=%s;", (int)name.len, name.ptr, got);
    return t->callback_status == CKPT_OK ? CKPT_OK : fail(err, t->callback_status, 7, "enough");
}

static ckpt_status unpack(const unsigned char *bytes, size_t n, uint64_t max, struct reported_members *t,
                          ckpt_error *err)
{
    unsigned char *at = unit_guard(bytes, n);
    source *src = source_mem(at, n, 0);
    struct unpack u = {.max_bytes = max, .member = record_member, .user = t};
    *err = (ckpt_error){0};
    ckpt_status st = unpack_archive(src, &u, err);
    source_unref(src);
    unit_guard_free(at, n);
    return st;
}

static void every_member_is_reported(void)
{
    struct reported_members t = {{0}, CKPT_OK};
    ckpt_error err;
    if (!unpack_archive_available())
        return;
    CU_ASSERT_EQUAL(unpack(sample_7z, SAMPLE_7Z_SIZE, 100, &t, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(t.text, "folder/a=the first;b=the second;"); /* folders are not reported */
}

static void the_callback_and_a_limit_end_unpacking(void)
{
    struct reported_members t = {{0}, CKPT_ECANCELLED};
    ckpt_error err;
    if (!unpack_archive_available())
        return;
    CU_ASSERT_EQUAL(unpack(sample_7z, SAMPLE_7Z_SIZE, 100, &t, &err), CKPT_ECANCELLED);
    CU_ASSERT(strcmp(t.text, "folder/a=the first;") == 0 && err.offset == 7 &&
              strcmp(err.what, "enough") == 0);
    t = (struct reported_members){{0}, CKPT_OK};
    CU_ASSERT_EQUAL(unpack(sample_7z, SAMPLE_7Z_SIZE, 12, &t, &err),
                    CKPT_ELIMIT); /* byte 12 is in the second member */
    CU_ASSERT_STRING_EQUAL(t.text, "folder/a=the first;b=the;");
}

/* With every truncation and every changed byte, the archive is read or refused with a reason. */
static void damaged_archives_are_read_or_refused(void)
{
    unsigned char damaged[SAMPLE_7Z_SIZE];
    ckpt_error err;
    if (!unpack_archive_available())
        return;
    for (size_t i = 0; i < SAMPLE_7Z_SIZE; i++)
        for (int change = 0; change < 3;
             change++) { /* 0: the archive is truncated before byte I; else bits of byte I are changed */
            struct reported_members t = {{0}, CKPT_OK};
            memcpy(damaged, sample_7z, SAMPLE_7Z_SIZE);
            damaged[i] ^= change == 1 ? 0x80 : 0xff;
            ckpt_status st = unpack(change ? damaged : sample_7z, change ? SAMPLE_7Z_SIZE : i, 1000, &t,
                                    &err);
            CU_ASSERT(st == CKPT_OK || (err.status == st && err.what[0]));
        }
}

/* decompress - decompresses the first N of 15 bytes, a zstd frame of 14 bytes and one byte more, to at most
 * MAX bytes in OUT. */
static ckpt_status decompress(size_t n, uint64_t max, char out[32], ckpt_error *err)
{
    static const unsigned char frame[] = "\x28\xb5\x2f\xfd\x20\5\x29\0\0\x28\xb5\x2f\xfdx?";
    source *src = source_mem(frame, n, 0), *decompressed;
    spool *to = spool_new(max);
    ckpt_status st = unpack_zstd(src, to, err);
    decompressed = spool_source(to);
    memset(out, 0, 32);
    (void)source_read(decompressed, 0, out, (size_t)decompressed->size, NULL);
    source_unref(decompressed);
    source_unref(src);
    return st;
}

/* The contents of a frame are not decompressed again, even if they look like a frame. */
static void frames_are_decompressed_once(void)
{
    char out[32];
    ckpt_error err = {0};
    if (!unpack_archive_available())
        return;
    CU_ASSERT_EQUAL(decompress(14, 5, out, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(out, "\x28\xb5\x2f\xfdx");
    CU_ASSERT_EQUAL(decompress(14, 4, out, &err), CKPT_ELIMIT);
    CU_ASSERT_EQUAL(decompress(15, 5, out, &err), CKPT_EFORMAT); /* a byte follows the frame */
    for (size_t n = 0; n < 14; n++)
        CU_ASSERT_EQUAL(decompress(n, 5, out, &err), CKPT_EFORMAT);
}

void suite_unpack_archive(void)
{
    UNIT(frames_are_decompressed_once);
    UNIT(every_member_is_reported);
    UNIT(the_callback_and_a_limit_end_unpacking);
    UNIT(damaged_archives_are_read_or_refused);
}
