/* Unusual torch.save archives are read, and inconsistent ones are refused. A rewritten archive holds the same
 * tensors, ties and bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/store.h"
#include "codec/zip.h"
#include "codec/zip_write.h"
#include "core/file.h"
#include "unit.h"

/* -------------------------------------------------------------- test archives */

static void put_binunicode(buf *b, const char *s)
{
    buf_byte(b, 'X');
    buf_u32le(b, (uint32_t)strlen(s));
    buf_put_cstr(b, s);
}

/* put_tensor - appends the pickle of a tensor: a 1-d view of SIZE elements from element OFFSET of the storage
 * data/KEY, which has NUMEL elements. */
static void put_tensor(buf *b, const char *klass, const char *key, unsigned char numel, unsigned char offset,
                       unsigned char size)
{
    buf_put_cstr(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_binunicode(b, "storage");
    buf_printf(b, "ctorch\n%s\n", klass);
    put_binunicode(b, key);
    put_binunicode(b, "cpu");
    buf_byte(b, 'K');
    buf_byte(b, numel);
    buf_put_cstr(b, "tQK");
    buf_byte(b, offset);
    buf_put_cstr(b, "(K");
    buf_byte(b, size);
    buf_put_cstr(b, "t(K\1t\x89"
                    "ccollections\nOrderedDict\n)RtR");
}

/* A record of an archive: its name in the top folder, and its bytes. */
struct record {
    const char *name, *bytes;
    size_t size;
};

/* make_archive - returns the bytes of a zip archive with the N records R in the folder TOP. The caller frees
 * them. Records without a name are left out. */
static char *make_archive(const char *top, const struct record *r, size_t n, size_t *size)
{
    sink *out;
    zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(sink_mem(1 << 20, NULL, &out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, top, &w, NULL), CKPT_OK);
    for (size_t i = 0; i < n; i++)
        if (r[i].name)
            CU_ASSERT_EQUAL(zip_writer_write_member(w, r[i].name, str_of(r[i].bytes, r[i].size), NULL),
                            CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_finish(w, NULL, NULL, NULL), CKPT_OK);
    zip_writer_free(w);
    ckpt_str view = sink_mem_view(out);
    char *copy = malloc(view.len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, view.ptr, view.len);
    *size = view.len;
    sink_abort(out);
    return copy;
}

#define SIXTEEN_BYTES "0123456789abcdef"

/* put_three_tensors - makes B a pickle of three tensors: w has the 4 floats of storage 0, v the last 2 of
 * them, and x the 2 longs of storage 1. */
static void put_three_tensors(buf *b)
{
    buf_init(b, 1 << 16);
    buf_put_cstr(b, "\x80\x02}(");
    put_binunicode(b, "w");
    put_tensor(b, "FloatStorage", "0", 4, 0, 4);
    put_binunicode(b, "v");
    put_tensor(b, "FloatStorage", "0", 4, 2, 2);
    put_binunicode(b, "x");
    put_tensor(b, "LongStorage", "1", 2, 0, 2);
    buf_put_cstr(b, "u.");
}

/* open_with - opens a valid archive after N changes. Each record of CHANGES is added to the archive, or
 * replaces the record of its name. A record without bytes removes the record of its name. */
static ckpt_status open_with(const struct record *changes, size_t n, ckpt_error *err)
{
    buf pickle;
    size_t size;
    ckpt_file *f = NULL;
    put_three_tensors(&pickle);
    struct record records[8] = {{"data.pkl", (char *)pickle.data, pickle.len},
                                {"byteorder", "little", 6},
                                {"data/0", SIXTEEN_BYTES, 16},
                                {"data/1", SIXTEEN_BYTES, 16},
                                {"version", "3\n", 2}};
    for (size_t i = 0; i < n; i++) {
        size_t k = 0; /* the index of the valid record that has the name of the change; 5 if none has it */
        while (k < 5 && strcmp(records[k].name ? records[k].name : "", changes[i].name) != 0)
            k++;
        records[k < 5 ? k : 5 + i] = changes[i];
        if (!changes[i].bytes)
            records[k].name = NULL;
    }
    char *bytes = make_archive("archive", records, 8, &size);
    ckpt_status st = ckpt_open_memory(bytes, size, "made", NULL, &f, err);
    if (st == CKPT_OK)
        ckpt_close(f);
    free(bytes);
    buf_free(&pickle);
    return st;
}

static void check_refused(const struct record *change, ckpt_status want, const char *words)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with(change, 1, &err), want);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));
    if (!strstr(err.what, words))
        printf("  found: %s: %s\n", err.where, err.what);
}

