/*
 * truth.c - compares what ckpt reads from every file of the corpus with what the producing libraries read:
 *
 *   truth [-v] [--only TEXT] CORPUS
 *
 * CORPUS/truth/README.md explains the entries. A file passes if every tensor with a digest is listed with the
 * same path, name, dtype, shape and sha256, no other row is listed than that README allows, the same tensors
 * share storages, and a file that must be refused is refused with a reason.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tensor.h"

#define KINDS_MAX 32

/* A build without libarchive cannot unpack bzip2, xz, LZMA, LZ4 and zstd. */
#ifdef HAVE_LIBARCHIVE
#define UNPACKS_ALL true
#else
#define UNPACKS_ALL false
#endif

static const char *corpus, *only;
static bool verbose;
static int skipped;

static struct kind {
    char name[40];
    int passed, failed;
} kinds[KINDS_MAX];

/* One file of the corpus while it is checked. */
struct check {
    const cJSON *truth;
    const char *kind;
    ckpt_file *file;
    bool *expected; /* for each row, whether an entry of the truth describes it */
    char miss[800]; /* the first difference from the truth; empty: none */
    bool skipped;   /* this build cannot unpack it */
};

static void __attribute__((format(printf, 2, 3))) report_miss(struct check *c, const char *fmt, ...)
{
    va_list ap;
    if (c->miss[0])
        return;
    va_start(ap, fmt);
    vsnprintf(c->miss, sizeof c->miss, fmt, ap);
    va_end(ap);
}

/* ------------------------------------------------------------- the truth */

