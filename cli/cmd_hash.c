#include <stdlib.h>

#include "files.h"
#include "find.h"
#include "hash_bytes.h"
#include "json.h"
#include "progress.h"

static char *cast;
static ckpt_dtype cast_dtype;
static bool xxh3, total, ignore_crc, file_sha256, payload_sha256, hub_name, check_name;

static struct list globs;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_ROOT_OPTION,
    {0, "xxh3", NULL, OPT_FLAG, &xxh3, "XXH3-128 instead of SHA-256: faster, no proof against forgery"},
    {0, "cast", "DTYPE", OPT_TEXT, &cast, "floats and ggml's blocks as DTYPE: as of a converted file"},
    {'t', "total", NULL, OPT_FLAG, &total, "only the digest of the whole"},
    {0, "ignore-crc", NULL, OPT_FLAG, &ignore_crc, "go on despite wrong checksums in the file"},
    {0, "file-sha256", NULL, OPT_FLAG, &file_sha256, "SHA-256 of the file itself, as sha256sum prints it"},
    {0, "payload-sha256", NULL, OPT_FLAG, &payload_sha256, "SHA-256 of what follows a safetensors header"},
    {0, "hub-name", NULL, OPT_FLAG, &hub_name, "the name for torch.hub, digest included: net-0676ba61.pth"},
    {0, "check-name", NULL, OPT_FLAG, &check_name,
     "check the digest in the file's name; exit 1 if it is wrong"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_hash = {
    "hash",   "FILE…", "digests of each tensor and of the whole, the same in any format", options, 1,
    NO_LIMIT, run_hash};

struct job {
    ckpt_file *f;
    ckpt_algorithm alg;
    size_t nbytes;                  /* of a digest */
    uint8_t *digests;               /* CKPT_DIGEST_MAX per row */
    uint8_t whole[CKPT_DIGEST_MAX]; /* the digest of the file */
};

/* digest_all - computes the digests of the tensors that match --glob, with the dtypes of --cast, and the
 * digest of the file. */
static ckpt_status digest_all(struct job *job, ckpt_error *err)
{
    const ckpt_work how = ui_work();
    ckpt_status s = CKPT_OK;
    ckpt_file_ignore_case(job->f, ui.ignore_case);
    if (globs.n)
        s = ckpt_file_narrow(job->f, NULL, globs.at, globs.n, err);
    if (s == CKPT_OK && cast)
        s = ckpt_file_digest_as(job->f, cast_dtype, err);
    if (s != CKPT_OK)
        return s;
    job->digests = mem_new(ckpt_tensor_count(job->f), CKPT_DIGEST_MAX);
    progress_begin("hashing");
    s = ckpt_digest_tensors(job->f, job->alg, &how, job->digests, err);
    progress_end();
    return s == CKPT_OK ? ckpt_digest_file(job->f, job->alg, job->digests, job->whole, err) : s;
}

static void print_hash_text(const struct job *job, const uint32_t *rows, size_t n)
{
    struct text out = {0};
    for (size_t i = 0; i < n && !total; i++) {
        const ckpt_tensor it = tensor_at(job->f, rows[i]), *t = &it;
        if (!t->has_data)
            continue;
        text_clear(&out);
        text_hex(&out, job->digests + (size_t)rows[i] * CKPT_DIGEST_MAX, job->nbytes);
        text_add(&out, "  ");
        text_name(&out, t->name);
        line_put(&out);
    }
    text_clear(&out);
    text_hex(&out, job->whole, job->nbytes);
    text_add(&out, "  ");
    text_name(&out, str_of(ckpt_file_path(job->f)));
    printf("%s\n", out.ptr);
    text_free(&out);
}

/* tensor_as_hashed - returns row I with the dtype in which it is hashed. */
static ckpt_tensor tensor_as_hashed(const struct job *job, uint32_t i)
{
    ckpt_tensor t = tensor_at(job->f, i);
    ckpt_dtype dtype = ckpt_digest_dtype(job->f, i);
    if (dtype != t.dtype) {
        t.dtype = (uint16_t)dtype;
        t.nbytes = t.elements * (ckpt_dtype_bits(dtype) / 8);
    }
    return t;
}

static void print_hash_json(const struct job *job, const uint32_t *rows, size_t n)
{
    json *head = json_schema("ckpt.hash.v1"), *tail = json_object();
    json_text(head, "file", ckpt_file_path(job->f));
    json_text(head, "format", ckpt_file_format(job->f));
    json_text(head, "algorithm", job->alg == CKPT_XXH3 ? "xxh3-128" : "sha256");
    json_begin(head, "tensors", stdout);
    for (size_t i = 0; i < n && !total; i++) {
        const ckpt_tensor it = tensor_as_hashed(job, rows[i]), *t = &it;
        json *row = json_object();
        json_tensor(row, t);
        if (t->has_data)
            json_hex(row, "digest", job->digests + (size_t)rows[i] * CKPT_DIGEST_MAX, job->nbytes);
        json_row(row, stdout);
    }
    json_hex(tail, "digest", job->whole, job->nbytes);
    json_end(tail, stdout);
}

static int hash_file(const char *path)
{
    struct job job = {.alg = xxh3 ? CKPT_XXH3 : CKPT_SHA256, .nbytes = xxh3 ? 16 : 32};
    ckpt_error err;
    size_t n;
    job.f = open_input(path, ignore_crc);
    if (!job.f)
        return EXIT_TROUBLE;
    if (globs.n && !any_row_matches(job.f, globs.at, globs.n)) {
        notice_no_match(job.f, globs.at, globs.n);
        close_input(job.f);
        return EXIT_NO;
    }
    int status = digest_all(&job, &err) == CKPT_OK ? EXIT_OK : report_error(&err, path);
    if (status == EXIT_OK) {
        uint32_t *rows = rows_sorted(job.f, NULL, 0, ORDER_NATURAL, &n);
        if (ui.json)
            print_hash_json(&job, rows, n);
        else
            print_hash_text(&job, rows, n);
        free(rows);
    }
    free(job.digests);
    close_input(job.f);
    return status;
}

int run_hash(int n, char **operand)
{
    int (*of_bytes)(const char *) = file_sha256      ? hash_of_file
                                    : payload_sha256 ? hash_of_payload
                                    : hub_name       ? hash_in_name
                                    : check_name     ? hash_check_name
                                                     : NULL;
    if (file_sha256 + payload_sha256 + hub_name + check_name > 1)
        return usage_error("hash", "only one of --file-sha256, --payload-sha256, --hub-name, --check-name");
    if (cast && (cast_dtype = ckpt_dtype_parse(str_of(cast))) == CKPT_DT_NONE)
        return usage_error("hash", "--cast: '%.200s' is not a dtype (like bf16 or float32)", cast);
    if (of_bytes && (xxh3 || cast || total || ignore_crc || globs.n || ui.root))
        return usage_error("hash", "--xxh3, --cast, --total, --ignore-crc, --glob and --root are about "
                                   "tensors, not a file's bytes");
    return files_each(n, operand, FILES_LINES, of_bytes ? of_bytes : hash_file);
}
