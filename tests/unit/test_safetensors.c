/* safetensors: our reader accepts and refuses the same files as the reference reader, and our writer writes
 * the same bytes as the reference writer. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/store.h"
#include "core/plan.h"
#include "format/safetensors/safetensors.h"
#include "io/journal.h"
#include "small_files.h"
#include "unit.h"

static ckpt_error err;
static char dir[64], out_path[128];

static const char *new_output_path(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(out_path, sizeof out_path, "%s/out.safetensors", dir);
    return out_path;
}

static void remove_output(void)
{
    (void)unlink(out_path);
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* fails if other files were left in it */
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!f)
        return NULL;
    char *text = malloc(1u << 22);
    *n = text ? fread(text, 1, 1u << 22, f) : 0;
    fclose(f);
    return text;
}

/* put_safetensors - writes a file of HEADER and SIZE zero bytes to AT; returns the size of the file. */
static size_t put_safetensors(unsigned char *at, const char *header, size_t size)
{
    size_t n = strlen(header);
    memset(at, 0, 8 + n + size);
    at[0] = (unsigned char)n;
    at[1] = (unsigned char)(n >> 8);
    memcpy(at + 8, header, n);
    return 8 + n + size;
}

/* open_header - opens a file of HEADER and SIZE zero bytes of data. CHECK_REFUSED checks that this fails with
 * CODE, and that the message contains WORDS. */
static ckpt_status open_header(const char *header, size_t size, ckpt_file **f)
{
    static unsigned char bytes[8192];
    size_t n = put_safetensors(bytes, header, size);
    return ckpt_open_memory(bytes, n, "made.safetensors", NULL, f, &err);
}

#define CHECK_REFUSED(header, size, code, words)                                                             \
    do {                                                                                                     \
        ckpt_file *unused;                                                                                   \
        CU_ASSERT_EQUAL(open_header(header, size, &unused), code);                                           \
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));                                                     \
    } while (0)

/* ---------------------------------------------------------------- reading */

/* Each line of the file RESULTS is "name.st   ACCEPT <tensors>" or "name.st   REJECT <reason>", as the Rust
 * reader reported. */
static void the_reference_reader_accepts_the_same_files(void)
{
    char line[1024], path[2048];
    int accepted = 0, refused = 0;
    unsigned long tensors;
    FILE *f = fopen(unit_corpus_path("vectors/safetensors/RESULTS-rust-24b0b28.txt"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof line, f)) {
        char *gap = strchr(line, ' '), *words = gap ? gap + strspn(gap, " ") : NULL;
        if (!words)
            continue;
        *gap = 0;
        bool accept = strncmp(words, "ACCEPT", 6) == 0;
        tensors = accept ? strtoul(words + 6, NULL, 10) : 0;
        ckpt_file *c = NULL;
        snprintf(path, sizeof path, "vectors/safetensors/%s", line);
        ckpt_status st = ckpt_open(unit_corpus_path(path), NULL, &c, &err);
        if ((st == CKPT_OK) != accept)
            printf(" [%s: %s] ", line, st == CKPT_OK ? "accepted" : err.what);
        CU_ASSERT_EQUAL(st == CKPT_OK, accept);
        CU_ASSERT(st != CKPT_OK || ckpt_tensor_count(c) == tensors);
        accepted += st == CKPT_OK;
        refused += st != CKPT_OK;
        ckpt_close(c);
    }
    fclose(f);
    CU_ASSERT_EQUAL(accepted, 26); /* the number of lines with ACCEPT */
    CU_ASSERT_EQUAL(refused, 32);
}

