/* torch's zip archives and legacy files: duplicate record names, several checkpoints in an archive, packages,
 * malformed lists of storages, and a damaged record "byteorder". */
#include <stdio.h>

#include "core/file.h"
#include "format/registry.h"
#include "pickled.h"

#define PICKLED_5        "\x80\x02K\5." /* the pickle of the number 5 */
#define TENSOR_OF_ID(id) "torch._utils._rebuild_tensor_v2(@" id ",0,(2,),(1,),False," ORDERED_DICT ")"

static void check_error(struct test_file made, ckpt_status want, const char *where, const char *words)
{
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_STRING_EQUAL(made.err.where, where);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    if (!strstr(made.err.what, words))
        printf("  found: %s: %s\n", made.err.where, made.err.what);
    close_file(&made);
}

static void duplicate_names_are_refused(void)
{
    static const struct record two_byteorders[] = {{"data.pkl", PICKLED_5, 5},
                                                   {"byteorder", "little", 6},
                                                   {"byteorde2", "little", 6},
                                                   {"version", "3\n", 2}};
    static const struct record two_pickles[] = {{"data.pkl", PICKLED_5, 5}, {"data.pk2", PICKLED_5, 5}};
    struct test_file made = make_archive(two_byteorders, 4, NULL);
    replace_in_file(&made, "archive/byteorde2", "archive/byteorder");
    check_error(made, CKPT_EFORMAT, "archive/byteorder", "2 records have this name, one is allowed");
    made = make_archive(two_pickles, 2, NULL);
    replace_in_file(&made, "archive/data.pk2", "archive/data.pkl");
    check_error(made, CKPT_EFORMAT, "archive/data.pkl", "2 records have this name, one is allowed");
}

static void byte_orders_may_end_in_spaces(void)
{
    struct record r[] = {{"data.pkl", PICKLED_5, 5}, {"byteorder", "little \r\n", 9}, {"version", "3\n", 2}};
    struct test_file made = make_archive(r, 3, NULL);
    check_tensors(&made, "");
    close_file(&made);
    r[1] = (struct record){"byteorder", "  ", 2};
    check_error(make_archive(r, 3, NULL), CKPT_EFORMAT, "archive/byteorder", "it must be little or big");
}

static void several_checkpoints_are_refused(void)
{
    static const struct record r[] = {
        {"readme", "", 0}, {"a/data.pkl", PICKLED_5, 5}, {"b/data.pkl", PICKLED_5, 5}};
    check_error(make_archive(r, 3, NULL), CKPT_EFORMAT, "archive/readme",
                "the folder of the first entry has no \"data.pkl\", but several other folders have one");
    struct test_file made = make_archive(r, 2, NULL); /* without the second data.pkl */
    check_tensors(&made, "");
    close_file(&made);
}

/* make_package - builds and opens a torch.package of the pickles A and B. */
static struct test_file make_package(const char *a, const char *b)
{
    static const float four[] = {1, 2, 3, 4};
    const char *data = (const char *)four;
    buf pickle_a, pickle_b;
    buf_init(&pickle_a, 1 << 16);
    buf_init(&pickle_b, 1 << 16);
    put_pickle(&pickle_b, b);
    put_pickle(&pickle_a, a);
    const struct record r[] = {{".data/extern_modules", "", 0},
                               {".data/0.storage", data, 16},
                               {".data/not.pkl", "", 0},
                               {"m/a.pkl", (char *)pickle_a.data, pickle_a.len},
                               {"m/b.pkl", (char *)pickle_b.data, pickle_b.len},
                               {"m/c.py", "", 0}};
    struct test_file made = make_archive(r, 6, NULL);
    buf_free(&pickle_a);
    buf_free(&pickle_b);
    return made;
}

