/*
 * truth.c - compares what ckpt reads from every file of the corpus with what the producing libraries read:
 *
 *   truth [-v] [--only TEXT] CORPUS
 *
 * Each line of the .jsonl files in CORPUS/truth is an entry, which describes one file of the corpus;
 * CORPUS/truth/README.md explains the entries. A file passes if
 *   - ckpt lists every tensor of the entry that has a digest, with the same path, name, dtype, shape and
 *     sha256;
 *   - ckpt lists no other tensor, except where that README permits it;
 *   - two tensors share a storage in ckpt's table exactly if they do in the entry.
 * A file whose entry says "refuse" passes if ckpt refuses it with a reason.
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
#define HAS_LIBARCHIVE true
#else
#define HAS_LIBARCHIVE false
#endif

static const char *corpus, *only_text; /* only_text: check only files whose path contains it */
static bool verbose;
static int nskipped;

/* How many files of each kind passed. The kind of a file is the "kind" of its entry. */
static struct kind {
    char name[40];
    int passed, failed;
} kinds[KINDS_MAX];

/* One file of the corpus while it is checked. */
struct check {
    const cJSON *truth; /* the entry of the file */
    const char *kind;
    ckpt_file *file;
    bool *expected;       /* for each tensor that ckpt lists: the truth has it, too */
    char difference[800]; /* the first difference from the truth; empty: there is none */
    bool cannot_unpack;   /* this build lacks libarchive, which the file needs */
};

static void __attribute__((format(printf, 2, 3))) report_difference(struct check *c, const char *fmt, ...)
{
    va_list ap;
    if (c->difference[0])
        return;
    va_start(ap, fmt);
    vsnprintf(c->difference, sizeof c->difference, fmt, ap);
    va_end(ap);
}

/* ------------------------------------------------------------- the truth */

static const cJSON *get_item(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* get_text - returns the text of the item NAME, or "" if there is no such text. */
static const char *get_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(get_item(object, name));
    return text ? text : "";
}

/* escape_nul - replaces \u0000 in a line of JSON by U+E000 and lone surrogates by U+FFFD, because cJSON ends
 * strings at NUL and refuses lone surrogates; unescape_nul() restores NUL. */
static void escape_nul(char *line)
{
    for (char *escape = line; (escape = strchr(escape, '\\')); escape += 2) {
        char *hex = escape + 2;
        if (escape[1] != 'u')
            continue;
        bool is_surrogate = strncmp(hex, "d8", 2) == 0 || strncmp(hex, "dc", 2) == 0;
        bool before_surrogate = strncmp(escape + 6, "\\ud", 3) == 0;
        bool after_surrogate = escape - line >= 6 && strncmp(escape - 6, "\\ud8", 4) == 0;
        if (strncmp(hex, "0000", 4) == 0)
            memcpy(hex, "e000", 4);
        else if (is_surrogate && !before_surrogate && !after_surrogate)
            memcpy(hex, "fffd", 4);
    }
}

/* unescape_nul - copies TEXT to OUT with NUL instead of U+E000, and returns the length. */
static size_t unescape_nul(const char *text, char *out, size_t cap)
{
    static const char escaped_nul[] = "\xee\x80\x80"; /* U+E000 in UTF-8 */
    size_t n = 0;
    for (; *text && n + 1 < cap; text++) {
        if (strncmp(text, escaped_nul, 3) == 0) {
            out[n++] = 0;
            text += 2;
        } else {
            out[n++] = *text;
        }
    }
    return n;
}

static bool text_equals(const cJSON *want, ckpt_str got)
{
    char expected[4096];
    const char *escaped = cJSON_GetStringValue(want);
    if (!escaped)
        return false;
    size_t n = unescape_nul(escaped, expected, sizeof expected);
    return n == got.len && memcmp(expected, got.ptr, n) == 0;
}

/* element_equals - returns whether WANT, an element of a path in the truth, equals GOT. WANT is a number, a
 * text, or for a key of another type {"repr": text}. */
