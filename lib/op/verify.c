/* verify.c - `ckpt verify`: checks the data of a file. It first reads, each once, the tensors whose numbers
 * have to be finite, that are hashed for a manifest, or that have checksums of their own in the file, and it
 * checks the CRCs of their records as it does so. Then it reads all other records. */
#include "op/verify.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "core/finite.h"
#include "core/stream.h"
#include "op/share.h"

/* The result of reading one tensor. */
struct row_result {
    struct finite finite;
    ckpt_error *fault; /* why it could not be read to its end; NULL: it was */
};

/* The result of reading one record. */
struct record_result {
    struct storage storage; /* the record as an item of parallel_run */
    bool is_read;           /* its bytes were not read before, with a tensor */
    uint32_t crc;
    ckpt_error *fault; /* as in struct row_result */
};

struct verify_job {
    struct check *c;
    ckpt_file *f;
    struct parallel_item *items;
    struct row_result *results; /* by item */
    size_t n;
    struct record_result *record_results; /* by record */
    uint32_t *unread_records;             /* the numbers of those that this process reads */
    size_t nunread;
    struct share share;
    struct share_list shared_rows, shared_records; /* by item and by record */
    uint8_t *digests;                              /* by row, or NULL */
    ckpt_algorithm alg;
    struct manifest_text manifest;
    bool *bad_crc; /* by storage */
    ckpt_error *err;
    ckpt_status status;        /* of the last report of a finding */
    ckpt_error report_failure; /* its error, if STATUS is not CKPT_OK */
    uint64_t tensor_bytes;     /* of the rows in ITEMS that this process reads */
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
    uint64_t nbytes = 0;
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
        if (!checked_add(nbytes, r.nbytes, &nbytes))
            return fail(job->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the tensors have more than 2^64 bytes together");
    }
    return CKPT_OK;
}

/* status_of_run - returns ST, the status of reading; if a report ended that, the status and error of the
 * report. */
static ckpt_status status_of_run(struct verify_job *job, ckpt_status st)
{
    if (job->status != CKPT_OK && job->err)
        *job->err = job->report_failure;
    return job->status != CKPT_OK ? job->status : st;
}

static ckpt_status read_rows(struct verify_job *job)
{
    const struct parallel_job parallel = {.items = job->items,
                                          .n = job->n,
                                          .threads = job->c->opts->how->threads,
                                          .process = verify_row,
                                          .report = report_row,
                                          .progress = report_verify_progress,
                                          .user = job,
                                          .progress_user = job};
    ckpt_status st = status_of_run(job, share_run(&job->share, &job->shared_rows, &parallel, job->err));
    job->bytes_before = job->tensor_bytes;
    return st == CKPT_OK ? st : name_file_if_failed(st, job->f->path, job->err);
}

/* ------------------------------------------------------------------- records */

/* location_key - returns the location of bytes, a file and an offset in it, as a key. */
static ckpt_str location_key(arena *a, ckpt_str folder, ckpt_str file, uint64_t at)
{
    char number[STR_NUMBER_MAX];
    return ARENA_CONCAT(a, format_number(at, number), STR_LIT(" "), folder, file);
}

/* add_location - adds NUMBER under the location of storage STORAGE to LOCATIONS, if it has one; false: out of
 * memory. */
