/*
 * manifest.c - writes and checks the manifests of `ckpt verify`. A manifest is a text that lists the tensors
 * of a file. That file, or a file of a different format, can be compared with the manifest later:
 *
 *   # ckpt manifest 1: …                      lines that begin with # are skipped
 *   DIGEST  DTYPE [SHAPE]  NAME               one for each row, in natural order of names
 *
 * DIGEST is that of `ckpt hash`: SHA-256 (64 digits) or XXH3-128 (32) over the row-major contiguous
 * little-endian bytes; `-` for a row without bytes of its own. Kind and note follow the shape where the
 * bytes alone do not determine the values. Names are escaped, so that each fits in its line. Two blanks
 * separate the three fields.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/text.h"
#include "io/sink.h"
#include "op/digest.h"
#include "op/hash_xxh3.h"
#include "op/root.h"
#include "op/verify.h"

#define MANIFEST_HEADER "# ckpt manifest 1: "

/* A row of the file. */
struct manifest_entry {
    ckpt_str name; /* escaped */
    ckpt_str raw;  /* not escaped */
    uint32_t row;
    uint32_t next_same_name; /* index of the next entry of this name, or MAP_NONE */
    uint32_t last_same_name; /* of the first entry of a name: index of the last one */
    bool is_compared;        /* with a line of the manifest */
};

struct manifest {
    struct check *c;
    ckpt_file *f;
    const uint8_t *digests;
    struct manifest_entry *entries;
    size_t n;
    map *names;          /* escaped name -> index of its first entry */
    size_t digest_size;  /* bytes */
    struct root weights; /* for a hint: perhaps the manifest lists only names below it */
    ckpt_error *err;
};

static ckpt_str escape_name(arena *a, ckpt_str text)
{
    size_t n = ckpt_text_escape(text, NULL, 0);
    char *out = arena_alloc(a, n + 1);
    if (out)
        (void)ckpt_text_escape(text, out, n + 1);
    return str_of(out, out ? n : 0);
}

static int compare_manifest_entries(const void *left, const void *right)
{
    const struct manifest_entry *a = left, *b = right;
    int c = ckpt_natural_compare(a->raw, b->raw);
    return c ? c : (a->row > b->row) - (a->row < b->row);
}

static ckpt_status list_entries(struct manifest *manifest)
{
    manifest->entries = calloc(manifest->f->table.nrows + 1, sizeof *manifest->entries);
    CKPT_TRY_ALLOC(manifest->entries, manifest->err);
    for (uint32_t i = 0; i < manifest->f->table.nrows; i++) {
        ckpt_str name = table_name(&manifest->f->table, i);
        struct manifest_entry e = {
            .name = escape_name(manifest->c->a, name), .raw = name, .row = i, .next_same_name = MAP_NONE};
        CKPT_TRY_ALLOC(e.name.ptr, manifest->err);
        manifest->entries[manifest->n++] = e;
    }
    qsort(manifest->entries, manifest->n, sizeof *manifest->entries, compare_manifest_entries);
    return CKPT_OK;
}

/* put_description - appends dtype and shape, and kind and note if they matter. */
static void put_description(buf *out, const ckpt_tensor *tensor)
{
    buf_put_cstr(out, tensor->dtype ? ckpt_tensor_dtype_name(tensor) : "?");
    buf_put_cstr(out, tensor->has_shape ? " [" : " ?");
    for (uint32_t k = 0; tensor->has_shape && k < tensor->ndim; k++)
        buf_printf(out, "%s%llu", k ? ", " : "", (unsigned long long)tensor->shape[k]);
    if (tensor->has_shape)
        buf_byte(out, ']');
    if (tensor->has_data && tensor->kind != CKPT_QUANTIZED)
        return;
    buf_printf(out, " %s", ckpt_kind_name((ckpt_kind)tensor->kind));
    if (!tensor->note.len)
        return;
    buf_byte(out, ' ');
    buf_put_str(out, tensor->note);
}

