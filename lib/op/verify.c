/* verify.c - `ckpt verify`: checks the data of a file. It first reads, each once, the tensors whose numbers
 * have to be finite, that are hashed for a manifest, or that have checksums of their own in the file, and it
 * checks the CRCs of their records as it does so. Then it reads all other records. */
#include "op/verify.h"

#include <stdlib.h>

#include "base/buf.h"
#include "core/finite.h"
#include "core/stream.h"
#include "core/parallel_rows.h"
#include "op/digest.h"

/* The result of reading one tensor. */
struct row_result {
    struct finite finite;
    ckpt_error *fault; /* why it could not be read to its end; NULL: it was */
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
    ckpt_status status;        /* of the last report of a finding */
    ckpt_error report_failure; /* its error, if STATUS is not CKPT_OK */
    uint64_t tensor_bytes;     /* of the rows in ITEMS */
    uint64_t bytes_before;     /* for progress: bytes read before the current parallel_run */
    uint64_t total;            /* for progress: all bytes */
};

static int report_verify_progress(void *user, uint64_t done, uint64_t total)
{
    const struct verify_job *job = user;
    const ckpt_work *how = job->c->opts->how;
    (void)total;
    /* below job->total, which was added up without overflow */
    return how->progress ? how->progress(how->user, job->bytes_before + done, job->total) : 0;
}

/* ------------------------------------------------------------------- tensors */

/* note_bad_crc - sets *BAD. A stream calls it as its notice function, and only for a wrong CRC. */
static void note_bad_crc(void *bad, const char *fmt, ...)
{
    (void)fmt;
    *(bool *)bad = true;
}

static ckpt_status read_tensor_stream(struct verify_job *job, struct row_result *result, struct hash *hash,
                                      ckpt_dtype dt, stream *in, struct parallel_context *run,
                                      ckpt_error *err)
{
    bool check_finite = job->c->opts->finite && finite_applies_to(dt);
    unsigned char *chunk = malloc(STREAM_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    for (size_t got = 1; st == CKPT_OK && got;) {
        st = stream_next(in, chunk, STREAM_CHUNK, &got, err);
        if (st != CKPT_OK || !got)
            break;
        if (job->digests)
            hash_put(hash, chunk, got);
        if (check_finite)
            finite_add(&result->finite, dt, chunk, got);
        if (!parallel_advance(run, got))
            st = CKPT_ECANCELLED;
    }
    free(chunk);
    return st;
}

static ckpt_status read_row(struct verify_job *job, size_t index, struct parallel_context *run,
                            ckpt_error *err)
{
    uint32_t row = job->items[index].row;
    const ckpt_tensor t = table_tensor(&job->f->table, row);
    bool bad_crc = false;
    struct stream_options o = {.ignore_crc = true, .notice = note_bad_crc, .user = &bad_crc};
    struct hash h = {0};
    stream *in = NULL;
    ckpt_status st = stream_open(&job->f->table, row, &o, &in, err);
    if (st == CKPT_OK && job->digests)
        st = hash_begin(&h, job->alg, err);
    if (st == CKPT_OK) {
        st = read_tensor_stream(job, &job->results[index], &h, (ckpt_dtype)t.dtype, in, run, err);
        if (job->digests)
            st = hash_end(&h, st, job->digests + (size_t)row * CKPT_DIGEST_MAX, err);
    }
    stream_close(in);
    if (bad_crc)
        job->bad_crc[t.storage] = true;
    return st;
}

/* keep_fault - if ST is a fault of the file, which is a finding, sets *FAULT to a copy of ERR and returns
 * CKPT_OK. Else, or if there is no memory for the copy, returns ST. */
static ckpt_status keep_fault(ckpt_status st, ckpt_error **fault, const ckpt_error *err)
{
    if (!check_is_fault(st) || !(*fault = malloc(sizeof *err)))
        return st;
    **fault = *err;
    return CKPT_OK;
}

static ckpt_status verify_row(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    struct verify_job *job = user;
    struct row_result *result = &job->results[index];
    ckpt_status st = keep_fault(read_row(job, index, run, err), &result->fault, err);
    error_add_where(result->fault, "%.*s", STR_ARG(table_name(&job->f->table, job->items[index].row)));
    return st;
}

/* put_index - appends the index of element COUNT of TENSOR, which has elements, as "0, 17". */
static void put_index(const ckpt_tensor *tensor, uint64_t count, buf *out)
{
    uint64_t below = tensor->elements; /* elements that have the same index in the first K dimensions */
    for (uint32_t k = 0; k < tensor->ndim; k++) {
        below /= tensor->shape[k];
        buf_printf(out, "%s%llu", k ? ", " : "", (unsigned long long)(count / below));
        count %= below;
    }
    buf_byte(out, 0);
}

static ckpt_status report_not_finite(struct verify_job *job, const ckpt_tensor *tensor,
                                     const struct finite *found)
{
    ckpt_error e = {0};
    ckpt_finding f = {.error = &e, .nan = found->nan, .inf = found->inf, .elements = tensor->elements};
    buf at;
    buf_init(&at, 4096);
    put_index(tensor, found->first_index, &at);
    (void)fail(&e, CKPT_EFORMAT, tensor->file_offset,
               "%llu NaN and %llu Inf among %llu elements of %s; the first at [%s]",
               (unsigned long long)found->nan, (unsigned long long)found->inf,
               (unsigned long long)tensor->elements, ckpt_tensor_dtype_name(tensor),
               buf_ok(&at) ? (const char *)at.data : "");
    buf_free(&at);
    error_add_where(&e, "%.*s", STR_ARG(tensor->name));
    error_add_file(&e, job->f->path);
    return check_report_finding(job->c, CHECK_NOT_FINITE, &f, &job->report_failure);
}

static int report_row(void *user, size_t index)
{
    struct verify_job *job = user;
    struct row_result *result = &job->results[index];
    const ckpt_tensor t = table_tensor(&job->f->table, job->items[index].row);
    if (result->fault)
        job->status = check_report_fault(job->c, job->f->path, result->fault, &job->report_failure);
    else if (result->finite.nan || result->finite.inf)
        job->status = report_not_finite(job, &t, &result->finite);
    job->c->result->read += t.nbytes; /* the sum of all sizes was checked before */
    return job->status != CKPT_OK;
}

/* has_own_checksums - returns true if reading TENSOR compares checksums that are stored with its bytes. */
static bool has_own_checksums(const struct verify_job *job, const ckpt_tensor *tensor)
{
    return tensor->has_data && tensor->storage != CKPT_NO_STORAGE &&
           job->f->table.storages[tensor->storage].checks_itself;
}

static bool any_has_own_checksums(const struct verify_job *job)
{
    for (size_t i = 0; i < job->f->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&job->f->table, i);
        if (has_own_checksums(job, &t))
            return true;
    }
    return false;
}

