/* sink.h - where output goes. A file sink's output appears whole or not at all:
 * bytes go to a sibling temporary file that replaces the target on commit. */
#ifndef IO_SINK_H
#define IO_SINK_H

#include "base/error.h"
#include "base/str.h"
#include "io/temp.h"

typedef struct sink sink;

/* Files that are of use only together: each one's commit makes it whole, none is
 * in its place before sink_batch_commit. Zero: empty. */
struct sink_batch {
    sink *first, *last;
    size_t n; /* each holds two descriptors */
    struct temp_tidied tidied; /* the folder of all or most of them */
};

struct sink_options {
    bool force;   /* an existing target may be replaced */
    bool no_sync; /* leave out the fsyncs */
    /* notice - hears of what the new file could not take over from the old one; may be NULL. */
    void (*notice)(void *user, const char *fmt, ...);
    void *user;
    struct sink_batch *batch; /* NULL: in its place on commit; else regular targets wait there */
};

/* sink_file - "-" is standard output, spooled and copied on commit. The target
 * must not exist unless force; its mode, owner and xattrs carry over then, and
 * a symlink is followed to the file it names. */
ckpt_status sink_file(const char *path, const struct sink_options *opts, sink **out, ckpt_error *err);
/* sink_mem - collects at most MAX bytes; see sink_mem_view. */
ckpt_status sink_mem(size_t max, sink **out, ckpt_error *err);
ckpt_str sink_mem_view(const sink *s);

/* sink_reserve - SIZE bytes will come; a full disk is found out now. */
ckpt_status sink_reserve(sink *s, uint64_t size, ckpt_error *err);
ckpt_status sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err);
/* sink_skip - the next N bytes are written by sink_patch. */
ckpt_status sink_skip(sink *s, uint64_t n, ckpt_error *err);
/* sink_patch - overwrites bytes already written or skipped. Several threads may, each
 * other bytes, while nobody uses S otherwise. */
ckpt_status sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
/* SINK_PAGE - bytes that are cloned begin at a multiple of it, here and there. */
#define SINK_PAGE 4096u
/* SINK_CLONE_LEAST - fewer bytes are copied sooner than shared. */
#define SINK_CLONE_LEAST (1u << 20)
/* sink_clone - N bytes at OFF, skipped before, become those at FROM of the file FD, by
 * sharing its blocks; all three are multiples of SINK_PAGE. False: not on this file
 * system, or not between these; they are as they were. Threads as with sink_patch. */
bool sink_clone(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n);
/* sink_tell - bytes written so far = offset of the next. */
uint64_t sink_tell(const sink *s);
/* sink_read - reads back bytes already written (verification before commit). */
ckpt_status sink_read(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err);
/* sink_commit - flushes, syncs and renames; S is freed whatever happens, and
 * after a failure the target is as it was. */
ckpt_status sink_commit(sink *s, ckpt_error *err);
/* sink_abort - nothing happened: removes the temporary, frees S. NULL allowed. */
void sink_abort(sink *s);
/* sink_end - sink_commit where ST, which came of writing S, is CKPT_OK, else sink_abort and ST. */
ckpt_status sink_end(sink *s, ckpt_status st, ckpt_error *err);
/* sink_file_bytes - all of BYTES as the file PATH. */
ckpt_status sink_file_bytes(const char *path, const struct sink_options *opts, ckpt_str bytes,
                            ckpt_error *err);
/* sink_batch_commit - puts all in their places, in the order of their commits, and
 * empties B. After a failure the first *PLACED are there and the others never were. */
ckpt_status sink_batch_commit(struct sink_batch *b, size_t *placed, ckpt_error *err);
void sink_batch_abort(struct sink_batch *b);
/* sink_emergency - async-signal-safe: unlinks every temporary now open. */
void sink_emergency(void);

#endif
