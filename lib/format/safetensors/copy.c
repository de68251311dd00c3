/* copy.c - a file of which names were to change, and none did: all of it, byte for byte, in
 * its own order, where the writer would sort the tensors. */
#include <stdlib.h>

#include "format/safetensors/safetensors.h"
#include "io/fd.h"
#include "io/sink.h"

bool safetensors_is_copy(const ckpt_plan *p)
{
    return p->renaming && !p->nrenames && !p->nedits && !p->cast && !p->root_depth && p->file->src &&
           p->file->format->write == safetensors_write && p->nentries == p->file->table.nrows;
}

ckpt_status safetensors_copy(ckpt_plan *p, const ckpt_write_options *o, sink *out, ckpt_error *err)
{
    source *src = p->file->src;
    uint64_t at = 0, from, pages = src->size - src->size % SINK_PAGE;
    int fd;
    CKPT_TRY(sink_reserve(out, src->size, err));
    CKPT_TRY(sink_skip(out, src->size, err));
    source_sequential(src);
    if (pages && source_extent(src, 0, &fd, &from) && sink_clone(out, 0, fd, from, pages))
        at = pages;
    unsigned char *chunk = malloc(FD_CHUNK);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    for (size_t n; st == CKPT_OK && at < src->size; at += n) { /* bounded: N is what is left, at most */
        n = src->size - at < FD_CHUNK ? (size_t)(src->size - at) : FD_CHUNK;
        st = source_read(src, at, chunk, n, err);
        if (st == CKPT_OK)
            st = sink_patch(out, at, chunk, n, err);
        if (st == CKPT_OK && o->progress && o->progress(o->user, at, src->size))
            st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    }
    free(chunk);
    return st == CKPT_OK ? file_unchanged(p->file, err) : st;
}
