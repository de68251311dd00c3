#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "find.h"
#include "progress.h"
#include "share.h"

static struct {
    char *cast;
    bool xxh3, total, ignore_crc, file_sha256, payload_sha256, hub_name, check_name;
    struct list globs;
} opts;
static ckpt_dtype cast_dtype;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    UI_ROOT_OPTION,
    {0, "xxh3", NULL, OPT_FLAG, &opts.xxh3, "XXH3-128 instead of SHA-256: faster, no proof against forgery"},
    {0, "cast", "DTYPE", OPT_TEXT, &opts.cast, "hash floats and ggml's blocks as if converted to DTYPE"},
    {'t', "total", NULL, OPT_FLAG, &opts.total, "only the digest of the whole"},
    {0, "ignore-crc", NULL, OPT_FLAG, &opts.ignore_crc, "go on despite wrong checksums in the file"},
    {0, "file-sha256", NULL, OPT_FLAG, &opts.file_sha256,
     "SHA-256 of the file itself, as sha256sum prints it"},
    {0, "payload-sha256", NULL, OPT_FLAG, &opts.payload_sha256,
     "SHA-256 of what follows a safetensors header"},
    {0, "hub-name", NULL, OPT_FLAG, &opts.hub_name,
     "the name for torch.hub, digest included: net-0676ba61.pth"},
    {0, "check-name", NULL, OPT_FLAG, &opts.check_name,
     "check the digest in the file's name; exit 1 if it is wrong"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    SHARE_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_hash = {
    "hash",   "FILE…", "print digests of each tensor and of the whole, the same in any format", options, 1,
    NO_LIMIT, run_hash};

/* ------------------------------------------------------------------ tensors */

struct job {
    ckpt_file *f;
    ckpt_algorithm algorithm;
    size_t digest_size;                   /* of the algorithm, in bytes */
    uint8_t *digests;                     /* CKPT_DIGEST_MAX bytes for each row */
    uint8_t file_digest[CKPT_DIGEST_MAX]; /* of the tensors of the file together */
    uint64_t nunhashed;                   /* tensors whose contents are in no digest */
    uint32_t first_unhashed;
};

/* count_unhashed - counts the tensors whose contents are in no digest: those that cannot be read, and arrays
 * of objects, which have values in place of bytes. */
static void count_unhashed(struct job *job)
{
    for (uint32_t i = ckpt_tensor_count(job->f); i-- > 0;) {
        const ckpt_tensor t = tensor_at(job->f, i);
        if (ckpt_tensor_is_unread(&t) || (t.kind == CKPT_NDARRAY && !t.has_data && t.elements)) {
            job->nunhashed++;
            job->first_unhashed = i;
        }
    }
}

/* report_incomplete_digest - prints the error that not all tensors are in the digest. Returns
 * EXIT_TROUBLE. */
static int report_incomplete_digest(const struct job *job, const char *path)
{
    struct text what = {0}, hint = {0};
    text_add(&what, "the digest is incomplete: ");
    text_unread(&what, job->f, job->nunhashed, job->first_unhashed);
    text_leave_out(&hint, ckpt_tensor_name(job->f, job->first_unhashed));
    int status = report_failure(CKPT_EUNSUPPORTED, path, hint.ptr, "%s", what.ptr);
    text_free(&what);
    text_free(&hint);
    return status;
}

/* digest_all - computes a digest of each tensor that matches --glob, as if converted to the dtype of --cast,
 * and one digest of all these tensors together. */
static ckpt_status digest_all(struct job *job, ckpt_error *err)
{
    ckpt_work how = ui_work();
    ckpt_status s = CKPT_OK;
    ckpt_file_ignore_case(job->f, ui.ignore_case);
    if (opts.globs.n)
        s = ckpt_file_narrow(job->f, NULL, opts.globs.items, opts.globs.n, err);
    if (s == CKPT_OK && opts.cast)
        s = ckpt_file_digest_as(job->f, cast_dtype, err);
    if (s != CKPT_OK)
        return s;
    job->digests = mem_new(ckpt_tensor_count(job->f), CKPT_DIGEST_MAX);
    progress_begin("hashing");
    s = share_begin("hash", &how, err);
    if (s == CKPT_OK)
        s = ckpt_digest_tensors(job->f, job->algorithm, &how, job->digests, err);
    progress_wipe();
    s = share_end(s, err);
    return s == CKPT_OK ? ckpt_digest_file(job->f, job->algorithm, job->digests, job->file_digest, err) : s;
}

static void print_hash_text(const struct job *job, const uint32_t *rows, size_t count)
{
    struct text out = {0};
    for (size_t i = 0; i < count && !opts.total; i++) {
        const ckpt_tensor t = tensor_at(job->f, rows[i]);
        if (!t.has_data)
            continue;
        text_clear(&out);
        text_hex(&out, job->digests + (size_t)rows[i] * CKPT_DIGEST_MAX, job->digest_size);
        text_add(&out, "  ");
        text_name(&out, t.name);
        line_put(&out);
    }
    text_clear(&out);
    text_hex(&out, job->file_digest, job->digest_size);
    print_text(stdout, "%s  %s%s\n", out.ptr, escape_name(str_c(ckpt_file_path(job->f))),
               job->nunhashed ? " (incomplete)" : "");
    text_free(&out);
}

/* tensor_as_hashed - returns row INDEX with the dtype in which it is hashed. */
static ckpt_tensor tensor_as_hashed(const struct job *job, uint32_t index)
{
    ckpt_tensor t = tensor_at(job->f, index);
    ckpt_dtype dtype = ckpt_digest_dtype(job->f, index);
    if (dtype != t.dtype) {
        t.dtype = (uint16_t)dtype;
        t.nbytes = t.elements * (ckpt_dtype_bits(dtype) / 8);
    }
    return t;
}

static void print_hash_json(const struct job *job, const uint32_t *rows, size_t count)
{
    json *head = json_schema("ckpt.hash.v1"), *tail = json_object();
    json_text(head, "file", ckpt_file_path(job->f));
    json_text(head, "format", ckpt_file_format(job->f));
    json_text(head, "algorithm", job->algorithm == CKPT_XXH3 ? "xxh3-128" : "sha256");
    json_begin_rows(head, "tensors", stdout);
    for (size_t i = 0; i < count && !opts.total; i++) {
        const ckpt_tensor t = tensor_as_hashed(job, rows[i]);
        json *row = json_object();
        json_tensor(row, &t);
        if (t.has_data)
            json_hex(row, "digest", job->digests + (size_t)rows[i] * CKPT_DIGEST_MAX, job->digest_size);
        json_row(row, stdout);
    }
    json_hex(tail, "digest", job->file_digest, job->digest_size);
    json_bool(tail, "complete", !job->nunhashed);
    json_u64(tail, "unread", job->nunhashed);
    json_end_rows(tail, stdout);
}

static int hash_file(const char *path)
{
    struct job job = {.algorithm = opts.xxh3 ? CKPT_XXH3 : CKPT_SHA256, .digest_size = opts.xxh3 ? 16 : 32};
    ckpt_error err;
    size_t n;
    job.f = open_input(path, opts.ignore_crc);
    if (!job.f)
        return EXIT_TROUBLE;
    if (!check_globs(job.f, opts.globs.items, opts.globs.n, false)) {
        close_input(job.f);
        return EXIT_TROUBLE;
    }
    ckpt_status s = digest_all(&job, &err);
    int status = s == CKPT_OK ? EXIT_OK : share_report(s, &err, path);
    if (s == CKPT_OK) {
        uint32_t *rows = rows_select(job.f, NULL, 0, ORDER_NATURAL, &n);
        count_unhashed(&job);
        if (ui.json)
            print_hash_json(&job, rows, n);
        else
            print_hash_text(&job, rows, n);
        free(rows);
        status = job.nunhashed ? report_incomplete_digest(&job, path) : EXIT_OK;
    }
    free(job.digests);
    close_input(job.f);
    return status;
}

/* ------------------------------------------------------------ bytes of a file */

/* torch.hub.load_state_dict_from_url(check_hash=True) searches the file's name for -([a-f0-9]*)\. and
 * requires that the SHA-256 of the file begins with the first match; eight digits are usual (torch/hub.py,
 * HASH_REGEX). */
#define SHA256_BYTES 32
#define HUB_DIGITS   8

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* find_name_digits - returns the *COUNT digits that torch.hub would find in the name of PATH, or NULL. */
static const char *find_name_digits(const char *path, size_t *count)
{
    for (const char *dash = strchr(base_name(path), '-'); dash; dash = strchr(dash + 1, '-')) {
        *count = strspn(dash + 1, "0123456789abcdef");
        if (dash[1 + *count] == '.')
            return *count ? dash + 1 : NULL;
    }
    return NULL;
}

/* add_sha256 - adds the digest of F's payload to HEX or, if F is NULL, the digest of the file PATH. Returns
 * EXIT_OK, or EXIT_TROUBLE after printing the error. */
static int add_sha256(const char *path, ckpt_file *f, struct text *hex)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    ckpt_error err;
    ckpt_work how = {.struct_size = sizeof how, .threads = 1, .progress = progress_step};
    progress_begin("hashing");
    ckpt_status st = f ? ckpt_digest_payload(f, CKPT_SHA256, &how, digest, &err)
                       : ckpt_digest_bytes(path, CKPT_SHA256, &how, digest, &err);
    progress_wipe();
    if (st != CKPT_OK)
        return report_error(&err, path);
    text_hex(hex, digest, SHA256_BYTES);
    return EXIT_OK;
}

