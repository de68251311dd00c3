/*
 * legacy_stream.c - reads the stream that torch.save wrote before 1.6, and still writes on request. Five
 * pickles back to back, then the storages; no padding, no lengths, so each pickle must be run to its STOP to
 * find the next:
 *
 *   pickle  0x1950a86a20f9469cfc6c          magic
 *   pickle  1001                            protocol version
 *   pickle  {protocol_version, little_endian, type_sizes}   ignored, as torch does
 *   pickle  the object, with storages as persistent ids: the main pickle
 *   pickle  [key, …]                        the order of the storages
 *   per key: i64 elements, then elements * item size raw little-endian bytes
 *
 * The item size is that of the class under which the key first appears. Source: torch/serialization.py
 * _legacy_save and _legacy_load; the bytes are little-endian on every host (torch/csrc/serialization.cpp).
 *
 * Refused: another version, a count that differs from what the persistent id states, a key that is not in the
 * main pickle, a key twice, a stream that ends early. Bytes after the last storage are ignored, as by torch.
 */
#include "format/graph/legacy_stream.h"

#include "base/checked.h"
#include "base/cursor.h"
#include "codec/pickle_read.h"
#include "core/check.h"
#include "format/salvage.h"

#define PROTOCOL_VERSION 1001

static ckpt_status add_pid(struct legacy_stream *legacy_stream, struct torch_pid *pid)
{
    if (map_get(legacy_stream->storage_of_key, pid->key) != MAP_NONE)
        return CKPT_OK;
    CKPT_TRY(torch_pid_copy_key(legacy_stream->f->a, pid, legacy_stream->err));
    const struct legacy_storage s = {.pid = *pid};
    bool ok = map_put(legacy_stream->storage_of_key, pid->key, (uint32_t)legacy_stream->nstorages, NULL) &&
              arena_push(legacy_stream->f->a, &legacy_stream->storages, &legacy_stream->nstorages,
                         &legacy_stream->cap_storages, &s, sizeof s);
    return ok ? CKPT_OK : fail_memory(legacy_stream->err);
}

static ckpt_status collect_pids(struct legacy_stream *legacy_stream)
{
    for (size_t i = 0; i < legacy_stream->facts->npersids; i++) {
        struct torch_pid pid;
        if (torch_pid_parse(legacy_stream->facts->persids[i], &pid))
            CKPT_TRY(add_pid(legacy_stream, &pid));
    }
    return CKPT_OK;
}

/* compute_storage_size - sets storage->nbytes. COUNT is the number of elements that the stream states at
 * AT. */
static ckpt_status compute_storage_size(struct legacy_stream *legacy_stream, struct legacy_storage *storage,
                                        uint64_t count, uint64_t at)
{
    uint64_t stated = storage->pid.numel;
    if (storage->pid.dtype == CKPT_DT_NONE)
        return fail(legacy_stream->err, CKPT_EFORMAT, at,
                    "storage \"%.*s\" has {class \"%.*s\"}, which is none of {=torch's}",
                    STR_ARG(storage->pid.key), STR_ARG(storage->pid.klass));
    if (count != stated &&
        legacy_stream->f->salvage) /* the pickle was valid, so COUNT is the one that is damaged */
        count = stated;
    if (count != stated)
        return fail(legacy_stream->err, CKPT_EFORMAT, at,
                    "storage \"%.*s\" has {%llu elements}, its persistent id states {=%llu}",
                    STR_ARG(storage->pid.key), (unsigned long long)count, (unsigned long long)stated);
    return torch_storage_bytes(storage->pid.dtype, count, &storage->nbytes)
               ? CKPT_OK
               : fail(legacy_stream->err, CKPT_EFORMAT, at,
                      "storage \"%.*s\" of {%llu elements} does not fit {=64 bits}",
                      STR_ARG(storage->pid.key), (unsigned long long)count);
}

/* locate_storage - locates storage KEY, which begins with its count of elements at *POS. Moves *POS to its
 * end. */
