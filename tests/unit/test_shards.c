/* Sharded checkpoints: sets are written byte for byte as by huggingface_hub, and an index that does not match
 * its shards is refused. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plan.h"
#include "pickled.h"
#include "small_files.h"
#include "unit.h"

static ckpt_error err;
static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

/* path_in_dir - returns the path of the file NAME in dir, which is valid until the second call after this
 * one. */
static const char *path_in_dir(const char *name)
{
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static int count_files(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

static void empty_dir(const char *path)
{
    char file[1024];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(file, sizeof file, "%s/%s", path, e->d_name);
            if (unlink(file) != 0) {
                empty_dir(file);
                (void)rmdir(file);
            }
        }
    if (d)
        closedir(d);
}

static void remove_dir(void)
{
    empty_dir(dir);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
}

static size_t read_file(const char *path, char *text, size_t cap)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, cap, f) : 0;
    if (f)
        fclose(f);
    return n;
}

/* same_file - returns whether two files are not empty and hold the same bytes. */
static bool same_file(const char *a, const char *b)
{
    static char bytes_a[1 << 16], bytes_b[1 << 16];
    size_t size_a = read_file(a, bytes_a, sizeof bytes_a), size_b = read_file(b, bytes_b, sizeof bytes_b);
    bool same = size_a > 0 && size_a == size_b && memcmp(bytes_a, bytes_b, size_a) == 0;
    if (!same)
        printf(" [%s and %s differ] ", a, b);
    return same;
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(path_in_dir(name), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* write_safetensors - writes the file NAME: HEADER, then SIZE zero bytes of data. */
static void write_safetensors(const char *name, const char *header, size_t size)
{
    static unsigned char bytes[1 << 12];
    size_t n = strlen(header);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (unsigned char)n;
    bytes[1] = (unsigned char)(n >> 8);
    memcpy(bytes + 8, header, n);
    write_file(name, bytes, 8 + n + size);
}

static ckpt_status open_index(const char *index, ckpt_file **f)
{
    write_file("model.safetensors.index.json", index, strlen(index));
    return ckpt_open(path_in_dir("model.safetensors.index.json"), NULL, f, &err);
}

#define A_HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
#define B_HEADER "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}"

static void write_two_shards(void)
{
    make_dir();
    write_safetensors("1.safetensors", A_HEADER, 2);
    write_safetensors("2.safetensors", B_HEADER, 3);
}

/* CHECK_REFUSED - checks that opening INDEX fails with CODE, and that the message contains WORDS. */
#define CHECK_REFUSED(index, code, words)                                                                    \
    do {                                                                                                     \
        ckpt_file *unused;                                                                                   \
        CU_ASSERT_EQUAL(open_index(index, &unused), code);                                                   \
        if (!strstr(err.what, words))                                                                        \
            printf(" [%s] ", err.what);                                                                      \
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));                                                     \
    } while (0)

/* ---------------------------------------------------------------- reading */

static void tensors_come_in_the_order_of_the_weight_map(void)
{
    ckpt_file *f;
    write_two_shards();
    CU_ASSERT_EQUAL_FATAL(open_index("{\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"},"
                                     "\"metadata\":{\"total_size\":5}}",
                                     &f),
                          CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(f), 2);
    CU_ASSERT(strcmp(ckpt_tensor_name(f, 0).ptr, "b") == 0 && strcmp(ckpt_tensor_name(f, 1).ptr, "a") == 0);
    CU_ASSERT_EQUAL(ckpt_value_tensor(tensor_at(f, 1).value), 1);
    CU_ASSERT(str_is(storage_at(f, tensor_at(f, 0).storage).file, "2.safetensors"));
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(f), "hf-shards");
    CU_ASSERT_PTR_NULL(ckpt_notice_at(f, 0));
    CU_ASSERT(ckpt_file_bytes(f) > 100);
    ckpt_close(f);
    remove_dir();
}

