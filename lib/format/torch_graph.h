/* torch_graph.h - the meaning of a torch pickle: which nodes are tensors, what
 * they look at, what they are called. Shared by every torch container. */
#ifndef FORMAT_TORCH_GRAPH_H
#define FORMAT_TORCH_GRAPH_H

#include "core/file.h"

/* How a container finds the bytes of a storage. */
struct torch_storages {
    void *user;
    /* find - fills S->src, off, s.nbytes, crc … for storage KEY of DTYPE with
     * NUMEL elements (numel of an untyped one counts bytes). */
    ckpt_status (*find)(void *user, ckpt_str key, ckpt_dtype dtype, uint64_t numel, struct storage *s, ckpt_error *err);
    bool big_endian;
    bool exact;  /* pid may hold keys that are ints too */
};

/* torch_graph - adds every tensor and leaf that ROOT reaches to F, below PREFIX
 * (path elements put in front), in document order. May be called for several
 * roots of one file. */
ckpt_status torch_graph(ckpt_file *f, ckpt_value *root, const ckpt_path_elem *prefix, uint32_t nprefix,
                        const struct torch_storages *storages, ckpt_error *err);

#endif