/* add_sha256sum_line - adds a line as sha256sum prints it: if a backslash or line break in the name has to be
 * escaped, the line begins with a backslash. On a terminal, text_name() escapes other control characters. */
static void add_sha256sum_line(struct text *out, const char *hex, const char *path)
{
    struct text name = {0};
    for (const char *p = path; *p; p++) {
        if (*p == '\\' || *p == '\n' || *p == '\r')
            text_addf(&name, "\\%c", *p == '\n' ? 'n' : *p == '\r' ? 'r' : '\\');
        else
            text_byte(&name, *p);
    }
    bool as_sha256sum = !ui.tty || text_is_printable(name.ptr);
    text_addf(out, "%s%s  ", as_sha256sum && strlen(path) != name.len ? "\\" : "", hex);
    if (as_sha256sum)
        text_add(out, name.ptr);
    else
        text_name(out, str_c(path));
    text_free(&name);
}

/* digest_json - returns the JSON document of PATH. HEX is the digest of PART, "file" or "payload". */
static json *digest_json(const char *path, const char *part, const char *hex)
{
    json *j = json_schema("ckpt.hash.v1");
    json_text(j, "file", path);
    json_text(j, "algorithm", "sha256");
    json_text(j, "of", part);
    json_text(j, "digest", hex);
    return j;
}

