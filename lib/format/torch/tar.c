/*
 * tar.c - reads the tar archives of torch 0.1.1 to 0.1.9. Members, in any order:
 *
 *   storages  pickle n; n x { pickle (key, location, class); i64 elements; bytes };
 *             pickle [(view key, root key, offset, elements), …]
 *   tensors   pickle n; n x { pickle (key, storage key, class); i32 ndim; 4 unused
 *             bytes; i64 size[ndim]; i64 stride[ndim]; i64 storage offset }
 *   pickle    the object; a persistent id is the key of a tensor or storage, an
 *             int or its decimal text
 *   sys_info  ignored
 *
 * Numbers are little-endian. There are no checksums. If a file is cut or damaged at some byte, the storages
 * before that byte are intact. Source: torch/serialization.py, legacy_load inside _legacy_load.
 */
#include <stdio.h>

#include "codec/pickle_read.h"
#include "core/check.h"
#include "format/graph/persistent_id.h"
#include "format/graph/walk.h"
#include "format/recognize.h"
#include "format/torch/tar.h"
#include "io/reader.h"

struct tar_object {
    bool is_tensor;   /* false: a storage or a view of one */
    uint32_t storage; /* index in the table */
    uint64_t offset;  /* element of that storage where it begins; in a tensor: where its view begins */
    uint64_t numel;   /* unset in a tensor */
    struct row row;   /* set only in a tensor */
};

struct tar_file {
    ckpt_file *f;
    map *object_of_key; /* key -> index into objects */
    struct tar_object *objects;
    size_t nobjects, cap_objects;
    bool incomplete;       /* a fault was reported or skipped: some objects may be missing */
    bool out_of_memory;    /* describe_object ran out of memory */
    bool has_lost_storage; /* lost_storage is set */
    uint32_t lost_storage; /* when salvaging: the storage of all tensors that the archive does not describe */
    ckpt_error *err;
};

/* report_fault - if ST is a fault in a file that is being checked or salvaged, sets tar->incomplete and
 * returns CKPT_OK, so that reading continues; when checking, also reports the fault. Else returns ST. */
static ckpt_status report_fault(struct tar_file *tar, ckpt_status st)
{
    tar->incomplete |= (tar->f->check || tar->f->salvage) && check_is_fault(st);
    return tar->f->salvage && check_is_fault(st) ? CKPT_OK : file_report_fault(tar->f, st, tar->err);
}

const struct tar_entry *torch_tar_find(const struct tar_entry *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        ckpt_str m = list[i].name;
        if (str_starts(m, STR_LIT("./")))
            m = str_skip(m, 2);
        if (str_is(m, name) && (list[i].type == '0' || list[i].type == 0)) /* a regular file */
            return &list[i];
    }
    return NULL;
}

static bool probe_tar(const struct probe *probe)
{
    ckpt_error ignored;
    struct tar_entry *list;
    size_t n;
    if (!recognize_as(probe, SIGN_TAR))
        return false;
    arena *a = arena_new(UINT64_C(1) << 26);
    ckpt_status st = a ? tar_list(probe->src, a, probe->salvage, &list, &n, &ignored) : CKPT_ENOMEM;
    bool is_torch = st == CKPT_OK && torch_tar_find(list, n, "pickle") &&
                    (probe->salvage ||
                     (torch_tar_find(list, n, "storages") && torch_tar_find(list, n, "tensors")));
    arena_free(a);
    return is_torch;
}

/* get_key_number - sets *OUT to the key VALUE, an int or its decimal text. */
static bool get_key_number(const ckpt_value *value, int64_t *out)
{
    ckpt_str s;
    uint64_t n;
    if (value_integer(value, out))
        return true;
    if (!value_text(value, &s) || !str_uint(s, &n) || n > INT64_MAX)
        return false;
    *out = (int64_t)n;
    return true;
}

ckpt_status torch_tar_read_numbers(source *src, const ckpt_value *value, bool is_tensor, uint64_t pos,
                                   struct torch_tar_numbers *out, ckpt_error *err)
{
    unsigned char count_bytes[8]; /* the last 4 are unused for a tensor */
    int64_t key = -1;
    ckpt_dtype dtype = is_tensor ? CKPT_DT_I64 : dtype_by_storage(value_name(value_item(value, 2)));
    *out = (struct torch_tar_numbers){0};
    CKPT_TRY(source_read(src, pos, count_bytes, sizeof count_bytes, err));
    out->count = is_tensor ? load_u32le(count_bytes) : load_u64le(count_bytes);
    out->offset = pos + sizeof count_bytes;
    uint64_t n = is_tensor ? 2 * out->count + 1 : out->count;
    uint64_t end;
    bool is_size_known = dtype != CKPT_DT_NONE && dtype_bytes(dtype, n, &out->nbytes) &&
                         checked_add(out->offset, out->nbytes, &end);
    if (is_size_known && end <= src->size)
        return CKPT_OK;
    out->nbytes = is_size_known ? out->nbytes : 0;
    (void)get_key_number(value_item(value, 0), &key);
    return fail(err, CKPT_ETRUNCATED, source_pos(src, out->offset),
                "%s %lld needs {=%llu numbers}, the member has {%llu bytes} left",
                is_tensor ? "tensor" : "storage", (long long)key, (unsigned long long)n,
                (unsigned long long)(src->size - out->offset));
}

