/* ckpt_doctor diagnoses hostile files, and an archive truncated at every seventh byte. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "unit.h"

static char path[64];

/* The number N of diagnoses, and the first of them. The callback cancels after STOP_AT diagnoses (0:
 * never). */
struct diagnoses {
    size_t n, stop_at;
    char id[32], text[512];
};

static int record_diagnosis(void *user, const ckpt_diagnosis *d)
{
    struct diagnoses *h = user;
    CU_ASSERT(d->id[0] && d->text[0] && d->hint);
    CU_ASSERT_PTR_NULL(strchr(d->text, '\n'));
    if (h->n++ == 0) {
        (void)snprintf(h->id, sizeof h->id, "%s", d->id);
        (void)snprintf(h->text, sizeof h->text, "%s", d->text);
    }
    return h->n == h->stop_at;
}

static void write_file(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    CU_ASSERT_EQUAL(fclose(f), 0);
}

static void make_empty_file(void)
{
    (void)snprintf(path, sizeof path, "/tmp/ckpt-doctor-XXXXXX");
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    (void)close(fd);
}

static ckpt_status diagnose(struct diagnoses *h, ckpt_doctor_result *r)
{
    *h = (struct diagnoses){.stop_at = h->stop_at};
    return ckpt_doctor(path, NULL, record_diagnosis, h, r, NULL);
}

static void truncated_files_have_a_diagnosis(void)
{
    static unsigned char b[1 << 16];
    FILE *from = fopen(unit_corpus_path("torch/t215/state_dict.pt"), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(from);
    size_t n = fread(b, 1, sizeof b, from), ntruncated = 0;
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct diagnoses h = {0};
    (void)fclose(from);
    make_empty_file();
    write_file(b, n);
    CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
    CU_ASSERT_EQUAL(r.problems, 0);
    for (size_t cut = 0; cut < n; cut += 7) {
        write_file(b, cut);
        CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
        CU_ASSERT(r.problems >= 1);
        ntruncated += strcmp(h.id, "truncated") == 0;
    }
    CU_ASSERT(ntruncated + 8 > n / 7); /* all but the shortest files, which do not look like an archive */
    (void)unlink(path);
}

/* Two million possible data descriptors follow one local header, "a". */
static void many_data_descriptors_are_searched_once(void)
{
    buf b;
    buf_init(&b, 64u << 20);
    buf_put(&b, "PK\3\4\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0a", 31);
    for (size_t i = 0; i < 2u << 20; i++)
        buf_put(&b, "PK\7\10\0\0\0\0", 8);
    CU_ASSERT_FATAL(buf_ok(&b));
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct diagnoses h = {0};
    make_empty_file();
    write_file(b.data, b.len);
    CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(h.id, "truncated");
    CU_ASSERT_PTR_NOT_NULL(strstr(h.text, "intact records before it: 0"));
    buf_free(&b);
    (void)unlink(path);
}

/* The intact records are counted. A truncated record is located. DESCRIPTOR_32 and DESCRIPTOR_64 are data
 * descriptors, with sizes of 32 and of 64 bits. */
static void records_with_data_descriptors_are_counted(void)
{
#define LOCAL_HEADER(name) "PK\3\4\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0" name
#define DESCRIPTOR_32      "PK\7\10crc1\4\0\0\0\4\0\0\0"
#define DESCRIPTOR_64      "PK\7\10crc1\4\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"
#define CASE(bytes, words)                                                                                   \
    {                                                                                                        \
        bytes, sizeof(bytes) - 1, words                                                                      \
    }
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        CASE(LOCAL_HEADER("a") "AAAA" DESCRIPTOR_32 LOCAL_HEADER("b") "BB, then no data descriptor",
             "inside record b, which begins at byte 51; intact records before it: 1"),
        CASE(LOCAL_HEADER("a") "AAAA" DESCRIPTOR_64 LOCAL_HEADER("b") "BB, then no data descriptor",
             "inside record b, which begins at byte 59; intact records before it: 1"),
        CASE(LOCAL_HEADER("a") "AAAA" DESCRIPTOR_32 "PK\1\2 and so on to the end",
             "after its last intact record, number 1 (a)"),
        CASE(LOCAL_HEADER("a") "AAAA" DESCRIPTOR_32 "no record",
             "after its last intact record, number 1 (a)"),
        CASE(LOCAL_HEADER("a") "AAAAPK\7\10crc1\5\0\0\0\4\0\0\0" LOCAL_HEADER("b"), "inside record a"),
    };
    make_empty_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
        struct diagnoses h = {0};
        write_file(cases[i].bytes, cases[i].n);
        CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(h.id, "truncated");
        CU_ASSERT_PTR_NOT_NULL(strstr(h.text, cases[i].words));
        if (!strstr(h.text, cases[i].words))
            printf("\n    case %zu: %s", i, h.text);
    }
    (void)unlink(path);
}

/* An intact file without a suffix has no problems. */
static void names_without_a_suffix_are_accepted(void)
{
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct diagnoses h = {0};
    make_empty_file();
    write_file("\2\0\0\0\0\0\0\0{}", 10);
    CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
    CU_ASSERT_EQUAL(r.problems, 0);
    (void)unlink(path);
}

/* Names from the file are escaped. The caller can cancel. */
static void hostile_names_are_escaped(void)
{
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    struct diagnoses h = {0};
    static const char header[] =
        "{\"a\\u001b[31m\\u202e\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}";
    unsigned char b[128] = {sizeof header - 1};
    memcpy(b + 8, header, sizeof header - 1);
    make_empty_file();
    write_file(b, 8 + sizeof header - 1 + 3);
    CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(h.id, "truncated");
    CU_ASSERT_PTR_NULL(strchr(h.text, 0x1b));
    CU_ASSERT_PTR_NOT_NULL(strstr(h.text, "u{202e}"));
    h.stop_at = 1;
    CU_ASSERT_EQUAL(diagnose(&h, &r), CKPT_ECANCELLED);
    (void)unlink(path);
    CU_ASSERT_EQUAL(ckpt_doctor("/nowhere/at/all", NULL, record_diagnosis, &h, &r, NULL), CKPT_ENOTFOUND);
}

void suite_doctor(void)
{
    UNIT(truncated_files_have_a_diagnosis);
    UNIT(many_data_descriptors_are_searched_once);
    UNIT(records_with_data_descriptors_are_counted);
    UNIT(names_without_a_suffix_are_accepted);
    UNIT(hostile_names_are_escaped);
}