static void malformed_headers_are_refused_with_the_fault(void)
{
    CHECK_REFUSED(quoted("{'h.3':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}"), 12, CKPT_ETRUNCATED,
                  "tensor \"h.3\" needs bytes 0..16 of the data, the file has 12");
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "the header describes "));
    CU_ASSERT_EQUAL(err.offset, 9);
    CHECK_REFUSED(quoted("{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},"
                         "'b':{'dtype':'U8','shape':[2],'data_offsets':[3,5]}}"),
                  5, CKPT_EFORMAT, "tensor \"b\" begins at byte 3 of the data, but \"a\" ends at byte 4");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[2],'data_offsets':[3,5]}}"), 5, CKPT_EFORMAT,
                  "bytes 0..3 belong to no tensor");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}"), 5, CKPT_EFORMAT,
                  "3 unreferenced bytes after the last tensor");
    CHECK_REFUSED(quoted("{'b':{'dtype':'F32','shape':[2],'data_offsets':[0,5]}}"), 5, CKPT_EFORMAT,
                  "needs 8 bytes for its shape");
    CHECK_REFUSED(quoted("{'b':{'dtype':'F128','shape':[2],'data_offsets':[0,5]}}"), 5, CKPT_EFORMAT,
                  "dtype \"F128\"");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[2.0],'data_offsets':[0,2]}}"), 2, CKPT_EFORMAT,
                  "size of 2.0");
    /* more follows these entries, so that they are read as usual ones */
#define LAST ",'__metadata__':{'long':'enough'}}"
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[02],'data_offsets':[0,2]}" LAST), 2, CKPT_EFORMAT,
                  "found '2', allowed: ',' or ']'");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[18446744073709551616],'data_offsets':[0,2]}" LAST), 2,
                  CKPT_EFORMAT, "size of 18446744073709551616");
    CHECK_REFUSED(
        quoted("{'b':{'dtype':'U8','shape':[999999999999999],'data_offsets':[0,999999999999999]}" LAST), 2,
        CKPT_ETRUNCATED, "bytes 0..999999999999999 of the data");
    CHECK_REFUSED(
        quoted("{'b':{'dtype':'U8','shape':[1234567890123456],'data_offsets':[0,1234567890123456]}" LAST), 2,
        CKPT_ETRUNCATED, "bytes 0..1234567890123456 of the data");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[2],'data_offsets':[0,2}" LAST), 2, CKPT_EFORMAT,
                  "found '}', allowed: ',' or ']'");
#undef LAST
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','data_offsets':[0,2]}}"), 2, CKPT_EFORMAT, "no field \"shape\"");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','dtype':'U8','data_offsets':[0,2]}}"), 2, CKPT_EFORMAT,
                  "two fields \"dtype\"");
    CHECK_REFUSED(quoted("{'b':{'dtype':'U8','shape':[18446744073709551615,2,0],'data_offsets':[0,0]}}"), 0,
                  CKPT_EFORMAT, "2^64 bits");
    CHECK_REFUSED(quoted("{'b':{'dtype':'F4','shape':[2,3],'data_offsets':[0,3]}}"), 3, CKPT_EUNSUPPORTED,
                  "splits a byte");
    CHECK_REFUSED(quoted("{'b':7}"), 0, CKPT_EFORMAT, "an object with dtype");
    CHECK_REFUSED(quoted("{'__metadata__':{'a':1}}"), 0, CKPT_EFORMAT, "__metadata__");
}

static void a_truncated_header_is_reported_as_truncated(void)
{
    unsigned char bytes[256];
    ckpt_file *f;
    size_t n = put_safetensors(bytes, quoted("{'a':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}"), 16);
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, n - 30, "short", NULL, &f, &err), CKPT_ETRUNCATED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "stopped early"));
}

static void a_git_lfs_pointer_is_reported(void)
{
    static const char text[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
    ckpt_file *f;
    CU_ASSERT_EQUAL(ckpt_open_memory(text, sizeof text - 1, "model.safetensors", NULL, &f, &err),
                    CKPT_EUNKNOWN);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "LFS"));
}

/* A tensor may be described by an array of its dtype, shape and offsets, as b is here. */
static void every_truncation_and_changed_bit_is_read_safely(void)
{
    unsigned char bytes[512];
    size_t n = put_safetensors(
        bytes,
        quoted("{'__metadata__':{'f':'p\\u0074'},'a':{'dtype':'F32','shape':[2,1],'data_offsets':[2,10]},"
               "'b':['U8',[2],[0,2]]}"),
        10);
    ckpt_file *f = NULL;
    for (size_t cut = 0; cut <= n; cut++) {
        unsigned char *at = unit_guard(bytes, cut);
        ckpt_status st = ckpt_open_memory(at, cut, "x", NULL, &f, &err);
        CU_ASSERT_EQUAL(st == CKPT_OK, cut == n);
        if (st == CKPT_OK)
            ckpt_close(f);
        unit_guard_free(at, cut);
    }
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1u << bit);
            unsigned char *at = unit_guard(bytes, n);
            if (ckpt_open_memory(at, n, "x", NULL, &f, &err) == CKPT_OK)
                ckpt_close(f);
            unit_guard_free(at, n);
            bytes[i] ^= (unsigned char)(1u << bit);
        }
}