static bool element_equals(const cJSON *want, ckpt_path_elem got)
{
    if (cJSON_IsNumber(want))
        return got.is_int && (double)got.num == want->valuedouble;
    if (cJSON_IsObject(want))
        return !got.is_int && text_equals(get_item(want, "repr"), got.str);
    return !got.is_int && text_equals(want, got.str);
}

/* path_begins_with - returns whether the path of T begins with WANT, and if so sets *N to the number of
 * elements of WANT. */
static bool path_begins_with(const ckpt_tensor *t, const cJSON *want, uint32_t *n)
{
    const cJSON *element;
    *n = 0;
    cJSON_ArrayForEach(element, want)
    {
        if (*n >= t->npath || !element_equals(element, t->path[*n]))
            return false;
        (*n)++;
    }
    return true;
}

static bool path_equals(const cJSON *want, const ckpt_tensor *t)
{
    uint32_t n;
    return path_begins_with(t, want, &n) && n == t->npath;
}

/* is_below - returns whether the path of T begins with the path WANT and is longer. */
static bool is_below(const cJSON *want, const ckpt_tensor *t)
{
    uint32_t n;
    return path_begins_with(t, want, &n) && n < t->npath;
}

/* find_row - finds the tensor with PATH, sets *ROW to its index, and records in c->expected that the truth
 * has it. */