static ckpt_status add_object(struct tar_file *tar, int64_t key, const struct tar_object *object)
{
    uint32_t old_index;
    CKPT_TRY_ALLOC(map_put_num(tar->object_of_key, (uint64_t)key, (uint32_t)tar->nobjects, &old_index) &&
                       ARENA_PUSH(tar->f->a, tar, objects, object),
                   tar->err);
    if (old_index != MAP_NONE)
        return fail(tar->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "key %lld comes {twice}, {=once} is allowed",
                    (long long)key);
    return CKPT_OK;
}

static struct tar_object *find_object(struct tar_file *tar, const ckpt_value *key)
{
    int64_t k;
    uint32_t i = get_key_number(key, &k) ? map_get_num(tar->object_of_key, (uint64_t)k) : MAP_NONE;
    return i == MAP_NONE ? NULL : &tar->objects[i];
}

static ckpt_status read_next_pickle(struct tar_file *tar, source *src, uint64_t *pos, ckpt_value **out)
{
    return pickle_read(tar->f->a, src, *pos, src->size, NULL, out, pos, tar->err);
}

/* fail_entry_format - fails with the message "MUST_BE {=EXPECTED}, found {V}". */
static ckpt_status fail_entry_format(struct tar_file *tar, source *src, const ckpt_value *value,
                                     const char *must_be, const char *expected)
{
    char text[200];
    value_text_or_type(value, 8, text, sizeof text);
    return fail(tar->err, CKPT_EFORMAT, source_pos(src, value_offset(value)), "%s {=%s}, found {%s}", must_be,
                expected, text);
}

/* read_count - reads the pickle that a member begins with, and sets *COUNT to it: the number of entries. */
static ckpt_status read_count(struct tar_file *tar, source *src, uint64_t *pos, uint64_t *count)
{
    ckpt_value *v;
    CKPT_TRY(read_next_pickle(tar, src, pos, &v));
    return value_size(v, count) && *count <= src->size
               ? CKPT_OK
               : fail_entry_format(tar, src, v, "a member must begin with", "the number of its entries");
}

/* add_keyed_lost_storage - when salvaging, adds STORAGE under KEY as lost because of tar->err. Even then
 * returns the status of tar->err, or a new error. */
static ckpt_status add_keyed_lost_storage(struct tar_file *tar, int64_t key, uint64_t numel,
                                          struct storage *storage)
{
    struct tar_object o = {.numel = numel};
    ckpt_status st = tar->err->status;
    if (!tar->f->salvage)
        return st;
    ckpt_error why = *tar->err;
    storage->off = 0;
    storage->key = arena_printf(tar->f->a, "%lld", (long long)key);
    CKPT_TRY(storage->key.ptr ? CKPT_OK : fail_memory(tar->err));
    CKPT_TRY(table_set_lost(&tar->f->table, storage, &why, tar->err));
    CKPT_TRY(table_add_storage(&tar->f->table, storage, &o.storage, tar->err));
    CKPT_TRY(add_object(tar, key, &o));
    *tar->err = why;
    return st;
}

static ckpt_status read_storage(struct tar_file *tar, source *src, uint64_t *pos)
{
    ckpt_value *v;
    int64_t key;
    struct torch_tar_numbers n;
    struct storage storage = {0};
    struct tar_object o = {0};
    ckpt_str location = str_of("", 0);
    CKPT_TRY(read_next_pickle(tar, src, pos, &v));
    if (!get_key_number(value_item(v, 0), &key) ||
        (storage.dtype = (uint8_t)dtype_by_storage(value_name(value_item(v, 2)))) == CKPT_DT_NONE)
        return fail_entry_format(tar, src, v, "a storage must be", "(key, location, class)");
    (void)value_text(value_item(v, 1), &location);
    ckpt_status st = torch_tar_read_numbers(src, v, false, *pos, &n, tar->err);
    if (!table_set_location(&tar->f->table, &storage, location))
        return fail_memory(tar->err);
    if (st != CKPT_OK) /* n.offset is 0 if not even the count could be read */
        return n.offset ? add_keyed_lost_storage(tar, key, n.count, &storage) : st;
    storage.off = n.offset;
    storage.nbytes = n.nbytes;
    *pos = n.offset + n.nbytes;
    storage.key = arena_printf(tar->f->a, "%lld", (long long)key);
    CKPT_TRY(storage.key.ptr ? CKPT_OK : fail_memory(tar->err));
    storage.src = source_ref(src);
    o.numel = n.count;
    CKPT_TRY(table_add_storage(&tar->f->table, &storage, &o.storage, tar->err));
    return add_object(tar, key, &o);
}

