/* source.h - read-only bytes, read by position, with one bounds check for all kinds: a file, memory, a slice
 * of a source, or a source decoded on the fly. Any number of threads may read or locate a source at the same
 * time; one thread opens and closes it and counts its references. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/crc32.h"
#include "base/checked.h"
#include "base/error.h"

typedef struct source source;
struct patches;
struct window;

/* Receives the progress of reading a file that is being opened, on one thread. */
struct source_watch {
    int (*progress)(void *user, uint64_t done, uint64_t total); /* NULL: not reported */
    void *user;
    uint64_t done, total; /* bytes: read so far; to be read, as far as that is known */
    bool reads_all;       /* all bytes of each source are read */
    bool stopped;         /* progress asked to stop: each read fails with CKPT_ECANCELLED */
};

/* What a path in an archive or on a server is. */
enum member_kind {
    MEMBER_NONE,
    MEMBER_FILE,
    MEMBER_FOLDER,
    MEMBER_OTHER /* a link or device, several members of one name, or a file in one of these */
};

struct source_ops {
    /* read_at - reads N bytes at OFF, which are within [0, size). */
    ckpt_status (*read_at)(source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
    void (*close)(source *s); /* frees S itself */
    /* locate - sets position, for sources that must read the file to find it (members of an archive), by the
     * window W or, if it is NULL, together with the positions of similar sources. NULL: position is set from
     * the start. */
    ckpt_status (*locate)(source *s, struct window *w, ckpt_error *err);
    void (*advise_sequential)(source *s); /* see source_advise_sequential; may be NULL */
    bool (*extent)(source *s, uint64_t off, int *fd, uint64_t *at); /* see source_extent; may be NULL */
    /* map - see source_map; NULL: the bytes are encoded, or in several pieces. */
    ckpt_status (*map)(source *s, uint64_t off, const unsigned char **out, ckpt_error *err);
    void (*watch)(source *s, struct source_watch *w); /* see source_watch; may be NULL */
    /* origin - returns the source that S is made of, which source_check_unchanged checks in place of S. NULL:
     * it checks S, if that is a file. */
    source *(*origin)(const source *s);
    /* check - see source_check; NULL: there is no checksum of all bytes, or reading compares it. */
    ckpt_status (*check)(source *s, ckpt_error *err);
    /* open_file - of a source that stands for an archive or a server: see source_open_in; NULL: S is none. */
    ckpt_status (*open_file)(source *s, const char *path, source **out, ckpt_error *err);
    /* find, list - what members_find and members_list do, of such a source. */
    enum member_kind (*find)(const source *s, const char *path);
    ckpt_status (*list)(const source *s, const char *path, arena *a, bool (*match)(ckpt_str name),
                        ckpt_str **out, size_t *count, ckpt_error *err);
    void (*will_read)(source *s, uint64_t off, uint64_t nbytes); /* see source_will_read; may be NULL */
    /* prefetch - see source_prefetch; NULL: nothing is gained. */
    void (*prefetch)(source *s, const char *const *paths, size_t count);
};

#define SOURCE_BLOCK_MAX 0x1fffffffu

struct source {
    const struct source_ops *ops;
    uint64_t size;
    /* The offset of byte 0 in the outermost file, or in the archive's member that is read as a file;
     * CKPT_NO_OFFSET: the bytes are encoded there, or were not located yet. */
    _Atomic uint64_t position;
    int refs;
    uint32_t serializes_reads : 1; /* a read locks it: several threads are no faster than one */
    uint32_t block_size : 29; /* if not 0: reads of this many bytes, at multiples of it, are much cheaper */
    uint32_t larger_is_better : 1; /* reads of several blocks are cheaper still */
    uint32_t is_remote : 1;        /* a read may take a request to a server: nothing is read on suspicion */
};

/* source_read - reads NBYTES bytes at OFF; CKPT_ETRUNCATED if they are not all there. */
ckpt_status source_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err);
/* source_crc - updates *CRC, a checksum of KIND, with the NBYTES bytes at OFF; 0 is the checksum of no
 * bytes. */