static bool find_row(struct check *c, const cJSON *path, uint32_t *row)
{
    for (uint32_t i = 0; i < ckpt_tensor_count(c->file); i++) {
        const ckpt_tensor t = tensor_at(c->file, i);
        if (path_equals(path, &t)) {
            c->expected[i] = true;
            *row = i;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- tensors */

/* digest_equals - returns whether row ROW has the SHA-256 HEX; fills in ERR if the row cannot be read. */
static bool digest_equals(struct check *c, uint32_t row, const char *hex, ckpt_error *err)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    char found[2 * CKPT_DIGEST_MAX + 1];
    if (ckpt_digest_tensor(c->file, row, CKPT_SHA256, digest, err) != CKPT_OK)
        return false;
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(found + 2 * i, 3, "%02x", digest[i]);
    return strcmp(found, hex) == 0;
}

static bool shape_equals(const ckpt_tensor *t, const cJSON *want)
{
    uint32_t dim = 0;
    const cJSON *size;
    if (!cJSON_IsArray(want)) /* not recorded */
        return true;
    /* "j0" is a dimension whose size varies (torch.jagged): ckpt lists no shape */
    cJSON_ArrayForEach(size, want) if (cJSON_IsString(size)) return !t->has_shape;
    if (!t->has_shape)
        return false;
    cJSON_ArrayForEach(size, want)
    {
        if (dim >= t->ndim || (double)t->shape[dim] != size->valuedouble)
            return false;
        dim++;
    }
    return dim == t->ndim;
}

/* Kinds of file for which the truth must spell a dtype as ckpt does. An entry of these kinds has no "tensors"
 * if the library that wrote the file cannot read it. */
#define EXACT_DTYPE_KINDS " npy npz numpy-pickle joblib hdf5 keras paddle-pickle pdiparams onnx "

/* is_one_of - returns whether WORD is in LIST, in which each word is between blanks. */
static bool is_one_of(const char *word, const char *list)
{
    char between_blanks[64];
    snprintf(between_blanks, sizeof between_blanks, " %s ", word);
    return strstr(list, between_blanks) != NULL;
}

/* dtype_equals - returns whether T has the dtype of ENTRY. Two kinds of tensor are not compared: a quantized
 * one, whose integer type ckpt may list, and a storage without a tensor, which ckpt may list as bytes. */
static bool dtype_equals(const struct check *c, const ckpt_tensor *t, const cJSON *entry)
{
    const char *kind = get_text(entry, "kind"), *want = get_text(entry, "dtype");
    ckpt_str spelled = {want, strlen(want)};
    if (strcmp(kind, "quantized") == 0 || strcmp(kind, "storage") == 0 || !want[0])
        return true;
    bool needs_exact_name = is_one_of(c->kind, EXACT_DTYPE_KINDS);
    return strcmp(ckpt_tensor_dtype_name(t), want) == 0 ||
           (!needs_exact_name && (ckpt_dtype_parse(spelled) == t->dtype || t->dtype == CKPT_DT_NAMED));
}

static void check_row(struct check *c, const cJSON *entry, uint32_t row)
{
    const ckpt_tensor t = tensor_at(c->file, row);
    const char *digest = get_text(entry, "sha256");
    ckpt_error err = {0};
    char line[1400];
    if (get_item(entry, "name") && !text_equals(get_item(entry, "name"), t.name))
        report_difference(c, "expected the name %s, found %s", get_text(entry, "name"), t.name.ptr);
    if (!dtype_equals(c, &t, entry))
        report_difference(c, "%s: dtype %s, expected %s", t.name.ptr, ckpt_tensor_dtype_name(&t),
                          get_text(entry, "dtype"));
    if (!shape_equals(&t, get_item(entry, "shape")))
        report_difference(c, "%s: the shape differs", t.name.ptr);
    if (digest[0] && !digest_equals(c, row, digest, &err))
        report_difference(c, "%s: %s", t.name.ptr,
                          err.status ? ckpt_error_text(&err, line, sizeof line) : "the bytes differ");
}

/* check_as_float32 - compares the numbers of ggml's quantized blocks, as float32. If the truth has null for a
 * tensor, gguf-py cannot dequantize its type, and ckpt must refuse to digest the file as float32. */
static void check_as_float32(struct check *c)
{
    const cJSON *entry;
    bool has_digests = false, can_dequantize = true;
    ckpt_error err = {0};
    uint32_t row;
    cJSON_ArrayForEach(entry, get_item(c->truth, "tensors"))
    {
        has_digests |= get_item(entry, "f32_sha256") != NULL;
        can_dequantize &= !cJSON_IsNull(get_item(entry, "f32_sha256"));
    }
    if (!has_digests)
        return;
    if ((ckpt_file_digest_as(c->file, CKPT_DT_F32, &err) == CKPT_OK) != can_dequantize)
        report_difference(c, "digests as float32: %s",
                          can_dequantize ? err.what : "they should be refused, but are computed");
    if (!can_dequantize)
        return;
    cJSON_ArrayForEach(entry, get_item(c->truth, "tensors"))
    {
        const char *hex = get_text(entry, "f32_sha256");
        if (hex[0] && find_row(c, get_item(entry, "path"), &row) && !digest_equals(c, row, hex, &err))
            report_difference(c, "%s: the numbers as float32 differ", get_text(entry, "name"));
    }
}

static void check_tensors(struct check *c)
{
    const cJSON *entry;
    uint32_t row = 0;
    cJSON_ArrayForEach(entry, get_item(c->truth, "tensors"))
    {
        if (find_row(c, get_item(entry, "path"), &row))
            check_row(c, entry, row);
        else if (get_item(entry, "sha256") &&
                 !get_item(entry, "part")) /* instead of a part, ckpt may list the tensor that has it */
            report_difference(c, "%s is not listed", get_text(entry, "name"));
    }
    cJSON_ArrayForEach(entry, get_item(c->truth, "leaves")) /* numpy arrays and scalars */
    {
        if (find_row(c, get_item(entry, "path"), &row))
            check_row(c, entry, row);
        else if (get_item(entry, "sha256"))
            report_difference(c, "a numpy array (%s) is not listed", get_text(entry, "type"));
    }
    cJSON_ArrayForEach(entry, get_item(c->truth, "not_in_torch"))
    {
        ckpt_str name = {entry->string, strlen(entry->string)};
        row = ckpt_tensor_find(c->file, name);
        if (row == CKPT_NO_TENSOR) {
            report_difference(c, "%s is not listed", entry->string);
            continue;
        }
        c->expected[row] = true;
        check_row(c, entry, row);
    }
}

/* -------------------------------------------------- nothing else is listed */

/* has_custom_classes - returns whether the file has objects of classes other than containers. The truth lists
 * the state of such objects as their classes define it, and so may lack tensors that ckpt lists. */
static bool has_custom_classes(const struct check *c)
{
    const char *root = get_text(c->truth, "root");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, get_item(c->truth, "tensors")) if (get_item(entry, "class")) return true;
    return !is_one_of(root, " dict collections.OrderedDict list tuple collections.defaultdict ") && root[0];
}

/* is_part - returns whether the path of T is below that of an entry without a digest: a tensor with parts. */
static bool is_part(const struct check *c, const ckpt_tensor *t)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry,
                       get_item(c->truth, "tensors")) if (!get_item(entry, "sha256") &&
                                                          is_below(get_item(entry, "path"), t)) return true;
    return false;
}