static void tensors_are_listed_in_the_order_of_their_data(void)
{
    ckpt_file *f = open_safetensors(
        quoted("{'z':{'dtype':'U8','shape':[1],'data_offsets':[4,5]},'m.x':{'dtype':'F32','shape':[],"
               "'data_offsets':[0,4]},'__metadata__':{'format':'np'}}"),
        "\1\2\3\4\5", 5);
    const ckpt_tensor t = tensor_at(f, 0);
    unsigned char byte = 0;
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(f), 2);
    CU_ASSERT(strcmp(t.name.ptr, "m.x") == 0 && t.npath == 1 && t.ndim == 0 && t.elements == 1 &&
              t.nbytes == 4);
    CU_ASSERT_EQUAL(t.part_of, CKPT_NO_TENSOR);
    CU_ASSERT_EQUAL(t.alias_of, CKPT_NO_TENSOR);
    CU_ASSERT_EQUAL(ckpt_value_tensor(t.value), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_read(f, 1, 0, 1, &byte, &err), CKPT_OK);
    CU_ASSERT_EQUAL(byte, 5);
    CU_ASSERT_EQUAL(ckpt_value_count(ckpt_file_root(f)), 2);
    CU_ASSERT(str_is(f->producer, "safetensors, format=np"));
    CU_ASSERT(f->dots_are_literal);
    close_open_files();
}

static void a_scalar_has_an_empty_shape(void)
{
    ckpt_file *f = NULL;
    ckpt_status st = open_header(quoted("{'a':{'dtype':'F32','shape':[],'data_offsets':[0,4]}}"), 4, &f);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    CU_ASSERT(ckpt_tensor_at(f, 0, &t) && t.has_shape && t.ndim == 0 && t.shape && t.elements == 1);
    ckpt_close(f);
}

/* "\u0061" is "a" with an escape. */
static void the_last_of_two_entries_with_one_name_is_read_with_a_notice(void)
{
    ckpt_file *f = open_safetensors(
        quoted("{'a':{'dtype':'U8','shape':[9],'data_offsets':[0,9]},'b':['U8',[1],[2,3]],"
               "'\\u0061':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}"),
        "\1\2\3", 3);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 2);
    CU_ASSERT_EQUAL(tensor_at(f, 0).elements, 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ckpt_notice_at(f, 0));
    CU_ASSERT_PTR_NOT_NULL(strstr(ckpt_notice_at(f, 0), "\"a\" more than once"));
    close_open_files();
}

static void limits_are_enforced(void)
{
    ckpt_file *f;
    unsigned char bytes[512];
    size_t n = put_safetensors(bytes, quoted("{'a':['U8',[1],[0,1]],'b':['U8',[1],[1,2]]}"), 2);
    ckpt_limits one_tensor = {.struct_size = sizeof one_tensor, .max_tensors = 1},
                short_header = {.struct_size = sizeof short_header, .max_header = 16};
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, n, "x", &one_tensor, &f, &err), CKPT_ELIMIT);
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, n, "x", &short_header, &f, &err), CKPT_ELIMIT);
}

static void tensors_take_at_most_a_kibibyte(void)
{
    enum { N = 20000 };
    size_t cap = N * 128, n = 8;
    char *bytes = malloc(cap + N);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memset(bytes, 0, cap + N);
    bytes[n++] = '{';
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(
            bytes + n, 128,
            "%s\"model.layers.%d.mlp.weight\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[%d,%d]}",
            i ? "," : "", i, i, i + 1);
    bytes[n++] = '}';
    store_u64le((unsigned char *)bytes, n - 8);
    memset(bytes + n, 0, N);
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, n + N, "many", NULL, &f, &err), CKPT_OK);
    printf(" [%llu bytes a tensor] ", (unsigned long long)(arena_used(f->a) / N));
    CU_ASSERT(arena_used(f->a) / N <= 1024);
    ckpt_close(f);
    free(bytes);
}

