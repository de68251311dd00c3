/* deepspeed.h - declarations for the files that read the checkpoints of DeepSpeed. With ZeRO, no file has a
 * complete parameter: w of 6 elements, b of 3 and 1 element of padding are one flat tensor. Rank 0 has saved
 * its elements 0 to 4, and rank 1 has saved elements 5 to 9. */
#pragma once

#include "format/format.h"
#include "format/parts/sharded_tensors.h"

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
    ckpt_str name; /* path in the folder that is read: "global_step2/mp_rank_00_model_states.pt" */
    enum ds_kind kind;
    bool has_dp_rank; /* the name begins with zero_pp_rank_D: only data-parallel rank D saved the file */
    uint64_t dp_rank, mp_rank, layer, expert; /* D, M, N and E in the names above */
};

/* A save: the folder that `latest` names, or the given folder itself. */
struct ds_save {
    ckpt_str tag;          /* name of the folder, such as "global_step2"; empty: the given folder */
    const char *trusted;   /* see part_files.h */
    struct ds_file *files; /* in natural order: layer_2 before layer_10 */
    size_t nfiles;
    bool universal; /* it has a folder `zero` with a folder for each parameter */
};

/* ds_is_folder - returns true if PROBE is a save or a folder of saves. */
bool ds_is_folder(const struct probe *probe);
/* ds_next_file - returns the first file of KIND and of the model-parallel rank MP (or DS_ANY_RANK) after the
 * file AFTER (NULL: from the beginning), or NULL. */
#define DS_ANY_RANK UINT64_MAX
const struct ds_file *ds_next_file(const struct ds_save *save, enum ds_kind kind, uint64_t mp,
                                   const struct ds_file *after);
/* ds_find_save - sets *OUT to the last save in the folder of F, or to that folder if it is a save itself.
 * Allocates from F's arena. */
ckpt_status ds_find_save(ckpt_file *f, struct ds_save *out, ckpt_error *err);

/* ---- tensors that are assembled from partitions (deepspeed_tensors.c) */

/* The range of a flat tensor that one rank has saved: a 1-d tensor in its file. */
struct ds_partition {
    const ckpt_file *part; /* NULL: the file is missing */
    uint32_t row;
    uint64_t start, nelements; /* its first element in the flat tensor, and how many it has */
};

/* A flat tensor: the parameters of one optimizer group, or their states of one kind such as exp_avg. */
struct ds_flat {
    struct ds_partition *partitions;
    size_t npartitions, cap;
    uint64_t nelements; /* elements of all partitions */
    ckpt_dtype dtype;   /* CKPT_DT_NONE: all partitions are missing so far */
};

/* Which elements of a tensor a piece has. */
struct ds_range {
    uint64_t first, nelements;
};

struct deepspeed {
    ckpt_file *f; /* must be first, for part_graph_find_storage */
    ckpt_error *err;
    struct ds_save save;
    struct joined_tensor *tensors;
    size_t ntensors, cap_tensors;
    struct piece *pieces;    /* of the tensor that is being assembled */
    struct ds_range *ranges; /* of each piece */
    size_t npieces, cap_pieces, nranges, cap_ranges;
    bool is_incomplete, lacks_crc; /* a piece of that tensor is missing; a piece has no checksum */
    map *weights;                  /* parameter name -> index into TENSORS */
    ckpt_value *state, *groups;    /* of the optimizer: its states by parameter name; its param_groups */
    ckpt_file *model;              /* the first model file that could be read */
    ckpt_value *root;              /* of the graph that is being made */
    map *root_keys;                /* of ROOT, a dict */
    map *buffers;                  /* names of the model's buffers */
    size_t dp_ranks;               /* number of data-parallel ranks */
    size_t pipeline_stages;        /* model-parallel ranks, all of which are stages: no tensor is cut */
    unsigned zero_stage;           /* of ZeRO, by the layout of the files: 0, 3, or 2 for stages 1 and 2 */
    int64_t stored_stage;          /* zero_stage in the files; 0: they have none */
};

/* ds_get - returns the value of the key NAME; NULL if it is missing or None. */
ckpt_value *ds_get(const ckpt_value *mapping, const char *name);
/* ds_get_numbered - returns item INDEX of a list, or the value of the key INDEX of a mapping; NULL: none. */
ckpt_value *ds_get_numbered(const ckpt_value *value, uint64_t index);
/* ds_find_row - copies the tensor of PART whose node is VALUE to ROOM, and returns ROOM; NULL: there is
 * none. */