static void print_digest(const char *path, const char *part, const char *hex)
{
    if (ui.json) {
        json_line(digest_json(path, part, hex), stdout);
        return;
    }
    struct text line = {0};
    if (strcmp(part, "file") == 0)
        add_sha256sum_line(&line, hex, path);
    else
        text_addf(&line, "%s  %s", hex, escape_name(str_c(path)));
    put_line(line.ptr);
    text_free(&line);
}

static int hash_and_print(const char *path, ckpt_file *f)
{
    struct text hex = {0};
    int status = add_sha256(path, f, &hex);
    if (status == EXIT_OK)
        print_digest(path, f ? "payload" : "file", hex.ptr);
    text_free(&hex);
    return status;
}

static int print_file_hash(const char *path) { return hash_and_print(path, NULL); }

static int print_payload_hash(const char *path)
{
    ckpt_file *f = open_input(path, false);
    int status = f ? hash_and_print(path, f) : EXIT_TROUBLE;
    close_input(f);
    return status;
}

/* add_hub_name - adds PATH with the first HUB_DIGITS digits of HEX in its name. They replace the digits that
 * torch.hub finds there, if these are as many or more; else they are inserted before the last dot. */
static void add_hub_name(struct text *out, const char *path, const char *hex)
{
    size_t n;
    const char *old_digits = find_name_digits(path, &n), *dot = strrchr(base_name(path), '.');
    const char *end = old_digits && n >= HUB_DIGITS ? old_digits - 1 : dot ? dot : path + strlen(path);
    text_bytes(out, path, (size_t)(end - path));
    text_add(out, "-");
    text_bytes(out, hex, HUB_DIGITS);
    text_add(out, old_digits && n >= HUB_DIGITS ? old_digits + n : end);
}