static void an_inconsistent_index_is_refused(void)
{
    write_two_shards();
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}}", CKPT_ENOTFOUND,
                  "shard 3.safetensors is missing (1 of 2 are)");
    CU_ASSERT_EQUAL(err.offset, 39); /* the offset of the shard's name in the index */
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"2.safetensors\",\"b\":\"2.safetensors\"}}", CKPT_EFORMAT,
                  "\"a\" in 2.safetensors, which does not have it");
    CU_ASSERT_EQUAL(err.offset, 15); /* the offset of "a" */
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"../1.safetensors\"}}", CKPT_EFORMAT, "leaves the folder");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"/etc/passwd\"}}", CKPT_EFORMAT, "leaves the folder");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"x/..\"}}", CKPT_EFORMAT, "leaves the folder");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"\"}}", CKPT_EFORMAT, "shard name \"\" is empty");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\\u0000\"}}", CKPT_EFORMAT,
                  "shard name \"1.safetensors\" goes on after a NUL");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"..\\\\1.safetensors\"}}", CKPT_EFORMAT, "has a backslash");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}", CKPT_EFORMAT,
                  "\"a\" twice");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\" 2}}", CKPT_EFORMAT,
                  "found '2', allowed: ',' or '}'");
    CHECK_REFUSED("{\"weight_map\":{\"a\":1}}", CKPT_EFORMAT, "must be the name of a file");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\"}", CKPT_ETRUNCATED, "ends");
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", CKPT_EFORMAT,
                  "an index itself");
    remove_dir();
}

/* Opening a FIFO would block forever. */
static void a_shard_that_is_a_fifo_is_refused(void)
{
    ckpt_file *f = NULL;
    make_dir();
    CU_ASSERT_EQUAL(mkfifo(path_in_dir("a.safetensors"), 0600), 0);
    CHECK_REFUSED("{\"weight_map\":{\"w\":\"a.safetensors\"}}", CKPT_EFORMAT, "no regular file");
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "put the file itself in its place"));
    empty_dir(dir);
    CU_ASSERT_EQUAL(mkfifo(path_in_dir("model.safetensors"), 0600), 0);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
    remove_dir();
}

static void one_tensor_in_two_shards_is_refused(void)
{
    write_two_shards();
    write_safetensors("2.safetensors", A_HEADER, 2);
    write_safetensors("3.safetensors", B_HEADER, 3);
    ckpt_file *f;
    /* 2.safetensors has "a" too, but is ignored, because weight_map does not list that file */
    CU_ASSERT_EQUAL_FATAL(
        open_index(
            "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"},\"x\":[\"2.safetensors\"]}",
            &f),
        CKPT_OK);
    ckpt_close(f);
    /* an entry of a header may also be the array [dtype, shape, data_offsets] */
    write_safetensors("3.safetensors", "{\"b\":[\"U8\",[1],[0,1]],\"a\":[\"U8\",[1],[1,2]]}", 2);
    CHECK_REFUSED("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}}", CKPT_EFORMAT,
                  "\"a\" is in two shards, 1.safetensors and 3.safetensors");
    remove_dir();
}

static void a_malformed_shard_is_refused_with_its_offset_in_the_index(void)
{
    static const struct {
        const char *content;
        ckpt_status status;
        const char *words;       /* words of the message */
        const char *at_in_index; /* the text in the index where the error is */
    } malformed_shards[] = {
        {"{'b':" FLOAT_TENSOR ",'c':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}", CKPT_EFORMAT,
         "shard 2.bin has two entries \"b\", one is allowed", "\"2.bin"},
        {"{'b':" FLOAT_TENSOR ",3:" FLOAT_TENSOR "}", CKPT_EUNSUPPORTED,
         "shard 2.bin is not a mapping of names to tensors", "\"2.bin"},
        {"{'b':" FLOAT_TENSOR ",'a':" FLOAT_TENSOR "}", CKPT_EFORMAT,
         "\"a\" is in two shards, 1.safetensors and 2.bin", "\"a\""},
        {"[" FLOAT_TENSOR "," FLOAT_TENSOR "]", CKPT_EFORMAT,
         "the weight_map lists \"b\" in 2.bin, which does not have it", "\"b\""},
    };
    static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.bin\"}}";
    make_dir();
    write_safetensors("1.safetensors", A_HEADER, 2);
    for (size_t i = 0; i < sizeof malformed_shards / sizeof *malformed_shards; i++) {
        struct test_file made = make_torch_zip(malformed_shards[i].content);
        write_file("2.bin", made.bytes, made.size);
        close_file(&made);
        CHECK_REFUSED(index, malformed_shards[i].status, malformed_shards[i].words);
        CU_ASSERT_EQUAL(err.offset, (uint64_t)(strstr(index, malformed_shards[i].at_in_index) - index));
        CU_ASSERT(err.found[0] && err.allowed[0]);
    }
    remove_dir();
}

