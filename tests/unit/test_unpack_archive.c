/* Archives that libarchive opens: what members are told, in which order, and what is refused and why. */
#include <stdio.h>

#include "codec/unpack_archive.h"
#include "sample_7z.h"
#include "unit.h"

struct told {
    char text[256];
    ckpt_status answer;
};

static ckpt_status record_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct told *t = user;
    char got[64] = {0};
    size_t n = strlen(t->text);
    CU_ASSERT_EQUAL(source_read(bytes, 0, got, bytes->size < 63 ? (size_t)bytes->size : 63, err), CKPT_OK);
    snprintf(t->text + n, sizeof t->text - n, "%.*s=%s;", (int)name.len, name.ptr, got);
    return t->answer == CKPT_OK ? CKPT_OK : fail(err, t->answer, 7, "enough");
}

static ckpt_status unpack(const unsigned char *bytes, size_t n, uint64_t max, struct told *t, ckpt_error *err)
{
    unsigned char *at = unit_guard(bytes, n);
    source *src = source_mem(at, n, 0);
    struct unpack u = {.max = max, .member = record_member, .user = t};
    *err = (ckpt_error){0};
    ckpt_status st = unpack_archive(src, &u, err);
    source_unref(src);
    unit_guard_free(at, n);
    return st;
}

static void tells_every_member(void)
{
    struct told t = {{0}, CKPT_OK};
    ckpt_error err;
    if (!unpack_archive_ready())
        return;
    CU_ASSERT_EQUAL(unpack(sample_7z, SEVEN, 100, &t, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(t.text, "folder/a=the first;b=the second;"); /* folders are none */
}

static void stops_when_told_to(void)
{
    struct told t = {{0}, CKPT_ECANCELLED};
    ckpt_error err;
    if (!unpack_archive_ready())
        return;
    CU_ASSERT_EQUAL(unpack(sample_7z, SEVEN, 100, &t, &err), CKPT_ECANCELLED);
    CU_ASSERT(strcmp(t.text, "folder/a=the first;") == 0 && err.offset == 7 &&
              strcmp(err.what, "enough") == 0);
    t = (struct told){{0}, CKPT_OK};
    CU_ASSERT_EQUAL(unpack(sample_7z, SEVEN, 12, &t, &err), CKPT_ELIMIT); /* the second is cut there */
    CU_ASSERT_STRING_EQUAL(t.text, "folder/a=the first;b=the;");
}

/* Every cut and every changed byte: refused with a reason, or the members are told. */
static void survives_damage(void)
{
    unsigned char hurt[SEVEN];
    ckpt_error err;
    if (!unpack_archive_ready())
        return;
    for (size_t i = 0; i < SEVEN; i++)
        for (int how = 0; how < 3; how++) {
            struct told t = {{0}, CKPT_OK};
            memcpy(hurt, sample_7z, SEVEN);
            hurt[i] ^= how == 1 ? 0x80 : 0xff;
            ckpt_status st = unpack(how ? hurt : sample_7z, how ? SEVEN : i, 1000, &t, &err);
            CU_ASSERT(st == CKPT_OK || (err.status == st && err.what[0]));
        }
}

void suite_unpack_archive(void)
{
    UNIT(tells_every_member);
    UNIT(stops_when_told_to);
    UNIT(survives_damage);
}