/* ---------------------------------------------------------------- writing */

/* write_plan - writes PLAN as safetensors. Returns the bytes of the file, which the caller frees, and sets
 * *N to their number. */
static char *write_plan(ckpt_plan *plan, const ckpt_write_options *opts, ckpt_write_result *result, size_t *n)
{
    ckpt_write_options o = opts ? *opts : (ckpt_write_options)CKPT_INIT(ckpt_write_options);
    o.format = "safetensors";
    o.no_sync = true;
    ckpt_status st = ckpt_plan_write(plan, new_output_path(), &o, result, &err);
    if (st != CKPT_OK)
        printf(" [%s] ", err.what);
    CU_ASSERT_EQUAL(st, CKPT_OK);
    char *bytes = read_file(out_path, n);
    remove_output();
    return bytes;
}

/* check_written - checks that F is written as HEADER, padded with blanks, and SIZE bytes of DATA. */
static void check_written(ckpt_file *f, const char *header, const char *data, size_t size)
{
    ckpt_plan *plan;
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    char want[1024];
    size_t n, len = (strlen(header) + 7) / 8 * 8;
    snprintf(want, sizeof want, "%-*s", (int)len, header);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    char *bytes = write_plan(plan, NULL, &result, &n);
    CU_ASSERT_EQUAL(n, 8 + len + size);
    CU_ASSERT_EQUAL(result.bytes, n);
    if (bytes && n == 8 + len + size) {
        CU_ASSERT_EQUAL((unsigned char)bytes[0] | (unsigned char)bytes[1] << 8, (int)len);
        CU_ASSERT(memcmp(bytes + 8, want, len) == 0);
        CU_ASSERT(memcmp(bytes + 8 + len, data, size) == 0);
    }
    free(bytes);
    ckpt_plan_free(plan);
}

/* check_reproduced - checks that a corpus file is written again with the same bytes. */
static void check_reproduced(const char *corpus_file)
{
    ckpt_file *f;
    ckpt_plan *plan;
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    char path[1024];
    size_t their_size, our_size;
    snprintf(path, sizeof path, "%s", unit_corpus_path(corpus_file));
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    char *theirs = read_file(path, &their_size), *ours = write_plan(plan, NULL, &result, &our_size);
    bool same = their_size && their_size == our_size && memcmp(theirs, ours, their_size) == 0;
    if (!same)
        printf(" [%s differs] ", corpus_file);
    CU_ASSERT(same);
    free(theirs);
    free(ours);
    ckpt_plan_free(plan);
    ckpt_close(f);
}

static void official_files_are_reproduced_byte_for_byte(void)
{
    static const char *const names[] = {
        "eco/accelerate_state/model.safetensors",
        "eco/hf_bert/model.safetensors",
        "eco/hf_gpt2_safetensors/model.safetensors",
        "eco/hf_llama_tied/model.safetensors",
        "eco/peft_lora/adapter_model.safetensors",
        "eco/hf_gpt2_sharded/model-00001-of-00004.safetensors",
        "eco/hf_gpt2_sharded/model-00004-of-00004.safetensors",
        "eco/hub_safetensors_sharded/model-00002-of-00003.safetensors",
        "eco/hf_trainer/checkpoint-2/model.safetensors",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char corpus_file[256];
        snprintf(corpus_file, sizeof corpus_file, "torch/t215/%s", names[i]);
        check_reproduced(corpus_file);
    }
    check_reproduced("vectors/safetensors/ren0.st");
    check_reproduced("vectors/safetensors/zero.st");
}

