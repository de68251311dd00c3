/* sink.h - where output goes. A file appears complete or not at all: its bytes are written to a temporary
 * file next to it, which replaces it on commit. */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "io/temp.h"

typedef struct sink sink;

/* What each kind of sink provides; sink.c has checked all bounds before. */
struct sink_ops {
    ckpt_status (*reserve)(sink *s, uint64_t size, ckpt_error *err);
    ckpt_status (*write)(sink *s, const void *bytes, size_t n, ckpt_error *err); /* appends; N > 0 */
    ckpt_status (*skip)(sink *s, uint64_t n, ckpt_error *err);
    ckpt_status (*patch)(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
    ckpt_status (*read)(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err);
    ckpt_status (*commit)(sink *s, ckpt_error *err);                         /* frees S */
    void (*abort)(sink *s);                                                  /* frees S */
    bool (*clone)(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n); /* may be NULL */
};

struct sink {
    const struct sink_ops *ops;
    uint64_t len; /* bytes written */
};

/* Files that are useful only together, such as shards and their index. sink_commit completes one of them,
 * sink_batch_commit makes all of them visible. A batch is empty when all its fields are 0. */
struct sink_batch {
    sink *first, *last;
    size_t n;                             /* number of files; each keeps two descriptors open */
    struct cleaned_folder cleaned_folder; /* the folder of most files, already without leftovers */
};

struct sink_options {
    bool force;   /* an existing target may be replaced */
    bool no_sync; /* leave out the fsyncs */
    /* notice - called for each attribute of the old file that the new one cannot have; may be NULL. */
    void (*notice)(void *user, const char *fmt, ...);
    void *user;
    struct sink_batch *batch; /* if not NULL, regular files wait in it for sink_batch_commit */
};

/* sink_file - opens PATH for writing; "-" is standard output, spooled and copied on commit. If PATH is a
 * symlink, the target is the file that it names. A regular file or block device must not exist unless force;
 * the mode, owner and xattrs of a regular file that is replaced carry over. */
ckpt_status sink_file(const char *path, const struct sink_options *opts, sink **out, ckpt_error *err);
/* sink_file_check - refuses, for a dry run, what sink_file would refuse, as far as that can be found out
 * without creating a file. */
ckpt_status sink_file_check(const char *path, bool force, ckpt_error *err);
/* sink_fd - opens the descriptor FD for writing from its position: output is spooled, and copied there on
 * commit. FD stays open. */
ckpt_status sink_fd(int fd, const struct sink_options *opts, sink **out, ckpt_error *err);
/* sink_range - opens the file PATH, which is in the open folder FOLDER and has SIZE bytes, of which any range
 * may be patched. sink_commit makes the patches durable unless NO_SYNC. PATH must stay valid until then.
 * CKPT_ENOTFOUND: there is none. */
ckpt_status sink_range(int folder, const char *path, uint64_t size, bool no_sync, sink **out,
                       ckpt_error *err);
/* sink_range_make - makes that file with SIZE bytes, unless another process has; reserves the space. */
ckpt_status sink_range_make(int folder, const char *path, uint64_t size, ckpt_error *err);
/* Bytes to be freed by free(). */
struct sink_bytes {
    void *data;
    size_t n;
};
/* sink_mem - makes a sink that keeps at most MAX bytes in memory; commit moves them to TO (may be NULL). */
ckpt_status sink_mem(size_t max, struct sink_bytes *to, sink **out, ckpt_error *err);
ckpt_str sink_mem_view(const sink *out);

/* sink_reserve - reserves SIZE bytes, so that a full disk is noticed now. */
ckpt_status sink_reserve(sink *out, uint64_t size, ckpt_error *err);
ckpt_status sink_write(sink *out, const void *bytes, size_t nbytes, ckpt_error *err);
/* sink_skip - skips COUNT bytes, which are zeros until sink_patch writes them. The last byte of the output
 * must be written. */
ckpt_status sink_skip(sink *out, uint64_t count, ckpt_error *err);
/* sink_patch - overwrites bytes already written or skipped. Several threads may patch
 * different bytes at a time, while no other call uses OUT. */
ckpt_status sink_patch(sink *out, uint64_t off, const void *bytes, size_t nbytes, ckpt_error *err);
/* SINK_PAGE - cloned ranges begin at a multiple of it, in the source and in the sink. */
#define SINK_PAGE 4096u
/* SINK_CLONE_LEAST - fewer bytes are copied faster than shared. */
#define SINK_CLONE_LEAST (1u << 20)
/* sink_clone - makes NBYTES bytes at OFF, which were skipped, share the blocks of the NBYTES bytes at FROM of
 * the file FD; NBYTES, OFF and FROM are multiples of SINK_PAGE. False: the file system cannot do that;
 * nothing changed. Several threads may call it under the same conditions as sink_patch. */
bool sink_clone(sink *out, uint64_t off, int fd, uint64_t from, uint64_t nbytes);
/* sink_tell - returns the number of bytes written so far, which is the offset of the next. */
uint64_t sink_tell(const sink *out);
/* sink_read - reads back bytes already written (verification before commit). */
ckpt_status sink_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err);
/* sink_commit - flushes, syncs and renames; takes OUT, even if it fails. After a failure a file is unchanged,
 * except if only the sync of its folder failed. */
ckpt_status sink_commit(sink *out, ckpt_error *err);
/* sink_abort - removes the temporary, leaves the target alone, frees OUT. NULL allowed. */
void sink_abort(sink *out);
/* sink_end - commits OUT if ST, the result of writing it, is CKPT_OK; else aborts OUT and returns ST. */
ckpt_status sink_end(sink *out, ckpt_status st, ckpt_error *err);
ckpt_status sink_write_whole_file(const char *path, const struct sink_options *opts, ckpt_str bytes,
                                  ckpt_error *err);
/* sink_batch_commit - moves all files into place, in the order of their commits, and empties BATCH. After a
 * failure the first *PLACED files are in place; the targets of the others are unchanged. */
ckpt_status sink_batch_commit(struct sink_batch *batch, size_t *placed, ckpt_error *err);
void sink_batch_abort(struct sink_batch *batch);
/* sink_hint_folder - if the folder DIR does not exist, sets ERR's hint to the command that makes it. */
void sink_hint_folder(ckpt_error *err, const char *dir);