/* ---------------------------------------------------------------------- reading */

static void inconsistent_records_are_refused(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(open_with(NULL, 0, &err), CKPT_OK);
    check_refused(&(struct record){"data/0", SIXTEEN_BYTES, 12}, CKPT_ETRUNCATED, "12 bytes of the 16");
    check_refused(&(struct record){"data/1", NULL, 0}, CKPT_ETRUNCATED, "missing");
    check_refused(&(struct record){"byteorder", "middle", 6}, CKPT_EFORMAT, "it must be little or big");
    check_refused(&(struct record){"data.pkl", "\x80\x02}(", 4}, CKPT_ETRUNCATED, "");
}

static void two_records_of_one_name_are_refused(void)
{
    ckpt_file *f;
    ckpt_error err;
    CU_ASSERT_EQUAL(ckpt_open(unit_corpus_path("torch/exp/49_dup_record.pt"), NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "2 records"));
}

/* The pickle is also valid with the changed byte, so only the CRC-32 can show the change. */
static void a_pickle_with_a_wrong_crc_is_refused(void)
{
    struct record r[] = {{"data.pkl", "\x80\x02K\7.", 5}, {"version", "3\n", 2}};
    ckpt_file *f;
    ckpt_error err;
    size_t size;
    char *bytes = make_archive("archive", r, 2, &size);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, size, "made", NULL, &f, &err), CKPT_OK);
    ckpt_close(f);
    bytes[64 + 3] ^= 1; /* the payload is at 64, and its byte 3 is the integer */
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, size, "made", NULL, &f, &err), CKPT_ECHECKSUM);
    free(bytes);
}

static ckpt_file *open_corpus_archive(const char *name)
{
    ckpt_file *f = NULL;
    ckpt_error err;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(unit_corpus_path(name), NULL, &f, &err), CKPT_OK);
    return f;
}

static void a_pickle_that_would_inflate_too_far_is_refused(void)
{
    static char zeros[120000];
    struct record r = {"data.pkl", zeros, sizeof zeros};
    size_t size, at = 0;
    ckpt_file *f;
    ckpt_error err = {0};
    char *bytes = make_archive("archive", &r, 1, &size);
    const uint32_t declared_size = 900 * (uint32_t)sizeof zeros;
    while (at + 46 < size && memcmp(bytes + at, "PK\1\2", 4) != 0)
        at++;
    bytes[at + 10] = 8; /* the method in the central header: deflate. The uncompressed size is at 24. */
    store_u32le((unsigned char *)bytes + at + 24, declared_size);
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, size, "made", NULL, &f, &err), CKPT_ELIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "120000 bytes inflate to 108000000"));
    free(bytes);
}

static void archives_that_torch_load_refuses_are_read(void)
{
    static const struct {
        const char *file, *objection; /* part of the reason why torch.load refuses FILE; NULL: it does not */
    } archives[] = {
        {"torch/exp/01_pyzip_stored.pt", NULL},
        {"torch/exp/02_no_version.pt", "no record \"version\""},
        {"torch/exp/07_no_prefix.pt", "not in a folder"},
        {"torch/exp/08_deep_prefix.pt", "more than one folder deep"},
        {"torch/exp/10_extra_toplevel.pt", "outside the folder"},
        {"torch/exp/12_version_0.pt", "version\" holds 0"},
        {"torch/exp/15_version_junk.pt", "hold a number"},
        {"torch/exp/19_byteorder_nl.pt", "line break"},
        {"torch/exp/23_constants_pkl.pt", "TorchScript"},
        {"torch/exp/27_prefix_junk.pt", "byte 16"},
    };
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        ckpt_file *f = open_corpus_archive(archives[i].file);
        CU_ASSERT_EQUAL(ckpt_tensor_count(f), 2);
        CU_ASSERT_EQUAL(f->loading.refusal.len != 0, archives[i].objection != NULL);
        if (archives[i].objection)
            CU_ASSERT(str_find(f->loading.refusal, str_c(archives[i].objection), 0) != SIZE_MAX);
        ckpt_close(f);
    }
}