static void tensors_missing_from_the_index_are_read_with_a_notice(void)
{
    ckpt_file *f;
    write_two_shards();
    write_safetensors("1.safetensors", "{\"a\":[\"U8\",[1],[0,1]],\"more\":[\"U8\",[1],[1,2]]}", 2);
    CU_ASSERT_EQUAL_FATAL(open_index("{\"metadata\":{\"total_size\":77},"
                                     "\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}",
                                     &f),
                          CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 3);
    CU_ASSERT(ckpt_tensor_find(f, str_of("more", 4)) == 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ckpt_notice_at(f, 1));
    CU_ASSERT_PTR_NOT_NULL(strstr(ckpt_notice_at(f, 0), "\"more\""));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(ckpt_notice_at(f, 1), "total_size in the index is 77, its tensors have 5 bytes"));
    ckpt_close(f);
    remove_dir();
}

/* open_wanted - opens the set in dir, of which the tensor NAME is wanted. */
static ckpt_status open_wanted(const char *name, ckpt_file **f)
{
    const ckpt_open_options o = {.struct_size = sizeof o, .wanted = &name, .nwanted = 1};
    return ckpt_open_with(dir, &o, f, &err);
}

static void only_shards_with_wanted_tensors_are_read(void)
{
    static const char index[] = "{\"metadata\":{\"total_size\":5},\"weight_map\":{\"a\":\"1.safetensors\","
                                "\"b\":\"2.safetensors\",\"gone\":\"1.safetensors\"}}";
    static const char *const wanted[] = {"b", "b[0]", "b[1:2][0]"};
    ckpt_file *f;
    write_two_shards();
    write_file("1.safetensors", "not a shard", 11);
    write_file("model.safetensors.index.json", index, strlen(index));
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(open_wanted(wanted[i], &f), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_tensor_count(f), 1);
        CU_ASSERT_EQUAL(ckpt_tensor_find(f, str_of("b", 1)), 0);
        CU_ASSERT_PTR_NULL(ckpt_notice_at(f, 0));
        ckpt_close(f);
    }
    CU_ASSERT_NOT_EQUAL(open_wanted(wanted[2], &f), CKPT_OK);
    CU_ASSERT_NOT_EQUAL(open_wanted("unlisted", &f), CKPT_OK); /* all shards are read */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.file, "1.safetensors"));
    write_safetensors("1.safetensors", A_HEADER, 2);
    CU_ASSERT_EQUAL(open_wanted("gone", &f), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(err.what, "the weight_map lists \"gone\" in 1.safetensors, which does not have it"));
    CU_ASSERT_EQUAL(err.offset, (uint64_t)(strstr(index, "\"gone\"") - index));
    CU_ASSERT_EQUAL(unlink(path_in_dir("1.safetensors")), 0);
    CU_ASSERT_EQUAL(open_wanted("a", &f), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(open_wanted("unlisted", &f), CKPT_ENOTFOUND); /* all shards are read */
    CU_ASSERT_EQUAL_FATAL(open_wanted("b", &f), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 1);
    ckpt_close(f);
    remove_dir();
}

static void a_tie_recorded_in_the_metadata_is_listed(void)
{
    ckpt_file *f;
    write_two_shards();
    write_safetensors("1.safetensors", "{\"__metadata__\":{\"tied\":\"a\"},\"a\":[\"U8\",[2],[0,2]]}", 2);
    CU_ASSERT_EQUAL_FATAL(
        open_index(
            "{\"weight_map\":{\"a\":\"1.safetensors\",\"tied\":\"1.safetensors\",\"b\":\"2.safetensors\"}}",
            &f),
        CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 3);
    CU_ASSERT_EQUAL(tensor_at(f, 2).alias_of, 0);
    CU_ASSERT_PTR_NULL(ckpt_notice_at(f, 0));
    ckpt_close(f);
    remove_dir();
}

