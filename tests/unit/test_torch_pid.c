/* Persistent ids of storages, as tuples and as text, and storages in nested streams: valid and malformed
 * ones. The pickles are written as texts in the notation of put_pickle in pickled.h. */
#include <stdio.h>

#include "pickled.h"

static const char wrong_id[] = "is in the place of ('storage', class, key, location, numel)";

#define TENSOR_OF_ID(id)   "torch._utils._rebuild_tensor_v2(^@" id ",0,(2,),(1,),False," ORDERED_DICT ")"
#define TENSOR_OF(storage) "torch._utils._rebuild_tensor_v2(" storage ",0,(2,),(1,),False," ORDERED_DICT ")"

static void ids_may_be_tuples(void)
{
    check_opens(TENSOR_OF_ID("('storage',torch.FloatStorage,0,'cpu',4)"), " dense float32[2]@0+0;");
    check_opens(TENSOR_OF_ID("('storage',torch.FloatStorage,'0',None,4)"), " dense float32[2]@0+0;");
    check_opens(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',4,None)"), " dense float32[2]@0+0;");
    check_opens(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',4,('v',1,3))"),
                " dense float32[2]@0+1;");
    check_refused("torch._utils._rebuild_tensor(^5,0,(),())", CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu')"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("['storage',torch.FloatStorage,'0','cpu',4]"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("(1,torch.FloatStorage,'0','cpu',4)"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('module',torch.FloatStorage,'0','cpu',4)"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage','FloatStorage','0','cpu',4)"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,0.5,'cpu',4)"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',-4)"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu','4')"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',4,('v',-1,3))"), CKPT_EFORMAT,
                  wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',4,('v',1))"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("('storage',torch.FloatStorage,'0','cpu',4,('v',1,4))"), CKPT_EFORMAT,
                  "storage view [1, +4) is outside of its storage of 4 elements");
    check_refused(TENSOR_OF_ID("('storage',torch.OddStorage,'0','cpu',4)"), CKPT_EFORMAT,
                  "storage class \"OddStorage\" is none of torch's");
    check_refused(TENSOR_OF_ID("('storage',torch.DoubleStorage,'0','cpu',4611686018427387904)"), CKPT_EFORMAT,
                  "storage \"0\" of 4611686018427387904 elements does not fit 64 bits");
}

