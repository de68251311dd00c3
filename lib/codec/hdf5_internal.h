/* hdf5_internal.h - what the source files of the HDF5 reader share: reading structures within a budget,
 * object headers, heaps. */
#pragma once

#include "base/cursor.h"
#include "codec/hdf5.h"
#include "io/window.h"

#define HDF5_NOWHERE   UINT64_MAX /* the address of a structure that does not exist */
#define HDF5_MAX_DEPTH 16u        /* levels of a B-tree */

/* A file that is being visited. An address is an offset from the signature. The positions of cursors are
 * addresses, too. */
struct hdf5 {
    source *src;           /* the file from the signature on */
    arena *a;              /* memory for results */
    arena *scratch;        /* memory for one object */
    arena *heaps;          /* holds the global heap collections */
    map *collection_index; /* address -> index into collections */
    struct hdf5_collection **collections;
    size_t ncollections, cap_collections;
    struct hdf5_heap *open_heap; /* the fractal heap that was opened last, in scratch memory */
    map *heap_block_numbers;     /* address of a block of that heap -> index into its loaded blocks */
    struct window window;
    uint64_t structure_bytes_left; /* bytes of structures that may still be read */
    uint64_t data_left; /* bytes that the next data sets may have in the file, as data sets do not overlap */
    uint64_t unstored_left; /* bytes that the next data sets may have beyond those their stored bytes give */
    const struct hdf5_visitor *visitor;
    ckpt_error *err;  /* its offset is an address, unless read_failed */
    bool read_failed; /* a read of the source failed */
};

/* hdf5_load - reads COUNT bytes at ADDR into scratch memory, and sets *IN to read them. Errors name the
 * structure WHAT. */
ckpt_status hdf5_load(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const char *what, cursor *in);
/* hdf5_load_block - reads, as hdf5_load does, a block that begins with the signature and version of KIND;
 * *C is after them. */
struct hdf5_kind {
    const char *signature; /* the first four bytes of the block */
    uint8_t version;
    const char *what; /* name of the structure in errors */
};
ckpt_status hdf5_load_block(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const struct hdf5_kind *kind,
                            cursor *in);
/* hdf5_load_checked - reads, as hdf5_load_block does, a block that ends in a checksum. The checksum is
 * compared, and is not in *IN. */
ckpt_status hdf5_load_checked(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const struct hdf5_kind *kind,
                              cursor *in);
/* hdf5_checksum - returns the checksum of NBYTES bytes, lookup3 by Bob Jenkins. */
uint32_t hdf5_checksum(const unsigned char *bytes, size_t nbytes);
/* hdf5_compare_sums - fails unless the COMPUTED checksum of the structure WHAT at ADDR is the RECORDED
 * one. */
ckpt_status hdf5_compare_sums(struct hdf5 *hdf5, uint64_t addr, const char *what, uint32_t computed,
                              uint32_t recorded);
/* hdf5_cut_checksum - compares the checksum in the last four bytes of ALL with that of the bytes before them.
 * *IN must end where ALL ends; the checksum is removed from *IN. Errors name the structure WHAT. */
ckpt_status hdf5_cut_checksum(struct hdf5 *hdf5, cursor all, const char *what, cursor *in);
/* hdf5_take_padded - returns a cursor on the next COUNT bytes of IN. Moves IN after them and after the
 * padding to a multiple of UNIT bytes; at the end of IN, padding may be missing. */
cursor hdf5_take_padded(cursor *in, size_t count, size_t unit);
/* hdf5_get_log2 - returns the binary logarithm of COUNT, rounded down. */
uint32_t hdf5_get_log2(uint64_t count);
bool hdf5_is_power_of_two(uint64_t count);
/* hdf5_fail_short - fails because the structure WHAT, which IN reads, ends too early. */
ckpt_status hdf5_fail_short(struct hdf5 *hdf5, const cursor *in, const char *what);

/* ------------------------------------------------------------------- object headers */

struct hdf5_message {
    bool is_there;
    uint8_t flags;
    cursor body;
};

