/* part_graph.h - lets a checkpoint that is put together from many files use the value graphs of these files.
 * Where each rank has saved a pickle, the graph of the checkpoint is made of nodes of theirs. */
#ifndef FORMAT_DISTRIBUTED_PART_GRAPH_H
#define FORMAT_DISTRIBUTED_PART_GRAPH_H

#include "format/torch/graph.h"

/* part_graph_take - moves the pickles of PART, one of f->parts, to F and sets *ROOT to the root of its graph.
 * The nodes of its tensors lose their rows in the table of PART: torch_walk_graph(F) adds rows to the table
 * of F. Each storage key gets the number of PART in front ("0" becomes "3/0"), because every file counts its
 * storages from 0. */
ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err);
/* part_graph_find_storage - the `find` of torch_storages: sets *S to the storage that PID names by such a
 * key. USER points to a struct whose first member is the ckpt_file pointer. */
ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                    ckpt_error *err);
/* part_graph_add_unreferenced - for f->resolve: adds the storages that only opaque objects refer to. */
ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err);

#endif