/* is_recorded_tie - returns whether T is a tie that only the metadata of the file record; the library that
 * wrote the file does not list it. */
static bool is_recorded_tie(const struct check *c, const ckpt_tensor *t)
{
    return is_one_of(c->kind, " safetensors hf-shards ") && t->alias_of != CKPT_NO_TENSOR &&
           c->expected[t->alias_of];
}

/* check_extra_tensors - checks that ckpt lists no tensor that the truth does not have. */
static void check_extra_tensors(struct check *c)
{
    /* An entry has "tensor_count" if its "tensors" are only some of the tensors of the file. */
    const cJSON *total = get_item(c->truth, "tensor_count");
    if (total && total->valuedouble != ckpt_tensor_count(c->file))
        report_difference(c, "%u tensors are listed, expected %g", ckpt_tensor_count(c->file),
                          total->valuedouble);
    if (total || is_one_of(c->kind, " torchscript torchscript-json torchscript-lite package export ") ||
        has_custom_classes(c))
        return;
    for (uint32_t i = 0; i < ckpt_tensor_count(c->file); i++) {
        const ckpt_tensor t = tensor_at(c->file, i);
        if (!c->expected[i] && !is_part(c, &t) && !is_recorded_tie(c, &t))
            report_difference(c, "%s is listed, but the truth has no such tensor", t.name.ptr);
    }
}

/* ---------------------------------------------------------------- aliases */

/* check_aliases - checks that two tensors share a storage in ckpt's table exactly if the truth gives both the
 * same storage number. */
static void check_aliases(struct check *c)
{
    struct pair {
        uint32_t want, got; /* the number of a tensor's storage in the truth, and in ckpt's table */
    } *pairs;
    const cJSON *entry;
    size_t npairs = 0;
    uint32_t row;
    if (!is_one_of(c->kind, " zip legacy tar pickle hf-shards safetensors "))
        return;
    pairs = calloc((size_t)cJSON_GetArraySize(get_item(c->truth, "tensors")) + 1, sizeof *pairs);
    if (!pairs)
        abort();
    cJSON_ArrayForEach(entry, get_item(c->truth, "tensors"))
    {
        if (!find_row(c, get_item(entry, "path"), &row))
            continue;
        const ckpt_tensor t = tensor_at(c->file, row);
        if (!get_item(entry, "sha256") || !get_item(entry, "storage") || t.storage == CKPT_NO_STORAGE ||
            !t.elements)
            continue;
        pairs[npairs].want = (uint32_t)get_item(entry, "storage")->valuedouble;
        pairs[npairs].got = t.storage;
        for (size_t i = 0; i < npairs; i++)
            if ((pairs[i].want == pairs[npairs].want) != (pairs[i].got == pairs[npairs].got))
                report_difference(c, "%s: it shares its storage with different tensors", t.name.ptr);
        npairs++;
    }
    free(pairs);
}

/* --------------------------------------------------------------- verdicts */

/* read_tensors - reads the bytes of all tensors, because some damage is found only then. */
static ckpt_status read_tensors(ckpt_file *file, ckpt_error *err)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    for (uint32_t i = 0; i < ckpt_tensor_count(file); i++) {
        ckpt_status status = CKPT_OK;
        if (tensor_at(file, i).has_data)
            status = ckpt_digest_tensor(file, i, CKPT_SHA256, digest, err);
        if (status != CKPT_OK)
            return status;
    }
    return CKPT_OK;
}

static void check_content(struct check *c)
{
    c->expected = calloc((size_t)ckpt_tensor_count(c->file) + 1, sizeof *c->expected);
    if (!c->expected)
        abort();
    check_tensors(c);
    check_extra_tensors(c);
    check_aliases(c);
    check_as_float32(c);
    free(c->expected);
}