static int print_hub_name(const char *path)
{
    struct text hex = {0}, name = {0};
    size_t n;
    int status = add_sha256(path, NULL, &hex);
    if (status == EXIT_OK) {
        add_hub_name(&name, path, hex.ptr);
        const char *found = find_name_digits(name.ptr, &n);
        if (!found || n != HUB_DIGITS || memcmp(found, hex.ptr, n) != 0)
            status = report_failure(CKPT_EUSAGE, path, "name it like net.pth first",
                                    "torch.hub would not find the digest in a name made from this one");
    }
    if (status == EXIT_OK && ui.json) {
        json *j = digest_json(path, "file", hex.ptr);
        json_text(j, "hub_name", name.ptr);
        json_line(j, stdout);
    } else if (status == EXIT_OK) {
        print_text(stdout, "%s\n", escape_name(str_c(name.ptr)));
    }
    text_free(&name);
    text_free(&hex);
    return status;
}

static int check_name_digits(const char *path)
{
    struct text hex = {0};
    size_t n = 0;
    const char *digits = find_name_digits(path, &n);
    if (!digits)
        return report_failure(CKPT_EUSAGE, path, "ckpt hash --hub-name prints a name that has them",
                              "the name has no digits of a digest (expected a name like net-0676ba61.pth)");
    int status = add_sha256(path, NULL, &hex);
    if (status == EXIT_TROUBLE)
        return status;
    bool same = n <= hex.len && memcmp(digits, hex.ptr, n) == 0;
    if (ui.json) {
        json *j = digest_json(path, "file", hex.ptr);
        json_str(j, "name_digits", (ckpt_str){digits, n});
        json_bool(j, "matches", same);
        json_line(j, stdout);
    } else if (!same || !ui.quiet) {
        print_text(stdout, "%s: ", escape_name(str_c(path)));
        if (same)
            put_line("matches its name");
        else
            print_text(stdout, "the file's SHA-256 begins with %.*s\n", (int)(n < hex.len ? n : hex.len),
                       hex.ptr);
    }
    text_free(&hex);
    return same ? EXIT_OK : EXIT_NO;
}

int run_hash(int count, char **operand)
{
    int (*hash_bytes)(const char *) = opts.file_sha256      ? print_file_hash
                                      : opts.payload_sha256 ? print_payload_hash
                                      : opts.hub_name       ? print_hub_name
                                      : opts.check_name     ? check_name_digits
                                                            : NULL;
    if (opts.file_sha256 + opts.payload_sha256 + opts.hub_name + opts.check_name > 1)
        return usage_error("hash", "only one of --file-sha256, --payload-sha256, --hub-name, --check-name");
    if (opts.cast && strchr(opts.cast, '='))
        return usage_error("hash",
                           "--cast '%.200s': hash converts all tensors to one DTYPE; -g GLOB selects some",
                           escape_name(str_c(opts.cast)));
    if (opts.cast && (cast_dtype = ckpt_dtype_parse(str_c(opts.cast))) == CKPT_DT_NONE)
        return opt_bad_value("cast", opts.cast, "a dtype like bf16 or float32");
    if (hash_bytes && share_is_on())
        return usage_error("hash", "--part divides tensors, not a file's bytes");
    if (hash_bytes && (opts.xxh3 || opts.cast || opts.total || opts.ignore_crc || opts.globs.n || ui.root))
        return usage_error("hash", "--xxh3, --cast, --total, --ignore-crc, --glob and --root are about "
                                   "tensors, not a file's bytes");
    if (share_check("hash", count, operand, 1) != EXIT_OK)
        return EXIT_TROUBLE;
    print.for_programs = ui.json || (!ui.tty && (opts.file_sha256 || opts.hub_name)); /* sha256sum -c, mv */
    return files_each(count, operand, FILES_LINES, hash_bytes ? hash_bytes : hash_file);
}
