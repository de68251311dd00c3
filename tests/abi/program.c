/* program.c - calls functions of ckpt.h with every struct that a program allocates, and prints the results.
 * These must be the same if header and library are of different versions. After each struct are bytes that
 * the library must not change. GROWN is defined if each struct of the header ends with an additional field
 * "grown". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"

/* Declares the variable NAME. Its field `it` is a struct of TYPE, after which are bytes that the library must
 * not write. */
#define GUARDED(type, name)                                                                                  \
    struct {                                                                                                 \
        type it;                                                                                             \
        unsigned char guard[256];                                                                            \
    } name = {.it = CKPT_INIT(type)};                                                                        \
    memset(name.guard, 0xa5, sizeof name.guard)
#define CHECK_GUARD(name) check_guard(#name, name.guard)

static void check_guard(const char *name, const unsigned char guard[256])
{
    for (int i = 0; i < 256; i++)
        if (guard[i] != 0xa5) {
            printf("byte %d after %s was overwritten\n", i, name);
            exit(1);
        }
}

static void check_status(ckpt_status got, ckpt_status expected, const char *what)
{
    if (got == expected)
        return;
    printf("%s: %s, expected %s\n", what, ckpt_status_name(got), ckpt_status_name(expected));
    exit(1);
}

static void read_rows(ckpt_file *f)
{
    GUARDED(ckpt_tensor, t);
    GUARDED(ckpt_storage, s);
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t.it); i++) {
        (void)ckpt_storage_at(f, t.it.storage, &s.it);
        printf("%s %u %llu %llu %s\n", t.it.name.ptr, t.it.ndim, (unsigned long long)t.it.nbytes,
               (unsigned long long)s.it.nbytes, ckpt_dtype_name((ckpt_dtype)t.it.dtype));
        for (uint32_t k = 0; k < t.it.npath; k++)
            printf("  %.*s", (int)t.it.path[k].str.len, t.it.path[k].is_int ? "" : t.it.path[k].str.ptr);
        putchar('\n');
    }
    CHECK_GUARD(t);
    CHECK_GUARD(s);
}

static void print_json(ckpt_file *f)
{
    const uint32_t rows[2] = {1, 0};
    char *text;
    size_t n;
    GUARDED(ckpt_table_json_options, opts);
    opts.it.rows = rows;
    opts.it.nrows = 2;
    check_status(ckpt_table_json(f, &opts.it, &text, &n, NULL), CKPT_OK, "ckpt_table_json");
    printf("%zu %s\n", n, strstr(text, "\"tensors\""));
    ckpt_free(text);
    CHECK_GUARD(opts);
}

static void print_info(ckpt_file *f)
{
    GUARDED(ckpt_info, info);
    check_status(ckpt_inspect(f, &info.it, NULL), CKPT_OK, "ckpt_inspect");
    printf("%s %d\n", info.it.weights_root.ptr, info.it.weights_only);
    for (size_t i = 0; i < info.it.nweights; i++)
        printf("weights %s %llu\n", ckpt_weights_at(f, i)->name.ptr,
               (unsigned long long)ckpt_weights_at(f, i)->tensors);
    for (size_t i = 0; i < info.it.nwrappers; i++)
        printf("wrapper %s\n", ckpt_wrapper_at(f, i)->prefix.ptr);
    for (size_t i = 0; i < ckpt_leaf_count(f); i++)
        printf("leaf %s\n", ckpt_leaf_at(f, i)->name.ptr);
    CHECK_GUARD(info);
}