/* list_rows - lists the rows to read; of rows that share their bytes, only the first. */
static ckpt_status list_rows(struct verify_job *job)
{
    const struct table *t = &job->f->table;
    job->items = calloc(t->nrows + 1, sizeof *job->items);
    job->results = calloc(t->nrows + 1, sizeof *job->results);
    job->bad_crc = calloc(t->nstorages + 1, sizeof *job->bad_crc);
    CKPT_TRY_ALLOC(job->items && job->results && job->bad_crc, job->err);
    for (uint32_t i = 0; i < t->nrows; i++) {
        const ckpt_tensor r = table_tensor(t, i);
        bool check_finite = job->c->opts->finite && finite_applies_to((ckpt_dtype)r.dtype);
        bool is_wanted = job->digests || has_own_checksums(job, &r) || check_finite;
        if (!r.has_data || r.alias_of != CKPT_NO_TENSOR || !is_wanted)
            continue;
        job->items[job->n++] = (struct parallel_item){.file = job->f, .row = i};
        if (!checked_add(job->tensor_bytes, r.nbytes, &job->tensor_bytes))
            return fail(job->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the tensors have more than 2^64 bytes together");
    }
    return CKPT_OK;
}

/* run_and_report - runs PARALLEL. If a report ended it, the status and the error are those of the report. */
static ckpt_status run_and_report(struct verify_job *job, const struct parallel_job *parallel)
{
    ckpt_status st = parallel_run(parallel, job->err);
    if (job->status != CKPT_OK && job->err)
        *job->err = job->report_failure;
    return job->status != CKPT_OK ? job->status : st;
}

static ckpt_status read_rows(struct verify_job *job)
{
    struct parallel_job parallel = {.items = job->items,
                                    .n = job->n,
                                    .threads = job->c->opts->how->threads,
                                    .process = verify_row,
                                    .report = report_row,
                                    .progress = report_verify_progress,
                                    .user = job,
                                    .progress_user = job};
    ckpt_status st = run_and_report(job, &parallel);
    job->bytes_before = job->tensor_bytes;
    if (st != CKPT_OK)
        error_add_file(job->err, job->f->path);
    for (size_t i = 0; i < job->n; i++)
        free(job->results[i].fault);
    if (st == CKPT_OK && job->digests)
        digest_aliases(&job->f->table, job->digests);
    return st;
}

/* ------------------------------------------------------------------- records */

/* location_key - returns the location of bytes, a file and an offset in it, as a key. */
static ckpt_str location_key(arena *a, ckpt_str folder, ckpt_str file, uint64_t at)
{
    char number[STR_NUMBER_MAX];
    return ARENA_CONCAT(a, format_number(at, number), STR_LIT(" "), folder, file);
}

/* add_location - adds the location of storage STORAGE to LOCATIONS, if it has one; false: out of memory. */
static bool add_location(const struct verify_job *job, const struct storage *storage, map *locations)
{
    ckpt_str folder = str_folder(str_c(job->f->path));
    uint64_t at = storage_file_offset(storage);
    ckpt_str shard = storage_file(storage);
    if (at == CKPT_NO_OFFSET)
        return true;
    ckpt_str key = shard.len ? location_key(job->c->a, folder, shard, at)
                             : location_key(job->c->a, str_of("", 0), str_c(job->f->path), at);
    return key.ptr && map_put(locations, key, 1, NULL);
}

/* add_done_storages - adds to LOCATIONS the storages whose bytes need not be read: their CRC was checked and
 * is right, or the file is narrowed and no row uses them. */
static ckpt_status add_done_storages(const struct verify_job *job, map *locations, ckpt_error *err)
{
    const struct table *t = &job->f->table;
    bool *selected = arena_array(job->c->a, t->nstorages, sizeof *selected);
    CKPT_TRY_ALLOC(selected, err);
    for (size_t i = 0; i < t->nrows; i++)
        if (table_storage_of(t, i) < t->nstorages)
            selected[table_storage_of(t, i)] = true;
    for (size_t i = 0; i < t->nstorages; i++) {
        const struct storage *s = &t->storages[i];
        bool checked = job->n && s->has_crc && s->crc_checked && !job->bad_crc[i];
        if ((checked || (job->f->narrowed && !selected[i])) && !add_location(job, s, locations))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* list_unread_records - sets *OUT to the *COUNT records that have still to be read. */
static ckpt_status list_unread_records(const struct verify_job *job, struct check_record **out, size_t *count,
                                       ckpt_error *err)
{
    struct check *c = job->c;
    map *locations = map_new(0);
    *count = 0;
    *out = calloc(c->nrecords + 1, sizeof **out);
    ckpt_status st = locations && *out ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && job->f && (job->n || job->f->narrowed))
        st = add_done_storages(job, locations, err);
    for (size_t i = 0; st == CKPT_OK && i < c->nrecords; i++) {
        const struct check_record *r = &c->records[i];
        ckpt_str key = location_key(c->a, str_of("", 0), str_c(r->path), r->file_offset);
        if (!key.ptr)
            st = fail_memory(err);
        else if (r->file_offset == CKPT_NO_OFFSET || map_get(locations, key) == MAP_NONE)
            (*out)[(*count)++] = *r;
    }
    map_free(locations);
    return st;
}

static enum crc_kind record_crc_kind(const struct check_record *record)
{
    return record->is_crc32c ? CRC_32C : CRC_32;
}

/* The result of reading one record. */
struct record_result {
    struct storage storage; /* the record as an item of parallel_run */
    uint32_t crc;
    ckpt_error *fault; /* as in struct row_result */
};

struct record_job {
    struct verify_job *verify;
    struct check_record *records;
    struct record_result *results; /* by record */
    size_t n;
};

static struct parallel_item get_record_item(void *user, size_t index)
{
    return (struct parallel_item){.storage = &((struct record_job *)user)->results[index].storage};
}

static ckpt_status read_record(struct record_job *all, size_t index, struct parallel_context *run,
                               ckpt_error *err)
{
    source *src = all->records[index].src;
    uint32_t *crc = &all->results[index].crc;
    unsigned char *chunk = malloc(STREAM_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    if (src->size > STREAM_CHUNK)
        source_advise_sequential(src);
    for (uint64_t at = 0; st == CKPT_OK && at < src->size;) {
        size_t n = src->size - at < STREAM_CHUNK ? (size_t)(src->size - at) : STREAM_CHUNK;
        st = source_read(src, at, chunk, n, err);
        if (st == CKPT_OK)
            *crc = crc_update(record_crc_kind(&all->records[index]), *crc, chunk, n);
        at += n;
        if (!parallel_advance(run, n) && st == CKPT_OK)
            st = CKPT_ECANCELLED;
    }
    free(chunk);
    return st;
}

static ckpt_status verify_record(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    struct record_job *all = user;
    return keep_fault(read_record(all, index, run, err), &all->results[index].fault, err);
}

static int report_record(void *user, size_t index)
{
    const struct record_job *all = user;
    const struct check_record *r = &all->records[index];
    const struct record_result *result = &all->results[index];
    struct verify_job *job = all->verify;
    ckpt_error e = {0};
    job->c->result->read += r->src->size; /* the sum of all sizes was checked before */
    if (result->fault)
        e = *result->fault;
    else if (result->crc != r->crc)
        /* zip_layout.c and archive.c use the same text, by which check_report() drops repeated findings */
        (void)fail(&e, CKPT_ECHECKSUM, r->file_offset,
                   "its %s is {%08x}, the %s records {=%08x}\n"
                   "the bytes are not those that were saved: get the file again",
                   crc_name(record_crc_kind(r)), result->crc,
                   r->recorded_in ? r->recorded_in : "central directory", r->crc);
    else
        return 0;
    error_add_where(&e, "%.*s", STR_ARG(r->name));
    job->status = check_report_fault(job->c, r->path, &e, &job->report_failure);
    return job->status != CKPT_OK;
}

static ckpt_status read_records(struct verify_job *job)
{
    struct record_job all = {.verify = job};
    ckpt_status st = list_unread_records(job, &all.records, &all.n, job->err);
    struct parallel_job parallel = {.defers_check = true, /* verify_all() does it for all files */
                                    .get_item = get_record_item,
                                    .n = all.n,
                                    .threads = job->c->opts->how->threads,
                                    .process = verify_record,
                                    .report = report_record,
                                    .progress = report_verify_progress,
                                    .user = &all,
                                    .progress_user = job};
    all.results = calloc(all.n + 1, sizeof *all.results);
    if (st == CKPT_OK && !all.results)
        st = fail_memory(job->err);
    job->total = job->bytes_before;
    for (size_t i = 0; st == CKPT_OK && i < all.n; i++) {
        source *src = all.records[i].src;
        all.results[i].storage = (struct storage){.nbytes = src->size, .src = src};
        if (!checked_add(job->total, src->size, &job->total))
            st = fail(job->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                      "the records have more than 2^64 bytes together");
    }
    CKPT_THEN(st, run_and_report(job, &parallel));
    for (size_t i = 0; all.results && i < all.n; i++)
        free(all.results[i].fault);
    free(all.results);
    free(all.records);
    return st;
}

/* ----------------------------------------------------------------------- all */

static ckpt_status verify_all(struct verify_job *job)
{
    const ckpt_verify_options *o = job->c->opts;
    bool manifest = job->f && (o->manifest || o->write_manifest);
    if (o->manifest && job->f) {
        CKPT_TRY(manifest_load(o->manifest, &job->manifest, job->err));
        job->alg = job->manifest.algorithm;
    }
    if (manifest && !(job->digests = calloc(job->f->table.nrows + 1, CKPT_DIGEST_MAX)))
        return fail_memory(job->err);
    if (job->f && (manifest || o->finite || any_has_own_checksums(job))) {
        CKPT_TRY(list_rows(job));
        job->total = job->tensor_bytes;
        for (size_t i = 0; i < job->c->nrecords; i++)
            job->total = size_add(job->total, job->c->records[i].src->size);
        CKPT_TRY(read_rows(job));
    }
    CKPT_TRY(read_records(job));
    if (manifest && o->manifest)
        CKPT_TRY(manifest_check(job->c, job->f, job->digests, &job->manifest, job->err));
    CKPT_TRY(check_unchanged(job->c, job->err));
    if (manifest && o->write_manifest && !job->c->result->findings)
        CKPT_TRY(manifest_write(job->c, job->f, job->digests, job->err));
    return CKPT_OK;
}

ckpt_status verify_data(struct check *check, ckpt_file *f, ckpt_error *err)
{
    struct verify_job job = {.c = check, .f = f, .alg = check->opts->algorithm, .err = err};
    check_count(check, check->nrecords, 0);
    check->result->checksums = f && (f->whole_checksum || table_has_checksums(&f->table));
    ckpt_status st = f ? table_locate(&f->table, err) : CKPT_OK;
    if (check_is_fault(st)) /* format_verify() reported it */
        st = CKPT_OK;
    CKPT_THEN(st, verify_all(&job));
    free(job.items);
    free(job.results);
    free(job.bad_crc);
    free(job.digests);
    free(job.manifest.ptr);
    return st;
}