static void torch_shards_keep_their_ties(void)
{
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_bin_sharded");
    uint32_t tied = ckpt_tensor_find(f, str_of("tied", 4)),
             weight = ckpt_tensor_find(f, str_of("fc1.weight", 10));
    CU_ASSERT(tied != CKPT_NO_TENSOR && tensor_at(f, tied).alias_of == weight);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        CU_ASSERT_EQUAL(ckpt_value_tensor(tensor_at(f, i).value),
                        i == tied ? weight : i); /* tied names share a tensor object */
    CU_ASSERT_PTR_NOT_NULL(f->loading.by);
    close_open_files();
}

static void a_folder_opens_the_model_file_in_it(void)
{
    ckpt_file *f;
    make_dir();
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EUNKNOWN);
    write_safetensors("model.safetensors", A_HEADER, 2);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(f), "safetensors");
    CU_ASSERT_PTR_NULL(ckpt_notice_at(f, 0));
    ckpt_close(f);
    write_safetensors("pytorch_model.bin", B_HEADER, 3);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(ckpt_tensor_name(f, 0).ptr, "a");
    CU_ASSERT_PTR_NOT_NULL(ckpt_notice_at(f, 0));
    ckpt_close(f);
    remove_dir();
}

/* transformers tries model.safetensors, its index, pytorch_model.bin and its index, in this order. Here they
 * are added in reverse order, so that each is loaded as soon as it is added. */
static void a_folder_with_several_copies_opens_the_one_that_transformers_loads(void)
{
    static const struct {
        const char *name, *content, *first_tensor;
        size_t data_size; /* bytes of data after the header; 0: the content is an index */
    } added[] = {{"pytorch_model.bin.index.json",
                  "{\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}}", "b", 0},
                 {"pytorch_model.bin", A_HEADER, "a", 2},
                 {"model.safetensors.index.json",
                  "{\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}}", "b", 0},
                 {"model.safetensors", A_HEADER, "a", 2}};
    ckpt_file *f;
    write_two_shards();
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        if (added[i].data_size)
            write_safetensors(added[i].name, added[i].content, added[i].data_size);
        else
            write_file(added[i].name, added[i].content, strlen(added[i].content));
        CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(ckpt_tensor_name(f, 0).ptr, added[i].first_tensor);
        CU_ASSERT((ckpt_notice_at(f, 0) != NULL) == (i > 0));
        ckpt_close(f);
    }
    remove_dir();
}

static void two_safetensors_indexes_are_refused_as_ambiguous(void)
{
    static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\"}}";
    ckpt_file *f;
    write_two_shards();
    write_file("model.safetensors.index.json", index, sizeof index - 1);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    ckpt_close(f);
    write_file("model.safetensors.index.fp16.json", index, sizeof index - 1);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EUSAGE);
    remove_dir();
}

/* ---------------------------------------------------------------- writing */

static ckpt_status write_set(ckpt_file *f, const char *path, ckpt_write_options o, ckpt_write_result *r)
{
    ckpt_plan *plan;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    o.no_sync = true;
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    ckpt_status st = ckpt_plan_write(plan, path, &o, &result, &err);
    if (r)
        *r = result;
    ckpt_plan_free(plan);
    return st;
}

static void sets_of_huggingface_hub_are_reproduced_byte_for_byte(void)
{
    static const char *const names[] = {"model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors", "model.safetensors.index.json"};
    char theirs[1024];
    for (int from_bin = 0; from_bin < 2; from_bin++) { /* the set of .bin files has tied tensors */
        make_dir();
        ckpt_file *f = open_corpus_file(from_bin ? "torch/t215/eco/hub_bin_sharded"
                                                 : "torch/t215/eco/hub_safetensors_sharded");
        CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"),
                                  (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                       .format = "safetensors",
                                                       .max_shard = 100},
                                  NULL),
                        CKPT_OK);
        for (int i = 0; i < 4; i++) {
            char ours[64];
            snprintf(theirs, sizeof theirs, "torch/t215/eco/hub_safetensors_sharded/%s", names[i]);
            snprintf(ours, sizeof ours, "set/%s", names[i]);
            CU_ASSERT(same_file(path_in_dir(ours), unit_corpus_path(theirs)));
        }
        CU_ASSERT_EQUAL(count_files(path_in_dir("set")), 4);
        if (from_bin) {
            CU_ASSERT_EQUAL(write_set(f, path_in_dir("bin"),
                                      (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                           .format = "torch-zip",
                                                           .max_shard = 100},
                                      NULL),
                            CKPT_OK);
            CU_ASSERT(
                same_file(path_in_dir("bin/pytorch_model.bin.index.json"),
                          unit_corpus_path("torch/t215/eco/hub_bin_sharded/pytorch_model.bin.index.json")));
            CU_ASSERT_EQUAL(count_files(path_in_dir("bin")), 4);
        }
        close_open_files();
        remove_dir();
    }
}

