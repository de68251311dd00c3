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

/* report_fault - if ST is a fault in a file that is being checked or salvaged, sets t->incomplete and returns
 * CKPT_OK, so that reading continues; when checking, also reports the fault. Else returns ST. */
static ckpt_status report_fault(struct tar_file *t, ckpt_status st)
{
    t->incomplete |= (t->f->check || t->f->salvage) && check_is_fault(st);
    return t->f->salvage && check_is_fault(st) ? CKPT_OK : file_report_fault(t->f, st, t->err);
}

const struct tar_entry *torch_tar_find(const struct tar_entry *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        ckpt_str m = list[i].name;
        if (str_starts(m, STR_LIT("./")))
            m = str_skip(m, 2);
        if (str_is(m, name) && (list[i].type == '0' || list[i].type == 0)) /* a regular file */
            return &list[i];
    }
    return NULL;
}

static bool probe_tar(const struct probe *p)
{
    ckpt_error ignored;
    struct tar_entry *list;
    size_t n;
    if (!recognize_as(p, SIGN_TAR))
        return false;
    arena *a = arena_new(UINT64_C(1) << 26);
    ckpt_status st = a ? tar_list(p->src, a, p->salvage, &list, &n, &ignored) : CKPT_ENOMEM;
    bool is_torch = st == CKPT_OK && torch_tar_find(list, n, "pickle") &&
                    (p->salvage ||
                     (torch_tar_find(list, n, "storages") && torch_tar_find(list, n, "tensors")));
    arena_free(a);
    return is_torch;
}

/* get_key_number - sets *OUT to the key V, an int or its decimal text. */
static bool get_key_number(const ckpt_value *v, int64_t *out)
{
    ckpt_str s;
    uint64_t n;
    if (value_integer(v, out))
        return true;
    if (!value_text(v, &s) || !str_uint(s, &n) || n > INT64_MAX)
        return false;
    *out = (int64_t)n;
    return true;
}

ckpt_status torch_tar_read_numbers(source *src, const ckpt_value *v, bool is_tensor, uint64_t pos,
                                   struct torch_tar_numbers *out, ckpt_error *err)
{
    unsigned char count_bytes[8]; /* the last 4 are unused for a tensor */
    int64_t key = -1;
    ckpt_dtype dtype = is_tensor ? CKPT_DT_I64 : dtype_by_storage(value_name(value_item(v, 2)));
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
    (void)get_key_number(value_item(v, 0), &key);
    return fail(err, CKPT_ETRUNCATED, source_pos(src, out->offset),
                "%s %lld needs {=%llu numbers}, the member has {%llu bytes} left",
                is_tensor ? "tensor" : "storage", (long long)key, (unsigned long long)n,
                (unsigned long long)(src->size - out->offset));
}

static ckpt_status add_object(struct tar_file *t, int64_t key, const struct tar_object *o)
{
    uint32_t old_index;
    CKPT_TRY_ALLOC(map_put_num(t->object_of_key, (uint64_t)key, (uint32_t)t->nobjects, &old_index) &&
                       ARENA_PUSH(t->f->a, t, objects, o),
                   t->err);
    if (old_index != MAP_NONE)
        return fail(t->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "key %lld comes {twice}, {=once} is allowed",
                    (long long)key);
    return CKPT_OK;
}

static struct tar_object *find_object(struct tar_file *t, const ckpt_value *key)
{
    int64_t k;
    uint32_t i = get_key_number(key, &k) ? map_get_num(t->object_of_key, (uint64_t)k) : MAP_NONE;
    return i == MAP_NONE ? NULL : &t->objects[i];
}

static ckpt_status read_next_pickle(struct tar_file *t, source *s, uint64_t *pos, ckpt_value **out)
{
    return pickle_read(t->f->a, s, *pos, s->size, NULL, out, pos, t->err);
}

/* fail_entry_format - fails with the message "MUST_BE {=EXPECTED}, found {V}". */
static ckpt_status fail_entry_format(struct tar_file *t, source *s, const ckpt_value *v, const char *must_be,
                                     const char *expected)
{
    char text[200];
    value_text_or_type(v, 8, text, sizeof text);
    return fail(t->err, CKPT_EFORMAT, source_pos(s, value_offset(v)), "%s {=%s}, found {%s}", must_be,
                expected, text);
}

/* read_count - reads the pickle that a member begins with, and sets *N to it: the number of entries. */
static ckpt_status read_count(struct tar_file *t, source *s, uint64_t *pos, uint64_t *n)
{
    ckpt_value *v;
    CKPT_TRY(read_next_pickle(t, s, pos, &v));
    return value_size(v, n) && *n <= s->size
               ? CKPT_OK
               : fail_entry_format(t, s, v, "a member must begin with", "the number of its entries");
}