static ckpt_status locate_storage(struct legacy_stream *legacy_stream, const ckpt_value *key, uint64_t *pos)
{
    ckpt_str text;
    unsigned char count_bytes[8];
    char shown[64];
    uint64_t at = source_pos(legacy_stream->src, *pos);
    uint32_t i = value_text(key, &text) ? map_get(legacy_stream->storage_of_key, text) : MAP_NONE;
    if (i == MAP_NONE) {
        value_text_or_type(key, 4, shown, sizeof shown);
        return fail(legacy_stream->err, CKPT_EFORMAT, at,
                    "the list of storages must name {=those of the main pickle}, found {%s}", shown);
    }
    struct legacy_storage *s = &legacy_stream->storages[i];
    if (s->is_present)
        return fail(legacy_stream->err, CKPT_EFORMAT, at,
                    "storage \"%.*s\" comes {twice}, {=once} is allowed", STR_ARG(text));
    CKPT_TRY(source_read(legacy_stream->src, *pos, count_bytes, sizeof count_bytes, legacy_stream->err));
    uint64_t count = load_u64le(count_bytes);
    s->off = *pos + sizeof count_bytes;
    CKPT_TRY(compute_storage_size(legacy_stream, s, count, at));
    if (!range_within(s->off, s->nbytes, legacy_stream->src->size))
        return fail(legacy_stream->err, CKPT_ETRUNCATED, at,
                    "storage \"%.*s\" needs {=%llu bytes}, the file has {%llu} left\n"
                    "the download or the save stopped early: get the file again",
                    STR_ARG(text), (unsigned long long)s->nbytes,
                    (unsigned long long)(legacy_stream->src->size - s->off));
    s->is_present = true;
    *pos = s->off + s->nbytes;
    return CKPT_OK;
}

static ckpt_status locate_storages(struct legacy_stream *legacy_stream, const ckpt_value *keys, uint64_t pos)
{
    char type[64];
    if (keys->type != CKPT_V_LIST)
        return fail(legacy_stream->err, CKPT_EFORMAT, source_pos(legacy_stream->src, pos),
                    "the fifth pickle is {a %s}, it must be {=the list of storage keys}",
                    ckpt_value_type_name(keys, type, sizeof type));
    for (uint32_t i = 0; i < value_count(keys); i++) {
        ckpt_status st = locate_storage(legacy_stream, value_item(keys, i), &pos);
        if (st == CKPT_ETRUNCATED && legacy_stream->f->salvage)
            return CKPT_OK; /* nothing follows; tensors that use a missing storage are reported as lost */
        CKPT_TRY(file_report_fault(legacy_stream->f, st, legacy_stream->err));
        if (st != CKPT_OK) /* the storages after a faulty one cannot be located */
            return CKPT_OK;
    }
    if (pos >= legacy_stream->src->size || legacy_stream->src != legacy_stream->f->src)
        return CKPT_OK;
    if (legacy_stream->f->salvage)
        salvage_note_stray(legacy_stream->f, legacy_stream->src->size - pos, "storage");
    if (!legacy_stream->f->check)
        return CKPT_OK;
    (void)fail(legacy_stream->err, CKPT_EFORMAT, source_pos(legacy_stream->src, pos),
               "{%llu unreferenced bytes} follow {=the last storage}",
               (unsigned long long)(legacy_stream->src->size - pos));
    return file_report_fault_as(legacy_stream->f, CHECK_STRAY, CKPT_EFORMAT, legacy_stream->err);
}

/* read_one_pickle - reads one of the five pickles, which WHAT names in errors. Adds its facts to the file
 * unless legacy_stream->embedded: torch.load runs all five. IS_MAIN: it is the main pickle, whose facts
 * legacy_stream->facts gets. */