static void torch_shards_are_read_back(void)
{
    ckpt_file *f = open_corpus_file("torch/t215/tied.pt"), *reopened;
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    make_dir();
    CU_ASSERT_EQUAL_FATAL(write_set(f, path_in_dir("m.bin"),
                                    (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                         .format = "torch-zip",
                                                         .max_shard = 1},
                                    &r),
                          CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, 1); /* all tensors share one storage, so they stay in one file */
    f = open_corpus_file("torch/t215/state_dict.pt");
    CU_ASSERT_EQUAL_FATAL(write_set(f, path_in_dir("n.bin"),
                                    (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                         .format = "torch-zip",
                                                         .max_shard = 1},
                                    &r),
                          CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, ckpt_tensor_count(f) + 1); /* a shard for each, and the index */
    CU_ASSERT_EQUAL(r.tensors, ckpt_tensor_count(f));
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path_in_dir("n.bin.index.json"), NULL, &reopened, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(reopened), ckpt_tensor_count(f));
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor a = tensor_at(f, i), b = tensor_at(reopened, i);
        char elements_a[4096], elements_b[4096];
        CU_ASSERT(str_eq(a.name, b.name) && a.nbytes == b.nbytes && a.nbytes <= sizeof elements_a);
        CU_ASSERT_EQUAL(ckpt_tensor_read(f, i, 0, a.elements, elements_a, &err), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_tensor_read(reopened, i, 0, b.elements, elements_b, &err), CKPT_OK);
        CU_ASSERT(memcmp(elements_a, elements_b, (size_t)a.nbytes) == 0);
    }
    CU_ASSERT_PTR_NULL(ckpt_notice_at(reopened, 0));
    CU_ASSERT_EQUAL(
        write_set(reopened, path_in_dir("merged.bin"), (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r),
        CKPT_OK); /* merges the shards into one file */
    ckpt_close(reopened);
    close_open_files();
    remove_dir();
}

/* same_set - opens the set at INDEX, and returns whether it has the tensors of F, with the same bytes. If
 * REMOVE_SHARD, removes one shard after the set was opened. Reading its tensor may then fail with
 * CKPT_ECHANGED, and same_set returns false. */
static bool same_set(ckpt_file *f, const char *index, bool remove_shard)
{
    ckpt_file *reopened = NULL;
    char bytes_a[4096], bytes_b[4096];
    bool same = true;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(index, NULL, &reopened, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(reopened), ckpt_tensor_count(f));
    if (remove_shard)
        CU_ASSERT_EQUAL(unlink(path_in_dir("n-00020-of-00025.safetensors")), 0);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor a = tensor_at(f, i), b = tensor_at(reopened, ckpt_tensor_find(reopened, a.name));
        CU_ASSERT_FATAL(a.nbytes == b.nbytes && a.nbytes <= sizeof bytes_a);
        CU_ASSERT_EQUAL(ckpt_tensor_read(f, i, 0, a.elements, bytes_a, &err), CKPT_OK);
        ckpt_status st = ckpt_tensor_read(reopened, ckpt_tensor_find(reopened, a.name), 0, b.elements,
                                          bytes_b, &err);
        CU_ASSERT(st == CKPT_OK || (remove_shard && st == CKPT_ECHANGED));
        same = same && st == CKPT_OK && memcmp(bytes_a, bytes_b, (size_t)a.nbytes) == 0;
    }
    ckpt_close(reopened);
    return same;
}