static const cJSON *get_item(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const char *get_text(const cJSON *o, const char *name)
{
    const char *s = cJSON_GetStringValue(get_item(o, name));
    return s ? s : "";
}

/* escape_nul - replaces \u0000 in a line of JSON by U+E000 and lone surrogates by U+FFFD, because cJSON ends
 * strings at NUL and refuses lone surrogates; unescape_nul() restores NUL. */
static void escape_nul(char *line)
{
    for (char *p = line; (p = strchr(p, '\\')); p += 2) {
        if (p[1] != 'u')
            continue;
        if (strncmp(p + 2, "0000", 4) == 0)
            memcpy(p + 2, "e000", 4);
        else if ((strncmp(p + 2, "d8", 2) == 0 || strncmp(p + 2, "dc", 2) == 0) &&
                 strncmp(p + 6, "\\ud", 3) != 0 && (p - line < 6 || strncmp(p - 6, "\\ud8", 4) != 0))
            memcpy(p + 2, "fffd", 4);
    }
}

static size_t unescape_nul(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    for (; *s && n + 1 < cap; s++) {
        if (strncmp(s, "\xee\x80\x80", 3) == 0) {
            out[n++] = 0;
            s += 2;
        } else {
            out[n++] = *s;
        }
    }
    return n;
}

static bool text_equals(const cJSON *want, ckpt_str got)
{
    char buf[4096];
    const char *s = cJSON_GetStringValue(want);
    if (!s)
        return false;
    size_t n = unescape_nul(s, buf, sizeof buf);
    return n == got.len && memcmp(buf, got.ptr, n) == 0;
}

static bool element_equals(const cJSON *want, ckpt_path_elem got)
{
    if (cJSON_IsNumber(want))
        return got.is_int && (double)got.num == want->valuedouble;
    if (cJSON_IsObject(want))
        return !got.is_int && text_equals(get_item(want, "repr"), got.str);
    return !got.is_int && text_equals(want, got.str);
}

/* begins_with - returns whether the path of T begins with WANT, and if so sets *N to the length of WANT. */
static bool begins_with(const ckpt_tensor *t, const cJSON *want, uint32_t *n)
{
    const cJSON *e;
    *n = 0;
    cJSON_ArrayForEach(e, want)
    {
        if (*n >= t->npath || !element_equals(e, t->path[*n]))
            return false;
        (*n)++;
    }
    return true;
}

static bool path_equals(const cJSON *want, const ckpt_tensor *t)
{
    uint32_t n;
    return begins_with(t, want, &n) && n == t->npath;
}

/* is_below - returns whether WANT is a proper prefix of T's path. */
static bool is_below(const cJSON *want, const ckpt_tensor *t)
{
    uint32_t n;
    return begins_with(t, want, &n) && n < t->npath;
}

/* find_row - finds the row with PATH and sets *ROW to its index and c->expected to true for it. */
static bool find_row(struct check *c, const cJSON *path, uint32_t *row)
{
    for (uint32_t i = 0; i < ckpt_tensor_count(c->file); i++) {
        const ckpt_tensor it = tensor_at(c->file, i);
        if (path_equals(path, &it)) {
            c->expected[i] = true;
            *row = i;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- tensors */

static bool digest_equals(struct check *c, uint32_t row, const char *hex, ckpt_error *err)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    char got[2 * CKPT_DIGEST_MAX + 1];
    if (ckpt_digest_tensor(c->file, row, CKPT_SHA256, sum, err) != CKPT_OK)
        return false;
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(got + 2 * i, 3, "%02x", sum[i]);
    return strcmp(got, hex) == 0;
}

static bool shape_equals(const ckpt_tensor *t, const cJSON *want)
{
    uint32_t d = 0;
    const cJSON *e;
    if (!cJSON_IsArray(want))
        return true;
    cJSON_ArrayForEach(e, want) if (cJSON_IsString(e)) /* "j0": a ragged dimension, for ckpt no shape */
        return !t->has_shape;
    if (!t->has_shape)
        return false;
    cJSON_ArrayForEach(e, want)
    {
        if (d >= t->ndim || (double)t->shape[d] != e->valuedouble)
            return false;
        d++;
    }
    return d == t->ndim;
}

/* Kinds of file for which the truth has dtypes in ckpt's spelling. */
#define EXACT_KINDS " npy npz numpy-pickle joblib hdf5 keras paddle-pickle pdiparams onnx "

static bool is_one_of(const char *word, const char *list)
{
    char key[64];
    snprintf(key, sizeof key, " %s ", word);
    return strstr(list, key) != NULL;
}

/* dtype_equals - returns true if T has the dtype of ENTRY. The dtypes of quantised tensors and bare storages
 * are not compared: the former may be listed with their integer types, the latter as bytes. */
static bool dtype_equals(const struct check *c, const ckpt_tensor *t, const cJSON *entry)
{
    const char *kind = get_text(entry, "kind"), *want = get_text(entry, "dtype");
    ckpt_str spelled = {want, strlen(want)};
    if (strcmp(kind, "quantized") == 0 || strcmp(kind, "storage") == 0 || !want[0])
        return true;
    bool is_exact = is_one_of(c->kind, EXACT_KINDS);
    return strcmp(ckpt_tensor_dtype_name(t), want) == 0 ||
           (!is_exact && (ckpt_dtype_parse(spelled) == t->dtype || t->dtype == CKPT_DT_NP));
}

static void check_row(struct check *c, const cJSON *entry, uint32_t row)
{
    const ckpt_tensor it = tensor_at(c->file, row), *t = &it;
    const char *sum = get_text(entry, "sha256");
    ckpt_error err = {0};
    char line[1400];
    if (get_item(entry, "name") && !text_equals(get_item(entry, "name"), t->name))
        report_miss(c, "expected the name %s, found %s", get_text(entry, "name"), t->name.ptr);
    if (!dtype_equals(c, t, entry))
        report_miss(c, "%s: dtype %s, must be %s", t->name.ptr, ckpt_tensor_dtype_name(t),
                    get_text(entry, "dtype"));
    if (!shape_equals(t, get_item(entry, "shape")))
        report_miss(c, "%s: different shape", t->name.ptr);
    if (sum[0] && !digest_equals(c, row, sum, &err))
        report_miss(c, "%s: %s", t->name.ptr,
                    err.status ? ckpt_error_text(&err, line, sizeof line) : "different bytes");
}

/* check_as_float32 - compares ggml's blocks as float32; null in the truth: gguf-py cannot dequantize that
 * type. */
static void check_as_float32(struct check *c)
{
    const cJSON *e;
    bool any = false, all = true;
    ckpt_error err = {0};
    uint32_t row;
    cJSON_ArrayForEach(e, get_item(c->truth, "tensors"))
    {
        any |= get_item(e, "f32_sha256") != NULL;
        all &= !cJSON_IsNull(get_item(e, "f32_sha256"));
    }
    if (any && (ckpt_file_digest_as(c->file, CKPT_DT_F32, &err) == CKPT_OK) != all)
        report_miss(c, "as float32: %s", all ? err.what : "accepted");
    cJSON_ArrayForEach(
        e, get_item(c->truth, "tensors")) if (any && all && get_text(e, "f32_sha256")[0] &&
                                              find_row(c, get_item(e, "path"), &row) &&
                                              !digest_equals(c, row, get_text(e, "f32_sha256"), &err))
        report_miss(c, "%s: different numbers as float32", get_text(e, "name"));
}

static void check_tensors(struct check *c)
{
    const cJSON *e;
    uint32_t row = 0;
    cJSON_ArrayForEach(e, get_item(c->truth, "tensors"))
    {
        if (find_row(c, get_item(e, "path"), &row))
            check_row(c, e, row);
        else if (get_item(e, "sha256") &&
                 !get_item(e, "part")) /* a component may be part of its composite's row */
            report_miss(c, "%s is not listed", get_text(e, "name"));
    }
    cJSON_ArrayForEach(e, get_item(c->truth, "leaves")) /* numpy arrays and scalars */
    {
        if (find_row(c, get_item(e, "path"), &row))
            check_row(c, e, row);
        else if (get_item(e, "sha256"))
            report_miss(c, "a numpy array (%s) is not listed", get_text(e, "type"));
    }
    cJSON_ArrayForEach(e, get_item(c->truth, "not_in_torch"))
    {
        ckpt_str name = {e->string, strlen(e->string)};
        row = ckpt_tensor_find(c->file, name);
        if (row == CKPT_NO_TENSOR) {
            report_miss(c, "%s is not listed", e->string);
            continue;
        }
        c->expected[row] = true;
        check_row(c, e, row);
    }
}

/* -------------------------------------------------- nothing else is listed */

/* has_custom_classes - returns whether the file has objects of other classes than containers, whose state the
 * truth lists in the order and form that those classes define. */
static bool has_custom_classes(const struct check *c)
{
    const char *root = get_text(c->truth, "root");
    const cJSON *e;
    cJSON_ArrayForEach(e, get_item(c->truth, "tensors")) if (get_item(e, "class")) return true;
    return !is_one_of(root, " dict collections.OrderedDict list tuple collections.defaultdict ") && root[0];
}

static bool is_below_composite(const struct check *c, const ckpt_tensor *t)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, get_item(c->truth, "tensors")) if (!get_item(e, "sha256") &&
                                                             is_below(get_item(e, "path"), t)) return true;
    return false;
}

/* is_recorded_tie - returns whether T is a tie of the metadata, which the producer's reader does not list. */
static bool is_recorded_tie(const struct check *c, const ckpt_tensor *t)
{
    return is_one_of(c->kind, " safetensors hf-shards ") && t->alias_of != CKPT_NO_TENSOR &&
           c->expected[t->alias_of];
}

/* check_extra_rows - checks that no row is listed that the truth does not have. */
static void check_extra_rows(struct check *c)
{
    const cJSON *total = get_item(c->truth, "tensor_count"); /* if the truth lists only some tensors */
    if (total && total->valuedouble != ckpt_tensor_count(c->file))
        report_miss(c, "%u tensors, expected %g", ckpt_tensor_count(c->file), total->valuedouble);
    if (total || is_one_of(c->kind, " torchscript torchscript-json torchscript-lite package export ") ||
        has_custom_classes(c))
        return;
    for (uint32_t i = 0; i < ckpt_tensor_count(c->file); i++) {
        const ckpt_tensor it = tensor_at(c->file, i), *t = &it;
        if (!c->expected[i] && !is_below_composite(c, t) && !is_recorded_tie(c, t))
            report_miss(c, "%s is listed, and the producer has no such tensor", t->name.ptr);
    }
}

/* ---------------------------------------------------------------- aliases */

/* check_aliases - checks that two tensors share a storage exactly if they have the same number in the
 * truth. */
static void check_aliases(struct check *c)
{
    struct pair {
        uint32_t truth, ours; /* the number of a storage in the truth, and in ckpt's table */
    } * pairs;
    const cJSON *e;
    size_t n = 0;
    uint32_t row;
    if (!is_one_of(c->kind, " zip legacy tar pickle hf-shards safetensors "))
        return;
    pairs = calloc((size_t)cJSON_GetArraySize(get_item(c->truth, "tensors")) + 1, sizeof *pairs);
    if (!pairs)
        abort();
    cJSON_ArrayForEach(e, get_item(c->truth, "tensors"))
    {
        if (!find_row(c, get_item(e, "path"), &row))
            continue;
        const ckpt_tensor it = tensor_at(c->file, row), *t = &it;
        if (!get_item(e, "sha256") || !get_item(e, "storage") || t->storage == CKPT_NO_STORAGE ||
            !t->elements)
            continue;
        pairs[n].truth = (uint32_t)get_item(e, "storage")->valuedouble;
        pairs[n].ours = t->storage;
        for (size_t i = 0; i < n; i++)
            if ((pairs[i].truth == pairs[n].truth) != (pairs[i].ours == pairs[n].ours))
                report_miss(c, "%s: its storage is shared differently", t->name.ptr);
        n++;
    }
    free(pairs);
}

/* --------------------------------------------------------------- verdicts */

/* read_all - reads all tensors, because some faults are found only then. */
static ckpt_status read_all(ckpt_file *file, ckpt_error *err)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    for (uint32_t i = 0; i < ckpt_tensor_count(file); i++) {
        ckpt_status s = CKPT_OK;
        if (tensor_at(file, i).has_data)
            s = ckpt_digest_tensor(file, i, CKPT_SHA256, sum, err);
        if (s != CKPT_OK)
            return s;
    }
    return CKPT_OK;
}