static void put_digest(buf *out, const struct manifest *manifest, uint32_t row)
{
    if (!table_has_data(&manifest->f->table, row)) {
        buf_byte(out, '-');
        return;
    }
    for (size_t i = 0; i < manifest->digest_size; i++)
        buf_printf(out, "%02x", manifest->digests[(size_t)row * CKPT_DIGEST_MAX + i]);
}

/* ---------------------------------------------------------------------- write */

ckpt_status manifest_write(struct check *check, ckpt_file *f, const uint8_t *digests, ckpt_error *err)
{
    struct manifest m = {.c = check, .f = f, .digests = digests, .err = err};
    struct sink_options o = {.force = check->opts->force};
    bool xxh3 = check->opts->algorithm == CKPT_XXH3;
    buf b;
    m.digest_size = xxh3 ? XXH3_BYTES : SHA256_BYTES;
    buf_init(&b, SIZE_MAX / 2);
    buf_printf(&b, MANIFEST_HEADER "%s of each tensor's little-endian row-major bytes\n",
               xxh3 ? "xxh3-128" : "sha256");
    ckpt_status st = list_entries(&m);
    for (size_t i = 0; st == CKPT_OK && i < m.n; i++) {
        put_digest(&b, &m, m.entries[i].row);
        buf_put_cstr(&b, "  ");
        const ckpt_tensor t = table_tensor(&f->table, m.entries[i].row);
        put_description(&b, &t);
        buf_put_cstr(&b, "  ");
        buf_put_str(&b, m.entries[i].name);
        buf_byte(&b, '\n');
    }
    free(m.entries);
    if (st == CKPT_OK && !buf_ok(&b))
        st = fail_memory(err);
    if (st == CKPT_OK)
        st = name_file_if_failed(sink_write_whole_file(check->opts->write_manifest, &o, buf_view(&b), err),
                                 check->opts->write_manifest, err);
    buf_free(&b);
    return st;
}

/* ----------------------------------------------------------------------- read */

#define MANIFEST_MAX (256u << 20) /* bytes */

static ckpt_status read_manifest_text(const char *path, struct manifest_text *out, ckpt_error *err)
{
    source *src;
    ckpt_status st = source_file_open(path, &src, err);
    if (st == CKPT_OK) {
        if (src->size > MANIFEST_MAX)
            st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a manifest of %llu bytes; at most %u are read",
                      (unsigned long long)src->size, MANIFEST_MAX);
        else if (!(out->ptr = malloc((size_t)src->size + 1)))
            st = fail_memory(err);
        else
            st = source_read(src, 0, out->ptr, (size_t)src->size, err);
        out->len = (size_t)src->size;
        source_unref(src);
    }
    return st;
}

struct manifest_line {
    ckpt_str digest, description, name;
    uint64_t offset; /* in the manifest */
};

/* take_field - moves the text before the next two blanks from *REST to *OUT, and removes the blanks. False:
 * *REST does not have two blanks after a text. */
static bool take_field(ckpt_str *rest, ckpt_str *out)
{
    size_t n = str_find(*rest, STR_LIT("  "), 0);
    if (n == SIZE_MAX || n == 0)
        return false;
    *out = str_of(rest->ptr, n);
    *rest = str_skip(*rest, n + 2);
    return true;
}

static bool is_digest(ckpt_str text)
{
    if (str_is(text, "-"))
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (!((text.ptr[i] >= '0' && text.ptr[i] <= '9') || (text.ptr[i] >= 'a' && text.ptr[i] <= 'f')))
            return false;
    return text.len == 2 * SHA256_BYTES || text.len == 2 * XXH3_BYTES; /* hexadecimal digits */
}

