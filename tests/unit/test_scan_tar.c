/* Scanning tar archives: every member is scanned, and the members of torch 0.1 are split into pickles and
 * data. */
#include "scanned.h"
#include "torch01.h"

static struct scan_results scan_and_free(buf *b, size_t stop_at)
{
    struct scan_results s = scan_buffer(b->data, b->len, stop_at);
    buf_free(b);
    return s;
}

/* scan_member - scans an archive of one member of TYPE with PAYLOAD. */
static struct scan_results scan_member(char type, ckpt_str payload, size_t stop_at)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "name", type, payload);
    tar_end(&b);
    return scan_and_free(&b, stop_at);
}

static void members_are_scanned(void)
{
    struct scan_results s = scan_member('0', TEXT(CALL_OS_SYSTEM), 0);
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.first_finding.where, "name");
    CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.result.members == 1);
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
    s = scan_member('\0', TEXT("just text\n"), 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
    s = scan_member('7', TEXT("just text\n"), 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.members == 1);
    s = scan_member('0', TEXT(""), 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.members == 0);
    s = scan_member('0', TEXT("\x01\x02\x03 nothing known"), 0);
    CHECK_ONLY_FINDING(s, "unknown-format", 0, "not a recognized checkpoint format");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes - 17); /* all bytes but the payload */
}

static void links_and_other_types_are_reported(void)
{
    enum { HARD_LINK = '1', SYMBOLIC_LINK = '2', FOLDER = '5', VOLUME_LABEL = 'V' };
    CHECK_ONLY_FINDING(scan_member(HARD_LINK, TEXT(""), 0), "archive-link", 512,
                       "whoever unpacks it may write elsewhere");
    CHECK_ONLY_FINDING(scan_member(SYMBOLIC_LINK, TEXT(""), 0), "archive-link", 512,
                       "whoever unpacks it may write elsewhere");
    CU_ASSERT_EQUAL(scan_member(SYMBOLIC_LINK, TEXT(""), 1).status, CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(scan_member(FOLDER, TEXT(""), 0).findings, 0);
    CHECK_ONLY_FINDING(scan_member(VOLUME_LABEL, TEXT("label"), 0), "not-opened", 512,
                       "a member of type 'V'");
    CU_ASSERT_EQUAL(scan_member(VOLUME_LABEL, TEXT("label"), 1).status, CKPT_ECANCELLED);
}

static void names_that_harm_who_unpacks_are_reported(void)
{
    static const struct {
        const char *name, *fault;
    } names[] = {
        {"../../x", "leads out of its folder by \"..\""},
        {"a/../../x", "leads out of its folder by \"..\""},
        {"/etc/x", "is an absolute path"},
        {"C:\\x", "is an absolute path"},
        {"a\x1b[2Jb", "has a control character in its name"},
        {"a\xe2\x80\xaetxt.exe", "has a control character in its name"},
        {"a..b/..c/d..", NULL},
        {"\xe2\x9d\xa4\xef\xb8\x8f.txt", NULL}, /* a heart and a variation selector */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        buf b;
        buf_init(&b, 1 << 20);
        tar_member(&b, names[i].name, '0', TEXT("text"));
        tar_end(&b);
        struct scan_results s = scan_and_free(&b, 0);
        if (names[i].fault)
            CHECK_ONLY_FINDING(s, "zip-structure", 512, names[i].fault);
        else
            CU_ASSERT_EQUAL(s.findings, 0);
    }
}

static void damaged_archives_are_reported(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "name", '0', TEXT("text"));
    b.data[3] ^= 1;
    CHECK_ONLY_FINDING(scan_and_free(&b, 0), "malformed", CKPT_NO_OFFSET,
                       "tar: the checksum of a member's header is wrong: \"003564\", its bytes make 003563");
}

/* The archives are nested one level deeper than the options allow. */
static void deeply_nested_archives_are_reported(void)
{
    buf b, outer;
    ckpt_scan_options two_levels = {.struct_size = sizeof two_levels, .max_depth = 2};
    buf_init(&b, 1 << 20);
    tar_member(&b, "name", '0', TEXT("text"));
    for (int i = 0; i < 2; i++) {
        buf_init(&outer, 1 << 20);
        tar_member(&outer, "inner", '0', str_of((const char *)b.data, b.len));
        buf_free(&b);
        b = outer;
    }
    struct scan_results s = scan_buffer_as(str_of((const char *)b.data, b.len), NULL, &two_levels, 0);
    CHECK_ONLY_FINDING(s, "not-opened", CKPT_NO_OFFSET, "an archive nested too deep");
    CU_ASSERT_STRING_EQUAL(s.first_finding.where, "inner!inner");
    CU_ASSERT_EQUAL(s.result.members, 2);
    CU_ASSERT_EQUAL(scan_buffer_as(str_of((const char *)b.data, b.len), NULL, &two_levels, 1).status,
                    CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(scan_and_free(&b, 0).findings, 0);
}

/* scan_torch_tar - scans an archive of torch 0.1 in which BYTES replace the payload of member REPLACED (-1:
 * of none), and which lacks member OMITTED (-1: none). */
static struct scan_results scan_torch_tar(int replaced, ckpt_str bytes, int omitted, size_t stop_at)
{
    ckpt_str members[3];
    buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 3; i++)
        members[i] = i == omitted ? (ckpt_str){NULL, 0} : i == replaced ? bytes : torch01_valid_members[i];
    torch01_put(&b, members);
    return scan_and_free(&b, stop_at);
}