/* In protocol 0, persistent ids are text. "\27" is an apostrophe. */
static void ids_may_be_text(void)
{
    check_opens(
        TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>, \\270\\27, \\27cpu\\27, 4)'"),
        " dense float32[2]@0+0;");
    check_opens(
        TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>, \\270\\27, \\27cpu\\27, 4'"),
        " dense float32[2]@0+0;");
    check_refused(TENSOR_OF_ID("'(\\27module\\27)'"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("'(\\27storage\\27, <class \\27'"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage'"), CKPT_EFORMAT, wrong_id);
    check_refused(TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>'"), CKPT_EFORMAT,
                  wrong_id);
    check_refused(TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>, \\270\\27, cpu'"),
                  CKPT_EFORMAT, wrong_id);
    check_refused(
        TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>, \\270\\27, \\27cpu\\27'"),
        CKPT_EFORMAT, wrong_id);
    check_refused(
        TENSOR_OF_ID("'(\\27storage\\27, <class \\27torch.FloatStorage\\27>, \\270\\27, \\27cpu\\27, x)'"),
        CKPT_EFORMAT, wrong_id);
}

static void ids_of_other_objects_are_accepted(void)
{
    check_opens("[@('module',my.Net,'net.py','source'),@5,@(1,2),@'text']", "");
}

/* A location that is not UTF-8 could not be written as text. */
static void locations_that_are_not_utf8_are_dropped(void)
{
    struct test_file made = make_torch_legacy(TENSOR_OF("@('storage',torch.FloatStorage,'0',s'\\ff',4)"),
                                              "['0']", "\4\0\0\0\0\0\0\0abcdefghijklmnop", 24);
    check_tensors(&made, " dense float32[2]@0+0;");
    ckpt_storage storage = CKPT_INIT(ckpt_storage);
    CU_ASSERT_FATAL(ckpt_storage_at(made.file, 0, &storage));
    CU_ASSERT_EQUAL(storage.location.len, 0);
    close_file(&made);
}

/* ------------------------------------------------------- streams in a pickle */

/* LEGACY_STREAM - a file in the legacy format. LEGACY_HEADER - its magic number, protocol version and
 * sys_info. STORAGE_ID - the persistent id of storage "0". STORAGE_KEYS - the list of all storage keys: "0".
 * STORAGE_DATA - the number of elements of storage "0", which is 2, and their bytes. */
#define LEGACY_HEADER "\\80\\02\\8a\\0a\\6c\\fc\\9c\\46\\f9\\20\\6a\\a8\\50\\19.\\80\\02M\\e9\\03.\\80\\02}."
#define LEGACY_STREAM(pid, keys, data)                                                                       \
    "torch.storage._load_from_bytes(b'" LEGACY_HEADER "\\80\\02" pid ".\\80\\02" keys "." data "')"
#define STORAGE_ID                                                                                           \
    "(X\\07\\00\\00\\00storagectorch\\0aFloatStorage\\0aX\\01\\00\\00\\000X\\03\\00\\00\\00cpuK\\02NtQ"
#define STORAGE_KEYS    "(X\\01\\00\\00\\000l"
#define STORAGE_DATA    "\\02\\00\\00\\00\\00\\00\\00\\00\\00\\00\\80\\3f\\00\\00\\00\\40"
#define FLOATS_IN_BYTES LEGACY_STREAM(STORAGE_ID, STORAGE_KEYS, STORAGE_DATA)

static void check_pickle(const char *text, const char *want)
{
    struct test_file made = make_pickle(text);
    check_tensors(&made, want);
    close_file(&made);
}

static void check_bad_pickle(const char *text, ckpt_status want, const char *words)
{
    struct test_file made = make_pickle(text);
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    if (!strstr(made.err.what, words))
        printf("  found: %s: %s\n", made.err.where, made.err.what);
    close_file(&made);
}

static void storages_may_be_nested_streams(void)
{
    float v[2];
    check_pickle("[" TENSOR_OF(FLOATS_IN_BYTES) "]", "0 dense float32[2]@0+0;");
    check_pickle("[#1=" FLOATS_IN_BYTES "," TENSOR_OF("#1") "," TENSOR_OF(FLOATS_IN_BYTES) "]",
                 "0 storage float32[2]@0+0;1 dense float32[2]@0+0;2 dense float32[2]@1+0;");
    struct test_file made = make_pickle("[" TENSOR_OF(FLOATS_IN_BYTES) "]");
    CU_ASSERT_EQUAL_FATAL(made.status, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 2, v, NULL), CKPT_OK);
    unit_to_host_order(v, 2, 4);
    CU_ASSERT(v[0] == 1 && v[1] == 2);
    close_file(&made);
}

static void malformed_nested_streams_are_refused(void)
{
    check_bad_pickle("[torch.storage._load_from_bytes(5)]", CKPT_EFORMAT,
                     "torch.storage._load_from_bytes is given a int, it must be bytes");
    check_bad_pickle("[" LEGACY_STREAM("K\\05", "]", "") "]", CKPT_EFORMAT,
                     "torch.storage._load_from_bytes is given a stream of another object than a storage");
    check_bad_pickle("[" LEGACY_STREAM(STORAGE_ID, "]", STORAGE_DATA) "]", CKPT_ETRUNCATED,
                     "storage \"0\" is not in the stream");
    check_bad_pickle("[" LEGACY_STREAM(STORAGE_ID, STORAGE_KEYS, "\\02") "]", CKPT_ETRUNCATED, "");
    check_bad_pickle("[" TENSOR_OF(LEGACY_STREAM("K\\05", "]", "")) "]", CKPT_EFORMAT,
                     "another object than a storage");
    check_bad_pickle("[torch.storage._load_from_bytes(_codecs.encode('\\c4\\80','latin1'))]", CKPT_EFORMAT,
                     "above U+00FF");
}

void suite_torch_pid(void)
{
    UNIT(ids_may_be_tuples);
    UNIT(ids_may_be_text);
    UNIT(ids_of_other_objects_are_accepted);
    UNIT(locations_that_are_not_utf8_are_dropped);
    UNIT(storages_may_be_nested_streams);
    UNIT(malformed_nested_streams_are_refused);
}