/* add_keyed_lost_storage - when salvaging, adds S under KEY as lost because of t->err. Even then returns the
 * status of t->err, or a new error. */
static ckpt_status add_keyed_lost_storage(struct tar_file *t, int64_t key, uint64_t numel, struct storage *s)
{
    struct tar_object o = {.numel = numel};
    ckpt_status st = t->err->status;
    if (!t->f->salvage)
        return st;
    ckpt_error why = *t->err;
    s->off = 0;
    s->key = arena_printf(t->f->a, "%lld", (long long)key);
    CKPT_TRY(s->key.ptr ? CKPT_OK : fail_memory(t->err));
    CKPT_TRY(table_set_lost(&t->f->table, s, &why, t->err));
    CKPT_TRY(table_add_storage(&t->f->table, s, &o.storage, t->err));
    CKPT_TRY(add_object(t, key, &o));
    *t->err = why;
    return st;
}

static ckpt_status read_storage(struct tar_file *t, source *s, uint64_t *pos)
{
    ckpt_value *v;
    int64_t key;
    struct torch_tar_numbers n;
    struct storage storage = {0};
    struct tar_object o = {0};
    ckpt_str location = str_of("", 0);
    CKPT_TRY(read_next_pickle(t, s, pos, &v));
    if (!get_key_number(value_item(v, 0), &key) ||
        (storage.dtype = (uint8_t)dtype_by_storage(value_name(value_item(v, 2)))) == CKPT_DT_NONE)
        return fail_entry_format(t, s, v, "a storage must be", "(key, location, class)");
    (void)value_text(value_item(v, 1), &location);
    ckpt_status st = torch_tar_read_numbers(s, v, false, *pos, &n, t->err);
    if (!table_set_location(&t->f->table, &storage, location))
        return fail_memory(t->err);
    if (st != CKPT_OK) /* n.offset is 0 if not even the count could be read */
        return n.offset ? add_keyed_lost_storage(t, key, n.count, &storage) : st;
    storage.off = n.offset;
    storage.nbytes = n.nbytes;
    *pos = n.offset + n.nbytes;
    storage.key = arena_printf(t->f->a, "%lld", (long long)key);
    CKPT_TRY(storage.key.ptr ? CKPT_OK : fail_memory(t->err));
    storage.src = source_ref(s);
    o.numel = n.count;
    CKPT_TRY(table_add_storage(&t->f->table, &storage, &o.storage, t->err));
    return add_object(t, key, &o);
}

static ckpt_status read_storage_view(struct tar_file *t, source *s, const ckpt_value *v)
{
    int64_t key, offset, numel;
    const struct tar_object *root = find_object(t, value_item(v, 1));
    if (!root && t->incomplete)
        return CKPT_OK;
    if (!get_key_number(value_item(v, 0), &key) || !root || !get_key_number(value_item(v, 2), &offset) ||
        !get_key_number(value_item(v, 3), &numel) || offset < 0 || numel < 0 ||
        !range_within((uint64_t)offset, (uint64_t)numel, root->numel))
        return fail_entry_format(t, s, v, "a storage view must be",
                                 "(key, root, offset, elements) inside its root");
    struct tar_object o = {.storage = root->storage, .numel = (uint64_t)numel};
    o.offset = root->offset + (uint64_t)offset;
    return add_object(t, key, &o);
}

static ckpt_status read_storages(struct tar_file *t, source *s)
{
    uint64_t pos = 0, n;
    ckpt_value *views;
    CKPT_TRY(read_count(t, s, &pos, &n));
    for (uint64_t i = 0; i < n; i++)
        CKPT_TRY(read_storage(t, s, &pos));
    CKPT_TRY(read_next_pickle(t, s, &pos, &views));
    for (uint32_t i = 0; i < value_count(views); i++)
        CKPT_TRY(report_fault(t, read_storage_view(t, s, value_item(views, i))));
    return CKPT_OK;
}

static ckpt_status read_dims(struct tar_file *t, reader *r, uint32_t n, const uint64_t **out)
{
    uint64_t *d = arena_array(t->f->a, n, sizeof *d);
    CKPT_TRY_ALLOC(d, t->err);
    for (uint32_t i = 0; i < n; i++) {
        d[i] = reader_u64(r);
        if (d[i] > INT64_MAX)
            return fail(t->err, CKPT_EFORMAT, source_pos(r->src, r->pos - 8),
                        "a size or stride must be {=0 or more}, found {%lld}", (long long)d[i]);
    }
    *out = d;
    return r->status;
}