ckpt_status source_crc(source *src, uint64_t off, uint64_t nbytes, enum crc_kind kind, uint32_t *crc,
                       ckpt_error *err);
/* source_check - compares all bytes of SRC with a checksum that is kept for them and that reading does not
 * compare, of an archive those of the members that were opened. They are read once, however often this is
 * called. CKPT_ECHECKSUM: they differ. */
ckpt_status source_check(source *src, ckpt_error *err);
/* source_is_zero - sets *ZERO to whether the NBYTES bytes at OFF are all zero; reads up to one that is
 * not. */
ckpt_status source_is_zero(source *src, uint64_t off, uint64_t nbytes, bool *zero, ckpt_error *err);
source *source_ref(source *src);
void source_unref(source *src); /* NULL is allowed */
/* source_locate - sets position, if it can be known. */
static inline ckpt_status source_locate(source *src, ckpt_error *err)
{
    return src->ops->locate ? src->ops->locate(src, NULL, err) : CKPT_OK;
}
/* source_pos - returns the offset of OFF where POSITION counts, or CKPT_NO_OFFSET. */
static inline uint64_t source_pos(const source *src, uint64_t off)
{
    uint64_t at;
    return src->position != CKPT_NO_OFFSET && checked_add(src->position, off, &at) ? at : CKPT_NO_OFFSET;
}
/* source_advise_sequential - hints that much of SRC will be read, front to back. */
void source_advise_sequential(source *src);
/* source_will_read - announces that the NBYTES bytes at OFF will be read, so that a server sends them, and
 * all others that were announced, when the first of them are read. */
void source_will_read(source *src, uint64_t off, uint64_t nbytes);
/* source_extent - returns true if the bytes from OFF on are stored unchanged in a file: at *AT of *FD. */
bool source_extent(source *src, uint64_t off, int *fd, uint64_t *at);
/* source_map - sets *OUT to the NBYTES >= 1 bytes at OFF without a copy, valid as long as SRC. A file is
 * mapped: if another program truncates it, reading raises SIGBUS. CKPT_EUNSUPPORTED: the bytes are
 * encoded. */
ckpt_status source_map(source *src, uint64_t off, size_t nbytes, const unsigned char **out, ckpt_error *err);
/* source_watch - makes WATCH (NULL: no one) receive the progress of reading SRC and slices of SRC. Kinds of
 * source other than files, memory and callbacks report none. */
void source_watch(source *src, struct source_watch *watch);
/* source_watch_read - reports to WATCH (may be NULL) that COUNT more bytes were read; CKPT_ECANCELLED:
 * stop. */
ckpt_status source_watch_read(struct source_watch *watch, uint64_t count, ckpt_error *err);
/* source_watch_add - adds COUNT to the bytes to be read, in WATCH (may be NULL). */
void source_watch_add(struct source_watch *watch, uint64_t count);

/* source_is_folder - returns true if PATH is a folder; "-" is not. */
bool source_is_folder(const char *path);
/* source_file_open - opens a regular file or block device for reading. A pipe or "-" is first spooled to a
 * temporary file without a name. */
ckpt_status source_file_open(const char *path, source **out, ckpt_error *err);
/* source_open_in - opens the file PATH in ARCHIVE (format/files/members.h) or, if that is NULL, on disk. */
ckpt_status source_open_in(source *archive, const char *path, source **out, ckpt_error *err);
/* source_prefetch - begins to read the COUNT files PATHS in ARCHIVE (may be NULL) at once, if it is a
 * server. */
void source_prefetch(source *archive, const char *const *paths, size_t count);
/* source_read_whole - reads SRC, of at most MAX bytes, to *OUT in A, and releases SRC. */
ckpt_status source_read_whole(source *src, uint64_t max, arena *a, ckpt_str *out, ckpt_error *err);
/* source_read_whole_file - reads the file PATH, of at most MAX bytes, to *OUT in A. Errors name the file. */
ckpt_status source_read_whole_file(const char *path, uint64_t max, arena *a, ckpt_str *out, ckpt_error *err);
/* source_file_park - closes the file SRC; each read opens it again and checks that it is the same file. For
 * sets of more files than may be open at a time. Must be called before other threads read SRC. Does nothing
 * for sources that cannot be opened twice. */