static void tensors_are_sorted_by_dtype_and_name_and_the_header_is_padded(void)
{
    ckpt_file *f = open_safetensors(
        quoted(" {'b':['BOOL',[1],[0,1]],'a':['BOOL',[1],[1,2]],'h':['F16',[1],[2,4]],'l':['I64',[1],[4,12]],"
               "'q':['BF16',[0],[12,12]]}\n"),
        "\1\0hHllllllll", 12);
    check_written(f,
                  quoted("{'l':{'dtype':'I64','shape':[1],'data_offsets':[0,8]},"
                         "'q':{'dtype':'BF16','shape':[0],'data_offsets':[8,8]},"
                         "'h':{'dtype':'F16','shape':[1],'data_offsets':[8,10]},"
                         "'a':{'dtype':'BOOL','shape':[1],'data_offsets':[10,11]},"
                         "'b':{'dtype':'BOOL','shape':[1],'data_offsets':[11,12]}}"),
                  "llllllllhH\0\1", 12);
    close_open_files();
}

static void format_is_added_after_the_other_metadata(void)
{
    ckpt_file *f = open_safetensors(
        "{\"__metadata__\":{\"zz\":\"\\u0001\",\"aa\":\"\\\"\"},\"t\":[\"U8\",[1],[0,1]]}", "t", 1);
    check_written(f,
                  "{\"__metadata__\":{\"zz\":\"\\u0001\",\"aa\":\"\\\"\",\"format\":\"pt\"},"
                  "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                  "t", 1);
    close_open_files();
}

/* torch has no single F4 elements, only pairs of them, so the shape [1,4] is read as [1,2]. */
static void packed_types_keep_their_shape(void)
{
    ckpt_file *f = open_safetensors(quoted("{'a':['F4',[1,4],[0,2]],'b':['F6_E2M3',[4],[2,5]]}"), "12345", 5);
    CU_ASSERT_EQUAL(tensor_at(f, 0).shape[1], 2);
    check_written(f,
                  quoted("{'b':{'dtype':'F6_E2M3','shape':[4],'data_offsets':[0,3]},"
                         "'a':{'dtype':'F4','shape':[1,4],'data_offsets':[3,5]}}"),
                  "34512", 5);
    close_open_files();
}

static ckpt_status try_write(ckpt_plan *plan, ckpt_write_options o, ckpt_write_result *result)
{
    o.format = "safetensors";
    o.no_sync = true;
    ckpt_status st = ckpt_plan_write(plan, new_output_path(), &o, result, &err);
    CU_ASSERT_EQUAL(access(out_path, F_OK) == 0, st == CKPT_OK && !o.dry_run);
    remove_output();
    return st;
}

/* In tied.pt, a and b are the same tensor; c, d, e and f are other views of its bytes. */
static void ties_are_dropped_copied_or_refused(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/tied.pt"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    size_t n;
    char *bytes = write_plan(plan, NULL, &r, &n);
    CU_ASSERT_EQUAL(r.tensors, 6); /* b counts, although its bytes are not written */
    CU_ASSERT_EQUAL_FATAL(r.naliases, 1);
    CU_ASSERT(str_is(ckpt_plan_alias_at(plan, 0)->name, "b") && str_is(ckpt_plan_alias_at(plan, 0)->of, "a"));
    const char *begin = quoted("{'__metadata__':{'b':'a','format':'pt'},'a':");
    CU_ASSERT(n > 60 && memcmp(bytes + 8, begin, strlen(begin)) == 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ckpt_plan_notice_at(plan, 0));
    CU_ASSERT_PTR_NOT_NULL(strstr(ckpt_plan_notice_at(plan, 0), "are different views"));
    free(bytes);
    CU_ASSERT_EQUAL(
        try_write(plan,
                  (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .ties = CKPT_TIES_COPY},
                  &r),
        CKPT_OK);
    CU_ASSERT(r.tensors == 6 && r.naliases == 0);
    CU_ASSERT_EQUAL(
        try_write(plan,
                  (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .ties = CKPT_TIES_ERROR},
                  &r),
        CKPT_ELOSSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "\"a\" and \"b\""));
    ckpt_plan_free(plan);
    close_open_files();
}

/* plan_with_recorded_tie - returns a plan of a file whose metadata record that m.head is tied to m.emb. The
 * entries "format" and "note" only look like ties. */
static ckpt_plan *plan_with_recorded_tie(void)
{
    ckpt_plan *plan = NULL;
    ckpt_file *f = open_safetensors("{\"__metadata__\":{\"format\":\"pt\",\"m.head\":\"m.emb\","
                                    "\"note\":\"m.nothing\"},"
                                    "\"m.emb\":[\"U8\",[1],[0,1]],\"pt\":[\"U8\",[1],[1,2]]}",
                                    "ab", 2);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    return plan;
}