/* A valid archive has 3 pickles in "storages", 2 in "tensors" and 1 in "pickle". Without one of these
 * members, it is a tar like any other. */
static void archives_of_torch_with_all_members_are_read_to_the_last_byte(void)
{
    struct scan_results s = scan_torch_tar(-1, TEXT(""), -1, 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.pickles == 3 + 2 + 1);
    CU_ASSERT_STRING_EQUAL(s.result.format, "torch-tar");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(scan_torch_tar(-1, TEXT(""), i, 0).result.format, "tar");
}

/* check_malformed - replaces the payload of MEMBER with BYTES. Checks that reading stops at OFFSET in these
 * bytes, with FINDINGS findings. */
static void check_malformed(int member, ckpt_str bytes, uint64_t offset, size_t findings, int line)
{
    struct scan_results s = scan_torch_tar(member, bytes, -1, 0);
    CU_ASSERT(
        scan_has_finding(&s, findings, "malformed", offset, "no tensors of torch 0.1 from here on", line));
    CU_ASSERT(s.result.accounted < s.result.bytes);
    for (size_t i = 1; i <= findings; i++)
        CU_ASSERT_EQUAL(scan_torch_tar(member, bytes, -1, i).status, CKPT_ECANCELLED);
}
#define CHECK_MALFORMED(member, bytes, offset, n) check_malformed(member, TEXT(bytes), offset, n, __LINE__)

static void malformed_members_of_torch_are_reported(void)
{
    /* offsets in the member */
    enum {
        AFTER_COUNT = sizeof COUNT_1 - 1,
        AFTER_STORAGE = AFTER_COUNT + sizeof STORAGE_7 - 1,
        AFTER_TENSOR = AFTER_COUNT + sizeof TENSOR_8 - 1
    };
    CHECK_MALFORMED(STORAGES, "\x80\x02U\x01x.", 6, 2);            /* a text instead of the count */
    CHECK_MALFORMED(STORAGES, "\x80\x02J\xff\xff\xff\xff.", 8, 2); /* a negative count */
    CHECK_MALFORMED(STORAGES, "\x80\x02K\x01", 4, 3);              /* a truncated pickle */
    CHECK_MALFORMED(STORAGES, "\x80\x02K\x01\x85R.", 5, 3);        /* a pickle with an invalid call */
    CHECK_MALFORMED(STORAGES, COUNT_1 "\x80\x02N.", AFTER_COUNT + 4,
                    2); /* not a tuple, and nothing after it */
    CHECK_MALFORMED(STORAGES, COUNT_1 STORAGE_7 "\x04\0\0", AFTER_STORAGE,
                    2); /* a truncated number of elements */
    /* a pickle that is not a tuple has 4 bytes; reading stops after it and the number of elements */
    CHECK_MALFORMED(STORAGES, COUNT_1 "\x80\x02N." FOUR_ELEMENTS DATA, AFTER_COUNT + 4 + 8, 2);
    /* a pickle with an unknown class has 23 bytes */
    CHECK_MALFORMED(STORAGES, COUNT_1 "\x80\x02NNctorch\nNoStorage\n\x87." FOUR_ELEMENTS DATA,
                    AFTER_COUNT + 23 + 8, 3);
    CHECK_MALFORMED(STORAGES, COUNT_1 STORAGE_7 FOUR_ELEMENTS "0123", AFTER_STORAGE + 12,
                    2); /* fewer elements than the number before them */
    /* 2^64 - 1 elements, and 2^62 - 1 elements of 4 bytes */
    CHECK_MALFORMED(STORAGES, COUNT_1 STORAGE_7 "\xff\xff\xff\xff\xff\xff\xff\xff" DATA, AFTER_STORAGE + 8,
                    2);
    CHECK_MALFORMED(STORAGES, COUNT_1 STORAGE_7 "\xff\xff\xff\xff\xff\xff\xff\x3f" DATA, AFTER_STORAGE + 8,
                    2);
    /* 2^32 - 1 dimensions */
    CHECK_MALFORMED(TENSORS, COUNT_1 TENSOR_8 "\xff\xff\xff\xff\0\0\0\0", AFTER_TENSOR + 8, 2);
    /* bytes after the last tensor */
    CHECK_MALFORMED(TENSORS, COUNT_1 TENSOR_8 SHAPE_2X2 OFFSET_0 "more", AFTER_TENSOR + 40 + 8, 1);
}

void suite_scan_tar(void)
{
    UNIT(members_are_scanned);
    UNIT(links_and_other_types_are_reported);
    UNIT(names_that_harm_who_unpacks_are_reported);
    UNIT(damaged_archives_are_reported);
    UNIT(deeply_nested_archives_are_reported);
    UNIT(archives_of_torch_with_all_members_are_read_to_the_last_byte);
    UNIT(malformed_members_of_torch_are_reported);
}