static void print_statistics(ckpt_file *f)
{
    const uint32_t rows[3] = {0, 1, 2};
    struct {
        ckpt_stats it[3];
        unsigned char guard[256];
    } stats;
    GUARDED(ckpt_work, work);
    memset(&stats, 0xa5, sizeof stats);
    stats.it[0].struct_size = sizeof *stats.it;
    work.it.threads = 2;
    check_status(ckpt_stat(f, rows, 3, &work.it, stats.it, NULL), CKPT_OK, "ckpt_stat");
    for (int i = 0; i < 3; i++)
        printf("%u %.6g %llu\n", stats.it[i].struct_size == sizeof *stats.it, stats.it[i].mean,
               (unsigned long long)stats.it[i].sampled);
    CHECK_GUARD(stats);
    CHECK_GUARD(work);
}

/* write_and_compare - writes F's weights to OUT, stripped and cast, and compares F with the written file. */
static void write_and_compare(ckpt_file *f, const char *out)
{
    ckpt_plan *p;
    ckpt_file *written;
    ckpt_error err;
    GUARDED(ckpt_write_options, opts);
    GUARDED(ckpt_write_result, result);
    GUARDED(ckpt_diff_options, diff_opts);
    GUARDED(ckpt_diff_totals, totals);
    GUARDED(ckpt_diff_value_totals, values);
    opts.it.no_sync = 1;
    opts.it.force = 1;
    opts.it.format = "safetensors";
    check_status(ckpt_plan_new(f, &p, NULL), CKPT_OK, "ckpt_plan_new");
    check_status(ckpt_plan_root(p, "auto", NULL), CKPT_OK, "ckpt_plan_root");
    check_status(ckpt_plan_strip_auto(p, NULL), CKPT_OK, "ckpt_plan_strip_auto");
    check_status(ckpt_plan_cast(p, NULL, CKPT_DT_BF16, NULL), CKPT_OK, "ckpt_plan_cast");
    check_status(ckpt_plan_write(p, out, &opts.it, &result.it, &err), CKPT_OK, "ckpt_plan_write");
    printf("%s %llu %zu %s\n", result.it.format, (unsigned long long)result.it.tensors, result.it.noutputs,
           strrchr(result.it.outputs[0], '/'));
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++)
        printf("renamed %s\n", ckpt_plan_rename_at(p, i)->to.ptr);
    for (size_t i = 0; i < ckpt_plan_mapping_count(p); i++)
        printf("mapping %s\n", ckpt_plan_mapping_at(p, i)->name.ptr);
    for (size_t i = 0; i < result.it.ncasts; i++)
        printf("cast %s\n", ckpt_plan_cast_at(p, i)->name.ptr);
    ckpt_plan_free(p);
    check_status(ckpt_open(out, NULL, &written, NULL), CKPT_OK, "ckpt_open of the output");
    diff_opts.it.root_a = "auto";
    diff_opts.it.ignore_prefix = "module.";
    diff_opts.it.ignore_dtype = 1;
    diff_opts.it.rtol = 0.01;
    check_status(ckpt_diff(f, written, &diff_opts.it, NULL, NULL, &totals.it, NULL), CKPT_OK, "ckpt_diff");
    check_status(ckpt_diff_values(f, written, &diff_opts.it, NULL, NULL, &values.it, NULL), CKPT_OK,
                 "ckpt_diff_values");
    printf("%llu same, %llu changed, %u\n", (unsigned long long)totals.it.same,
           (unsigned long long)totals.it.changed, values.it.compared);
    ckpt_close(written);
    CHECK_GUARD(opts);
    CHECK_GUARD(result);
    CHECK_GUARD(diff_opts);
    CHECK_GUARD(totals);
    CHECK_GUARD(values);
}