static void check_content(struct check *c)
{
    c->expected = calloc((size_t)ckpt_tensor_count(c->file) + 1, sizeof *c->expected);
    if (!c->expected)
        abort();
    check_tensors(c);
    check_extra_rows(c);
    check_aliases(c);
    check_as_float32(c);
    free(c->expected);
}

/* needs_libarchive - returns whether WHAT, the reason of a refusal, is that the file is compressed. */
static bool needs_libarchive(const char *what)
{
    return strstr(what, "compressed") || strstr(what, "without libarchive");
}

static void check_verdict(struct check *c, ckpt_status opened, ckpt_error *err)
{
    const char *verdict = get_text(c->truth, "verdict");
    bool refuse = strcmp(verdict, "refuse") == 0;
    char line[1400];
    if (opened == CKPT_OK && refuse)
        opened = read_all(c->file, err);
    ckpt_error_text(err, line, sizeof line);
    c->skipped = !UNPACKS_ALL && opened == CKPT_EUNSUPPORTED && needs_libarchive(err->what);
    if (opened != CKPT_OK && !err->what[0])
        report_miss(c, "refused without a reason");
    if (opened == CKPT_OK && refuse) {
        report_miss(c, "must be refused: %s", get_text(c->truth, "reason"));
    } else if (opened == CKPT_OK) {
        if (strcmp(verdict, "none") == 0 && ckpt_tensor_count(c->file))
            report_miss(c, "not a checkpoint, but tensors are listed");
        else if (get_item(c->truth, "tensors") || !is_one_of(c->kind, EXACT_KINDS)) /* the producer read it */
            check_content(c);
    } else if (strcmp(verdict, "ok") == 0 || strcmp(verdict, "readable") == 0) {
        report_miss(c, "refused: %s", line);
    }
    if (verbose && opened != CKPT_OK && !c->miss[0])
        printf("       refused %s\n", line);
}