/* next_line - sets *OUT to the next line that is not a comment; false: there is none, or *ST is an error. */
static bool next_line(ckpt_str text, size_t *pos, struct manifest_line *out, ckpt_status *st, ckpt_error *err)
{
    while (*pos < text.len) {
        ckpt_str rest = str_skip(text, *pos);
        size_t n = str_find(rest, STR_LIT("\n"), 0);
        out->offset = *pos;
        rest.len = n < rest.len ? n : rest.len;
        *pos += rest.len + 1;
        if (rest.len && rest.ptr[rest.len - 1] == '\r')
            rest.len--;
        if (rest.len == 0 || rest.ptr[0] == '#')
            continue;
        if (take_field(&rest, &out->digest) && is_digest(out->digest) &&
            take_field(&rest, &out->description)) {
            out->name = rest;
            return true;
        }
        *st = fail(err, CKPT_EFORMAT, out->offset,
                   "not a manifest line (expected \"DIGEST  DTYPE [SHAPE]  NAME\")\n"
                   "ckpt verify --write-manifest writes a manifest");
        return false;
    }
    return false;
}

static const char *display_path(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

/* find_algorithm - sets *OUT by the length of the first digest. Refuses a text without a line or header. */
static ckpt_status find_algorithm(ckpt_str text, ckpt_algorithm *out, ckpt_error *err)
{
    struct manifest_line line;
    size_t pos = 0, lines = 0;
    ckpt_status st = CKPT_OK;
    *out = CKPT_SHA256;
    while (next_line(text, &pos, &line, &st, err)) {
        lines++;
        if (line.digest.len == 1) /* "-": a tensor without bytes */
            continue;
        *out = line.digest.len == 2 * SHA256_BYTES ? CKPT_SHA256 : CKPT_XXH3;
        break;
    }
    if (st == CKPT_OK && !lines && !str_starts(text, STR_LIT(MANIFEST_HEADER)))
        st = fail(err, CKPT_EFORMAT, 0, "not a manifest: it has no lines \"DIGEST  DTYPE [SHAPE]  NAME\"");
    return st;
}

ckpt_status manifest_load(const char *path, struct manifest_text *out, ckpt_error *err)
{
    *out = (struct manifest_text){0};
    ckpt_status st = read_manifest_text(path, out, err);
    CKPT_THEN(st, find_algorithm(str_of(out->ptr, out->len), &out->algorithm, err));
    if (st == CKPT_OK)
        return st;
    error_add_file(err, display_path(path));
    free(out->ptr);
    out->ptr = NULL;
    return st;
}

CKPT_PRINTF(5, 6)
static ckpt_status report_mismatch(struct manifest *manifest, enum check_rule rule, ckpt_str name,
                                   uint64_t at, const char *fmt, ...)
{
    va_list args;
    ckpt_error e = {0};
    char word[SHELL_WORD_MAX], safe[512]; /* NAME, which is escaped already */
    int n = name.len < sizeof safe ? (int)name.len : (int)sizeof safe - 1;
    (void)snprintf(safe, sizeof safe, "%.*s", n, name.ptr);
    va_start(args, fmt);
    (void)fail_v(&e, CKPT_EFORMAT, at, fmt, args);
    va_end(args);
    error_add_where(&e, "%s", safe);
    if (manifest->weights.name.len && rule == CHECK_MANIFEST_MISSING)
        error_add_hint(&e, "if the manifest is of the weights alone: --root %s",
                       shell_word(manifest->weights.name, "", "PATH", word));
    return check_report(manifest->c, rule, manifest->f->path, &e, manifest->err);
}

static ckpt_status compare_entry(struct manifest *manifest, struct manifest_entry *entry,
                                 const struct manifest_line *line)
{
    const ckpt_tensor t = table_tensor(&manifest->f->table, entry->row);
    buf description, digest;
    ckpt_status st = CKPT_OK;
    buf_init(&description, 1u << 20);
    buf_init(&digest, 1024);
    put_description(&description, &t);
    put_digest(&digest, manifest, entry->row);
    entry->is_compared = true;
    if (!buf_ok(&description) || !buf_ok(&digest)) {
        st = fail_memory(manifest->err);
    } else if (!str_eq(buf_view(&description), line->description)) {
        st = report_mismatch(manifest, CHECK_MANIFEST_DIFFERS, line->name, t.file_offset,
                             "it is %.*s, the manifest has %.*s", STR_ARG(buf_view(&description)),
                             STR_ARG(line->description));
    } else if (!str_eq(buf_view(&digest), line->digest)) {
        ckpt_str computed = str_first(buf_view(&digest), 16),
                 recorded = str_first(line->digest, 16); /* "-" if the manifest has none */
        st = report_mismatch(manifest, CHECK_MANIFEST_DIFFERS, line->name, t.file_offset,
                             "its digest is %.*s%s, the manifest has %.*s%s", STR_ARG(computed),
                             computed.len > 1 ? "…" : "", STR_ARG(recorded), recorded.len > 1 ? "…" : "");
    }
    buf_free(&description);
    buf_free(&digest);
    return st;
}

static uint32_t find_entry(const struct manifest *manifest, ckpt_str name)
{
    uint32_t i = map_get(manifest->names, name);
    while (i != MAP_NONE && manifest->entries[i].is_compared)
        i = manifest->entries[i].next_same_name;
    return i;
}

static ckpt_status check_line(struct manifest *manifest, const struct manifest_line *line)
{
    uint32_t i = find_entry(manifest, line->name);
    if (i != MAP_NONE)
        return compare_entry(manifest, &manifest->entries[i], line);
    return report_mismatch(manifest, CHECK_MANIFEST_MISSING, line->name, CKPT_NO_OFFSET,
                           "the manifest has it, the file has no tensor of this name");
}

static ckpt_status index_manifest(struct manifest *manifest)
{
    manifest->names = map_new(manifest->n);
    CKPT_TRY_ALLOC(manifest->names, manifest->err);
    for (uint32_t i = 0; i < manifest->n; i++) {
        uint32_t first;
        CKPT_TRY_ALLOC(map_put(manifest->names, manifest->entries[i].name, i, &first), manifest->err);
        if (first == MAP_NONE)
            first = i;
        else
            manifest->entries[manifest->entries[first].last_same_name].next_same_name = i;
        manifest->entries[first].last_same_name = i;
    }
    return CKPT_OK;
}

static ckpt_status check_lines(struct manifest *manifest, ckpt_str text)
{
    struct manifest_line line;
    size_t pos = 0;
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && next_line(text, &pos, &line, &st, manifest->err))
        st = check_line(manifest, &line);
    if (st == CKPT_EFORMAT)
        error_add_file(manifest->err, display_path(manifest->c->opts->manifest));
    for (size_t i = 0; st == CKPT_OK && i < manifest->n; i++)
        if (!manifest->entries[i].is_compared)
            st = report_mismatch(manifest, CHECK_MANIFEST_EXTRA, manifest->entries[i].name,
                                 table_tensor(&manifest->f->table, manifest->entries[i].row).file_offset,
                                 "the file has it, the manifest has no tensor of this name");
    return st;
}

ckpt_status manifest_check(struct check *check, ckpt_file *f, const uint8_t *digests,
                           const struct manifest_text *text, ckpt_error *err)
{
    struct manifest m = {.c = check, .f = f, .digests = digests, .err = err};
    m.digest_size = text->algorithm == CKPT_XXH3 ? XXH3_BYTES : SHA256_BYTES;
    ckpt_status st = list_entries(&m);
    if (st == CKPT_OK && !f->narrowed)
        st = root_find(f, "auto", &m.weights, err);
    CKPT_THEN(st, index_manifest(&m));
    CKPT_THEN(st, check_lines(&m, str_of(text->ptr, text->len)));
    map_free(m.names);
    free(m.entries);
    return st;
}