static void storages_are_located_on_request(void)
{
    float w[4];
    ckpt_error err;
    ckpt_file *f = open_corpus_archive("torch/exp/40_miniz_full.pt");
    CU_ASSERT_EQUAL(storage_at(f, 0).file_offset, CKPT_NO_OFFSET);
    CU_ASSERT_EQUAL(ckpt_file_locate(f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(storage_at(f, 0).file_offset % 64, 0);
    CU_ASSERT_EQUAL(tensor_at(f, 0).file_offset, storage_at(f, 0).file_offset);
    CU_ASSERT_EQUAL(ckpt_tensor_read(f, 0, 0, 4, w, &err), CKPT_OK);
    unit_to_host_order(w, 4, 4);
    CU_ASSERT(w[0] == 1 && w[3] == 4);
    ckpt_close(f);
}

/* ---------------------------------------------------------------------- writing */

static char out_path[64];

static ckpt_status write_plan(ckpt_plan *p, ckpt_error *err)
{
    ckpt_write_options o = {.struct_size = sizeof o, .format = "torch-zip", .force = true, .no_sync = true};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    snprintf(out_path, sizeof out_path, "/tmp/unit-torch-zip-%ld.pt", (long)getpid());
    return ckpt_plan_write(p, out_path, &o, &r, err);
}

/* rewrite_file - writes F, without the tensors that match the glob DROP, and opens the output. */
static ckpt_file *rewrite_file(ckpt_file *f, const char *drop)
{
    ckpt_plan *p;
    ckpt_error err;
    ckpt_file *rewritten = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    if (drop)
        CU_ASSERT_EQUAL(ckpt_plan_drop(p, drop, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(write_plan(p, &err), CKPT_OK);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(out_path, NULL, &rewritten, &err), CKPT_OK);
    CU_ASSERT_EQUAL(rewritten->loading.refusal.len, 0);
    return rewritten;
}

static void check_same_tensors(ckpt_file *a, ckpt_file *b)
{
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(a), ckpt_tensor_count(b));
    for (uint32_t i = 0; i < ckpt_tensor_count(a); i++) {
        const ckpt_tensor in_a = tensor_at(a, i), in_b = tensor_at(b, i);
        uint8_t digest_a[CKPT_DIGEST_MAX], digest_b[CKPT_DIGEST_MAX];
        CU_ASSERT(str_eq(in_a.name, in_b.name) && in_a.dtype == in_b.dtype && in_a.kind == in_b.kind);
        CU_ASSERT(in_a.alias_of == in_b.alias_of && in_a.conj == in_b.conj);
        CU_ASSERT(in_a.parameter == in_b.parameter && in_a.requires_grad == in_b.requires_grad);
        if (!in_a.has_data)
            continue;
        CU_ASSERT_EQUAL(ckpt_digest_tensor(a, i, CKPT_SHA256, digest_a, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_digest_tensor(b, i, CKPT_SHA256, digest_b, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(memcmp(digest_a, digest_b, sizeof digest_a), 0);
    }
}

static void rewritten_files_hold_the_same_tensors(void)
{
    static const char *const files[] = {
        "torch/t26/state_dict.pt",
        "torch/t215/tied.pt",
        "torch/t215/conj.pt",
        "torch/t215/sparse_coo.pt",
        "torch/t215/quant_per_channel.pt",
        "torch/t215/parameter.pt",
        "torch/t215/meta.pt",
        "torch/t215/nested_jagged.pt",
        "torch/t215/generator.pt",
        "torch/t215/recursive.pt",
        "torch/t215/tied_legacy.pt",
        "torch/exp/18_byteorder_big.pt",
        "torch/badexp/25_float8storage_ts.pt",
        "torch/legexp/h_view_metadata.pt",
        "torch/t215/plain_pickle.pkl",
        "torch/t10/torchscript_trace.pt",
        "torch/t215/export_f8.pt2",
        "torch/t26/torch_package.pt",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ckpt_file *f = open_corpus_archive(files[i]), *rewritten = rewrite_file(f, NULL);
        check_same_tensors(f, rewritten);
        ckpt_close(f);
        ckpt_close(rewritten);
    }
    unlink(out_path);
}

/* torch.Float8_e5m2Storage, which only the C++ writer uses, becomes UntypedStorage. */
static void storage_classes_of_the_cpp_writer_are_replaced(void)
{
    ckpt_file *f = open_corpus_archive("torch/badexp/25_float8storage_ts.pt"),
              *rewritten = rewrite_file(f, NULL);
    bool has_untyped_storage = false, has_tensor_v3 = false;
    for (size_t i = 0; i < rewritten->pickles[0]->nglobals; i++) {
        has_untyped_storage |= value_is_global(rewritten->pickles[0]->globals[i], "torch.storage",
                                               "UntypedStorage");
        has_tensor_v3 |= value_is_global(rewritten->pickles[0]->globals[i], "torch._utils",
                                         "_rebuild_tensor_v3");
        CU_ASSERT(!value_is_global(rewritten->pickles[0]->globals[i], "torch", "Float8_e5m2Storage"));
    }
    CU_ASSERT(has_untyped_storage && has_tensor_v3);
    ckpt_close(f);
    ckpt_close(rewritten);
    unlink(out_path);
}

static void each_storage_is_written_once(void)
{
    ckpt_file *f = open_corpus_archive("torch/t215/tied.pt"), *rewritten = rewrite_file(f, NULL);
    CU_ASSERT_EQUAL(ckpt_storage_count(f), ckpt_storage_count(rewritten));
    for (uint32_t i = 0; i < ckpt_storage_count(rewritten); i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        CU_ASSERT(str_is(storage_at(rewritten, i).key, key));
        CU_ASSERT_EQUAL(storage_at(rewritten, i).nbytes, storage_at(f, i).nbytes);
        CU_ASSERT_EQUAL(ckpt_file_locate(rewritten, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(storage_at(rewritten, i).file_offset % 64, 0);
    }
    ckpt_close(f);
    ckpt_close(rewritten);
    unlink(out_path);
}

static void dropped_tensors_and_storages_are_left_out(void)
{
    ckpt_file *f = open_corpus_archive("torch/t26/state_dict.pt"), *rewritten = rewrite_file(f, "fc.*");
    CU_ASSERT_EQUAL(ckpt_tensor_count(rewritten), ckpt_tensor_count(f) - 2);
    CU_ASSERT_EQUAL(ckpt_storage_count(rewritten), ckpt_storage_count(f) - 2);
    CU_ASSERT_EQUAL(ckpt_tensor_find(rewritten, STR_LIT("fc.weight")), CKPT_NO_TENSOR);
    ckpt_close(f);
    ckpt_close(rewritten);
    unlink(out_path);
}

/* check_write_fails - checks that writing a corpus file fails with WANT. Unless DROP is NULL, the tensors
 * that match this glob are dropped first. */
static void check_write_fails(const char *corpus_file, ckpt_status want, const char *drop)
{
    ckpt_plan *p;
    ckpt_error err;
    ckpt_file *f = open_corpus_archive(corpus_file);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    if (drop)
        CU_ASSERT_EQUAL(ckpt_plan_drop(p, drop, &err), CKPT_OK);
    CU_ASSERT_EQUAL(write_plan(p, &err), want);
    CU_ASSERT(access(out_path, F_OK) != 0);
    ckpt_plan_free(p);
    ckpt_close(f);
}

static void damaged_or_empty_files_are_not_written(void)
{
    check_write_fails("torch/exp/26_bad_crc_data.pt", CKPT_ECHECKSUM, NULL);
    check_write_fails("torch/t26/state_dict.pt", CKPT_ENOTFOUND, "*");
    check_write_fails("torch/t26/torchscript_frozen_constants.pt", CKPT_ENOTFOUND, NULL);
}

static void dry_runs_check_but_write_nothing(void)
{
    char no_path[64];
    ckpt_plan *p;
    ckpt_error err;
    ckpt_write_options o = {.struct_size = sizeof o, .format = "torch-zip", .dry_run = true};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = open_corpus_archive("torch/exp/26_bad_crc_data.pt");
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    snprintf(no_path, sizeof no_path, "/tmp/unit-none-%ld.pt", (long)getpid());
    CU_ASSERT_EQUAL(ckpt_plan_write(p, no_path, &o, &r, &err), CKPT_ECHECKSUM);
    ckpt_file_ignore_crc(f, true);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, no_path, &o, &r, &err), CKPT_OK);
    CU_ASSERT(access(no_path, F_OK) != 0);
    ckpt_plan_free(p);
    ckpt_close(f);
}

static void missing_checksums_are_noticed(void)
{
    ckpt_file *f = open_corpus_archive("torch/t26/nocrc.pt");
    CU_ASSERT(f->table.nstorages > 0 && !f->table.storages[0].has_crc);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ckpt_notice_at(f, 0));
    CU_ASSERT_PTR_NOT_NULL(strstr(ckpt_notice_at(f, 0), "without checksums"));
    ckpt_close(f);
    f = open_corpus_archive("torch/t26/tied.pt");
    CU_ASSERT(f->table.nstorages > 0 && f->table.storages[0].has_crc);
    CU_ASSERT_PTR_NULL(ckpt_notice_at(f, 0));
    ckpt_close(f);
}

/* -------------------------------------------------------------- other formats */

static void other_archives_are_recognized(void)
{
    static const struct {
        const char *file, *format, *tensor;
    } others[] = {
        {"torch/t10/torchscript_trace.pt", "torchscript", "bn.running_var"},
        {"torch/t14/torchscript_trace.pt", "torchscript", "bn.running_var"},
        {"torch/t26/torchscript_containers.pt", "torchscript", "tied"},
        {"torch/t215/mobile_lite.ptl", "torchscript", "0.weight"},
        {"torch/t26/torch_package.pt", "torch-package", "models/m.pkl.weight"},
        {"torch/t26/exported_program.pt2", "torch-export", "state_dict.0.weight"},
        {"torch/t215/export_tied_const.pt2", "torch-export", "constants.np_"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ckpt_file *f = open_corpus_archive(others[i].file);
        CU_ASSERT_STRING_EQUAL(ckpt_file_format(f), others[i].format);
        CU_ASSERT(ckpt_tensor_find(f, str_c(others[i].tensor)) != CKPT_NO_TENSOR);
        ckpt_close(f);
    }
}

void suite_torch_zip(void)
{
    UNIT(inconsistent_records_are_refused);
    UNIT(two_records_of_one_name_are_refused);
    UNIT(a_pickle_with_a_wrong_crc_is_refused);
    UNIT(a_pickle_that_would_inflate_too_far_is_refused);
    UNIT(archives_that_torch_load_refuses_are_read);
    UNIT(storages_are_located_on_request);
    UNIT(rewritten_files_hold_the_same_tensors);
    UNIT(storage_classes_of_the_cpp_writer_are_replaced);
    UNIT(each_storage_is_written_once);
    UNIT(dropped_tensors_and_storages_are_left_out);
    UNIT(damaged_or_empty_files_are_not_written);
    UNIT(dry_runs_check_but_write_nothing);
    UNIT(missing_checksums_are_noticed);
    UNIT(other_archives_are_recognized);
}