struct hdf5_object {
    uint64_t addr;
    struct hdf5_message dataspace, datatype, fill, old_fill, layout, filters, symbol_table, link_info,
        attribute_info;
    bool has_external_data; /* true: its elements are in other files */
    cursor *attributes, *links;
    size_t nattributes, nlinks, cap_attributes, cap_links, nmessages;
};

/* hdf5_read_object - reads the messages of the object header at ADDR into scratch memory. */
ckpt_status hdf5_read_object(struct hdf5 *hdf5, uint64_t addr, struct hdf5_object *object);

struct hdf5_space {
    bool is_null; /* no elements and no shape */
    uint32_t ndim;
    uint64_t shape[HDF5_MAX_RANK];
    uint64_t max_shape[HDF5_MAX_RANK]; /* the sizes to which it may grow; HDF5_UNLIMITED: no limit */
    uint64_t elements;                 /* the product of SHAPE */
};
#define HDF5_UNLIMITED UINT64_MAX

ckpt_status hdf5_read_space(struct hdf5 *hdf5, cursor in, struct hdf5_space *out);
/* hdf5_read_type - reads the datatype message MESSAGE or, if MESSAGE refers to another object, the one of
 * that object. */
ckpt_status hdf5_read_type(struct hdf5 *hdf5, struct hdf5_message message, struct hdf5_type *out);
/* hdf5_set_float - makes TYPE, whose size is set, a float with BITS, of the smallest dtype that has all its
 * values and at least its size, as h5py does. False: there is none, or BITS are outside of TYPE. */
bool hdf5_set_float(struct hdf5_type *type, const struct hdf5_bits *bits);

/* ------------------------------------------------------------------ groups and heaps */

struct hdf5_link {
    enum { HDF5_HARD, HDF5_SOFT, HDF5_EXTERNAL, HDF5_USER } kind;
    ckpt_str name, target;
    uint64_t addr; /* address of the object to which a hard link leads */
};

struct hdf5_links {
    struct hdf5_link *links; /* in scratch memory */
    size_t n, cap;
};

/* hdf5_read_links - lists all links of the group OBJECT, in natural order of their names. */
ckpt_status hdf5_read_links(struct hdf5 *hdf5, const struct hdf5_object *object, struct hdf5_links *out);

/* A version 1 B-tree that is being read. */
struct hdf5_tree {
    const char *what; /* name of the B-tree in errors */
    uint8_t type;
    uint32_t key_size;
    struct hdf5_node {
        cursor c;                /* at the next key, or at the child after it */
        uint32_t level;          /* level above the leaves */
        uint32_t unread;         /* number of children that are still to be read */
    } nodes[HDF5_MAX_DEPTH + 1]; /* from the root to the innermost node, which is being read */
    uint32_t depth;              /* number of nodes in NODES */
};
/* hdf5_enter_node - appends the node at ADDR to the nodes of TREE. It is the root or a child of the innermost
 * node. */
ckpt_status hdf5_enter_node(struct hdf5 *hdf5, struct hdf5_tree *tree, uint64_t addr);

/* hdf5_visit_records - calls RECORDS->visit for each record of the version 2 B-tree at ADDR, in order.
 * Refuses a tree of another type, or whose records have another size. */
struct hdf5_records {
    uint8_t type;
    uint32_t size;
    ckpt_status (*visit)(struct hdf5 *h, void *user, cursor record);
    void *user;
};
ckpt_status hdf5_visit_records(struct hdf5 *hdf5, uint64_t addr, const struct hdf5_records *records);

/* hdf5_visit_dense - reads the message C, which has the addresses of a fractal heap of links or attributes
 * and of their B-tree. Opens the heap, if there is one, and calls R->visit for the records of the tree. */
struct hdf5_dense {
    const char *what;    /* name of the message in errors */
    uint32_t index_size; /* bytes of the field "greatest creation index", which flag 1 announces */
    uint32_t id_size;    /* bytes of an id in the heap */
};
ckpt_status hdf5_visit_dense(struct hdf5 *hdf5, cursor in, const struct hdf5_dense *dense,
                             const struct hdf5_records *records);
/* hdf5_read_heap_object - sets *OUT to read the object of ID in the open heap. ID has id_size bytes. */
ckpt_status hdf5_read_heap_object(struct hdf5 *hdf5, const unsigned char *id, cursor *out);

