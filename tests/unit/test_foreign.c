/* The error about a file that is not a checkpoint names its format. The hint is what to do with the file. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bytes.h"
#include "format/foreign.h"
#include "format/recognize.h"
#include "unit.h"

static void check_refused(struct probe *p, ckpt_status want, const char *what, const char *hint, int line)
{
    ckpt_error err = {0};
    ckpt_status got = format_fail_unrecognized(p, &err);
    bool as_expected = got == want && err.status == want && strstr(err.what, what) && strstr(err.hint, hint);
    if (!as_expected)
        printf("\n    line %d: %s: %s (%s)", line, ckpt_status_name(got), err.what, err.hint);
    CU_ASSERT(as_expected);
}

static void check_file(ckpt_str bytes, ckpt_status want, const char *what, const char *hint, int line)
{
    struct probe p = {.size = 0};
    source *src = source_mem(bytes.ptr, bytes.len, 0);
    CU_ASSERT_FATAL(src && recognize_fill(&p, "file", src, NULL) == CKPT_OK);
    check_refused(&p, want, what, hint, line);
    source_unref(src);
}
#define CHECK_HEAD(bytes, want, what, hint) check_file(TEXT(bytes), want, what, hint, __LINE__)

static void empty_files_and_texts_are_recognized(void)
{
    static const char download_failed[] = "the download failed";
    CHECK_HEAD("", CKPT_EUNKNOWN, "empty file", "get the file again");
    CHECK_HEAD("\0\0\0\0", CKPT_EUNKNOWN, "nothing but zeros", "get the file again");
    CHECK_HEAD("<!DOCTYPE html>", CKPT_EUNKNOWN, "HTML page", download_failed);
    CHECK_HEAD("\xef\xbb\xbf \r\n\t<HTML>", CKPT_EUNKNOWN, "HTML page", download_failed);
    CHECK_HEAD("<head>", CKPT_EUNKNOWN, "HTML page", download_failed);
    CHECK_HEAD("<script>", CKPT_EUNKNOWN, "HTML page", download_failed);
    CHECK_HEAD("<?xml ?>", CKPT_EUNKNOWN, "XML document", "");
    CHECK_HEAD("<?xml ?><a><Error><Code>", CKPT_EUNKNOWN, "XML document", "");
    CHECK_HEAD("<Error/>", CKPT_EUNKNOWN, "not a recognized checkpoint format", "");
    CHECK_HEAD("<?xml ?>\n<Error><Code>", CKPT_EUNKNOWN, "error of a storage server", download_failed);
    CHECK_HEAD("<Error><Code>", CKPT_EUNKNOWN, "error of a storage server", download_failed);
    CHECK_HEAD("Entry not found", CKPT_EUNKNOWN, "error message of a download server", download_failed);
    CHECK_HEAD("{\"error\": 1}", CKPT_EUNKNOWN, "JSON error of a download server", "fetch the file again");
    CHECK_HEAD("{\"message\": 1}", CKPT_EUNKNOWN, "JSON error of a download server", "fetch the file again");
    CHECK_HEAD("{\"a\": 1}", CKPT_EUNKNOWN, "JSON text without a weight_map", "index.json");
    CHECK_HEAD("[1]", CKPT_EUNKNOWN, "JSON text without a weight_map", "index.json");
    CHECK_HEAD("model_checkpoint_path: \"x\"", CKPT_EUNSUPPORTED, "TensorFlow checkpoint state",
               "only names");
    CHECK_HEAD("\xef\xbb\xbf\n model_checkpoint_path: \"x\"", CKPT_EUNSUPPORTED,
               "TensorFlow checkpoint state", "only names");
    CHECK_HEAD("Model_checkpoint_path: \"x\"", CKPT_EUNKNOWN, "it begins", ""); /* TensorFlow refuses it */
    CHECK_HEAD("  \n ", CKPT_EUNKNOWN, "it begins with \"  \\n \"", "");
    CHECK_HEAD("0123456789abcdefg", CKPT_EUNKNOWN, "it begins with \"0123456789abcdef\"", "");
}

static void lfs_pointers_are_recognized(void)
{
    CHECK_HEAD("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", CKPT_EUNKNOWN,
               "the real file has 12 bytes, sha256:ab", "git lfs pull --include file");
    CHECK_HEAD("version https://hawser.github.com/spec/v1\noid sha256:ab\nsize 12", CKPT_EUNKNOWN,
               "has 12 bytes", "");
    CHECK_HEAD("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", CKPT_EUNKNOWN,
               "without its size", "");
    CHECK_HEAD("version https://git-lfs.github.com/spec/v1\nsize 12\n", CKPT_EUNKNOWN, "without its oid", "");
}

