/* table.h - the table of a file: its tensors as rows, and their storages. */
#pragma once

#include "base/arena.h"
#include "base/crc32.h"
#include "base/map.h"
#include "core/value.h"
#include "io/source.h"

/* One step of a tensor's path in the graph: the entry INDEX of NODE (pair of a mapping, item of a sequence).
 * A plan edits the name of that entry. */
struct step {
    const ckpt_value *node; /* NULL: nothing editable (attribute of an object) */
    uint32_t index;
};

/* A row as it is read and added; table.c stores it in less space. */
struct row {
    ckpt_tensor t;            /* as in the public interface */
    const struct step *steps; /* t.npath of them; NULL: none is editable */
};

/* What few rows have: a row without it has none of these. */
struct row_extra {
    const uint64_t *stride; /* NULL: row-major */
    uint64_t storage_offset;
    uint64_t nbytes; /* unless dtype and shape say it */
    const char *dtype_name;
    ckpt_str klass, location, note;
    uint32_t part_of;
};

/* Sizes that any number of rows share. */
struct shape {
    uint64_t elements;
    uint32_t ndim;
    uint64_t size[];
};

/* A path of several elements, and its steps (NULL: none). */
struct deep_path {
    const struct step *steps;
    ckpt_path_elem path[];
};

/* A row as it is stored. Files have a hundred thousand of them: what few rows have is kept apart. */
struct packed_row {
    ckpt_path_elem own;           /* the path, if it has one element; own.str is the name in any case */
    struct step own_step;         /* the step, if the path has one element */
    const struct deep_path *deep; /* if the path has more elements; else NULL */
    const ckpt_value *value;
    const struct row_extra *extra; /* or NULL */
    uint32_t npath;
    uint32_t shape; /* index into the shapes of the table */
    uint32_t storage, alias_of;
    uint8_t dtype, kind;
    uint8_t has_shape, has_data, has_steps, requires_grad, parameter;
    bool conj : 1, neg : 1;
};

_Static_assert(sizeof(struct packed_row) <= 96, "files have a hundred thousand rows");

/* What few storages have, or many have in common. */
struct storage_extra {
    ckpt_str file;        /* name of its shard, or empty */
    ckpt_str location;    /* as in ckpt_storage */
    const char *lost_why; /* salvage: why its bytes are lost (src is NULL then), or NULL */
    uint64_t lost_at;     /* offset of the damage in the file, or CKPT_NO_OFFSET */
};

struct storage {
    uint64_t nbytes;
    ckpt_str key; /* as in ckpt_storage */
    source *src;  /* the storage is [off, off + nbytes) of it; owned reference; NULL: no bytes (meta, lost) */
    uint64_t off;
    const struct storage_extra *extra; /* or NULL */
    uint32_t crc;                      /* valid if has_crc */
    uint32_t output_number;            /* while a file is written: 1 + its number there; 0: none yet */
    uint8_t dtype;                     /* ckpt_dtype of its storage class; U8: untyped */
    atomic_bool crc_checked;           /* its bytes were compared with CRC, by any thread */
    uint8_t swap_width;                /* bytes of the unit that reading reverses; 0: little-endian already */
    bool has_crc : 1;
    bool is_crc32c : 1;        /* CRC is a CRC-32C, not a CRC-32 */
    bool pieces_have_crcs : 1; /* the storage has no checksum, but each of the pieces in SRC has one */
    bool checks_itself : 1;    /* reading SRC compares checksums that are stored with the bytes */
    bool in_key_index : 1;     /* file_storage_find finds it by its key */
};

_Static_assert(sizeof(struct storage) <= 64, "files have a hundred thousand storages");

/* storage_file - returns the name of the shard of STORAGE, or empty. */
static inline ckpt_str storage_file(const struct storage *storage)
{
    return storage->extra ? storage->extra->file : str_of("", 0);
}
/* storage_location - returns the location of STORAGE, or empty. */
static inline ckpt_str storage_location(const struct storage *storage)
{
    return storage->extra ? storage->extra->location : str_of("", 0);
}
/* storage_file_offset - returns the absolute offset of STORAGE's first byte; CKPT_NO_OFFSET if it has no
 * bytes, is encoded, or was not located yet. */
static inline uint64_t storage_file_offset(const struct storage *storage)
{
    return storage->src ? source_pos(storage->src, storage->off) : CKPT_NO_OFFSET;
}
static inline enum crc_kind storage_crc_kind(const struct storage *storage)
{
    return storage->is_crc32c ? CRC_32C : CRC_32;
}
/* storage_loss - returns why STORAGE is lost, or NULL. */
static inline const char *storage_loss(const struct storage *storage)
{
    return storage->extra ? storage->extra->lost_why : NULL;
}

