/* share.c - see share.h. */
#include "op/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/store.h"
#include "op/hash_xxh3.h"
#include "op/part_record.h"

#define MAGIC      "CKPTPART"
#define MAGIC_SIZE 8
#define VERSION    1u
#define HEAD_SIZE  64

/* -------------------------------------------------------------------- identity */

bool share_input_facts(const struct stat *st, uint64_t facts[3])
{
    facts[0] = (uint64_t)st->st_size;
    facts[1] = (uint64_t)st->st_mtim.tv_sec;
    facts[2] = (uint64_t)st->st_mtim.tv_nsec;
    return !S_ISDIR(st->st_mode);
}

uint64_t share_find_cut(uint64_t total, uint32_t number, uint32_t parts)
{
    /* NUMBER is at most PARTS: the first product is at most TOTAL, the second at most PART_MAX squared. */
    return total / parts * number + total % parts * number / parts;
}

static ckpt_status describe_input(void *hash, const struct stat *st, ckpt_error *err)
{
    uint64_t facts[3];
    (void)err;
    if (share_input_facts(st, facts))
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            hash_u64(hash, facts[i]);
    return CKPT_OK;
}

void share_describe_source(const source *src, struct hash *facts)
{
    ckpt_error ignored;
    const struct stat *opened = source_opened_stat(src);
    if (opened)
        (void)describe_input(facts, opened, &ignored);
}

static void describe_row(const struct table *table, uint32_t index, struct hash *facts)
{
    const ckpt_tensor t = table_tensor(table, index);
    hash_text(facts, t.name);
    hash_text(facts, str_c(ckpt_tensor_dtype_name(&t)));
    hash_u64(facts, (uint64_t)t.kind << 2 | (uint64_t)(t.has_shape != 0) << 1 | (t.has_data != 0));
    hash_u64(facts, t.ndim);
    for (uint32_t k = 0; k < t.ndim; k++)
        hash_u64(facts, t.shape[k]);
    hash_u64(facts, t.nbytes);
    hash_u64(facts, t.storage);
    hash_u64(facts, t.storage_offset);
    hash_u64(facts, t.alias_of);
}

ckpt_status share_describe_file(const ckpt_file *f, struct hash *facts, ckpt_error *err)
{
    if (f->visit_files)
        CKPT_TRY(f->visit_files(f, describe_input, facts, err));
    hash_u64(facts, f->ignore_crc);
    hash_u64(facts, f->table.nrows);
    for (uint32_t i = 0; i < f->table.nrows; i++)
        describe_row(&f->table, i, facts);
    hash_u64(facts, f->table.nstorages);
    for (size_t i = 0; i < f->table.nstorages; i++) {
        const struct storage *s = &f->table.storages[i];
        hash_u64(facts, s->nbytes);
        hash_u64(facts, (uint64_t)s->has_crc << 32 | (s->has_crc ? s->crc : 0));
    }
    return CKPT_OK;
}

static ckpt_status check_work(const ckpt_work *work, ckpt_error *err)
{
    CKPT_REQUIRE(err, work->exchange && work->part < work->parts && work->parts <= PART_MAX);
    return CKPT_OK;
}