/* needs_libarchive - returns whether a file was refused because a build without libarchive cannot unpack it;
 * WHAT is the reason that the error gives. */
static bool needs_libarchive(const char *what)
{
    return strstr(what, "compressed") || strstr(what, "without libarchive");
}

/* check_verdict - compares ST, the result of opening the file, and the content of the file with the verdict
 * of the entry. "ok", "readable": the file must be read; "refuse": it must be refused; "either": both are
 * right; "none": it has no tensors. */
static void check_verdict(struct check *c, ckpt_status st, ckpt_error *err)
{
    const char *verdict = get_text(c->truth, "verdict");
    bool must_refuse = strcmp(verdict, "refuse") == 0;
    bool must_read = strcmp(verdict, "ok") == 0 || strcmp(verdict, "readable") == 0;
    bool producer_refused = !get_item(c->truth, "tensors") && is_one_of(c->kind, EXACT_DTYPE_KINDS);
    char line[1400];
    if (st == CKPT_OK && must_refuse)
        st = read_tensors(c->file, err);
    ckpt_error_text(err, line, sizeof line);
    c->cannot_unpack = !HAS_LIBARCHIVE && st == CKPT_EUNSUPPORTED && needs_libarchive(err->what);
    if (st != CKPT_OK && !err->what[0])
        report_difference(c, "was refused without a reason");
    if (st == CKPT_OK && must_refuse) {
        report_difference(c, "should be refused, but was read: %s", get_text(c->truth, "reason"));
    } else if (st == CKPT_OK) {
        if (strcmp(verdict, "none") == 0 && ckpt_tensor_count(c->file))
            report_difference(c, "tensors are listed, but the file is not a checkpoint");
        else if (!producer_refused)
            check_content(c);
    } else if (must_read) {
        report_difference(c, "was refused: %s", line);
    }
    if (verbose && st != CKPT_OK && !c->difference[0])
        printf("       rightly refused: %s\n", line);
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
    if (only_text && !strstr(get_text(truth, "file"), only_text))
        return;
    snprintf(path, sizeof path, "%s/%s", corpus, get_text(truth, "file"));
    ckpt_status st = ckpt_open(path, NULL, &c.file, &err);
    check_verdict(&c, st, &err);
    ckpt_close(c.file);
    if (c.cannot_unpack && c.difference[0]) {
        printf("truth skipped %s: this build has no libarchive\n", get_text(truth, "file"));
        nskipped++;
        return;
    }
    if (c.difference[0])
        printf("DIFFERS %s (%s): %s\n", get_text(truth, "file"), c.kind, c.difference);
    count_result(c.kind, !c.difference[0]);
}

/* ------------------------------------------------------------------ files */

/* check_truth_file - checks the files that the lines of PATH, a .jsonl file, describe. */
static void check_truth_file(const char *path)
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

static int is_jsonl(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 6 && strcmp(e->d_name + n - 6, ".jsonl") == 0;
}

static void check_corpus(void)
{
    struct dirent **truth_files;
    char path[2048];
    snprintf(path, sizeof path, "%s/truth", corpus);
    int n = scandir(path, &truth_files, is_jsonl, alphasort);
    if (n < 0) {
        perror(path);
        exit(2);
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/truth/%s", corpus, truth_files[i]->d_name);
        check_truth_file(path);
        free(truth_files[i]);
    }
    free(truth_files);
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only_text = argv[++i];
        else
            corpus = argv[i];
    }
    if (!corpus) {
        fprintf(stderr, "usage: truth [-v] [--only TEXT] CORPUS\n");
        return 2;
    }
    check_corpus();
    for (int i = 0; i < KINDS_MAX && kinds[i].name[0]; i++) {
        printf("%-24s %d of %d passed\n", kinds[i].name, kinds[i].passed, kinds[i].passed + kinds[i].failed);
        passed += kinds[i].passed;
        failed += kinds[i].failed;
    }
    printf("truth: %d passed, %d failed, %d skipped\n", passed, failed, nskipped);
    return failed != 0 || passed == 0;
}