/* With a low RLIMIT_NOFILE, most shards are opened again for each read. */
static void a_set_of_more_shards_than_the_limit_on_open_files_is_read(void)
{
    static const char *const format[] = {"safetensors", "torch-zip"};
    static const char *const suffix[] = {"safetensors", "bin"};
    struct rlimit old_limit, limit_of_16;
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    char index[80], name[64];
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    limit_of_16 = (struct rlimit){16, old_limit.rlim_max};
    for (int i = 1; i >= 0; i--) {
        ckpt_file *f = open_corpus_file("torch/t215/many_tensors.pt");
        make_dir();
        snprintf(name, sizeof name, "n.%s", suffix[i]);
        snprintf(index, sizeof index, "%s.index.json", name);
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit_of_16), 0);
        CU_ASSERT_EQUAL_FATAL(write_set(f, path_in_dir(name),
                                        (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                             .format = format[i],
                                                             .max_shard = 1},
                                        &r),
                              CKPT_OK);
        CU_ASSERT(r.noutputs == ckpt_tensor_count(f) + 1 && r.noutputs == 26); /* 25 shards and the index */
        CU_ASSERT(same_set(f, path_in_dir(index), false));
        if (i == 0) { /* the set of safetensors */
            CU_ASSERT(!same_set(f, path_in_dir(index), true));
        }
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
        close_open_files();
        remove_dir();
    }
}

/* check_split - writes tensors of the SIZES, one digit each, to shards of at most MAX bytes. Checks that the
 * numbers of their shards are WANT, one digit each. */
static void check_split(const char *sizes, uint64_t max, const char *want)
{
    char header[1024], data[256] = {0}, got[64] = "";
    size_t n = 1, at = 0, count = strlen(sizes);
    header[0] = '{';
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(sizes[i] - '0');
        n += (size_t)snprintf(header + n, sizeof header - n, "%s\"t%zu\":[\"U8\",[%zu],[%zu,%zu]]",
                              i ? "," : "", i, size, at, at + size);
        at += size;
    }
    snprintf(header + n, sizeof header - n, "}");
    ckpt_file *f = open_safetensors(header, data, at), *reopened;
    make_dir();
    CU_ASSERT_EQUAL_FATAL(
        write_set(f, path_in_dir("x.safetensors"),
                  (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .max_shard = max}, NULL),
        CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path_in_dir("x.safetensors.index.json"), NULL, &reopened, &err), CKPT_OK);
    for (size_t i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "t%zu", i);
        const ckpt_tensor t = tensor_at(reopened, ckpt_tensor_find(reopened, str_c(name)));
        ckpt_str file = storage_at(reopened, t.storage).file;
        CU_ASSERT(str_starts(file, str_of("x-0000", 6)));
        got[i] = file.ptr[6];
    }
    if (strcmp(got, want) != 0)
        printf(" [%s: %s, not %s] ", sizes, got, want);
    CU_ASSERT_STRING_EQUAL(got, want);
    ckpt_close(reopened);
    close_open_files();
    remove_dir();
}

static void shards_are_split_as_huggingface_hub_does(void)
{
    check_split("662622", 8, "122334");
    check_split("333", 3, "123");
    /* a tensor larger than MAX is put into a shard of its own, with the next number; the shard that is being
     * filled gets its number later, when it is full */
    check_split("2922", 5, "2123");
    check_split("192", 5, "212");
}

static void a_single_shard_has_no_number(void)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = open_corpus_file("torch/t215/tied_embedding.pt");
    make_dir();
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"),
                              (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                   .format = "safetensors",
                                                   .max_shard = 1000},
                              &r),
                    CKPT_OK);
    CU_ASSERT(r.noutputs == 1 && r.naliases == 1);
    CU_ASSERT_EQUAL(access(path_in_dir("set/model.safetensors"), F_OK), 0);
    CU_ASSERT_EQUAL(count_files(path_in_dir("set")), 1);
    close_open_files();
    remove_dir();
}