static bool add_location(const struct verify_job *job, const struct storage *storage, uint32_t number,
                         map *locations)
{
    ckpt_str folder = str_folder(str_c(job->f->path));
    uint64_t at = storage_file_offset(storage);
    ckpt_str shard = storage_file(storage);
    if (at == CKPT_NO_OFFSET)
        return true;
    ckpt_str key = shard.len ? location_key(job->c->a, folder, shard, at)
                             : location_key(job->c->a, str_of("", 0), str_c(job->f->path), at);
    return key.ptr && map_put(locations, key, number, NULL);
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
        if ((checked || (job->f->narrowed && !selected[i])) && !add_location(job, s, 1, locations))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* find_location - sets *NUMBER to the number in LOCATIONS of the location of RECORD, or MAP_NONE. False: out
 * of memory. */
static bool find_location(const struct verify_job *job, const struct check_record *record,
                          const map *locations, uint32_t *number)
{
    ckpt_str key = location_key(job->c->a, str_of("", 0), str_c(record->path), record->file_offset);
    bool is_known = key.ptr && record->file_offset != CKPT_NO_OFFSET;
    *number = is_known ? map_get(locations, key) : MAP_NONE;
    return key.ptr != NULL;
}

/* list_unread_records - lists the records that this process has still to read. */
static ckpt_status list_unread_records(struct verify_job *job)
{
    struct check *c = job->c;
    map *locations = map_new(0);
    uint32_t number;
    ckpt_status st = locations ? CKPT_OK : fail_memory(job->err);
    if (st == CKPT_OK && job->f && (job->n || job->f->narrowed))
        st = add_done_storages(job, locations, job->err);
    for (size_t i = 0; st == CKPT_OK && i < c->nrecords; i++) {
        if (!share_has(&job->share, &job->shared_records, i))
            continue;
        if (!find_location(job, &c->records[i], locations, &number))
            st = fail_memory(job->err);
        job->record_results[i].is_read = number == MAP_NONE;
        if (number == MAP_NONE)
            job->unread_records[job->nunread++] = (uint32_t)i;
    }
    map_free(locations);
    return st;
}

static enum crc_kind record_crc_kind(const struct check_record *record)
{
    return record->is_crc32c ? CRC_32C : CRC_32;
}

static struct parallel_item get_record_item(void *user, size_t index)
{
    const struct verify_job *job = user;
    return (struct parallel_item){.storage = &job->record_results[job->unread_records[index]].storage};
}

static ckpt_status read_record(const struct check_record *record, uint32_t *crc, struct parallel_context *run,
                               ckpt_error *err)
{
    source *src = record->src;
    unsigned char *chunk = malloc(STREAM_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    if (src->size > STREAM_CHUNK)
        source_advise_sequential(src);
    for (uint64_t at = 0; st == CKPT_OK && at < src->size;) {
        size_t n = src->size - at < STREAM_CHUNK ? (size_t)(src->size - at) : STREAM_CHUNK;
        st = source_read(src, at, chunk, n, err);
        if (st == CKPT_OK)
            *crc = crc_update(record_crc_kind(record), *crc, chunk, n);
        at += n;
        if (!parallel_advance(run, n) && st == CKPT_OK)
            st = CKPT_ECANCELLED;
    }
    free(chunk);
    return st;
}

static ckpt_status verify_record(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    struct verify_job *job = user;
    uint32_t number = job->unread_records[index];
    struct record_result *result = &job->record_results[number];
    return keep_fault(read_record(&job->c->records[number], &result->crc, run, err), &result->fault, err);
}

static int report_record_number(struct verify_job *job, size_t number)
{
    const struct check_record *r = &job->c->records[number];
    const struct record_result *result = &job->record_results[number];
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

static int report_record(void *user, size_t index)
{
    struct verify_job *job = user;
    return report_record_number(job, job->unread_records[index]);
}

/* count_unread - adds the sizes of the records to read to job->total. */
static ckpt_status count_unread(struct verify_job *job)
{
    job->total = job->bytes_before;
    for (size_t i = 0; i < job->nunread; i++)
        if (!checked_add(job->total, job->c->records[job->unread_records[i]].src->size, &job->total))
            return fail(job->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the records have more than 2^64 bytes together");
    return CKPT_OK;
}

static ckpt_status read_records(struct verify_job *job)
{
    CKPT_TRY(list_unread_records(job));
    CKPT_TRY(count_unread(job));
    const struct parallel_job parallel = {.defers_check = true, /* verify_all() does it for all files */
                                          .get_item = get_record_item,
                                          .n = job->nunread,
                                          .threads = job->c->opts->how->threads,
                                          .process = verify_record,
                                          .report = share_is_on(&job->share) ? NULL : report_record,
                                          .progress = report_verify_progress,
                                          .user = job,
                                          .progress_user = job};
    return status_of_run(job, parallel_run(&parallel, job->err));
}

/* ------------------------------------------------------------------- sharing */

/* The texts of ckpt_error, which are escaped. */
#define ERROR_TEXTS(X) X(file) X(where) X(what) X(hint) X(found) X(allowed)

static void put_fault(const ckpt_error *fault, buf *out)
{
    buf_byte(out, fault != NULL);
    if (!fault)
        return;
    buf_u32le(out, fault->status);
    buf_u32le(out, (uint32_t)fault->sys_errno);
    buf_u64le(out, fault->offset);
    buf_u32le(out, fault->innermost);
#define PUT(text)                                                                                            \
    buf_u32le(out, (uint32_t)strlen(fault->text));                                                           \
    buf_put_cstr(out, fault->text);
    ERROR_TEXTS(PUT)
#undef PUT
}

/* take_text - reads a text of less than SIZE bytes, without control characters, to OUT, which is zero. */
static bool take_text(cursor *in, char *out, size_t size)
{
    uint32_t len = cursor_u32(in), control;
    const unsigned char *text = cursor_take(in, len);
    if (!text || len >= size)
        return false;
    memcpy(out, text, len);
    return utf8_check(str_of(out, len), false, NULL) && !utf8_find_control(str_of(out, len), &control) &&
           !memchr(out, 0, len);
}

static bool take_fault_fields(cursor *in, ckpt_error *out)
{
    out->status = cursor_u32(in);
    out->sys_errno = (int32_t)cursor_u32(in);
    out->offset = cursor_u64(in);
    out->innermost = cursor_u32(in);
#define TAKE(text)                                                                                           \
    if (!take_text(in, out->text, sizeof out->text))                                                         \
        return false;
    ERROR_TEXTS(TAKE)
#undef TAKE
    return check_is_fault((ckpt_status)out->status) && out->innermost <= strlen(out->where);
}

/* take_fault - reads what put_fault writes to *OUT, which the caller frees; NULL: no fault. */
static bool take_fault(cursor *in, ckpt_error **out)
{
    uint8_t has_fault = cursor_u8(in);
    if (has_fault == 1 && !(*out = calloc(1, sizeof **out)))
        return false;
    return has_fault == 0 || (has_fault == 1 && take_fault_fields(in, *out));
}

static void put_row_result(void *user, size_t index, buf *out)
{
    const struct verify_job *job = user;
    const struct row_result *result = &job->results[index];
    buf_u64le(out, result->finite.nan);
    buf_u64le(out, result->finite.inf);
    buf_u64le(out, result->finite.first_index);
    if (job->digests)
        buf_put(out, job->digests + (size_t)job->items[index].row * CKPT_DIGEST_MAX, CKPT_DIGEST_MAX);
    put_fault(result->fault, out);
}

static bool take_row_result(void *user, size_t index, cursor *in)
{
    const struct verify_job *job = user;
    struct row_result *result = &job->results[index];
    uint32_t row = job->items[index].row;
    uint64_t elements = table_elements_of(&job->f->table, row);
    result->finite.nan = cursor_u64(in);
    result->finite.inf = cursor_u64(in);
    result->finite.first_index = cursor_u64(in);
    uint64_t found = size_add(result->finite.nan, result->finite.inf);
    const unsigned char *digest = job->digests ? cursor_take(in, CKPT_DIGEST_MAX) : NULL;
    if (digest)
        memcpy(job->digests + (size_t)row * CKPT_DIGEST_MAX, digest, CKPT_DIGEST_MAX);
    return found <= elements && (!found || result->finite.first_index < elements) &&
           take_fault(in, &result->fault);
}

static void put_record_result(void *user, size_t index, buf *out)
{
    const struct verify_job *job = user;
    const struct record_result *result = &job->record_results[index];
    buf_byte(out, result->is_read);
    buf_u32le(out, result->crc);
    put_fault(result->fault, out);
}

static bool take_record_result(void *user, size_t index, cursor *in)
{
    const struct verify_job *job = user;
    struct record_result *result = &job->record_results[index];
    uint8_t is_read = cursor_u8(in);
    result->is_read = is_read == 1;
    result->crc = cursor_u32(in);
    return is_read <= 1 && take_fault(in, &result->fault);
}

static ckpt_status describe_verify(void *user, struct hash *facts, ckpt_error *err)
{
    const struct verify_job *job = user;
    const struct check *c = job->c;
    for (size_t i = 0; i < c->nwatched; i++)
        share_describe_source(c->watched[i], facts);
    for (size_t i = 0; i < c->nrecords; i++) {
        hash_u64(facts, c->records[i].src->size);
        hash_u64(facts, c->records[i].file_offset);
        hash_u64(facts, c->records[i].crc);
    }
    hash_u64(facts, (uint64_t)(c->opts->finite != 0) << 1 | (job->digests != NULL));
    hash_u64(facts, job->alg);
    hash_text(facts, str_of(job->manifest.ptr, job->manifest.len));
    return job->f ? share_describe_file(job->f, facts, err) : CKPT_OK;
}

/* own_with_rows - makes each record that is the storage of a tensor belong to the part that reads that. */
static ckpt_status own_with_rows(struct verify_job *job)
{
    map *locations = map_new(0);
    uint32_t item;
    bool ok = locations != NULL;
    for (size_t i = 0; ok && i < job->n; i++) {
        uint32_t storage = table_storage_of(&job->f->table, job->items[i].row);
        ok = storage == CKPT_NO_STORAGE ||
             add_location(job, &job->f->table.storages[storage], (uint32_t)i, locations);
    }
    for (size_t i = 0; ok && i < job->c->nrecords; i++) {
        ok = find_location(job, &job->c->records[i], locations, &item);
        if (ok && item != MAP_NONE)
            job->shared_records.owners[i] = job->shared_rows.owners[item];
    }
    map_free(locations);
    return ok ? CKPT_OK : fail_memory(job->err);
}

static ckpt_status deal_records(struct verify_job *job)
{
    size_t n = job->c->nrecords;
    struct parallel_item *items = calloc(n + 1, sizeof *items);
    CKPT_TRY_ALLOC(items, job->err);
    for (size_t i = 0; i < n; i++)
        items[i].storage = &job->record_results[i].storage;
    ckpt_status st = share_deal(&job->share, items, n, &job->shared_records, job->err);
    free(items);
    if (st == CKPT_OK && share_is_on(&job->share))
        st = own_with_rows(job);
    return st;
}

static ckpt_status start_sharing(struct verify_job *job)
{
    job->shared_rows = (struct share_list){.put = put_row_result, .take = take_row_result, .user = job};
    job->shared_records = (struct share_list){
        .put = put_record_result, .take = take_record_result, .user = job};
    CKPT_TRY(share_start(&job->share, job->c->opts->how, "verify", describe_verify, job, job->err));
    CKPT_TRY(share_deal(&job->share, job->items, job->n, &job->shared_rows, job->err));
    return deal_records(job);
}

/* exchange_results - if anything is shared, takes the results of all parts, and reports them. */
static ckpt_status exchange_results(struct verify_job *job)
{
    const struct share_list lists[] = {job->shared_rows, job->shared_records};
    if (!share_is_on(&job->share))
        return CKPT_OK;
    CKPT_TRY(check_unchanged(job->c, job->err)); /* what was read before a change is not passed on */
    CKPT_TRY(share_exchange(&job->share, lists, 2, job->err));
    for (size_t i = 0; job->status == CKPT_OK && i < job->n; i++)
        (void)report_row(job, i);
    for (size_t i = 0; job->status == CKPT_OK && i < job->c->nrecords; i++)
        if (job->record_results[i].is_read)
            (void)report_record_number(job, i);
    return status_of_run(job, CKPT_OK);
}

/* ----------------------------------------------------------------------- all */

/* make_results - makes the results of all records. */
static ckpt_status make_results(struct verify_job *job)
{
    const struct check *c = job->c;
    job->record_results = calloc(c->nrecords + 1, sizeof *job->record_results);
    job->unread_records = calloc(c->nrecords + 1, sizeof *job->unread_records);
    CKPT_TRY_ALLOC(job->record_results && job->unread_records && c->nrecords < UINT32_MAX, job->err);
    for (size_t i = 0; i < c->nrecords; i++)
        job->record_results[i].storage = (struct storage){.nbytes = c->records[i].src->size,
                                                          .src = c->records[i].src};
    return CKPT_OK;
}

/* count_bytes - computes how many bytes this process is going to read; too many if tensors are records. */
static void count_bytes(struct verify_job *job)
{
    for (size_t i = 0; i < job->n; i++)
        if (share_has(&job->share, &job->shared_rows, i))
            job->tensor_bytes += table_nbytes_of(&job->f->table, job->items[i].row); /* list_rows added all */
    job->total = job->tensor_bytes;
    for (size_t i = 0; job->n && i < job->c->nrecords; i++)
        if (share_has(&job->share, &job->shared_records, i))
            job->total = size_add(job->total, job->c->records[i].src->size);
}

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
    if (job->f && (manifest || o->finite || any_has_own_checksums(job)))
        CKPT_TRY(list_rows(job));
    CKPT_TRY(make_results(job));
    CKPT_TRY(start_sharing(job));
    count_bytes(job);
    CKPT_TRY(read_rows(job));
    CKPT_TRY(read_records(job));
    CKPT_TRY(exchange_results(job));
    if (job->digests)
        digest_aliases(&job->f->table, job->digests);
    if (manifest && o->manifest)
        CKPT_TRY(manifest_check(job->c, job->f, job->digests, &job->manifest, job->err));
    CKPT_TRY(check_unchanged(job->c, job->err));
    if (manifest && o->write_manifest && !job->c->result->findings)
        CKPT_TRY(manifest_write(job->c, job->f, job->digests, job->err));
    return CKPT_OK;
}

static void free_job(struct verify_job *job)
{
    for (size_t i = 0; job->results && i < job->n; i++)
        free(job->results[i].fault);
    for (size_t i = 0; job->record_results && i < job->c->nrecords; i++)
        free(job->record_results[i].fault);
    free(job->items);
    free(job->results);
    free(job->record_results);
    free(job->unread_records);
    free(job->shared_rows.owners);
    free(job->shared_records.owners);
    free(job->bad_crc);
    free(job->digests);
    free(job->manifest.ptr);
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
    free_job(&job);
    return st;
}
