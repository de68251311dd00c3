/* source.h - where bytes live: positional, read-only, bounds checked in one
 * place. A source is a file, memory, a slice of a source, or a source decoded
 * on the fly; whoever reads one cannot tell. Counted references. */
#ifndef IO_SOURCE_H
#define IO_SOURCE_H

#include "base/error.h"
#include "base/str.h"

typedef struct source source;
struct patches;

struct source_ops {
    /* read_at - exactly N bytes at OFF, which lie inside [0, size). */
    ckpt_status (*read_at)(source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
    void (*close)(source *s); /* frees S itself */
    /* locate - fills in base where that needs a look at the file (members of
     * an archive); NULL: base is right from the start. */
    ckpt_status (*locate)(source *s, ckpt_error *err);
    void (*sequential)(source *s);                                  /* see source_sequential; may be NULL */
    bool (*extent)(source *s, uint64_t off, int *fd, uint64_t *at); /* see source_extent; may be NULL */
};

struct source {
    const struct source_ops *ops;
    uint64_t size;
    uint64_t base; /* absolute offset of byte 0 in the outermost file, or
                      CKPT_NO_OFFSET when the bytes there are encoded */
    int refs;
    uint32_t serial : 1; /* reading moves a state of its own: for one thread at a time */
    uint32_t block : 31; /* 0, or: reads of so many bytes at multiples of it are much cheaper */
};

/* source_read - N bytes at OFF; CKPT_ETRUNCATED when they are not all there. */
ckpt_status source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
source *source_ref(source *s);
void source_unref(source *s); /* NULL is allowed */
/* source_locate - makes base known, if it can be. */
static inline ckpt_status source_locate(source *s, ckpt_error *err)
{
    return s->ops->locate ? s->ops->locate(s, err) : CKPT_OK;
}
/* source_pos - absolute offset of OFF in the outermost file or CKPT_NO_OFFSET. */
uint64_t source_pos(const source *s, uint64_t off);
/* source_sequential - a hint: much will be read, front to back. */
void source_sequential(source *s);
/* source_extent - do the bytes from OFF on lie in a file as they are? *FD from *AT on. */
bool source_extent(source *s, uint64_t off, int *fd, uint64_t *at);

/* source_is_folder - is PATH a folder? "-" is not. */
bool source_is_folder(const char *path);
/* source_file_open - a regular file (or block device), opened read-only. A
 * pipe or "-" is spooled to an unlinked temporary file first. */
ckpt_status source_file_open(const char *path, source **out, ckpt_error *err);
/* source_file_park - the file S is closed until it is read; each read opens it again, and it must be the
 * same: one of so many that they cannot all be open. Before other threads read it; nothing to do for other
 * sources and what cannot be opened twice. */
void source_file_park(source *s);
/* source_file_changed - was the file replaced, truncated or written to since
 * it was opened (size, mtime, inode)? CKPT_ECHANGED if so, CKPT_EIO where a read failed. Other kinds of
 * source: CKPT_OK. */
ckpt_status source_file_changed(source *s, ckpt_error *err);
/* source_file_named - is S a file that a path leads to, and that others may change? */
bool source_file_named(const source *s);
/* source_file_written - was the file S, which is named, written to since it was opened (size, mtime)? What is
 * in its place now does not count. CKPT_ECHANGED if so. */
ckpt_status source_file_written(source *s, ckpt_error *err);
/* source_mem - SIZE bytes at DATA, which must outlive the source; BASE as in
 * struct source. NULL: no memory. */
source *source_mem(const void *data, size_t size, uint64_t base);
/* source_slice - [OFF, OFF+SIZE) of PARENT, which it keeps alive; must lie inside. */
ckpt_status source_slice(source *parent, uint64_t off, uint64_t size, source **out, ckpt_error *err);
/* source_root - what S is a slice of, S itself if it is none; *OFF is where S begins there. */
const source *source_root(const source *s, uint64_t *off);
/* source_patched - PARENT as it will be with these patches made; both must outlive it. */
source *source_patched(source *parent, const struct patches *p);
/* source_latin1 - UTF-8 text at [OFF, OFF+SIZE) of PARENT whose COUNT code
 * points are all <= U+00FF, seen as COUNT bytes: how Python 3 pickles bytes in
 * protocol <= 2 (pickle.py save_bytes). Validated by the caller. Forward reading
 * is fast, jumping back is served from checkpoints every 64 KiB. */
ckpt_status source_latin1(source *parent, uint64_t off, uint64_t size, uint64_t count, source **out,
                          ckpt_error *err);

#endif