static ckpt_status read_one_pickle(struct legacy_stream *legacy_stream, const char *what, bool is_main,
                                   uint64_t *pos, ckpt_value **out)
{
    struct pickle_facts *facts = is_main ? legacy_stream->facts : NULL;
    if (!legacy_stream->embedded)
        facts = file_add_pickle(legacy_stream->f, str_of("", 0));
    if (!legacy_stream->embedded && !facts)
        return fail_memory(legacy_stream->err);
    if (is_main)
        legacy_stream->facts = facts;
    ckpt_status st = pickle_read(legacy_stream->f->a, legacy_stream->src, *pos, legacy_stream->src->size,
                                 facts, out, pos, legacy_stream->err);
    return prefix_where_if_failed(st, str_c(what), legacy_stream->err);
}

static ckpt_status fail_version(const struct legacy_stream *legacy_stream, const ckpt_value *value)
{
    char shown[64];
    value_text_or_type(value, 4, shown, sizeof shown);
    ckpt_status st = fail(legacy_stream->err, CKPT_EFORMAT,
                          source_pos(legacy_stream->src, value_offset(value)),
                          "it is {%s}, torch writes {=%d}", shown, PROTOCOL_VERSION);
    return prefix_where_if_failed(st, STR_LIT("protocol version"), legacy_stream->err);
}

ckpt_status legacy_stream_read(struct legacy_stream *legacy_stream)
{
    uint64_t pos = 0;
    int64_t version;
    ckpt_value *v, *keys;
    CKPT_TRY(read_one_pickle(legacy_stream, "magic number", false, &pos, &v));
    CKPT_TRY(read_one_pickle(legacy_stream, "protocol version", false, &pos, &v));
    if (!value_integer(v, &version) || version != PROTOCOL_VERSION)
        return fail_version(legacy_stream, v);
    CKPT_TRY(read_one_pickle(legacy_stream, "system information", false, &pos, &v));
    CKPT_TRY(read_one_pickle(legacy_stream, "main pickle", true, &pos, &legacy_stream->root));
    CKPT_TRY(read_one_pickle(legacy_stream, "storage keys", false, &pos, &keys));
    legacy_stream->storage_of_key = map_new(legacy_stream->facts->npersids);
    if (!legacy_stream->storage_of_key)
        return fail_memory(legacy_stream->err);
    CKPT_TRY(collect_pids(legacy_stream));
    ckpt_status st = locate_storages(legacy_stream, keys, pos);
    if (st != CKPT_OK)
        error_add_position(legacy_stream->err, source_pos(legacy_stream->src, pos), STR_LIT("storages"));
    return st;
}

ckpt_status legacy_stream_find_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                       ckpt_error *err)
{
    struct legacy_stream *l = user;
    uint32_t i = map_get(l->storage_of_key, pid->key);
    if (i == MAP_NONE || !l->storages[i].is_present)
        return fail(err, CKPT_ETRUNCATED, l->f->salvage ? l->src->size : CKPT_NO_OFFSET,
                    "{=storage \"%.*s\"} is {not in the stream}", STR_ARG(pid->key));
    storage->src = source_ref(l->src);
    storage->off = l->storages[i].off;
    storage->nbytes = l->storages[i].nbytes;
    return CKPT_OK;
}

ckpt_status legacy_stream_read_storage(ckpt_file *f, source *bytes, struct storage *storage, ckpt_error *err)
{
    struct pickle_facts facts = {0};
    struct legacy_stream l = {.f = f, .src = bytes, .err = err, .facts = &facts, .embedded = true};
    struct torch_pid pid;
    ckpt_status st = legacy_stream_read(&l);
    if (st == CKPT_OK && !torch_pid_parse(l.root, &pid))
        st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                  "torch.storage._load_from_bytes is given a stream of {another object} than {=a storage}");
    if (st == CKPT_OK)
        st = legacy_stream_find_storage(&l, &pid, storage, err);
    if (st == CKPT_OK) {
        storage->dtype = (uint8_t)pid.dtype;
        st = table_set_location(&f->table, storage, pid.location) ? CKPT_OK : fail_memory(err);
    }
    if (st != CKPT_OK)
        source_unref(storage->src);
    map_free(l.storage_of_key);
    return st;
}
