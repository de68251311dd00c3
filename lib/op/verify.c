/* verify.c - `ckpt verify`: checks the data of a file. It first reads the tensors that have to be finite, or
 * are compared with a manifest, each once, and checks the CRC-32 of their records as it does so. Then it
 * reads all other records. */
#include "op/verify.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/crc32.h"
#include "core/finite.h"
#include "core/stream.h"
#include "core/parallel_rows.h"
#include "op/digest.h"

/* The result of reading one tensor. */
struct row_result {
    struct finite finite;
    ckpt_error *fault; /* why it could not be read to its end; NULL: it could */
};

struct verify_job {
    struct check *c;
    ckpt_file *f;
    struct parallel_item *items;
    struct row_result *results; /* by item */
    size_t n;
    uint8_t *digests; /* by row, or NULL */
    ckpt_algorithm alg;
    struct manifest_text manifest;
    bool *bad_crc; /* by storage */
    ckpt_error *err;
    ckpt_status status;      /* of reporting */
    ckpt_error report_error; /* if STATUS is not CKPT_OK */
    uint64_t before, total;  /* for progress: bytes read before the current part; all bytes */
};

static int report_verify_progress(void *user, uint64_t done, uint64_t total)
{
    const struct verify_job *j = user;
    const ckpt_work *how = j->c->opts->how;
    (void)total;
    /* bounded: a part of total, which was added up without overflow */
    return how->progress ? how->progress(how->user, j->before + done, j->total) : 0;
}

/* ------------------------------------------------------------------- tensors */

/* note_bad_crc - sets *BAD, as the notice of a stream: its only notice is a wrong CRC. */
static void note_bad_crc(void *bad, const char *fmt, ...)
{
    (void)fmt;
    *(bool *)bad = true;
}