static ckpt_status read_storage_view(struct tar_file *tar, source *src, const ckpt_value *value)
{
    int64_t key, offset, numel;
    const struct tar_object *root = find_object(tar, value_item(value, 1));
    if (!root && tar->incomplete)
        return CKPT_OK;
    if (!get_key_number(value_item(value, 0), &key) || !root ||
        !get_key_number(value_item(value, 2), &offset) || !get_key_number(value_item(value, 3), &numel) ||
        offset < 0 || numel < 0 || !range_within((uint64_t)offset, (uint64_t)numel, root->numel))
        return fail_entry_format(tar, src, value, "a storage view must be",
                                 "(key, root, offset, elements) inside its root");
    struct tar_object o = {.storage = root->storage, .numel = (uint64_t)numel};
    o.offset = root->offset + (uint64_t)offset;
    return add_object(tar, key, &o);
}

static ckpt_status read_storages(struct tar_file *tar, source *src)
{
    uint64_t pos = 0, n;
    ckpt_value *views;
    CKPT_TRY(read_count(tar, src, &pos, &n));
    for (uint64_t i = 0; i < n; i++)
        CKPT_TRY(read_storage(tar, src, &pos));
    CKPT_TRY(read_next_pickle(tar, src, &pos, &views));
    for (uint32_t i = 0; i < value_count(views); i++)
        CKPT_TRY(report_fault(tar, read_storage_view(tar, src, value_item(views, i))));
    return CKPT_OK;
}

static ckpt_status read_dims(struct tar_file *tar, reader *in, uint32_t count, const uint64_t **out)
{
    uint64_t *d = arena_array(tar->f->a, count, sizeof *d);
    CKPT_TRY_ALLOC(d, tar->err);
    for (uint32_t i = 0; i < count; i++) {
        d[i] = reader_u64(in);
        if (d[i] > INT64_MAX)
            return fail(tar->err, CKPT_EFORMAT, source_pos(in->src, in->pos - 8),
                        "a size or stride must be {=0 or more}, found {%lld}", (long long)d[i]);
    }
    *out = d;
    return in->status;
}

/* read_geometry - reads sizes, strides and storage offset of the tensor ENTRY, whose pickle ends at *POS. */
static ckpt_status read_geometry(struct tar_file *tar, source *src, const ckpt_value *entry, uint64_t *pos,
                                 struct tar_object *object)
{
    reader r;
    struct torch_tar_numbers n;
    ckpt_tensor *tensor = &object->row.t;
    CKPT_TRY(torch_tar_read_numbers(src, entry, true, *pos, &n, tar->err));
    *pos = n.offset + n.nbytes;
    CKPT_TRY(reader_init(&r, src, n.offset, *pos, tar->err));
    tensor->ndim = (uint32_t)n.count;
    ckpt_status st = read_dims(tar, &r, tensor->ndim, &tensor->shape);
    if (st == CKPT_OK)
        st = read_dims(tar, &r, tensor->ndim, &tensor->stride);
    uint64_t offset = st == CKPT_OK ? reader_u64(&r) : 0; /* an error of read_dims is kept */
    if (st == CKPT_OK)
        st = r.status;
    if (st == CKPT_OK && !checked_add(object->offset, offset, &tensor->storage_offset))
        st = fail(tar->err, CKPT_EFORMAT, source_pos(src, *pos), "a storage offset is {beyond} {=2^64}");
    reader_free(&r);
    return st;
}

/* add_missing_storage - adds as lost the storage that VALUE names. VALUE is the entry (key, storage key,
 * class) of a tensor. */
