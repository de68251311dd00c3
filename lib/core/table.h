/* table.h - tensors and the storages they look at. */
#ifndef CORE_TABLE_H
#define CORE_TABLE_H

#include "base/arena.h"
#include "core/value.h"
#include "io/source.h"

/* One step of a row's path, as a place in the graph: the entry INDEX of NODE
 * (pair of a mapping, item of a sequence). A plan edits names there. */
struct step {
    const ckpt_value *node; /* NULL: nothing editable (attribute of an object) */
    uint32_t index;
};

struct row {
    ckpt_tensor t; /* what the public interface shows */
    const struct step *steps; /* t.npath of them */
};

/* What few storages have. */
struct storage_more {
    ckpt_str file;    /* the shard it lies in, or empty */
    const char *lost; /* salvage: why its bytes are gone (then src is NULL), or NULL */
    uint64_t lost_at; /* absolute, or CKPT_NO_OFFSET */
};

struct storage {
    struct { /* as in ckpt_storage */
        uint64_t nbytes, file_offset;
        ckpt_str key, location;
    } s;
    source *src;  /* whole storage = [off, off + s.nbytes) of it; owned reference; NULL: no bytes (meta) */
    uint64_t off;
    uint64_t numel;  /* as its persistent id states, in elements of dtype */
    const ckpt_value *pid; /* PERSID node, or NULL */
    const struct storage_more *more; /* or NULL */
    uint32_t crc;    /* has_crc */
    uint32_t number; /* while a file is written: one more than its number there, 0: none */
    uint32_t dtype;  /* ckpt_dtype of its storage class; U8: untyped */
    uint8_t swap; /* width to byte-swap on reading; 0: little-endian already */
    bool has_crc, crc_checked;
    bool keyed; /* file_storage_add */
};

/* storage_file - the name of the shard that S lies in, or empty. */
static inline ckpt_str storage_file(const struct storage *s)
{
    return s->more ? s->more->file : str_of("", 0);
}
/* storage_lost - why S is lost, or NULL. */
static inline const char *storage_lost(const struct storage *s) { return s->more ? s->more->lost : NULL; }

struct table {
    arena *a;
    struct row *rows;
    size_t nrows, cap_rows;
    struct storage *storages;
    size_t nstorages, cap_storages;
    uint64_t max_rows;
    uint64_t expanded; /* bytes of the rows that show more than their storages hold (stride 0) */
    uint64_t max_expanded;
};

/* table_expect - N rows and N storages are likely to come: a table that grows
 * leaves copies of itself behind. Only a hint. */
void table_expect(struct table *t, size_t n);
/* table_storage - adds a storage, takes over its source reference; *INDEX is its number. */
ckpt_status table_storage(struct table *t, const struct storage *s, uint32_t *index, ckpt_error *err);
/* table_same_place - are A and B one tensor, whatever its name: one view of one type, in one place of the
 * file? After table_locate. */
bool table_same_place(const ckpt_tensor *a, const ckpt_tensor *b);
/* table_same_places - the same for all rows of A and B, in their order. */
bool table_same_places(const struct table *a, const struct table *b);
/* row_expands - does V show more bytes than its storage holds? */
bool row_expands(const struct table *t, const ckpt_tensor *v);
/* table_add_lost - *INDEX is a new storage that is lost, as LOST has it. */
ckpt_status table_add_lost(struct table *t, struct storage_more lost, uint32_t *index, ckpt_error *err);
/* table_lost - S, which could not be had because of ERR, is lost: it has no bytes. */
ckpt_status table_lost(struct table *t, struct storage *s, const ckpt_error *why, ckpt_error *err);
/* table_row - adds a row. Fills name from the path, elements and nbytes from
 * shape and dtype (overflow: CKPT_EFORMAT), file_offset, and holds a row with
 * has_data against its storage, which must be one of the table: the bytes up to
 * element offset + sum((size - 1) * stride) must be in it. Shape, stride, path
 * and steps must live in the arena. *INDEX may be NULL. */
ckpt_status table_row(struct table *t, const struct row *r, uint32_t *index, ckpt_error *err);
/* table_locate - fills file_offset where it takes a look at the file: members of
 * an archive tell their place only in a header before each. */
ckpt_status table_locate(struct table *t, ckpt_error *err);
/* table_finish - fills alias_of of every row. */
ckpt_status table_finish(struct table *t, ckpt_error *err);
/* table_show - row I as the public interface shows it; false: there is none. */
bool table_show(const struct table *t, uint32_t i, ckpt_tensor *out);
bool table_show_storage(const struct table *t, uint32_t i, ckpt_storage *out);
ckpt_str table_name(const struct table *t, uint32_t i); /* empty: there is none */
void table_close(struct table *t); /* drops the source references */
/* path_elem - KEY of a mapping as a path element: text and ints as they are, any
 * other key by its rendering, made in A. */
ckpt_status path_elem(arena *a, const ckpt_value *key, ckpt_path_elem *out, ckpt_error *err);
/* path_copy - the N elements as they are, in the arena; never NULL for none. NULL: no memory. */
ckpt_path_elem *path_copy(arena *a, const ckpt_path_elem *path, uint32_t n);
/* path_begins - are the first elements of the N of PATH the NHEAD of HEAD? */
bool path_begins(const ckpt_path_elem *path, uint32_t n, const ckpt_path_elem *head, uint32_t nhead);
/* path_elem_len - how many bytes of a joined name E is. */
size_t path_elem_len(const ckpt_path_elem *e);
/* path_join - path joined with '.', NUL-terminated, in the arena; .ptr NULL: no memory. */
ckpt_str path_join(arena *a, const ckpt_path_elem *path, uint32_t n);
/* path_below - what KEY, the next entry of MAPPING, is called below a mapping whose N path elements
 * and steps are PREFIX and STEPS: N + 1 of both, in the arena. False: no memory. */
bool path_below(arena *a, const ckpt_value *mapping, const ckpt_path_elem *prefix, const struct step *steps,
                uint32_t n, ckpt_str key, ckpt_path_elem **path, struct step **to);
/* row_end - element of the storage behind the last that the view shows, 0 if it
 * shows none; false: beyond 64 bits, which no row of a table is. */
bool row_end(const ckpt_tensor *t, uint64_t *end);

#endif