static ckpt_status read_tensor_stream(struct verify_job *j, struct row_result *s, struct hash *h,
                                      ckpt_dtype dt, stream *in, struct parallel_context *run,
                                      ckpt_error *err)
{
    bool look = j->c->opts->finite && finite_applies_to(dt);
    unsigned char *chunk = malloc(STREAM_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    for (size_t got = 1; st == CKPT_OK && got;) {
        st = stream_next(in, chunk, STREAM_CHUNK, &got, err);
        if (st != CKPT_OK || !got)
            break;
        if (j->digests)
            hash_put(h, chunk, got);
        if (look)
            finite_add(&s->finite, dt, chunk, got);
        if (!parallel_advance(run, got))
            st = CKPT_ECANCELLED;
    }
    free(chunk);
    return st;
}

static ckpt_status read_row(struct verify_job *j, size_t i, struct parallel_context *run, ckpt_error *err)
{
    uint32_t row = j->items[i].row;
    const ckpt_tensor *t = &j->f->table.rows[row].t;
    bool bad_crc = false;
    struct stream_options o = {.ignore_crc = true, .notice = note_bad_crc, .user = &bad_crc};
    struct hash h = {0};
    stream *in = NULL;
    ckpt_status st = stream_open(&j->f->table, row, &o, &in, err);
    if (st == CKPT_OK && j->digests)
        st = hash_begin(&h, j->alg, err);
    if (st == CKPT_OK) {
        st = read_tensor_stream(j, &j->results[i], &h, (ckpt_dtype)t->dtype, in, run, err);
        if (j->digests)
            st = hash_end(&h, st, j->digests + (size_t)row * CKPT_DIGEST_MAX, err);
    }
    stream_close(in);
    if (bad_crc)
        j->bad_crc[t->storage] = true;
    return st;
}

/* keep_fault - sets *FAULT to a copy of ERR and returns CKPT_OK if ST is a fault of the file, which is a
 * finding. Returns ST if the disk failed, or if there is no memory for the copy. */
static ckpt_status keep_fault(ckpt_status st, ckpt_error **fault, const ckpt_error *err)
{
    if (!check_is_fault(st) || !(*fault = malloc(sizeof *err)))
        return st;
    **fault = *err;
    return CKPT_OK;
}

static ckpt_status verify_row(void *user, size_t i, struct parallel_context *run, ckpt_error *err)
{
    struct verify_job *j = user;
    struct row_result *s = &j->results[i];
    ckpt_status st = keep_fault(read_row(j, i, run, err), &s->fault, err);
    fail_where(s->fault, "%.*s", STR_ARG(j->f->table.rows[j->items[i].row].t.name));
    return st;
}

/* put_index - appends the index of element N of T as "0, 17". */
static void put_index(const ckpt_tensor *t, uint64_t n, buf *out)
{
    uint64_t index[16];
    uint32_t nd = t->ndim < 16 ? t->ndim : 16;
    for (uint32_t k = nd; k-- > 0;) {
        index[k] = t->shape[k] ? n % t->shape[k] : 0;
        n = t->shape[k] ? n / t->shape[k] : 0;
    }
    for (uint32_t k = 0; k < nd; k++)
        buf_printf(out, "%s%llu", k ? ", " : "", (unsigned long long)index[k]);
    buf_byte(out, 0);
}

static ckpt_status report_not_finite(struct verify_job *j, const ckpt_tensor *t, const struct finite *x)
{
    ckpt_error e = {0};
    ckpt_finding f = {.error = &e, .nan = x->nan, .inf = x->inf, .elements = t->elements};
    buf at;
    buf_init(&at, 4096);
    put_index(t, x->first_index, &at);
    (void)fail(&e, CKPT_EFORMAT, t->file_offset,
               "%llu NaN and %llu Inf among %llu elements of %s; the first at [%s]",
               (unsigned long long)x->nan, (unsigned long long)x->inf, (unsigned long long)t->elements,
               ckpt_tensor_dtype_name(t), buf_ok(&at) ? (const char *)at.data : "");
    buf_free(&at);
    fail_where(&e, "%.*s", STR_ARG(t->name));
    fail_file(&e, j->f->path);
    return check_report_finding(j->c, CHECK_NOT_FINITE, &f, &j->report_error);
}

static int report_row(void *user, size_t i)
{
    struct verify_job *j = user;
    struct row_result *s = &j->results[i];
    const ckpt_tensor *t = &j->f->table.rows[j->items[i].row].t;
    if (s->fault)
        j->status = check_report_fault(j->c, j->f->path, s->fault, &j->report_error);
    else if (s->finite.nan || s->finite.inf)
        j->status = report_not_finite(j, t, &s->finite);
    j->c->result->read += t->nbytes; /* bounded: added up before */
    return j->status != CKPT_OK;
}

/* checks_itself - returns true if reading T compares checksums that are stored with its bytes. */
static bool checks_itself(const struct verify_job *j, const ckpt_tensor *t)
{
    return t->has_data && t->storage != CKPT_NO_STORAGE && j->f->table.storages[t->storage].checks_itself;
}

static bool any_checks_itself(const struct verify_job *j)
{
    for (size_t i = 0; i < j->f->table.nrows; i++)
        if (checks_itself(j, &j->f->table.rows[i].t))
            return true;
    return false;
}

/* list_rows - lists the rows to read, aliases of the same bytes once. */
static ckpt_status list_rows(struct verify_job *j)
{
    const struct table *t = &j->f->table;
    j->items = calloc(t->nrows + 1, sizeof *j->items);
    j->results = calloc(t->nrows + 1, sizeof *j->results);
    j->bad_crc = calloc(t->nstorages + 1, sizeof *j->bad_crc);
    if (!j->items || !j->results || !j->bad_crc)
        return fail_memory(j->err);
    for (uint32_t i = 0; i < t->nrows; i++) {
        const ckpt_tensor *r = &t->rows[i].t;
        if (!r->has_data || r->alias_of != CKPT_NO_TENSOR ||
            (!j->digests && !checks_itself(j, r) &&
             !(j->c->opts->finite && finite_applies_to((ckpt_dtype)r->dtype))))
            continue;
        j->items[j->n++] = (struct parallel_item){.file = j->f, .row = i};
        if (!checked_add(j->before, r->nbytes, &j->before))
            return fail(j->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the tensors have more than 2^64 bytes together");
    }
    return CKPT_OK;
}

/* run_and_report - runs S. If a report ended it, the status and the error are those of the report. */
static ckpt_status run_and_report(struct verify_job *j, const struct parallel_job *s)
{
    ckpt_status st = parallel_run(s, j->err);
    if (j->status != CKPT_OK && j->err)
        *j->err = j->report_error;
    return j->status != CKPT_OK ? j->status : st;
}

static ckpt_status read_rows(struct verify_job *j)
{
    struct parallel_job s = {.items = j->items,
                             .n = j->n,
                             .threads = j->c->opts->how->threads,
                             .process = verify_row,
                             .report = report_row,
                             .progress = report_verify_progress,
                             .user = j,
                             .progress_user = j};
    uint64_t bytes = j->before;
    j->before = 0;
    ckpt_status st = run_and_report(j, &s);
    j->before = bytes;
    if (st != CKPT_OK)
        fail_file(j->err, j->f->path);
    for (size_t i = 0; i < j->n; i++)
        free(j->results[i].fault);
    if (st == CKPT_OK && j->digests)
        digest_aliases(&j->f->table, j->digests);
    return st;
}

/* ------------------------------------------------------------------- records */

/* location_key - returns the location of bytes, a file and an offset in it, as a key. */
static ckpt_str location_key(arena *a, ckpt_str folder, ckpt_str file, uint64_t at)
{
    return arena_printf(a, "%llx %.*s%.*s", (unsigned long long)at, (int)folder.len, folder.ptr,
                        (int)file.len, file.ptr);
}

/* add_location - adds the location of storage S to LOCATIONS, if it has one; false: out of memory. */
static bool add_location(const struct verify_job *j, const struct storage *s, map *locations)
{
    ckpt_str folder = str_folder(str_c(j->f->path));
    uint64_t at = storage_file_offset(s);
    ckpt_str shard = storage_file(s);
    if (at == CKPT_NO_OFFSET)
        return true;
    ckpt_str key = shard.len ? location_key(j->c->a, folder, shard, at)
                             : location_key(j->c->a, str_of("", 0), str_c(j->f->path), at);
    return key.ptr && map_put(locations, key, 1, NULL);
}

/* add_done_storages - adds to LOCATIONS the storages whose CRC was checked and is right and, of a narrowed
 * file, those of rows that are not selected. */
static ckpt_status add_done_storages(const struct verify_job *j, map *locations, ckpt_error *err)
{
    const struct table *t = &j->f->table;
    bool *selected = arena_array(j->c->a, t->nstorages, sizeof *selected);
    if (!selected)
        return fail_memory(err);
    for (size_t i = 0; i < t->nrows; i++)
        if (t->rows[i].t.storage < t->nstorages)
            selected[t->rows[i].t.storage] = true;
    for (size_t i = 0; i < t->nstorages; i++) {
        const struct storage *s = &t->storages[i];
        bool checked = j->n && s->has_crc && s->crc_checked && !j->bad_crc[i];
        if ((checked || (j->f->narrowed && !selected[i])) && !add_location(j, s, locations))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* list_unread_records - sets *OUT to the *N records that have still to be read. */
static ckpt_status list_unread_records(const struct verify_job *j, struct check_record **out, size_t *n,
                                       ckpt_error *err)
{
    struct check *c = j->c;
    map *locations = map_new(0);
    *n = 0;
    *out = calloc(c->nrecords + 1, sizeof **out);
    ckpt_status st = locations && *out ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && j->f && (j->n || j->f->narrowed))
        st = add_done_storages(j, locations, err);
    for (size_t i = 0; st == CKPT_OK && i < c->nrecords; i++) {
        const struct check_record *r = &c->records[i];
        ckpt_str key = location_key(c->a, str_of("", 0), str_c(r->path), r->file_offset);
        if (!key.ptr)
            st = fail_memory(err);
        else if (r->file_offset == CKPT_NO_OFFSET || map_get(locations, key) == MAP_NONE)
            (*out)[(*n)++] = *r;
    }
    map_free(locations);
    return st;
}

static enum crc_kind record_crc_kind(const struct check_record *r) { return r->is_crc32c ? CRC_32C : CRC_32; }

/* A record as it is read. */
struct record_result {
    struct storage bytes; /* the record as an item of parallel_run */
    uint32_t crc;
    ckpt_error *fault; /* as in struct row_result */
};

struct record_job {
    struct verify_job *j;
    struct check_record *records;
    struct record_result *results; /* by record */
    size_t n;
};

static struct parallel_item get_record_item(void *user, size_t i)
{
    return (struct parallel_item){.storage = &((struct record_job *)user)->results[i].bytes};
}

static ckpt_status read_record(struct record_job *r, size_t i, struct parallel_context *run, ckpt_error *err)
{
    source *src = r->records[i].src;
    uint32_t *crc = &r->results[i].crc;
    unsigned char *chunk = malloc(STREAM_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    if (src->size > STREAM_CHUNK)
        source_sequential(src);
    for (uint64_t at = 0; st == CKPT_OK && at < src->size;) {
        size_t n = src->size - at < STREAM_CHUNK ? (size_t)(src->size - at) : STREAM_CHUNK;
        st = source_read(src, at, chunk, n, err);
        if (st == CKPT_OK)
            *crc = crc_update(record_crc_kind(&r->records[i]), *crc, chunk, n);
        at += n; /* bounded: n <= size - at */
        if (!parallel_advance(run, n) && st == CKPT_OK)
            st = CKPT_ECANCELLED;
    }
    free(chunk);
    return st;
}

static ckpt_status verify_record(void *user, size_t i, struct parallel_context *run, ckpt_error *err)
{
    struct record_job *r = user;
    return keep_fault(read_record(r, i, run, err), &r->results[i].fault, err);
}

static int report_record(void *user, size_t i)
{
    const struct record_job *job = user;
    const struct check_record *r = &job->records[i];
    const struct record_result *s = &job->results[i];
    struct verify_job *j = job->j;
    ckpt_error e = {0};
    j->c->result->read += r->src->size; /* bounded: added up before */
    if (s->fault)
        e = *s->fault;
    else if (s->crc != r->crc)
        /* check_report() drops repeated findings by their text, which zip_layout.c and archive.c have, too */
        (void)fail(&e, CKPT_ECHECKSUM, r->file_offset,
                   "its %s is {%08x}, the %s records {=%08x}\n"
                   "the bytes are not those that were saved: get the file again",
                   crc_name(record_crc_kind(r)), s->crc, r->is_crc32c ? "index" : "directory", r->crc);
    else
        return 0;
    fail_where(&e, "%.*s", STR_ARG(r->name));
    j->status = check_report_fault(j->c, r->path, &e, &j->report_error);
    return j->status != CKPT_OK;
}

static ckpt_status read_records(struct verify_job *j)
{
    struct record_job r = {.j = j};
    ckpt_status st = list_unread_records(j, &r.records, &r.n, j->err);
    struct parallel_job s = {.defers_check = true, /* verify_all checks all files */
                             .get_item = get_record_item,
                             .n = r.n,
                             .threads = j->c->opts->how->threads,
                             .process = verify_record,
                             .report = report_record,
                             .progress = report_verify_progress,
                             .user = &r,
                             .progress_user = j};
    r.results = calloc(r.n + 1, sizeof *r.results);
    if (st == CKPT_OK && !r.results)
        st = fail_memory(j->err);
    j->total = j->before;
    for (size_t i = 0; st == CKPT_OK && i < r.n; i++) {
        r.results[i].bytes = (struct storage){.s.nbytes = r.records[i].src->size, .src = r.records[i].src};
        if (!checked_add(j->total, r.records[i].src->size, &j->total))
            st = fail(j->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the records have more than 2^64 bytes together");
    }
    if (st == CKPT_OK)
        st = run_and_report(j, &s);
    for (size_t i = 0; r.results && i < r.n; i++)
        free(r.results[i].fault);
    free(r.results);
    free(r.records);
    return st;
}

/* ----------------------------------------------------------------------- all */

static bool has_crc_for_all(const struct table *t)
{
    for (size_t i = 0; i < t->nstorages; i++) {
        const struct storage *s = &t->storages[i];
        if (s->s.nbytes && s->src && !s->has_crc && !s->has_crcs)
            return false;
    }
    return true;
}

static ckpt_status verify_all(struct verify_job *j)
{
    const ckpt_verify_options *o = j->c->opts;
    bool manifest = j->f && (o->manifest || o->write_manifest);
    if (o->manifest && j->f) {
        CKPT_TRY(manifest_load(o->manifest, &j->manifest, j->err));
        j->alg = j->manifest.algorithm;
    }
    if (manifest && !(j->digests = calloc(j->f->table.nrows + 1, CKPT_DIGEST_MAX)))
        return fail_memory(j->err);
    if (j->f && (manifest || o->finite || any_checks_itself(j))) {
        CKPT_TRY(list_rows(j));
        j->total = j->before;
        for (size_t i = 0; i < j->c->nrecords; i++)
            j->total = size_add(j->total, j->c->records[i].src->size);
        CKPT_TRY(read_rows(j));
    }
    CKPT_TRY(read_records(j));
    if (manifest && o->manifest)
        CKPT_TRY(manifest_check(j->c, j->f, j->digests, &j->manifest, j->err));
    CKPT_TRY(check_unchanged(j->c, j->err));
    if (manifest && o->write_manifest && !j->c->result->findings)
        CKPT_TRY(manifest_write(j->c, j->f, j->digests, j->err));
    return CKPT_OK;
}

ckpt_status verify_data(struct check *c, ckpt_file *f, ckpt_error *err)
{
    struct verify_job j = {.c = c, .f = f, .alg = c->opts->algorithm, .err = err};
    c->result->records = c->nrecords;
    c->result->checksums = f && has_crc_for_all(&f->table);
    ckpt_status st = f ? table_locate(&f->table, err) : CKPT_OK;
    if (check_is_fault(st)) /* format_verify() reported it */
        st = CKPT_OK;
    if (st == CKPT_OK)
        st = verify_all(&j);
    free(j.items);
    free(j.results);
    free(j.bad_crc);
    free(j.digests);
    free(j.manifest.ptr);
    return st;
}
