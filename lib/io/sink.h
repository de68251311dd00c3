/* sink.h - where output goes. A file sink's output appears whole or not at all:
 * bytes go to a sibling temporary file that replaces the target on commit. */
#ifndef IO_SINK_H
#define IO_SINK_H

#include "base/error.h"
#include "base/str.h"
#include "io/temp.h"

typedef struct sink sink;

/* Files that are useful only together: the commit of each completes it, and none is
 * visible before sink_batch_commit. Zero: empty. */
struct sink_batch {
    sink *first, *last;
    size_t n;                  /* files; each keeps two descriptors open */
    struct cleaned_folder cleaned_folder; /* the folder of all or most of them */
};

struct sink_options {
    bool force;   /* an existing target may be replaced */
    bool no_sync; /* leave out the fsyncs */
    /* notice - called for each attribute of the old file that the new one cannot have; may be NULL. */
    void (*notice)(void *user, const char *fmt, ...);
    void *user;
    struct sink_batch *batch; /* NULL: visible on commit; else regular targets wait there */
};

/* sink_file - opens PATH for writing; "-" is standard output, spooled and copied on commit. The target must
 * not exist unless force; then its mode, owner and xattrs carry over, and a symlink is followed to the file
 * it names. */
ckpt_status sink_file(const char *path, const struct sink_options *opts, sink **out, ckpt_error *err);
/* sink_file_check - for a dry run: refuses what sink_file would, as far as that shows without creating a
 * file. */
ckpt_status sink_file_check(const char *path, bool force, ckpt_error *err);
/* sink_fd - opens the descriptor FD for writing from its position: output is spooled, and copied there on
 * commit. FD stays open. */
ckpt_status sink_fd(int fd, const struct sink_options *opts, sink **out, ckpt_error *err);
/* Bytes to be freed by free(). */
struct sink_bytes {
    void *data;
    size_t n;
};
/* sink_mem - keeps at most MAX bytes in memory, which commit moves to TO (may be NULL); see sink_mem_view. */
ckpt_status sink_mem(size_t max, struct sink_bytes *to, sink **out, ckpt_error *err);
ckpt_str sink_mem_view(const sink *s);

/* sink_reserve - reserves SIZE bytes, so that a full disk is noticed now. */
ckpt_status sink_reserve(sink *s, uint64_t size, ckpt_error *err);
ckpt_status sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err);
/* sink_skip - skips N bytes, which are zeros until sink_patch writes them. The last bytes of the file must be
 * written. */
ckpt_status sink_skip(sink *s, uint64_t n, ckpt_error *err);
/* sink_patch - overwrites bytes already written or skipped. Several threads may patch
 * different bytes at a time, while no other call uses S. */
ckpt_status sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
/* SINK_PAGE - cloned ranges begin at a multiple of it, in the source and in the sink. */
#define SINK_PAGE 4096u
/* SINK_CLONE_LEAST - fewer bytes are copied faster than shared. */
#define SINK_CLONE_LEAST (1u << 20)
/* sink_clone - N bytes at OFF, skipped before, become those at FROM of the file FD, by
 * sharing its blocks; all three are multiples of SINK_PAGE. False: this file
 * system, or this pair of them, cannot; nothing changed. Threads as with sink_patch. */
bool sink_clone(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n);
/* sink_tell - bytes written so far = offset of the next. */
uint64_t sink_tell(const sink *s);
/* sink_read - reads back bytes already written (verification before commit). */
ckpt_status sink_read(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err);
/* sink_commit - flushes, syncs and renames; S is freed whatever happens, and
 * after a failure the target is as it was. */
ckpt_status sink_commit(sink *s, ckpt_error *err);
/* sink_abort - removes the temporary, leaves the target alone, frees S. NULL allowed. */
void sink_abort(sink *s);
/* sink_end - sink_commit if ST, the result of writing S, is CKPT_OK, else sink_abort; returns ST then. */
ckpt_status sink_end(sink *s, ckpt_status st, ckpt_error *err);
/* sink_file_bytes - writes BYTES as the file PATH. */
ckpt_status sink_file_bytes(const char *path, const struct sink_options *opts, ckpt_str bytes,
                            ckpt_error *err);
/* sink_batch_commit - moves all files into place, in the order of their commits, and
 * empties B. After a failure the first *PLACED are there and the others are gone. */
ckpt_status sink_batch_commit(struct sink_batch *b, size_t *placed, ckpt_error *err);
void sink_batch_abort(struct sink_batch *b);
/* sink_hint_folder - if the folder DIR does not exist, sets ERR's hint to the command that makes it. */
void sink_hint_folder(ckpt_error *err, const char *dir);
/* sink_emergency - async-signal-safe: unlinks every temporary now open. */
void sink_emergency(void);

#endif