/* CHECK_FILE: the error must name the format of the file. CHECK_UNKNOWN: the file must not be recognized. */
#define CHECK_FILE(bytes, what, hint) check_file(TEXT(bytes), CKPT_EUNSUPPORTED, what, hint, __LINE__)
#define CHECK_UNKNOWN(bytes)          check_file(TEXT(bytes), CKPT_EUNKNOWN, "it begins with", "", __LINE__)

/* Protobuf messages have no magic number: they are recognized by their fields, to the last byte. Damaged ONNX
 * models are not recognized. */
static void models_of_other_programs_are_recognized(void)
{
    CHECK_FILE("\x08\x01\x12\x02\x0a\0", "SavedModel", "tf.saved_model.load");
    CHECK_FILE("\x08\x04\x12\x02\x0a\0\xa2\x1f\x01x", "Core ML model", "coremltools");
    CHECK_UNKNOWN("\x08\x08\x12\x07pytorch\x3a\x04\x4a\x02g"); /* the graph begins with an unknown field */
    CHECK_UNKNOWN("\x08\x08\x12\x07pytorch");                  /* no graph */
    CHECK_UNKNOWN("\x08\x08\x3a\x01x\x4d\0\0\0\0");            /* an unknown field */
    CHECK_UNKNOWN("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x3a\0"); /* a version beyond 64 bits */
    CHECK_FILE("\x80\x04\x95\0\0\0\0\0\0\0\0\x8c\x13joblib.numpy_pickle\x94", "joblib dump",
               "ckpt scan file");
    CHECK_FILE("\x78\x9c\xcb\x2a\x2d\x2e\x51\x28\x49\xad\x28\xe1\x02\0\x16\x01\x03\xb6", "zlib-compressed",
               "joblib.load");
    CHECK_UNKNOWN("x^2 + y^2"); /* begins with the bytes of a zlib header, but cannot be inflated */
}

/* What has no magic number is recognized by a few bytes with a meaning: with one changed, it is unknown. */
static void near_misses_are_not_recognized(void)
{
    CHECK_FILE("\x8c\x0d\x04\x09\x03\x02salt", "GnuPG", "gpg -d file");
    CHECK_FILE("\xc3\x0d\x04\x09\x03\x02salt", "GnuPG", "gpg -d file"); /* a packet of the new form */
    CHECK_FILE("\x84\x5e\x03"
               "ABCDEFGH\x12",
               "GnuPG", "gpg -d file");            /* a public key, ECDH */
    CHECK_UNKNOWN("\x8c\x0d\x04\x00\x03\x02salt"); /* no such cipher */
    CHECK_UNKNOWN("\x8c\x0d\x05\x09\x03\x02salt"); /* another version */
    CHECK_UNKNOWN("\x84\x5e\x03"
                  "ABCDEFGH\x05");                                           /* no such algorithm */
    CHECK_UNKNOWN("\x8e\x0d\x04\x09\x03\x02salt");                           /* a length of 4 bytes */
    CHECK_UNKNOWN("\x0a\x1a\x0a\x01w\x12\x15\x08\x02\x12\x05Apple\x1a\x08"); /* no type of MindSpore */
    CHECK_UNKNOWN("\x0a\x1a\x0a\0\x12\x15\x08\x02\x12\x07"
                  "Float32"); /* no tag */
    CHECK_UNKNOWN("\x0a\x1a\x0a\x01w");
    CHECK_UNKNOWN("../a/b\nc");
    CHECK_UNKNOWN("a model.safetensors");
    CHECK_UNKNOWN("!<symlink>\xff\xfe/\0");
    CHECK_UNKNOWN("XSym\n0009\n");
    check_file(TEXT("<?xml <net version="), CKPT_EUNKNOWN, "XML document", "", __LINE__);
    check_file(TEXT("<?xml ?><network version="), CKPT_EUNKNOWN, "XML document", "", __LINE__);
    check_file(TEXT("lmgg\0\0\0\0\xdc\5\0\0"), CKPT_EUNSUPPORTED, "llama.cpp", "", __LINE__); /* cut off */
    check_file(TEXT("{L\0\0\0\0\0\0\0\7learner{"), CKPT_EUNSUPPORTED, "UBJSON", "", __LINE__);
}

/* The class for arrays may be named long after the first bytes, because other objects precede the first. */
static void joblib_dumps_are_recognized_by_a_distant_name(void)
{
    static const char name[] = "cjoblib.numpy_pickle\nNumpyArrayWrapper\n.";
    char bytes[65536] = "\x80\x03X\x70\x17\0\0"; /* BINUNICODE of 6,000 bytes */
    struct probe p = {.size = 0};
    memset(bytes + 7, 'x', sizeof bytes - 7);
    memcpy(bytes + 6007, name, sizeof name - 1);
    source *src = source_mem(bytes, sizeof bytes, 0);
    CU_ASSERT_FATAL(src && recognize_fill(&p, "file", src, NULL) == CKPT_OK);
    CU_ASSERT(recognize_as(&p, SIGN_JOBLIB));
    source_unref(src);
}

