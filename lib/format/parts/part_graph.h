/* part_graph.h - joins the pickles of several parts, such as the ranks of FSDP or Megatron-LM, into one
 * graph. */
#pragma once

#include "core/file.h"

struct torch_pid;

/* part_graph_take - moves the pickles of PART, one of f->parts, to F and sets *ROOT to the root of its
 * graph. The nodes of tensors no longer refer to rows of PART, because graph_walk adds rows to the
 * table of F for them. Each storage key gets the index of PART in front, "0" becomes "3/0", because every
 * file counts its storages from 0. */
ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err);
/* part_graph_find_storage - sets *STORAGE to the storage whose key PID has, such as "3/0"; for
 * graph_input.find_storage. USER points to a struct whose first member is the pointer to the file. */
ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                    ckpt_error *err);
/* part_graph_add_unreferenced - adds the storages of F to which only objects that are not tensors refer; for
 * f->add_opaque_storages. */
ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err);