const ckpt_tensor *ds_find_row(const ckpt_file *part, const ckpt_value *value, ckpt_tensor *room);
/* ds_read_shape - sets ndim and shape of TENSOR from VALUE, a torch.Size, and *ELEMENTS to the product of the
 * sizes. False: VALUE is not a torch.Size. */
bool ds_read_shape(struct deepspeed *ds, const ckpt_value *value, struct joined_tensor *tensor,
                   uint64_t *elements);
/* ds_open_file - reads the file NAME as a part. Sets *OUT to NULL if the file is damaged, and `verify` has
 * reported that or salvage goes on without it. */
ckpt_status ds_open_file(struct deepspeed *ds, ckpt_str name, ckpt_file **out);
/* ds_fail_missing - fails because WHAT is missing, or returns CKPT_OK as part_file_accept_missing does. */
ckpt_status ds_fail_missing(struct deepspeed *ds, const char *what);

/* ds_flat_add - appends the 1-d tensor VALUE of PART to FLAT as its next partition. If PART is NULL, because
 * the file of the rank is missing, appends a gap of COUNT elements. */
ckpt_status ds_flat_add(struct deepspeed *ds, struct ds_flat *flat, const ckpt_file *part,
                        const ckpt_value *value, uint64_t count);
/* ds_add_slice - adds elements [FROM, FROM + NBYTES) of FLAT to the tensor that is being assembled, at its
 * element AT. */
ckpt_status ds_add_slice(struct deepspeed *ds, const struct ds_flat *flat, uint64_t from, uint64_t nbytes,
                         uint64_t at);
/* ds_end_tensor - ends the assembly of the tensor TENSOR: adds a copy of TENSOR to ds->tensors, with the
 * slices that were added before and with a new node, and sets *NODE to that node. */
ckpt_status ds_end_tensor(struct deepspeed *ds, const struct joined_tensor *tensor, ckpt_value **node);
/* ds_end_parameter - ends the parameter TENSOR as ds_end_tensor does, and adds its name to ds->weights. */
ckpt_status ds_end_parameter(struct deepspeed *ds, const struct joined_tensor *tensor);
/* ds_add_copy - makes a tensor KEY with the elements of VALUE, a tensor of PART. Sets *NODE to NULL if VALUE
 * is not a contiguous dense tensor. */
ckpt_status ds_add_copy(struct deepspeed *ds, const ckpt_file *part, const ckpt_value *value, ckpt_str key,
                        ckpt_value **node);
/* ds_add_as_float32 - does what ds_add_copy does, but converts 16-bit floats to float32. Sets *NODE to NULL
 * if VALUE is not a contiguous dense tensor of 16-bit floats. */
ckpt_status ds_add_as_float32(struct deepspeed *ds, const ckpt_file *part, const ckpt_value *value,
                              ckpt_str key, ckpt_value **node);

/* ---- the contents of a save */

/* ds_state_name - returns the name of the state KEY, such as exp_avg, of the parameter NAME. */
ckpt_str ds_state_name(struct deepspeed *ds, ckpt_str name, ckpt_str key);
/* ds_read_zero - reads the parameters and states of model-parallel rank MP from their partitions (zero.c). */
ckpt_status ds_read_zero(struct deepspeed *ds, uint64_t mp);
/* ds_read_frozen_params - reads the frozen parameters of ZeRO 3, of which each model file has a share, except
 * those that are among the weights already. */
ckpt_status ds_read_frozen_params(struct deepspeed *ds);
/* ds_add_param_groups - appends the param_groups GROUPS of an optimizer to ds->groups, with parameter names
 * of SHAPES (param_shapes) in place of numbers. If GROUPS is NULL, makes one group for each item of
 * SHAPES. */
ckpt_status ds_add_param_groups(struct deepspeed *ds, const ckpt_value *shapes, const ckpt_value *groups);
/* ds_read_universal - reads a universal checkpoint, which has a folder for each parameter
 * (deepspeed_universal.c). */
ckpt_status ds_read_universal(struct deepspeed *ds);