/* A format that reads a file must recognize it by the same test as the error for files that none reads. */
static void state_files_of_tensorflow_are_opened(void)
{
    static const char *const beginnings[] = {"", " ", "\n\t", "\xef\xbb\xbf", "\xef\xbb\xbf \r\n"};
    char folder[] = "/tmp/ckpt-foreign-XXXXXX", file[128];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/checkpoint", folder);
    for (size_t i = 0; i < 2 * (sizeof beginnings / sizeof *beginnings); i++) {
        ckpt_file *opened = NULL;
        ckpt_error err = {0};
        FILE *f = fopen(file, "w");
        CU_ASSERT_FATAL(f && fprintf(f, "%smodel_checkpoint_path:\t\"gone\"\n", beginnings[i / 2]) > 0);
        CU_ASSERT_FATAL(fclose(f) == 0);
        CU_ASSERT_EQUAL(ckpt_open(i % 2 ? file : folder, NULL, &opened, &err), CKPT_ENOTFOUND);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "no file of the checkpoint gone"));
    }
    unlink(file);
    rmdir(folder);
}

static void archives_are_recognized_by_their_members(void)
{
    static const struct {
        const char *members[2];
        ckpt_status status;
        const char *words;
    } cases[] = {
        {{NULL, NULL}, CKPT_EUNKNOWN, "zip archive of 0 members"},
        {{"a.npy", "b.npy"}, CKPT_EUNSUPPORTED, "numpy archive"},
        {{"a.npy", "b"}, CKPT_EUNKNOWN, "zip archive of 2 members"},
        {{"config.json", "b"}, CKPT_EUNKNOWN, "zip archive of 2 members"},
        {{"a/saved_model.pb", "b"}, CKPT_EUNSUPPORTED, "zipped TensorFlow SavedModel"},
        {{"a/.data/serialization_id", "b"}, CKPT_ETRUNCATED, "torch archive of 2 records without data.pkl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zip_entry entries[2] = {{.header_offset = 0}};
        zip z = {.entries = entries};
        for (size_t k = 0; k < 2 && cases[i].members[k]; k++)
            entries[z.n++].name = str_c(cases[i].members[k]);
        source *src = source_mem("PK", 2, 0);
        struct probe p = {.path = "file", .size = 2, .src = src, .zip = &z};
        check_refused(&p, cases[i].status, cases[i].words, "", __LINE__);
        source_unref(src);
    }
    struct probe p = {.zip_err = {.status = CKPT_EFORMAT, .what = "no directory"}};
    source *src = source_mem("PK", 2, 0);
    CU_ASSERT_FATAL(src && recognize_fill(&p, "file", src, NULL) == CKPT_OK);
    check_refused(&p, CKPT_EFORMAT, "no directory", "", __LINE__);
    source_unref(src);
}

static void folders_are_recognized_by_their_files(void)
{
    static const struct {
        const char *file;
        ckpt_status status;
        const char *words;
    } cases[] = {
        {"coremldata.bin", CKPT_EUNSUPPORTED, "compiled Core ML model"},
        {"shard-1.bin", CKPT_EUSAGE, "folder with 1 checkpoint: it is not clear"},
        {"model.safetensors", CKPT_EUNKNOWN, "without a recognized checkpoint"},
    };
    char folder[] = "/tmp/ckpt-foreign-XXXXXX", file[128];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    struct probe p = {.path = folder, .is_folder = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, cases[i].file);
        FILE *f = fopen(file, "w");
        CU_ASSERT_FATAL(f && fclose(f) == 0);
        ckpt_str name = str_c(cases[i].file);
        p.names = &name;
        p.nnames = 1;
        check_refused(&p, cases[i].status, cases[i].words, "", __LINE__);
        unlink(file);
    }
    rmdir(folder);
    p.nnames = 0;
    check_refused(&p, CKPT_EUNKNOWN, "without a recognized checkpoint", "",
                  __LINE__);           /* the folder was removed */
    char *long_path = calloc(1, 5001); /* longer than PATH_MAX */
    CU_ASSERT_PTR_NOT_NULL_FATAL(long_path);
    memset(long_path, 'x', 5000);
    p.path = long_path;
    check_refused(&p, CKPT_EUNKNOWN, "without a recognized checkpoint", "", __LINE__);
    free(long_path);
}

void suite_foreign(void)
{
    UNIT(empty_files_and_texts_are_recognized);
    UNIT(lfs_pointers_are_recognized);
    UNIT(models_of_other_programs_are_recognized);
    UNIT(near_misses_are_not_recognized);
    UNIT(joblib_dumps_are_recognized_by_a_distant_name);
    UNIT(state_files_of_tensorflow_are_opened);
    UNIT(archives_are_recognized_by_their_members);
    UNIT(folders_are_recognized_by_their_files);
}