/* read_geometry - reads sizes, strides and storage offset of the tensor ENTRY, whose pickle ends at *POS. */
static ckpt_status read_geometry(struct tar_file *t, source *s, const ckpt_value *entry, uint64_t *pos,
                                 struct tar_object *o)
{
    reader r;
    struct torch_tar_numbers n;
    ckpt_tensor *tensor = &o->row.t;
    CKPT_TRY(torch_tar_read_numbers(s, entry, true, *pos, &n, t->err));
    *pos = n.offset + n.nbytes;
    CKPT_TRY(reader_init(&r, s, n.offset, *pos, t->err));
    tensor->ndim = (uint32_t)n.count;
    ckpt_status st = read_dims(t, &r, tensor->ndim, &tensor->shape);
    if (st == CKPT_OK)
        st = read_dims(t, &r, tensor->ndim, &tensor->stride);
    uint64_t offset = st == CKPT_OK ? reader_u64(&r) : 0; /* an error of read_dims is kept */
    if (st == CKPT_OK)
        st = r.status;
    if (st == CKPT_OK && !checked_add(o->offset, offset, &tensor->storage_offset))
        st = fail(t->err, CKPT_EFORMAT, source_pos(s, *pos), "a storage offset is {beyond} {=2^64}");
    reader_free(&r);
    return st;
}

/* add_missing_storage - adds as lost the storage that V names. V is the entry (key, storage key, class) of a
 * tensor. */
static ckpt_status add_missing_storage(struct tar_file *t, const ckpt_value *v)
{
    char name[64];
    int64_t key;
    struct storage s = {0};
    ckpt_str klass = value_name(value_item(v, 2));
    size_t n = str_find(klass, STR_LIT("Tensor"), 0);
    if (!get_key_number(value_item(v, 1), &key) || n > 32) /* no key, or no class of torch */
        return CKPT_OK;
    (void)snprintf(name, sizeof name, "%.*sStorage", (int)n, klass.ptr);
    s.dtype = (uint8_t)dtype_by_storage(str_c(name));
    if (s.dtype == CKPT_DT_NONE)
        return CKPT_OK;
    (void)fail(t->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=storage %lld} is {not in the archive}",
               (long long)key);
    ckpt_status st = add_keyed_lost_storage(t, key, 0, &s);
    return st == CKPT_ETRUNCATED ? CKPT_OK : st;
}

static ckpt_status read_tensor(struct tar_file *t, source *s, uint64_t *pos)
{
    ckpt_value *v;
    int64_t key;
    CKPT_TRY(read_next_pickle(t, s, pos, &v));
    if (t->incomplete && t->f->salvage && !find_object(t, value_item(v, 1)))
        CKPT_TRY(add_missing_storage(t, v));
    const struct tar_object *storage = find_object(t, value_item(v, 1));
    bool is_valid = get_key_number(value_item(v, 0), &key) && storage && !storage->is_tensor;
    struct tar_object o = {.is_tensor = true};
    if (is_valid) {
        o.storage = storage->storage;
        o.offset = storage->offset;
    }
    CKPT_TRY(read_geometry(t, s, v, pos, &o));
    if (!is_valid && !storage && t->incomplete)
        return CKPT_OK;
    if (!is_valid) /* the entries that follow can still be read */
        return report_fault(t, fail_entry_format(t, s, v, "a tensor must be", "(key, storage key, class)"));
    o.row.t.storage = o.storage;
    o.row.t.part_of = CKPT_NO_TENSOR;
    o.row.t.dtype = (uint16_t)t->f->table.storages[o.storage].dtype;
    o.row.t.location = storage_location(&t->f->table.storages[o.storage]);
    o.row.t.has_shape = true;
    o.row.t.has_data = t->f->table.storages[o.storage].src != NULL;
    return add_object(t, key, &o);
}

static ckpt_status read_tensors(struct tar_file *t, source *s)
{
    uint64_t pos = 0, n;
    CKPT_TRY(read_count(t, s, &pos, &n));
    for (uint64_t i = 0; i < n; i++)
        CKPT_TRY(read_tensor(t, s, &pos));
    return CKPT_OK;
}