/* check_file - scans, verifies and diagnoses the file. */
static void check_file(const char *path)
{
    GUARDED(ckpt_scan_options, scan_opts);
    GUARDED(ckpt_scan_result, scan);
    GUARDED(ckpt_verify_options, verify_opts);
    GUARDED(ckpt_verify_result, verify);
    GUARDED(ckpt_doctor_options, doctor_opts);
    GUARDED(ckpt_doctor_result, doctor);
    GUARDED(ckpt_limits, limits);
    limits.it.max_tensors = 1000;
    scan_opts.it.sha256 = 1;
    verify_opts.it.limits = doctor_opts.it.limits = &limits.it;
    check_status(ckpt_scan(path, &scan_opts.it, NULL, NULL, &scan.it, NULL), CKPT_OK, "ckpt_scan");
    check_status(ckpt_verify(path, &verify_opts.it, NULL, NULL, &verify.it, NULL), CKPT_OK, "ckpt_verify");
    check_status(ckpt_doctor(path, &doctor_opts.it, NULL, NULL, &doctor.it, NULL), CKPT_OK, "ckpt_doctor");
    printf("%s %llu %02x, %llu %llu, %llu %s\n", ckpt_scan_verdict_name((ckpt_scan_verdict)scan.it.verdict),
           (unsigned long long)scan.it.calls, scan.it.sha256[0], (unsigned long long)verify.it.findings,
           (unsigned long long)verify.it.tensors, (unsigned long long)doctor.it.problems, doctor.it.format);
    CHECK_GUARD(scan_opts);
    CHECK_GUARD(scan);
    CHECK_GUARD(verify_opts);
    CHECK_GUARD(verify);
    CHECK_GUARD(doctor_opts);
    CHECK_GUARD(doctor);
    CHECK_GUARD(limits);
}

/* estimate_memory - estimates the memory that training F takes. */
static void estimate_memory(ckpt_file *f)
{
    ckpt_mem *m;
    ckpt_mem_group group;
    GUARDED(ckpt_mem_options, opts);
    GUARDED(ckpt_mem_run, run);
    GUARDED(ckpt_mem_result, estimate);
    run.it.precision = CKPT_MEM_BF16;
    run.it.optimizer = ckpt_mem_optimizer_at(0);
    check_status(ckpt_mem_new(f, &opts.it, &m, NULL), CKPT_OK, "ckpt_mem_new");
    check_status(ckpt_mem_estimate(m, &run.it, &estimate.it, NULL), CKPT_OK, "ckpt_mem_estimate");
    printf("%s %s %llu %llu\n", estimate.it.optimizer, estimate.it.precision,
           (unsigned long long)estimate.it.trained, (unsigned long long)estimate.it.parameters.bytes);
    for (size_t i = 0; ckpt_mem_group_at(m, i, &group); i++)
        printf("group of %llu\n", (unsigned long long)group.parameters);
    ckpt_mem_free(m);
    CHECK_GUARD(opts);
    CHECK_GUARD(run);
    CHECK_GUARD(estimate);
}

static int64_t read_file(void *user, uint64_t offset, void *buf, size_t n)
{
    return fseek(user, (long)offset, SEEK_SET) == 0 ? (int64_t)fread(buf, 1, n, user) : -1;
}
static void close_file(void *user) { printf("closed %d\n", fclose(user)); }
static int count_calls(void *user, uint64_t done, uint64_t total)
{
    *(unsigned *)user += done <= total;
    return 0;
}

static void open_by_callbacks(const char *path)
{
    FILE *in = fopen(path, "rb");
    unsigned calls = 0;
    ckpt_file *f;
    GUARDED(ckpt_callbacks, callbacks);
    GUARDED(ckpt_open_options, opts);
    if (!in || fseek(in, 0, SEEK_END) != 0)
        exit(2);
    callbacks.it.size = (uint64_t)ftell(in);
    callbacks.it.serialize = 1;
    callbacks.it.read_at = read_file;
    callbacks.it.close = close_file;
    callbacks.it.user = in;
    opts.it.salvage = 1;
    opts.it.callbacks = &callbacks.it;
    opts.it.progress = count_calls;
    opts.it.user = &calls;
    check_status(ckpt_open_with("callbacks", &opts.it, &f, NULL), CKPT_OK, "ckpt_open_with");
    printf("%u calls, %u tensors\n", calls, ckpt_tensor_count(f));
    ckpt_close(f);
    CHECK_GUARD(callbacks);
    CHECK_GUARD(opts);
}

