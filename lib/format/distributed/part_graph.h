/* part_graph.h - makes one value graph of the pickles in several files. If every rank has saved a state
 * dict by torch.save, as with FSDP or Megatron-LM, the graph of the checkpoint consists of nodes of their
 * graphs. */
#ifndef FORMAT_DISTRIBUTED_PART_GRAPH_H
#define FORMAT_DISTRIBUTED_PART_GRAPH_H

#include "format/torch/graph.h"

/* part_graph_take - moves the pickles of PART, one of f->parts, to F and sets *ROOT to the root of its
 * graph. The nodes of tensors no longer refer to rows of PART, because torch_walk_graph adds rows to the
 * table of F for them. Each storage key gets the index of PART in front, "0" becomes "3/0", because every
 * file counts its storages from 0. */
ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err);
/* part_graph_find_storage - sets *S to the storage of which PID has the key, such as "3/0";
 * torch_storages.find. USER points to a struct whose first member is the pointer to the checkpoint. */
ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                    ckpt_error *err);
/* part_graph_add_unreferenced - adds the storages of F that no tensor refers to, but a different object does;
 * f->resolve. */
ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err);

#endif
