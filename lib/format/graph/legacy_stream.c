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

static ckpt_status add_pid(struct legacy_stream *l, struct torch_pid *pid)
{
    if (map_get(l->storage_of_key, pid->key) != MAP_NONE)
        return CKPT_OK;
    CKPT_TRY(torch_pid_copy_key(l->f->a, pid, l->err));
    const struct legacy_storage s = {.pid = *pid};
    bool ok = map_put(l->storage_of_key, pid->key, (uint32_t)l->nstorages, NULL) &&
              arena_push(l->f->a, &l->storages, &l->nstorages, &l->cap_storages, &s, sizeof s);
    return ok ? CKPT_OK : fail_memory(l->err);
}

static ckpt_status collect_pids(struct legacy_stream *l)
{
    for (size_t i = 0; i < l->facts->npersids; i++) {
        struct torch_pid pid;
        if (torch_pid_parse(l->facts->persids[i], &pid))
            CKPT_TRY(add_pid(l, &pid));
    }
    return CKPT_OK;
}

/* compute_storage_size - sets s->nbytes. COUNT is the number of elements that the stream states at AT. */
static ckpt_status compute_storage_size(struct legacy_stream *l, struct legacy_storage *s, uint64_t count,
                                        uint64_t at)
{
    uint64_t stated = s->pid.numel;
    if (s->pid.dtype == CKPT_DT_NONE)
        return fail(l->err, CKPT_EFORMAT, at,
                    "storage \"%.*s\" has {class \"%.*s\"}, which is none of {=torch's}", STR_ARG(s->pid.key),
                    STR_ARG(s->pid.klass));
    if (count != stated && l->f->salvage) /* the pickle was valid, so COUNT is the one that is damaged */
        count = stated;
    if (count != stated)
        return fail(l->err, CKPT_EFORMAT, at,
                    "storage \"%.*s\" has {%llu elements}, its persistent id states {=%llu}",
                    STR_ARG(s->pid.key), (unsigned long long)count, (unsigned long long)stated);
    return torch_storage_bytes(s->pid.dtype, count, &s->nbytes)
               ? CKPT_OK
               : fail(l->err, CKPT_EFORMAT, at, "storage \"%.*s\" of {%llu elements} does not fit {=64 bits}",
                      STR_ARG(s->pid.key), (unsigned long long)count);
}

/* locate_storage - locates storage KEY, which begins with its count of elements at *POS. Moves *POS to its
 * end. */
static ckpt_status locate_storage(struct legacy_stream *l, const ckpt_value *key, uint64_t *pos)
{
    ckpt_str text;
    unsigned char count_bytes[8];
    char shown[64];
    uint64_t at = source_pos(l->src, *pos);
    uint32_t i = value_text(key, &text) ? map_get(l->storage_of_key, text) : MAP_NONE;
    if (i == MAP_NONE) {
        value_text_or_type(key, 4, shown, sizeof shown);
        return fail(l->err, CKPT_EFORMAT, at,
                    "the list of storages must name {=those of the main pickle}, found {%s}", shown);
    }
    struct legacy_storage *s = &l->storages[i];
    if (s->is_present)
        return fail(l->err, CKPT_EFORMAT, at, "storage \"%.*s\" comes {twice}, {=once} is allowed",
                    STR_ARG(text));
    CKPT_TRY(source_read(l->src, *pos, count_bytes, sizeof count_bytes, l->err));
    uint64_t count = load_u64le(count_bytes);
    s->off = *pos + sizeof count_bytes;
    CKPT_TRY(compute_storage_size(l, s, count, at));
    if (!range_within(s->off, s->nbytes, l->src->size))
        return fail(l->err, CKPT_ETRUNCATED, at,
                    "storage \"%.*s\" needs {=%llu bytes}, the file has {%llu} left\n"
                    "the download or the save stopped early: get the file again",
                    STR_ARG(text), (unsigned long long)s->nbytes,
                    (unsigned long long)(l->src->size - s->off));
    s->is_present = true;
    *pos = s->off + s->nbytes;
    return CKPT_OK;
}