/* call_exchange - calls `exchange` with the record OWN, or without one. */
static ckpt_status call_exchange(struct share *share, ckpt_str own, ckpt_error *err)
{
    const ckpt_work *work = &share->work;
    if (work->exchange(work->exchange_user, share->id, own.ptr, own.len, &share->all, &share->all_bytes))
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

ckpt_status share_start(struct share *share, const ckpt_work *work, const char *operation,
                        ckpt_status (*describe)(void *user, struct hash *facts, ckpt_error *err), void *user,
                        ckpt_error *err)
{
    struct hash facts;
    uint8_t id[CKPT_DIGEST_MAX];
    *share = (struct share){.work = *work};
    if (!share_is_on(share))
        return CKPT_OK;
    CKPT_TRY(check_work(work, err));
    CKPT_TRY(hash_begin(&facts, CKPT_XXH3, err));
    hash_u64(&facts, VERSION);
    hash_text(&facts, str_c(operation));
    CKPT_TRY(hash_end(&facts, describe(user, &facts, err), id, err));
    part_id_format(id, share->id);
    return call_exchange(share, str_of(NULL, 0), err);
}

/* --------------------------------------------------------------------- dealing */

static uint64_t get_item_bytes(const struct parallel_item *item)
{
    if (item->storage)
        return item->storage->nbytes;
    return size_add(table_nbytes_of(&item->file->table, item->row),
                    item->other ? table_nbytes_of(&item->other->table, item->other_row) : 0);
}

/* find_leader - returns the index of the first item that reads the storage of item INDEX, if that has a
 * checksum; else INDEX. FIRST: by storage, 1 + that index, or 0. */
static size_t find_leader(const struct parallel_item *item, size_t index, uint32_t *first)
{
    if (item->storage)
        return index;
    const struct table *t = &item->file->table;
    uint32_t storage = table_storage_of(t, item->row);
    if (storage >= t->nstorages || !t->storages[storage].has_crc)
        return index;
    if (!first[storage])
        first[storage] = (uint32_t)index + 1;
    return first[storage] - 1;
}

static void deal_items(const struct share *share, const struct parallel_item *items, struct share_list *list,
                       uint32_t *first)
{
    uint32_t part = 0, parts = share->work.parts;
    uint64_t total = 0, begin = 0;
    for (size_t i = 0; i < list->count; i++)
        total = size_add(total, get_item_bytes(&items[i]));
    for (size_t i = 0; i < list->count; i++) {
        while (part + 1 < parts && begin >= share_find_cut(total, part + 1, parts))
            part++;
        size_t leader = find_leader(&items[i], i, first);
        list->owners[i] = leader == i ? part : list->owners[leader];
        begin = size_add(begin, get_item_bytes(&items[i]));
    }
}

ckpt_status share_deal(const struct share *share, const struct parallel_item *items, size_t count,
                       struct share_list *list, ckpt_error *err)
{
    list->count = count;
    if (!share_is_on(share))
        return CKPT_OK;
    if (count >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu results are too many to be shared", count);
    size_t nstorages = count && items->file ? items->file->table.nstorages : 0;
    uint32_t *first = calloc(nstorages + 1, sizeof *first);
    list->owners = calloc(count + 1, sizeof *list->owners);
    if (first && list->owners)
        deal_items(share, items, list, first);
    ckpt_status st = first && list->owners ? CKPT_OK : fail_memory(err);
    free(first);
    return st;
}

static bool is_own(const struct share *share, const struct share_list *list, size_t index)
{
    return list->owners[index] == share->work.part;
}

bool share_has(const struct share *share, const struct share_list *list, size_t index)
{
    return !share_is_on(share) || (!share->all && is_own(share, list, index));
}

/* ------------------------------------------------------------------------- run */

/* A job of the items of JOB whose numbers are in OWN. */
struct own_job {
    const struct parallel_job *job;
    size_t *own;
};

static struct parallel_item get_own_item(void *user, size_t index)
{
    const struct own_job *j = user;
    return j->job->items ? j->job->items[j->own[index]] : j->job->get_item(j->job->user, j->own[index]);
}

static ckpt_status process_own(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    const struct own_job *j = user;
    return j->job->process(j->job->user, j->own[index], run, err);
}

static ckpt_status process_own_chunk(void *user, size_t index, struct parallel_chunk *chunk,
                                     struct parallel_context *run, ckpt_error *err)
{
    const struct own_job *j = user;
    return j->job->process_chunk(j->job->user, j->own[index], chunk, run, err);
}

static ckpt_status join_own_chunks(void *user, size_t index, const struct parallel_chunk *chunks,
                                   size_t count, ckpt_error *err)
{
    const struct own_job *j = user;
    return j->job->join_chunks(j->job->user, j->own[index], chunks, count, err);
}

ckpt_status share_run(const struct share *share, const struct share_list *list,
                      const struct parallel_job *job, ckpt_error *err)
{
    if (!share_is_on(share))
        return parallel_run(job, err);
    struct own_job own = {.job = job, .own = calloc(job->n + 1, sizeof *own.own)};
    struct parallel_job part = *job;
    CKPT_TRY_ALLOC(own.own, err);
    part.items = NULL;
    part.get_item = get_own_item;
    part.process = process_own;
    part.process_chunk = job->process_chunk ? process_own_chunk : NULL;
    part.join_chunks = job->join_chunks ? join_own_chunks : NULL;
    part.report = NULL;
    part.user = &own;
    part.n = 0;
    for (size_t i = 0; i < job->n; i++)
        if (share_has(share, list, i))
            own.own[part.n++] = i;
    ckpt_status st = parallel_run(&part, err);
    free(own.own);
    return st;
}

/* ---------------------------------------------------------------------- record */

/* put_result - appends result INDEX of LIST, with its index and its length. */
static void put_result(const struct share_list *list, size_t index, buf *out)
{
    size_t begin = out->len;
    buf_u32le(out, (uint32_t)index);
    buf_u32le(out, 0);
    list->put(list->user, index, out);
    if (buf_ok(out))
        store_u32le(out->data + begin + 4, (uint32_t)(out->len - begin - 8));
}

static void put_list(const struct share *share, const struct share_list *list, buf *out)
{
    uint64_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += is_own(share, list, i);
    buf_u64le(out, count);
    for (size_t i = 0; i < list->count; i++)
        if (is_own(share, list, i))
            put_result(list, i, out);
}

/* put_record - makes OUT the record of this part. */
static ckpt_status put_record(const struct share *share, const struct share_list *lists, size_t count,
                              buf *out, ckpt_error *err)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    buf_put_cstr(out, MAGIC);
    buf_u32le(out, VERSION);
    buf_u32le(out, share->work.part);
    buf_u32le(out, share->work.parts);
    buf_u32le(out, 0);
    buf_u64le(out, 0);
    buf_put(out, share->id, SHARE_ID_TEXT - 1);
    for (size_t i = 0; i < count; i++)
        put_list(share, &lists[i], out);
    CKPT_TRY_ALLOC(buf_ok(out), err);
    store_u64le(out->data + HEAD_SIZE - SHARE_ID_TEXT + 1 - 8, out->len - HEAD_SIZE);
    CKPT_TRY(digest_xxh3(out->data, out->len, digest, err));
    buf_put(out, digest, XXH3_BYTES);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

/* A record that was read. */
struct record {
    uint32_t part, parts;
    ckpt_str id;
    cursor results;
};

static ckpt_status fail_malformed(ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "malformed results of a part\nrun the part again, which replaces them");
}

/* read_record - reads the next record of IN, up to its results, and checks its digest. */
static ckpt_status read_record(cursor *in, struct record *out, ckpt_error *err)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    const unsigned char *begin = in->p, *magic = cursor_take(in, MAGIC_SIZE);
    uint32_t version = cursor_u32(in), reserved;
    uint64_t nbytes;
    out->part = cursor_u32(in);
    out->parts = cursor_u32(in);
    reserved = cursor_u32(in);
    nbytes = cursor_u64(in);
    const unsigned char *id = cursor_take(in, SHARE_ID_TEXT - 1);
    if (in->bad || memcmp(magic, MAGIC, MAGIC_SIZE) != 0 || version != VERSION || reserved ||
        nbytes > in->left)
        return fail_malformed(err);
    out->id = str_of((const char *)id, SHARE_ID_TEXT - 1);
    out->results = cursor_sub(in, (size_t)nbytes);
    const unsigned char *recorded = cursor_take(in, XXH3_BYTES);
    if (in->bad)
        return fail_malformed(err);
    CKPT_TRY(digest_xxh3(begin, HEAD_SIZE + (size_t)nbytes, digest, err));
    return memcmp(digest, recorded, XXH3_BYTES) == 0 ? CKPT_OK : fail_malformed(err);
}