struct table {
    arena *a;
    struct packed_row *rows; /* not in the arena, nor are the storages: see table_close */
    size_t nrows, cap_rows;
    const struct shape **shapes;
    size_t nshapes, cap_shapes;
    map *shape_ids;             /* sizes -> index into SHAPES; NULL: no row was added yet */
    uint32_t recent_shapes[64]; /* indexes into SHAPES, by a number made of the sizes: most are found here */
    struct storage *storages;
    size_t nstorages, cap_storages;
    uint64_t max_rows;
    uint64_t expanded_bytes; /* bytes of the tensors that are larger than their storages (stride 0) */
    uint64_t max_expanded;
    source *unchecked; /* see table_check_source; owned; NULL: none */
};

/* table_add_storage - adds STORAGE as storage *INDEX; takes over STORAGE's reference to its source, even on
 * failure. */
ckpt_status table_add_storage(struct table *table, const struct storage *storage, uint32_t *index,
                              ckpt_error *err);
/* table_set_location - sets the location of STORAGE, the next storage of TABLE. False: no memory. */
bool table_set_location(struct table *table, struct storage *storage, ckpt_str location);
/* table_same_place - returns true if LEFT and RIGHT are the same tensor, perhaps under two names: the same
 * view and dtype at the same file offset. Call table_locate first. */
bool table_same_place(const ckpt_tensor *left, const ckpt_tensor *right);
/* table_same_places - returns true if table_same_place is true for tensor I of LEFT and of RIGHT, for every
 * I. */
bool table_same_places(const struct table *left, const struct table *right);
/* tensor_is_expanded - returns true if TENSOR has more bytes than its storage. */
bool tensor_is_expanded(const struct table *table, const ckpt_tensor *tensor);
/* table_add_lost - adds a lost storage, described by LOST, as storage *INDEX. */
ckpt_status table_add_lost(struct table *table, struct storage_extra lost, uint32_t *index, ckpt_error *err);
/* table_set_lost - makes STORAGE lost, without bytes, because of the error WHY. */
ckpt_status table_set_lost(struct table *table, struct storage *storage, const ckpt_error *why,
                           ckpt_error *err);
/* table_add_row - adds ROW as row *INDEX; INDEX may be NULL. Sets in ROW the name from the path if it has
 * none, elements and nbytes from shape and dtype (overflow: CKPT_EFORMAT). If it has_data, its storage must
 * be in the table and contain the view, up to element storage_offset + sum((size - 1) * stride). Texts must
 * be in the arena; shape, stride, path and steps are copied. */
ckpt_status table_add_row(struct table *table, struct row *row, uint32_t *index, ckpt_error *err);
/* table_locate - makes the file_offset of all tensors known. It may read the file, because the position of an
 * archive's member is only known from its local header. */
ckpt_status table_locate(const struct table *table, ckpt_error *err);
/* table_finish - sets alias_of of every tensor. */
ckpt_status table_finish(struct table *table, ckpt_error *err);
/* table_has_checksums - returns true if all storages with bytes have checksums of their own. */
bool table_has_checksums(const struct table *table);
/* table_check_first - makes table_check_source check SRC, which all bytes come from, unless another was set;
 * table_check_nothing undoes that. */
void table_check_first(struct table *table, source *src);
void table_check_nothing(struct table *table);
/* table_check_source - is called before tensors are read: see source_check. Any number of threads may. */
ckpt_status table_check_source(const struct table *table, ckpt_error *err);
/* table_row, table_tensor - return row INDEX, which must be in the table. Path and steps stay where they are
 * until a row is added. */
struct row table_row(const struct table *table, size_t index);
ckpt_tensor table_tensor(const struct table *table, size_t index);
/* table_read_tensor - sets *TENSOR to row INDEX: each field once, because it is called several times for a
 * tensor. */