static ckpt_status locate_storages(struct legacy_stream *l, const ckpt_value *keys, uint64_t pos)
{
    char type[64];
    if (keys->type != CKPT_V_LIST)
        return fail(l->err, CKPT_EFORMAT, source_pos(l->src, pos),
                    "the fifth pickle is {a %s}, it must be {=the list of storage keys}",
                    ckpt_value_type_name(keys, type, sizeof type));
    for (uint32_t i = 0; i < value_count(keys); i++) {
        ckpt_status st = locate_storage(l, value_item(keys, i), &pos);
        if (st == CKPT_ETRUNCATED && l->f->salvage)
            return CKPT_OK; /* nothing follows; tensors that use a missing storage are reported as lost */
        CKPT_TRY(file_report_fault(l->f, st, l->err));
        if (st != CKPT_OK) /* the storages after a faulty one cannot be located */
            return CKPT_OK;
    }
    if (pos >= l->src->size || l->src != l->f->src)
        return CKPT_OK;
    if (l->f->salvage)
        salvage_note_stray(l->f, l->src->size - pos, "storage");
    if (!l->f->check)
        return CKPT_OK;
    (void)fail(l->err, CKPT_EFORMAT, source_pos(l->src, pos),
               "{%llu unreferenced bytes} follow {=the last storage}",
               (unsigned long long)(l->src->size - pos));
    return file_report_fault_as(l->f, CHECK_STRAY, CKPT_EFORMAT, l->err);
}

/* read_one_pickle - reads one of the five pickles, which WHAT names in errors. Adds its facts to the file
 * unless l->embedded: torch.load runs all five. IS_MAIN: it is the main pickle, whose facts l->facts gets. */
static ckpt_status read_one_pickle(struct legacy_stream *l, const char *what, bool is_main, uint64_t *pos,
                                   ckpt_value **out)
{
    struct pickle_facts *facts = is_main ? l->facts : NULL;
    if (!l->embedded)
        facts = file_add_pickle(l->f, str_of("", 0));
    if (!l->embedded && !facts)
        return fail_memory(l->err);
    if (is_main)
        l->facts = facts;
    ckpt_status st = pickle_read(l->f->a, l->src, *pos, l->src->size, facts, out, pos, l->err);
    return prefix_where_if_failed(st, str_c(what), l->err);
}

static ckpt_status fail_version(const struct legacy_stream *l, const ckpt_value *v)
{
    char shown[64];
    value_text_or_type(v, 4, shown, sizeof shown);
    ckpt_status st = fail(l->err, CKPT_EFORMAT, source_pos(l->src, value_offset(v)),
                          "it is {%s}, torch writes {=%d}", shown, PROTOCOL_VERSION);
    return prefix_where_if_failed(st, STR_LIT("protocol version"), l->err);
}

ckpt_status legacy_stream_read(struct legacy_stream *l)
{
    uint64_t pos = 0;
    int64_t version;
    ckpt_value *v, *keys;
    CKPT_TRY(read_one_pickle(l, "magic number", false, &pos, &v));
    CKPT_TRY(read_one_pickle(l, "protocol version", false, &pos, &v));
    if (!value_integer(v, &version) || version != PROTOCOL_VERSION)
        return fail_version(l, v);
    CKPT_TRY(read_one_pickle(l, "system information", false, &pos, &v));
    CKPT_TRY(read_one_pickle(l, "main pickle", true, &pos, &l->root));
    CKPT_TRY(read_one_pickle(l, "storage keys", false, &pos, &keys));
    l->storage_of_key = map_new(l->facts->npersids);
    if (!l->storage_of_key)
        return fail_memory(l->err);
    CKPT_TRY(collect_pids(l));
    ckpt_status st = locate_storages(l, keys, pos);
    if (st != CKPT_OK)
        error_add_position(l->err, source_pos(l->src, pos), STR_LIT("storages"));
    return st;
}

ckpt_status legacy_stream_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                       ckpt_error *err)
{
    struct legacy_stream *l = user;
    uint32_t i = map_get(l->storage_of_key, pid->key);
    if (i == MAP_NONE || !l->storages[i].is_present)
        return fail(err, CKPT_ETRUNCATED, l->f->salvage ? l->src->size : CKPT_NO_OFFSET,
                    "{=storage \"%.*s\"} is {not in the stream}", STR_ARG(pid->key));
    s->src = source_ref(l->src);
    s->off = l->storages[i].off;
    s->nbytes = l->storages[i].nbytes;
    return CKPT_OK;
}

ckpt_status legacy_stream_read_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err)
{
    struct pickle_facts facts = {0};
    struct legacy_stream l = {.f = f, .src = bytes, .err = err, .facts = &facts, .embedded = true};
    struct torch_pid pid;
    ckpt_status st = legacy_stream_read(&l);
    if (st == CKPT_OK && !torch_pid_parse(l.root, &pid))
        st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                  "torch.storage._load_from_bytes is given a stream of {another object} than {=a storage}");
    if (st == CKPT_OK)
        st = legacy_stream_find_storage(&l, &pid, s, err);
    if (st == CKPT_OK) {
        s->dtype = (uint8_t)pid.dtype;
        st = table_set_location(&f->table, s, pid.location) ? CKPT_OK : fail_memory(err);
    }
    map_free(l.storage_of_key);
    return st;
}
