/* The tar archives of torch 0.1: what their members must contain, and that malformed members are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "torch01.h"
#include "unit.h"

#define COMPLETE_STORAGE COUNT_1 STORAGE_7 FOUR_ELEMENTS DATA

/* open_with() replaces one of these members, and opens the archive with these limits. */
static const ckpt_str *original_members = torch01_valid_members;
static const ckpt_limits *limits = NULL;
static buf archive;

/* open_with - opens an archive of the original members, in which BYTES replace MEMBER (STORAGES, TENSORS or
 * PICKLE; -1: none). */
static ckpt_status open_with(int member, ckpt_str bytes, ckpt_file **file, ckpt_error *err)
{
    ckpt_str members[3];
    buf_free(&archive);
    buf_init(&archive, 1 << 20);
    for (int i = 0; i < 3; i++)
        members[i] = i == member ? bytes : original_members[i];
    torch01_put(&archive, members);
    *file = NULL;
    return ckpt_open_memory(archive.data, archive.len, "0.1.tar", limits, file, err);
}

static void a_valid_archive_is_read(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    float out[4];
    CU_ASSERT_EQUAL_FATAL(open_with(-1, torch01_valid_members[0], &file, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(file), "torch-tar");
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(file), 1);
    const ckpt_tensor t = tensor_at(file, 0);
    CU_ASSERT_STRING_EQUAL(t.name.ptr, "w");
    CU_ASSERT(t.ndim == 2 && t.shape[0] == 2 && t.shape[1] == 2 && t.dtype == CKPT_DT_F32);
    CU_ASSERT_EQUAL(ckpt_tensor_read(file, 0, 0, 4, out, &err), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(out, DATA, 16), 0);
    ckpt_close(file);
}

/* The pickle of the first archive has storage 7 twice, by the ids 7 and "7". In the second archive, storage 7
 * has a view. */
static void storages_and_views_are_listed(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    CU_ASSERT_EQUAL_FATAL(open_with(PICKLE,
                                    TEXT("\x80\x02}(U\x01sK\x07QU\x01uU\x01"
                                         "7Qu."),
                                    &file, &err),
                          CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(file), 2);
    CU_ASSERT_EQUAL(tensor_at(file, 0).kind, CKPT_STORAGE);
    CU_ASSERT_EQUAL(tensor_at(file, 1).alias_of, 0);
    ckpt_close(file);
    CU_ASSERT_EQUAL_FATAL(
        open_with(STORAGES, TEXT(COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "K\x02")), &file, &err),
        CKPT_OK);
    ckpt_close(file);
}

static void check_refused(int member, ckpt_str bytes, ckpt_status want, const char *words, int line)
{
    ckpt_file *file;
    ckpt_error err = {0};
    ckpt_status got = open_with(member, bytes, &file, &err);
    bool right = got == want && strstr(err.what, words) &&
                 strncmp(err.where, torch01_names[member], strlen(torch01_names[member])) == 0 &&
                 err.offset != CKPT_NO_OFFSET;
    if (!right)
        printf("\n    line %d: %s: byte %llu: %s: %s", line, ckpt_status_name(got),
               (unsigned long long)err.offset, err.where, err.what);
    CU_ASSERT(right);
    ckpt_close(file);
}
#define CHECK_REFUSED(member, bytes, want, words) check_refused(member, TEXT(bytes), want, words, __LINE__)

static void malformed_storages_are_refused(void)
{
    CHECK_REFUSED(STORAGES, "\x80\x02U\x01x.", CKPT_EFORMAT, "begin with the number of its entries");
    CHECK_REFUSED(STORAGES, "\x80\x02J\xff\xff\xff\xff.", CKPT_EFORMAT,
                  "begin with the number of its entries");
    CHECK_REFUSED(STORAGES, "\x80\x02J\xff\xff\xff\x7f.", CKPT_EFORMAT,
                  "begin with the number of its entries");
    CHECK_REFUSED(STORAGES, COUNT_1 "\x80\x02K\x07.", CKPT_EFORMAT,
                  "a storage must be (key, location, class)");
    CHECK_REFUSED(STORAGES, COUNT_1 "\x80\x02K\x07NN\x87.", CKPT_EFORMAT,
                  "a storage must be (key, location, class)");
    CHECK_REFUSED(STORAGES, COUNT_1 "\x80\x02NNctorch\nFloatStorage\n\x87.", CKPT_EFORMAT,
                  "found (None, None, torch.FloatStorage)");
    CHECK_REFUSED(STORAGES, COUNT_1 STORAGE_7 "\x04\0\0", CKPT_ETRUNCATED, "needs 8 bytes");
    CHECK_REFUSED(STORAGES, COUNT_1 STORAGE_7 FOUR_ELEMENTS "0123", CKPT_ETRUNCATED,
                  "storage 7 needs 4 numbers, the member has 4 bytes left");
    CHECK_REFUSED(STORAGES, COUNT_1 STORAGE_7 "\xff\xff\xff\xff\xff\xff\xff\xff" DATA, CKPT_ETRUNCATED,
                  "18446744073709551615");
    CHECK_REFUSED(STORAGES,
                  "\x80\x02K\x02." STORAGE_7 FOUR_ELEMENTS DATA STORAGE_7 FOUR_ELEMENTS DATA NO_VIEWS,
                  CKPT_EFORMAT, "key 7 comes twice");
    CHECK_REFUSED(STORAGES, COUNT_1 STORAGE_7 FOUR_ELEMENTS DATA, CKPT_ETRUNCATED, "");
}