void table_read_tensor(const struct table *table, size_t index, ckpt_tensor *tensor);
/* table_storage_of … table_has_data - return one field of row INDEX, which must be in the table. */
static inline uint32_t table_storage_of(const struct table *table, size_t index)
{
    return table->rows[index].storage;
}
static inline uint32_t table_alias_of(const struct table *table, size_t index)
{
    return table->rows[index].alias_of;
}
static inline uint32_t table_npath_of(const struct table *table, size_t index)
{
    return table->rows[index].npath;
}
static inline ckpt_kind table_kind_of(const struct table *table, size_t index)
{
    return table->rows[index].kind;
}
static inline ckpt_dtype table_dtype_of(const struct table *table, size_t index)
{
    return table->rows[index].dtype;
}
static inline bool table_has_data(const struct table *table, size_t index)
{
    return table->rows[index].has_data;
}
static inline bool table_has_shape(const struct table *table, size_t index)
{
    return table->rows[index].has_shape;
}
static inline uint32_t table_ndim_of(const struct table *table, size_t index)
{
    return table->shapes[table->rows[index].shape]->ndim;
}
static inline const ckpt_value *table_value_of(const struct table *table, size_t index)
{
    return table->rows[index].value;
}
static inline uint64_t table_elements_of(const struct table *table, size_t index)
{
    return table->rows[index].has_shape ? table->shapes[table->rows[index].shape]->elements : 0;
}
uint64_t table_nbytes_of(const struct table *table, size_t index);
static inline uint32_t table_part_of(const struct table *table, size_t index)
{
    return table->rows[index].extra ? table->rows[index].extra->part_of : CKPT_NO_TENSOR;
}
static inline const ckpt_path_elem *table_path_of(const struct table *table, size_t index)
{
    return table->rows[index].deep ? table->rows[index].deep->path : &table->rows[index].own;
}
static inline const struct step *table_steps_of(const struct table *table, size_t index)
{
    const struct packed_row *p = &table->rows[index];
    return !p->has_steps ? NULL : p->deep ? p->deep->steps : &p->own_step;
}
/* table_set_… - change one field of row INDEX. */
static inline void table_set_has_data(struct table *table, size_t index, bool has)
{
    table->rows[index].has_data = has;
}
static inline void table_set_alias(struct table *table, size_t index, uint32_t of)
{
    table->rows[index].alias_of = of;
}
static inline void table_set_step(struct table *table, size_t number, const ckpt_value *node, uint32_t index)
{
    table->rows[number].own_step = (struct step){node, index};
    table->rows[number].has_steps = true;
}
/* table_replace_row - makes ROW row INDEX, as it stands: it is not checked. False: no memory. */
bool table_replace_row(struct table *table, size_t index, const struct row *row);
bool table_copy_storage(const struct table *table, uint32_t index, ckpt_storage *out);
ckpt_str table_name(const struct table *table, size_t index); /* empty: there is none */
/* table_append - adds the first COUNT rows of FROM, which are not components, and all its storages to TABLE.
 * The arena of FROM must live as long as TABLE. */
ckpt_status table_append(struct table *table, const struct table *from, size_t count, ckpt_error *err);
/* table_reorder - makes row ORDER[I] of TABLE row I, of COUNT. Removes the other rows, and the storages that
 * no row has; the others are in the order of the rows then. False: no memory. */
bool table_reorder(struct table *table, const uint32_t *order, size_t count);
/* table_root_pairs - makes the rows of TABLE that have values the pairs of ROOT, an empty DICT; they are made
 * from the rows when they are first needed. The caller frees the result when ROOT is not used any more.
 * NULL: no memory. */
struct lazy_pairs *table_root_pairs(struct table *table, ckpt_value *root);
/* table_close - drops the source references, and frees rows and storages. */
void table_close(struct table *table);
/* path_elem_from_key - converts KEY of a mapping to a path element: text and ints as they are, other keys as
 * text in A. */
ckpt_status path_elem_from_key(arena *a, const ckpt_value *key, ckpt_path_elem *out, ckpt_error *err);
/* path_copy - returns a copy of PATH, COUNT elements, allocated in A; NULL: no memory. */
ckpt_path_elem *path_copy(arena *a, const ckpt_path_elem *path, uint32_t count);
/* path_begins - returns true if PATH, of COUNT elements, begins with HEAD, of NHEAD. */
bool path_begins(const ckpt_path_elem *path, uint32_t count, const ckpt_path_elem *head, uint32_t nhead);
/* path_elem_len - returns the length of ELEM in a joined name. */
size_t path_elem_len(const ckpt_path_elem *elem);
/* path_join - returns PATH joined with '.', NUL-terminated, in the arena; .ptr NULL: no memory. */
ckpt_str path_join(arena *a, const ckpt_path_elem *path, uint32_t count);
/* path_of_entry - sets *PATH and *STEPS to those that the next entry of MAPPING, under KEY, will have:
 * those of MAPPING (PREFIX and PREFIX_STEPS, COUNT each) and one more. False: no memory. */
bool path_of_entry(arena *a, const ckpt_value *mapping, const ckpt_path_elem *prefix,
                   const struct step *prefix_steps, uint32_t count, ckpt_str key, ckpt_path_elem **path,
                   struct step **steps);
/* tensor_bytes - computes the size of ELEMENTS elements of TENSOR's dtype in bytes; for CKPT_DT_NAMED from
 * TENSOR's own nbytes and elements. False: overflow, or no whole number of bytes. */
bool tensor_bytes(const ckpt_tensor *tensor, uint64_t elements, uint64_t *out);
/* tensor_is_string - returns true if TENSOR's elements are texts of any length. Each is stored as its length
 * (u64, little-endian) and the text. */
bool tensor_is_string(const ckpt_tensor *tensor);
/* tensor_same_dtype - returns true if LEFT and RIGHT have the same dtype. CKPT_DT_NAMED is compared by name
 * and by note, which describes the fields of records. */
bool tensor_same_dtype(const ckpt_tensor *left, const ckpt_tensor *right);
/* tensor_view_end - sets *END to the index after the last element of the view in its storage, 0 if the
 * view is empty. False: more than 64 bits, which table_add_row refuses. */
bool tensor_view_end(const ckpt_tensor *tensor, uint64_t *end);