/* build_and_write - builds a checkpoint, writes it to memory and reads it from there. */
static void build_and_write(void)
{
    static const unsigned char data[] = {1, 2, 3, 4, 5, 6};
    static const uint64_t shape[] = {2, 3};
    static const ckpt_pair rename = {{"b", 1}, {"c", 1}};
    ckpt_builder *b;
    ckpt_file *f;
    ckpt_plan *p;
    void *bytes;
    size_t n;
    GUARDED(ckpt_builder_tensor, t);
    GUARDED(ckpt_write_options, opts);
    GUARDED(ckpt_write_result, result);
    t.it.dtype = CKPT_DT_U8;
    t.it.ndim = 2;
    t.it.shape = shape;
    t.it.data = data;
    t.it.nbytes = sizeof data;
    opts.it.format = "torch-zip";
    check_status(ckpt_builder_new("built", &b, NULL), CKPT_OK, "ckpt_builder_new");
    check_status(ckpt_builder_add_tensor(b, "a", &t.it, NULL), CKPT_OK, "ckpt_builder_add_tensor");
    check_status(ckpt_builder_add_tie(b, "b", "a", NULL), CKPT_OK, "ckpt_builder_add_tie");
    check_status(ckpt_builder_add_int(b, "epoch", 3, NULL), CKPT_OK, "ckpt_builder_add_int");
    check_status(ckpt_builder_finish(b, &f, NULL), CKPT_OK, "ckpt_builder_finish");
    check_status(ckpt_plan_new(f, &p, NULL), CKPT_OK, "ckpt_plan_new");
    ckpt_close(f);
    check_status(ckpt_plan_rename_pairs(p, &rename, 1, NULL), CKPT_OK, "ckpt_plan_rename_pairs");
    check_status(ckpt_plan_write_memory(p, &opts.it, &bytes, &n, &result.it, NULL), CKPT_OK,
                 "ckpt_plan_write_memory");
    ckpt_plan_free(p);
    printf("%zu %llu %s\n", n, (unsigned long long)result.it.tensors, result.it.format);
    check_status(ckpt_open_memory(bytes, n, "built", NULL, &f, NULL), CKPT_OK, "ckpt_open_memory");
    read_rows(f);
    ckpt_close(f);
    ckpt_free(bytes);
    CHECK_GUARD(t);
    CHECK_GUARD(opts);
    CHECK_GUARD(result);
}

static void check_errors(const char *dir)
{
    struct {
        ckpt_error it;
        unsigned char guard[256];
    } err;
    ckpt_file *f;
    ckpt_limits limits = CKPT_INIT(ckpt_limits);
    memset(&err, 0xa5, sizeof err);
    check_status(ckpt_open("/no/such/file", NULL, &f, &err.it), CKPT_ENOTFOUND, "a missing file");
    printf("%s: %s\n", err.it.file, err.it.what);
    limits.struct_size = 0;
    check_status(ckpt_open(dir, &limits, &f, &err.it), CKPT_EUSAGE, "struct_size 0 in limits");
#ifdef GROWN
    limits = (ckpt_limits)CKPT_INIT(ckpt_limits);
    limits.grown[0] = 1;
    check_status(ckpt_open(dir, &limits, &f, &err.it), CKPT_EUSAGE, "an option of a newer version");
#endif
    CHECK_GUARD(err);
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    if (argc != 3)
        return 2;
    check_status(ckpt_open(argv[1], NULL, &f, NULL), CKPT_OK, "ckpt_open");
    read_rows(f);
    print_json(f);
    print_info(f);
    print_statistics(f);
    write_and_compare(f, argv[2]);
    estimate_memory(f);
    ckpt_close(f);
    check_file(argv[1]);
    open_by_callbacks(argv[1]);
    build_and_write();
    check_errors(argv[1]);
    return 0;
}