static void malformed_views_are_refused(void)
{
    static const char words[] = "a storage view must be (key, root, offset, elements)";
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("N", "K\x07", "K\x01", "K\x02"), CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x06", "K\x01", "K\x02"), CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "N", "K\x02"), CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "N"), CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "J\xff\xff\xff\xff", "K\x02"),
                  CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "J\xff\xff\xff\xff"),
                  CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "K\x04"), CKPT_EFORMAT, words);
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE VIEWS("K\x07", "K\x07", "K\x01", "K\x02"), CKPT_EFORMAT,
                  "key 7 comes twice");
    CHECK_REFUSED(STORAGES, COMPLETE_STORAGE "\x80\x02](K\x09K\x07K\x01K\x02tae.", CKPT_EFORMAT,
                  "APPENDS goes back to a MARK, and none is on the stack");
}

static void malformed_tensors_are_refused(void)
{
    CHECK_REFUSED(TENSORS, "\x80\x02N.", CKPT_EFORMAT, "begin with the number of its entries");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR("K\x08", "K\x06") SHAPE_2X2 OFFSET_0, CKPT_EFORMAT,
                  "a tensor must be (key, storage key");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR("N", "K\x07") SHAPE_2X2 OFFSET_0, CKPT_EFORMAT,
                  "a tensor must be (key, storage key");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR("K\x07", "K\x07") SHAPE_2X2 OFFSET_0, CKPT_EFORMAT,
                  "key 7 comes twice");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR_8 "\xff\xff\xff\xff\0\0\0\0", CKPT_ETRUNCATED,
                  "needs 8589934591 numbers, the member has 0 bytes left");
    CHECK_REFUSED(TENSORS,
                  COUNT_1 TENSOR_8 "\x01\0\0\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\x80" OFFSET_0 OFFSET_0,
                  CKPT_EFORMAT, "must be 0 or more, found -");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR_8 SHAPE_2X2, CKPT_ETRUNCATED, "");
    CHECK_REFUSED(PICKLE, "\x80\x02}U\x01wK\x05Qs.", CKPT_EFORMAT,
                  "a persistent id is 5, it must be the key");
    CHECK_REFUSED(PICKLE,
                  "\x80\x02}U\x01w(U\x07storagectorch\nFloatStorage\nU\x01"
                  "0U\x03"
                  "cpuK\x04tQs.",
                  CKPT_EFORMAT, "");
}

static void keys_may_be_text(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    /* the key is the text "7", and the location is None */
    CU_ASSERT_EQUAL_FATAL(open_with(STORAGES,
                                    TEXT(COUNT_1 "\x80\x02U\x01"
                                                 "7Nctorch\nFloatStorage\n\x87." FOUR_ELEMENTS DATA NO_VIEWS),
                                    &file, &err),
                          CKPT_OK);
    ckpt_close(file);
    CHECK_REFUSED(STORAGES,
                  COUNT_1 "\x80\x02U\x13"
                          "9999999999999999999Nctorch\nFloatStorage\n\x87." FOUR_ELEMENTS DATA NO_VIEWS,
                  CKPT_EFORMAT, "a storage must be (key, location, class)");
    CHECK_REFUSED(STORAGES, COUNT_1 "\x80\x02U\x01xNctorch\nFloatStorage\n\x87." FOUR_ELEMENTS DATA NO_VIEWS,
                  CKPT_EFORMAT, "a storage must be (key, location, class)");
}

