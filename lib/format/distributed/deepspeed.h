/* deepspeed.h - what the files that read DeepSpeed's folders share. */
#ifndef FORMAT_DISTRIBUTED_DEEPSPEED_H
#define FORMAT_DISTRIBUTED_DEEPSPEED_H

#include "base/map.h"
#include "core/file.h"
#include "core/pieces.h"
#include "format/format.h"

/* ---- the files of a save (deepspeed_files.c) */

enum ds_kind {
    DS_OTHER,
    DS_MODEL,        /* [zero_pp_rank_D_]mp_rank_M_model_states.pt */
    DS_OPTIM,        /* [bf16_]zero_pp_rank_D_mp_rank_M_optim_states.pt */
    DS_LAYER,        /* layer_N[-model_M]-model_states.pt */
    DS_EXPERT,       /* [layer_N_]expert_E_mp_rank_M_model_states.pt */
    DS_EXPERT_OPTIM, /* expp_rank_E_mp_rank_M_optim_states.pt */
};

struct ds_file {
    ckpt_str name; /* from the folder on: "global_step2/mp_rank_00_model_states.pt" */
    enum ds_kind kind;
    bool ranked; /* a model file of one rank of ZeRO 3 */
    uint64_t dp, mp, layer, expert;
};

/* A save: the folder that `latest` names, or that itself. */
struct ds_save {
    ckpt_str tag;         /* empty: the folder itself */
    const char *trusted;  /* a file of the folder that is read in any case: part_file_open */
    struct ds_file *file; /* in the order that people expect */
    size_t n;
    bool universal; /* it has a folder `zero` with a folder for each parameter */
};

/* ds_is_folder - is P a folder of saves, or a save? */
bool ds_is_folder(const struct probe *p);
/* ds_find_save - what is in the folder of F; its texts are in F's arena. */
ckpt_status ds_find_save(ckpt_file *f, struct ds_save *out, ckpt_error *err);

/* ---- tensors that are put together (deepspeed_tensors.c) */

/* A tensor in pieces, or a value with the names of one. */
struct ds_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    uint32_t storage;
    ckpt_value *node;
};

/* Elements of a tensor of a file, one after the other. */
struct ds_partition {
    const ckpt_file *part; /* NULL: the file is missing */
    uint32_t row;
    uint64_t start, n; /* of the stream */
};

/* A flat tensor whose parts are in several files. */
struct ds_flat {
    struct ds_partition *partition;
    size_t n, cap;
    uint64_t total;
    ckpt_dtype dtype;
};

struct deepspeed {
    ckpt_file *f; /* first: part_graph.h */
    ckpt_error *err;
    struct ds_save save;
    struct ds_tensor *tensor;
    size_t ntensors, cap_tensors;
    struct piece *piece; /* of the tensor that is being put together */
    size_t npieces, cap_pieces;
    uint64_t *bounds;           /* of those: an offset and a size each */
    bool missing_data, no_crc;  /* one of them is missing, has no checksum */
    map *weights;               /* name -> number of its tensor */
    ckpt_value *state, *groups; /* of the optimizer: by name; or NULL */
    ckpt_file *model;           /* the first file with a state of the model */
    ckpt_value *root;           /* of the checkpoint */
    map *root_keys;             /* its keys */
    map *buffers;               /* names of the model's buffers */
    size_t ranks;               /* data-parallel */
    size_t stages;              /* of the pipeline */
    unsigned stage;             /* of ZeRO, by the layout: 2 stands for 1, too */
    int64_t stored_stage;       /* as the files have it; 0: they do not */
};

ckpt_value *ds_get(const ckpt_value *mapping, const char *name);
/* ds_get_numbered - item I of a list, or the value of the number I in a mapping; or NULL. */
ckpt_value *ds_get_numbered(const ckpt_value *v, uint64_t i);
/* ds_find_row - the row of PART that is the tensor V, or NULL. */
const ckpt_tensor *ds_find_row(const ckpt_file *part, const ckpt_value *v);
/* ds_read_shape - the torch.Size V as dimensions and shape of T, and how many ELEMENTS that are; false: it is
 * none. */
bool ds_read_shape(struct deepspeed *x, const ckpt_value *v, struct ds_tensor *t, uint64_t *elements);
/* ds_open_file - the file NAME as a part; *OUT is NULL where it is missing or damaged, and that was reported. */
ckpt_status ds_open_file(struct deepspeed *x, ckpt_str name, ckpt_file **out);
/* ds_fail_missing - WHAT is missing: an error, unless the file is checked or salvaged. */
ckpt_status ds_fail_missing(struct deepspeed *x, const char *what);

/* ds_flat_add - the flat tensor V of PART goes on the stream S; of a file that is missing N elements. */
ckpt_status ds_flat_add(struct deepspeed *x, struct ds_flat *s, const ckpt_file *part, const ckpt_value *v,
                        uint64_t n);
/* ds_add_slice - elements [FROM, FROM + N) of S are the next N of the tensor that is being put together, which
 * begin there at element AT. */
ckpt_status ds_add_slice(struct deepspeed *x, const struct ds_flat *s, uint64_t from, uint64_t n,
                         uint64_t at);
/* ds_end_tensor - the tensor T of what was taken, and a node for it. KEY names its storage. */
ckpt_status ds_end_tensor(struct deepspeed *x, const struct ds_tensor *t, ckpt_str key, ckpt_value **node);
/* ds_end_parameter - the tensor T of what was taken becomes a parameter. */
ckpt_status ds_end_parameter(struct deepspeed *x, const struct ds_tensor *t);
/* ds_add_copy - the tensor V of PART by itself, with a node and a storage of its own; NULL: it is none, or
 * not one that can stand for itself. */
ckpt_status ds_add_copy(struct deepspeed *x, const ckpt_file *part, const ckpt_value *v, ckpt_str key,
                        ckpt_value **node);

/* ds_add_as_float32 - the tensor V of PART, of 16-bit floats, as one of float32; NULL: it is none. */
ckpt_status ds_add_as_float32(struct deepspeed *x, const ckpt_file *part, const ckpt_value *v, ckpt_str key,
                              ckpt_value **node);

/* ---- what is in them */

/* ds_read_zero - the partitions of model-parallel rank MP (zero.c). */
ckpt_status ds_read_zero(struct deepspeed *x, uint64_t mp);
/* ds_read_frozen - the frozen parameters of ZeRO 3, which are cut over the model files. */
ckpt_status ds_read_frozen(struct deepspeed *x);
/* ds_add_param_groups - GROUPS, the param_groups of an optimizer, with the names of SHAPES (param_shapes) in place
 * of numbers; without GROUPS those of SHAPES. */
ckpt_status ds_add_param_groups(struct deepspeed *x, const ckpt_value *shapes, const ckpt_value *groups);
/* ds_read_universal - the folders of all parameters (deepspeed_universal.c). */
ckpt_status ds_read_universal(struct deepspeed *x);

#endif
