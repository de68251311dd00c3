/* file.c - makes and frees a ckpt_file, and adds what formats find in it. */
#include "core/file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sized.h"
#include "core/python2.h"
#include "core/view.h"

#define MIB (UINT64_C(1) << 20)
#define VIEW_BYTES                                                                                           \
    8u /* default limit of the bytes of all views, per byte of the file: max_expanded in ckpt.h */

static void default_limits(ckpt_limits *limits)
{
    if (!limits->max_header)
        limits->max_header = 256 * MIB;
    if (limits->max_header > SIZE_MAX / 4) /* all of it is read into memory, on 32 bits too */
        limits->max_header = SIZE_MAX / 4;
    if (!limits->max_tensors)
        limits->max_tensors = 10000000;
    if (!limits->max_depth)
        limits->max_depth = 1000;
}

void file_set_view_limit(ckpt_file *f)
{
    uint64_t by_size = size_mul(f->nbytes, VIEW_BYTES);
    f->table.max_expanded = f->limits.max_expanded ? f->limits.max_expanded
                            : by_size > 64 * MIB   ? by_size
                                                   : 64 * MIB;
}

ckpt_status file_new(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                     ckpt_error *err)
{
    ckpt_file *f = calloc(1, sizeof *f);
    if (!f) {
        source_unref(src);
        return fail_memory(err);
    }
    pthread_mutex_init(&f->lock, NULL);
    f->src = src;
    f->description.row = CKPT_NO_TENSOR;
    ckpt_status st = sized_struct_copy_in(limits, &f->limits, sizeof f->limits, err);
    if (st == CKPT_OK && (uint32_t)f->limits.names > CKPT_NAMES_VARIABLE)
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "names of ckpt_limits is {%d}, no value of {=ckpt_names}",
                  f->limits.names);
    if (st != CKPT_OK) {
        file_free(f);
        return st;
    }
    default_limits(&f->limits);
    f->nbytes = src ? src->size : 0;
    f->notices.a = f->a = arena_new(f->limits.max_metadata ? f->limits.max_metadata : 64 * MIB);
    f->folder = f->path = strdup(path);
    f->replacements.index_of = map_new(0);
    f->table = (struct table){.a = f->a, .max_rows = f->limits.max_tensors};
    file_set_view_limit(f);
    if (!f->a || !f->path || !f->replacements.index_of) {
        file_free(f);
        return fail_memory(err);
    }
    *out = f;
    return CKPT_OK;
}

void file_free(ckpt_file *f)
{
    if (!f)
        return;
    table_close(&f->table);
    if (f->container_free)
        f->container_free(f->container);
    for (size_t i = 0; i < f->nparts; i++)
        file_free(f->parts[i]);
    for (size_t i = 0; i < f->nothers; i++) /* these have no others */
        file_free(f->others[i]);
    map_free(f->names);
    map_free(f->storages.by_key);
    map_free(f->storages.by_node);
    map_free(f->replacements.index_of);
    free(f->root_pairs);
    arena_free(f->a);
    arena_free(f->inspected.a);
    source_unref(f->src);
    source_unref(f->archive);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}

const ckpt_file file_none = {0};

/* exchange - exchanges what F and OTHER have. */
static void exchange(ckpt_file *f, ckpt_file *other)
{
    ckpt_file old = *f;
    *f = *other;
    *other = old;
    map_set_user(f->storages.by_key, f);
    map_set_user(f->names, f);
}

void file_take_over(ckpt_file *f, ckpt_file *other)
{
    exchange(f, other);
    f->opening = other->opening;
    other->opening = NULL;
    f->opening->taken_from = other;
}

ckpt_file *file_move_home(ckpt_file *f)
{
    ckpt_file *home = f->opening->taken_from;
    f->opening = NULL;
    if (!home)
        return f;
    exchange(home, f);
    file_free(f);
    return home;
}

bool file_note_read(ckpt_file *f, const char *path)
{
    const char *kept = arena_str(f->a, str_c(path)).ptr;
    return kept && ARENA_PUSH(f->a, f, read_paths, &kept);
}

void file_hold(ckpt_file *f) { f->holders++; }

void file_release(ckpt_file *f)
{
    if (f && f->holders)
        f->holders--;
    else
        file_free(f);
}

ckpt_status file_explain_full_arena(const ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    if (st != CKPT_ENOMEM || !arena_full(f->a))
        return st;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "its metadata need {more memory} than is allowed ({=%" PRIu64 " bytes} are in use)\n"
                "a program that trusts this file can raise max_metadata of ckpt_limits, see libckpt(3)",
                arena_used(f->a));
}

ckpt_status file_check_unchanged(ckpt_file *f, ckpt_error *err)
{
    ckpt_status st = f->src ? source_check_unchanged(f->src, err) : CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < f->nparts; i++)
        if (f->parts[i]->src)
            st = name_file_if_failed(source_check_unchanged(f->parts[i]->src, err), f->parts[i]->path, err);
    for (size_t i = 0; st == CKPT_OK && i < f->nothers; i++) /* these have no others */
        st = name_file_if_failed(file_check_unchanged(f->others[i], err), f->others[i]->path, err);
    return st;
}