static void truncated_members_are_refused(void)
{
    CHECK_REFUSED(STORAGES, "\x80\x02K", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(STORAGES, COUNT_1 "\x80\x02K\x07", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(TENSORS, "\x80\x02K", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(TENSORS, COUNT_1 "\x80\x02K\x08", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR_8 "\x02", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(TENSORS, COUNT_1 TENSOR_8 SHAPE_2X2 "\0\0", CKPT_ETRUNCATED, "");
    CHECK_REFUSED(PICKLE, "\x80\x02}", CKPT_ETRUNCATED, "");
}

static void the_storage_of_a_tensor_may_not_be_a_tensor(void)
{
    CHECK_REFUSED(TENSORS,
                  "\x80\x02K\x02." TENSOR_8 SHAPE_2X2 OFFSET_0 TENSOR("K\x09", "K\x08") SHAPE_2X2 OFFSET_0,
                  CKPT_EFORMAT, "a tensor must be (key, storage key, class)");
}

/* The offset of a tensor counts from the beginning of its view. This view begins at element 1 of the storage,
 * and the offset in it is 2^64 - 1: the sum overflows. */
static void storage_offsets_beyond_64_bits_are_refused(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    static const ckpt_str members_with_view[] = {
        CONSTANT(COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "K\x02")),
        CONSTANT(COUNT_1 TENSOR("K\x08", "K\x09") SHAPE_2X2 "\xff\xff\xff\xff\xff\xff\xff\xff")};
    original_members = members_with_view;
    CU_ASSERT_EQUAL(open_with(PICKLE, torch01_valid_members[2], &file, &err), CKPT_EFORMAT);
    original_members = torch01_valid_members;
    CU_ASSERT_STRING_EQUAL(err.what, "a storage offset is beyond 2^64");
    CU_ASSERT_STRING_EQUAL(err.where, "tensors");
}

/* open_members - opens an archive whose members have these NAMES and TYPES. */
static ckpt_status open_members(const char *const names[3], const char types[3])
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 3; i++)
        tar_member(&b, names[i], types[i], torch01_valid_members[i]);
    tar_end(&b);
    ckpt_status st = ckpt_open_memory(b.data, b.len, "0.1.tar", NULL, &file, &err);
    ckpt_close(file);
    buf_free(&b);
    return st;
}

static void members_are_found_by_name_and_type(void)
{
    static const char *const dotted[] = {"./storages", "./tensors", "./pickle"};
    static const char *const wrong_names[3][3] = {{"storage", "tensors", "pickle"},
                                                  {"storages", "tensor", "pickle"},
                                                  {"storages", "tensors", "pickles"}};
    /* the types '0' and NUL are regular files, '2' is a symbolic link */
    CU_ASSERT_EQUAL(open_members(torch01_names, "000"), CKPT_OK);
    CU_ASSERT_EQUAL(open_members(dotted, "\0\0\0"), CKPT_OK);
    CU_ASSERT_EQUAL(open_members(torch01_names, "002"), CKPT_EUNSUPPORTED);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(open_members(wrong_names[i], "000"), CKPT_EUNSUPPORTED);
}

static int count_fault(void *user, const ckpt_finding *f)
{
    (void)f;
    ++*(int *)user;
    return 0;
}

static const ckpt_work one_thread = {.struct_size = sizeof(ckpt_work), .threads = 1};

/* verify reports a malformed storage once, and not again for the tensors that use it. */
static void faults_are_reported_once(void)
{
    static const struct {
        int member;
        ckpt_str bytes;
        int findings;
    } bad[] = {
        {STORAGES, CONSTANT(COMPLETE_STORAGE "\x80\x02](K\x09K\x06K\x01K\x02ta(K\x0aK\x09K\x01K\x01ta."), 1},
        {STORAGES, CONSTANT(COUNT_1 "\x80\x02K\x07."), 1},
        {TENSORS, CONSTANT(COUNT_1 TENSOR("N", "K\x07") SHAPE_2X2 OFFSET_0), 1},
        {TENSORS, CONSTANT(COUNT_1 TENSOR("K\x08", "K\x06") SHAPE_2X2 OFFSET_0), 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[] = "/tmp/ckpt-tar-XXXXXX";
        ckpt_file *file;
        ckpt_error err = {0};
        ckpt_verify_options o = {.struct_size = sizeof o, .how = &one_thread};
        ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
        int nfound = 0, fd = mkstemp(path);
        CU_ASSERT_EQUAL(open_with(bad[i].member, bad[i].bytes, &file, &err), CKPT_EFORMAT);
        CU_ASSERT_FATAL(fd >= 0 && write(fd, archive.data, archive.len) == (ssize_t)archive.len);
        close(fd);
        CU_ASSERT_EQUAL(ckpt_verify(path, &o, count_fault, &nfound, &r, &err), CKPT_OK);
        CU_ASSERT_EQUAL(nfound, bad[i].findings);
        unlink(path);
    }
}

static void too_little_memory_is_an_error(void)
{
    ckpt_status st = CKPT_ENOMEM;
    for (ckpt_limits l = {.struct_size = sizeof l, .max_metadata = 64};
         st != CKPT_OK && l.max_metadata < 100000; l.max_metadata += 16) {
        ckpt_file *file = NULL;
        ckpt_error err = {0};
        limits = &l;
        st = open_with(STORAGES, TEXT(COMPLETE_STORAGE VIEWS("K\x09", "K\x07", "K\x01", "K\x02")), &file,
                       &err);
        CU_ASSERT(st == CKPT_OK || st == CKPT_ENOMEM || st == CKPT_ELIMIT || st == CKPT_EUNKNOWN);
        ckpt_close(file);
    }
    limits = NULL;
    CU_ASSERT_EQUAL(st, CKPT_OK);
}

void suite_torch_tar(void)
{
    UNIT(keys_may_be_text);
    UNIT(truncated_members_are_refused);
    UNIT(the_storage_of_a_tensor_may_not_be_a_tensor);
    UNIT(storage_offsets_beyond_64_bits_are_refused);
    UNIT(members_are_found_by_name_and_type);
    UNIT(faults_are_reported_once);
    UNIT(too_little_memory_is_an_error);
    UNIT(a_valid_archive_is_read);
    UNIT(storages_and_views_are_listed);
    UNIT(malformed_storages_are_refused);
    UNIT(malformed_views_are_refused);
    UNIT(malformed_tensors_are_refused);
}