static void count_result(const char *kind, bool passed)
{
    int i = 0;
    while (i < KINDS_MAX - 1 && kinds[i].name[0] && strcmp(kinds[i].name, kind) != 0)
        i++;
    snprintf(kinds[i].name, sizeof kinds[i].name, "%s", kind);
    kinds[i].passed += passed;
    kinds[i].failed += !passed;
}

static void check_entry(const cJSON *truth)
{
    struct check c = {.truth = truth, .kind = get_text(truth, "kind")};
    ckpt_error err = {0};
    char path[2048];
    if (only && !strstr(get_text(truth, "file"), only))
        return;
    snprintf(path, sizeof path, "%s/%s", corpus, get_text(truth, "file"));
    ckpt_status opened = ckpt_open(path, NULL, &c.file, &err);
    check_verdict(&c, opened, &err);
    ckpt_close(c.file);
    if (c.skipped && c.miss[0]) {
        printf("truth skipped: %s needs libarchive\n", get_text(truth, "file"));
        skipped++;
        return;
    }
    if (c.miss[0])
        printf("MISS %s (%s): %s\n", get_text(truth, "file"), c.kind, c.miss);
    count_result(c.kind, !c.miss[0]);
}

/* ------------------------------------------------------------------ files */

static void check_list(const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    if (!f) {
        perror(path);
        exit(2);
    }
    while (getline(&line, &cap, f) > 0) {
        escape_nul(line);
        cJSON *truth = cJSON_Parse(line);
        if (!truth) {
            fprintf(stderr, "truth: %s: a line is not JSON\n", path);
            exit(2);
        }
        check_entry(truth);
        cJSON_Delete(truth);
    }
    free(line);
    fclose(f);
}

static int is_list(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 6 && strcmp(e->d_name + n - 6, ".jsonl") == 0;
}

static void check_corpus(void)
{
    struct dirent **lists;
    char path[2048];
    snprintf(path, sizeof path, "%s/truth", corpus);
    int n = scandir(path, &lists, is_list, alphasort);
    if (n < 0) {
        perror(path);
        exit(2);
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/truth/%s", corpus, lists[i]->d_name);
        check_list(path);
        free(lists[i]);
    }
    free(lists);
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            corpus = argv[i];
    }
    if (!corpus) {
        fprintf(stderr, "usage: truth [-v] [--only TEXT] CORPUS\n");
        return 2;
    }
    check_corpus();
    for (int i = 0; i < KINDS_MAX && kinds[i].name[0]; i++) {
        printf("%-24s %d of %d\n", kinds[i].name, kinds[i].passed, kinds[i].passed + kinds[i].failed);
        passed += kinds[i].passed;
        failed += kinds[i].failed;
    }
    printf("truth: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0 || passed == 0;
}