ckpt_status file_status_after_read(ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    ckpt_error local_error;
    if (st == CKPT_OK)
        return file_check_unchanged(f, err);
    bool is_about_content = st == CKPT_EFORMAT || st == CKPT_ETRUNCATED || st == CKPT_ECHECKSUM ||
                            st == CKPT_EUNSUPPORTED;
    if (!is_about_content || file_check_unchanged(f, &local_error) != CKPT_ECHANGED)
        return st;
    if (err)
        *err = local_error;
    return CKPT_ECHANGED;
}

uint64_t file_max_unpacked(const ckpt_file *f, uint64_t packed)
{
    uint64_t hundredfold = size_mul(packed, 100), at_least = 1024 * MIB;
    return f->limits.max_expanded ? f->limits.max_expanded : hundredfold > at_least ? hundredfold : at_least;
}

void file_raise_budget(ckpt_file *f, uint64_t metadata_bytes)
{
    struct source_watch *watch = f->opening ? f->opening->watch : NULL;
    if (watch && !watch->reads_all)
        source_watch_add(watch, metadata_bytes);
    uint64_t budget = metadata_bytes < f->limits.max_header ? metadata_bytes : f->limits.max_header;
    if (!f->limits.max_metadata && checked_mul(budget, 16, &budget) && checked_add(budget, 64 * MIB, &budget))
        arena_raise_max(f->a, budget);
}

void file_notice(void *file, const char *fmt, ...)
{
    ckpt_file *f = file;
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&f->lock);
    notices_add_v(&f->notices, fmt, args);
    pthread_mutex_unlock(&f->lock);
    va_end(args);
}

void file_note_loss(ckpt_file *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&f->lock);
    notices_add_v(&f->notices, fmt, args);
    f->losses.parts++;
    pthread_mutex_unlock(&f->lock);
    va_end(args);
}

const char *ckpt_notice_at(const ckpt_file *file, size_t index)
{
    ckpt_file *f = (ckpt_file *)(uintptr_t)file; /* only its lock changes */
    if (!f)
        return NULL;
    pthread_mutex_lock(&f->lock);
    const char *text = notices_at(&f->notices, index);
    pthread_mutex_unlock(&f->lock);
    return text;
}

ckpt_status file_add_leaf(ckpt_file *f, const ckpt_path_elem *path, uint32_t count, const ckpt_value *value,
                          ckpt_error *err)
{
    if (f->nleaves >= f->limits.max_tensors)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%llu values}",
                    (unsigned long long)f->limits.max_tensors);
    const ckpt_leaf leaf = {
        .name = path_join(f->a, path, count), .path = path, .npath = count, .value = value};
    return leaf.name.ptr && ARENA_PUSH(f->a, f, leaves, &leaf) ? CKPT_OK : fail_memory(err);
}

static bool needs_protocol_3(const struct pickle_facts *facts)
{
    for (size_t i = 0; i < facts->nglobals; i++) {
        ckpt_str module = value_module(facts->globals[i]), name = value_name(facts->globals[i]);
        if ((facts->globals[i]->flags & VALUE_PYTHON3_NAME) && python2_translate(&module, &name))
            return true;
    }
    return false;
}

bool file_needs_protocol_3(const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        if (needs_protocol_3(f->pickles[i]))
            return true;
    for (size_t k = 0; k < f->nparts; k++)
        for (size_t i = 0; i < f->parts[k]->npickles; i++)
            if (needs_protocol_3(f->parts[k]->pickles[i]))
                return true;
    return false;
}

struct pickle_facts *file_add_pickle(ckpt_file *f, ckpt_str record)
{
    struct pickle_facts *p = ARENA_NEW(f->a, struct pickle_facts);
    if (!p || !ARENA_PUSH(f->a, f, pickles, &p))
        return NULL;
    p->record = record;
    p->protocol = -1;
    for (int i = 0; i < 256; i++)
        p->first_use[i] = UINT64_MAX;
    return p;
}

ckpt_status file_add_pickles_of(ckpt_file *f, const ckpt_file *from, ckpt_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < from->npickles; i++)
        ok = ARENA_PUSH(f->a, f, pickles, &from->pickles[i]);
    return ok ? CKPT_OK : fail_memory(err);
}

const ckpt_value *file_find_replacement(const ckpt_file *f, const ckpt_value *value)
{
    if (value->flags & VALUE_WRAPS)
        value = view_content(value);
    if (!f->replacements.n)
        return value;
    uint32_t i = map_get_num(f->replacements.index_of, ptr_key(value));
    return i == MAP_NONE ? value : f->replacements.items[i].by;
}

bool file_set_replacement(ckpt_file *f, const ckpt_value *value, ckpt_value *by)
{
    struct replacements *all = &f->replacements;
    const struct replacement one = {.of = value, .by = by};
    return arena_push(f->a, &all->items, &all->n, &all->cap, &one, sizeof one) &&
           map_set_num(all->index_of, ptr_key(value), (uint32_t)all->n - 1);
}