static void a_set_is_written_completely_or_not_at_all(void)
{
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_safetensors_sharded");
    make_dir();
    write_file("model-00003-of-00003.safetensors", "old", 3);
    ckpt_write_options o = {.struct_size = sizeof o, .format = "safetensors", .max_shard = 100};
    CU_ASSERT_EQUAL(write_set(f, dir, o, NULL), CKPT_EEXIST);
    CU_ASSERT_EQUAL(count_files(dir), 1);
    o.force = true;
    CU_ASSERT_EQUAL(write_set(f, dir, o, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(count_files(dir), 4);
    CU_ASSERT_EQUAL(write_set(f, "-", o, NULL), CKPT_EUSAGE);
    o.dry_run = true;
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("dry"), o, NULL), CKPT_OK);
    CU_ASSERT_NOT_EQUAL(access(path_in_dir("dry"), F_OK), 0);
    close_open_files();
    f = open_corpus_file("torch/t215/dtype_complex128.pt"); /* safetensors has no complex128 */
    o.dry_run = false;
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("none"), o, NULL), CKPT_ELOSSY);
    CU_ASSERT_NOT_EQUAL(access(path_in_dir("none"), F_OK), 0);
    close_open_files();
    remove_dir();
}

/* The backup link of a file NAME is called ".NAME.ckpt-old", so ".ckpt-old" alone is no backup link. Blanks
 * make the index so large that it is read to an allocation of its own: AddressSanitizer then reports a search
 * that goes on before its first byte. */
static void a_backup_suffix_alone_is_no_shard(void)
{
    static char index[1 << 18];
    static const char weight_map[] = "{\"weight_map\": {\"x\": \".ckpt-old\"}}";
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_safetensors_sharded");
    make_dir();
    memset(index, ' ', sizeof index);
    memcpy(index + sizeof index - sizeof weight_map, weight_map, sizeof weight_map - 1);
    write_file("model.safetensors.index.json", index, sizeof index);
    write_file(".ckpt-old", "x", 1);
    ckpt_write_options o = {
        .struct_size = sizeof o, .format = "safetensors", .max_shard = 100, .force = true};
    CU_ASSERT_EQUAL(write_set(f, dir, o, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(access(path_in_dir(".ckpt-old"), F_OK), 0);
    CU_ASSERT_EQUAL(count_files(dir), 5);
    close_open_files();
    remove_dir();
}

/* Shards are written one by one, so an interrupted write over the input would destroy both sets. */
static void a_set_never_replaces_its_input(void)
{
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_safetensors_sharded"), *written;
    make_dir();
    ckpt_write_options o = {
        .struct_size = sizeof o, .format = "safetensors", .max_shard = 100, .force = true};
    CU_ASSERT_EQUAL(write_set(f, dir, o, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &written, &err), CKPT_OK);
    CU_ASSERT_EQUAL(write_set(written, dir, o, NULL), CKPT_EUSAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "part of the input"));
    ckpt_close(written);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &written, &err), CKPT_OK);
    ckpt_close(written);
    close_open_files();
    remove_dir();
}

static int stop_in_second_shard(void *user, uint64_t done, uint64_t total)
{
    uint64_t *seen_total = user;
    *seen_total = total;
    return done > 100; /* no shard has more than 100 bytes of tensors */
}

static void a_stopped_write_leaves_no_shards(void)
{
    uint64_t total = 0;
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_safetensors_sharded");
    make_dir();
    ckpt_write_options o = {.struct_size = sizeof o,
                            .format = "safetensors",
                            .max_shard = 100,
                            .progress = stop_in_second_shard,
                            .user = &total};
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"), o, NULL), CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(total, 204); /* bytes of all tensors of the set */
    CU_ASSERT_EQUAL(count_files(dir), 0);
    /* An older set stays as it is, because no shard is renamed into place before all are complete. */
    write_file("model.safetensors.index.json", "{}", 2);
    o.force = true;
    CU_ASSERT_EQUAL(write_set(f, dir, o, NULL), CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(access(path_in_dir("model.safetensors.index.json"), F_OK), 0);
    CU_ASSERT_EQUAL(count_files(dir), 1);
    close_open_files();
    remove_dir();
}

static void torch_shards_hold_only_tensors(void)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = open_corpus_file("torch/t215/plain_dict.pt");
    bool has_other_values = ckpt_leaf_count(f) > 0 && ckpt_tensor_count(f) > 0;
    make_dir();
    ckpt_write_options o = {.struct_size = sizeof o, .format = "torch-zip", .max_shard = 1, .strict = true};
    if (has_other_values)
        CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"), o, &r), CKPT_ELOSSY);
    f = open_corpus_file("torch/t215/keys_nonstring.pt");
    o.strict = false;
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"), o, &r), CKPT_ELOSSY); /* a key is an int */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "text"));
    CU_ASSERT_EQUAL(count_files(dir), 0);
    close_open_files();
    remove_dir();
}

