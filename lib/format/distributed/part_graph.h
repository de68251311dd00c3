/* part_graph.h - the graph of one file as a part of that of another, which is made of many. */
#ifndef FORMAT_DISTRIBUTED_PART_GRAPH_H
#define FORMAT_DISTRIBUTED_PART_GRAPH_H

#include "format/torch/graph.h"

/* part_graph_take - *ROOT is the graph of PART, one of the parts of F, which torch_graph can walk as F's: its
 * rows are forgotten, its storages have the number of PART in front of their keys, its pickles are F's. */
ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err);
/* part_graph_find_storage - for torch_graph: a storage of such a part. USER begins with a pointer to the file. */
ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                    ckpt_error *err);
/* part_graph_add_unreferenced - for F's resolve: the storages that only objects of unknown classes have. */
ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err);

#endif