bool file_add_replacements_of(ckpt_file *f, const ckpt_file *part)
{
    for (size_t i = 0; i < part->replacements.n; i++)
        if (!file_set_replacement(f, part->replacements.items[i].of, part->replacements.items[i].by))
            return false;
    return true;
}

static ckpt_str get_storage_key(const void *user, uint32_t index)
{
    const ckpt_file *f = user;
    return f->table.storages[index].key;
}

map *file_index_storage_keys(ckpt_file *f)
{
    struct storage_index *index = &f->storages;
    bool ok = true;
    if (!index->by_key)
        index->by_key = map_new_index(f->table.nstorages, get_storage_key, f);
    for (; index->by_key && ok && index->nindexed < f->table.nstorages; index->nindexed += ok) {
        const struct storage *s = &f->table.storages[index->nindexed];
        ok = !s->in_key_index || map_put(index->by_key, s->key, (uint32_t)index->nindexed, NULL);
    }
    return ok ? index->by_key : NULL;
}

/* comes_after - returns true if KEY comes after OTHER as numbers do: "10" after "9". */
static bool comes_after(ckpt_str key, ckpt_str other)
{
    return key.len != other.len ? key.len > other.len : str_compare(key, other) > 0;
}

static bool is_storage_of_key(const ckpt_file *f, uint32_t index, ckpt_str key)
{
    const struct storage *s = index < f->table.nstorages ? &f->table.storages[index] : NULL;
    return s && s->in_key_index && str_eq(s->key, key);
}

/* Storages are usually numbered, so a key that comes after all others is new. One that is not is usually that
 * of the last storage found, or of the next one: the index is rarely needed. */
ckpt_status file_storage_find(ckpt_file *f, ckpt_str key, uint32_t *index, ckpt_error *err)
{
    *index = CKPT_NO_STORAGE;
    if (comes_after(key, f->storages.last_key))
        return CKPT_OK;
    uint32_t last = f->storages.last_found, guess = is_storage_of_key(f, last, key) ? last : last + 1;
    if (is_storage_of_key(f, guess, key)) {
        *index = f->storages.last_found = guess;
        return CKPT_OK;
    }
    const map *keys = file_index_storage_keys(f);
    CKPT_TRY_ALLOC(keys, err);
    *index = map_get(keys, key); /* MAP_NONE is CKPT_NO_STORAGE */
    f->storages.last_found = *index == CKPT_NO_STORAGE ? last : *index;
    return CKPT_OK;
}

ckpt_status file_storage_add(ckpt_file *f, struct storage *storage, uint32_t *index, ckpt_error *err)
{
    storage->in_key_index = true;
    CKPT_TRY(table_add_storage(&f->table, storage, index, err));
    if (comes_after(storage->key, f->storages.last_key))
        f->storages.last_key = storage->key;
    return CKPT_OK;
}

uint32_t file_storage_held_by(const ckpt_file *f, const ckpt_value *value)
{
    /* MAP_NONE is CKPT_NO_STORAGE */
    return f->storages.by_node ? map_get_num(f->storages.by_node, ptr_key(value)) : CKPT_NO_STORAGE;
}

static ckpt_str get_row_name(const void *user, uint32_t index)
{
    const ckpt_file *f = user;
    return table_name(&f->table, index);
}

/* index_names - does what file_index_names does; the caller holds the lock. */
static bool index_names(ckpt_file *f)
{
    if (f->names)
        return true;
    f->names = map_new_index(f->table.nrows, get_row_name, f);
    bool ok = f->names != NULL;
    for (uint32_t i = 0; ok && i < f->table.nrows; i++)
        ok = map_put(f->names, table_name(&f->table, i), i, NULL);
    if (!ok) {
        map_free(f->names);
        f->names = NULL;
    }
    return ok;
}

bool file_index_names(ckpt_file *f)
{
    pthread_mutex_lock(&f->lock);
    bool ok = index_names(f);
    pthread_mutex_unlock(&f->lock);
    return ok;
}

uint32_t file_find_tensor(ckpt_file *f, ckpt_str name)
{
    return file_index_names(f) ? map_get(f->names, name) : CKPT_NO_TENSOR;
}

size_t file_count_common(ckpt_str name, ckpt_str other)
{
    size_t n = 0;
    while (name.len) {
        ckpt_str component = str_take_until(&name, '.');
        for (ckpt_str rest = other; rest.len;)
            n += str_eq(str_take_until(&rest, '.'), component);
    }
    return n;
}

ckpt_str file_find_nearest(const ckpt_file *f, ckpt_str name)
{
    ckpt_str nearest = str_of("", 0);
    size_t most = 0;
    for (size_t i = 0; i < f->table.nrows; i++) {
        const ckpt_str other = table_name(&f->table, i);
        size_t common = file_count_common(other, name);
        if (common > most) {
            most = common;
            nearest = other;
        }
    }
    return nearest;
}