static void check_metadata_written(ckpt_plan *plan, const char *metadata)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    size_t n, len = strlen(metadata);
    char *bytes = write_plan(plan, NULL, &r, &n);
    CU_ASSERT(n > 8 + len && memcmp(bytes + 8, metadata, len) == 0);
    free(bytes);
}

static void recorded_ties_follow_renames_and_drops(void)
{
    ckpt_plan *plan = plan_with_recorded_tie();
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL(ckpt_plan_strip(plan, "m.", false, &err), CKPT_OK);
    check_metadata_written(plan, quoted("{'__metadata__':{'format':'pt','head':'emb','note':'m.nothing'},"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(plan), 2);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(plan, "^emb=>embed", &err), CKPT_OK);
    check_metadata_written(plan,
                           quoted("{'__metadata__':{'format':'pt','head':'embed','note':'m.nothing'},"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(plan, "^head=>embed", &err), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(plan, "^head=>note", &err), CKPT_OK);
    CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_EEXIST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "the metadata have \"note\" already"));
    ckpt_plan_free(plan);
    plan = plan_with_recorded_tie();
    CU_ASSERT_EQUAL(ckpt_plan_drop(plan, "m.emb", &err), CKPT_OK);
    check_metadata_written(plan, quoted("{'__metadata__':{'format':'pt','note':'m.nothing'},"
                                        "'m.head':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},'pt':"));
    CU_ASSERT_EQUAL(ckpt_plan_drop(plan, "m.head", &err), CKPT_OK);
    check_metadata_written(plan, quoted("{'__metadata__':{'format':'pt','note':'m.nothing'},'pt':"));
    CU_ASSERT_EQUAL(
        try_write(plan, (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .dry_run = true}, &r),
        CKPT_OK);
    ckpt_plan_free(plan);
    close_open_files();
}

/* edit_header - replaces the prefix "m." of the names in HEADER with PREFIX, in place. Writes the new header
 * to OUT, and the size of the old header to *OLD_HEADER_SIZE. */
static ckpt_status edit_header(const char *header, const char *prefix, char *out, size_t cap,
                               size_t *old_header_size)
{
    ckpt_file *f = open_safetensors(header, "ab", 2);
    ckpt_plan *plan = NULL;
    struct patches list = {0};
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_strip(plan, "m.", false, &err), CKPT_OK);
    CU_ASSERT(!*prefix || ckpt_plan_add(plan, prefix, &err) == CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(plan_update_entries(plan, &err), CKPT_OK);
    ckpt_status st = safetensors_in_place(plan, &list, &err);
    /* the length before the header has 8 bytes, the data have 2 */
    *old_header_size = (size_t)f->src->size - 8 - 2;
    if (st == CKPT_OK) {
        CU_ASSERT(list.n == 1 && list.patch[0].offset == 8 && list.patch[0].bytes.len == *old_header_size);
        CU_ASSERT(list.old_size == f->src->size && list.new_size == f->src->size);
        snprintf(out, cap, "%.*s", (int)list.patch[0].bytes.len, list.patch[0].bytes.ptr);
    }
    ckpt_plan_free(plan);
    close_open_files();
    return st;
}

/* The first prefix makes the names shorter, the next two keep their length, and the last makes them one byte
 * longer. */
static void a_header_is_rewritten_within_its_old_size(void)
{
    static const char header[] = "{\"__metadata__\":{\"m.c\":\"m.a\",\"note\":\"m.\"},"
                                 "\"m.a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"m.b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    static const char *const prefixes[] = {"", "m.", "n_", "n.."};
    for (size_t i = 0; i < 4; i++) {
        char got[512] = "", want[512];
        size_t old_header_size;
        ckpt_status st = edit_header(header, prefixes[i], got, sizeof got, &old_header_size);
        snprintf(want, sizeof want,
                 quoted("{'__metadata__':{'%sc':'%sa','note':'m.'},"
                        "'%sa':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},"
                        "'%sb':{'dtype':'U8','shape':[1],'data_offsets':[1,2]}}"),
                 prefixes[i], prefixes[i], prefixes[i], prefixes[i]);
        CU_ASSERT_EQUAL(st, strlen(want) > old_header_size ? CKPT_EUNSUPPORTED : CKPT_OK);
        CU_ASSERT_EQUAL(st == CKPT_OK, i < 3);
        CU_ASSERT(st != CKPT_OK || (strncmp(got, want, strlen(want)) == 0 && strlen(got) == old_header_size &&
                                    strspn(got + strlen(want), " ") == old_header_size - strlen(want)));
        CU_ASSERT(st == CKPT_OK || strstr(err.what, "all data would have to move"));
    }
}