static void packages_are_read(void)
{
    static const struct record empty[] = {{".data/extern_modules", "", 0}, {"m/c.py", "", 0}};
    static const char w[] = TENSOR_OF_ID("('storage',torch.FloatStorage,0,'cpu',4)");
    struct test_file made = make_package(w, w);
    check_tensors(&made, "m/a.pkl dense float32[2]@0+0;m/b.pkl dense float32[2]@0+0;");
    close_file(&made);
    check_error(make_package(w, TENSOR_OF_ID("('storage',torch.FloatStorage,1,'cpu',4)")), CKPT_ETRUNCATED,
                "archive/.data/1.storage", "the record of a storage of 4 elements is missing");
    made = make_archive(empty, 2, NULL);
    check_tensors(&made, "");
    close_file(&made);
}

/* ------------------------------------------------------------- legacy files */

static void malformed_storage_lists_are_refused(void)
{
    static const char w[] = TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',2)");
    static const char two_storages[] = "\2\0\0\0\0\0\0\0abcdefgh\2\0\0\0\0\0\0\0abcdefgh";
    check_error(make_torch_legacy(w, "[5]", two_storages, 32), CKPT_EFORMAT, "storages",
                "the list of storages must name those of the main pickle, found 5");
    check_error(make_torch_legacy(w, "['1']", two_storages, 32), CKPT_EFORMAT, "storages", "found '1'");
    check_error(make_torch_legacy(w, "['0','0']", two_storages, 32), CKPT_EFORMAT, "storages",
                "storage \"0\" comes twice");
    check_error(make_torch_legacy(w, "'0'", two_storages, 32), CKPT_EFORMAT, "storages",
                "it must be the list of storage keys");
    check_error(
        make_torch_legacy(TENSOR_OF_ID("('storage',torch.DoubleStorage,'0','cpu',4611686018427387904)"),
                          "['0']", "\0\0\0\0\0\0\0\x40", 8),
        CKPT_EFORMAT, "storages", "storage \"0\" of 4611686018427387904 elements does not fit 64 bits");
    /* accepted: an integer key, and a persistent id of a module */
    struct test_file made = make_torch_legacy(
        "[" TENSOR_OF_ID("('storage',torch.FloatStorage,7,'cpu',2)") ",@('module',my.Net,'f','s')]", "['7']",
        two_storages, 16);
    check_tensors(&made, "0 dense float32[2]@0+0;");
    close_file(&made);
}

/* If the record "byteorder" is damaged, its length still shows whether it was "little" or "big". */
static void a_damaged_byteorder_is_recognized_by_its_length(void)
{
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        struct test_file made = make_torch_zip_of("{'w':" FLOAT_TENSOR "}", big_endian, NULL);
        const char *word = big_endian ? "big" : "little";
        for (size_t at = 0; at + 9 < made.size; at++)
            if (memcmp(made.bytes + at, word, strlen(word)) == 0)
                made.bytes[at] = '?';
        ckpt_file *f = NULL;
        ckpt_error err;
        const struct opening o = {
            .path = "made", .src = source_mem(made.bytes, made.size, 0), .how = OPEN_SALVAGE};
        CU_ASSERT_EQUAL_FATAL(format_open(&o, &f, &err), CKPT_OK);
        float v[4] = {0};
        CU_ASSERT_EQUAL(ckpt_tensor_read(f, 0, 0, 4, v, &err), CKPT_OK);
        unit_to_host_order(v, 4, 4);
        CU_ASSERT_EQUAL(v[0] == 1, !big_endian); /* the stored numbers are little-endian in any case */
        bool has_notice = false;
        for (size_t i = 0; i < f->notices.n; i++)
            has_notice |= strstr(f->notices.text[i], "byteorder is damaged") &&
                          strstr(f->notices.text[i], word);
        CU_ASSERT(has_notice);
        file_free(f);
        close_file(&made);
    }
}

void suite_torch_archive(void)
{
    UNIT(duplicate_names_are_refused);
    UNIT(byte_orders_may_end_in_spaces);
    UNIT(several_checkpoints_are_refused);
    UNIT(packages_are_read);
    UNIT(malformed_storage_lists_are_refused);
    UNIT(a_damaged_byteorder_is_recognized_by_its_length);
}