static ckpt_status check_head(const struct record *record, const char *id, uint32_t parts, ckpt_error *err)
{
    if (str_is(record->id, id) && record->parts == parts && record->part < parts)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "the results are of {part %u of %u, plan %.*s}, not of {=%u parts, plan %s}", record->part,
                record->parts, STR_ARG(record->id), parts, id);
}

ckpt_status share_check_record(ckpt_str bytes, const char *id, uint32_t part, uint32_t parts, ckpt_error *err)
{
    struct record record;
    cursor in = cursor_of(bytes.ptr, bytes.len, 0);
    CKPT_TRY(read_record(&in, &record, err));
    CKPT_TRY(check_head(&record, id, parts, err));
    return in.left || record.part != part ? fail_malformed(err) : CKPT_OK;
}

void share_put_real(double number, buf *out)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    buf_u64le(out, bits);
}

/* ---------------------------------------------------------------------- taking */

double share_take_real(cursor *in)
{
    double number;
    uint64_t bits = cursor_u64(in);
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* take_result - reads the next result of LIST, of part PART; *NEXT: the lowest index that it may have. */
static bool take_result(const struct share_list *list, uint32_t part, size_t *next, cursor *in)
{
    uint32_t index = cursor_u32(in), nbytes = cursor_u32(in);
    cursor result = cursor_sub(in, nbytes);
    if (result.bad || index < *next || index >= list->count || list->owners[index] != part)
        return false;
    *next = (size_t)index + 1;
    return list->take(list->user, index, &result) && !result.bad && !result.left;
}

/* take_lists - reads the results in RECORD, and adds their numbers to TAKEN, by list. */
static bool take_lists(const struct share_list *lists, size_t count, struct record *record, uint64_t *taken)
{
    cursor *in = &record->results;
    for (size_t i = 0; i < count; i++) {
        uint64_t n = cursor_u64(in);
        size_t next = 0;
        for (uint64_t k = 0; k < n; k++)
            if (!take_result(&lists[i], record->part, &next, in))
                return false;
        taken[i] += n; /* at most the count of the list: each has another index and belongs to one part */
    }
    return !in->bad && !in->left;
}

/* take_all - reads all records. SEEN: by part, whether its record was read. */
static ckpt_status take_all(const struct share *share, const struct share_list *lists, size_t count,
                            bool *seen, uint64_t *taken, ckpt_error *err)
{
    struct record record;
    cursor in = cursor_of(share->all, share->all_bytes, 0);
    while (in.left) {
        CKPT_TRY(read_record(&in, &record, err));
        CKPT_TRY(check_head(&record, share->id, share->work.parts, err));
        if (seen[record.part])
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the results of part {%u} are there twice",
                        record.part);
        seen[record.part] = true;
        if (!take_lists(lists, count, &record, taken))
            return fail_malformed(err);
    }
    for (uint32_t i = 0; i < share->work.parts; i++)
        if (!seen[i])
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the results of part {%u} are missing", i);
    for (size_t i = 0; i < count; i++)
        if (taken[i] != lists[i].count)
            return fail_malformed(err);
    return CKPT_OK;
}

static ckpt_status take_records(const struct share *share, const struct share_list *lists, size_t count,
                                ckpt_error *err)
{
    bool *seen = calloc(share->work.parts, sizeof *seen);
    uint64_t *taken = calloc(count, sizeof *taken);
    ckpt_status st = seen && taken ? take_all(share, lists, count, seen, taken, err) : fail_memory(err);
    free(seen);
    free(taken);
    return st;
}

/* send_own - passes the record of this part on. */
static ckpt_status send_own(struct share *share, const struct share_list *lists, size_t count,
                            ckpt_error *err)
{
    buf own;
    buf_init(&own, SIZE_MAX / 2);
    ckpt_status st = put_record(share, lists, count, &own, err);
    CKPT_THEN(st, call_exchange(share, buf_view(&own), err));
    buf_free(&own);
    return st;
}

ckpt_status share_exchange(struct share *share, const struct share_list *lists, size_t count, ckpt_error *err)
{
    if (!share_is_on(share))
        return CKPT_OK;
    if (!share->all)
        CKPT_TRY(send_own(share, lists, count, err));
    if (!share->all)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "exchange has not set the results of all parts");
    return take_records(share, lists, count, err);
}