static void of_two_tied_names_lm_head_is_dropped(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/tied_embedding.pt"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_rename_regex(plan, "^emb=>model.embed_tokens", &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_rename_regex(plan, "^head=>lm_head", &err), CKPT_OK);
    CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(r.naliases, 1);
    CU_ASSERT(str_is(ckpt_plan_alias_at(plan, 0)->name, "lm_head.weight") &&
              str_is(ckpt_plan_alias_at(plan, 0)->of, "model.embed_tokens.weight"));
    ckpt_plan_free(plan);
    close_open_files();
}

static void views_are_written_in_their_own_shape(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/expanded.pt"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    size_t n;
    char *bytes = write_plan(plan, NULL, &r, &n);
    CU_ASSERT_EQUAL(r.bytes, n);
    CU_ASSERT(n == 224);                   /* the data have 48 + 16 bytes; their storages have only 12 + 4 */
    const char *x = bytes + n - (48 + 16); /* the data of x: twelve floats, which are all equal */
    float first, last;
    memcpy(&first, x, 4);
    memcpy(&last, x + 11 * 4, 4);
    CU_ASSERT_EQUAL(first, last);
    free(bytes);
    ckpt_plan_free(plan);
    close_open_files();
}

static void tensors_that_safetensors_cannot_hold_are_refused(void)
{
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"sparse_coo", "\"s\" (sparse_coo, float32)"},
        {"quant_per_tensor", "\"q\" (quantized, quint8)"},
        {"dtype_complex128", "complex128"},
        {"meta", "(meta, float32)"},
        {"nested", "(nested, float32)"},
        {"wrapper_subclass_twotensor", "(wrapper, float32)"},
        {"dtype_bits16", "bits16"},
        {"lazy", "uninitialized"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char corpus_file[128];
        ckpt_write_result r = CKPT_INIT(ckpt_write_result);
        snprintf(corpus_file, sizeof corpus_file, "torch/t215/%s.pt", cases[i].file);
        ckpt_plan *plan = plan_of(open_corpus_file(corpus_file));
        CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_ELOSSY);
        if (!strstr(err.what, cases[i].words))
            printf(" [%s: %s] ", cases[i].file, err.what);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, cases[i].words));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "--drop"));
        ckpt_plan_free(plan);
    }
    close_open_files();
}

static void components_of_a_dropped_tensor_are_not_written(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/sparse_coo.pt"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_drop(plan, "s", &err), CKPT_OK);
    CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_ENOTFOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "no tensor is left"));
    ckpt_plan_free(plan);
    close_open_files();
}

static void values_that_are_not_tensors_are_listed_or_refused(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/keys_nonstring.pt"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_OK);
    CU_ASSERT(r.ndropped > 0 && str_is(ckpt_plan_dropped_at(plan, 0)->why, "not a tensor") &&
              str_is(ckpt_plan_dropped_at(plan, 0)->type, "int"));
    CU_ASSERT_EQUAL(
        try_write(plan, (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .strict = true}, &r),
        CKPT_ELOSSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "is not a tensor"));
    ckpt_plan_free(plan);
    plan = plan_of(open_corpus_file("torch/t215/ints.pt"));
    CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r), CKPT_ENOTFOUND);
    ckpt_plan_free(plan);
    close_open_files();
}