/* add_unnamed_lost_storage - adds a lost storage without a key as *INDEX. WHY and AT describe the loss. */
static void add_unnamed_lost_storage(struct tar_file *t, const char *why, uint64_t at, uint32_t *index)
{
    struct storage_extra lost = {.lost_why = why, .lost_at = at};
    *index = CKPT_NO_STORAGE;
    t->out_of_memory |= table_add_lost(&t->f->table, lost, index, t->err) != CKPT_OK;
}

/* describe_lost_object - when salvaging, sets ROW for the key V of an object whose description is lost. */
static bool describe_lost_object(struct tar_file *t, const ckpt_value *v, struct row *row)
{
    int64_t key;
    if (!t->f->salvage || !t->incomplete || !get_key_number(v, &key))
        return false;
    if (!t->has_lost_storage)
        add_unnamed_lost_storage(t, "its description is not in the archive", CKPT_NO_OFFSET,
                                 &t->lost_storage);
    t->has_lost_storage = true;
    row->t.kind = CKPT_UNINITIALIZED;
    row->t.storage = t->lost_storage;
    return true;
}

/* mark_oversized_row_lost - when salvaging, makes ROW lost if it extends beyond its storage, because then
 * a size is damaged. */
static void mark_oversized_row_lost(struct tar_file *t, struct row *row)
{
    uint64_t end, end_byte;
    const struct storage *s = &t->f->table.storages[row->t.storage];
    if (!t->f->salvage || !row->t.has_data)
        return;
    if (tensor_view_end(&row->t, &end) && dtype_bytes((ckpt_dtype)row->t.dtype, end, &end_byte) &&
        end_byte <= s->nbytes)
        return;
    add_unnamed_lost_storage(t, "it reaches beyond the end of its storage", storage_file_offset(s),
                             &row->t.storage);
    row->t.has_data = false;
}

/* describe_object - sets ROW for the tensor or storage of key V; the callback describe_node. */
static bool describe_object(void *user, const ckpt_value *v, struct row *row)
{
    struct tar_file *t = user;
    const struct tar_object *o = find_object(t, v);
    if (!o)
        return describe_lost_object(t, v, row);
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

static ckpt_status fail_newer_format(void *user, const struct torch_pid *pid, struct storage *s,
                                     ckpt_error *err)
{
    (void)user;
    (void)s;
    return fail(
        err, CKPT_EFORMAT, CKPT_NO_OFFSET,
        "the persistent id is {of a later format (\"%.*s\")}, it must be {=a number} in a tar archive",
        STR_ARG(pid->key));
}

static ckpt_status read_member(struct tar_file *t, const struct tar_entry *e, const char *name,
                               ckpt_status (*read)(struct tar_file *, source *))
{
    source *s = NULL;
    if (!e)
        return fail(t->err, CKPT_EFORMAT, 0, "the tar archive has {no} member {=\"%s\"}", name);
    CKPT_TRY(source_slice(t->f->src, e->data, e->size, &s, t->err));
    ckpt_status st = read(t, s);
    if (st != CKPT_OK) {
        error_add_where(t->err, "%s", name);
        error_add_position(t->err, e->data, str_of("", 0));
    }
    source_unref(s);
    return st;
}

/* check_persistent_ids - fails if a persistent id of the object is a number, but no key of a storage or
 * tensor. */
static ckpt_status check_persistent_ids(struct tar_file *t, const struct pickle_facts *facts, source *s)
{
    for (size_t i = 0; i < facts->npersids; i++) {
        int64_t key;
        const ckpt_value *v = facts->persids[i];
        if (get_key_number(v->u.pid, &key) && !find_object(t, v->u.pid))
            return fail(t->err, CKPT_EFORMAT, source_pos(s, value_offset(v)),
                        "a persistent id is {%lld}, it must be {=the key of a storage or tensor}",
                        (long long)key);
    }
    return CKPT_OK;
}

static ckpt_status read_object(struct tar_file *t, source *s)
{
    uint64_t next;
    struct pickle_facts *facts = file_add_pickle(t->f, STR_LIT("pickle"));
    struct graph_input input = {.user = t,
                                .find_storage = fail_newer_format,
                                .describe_node = describe_object,
                                .pickle = s,
                                .pickle_name = STR_LIT("pickle")};
    CKPT_TRY_ALLOC(facts, t->err);
    CKPT_TRY(pickle_read(t->f->a, s, 0, s->size, facts, &t->f->root, &next, t->err));
    if (!t->incomplete) /* else persistent ids may name lost objects */
        CKPT_TRY(check_persistent_ids(t, facts, s));
    CKPT_TRY(graph_walk(t->f, t->f->root, &input, t->err));
    return t->out_of_memory ? fail_memory(t->err) : CKPT_OK;
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