static void a_torch_set_is_one_mapping(void)
{
    ckpt_plan *plan;
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = open_corpus_file("torch/t215/general_checkpoint_215.pt");
    ckpt_write_options o = {
        .struct_size = sizeof o, .format = "torch-zip", .max_shard = 100, .no_sync = true};
    make_dir();
    CU_ASSERT_EQUAL(write_set(f, path_in_dir("set"), o, &r), CKPT_ELOSSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "nested"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "--root"));
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_root(plan, "auto", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(plan, path_in_dir("set"), &o, &r, &err), CKPT_OK);
    CU_ASSERT_EQUAL(r.tensors, 9); /* the weights, without the tensors of the optimizer */
    ckpt_plan_free(plan);
    close_open_files();
    remove_dir();
}

static void every_truncated_or_changed_index_is_read_safely(void)
{
    static const char text[] = "{\"metadata\":{\"total_size\":5,\"t\":\"a\"},"
                               "\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}}";
    char bytes[sizeof text];
    ckpt_file *f;
    write_two_shards();
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(bytes, text, sizeof text);
            bytes[i] = (char)(bytes[i] ^ (int)(1u << bit));
            write_file("i.json", bytes, sizeof text - 1);
            if (ckpt_open(path_in_dir("i.json"), NULL, &f, &err) == CKPT_OK)
                ckpt_close(f);
        }
    for (size_t n = 0; n < sizeof text - 1; n++) {
        write_file("i.json", text, n);
        CU_ASSERT_NOT_EQUAL(ckpt_open(path_in_dir("i.json"), NULL, &f, &err), CKPT_OK);
    }
    remove_dir();
}

static void writing_shards_does_not_change_the_plan(void)
{
    ckpt_plan *plan;
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = open_corpus_file("torch/t215/eco/hub_bin_sharded");
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    for (int i = 0; i < 2; i++) {
        make_dir();
        ckpt_write_options o = {.struct_size = sizeof o,
                                .format = i ? "torch-zip" : "safetensors",
                                .max_shard = 100,
                                .no_sync = true};
        CU_ASSERT_EQUAL(ckpt_plan_write(plan, path_in_dir("set"), &o, &r, &err), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_tensor_count(plan), 5);
        CU_ASSERT_EQUAL(r.tensors, 5);
        CU_ASSERT_EQUAL(r.naliases, i ? 0 : 1);
        remove_dir();
    }
    ckpt_plan_free(plan);
    close_open_files();
}

void suite_shards(void)
{
    UNIT(tensors_come_in_the_order_of_the_weight_map);
    UNIT(an_inconsistent_index_is_refused);
    UNIT(a_shard_that_is_a_fifo_is_refused);
    UNIT(one_tensor_in_two_shards_is_refused);
    UNIT(a_malformed_shard_is_refused_with_its_offset_in_the_index);
    UNIT(tensors_missing_from_the_index_are_read_with_a_notice);
    UNIT(only_shards_with_wanted_tensors_are_read);
    UNIT(a_tie_recorded_in_the_metadata_is_listed);
    UNIT(torch_shards_keep_their_ties);
    UNIT(a_folder_opens_the_model_file_in_it);
    UNIT(a_folder_with_several_copies_opens_the_one_that_transformers_loads);
    UNIT(two_safetensors_indexes_are_refused_as_ambiguous);
    UNIT(sets_of_huggingface_hub_are_reproduced_byte_for_byte);
    UNIT(torch_shards_are_read_back);
    UNIT(a_set_of_more_shards_than_the_limit_on_open_files_is_read);
    UNIT(shards_are_split_as_huggingface_hub_does);
    UNIT(a_single_shard_has_no_number);
    UNIT(a_set_is_written_completely_or_not_at_all);
    UNIT(a_backup_suffix_alone_is_no_shard);
    UNIT(a_set_never_replaces_its_input);
    UNIT(a_stopped_write_leaves_no_shards);
    UNIT(torch_shards_hold_only_tensors);
    UNIT(a_torch_set_is_one_mapping);
    UNIT(every_truncated_or_changed_index_is_read_safely);
    UNIT(writing_shards_does_not_change_the_plan);
}