/* Renaming refuses most of these names, but the writer must not rely on it. */
static void names_that_safetensors_cannot_hold_are_refused(void)
{
    static const struct {
        const char *name;
        ckpt_status status;
        const char *words;
    } cases[] = {
        {"b", CKPT_EEXIST, "[\"a\"] and [\"b\"]"},
        {"__metadata__", CKPT_ELOSSY, "reserves"},
        {"\xed\xa0\x80", CKPT_ELOSSY, "not UTF-8"},
    };
    for (size_t i = 0; i < 3; i++) {
        ckpt_plan *plan;
        ckpt_write_result r = CKPT_INIT(ckpt_write_result);
        ckpt_file *f = open_safetensors(quoted("{'a':['U8',[1],[0,1]],'b':['U8',[1],[1,2]]}"), "ab", 2);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
        struct edit *e = plan_find_or_add_edit(plan, f->root, 2);
        CU_ASSERT_PTR_NOT_NULL_FATAL(e);
        e->names[0] = str_c(cases[i].name);
        CU_ASSERT_EQUAL(try_write(plan, (ckpt_write_options)CKPT_INIT(ckpt_write_options), &r),
                        cases[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, cases[i].words));
        ckpt_plan_free(plan);
        close_open_files();
    }
}

/* stop_at_once - cancels the write after its first bytes; sets *USER to TOTAL. */
static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    uint64_t *seen_total = user;
    *seen_total = total;
    return done > 0;
}

static void a_file_is_written_completely_or_not_at_all(void)
{
    ckpt_plan *plan = plan_of(open_corpus_file("torch/t215/eco/hf_bert/model.safetensors"));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    uint64_t total = 0;
    CU_ASSERT_EQUAL(
        try_write(plan, (ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .dry_run = true}, &r),
        CKPT_OK);
    CU_ASSERT(r.tensors > 0 && r.bytes == ckpt_file_bytes(plan->file));
    CU_ASSERT_EQUAL(try_write(plan,
                              (ckpt_write_options){.struct_size = sizeof(ckpt_write_options),
                                                   .progress = stop_at_once,
                                                   .user = &total},
                              &r),
                    CKPT_ECANCELLED);
    CU_ASSERT(total > 0 && total < ckpt_file_bytes(plan->file) && r.tensors == 0 && r.bytes == 0);
    ckpt_write_options o = {.struct_size = sizeof o, .format = "safetensors", .no_sync = true};
    CU_ASSERT_EQUAL(ckpt_plan_write(plan, new_output_path(), &o, &r, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(plan, out_path, &o, &r, &err), CKPT_EEXIST);
    o.force = true;
    CU_ASSERT_EQUAL(ckpt_plan_write(plan, out_path, &o, &r, &err), CKPT_OK);
    remove_output();
    ckpt_plan_free(plan);
    close_open_files();
}

void suite_safetensors(void)
{
    UNIT(the_reference_reader_accepts_the_same_files);
    UNIT(malformed_headers_are_refused_with_the_fault);
    UNIT(a_truncated_header_is_reported_as_truncated);
    UNIT(a_git_lfs_pointer_is_reported);
    UNIT(every_truncation_and_changed_bit_is_read_safely);
    UNIT(tensors_are_listed_in_the_order_of_their_data);
    UNIT(a_scalar_has_an_empty_shape);
    UNIT(the_last_of_two_entries_with_one_name_is_read_with_a_notice);
    UNIT(limits_are_enforced);
    UNIT(tensors_take_at_most_a_kibibyte);
    UNIT(official_files_are_reproduced_byte_for_byte);
    UNIT(tensors_are_sorted_by_dtype_and_name_and_the_header_is_padded);
    UNIT(format_is_added_after_the_other_metadata);
    UNIT(packed_types_keep_their_shape);
    UNIT(ties_are_dropped_copied_or_refused);
    UNIT(recorded_ties_follow_renames_and_drops);
    UNIT(a_header_is_rewritten_within_its_old_size);
    UNIT(of_two_tied_names_lm_head_is_dropped);
    UNIT(views_are_written_in_their_own_shape);
    UNIT(tensors_that_safetensors_cannot_hold_are_refused);
    UNIT(components_of_a_dropped_tensor_are_not_written);
    UNIT(values_that_are_not_tensors_are_listed_or_refused);
    UNIT(names_that_safetensors_cannot_hold_are_refused);
    UNIT(a_file_is_written_completely_or_not_at_all);
}