void source_file_park(source *src);
/* source_check_unchanged - returns CKPT_ECHANGED if the file was replaced, truncated or written to since
 * it was opened (size, mtime, inode), CKPT_EIO if a read failed; of a member of an archive, that file is
 * checked. Other kinds of source: CKPT_OK. */
ckpt_status source_check_unchanged(source *src, ckpt_error *err);
/* source_is_named_file - returns true if SRC is a regular file with a path, which other programs may
 * change. */
bool source_is_named_file(const source *src);
struct stat;
/* source_opened_stat - returns what the file of SRC, or of which SRC is a slice or a member, was when it was
 * opened; NULL: SRC is not from a file. */
const struct stat *source_opened_stat(const source *src);
/* source_check_not_written - returns CKPT_ECHANGED if the file SRC, which is named, was written to since it
 * was opened (size, mtime). It does not matter if a different file is at its path now. */
ckpt_status source_check_not_written(source *src, ckpt_error *err);
/* source_mem - makes a source of the SIZE bytes at DATA, which outlive it. POSITION: see struct source. NULL:
 * no memory. */
source *source_mem(const void *data, size_t size, uint64_t position);
/* source_callbacks - makes a source of bytes that the program reads itself, by FROM->read_at. Closing it
 * calls FROM->close only after source_finish_opening succeeded. */
ckpt_status source_callbacks(const ckpt_callbacks *from, source **out, ckpt_error *err);
/* source_finish_opening - ends the opening of SRC, a source of callbacks; ST is the status of opening. Unless
 * SALVAGE, fails if a read failed and opening went on without those bytes. */
ckpt_status source_finish_opening(source *src, ckpt_status st, bool salvage, ckpt_error *err);
/* source_slice - makes a source of [OFF, OFF+SIZE) of PARENT, to which it takes a reference; fails unless
 * PARENT has all of the range. */
ckpt_status source_slice(source *parent, uint64_t off, uint64_t size, source **out, ckpt_error *err);
/* source_root - returns the source that SRC is a slice of, or SRC itself; *OFF is where SRC begins in it. */
const source *source_root(const source *src, uint64_t *off);
/* source_patched - makes a source of PARENT with the patches PATCHES applied; PATCHES must outlive it. */
source *source_patched(source *parent, const struct patches *patches);
/* source_latin1 - makes a source of the COUNT bytes whose values are the code points of the UTF-8 text at
 * [OFF, OFF+SIZE) of PARENT: this is how Python 3 pickles bytes in protocol <= 2 (pickle.py save_bytes).
 * The caller has checked that the text has COUNT code points, all <= U+00FF. Forward reading is fast;
 * jumping back resumes from seek points every 64 KiB. */
ckpt_status source_latin1(source *parent, uint64_t off, uint64_t size, uint64_t count, source **out,
                          ckpt_error *err);
/* How the elements of a source are converted: each from IN_BYTES to OUT_BYTES bytes, at most 8. */
struct element_converter {
    uint32_t in_bytes, out_bytes;
    /* convert - converts COUNT elements at IN, which it may overwrite, to OUT. */
    void (*convert)(const void *user, unsigned char *in, size_t count, unsigned char *out);
};
/* source_elements - makes a source of SIZE bytes of elements, converted by HOW from those at OFF of PARENT,
 * which has all of them. It keeps a copy of the USER_SIZE bytes at USER. NULL: no memory. */
source *source_elements(source *parent, uint64_t off, uint64_t size, const struct element_converter *how,
                        const void *user, size_t user_size);
/* source_unpacked - makes a source of a byte for each of the COUNT elements that PARENT has, packed, in
 * BITS < 8 bits each, the first ones in the least significant bits of a byte. PARENT has all COUNT. */
ckpt_status source_unpacked(source *parent, uint64_t count, unsigned bits, source **out, ckpt_error *err);