/* hdf5_read_heap_text - sets *OUT to object INDEX of the global heap collection at ADDR; it is valid until
 * the next call. */
ckpt_status hdf5_read_heap_text(struct hdf5 *hdf5, uint64_t addr, uint32_t index, ckpt_str *out);

/* ---------------------------------------------------------------------- values, data */

/* hdf5_read_texts - sets the texts of DATASET, which has ELEMENTS of them. More than 64 MiB make DATASET
 * unreadable. */
ckpt_status hdf5_read_texts(struct hdf5 *hdf5, struct hdf5_dataset *dataset, uint64_t elements);
/* hdf5_read_attribute - reads name, type and value of the attribute message C. */
struct hdf5_attribute {
    ckpt_str name;            /* its name, in scratch memory */
    ckpt_value *value;        /* its value; NULL: a ckpt_value cannot hold it */
    const char *why_no_value; /* the reason, if value is NULL */
};
ckpt_status hdf5_read_attribute(struct hdf5 *hdf5, cursor in, struct hdf5_attribute *out);

/* hdf5_find_other_files - returns how the data set OBJECT refers to other files for its elements; NULL: it
 * does not. */
const char *hdf5_find_other_files(const struct hdf5_object *object);
/* hdf5_read_layout - finds out where the elements of DATASET are, from the messages of its object OBJECT.
 * MAX_SHAPE: see struct hdf5_space. */
ckpt_status hdf5_read_layout(struct hdf5 *hdf5, const struct hdf5_object *object, const uint64_t *max_shape,
                             struct hdf5_dataset *dataset);

/* The index of a chunked layout, by which its chunks are found. */
struct hdf5_index {
    enum {
        HDF5_BTREE1,
        HDF5_SINGLE,
        HDF5_IMPLICIT,
        HDF5_FIXED_ARRAY,
        HDF5_EXTENSIBLE_ARRAY,
        HDF5_BTREE2
    } kind;
    uint64_t addr;
    const uint64_t *max_shape;       /* arrays number the chunks of these sizes, not those of the shape */
    uint32_t size_width;             /* bytes of the field "stored size"; 0: no filters, and no such field */
    bool edges_are_unfiltered;       /* true: no filter was applied to chunks that reach over an edge */
    uint64_t single_size;            /* stored size of the one chunk of SINGLE */
    uint32_t single_skipped_filters; /* hdf5_chunk.skipped_filters of that chunk */
};
/* hdf5_read_chunks - sets the chunks of DATASET from INDEX. DATASET must have its shape, chunk shape and
 * filters. */
ckpt_status hdf5_read_chunks(struct hdf5 *hdf5, const struct hdf5_index *index, struct hdf5_dataset *dataset);

/* The chunks of a data set that were read so far. */
struct hdf5_chunk_list {
    struct hdf5 *h;
    struct hdf5_dataset *d;
    const struct hdf5_index *index;
    struct hdf5_chunk *chunks; /* in scratch memory */
    uint64_t *offsets;         /* offset of the first element of each chunk, ndim numbers */
    size_t n, cap, cap_offsets;
    uint64_t last_offset[HDF5_MAX_RANK]; /* offset of the chunk that was read last from a tree */
    bool has_last;                       /* true: last_offset is set */
};
/* hdf5_add_chunk - adds CHUNK, whose first element is at OFFSET in the data set, unless CHUNK is outside of
 * the data set. */
ckpt_status hdf5_add_chunk(struct hdf5_chunk_list *list, const struct hdf5_chunk *chunk,
                           const uint64_t *offset);
/* hdf5_read_chunk_entry - returns address, size and skipped filters of the chunk of the next entry or record
 * in IN. */
struct hdf5_chunk hdf5_read_chunk_entry(const struct hdf5_chunk_list *list, cursor *in);
/* hdf5_read_numbered_chunks - reads the chunks by an index that is a single chunk, implicit or an array: they
 * have no offsets, but numbers. */
ckpt_status hdf5_read_numbered_chunks(struct hdf5_chunk_list *list);