static ckpt_status add_missing_storage(struct tar_file *tar, const ckpt_value *value)
{
    char name[64];
    int64_t key;
    struct storage s = {0};
    ckpt_str klass = value_name(value_item(value, 2));
    size_t n = str_find(klass, STR_LIT("Tensor"), 0);
    if (!get_key_number(value_item(value, 1), &key) || n > 32) /* no key, or no class of torch */
        return CKPT_OK;
    (void)snprintf(name, sizeof name, "%.*sStorage", (int)n, klass.ptr);
    s.dtype = (uint8_t)dtype_by_storage(str_c(name));
    if (s.dtype == CKPT_DT_NONE)
        return CKPT_OK;
    (void)fail(tar->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=storage %lld} is {not in the archive}",
               (long long)key);
    ckpt_status st = add_keyed_lost_storage(tar, key, 0, &s);
    return st == CKPT_ETRUNCATED ? CKPT_OK : st;
}

static ckpt_status read_tensor(struct tar_file *tar, source *src, uint64_t *pos)
{
    ckpt_value *v;
    int64_t key;
    CKPT_TRY(read_next_pickle(tar, src, pos, &v));
    if (tar->incomplete && tar->f->salvage && !find_object(tar, value_item(v, 1)))
        CKPT_TRY(add_missing_storage(tar, v));
    const struct tar_object *storage = find_object(tar, value_item(v, 1));
    bool is_valid = get_key_number(value_item(v, 0), &key) && storage && !storage->is_tensor;
    struct tar_object o = {.is_tensor = true};
    if (is_valid) {
        o.storage = storage->storage;
        o.offset = storage->offset;
    }
    CKPT_TRY(read_geometry(tar, src, v, pos, &o));
    if (!is_valid && !storage && tar->incomplete)
        return CKPT_OK;
    if (!is_valid) /* the entries that follow can still be read */
        return report_fault(tar,
                            fail_entry_format(tar, src, v, "a tensor must be", "(key, storage key, class)"));
    o.row.t.storage = o.storage;
    o.row.t.part_of = CKPT_NO_TENSOR;
    o.row.t.dtype = (uint16_t)tar->f->table.storages[o.storage].dtype;
    o.row.t.location = storage_location(&tar->f->table.storages[o.storage]);
    o.row.t.has_shape = true;
    o.row.t.has_data = tar->f->table.storages[o.storage].src != NULL;
    return add_object(tar, key, &o);
}

static ckpt_status read_tensors(struct tar_file *tar, source *src)
{
    uint64_t pos = 0, n;
    CKPT_TRY(read_count(tar, src, &pos, &n));
    for (uint64_t i = 0; i < n; i++)
        CKPT_TRY(read_tensor(tar, src, &pos));
    return CKPT_OK;
}

/* add_unnamed_lost_storage - adds a lost storage without a key as *INDEX. WHY and AT describe the loss. */
static void add_unnamed_lost_storage(struct tar_file *tar, const char *why, uint64_t at, uint32_t *index)
{
    struct storage_extra lost = {.lost_why = why, .lost_at = at};
    *index = CKPT_NO_STORAGE;
    tar->out_of_memory |= table_add_lost(&tar->f->table, lost, index, tar->err) != CKPT_OK;
}

/* describe_lost_object - when salvaging, sets ROW for the key VALUE of an object whose description is
 * lost. */
static bool describe_lost_object(struct tar_file *tar, const ckpt_value *value, struct row *row)
{
    int64_t key;
    if (!tar->f->salvage || !tar->incomplete || !get_key_number(value, &key))
        return false;
    if (!tar->has_lost_storage)
        add_unnamed_lost_storage(tar, "its description is not in the archive", CKPT_NO_OFFSET,
                                 &tar->lost_storage);
    tar->has_lost_storage = true;
    row->t.kind = CKPT_UNINITIALIZED;
    row->t.storage = tar->lost_storage;
    return true;
}

/* mark_oversized_row_lost - when salvaging, makes ROW lost if it extends beyond its storage, because then
 * a size is damaged. */
static void mark_oversized_row_lost(struct tar_file *tar, struct row *row)
{
    uint64_t end, end_byte;
    const struct storage *s = &tar->f->table.storages[row->t.storage];
    if (!tar->f->salvage || !row->t.has_data)
        return;
    if (tensor_view_end(&row->t, &end) && dtype_bytes((ckpt_dtype)row->t.dtype, end, &end_byte) &&
        end_byte <= s->nbytes)
        return;
    add_unnamed_lost_storage(tar, "it reaches beyond the end of its storage", storage_file_offset(s),
                             &row->t.storage);
    row->t.has_data = false;
}

