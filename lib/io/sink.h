/* sink.h - where output goes. A file sink's output appears whole or not at all:
 * bytes go to a sibling temporary file that replaces the target on commit. */
#ifndef IO_SINK_H
#define IO_SINK_H

#include "base/error.h"
#include "base/str.h"

typedef struct sink sink;

struct sink_options {
    bool force;   /* an existing target may be replaced */
    bool no_sync; /* leave out the fsyncs */
    /* notice - hears of what the new file could not take over from the old one; may be NULL. */
    void (*notice)(void *user, const char *fmt, ...);
    void *user;
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
/* sink_patch - overwrites bytes already written. */
ckpt_status sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
/* sink_tell - bytes written so far = offset of the next. */
uint64_t sink_tell(const sink *s);
/* sink_read - reads back bytes already written (verification before commit). */
ckpt_status sink_read(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err);
/* sink_commit - flushes, syncs and renames; S is freed whatever happens, and
 * after a failure the target is as it was. */
ckpt_status sink_commit(sink *s, ckpt_error *err);
/* sink_abort - nothing happened: removes the temporary, frees S. NULL allowed. */
void sink_abort(sink *s);
/* sink_emergency - async-signal-safe: unlinks every temporary now open. */
void sink_emergency(void);

#endif
