/* graph.h - what the files of this folder share: the graph of values that is read as tensors, and the tensor
 * that a node makes. Other folders include this header to describe tensors of their own (describe_tensor). */
#pragma once

#include "core/file.h"

struct graph;
struct tensor_description;
struct torch_pid;

/* What graph_walk needs of the file that holds the graph: callbacks, and where the pickle is. */
struct graph_input {
    void *user;
    /* find_storage - sets S->src (takes a reference), off, nbytes, CRC … for the storage PID. It is
     * called once per key. The caller checks that NBYTES is enough for numel. SRC stays NULL if the storage
     * has no bytes (location "meta"). */
    ckpt_status (*find_storage)(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err);
    /* describe_node - if VALUE is a tensor that is described outside of the graph (a persistent id of the tar
     * format, a TENSOR node of a folder of files), sets dtype, shape, stride, storage and storage_offset of
     * ROW and returns true. May be NULL. */
    bool (*describe_node)(void *user, const ckpt_value *value, struct row *row);
    /* describe_tensor - fills *M for the TENSOR node V. NULL: describe_node does that. */
    ckpt_status (*describe_tensor)(void *user, struct graph *g, const ckpt_value *v,
                                   struct tensor_description *m);
    bool big_endian;
    bool has_text_keys;     /* the keys of all mappings are text: an int key was written as text, too */
    source *pickle;         /* node offsets are relative to its start; may be NULL */
    uint64_t pickle_offset; /* of the pickle in the file, for errors if the pickle is compressed; 0: none */
    ckpt_str pickle_name;   /* in errors */
};

struct graph {
    ckpt_file *f;
    const struct graph_input *input;
    ckpt_error *err;
    const ckpt_value *last_global;      /* the last constructor that find_rebuild was called for … */
    const struct rebuild *last_rebuild; /* … and what it returned */
    struct cached_sizes {
        const ckpt_value *tuple;
        const uint64_t *sizes;  /* the integers of TUPLE */
    } cached_sizes[64];         /* tuples read recently: tensors of one shape often share the tuple */
    unsigned constructor_depth; /* of constructors that are arguments of constructors */
};

/* A component of a composite tensor, such as the scales of a quantized one. It becomes a row of its own. */
struct component {
    const char *name;
    const ckpt_value *value;
};

#define MAX_COMPONENTS 5
#define MAX_WRAPPERS   4 /* calls that may be around a tensor or a bytes object; files have one or two */

/* The tensor that a node makes, as described by the node's arguments. */
struct tensor_description {
    bool is_tensor;
    struct row row; /* without path and steps */
    struct component components[MAX_COMPONENTS];
    unsigned ncomponents;
};

/* graph_offset - returns the file offset of the opcode that made node VALUE. */
uint64_t graph_offset(const struct graph *graph, const ckpt_value *value);
/* graph_fail - fails with CKPT_EFORMAT at node VALUE. */
ckpt_status graph_fail(struct graph *graph, const ckpt_value *value, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* graph_fail_expected - fails at VALUE with the message "MUST_BE {=EXPECTED}, found {FOUND}". If FOUND is
 * NULL, it is shown as "nothing". */
ckpt_status graph_fail_expected(struct graph *graph, const ckpt_value *value, const char *must_be,
                                const char *expected, const ckpt_value *found);
/* graph_read_new_sizes - does what graph_read_sizes does for a tuple, list or NULL that was not read
 * recently. */
ckpt_status graph_read_new_sizes(struct graph *graph, const ckpt_value *value, const char *what,
                                 const uint64_t **out);
/* graph_read_sizes - sets *OUT to the *COUNT integers >= 0 in VALUE (tuple, list, torch.Size). Errors call
 * VALUE WHAT. */
static inline ckpt_status graph_read_sizes(struct graph *graph, const ckpt_value *value, const char *what,
                                           uint32_t *count, const uint64_t **out)
{
    if (value && value->type == CKPT_V_CALL && value_nargs(value) == 1) /* torch.Size((…)) */
        value = value_arg(value, 0);
    size_t ncached = sizeof graph->cached_sizes / sizeof *graph->cached_sizes;
    struct cached_sizes *cached = &graph->cached_sizes[ptr_key(value) / sizeof *value % ncached];
    if (!value || cached->tuple != value) {
        CKPT_TRY(graph_read_new_sizes(graph, value, what, &cached->sizes));
        cached->tuple = value;
    }
    *count = value ? value->u.seq.n : 0;
    *out = cached->sizes;
    return CKPT_OK;
}
