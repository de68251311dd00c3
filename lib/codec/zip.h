/* zip.h - an archive's members as sources. The structure is read by zip_layout.c
 * (offsets, audit); deflated members are inflated by libzip in zip_inflate.c. */
#ifndef CODEC_ZIP_H
#define CODEC_ZIP_H

#include "base/arena.h"
#include "base/map.h"
#include "codec/zip_header.h"

struct zip_entry {
    ckpt_str name;   /* as in the central directory; may hold anything */
    uint64_t header; /* offset of the local header */
    uint64_t data;   /* offset of the payload; filled by zip_data */
    uint64_t csize, usize;
    uint64_t limit; /* first byte behind it: the next entry or the directory */
    uint32_t crc;
    uint16_t method, flags;
    bool data_known;
    bool duplicate; /* another entry has the same name */
    bool alone;        /* zip_salvage: deflated, and unpacked without the directory */
    bool crc_unknown;  /* zip_salvage: what recorded it is gone */
    const char *fault; /* zip_salvage: why it is not whole, or NULL */
};

typedef struct zip {
    source *src;
    arena *a;
    struct zip_entry *entries; /* central directory order */
    size_t n;
    map *names;                /* exact name -> first entry; NULL after zip_free_names */
    map *folded;               /* zip_fold: name in small letters -> entry, where that is another name */
    char *name;                /* and room for the longest */
    size_t longest;
    struct zip_window *window; /* local headers read lately */
    uint32_t *order;           /* entries by offset of their headers */
    uint64_t directory;        /* offset of the central directory */
    uint64_t end;              /* first byte behind the end record and its comment */
    uint64_t shift;            /* bytes before the archive: added to every offset */
    bool crc_none;             /* every CRC in it is 0: none recorded */
    bool located;              /* zip_locate goes over it, or did */
    bool sequential;           /* all of it will be read */
    struct inflater *inflater; /* opened on first need */
} zip;

/* zip_open - reads and audits the structure of the archive in SRC (referenced,
 * not taken): end record, zip64 fields, every directory entry, extents inside
 * the file and free of overlap. Trailing and leading junk is tolerated where
 * the archive is sound and visible as end < size and shift > 0. */
ckpt_status zip_open(source *src, arena *a, zip **out, ckpt_error *err);
void zip_close(zip *z); /* NULL is allowed */
/* zip_walk - every entry of the directory in SRC, checked by itself, none of them kept: EACH,
 * which may refuse it, gets entry I of *N. What precedes the archive or follows it is a fault. */
typedef ckpt_status zip_each(void *user, size_t i, const struct zip_entry *e, ckpt_error *err);
ckpt_status zip_walk(source *src, zip_each *each, void *user, size_t *n, ckpt_error *err);
/* zip_find - index of the entry of exactly that name, or -1. */
int64_t zip_find(const zip *z, ckpt_str name);
/* zip_free_names - frees the index of names, once few are looked up: zip_find then searches. */
void zip_free_names(zip *z);
/* zip_find_fold - the same for FOLDER and NAME together, taking ASCII letters of either case for equal when
 * there is no exact match: that is how torch looks names up. After zip_fold, which makes what it needs: it
 * takes no memory, so nothing is called missing for want of some. */
ckpt_status zip_fold(zip *z, ckpt_error *err);
int64_t zip_find_fold(const zip *z, ckpt_str folder, ckpt_str name);
/* zip_data - reads the local header of entry I, compares it with the directory
 * (name, method, and CRC and sizes where it has them) and fills data. */
ckpt_status zip_data(zip *z, size_t i, ckpt_error *err);
/* zip_locate - zip_data for every entry, in the order of the file through a
 * large window; faults stay for zip_data to report. */
void zip_locate(zip *z);
/* zip_member - entry I as a source: the bytes themselves when stored, inflated
 * on the fly when deflated (never beyond usize); other methods and encryption
 * are refused by name. Its local header is read when the first byte is wanted,
 * or by source_locate: listing twenty thousand members costs no read at all.
 * The zip must outlive it. */
ckpt_status zip_member(zip *z, size_t i, source **out, ckpt_error *err);
/* zip_load - the whole of entry I in the arena, at most MAX bytes, its CRC
 * checked unless crc_none. */
ckpt_status zip_load(zip *z, size_t i, uint64_t max, ckpt_str *out, ckpt_error *err);

#endif
