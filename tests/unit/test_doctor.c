/* The doctor on files that mean harm, and on every length of an archive. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "unit.h"

static char path[64];

struct heard {
    size_t n, stop_at;
    char id[32], text[512];
};

static int record_diagnosis(void *user, const ckpt_diagnosis *d)
{
    struct heard *h = user;
    CU_ASSERT(d->id[0] && d->text[0] && d->hint);
    CU_ASSERT_PTR_NULL(strchr(d->text, '\n'));
    if (h->n++ == 0) {
        (void)snprintf(h->id, sizeof h->id, "%s", d->id);
        (void)snprintf(h->text, sizeof h->text, "%s", d->text);
    }
    return h->n == h->stop_at;
}

static void put(const void *bytes, size_t n)
{
    FILE *to = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(to);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, to), n);
    CU_ASSERT_EQUAL(fclose(to), 0);
}

static void begin(void)
{
    (void)snprintf(path, sizeof path, "/tmp/ckpt-doctor-XXXXXX");
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    (void)close(fd);
}

static ckpt_status ask(struct heard *h, ckpt_doctor_result *r)
{
    *h = (struct heard){.stop_at = h->stop_at};
    return ckpt_doctor(path, NULL, record_diagnosis, h, r, NULL);
}

static void every_length_has_a_diagnosis(void)
{
    static unsigned char b[1 << 16];
    FILE *from = fopen(unit_corpus("torch/t215/state_dict.pt"), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(from);
    size_t n = fread(b, 1, sizeof b, from), truncated = 0;
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct heard h = {0};
    (void)fclose(from);
    begin();
    put(b, n);
    CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
    CU_ASSERT_EQUAL(r.problems, 0);
    for (size_t cut = 0; cut < n; cut += 7) {
        put(b, cut);
        CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
        CU_ASSERT(r.problems >= 1);
        truncated += strcmp(h.id, "truncated") == 0;
    }
    CU_ASSERT(truncated + 8 > n / 7);
    (void)unlink(path);
}

/* Descriptors that all might be the one: gone over once. */
static void many_descriptors(void)
{
    buf b;
    buf_init(&b, 64u << 20);
    buf_put(&b, "PK\3\4\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0a", 31);
    for (size_t i = 0; i < 2u << 20; i++)
        buf_put(&b, "PK\7\10\0\0\0\0", 8);
    CU_ASSERT_FATAL(buf_ok(&b));
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct heard h = {0};
    begin();
    put(b.data, b.len);
    CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(h.id, "truncated");
    CU_ASSERT_PTR_NOT_NULL(strstr(h.text, "the 0 before it are intact"));
    buf_free(&b);
    (void)unlink(path);
}

/* Records whose sizes are behind them, in 32 bits or 64: how many are whole is told to the byte. */
static void sizes_behind_records(void)
{
#define RECORD(name) "PK\3\4\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0" name
#define NARROW       "PK\7\10crc1\4\0\0\0\4\0\0\0"
#define WIDE         "PK\7\10crc1\4\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"
#define CASE(bytes, words)                                                                                   \
    {                                                                                                        \
        bytes, sizeof(bytes) - 1, words                                                                      \
    }
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        CASE(RECORD("a") "AAAA" NARROW RECORD("b") "BB and no more of it, that is",
             "inside record b, which begins at byte 51; the 1 before it are intact"),
        CASE(RECORD("a") "AAAA" WIDE RECORD("b") "BB and no more of it, that is",
             "inside record b, which begins at byte 59; the 1 before it are intact"),
        CASE(RECORD("a") "AAAA" NARROW "PK\1\2 and so on to the end",
             "after its last intact record, number 1 (a)"),
        CASE(RECORD("a") "AAAA" NARROW "what is none of it", "after its last intact record, number 1 (a)"),
        CASE(RECORD("a") "AAAAPK\7\10crc1\5\0\0\0\4\0\0\0" RECORD("b"), "inside record a"),
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
        struct heard h = {0};
        put(cases[i].bytes, cases[i].n);
        CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(h.id, "truncated");
        CU_ASSERT_PTR_NOT_NULL(strstr(h.text, cases[i].words));
        if (!strstr(h.text, cases[i].words))
            printf("\n    %zu: %s", i, h.text);
    }
    (void)unlink(path);
}

/* Sound, and called by no name that says what it is: nothing is wrong with that. */
static void names_that_say_nothing(void)
{
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct heard h = {0};
    begin();
    put("\2\0\0\0\0\0\0\0{}", 10);
    CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
    CU_ASSERT_EQUAL(r.problems, 0);
    (void)unlink(path);
}

/* Names from the file cannot act on a terminal, and the caller can stop. */
static void hostile_names(void)
{
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct heard h = {0};
    static const char head[] =
        "{\"a\\u001b[31m\\u202e\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}";
    unsigned char b[128] = {sizeof head - 1};
    memcpy(b + 8, head, sizeof head - 1);
    begin();
    put(b, 8 + sizeof head - 1 + 3);
    CU_ASSERT_EQUAL(ask(&h, &r), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(h.id, "truncated");
    CU_ASSERT_PTR_NULL(strchr(h.text, 0x1b));
    CU_ASSERT_PTR_NOT_NULL(strstr(h.text, "u{202e}"));
    h.stop_at = 1;
    CU_ASSERT_EQUAL(ask(&h, &r), CKPT_ECANCELLED);
    (void)unlink(path);
    CU_ASSERT_EQUAL(ckpt_doctor("/nowhere/at/all", NULL, record_diagnosis, &h, &r, NULL), CKPT_ENOTFOUND);
}

void suite_doctor(void)
{
    UNIT(every_length_has_a_diagnosis);
    UNIT(many_descriptors);
    UNIT(sizes_behind_records);
    UNIT(names_that_say_nothing);
    UNIT(hostile_names);
}