/* describe_object - sets ROW for the tensor or storage of key VALUE; the callback describe_node. */
static bool describe_object(void *user, const ckpt_value *value, struct row *row)
{
    struct tar_file *t = user;
    const struct tar_object *o = find_object(t, value);
    if (!o)
        return describe_lost_object(t, value, row);
    const ckpt_value *node = row->t.value; /* kept, because *ROW is replaced */
    if (o->is_tensor) {
        *row = o->row;
        mark_oversized_row_lost(t, row);
    } else {
        row->t.kind = CKPT_STORAGE;
        row->t.dtype = (uint16_t)t->f->table.storages[o->storage].dtype;
        row->t.ndim = 1;
        row->t.shape = &o->numel; /* in the arena */
        row->t.has_shape = true;
        row->t.has_data = t->f->table.storages[o->storage].src != NULL;
        row->t.storage = o->storage;
        row->t.storage_offset = o->offset;
    }
    row->t.value = node;
    return true;
}

static ckpt_status fail_newer_format(void *user, const struct torch_pid *pid, struct storage *storage,
                                     ckpt_error *err)
{
    (void)user;
    (void)storage;
    return fail(
        err, CKPT_EFORMAT, CKPT_NO_OFFSET,
        "the persistent id is {of a later format (\"%.*s\")}, it must be {=a number} in a tar archive",
        STR_ARG(pid->key));
}

static ckpt_status read_member(struct tar_file *tar, const struct tar_entry *entry, const char *name,
                               ckpt_status (*read)(struct tar_file *, source *))
{
    source *s = NULL;
    if (!entry)
        return fail(tar->err, CKPT_EFORMAT, 0, "the tar archive has {no} member {=\"%s\"}", name);
    CKPT_TRY(source_slice(tar->f->src, entry->data, entry->size, &s, tar->err));
    ckpt_status st = read(tar, s);
    if (st != CKPT_OK) {
        error_add_where(tar->err, "%s", name);
        error_add_position(tar->err, entry->data, str_of("", 0));
    }
    source_unref(s);
    return st;
}

/* check_persistent_ids - fails if a persistent id of the object is a number, but no key of a storage or
 * tensor. */
static ckpt_status check_persistent_ids(struct tar_file *tar, const struct pickle_facts *facts, source *src)
{
    for (size_t i = 0; i < facts->npersids; i++) {
        int64_t key;
        const ckpt_value *v = facts->persids[i];
        if (get_key_number(v->u.pid, &key) && !find_object(tar, v->u.pid))
            return fail(tar->err, CKPT_EFORMAT, source_pos(src, value_offset(v)),
                        "a persistent id is {%lld}, it must be {=the key of a storage or tensor}",
                        (long long)key);
    }
    return CKPT_OK;
}

static ckpt_status read_object(struct tar_file *tar, source *src)
{
    uint64_t next;
    struct pickle_facts *facts = file_add_pickle(tar->f, STR_LIT("pickle"));
    struct graph_input input = {.user = tar,
                                .find_storage = fail_newer_format,
                                .describe_node = describe_object,
                                .pickle = src,
                                .pickle_name = STR_LIT("pickle")};
    CKPT_TRY_ALLOC(facts, tar->err);
    CKPT_TRY(pickle_read(tar->f->a, src, 0, src->size, facts, &tar->f->root, &next, tar->err));
    if (!tar->incomplete) /* else persistent ids may name lost objects */
        CKPT_TRY(check_persistent_ids(tar, facts, src));
    CKPT_TRY(graph_walk(tar->f, tar->f->root, &input, tar->err));
    return tar->out_of_memory ? fail_memory(tar->err) : CKPT_OK;
}

static ckpt_status read_tar(ckpt_file *f, ckpt_error *err)
{
    struct tar_entry *list;
    size_t n;
    struct tar_file t = {.f = f, .err = err, .object_of_key = map_new(64)};
    ckpt_status st = t.object_of_key ? tar_list(f->src, f->a, f->salvage, &list, &n, err) : fail_memory(err);
    file_raise_budget(f, f->src->size);
    if (st == CKPT_OK)
        st = report_fault(&t,
                          read_member(&t, torch_tar_find(list, n, "storages"), "storages", read_storages));
    if (st == CKPT_OK)
        st = report_fault(&t, read_member(&t, torch_tar_find(list, n, "tensors"), "tensors", read_tensors));
    if (st == CKPT_OK)
        st = read_member(&t, torch_tar_find(list, n, "pickle"), "pickle", read_object);
    map_free(t.object_of_key);
    f->loading.by = "torch.load";
    f->loading.refusal = STR_LIT("the tar format of torch 0.1 needs weights_only=False");
    f->producer = STR_LIT("torch 0.1.1 to 0.1.9");
    return st;
}

const struct format format_torch_tar = {
    .name = "torch-tar",
    .title = "torch tar",
    .probe = probe_tar,
    .read = read_tar,
};
