/* zip.h - the members of a zip archive as sources. zip_layout.c reads and checks the structure;
 * zip_inflate.c inflates deflated members by libzip. */
#ifndef CODEC_ZIP_H
#define CODEC_ZIP_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/map.h"
#include "codec/zip_header.h"

struct zip_entry {
    ckpt_str name;   /* as in the central directory; any bytes */
    uint64_t header; /* offset of the local header */
    uint64_t data;   /* offset of the payload; set by zip_locate_payload */
    uint64_t csize, usize;
    uint64_t limit; /* end of its bytes: offset of the next entry or of the directory */
    uint32_t crc;
    uint16_t method, flags;
    atomic_bool data_known; /* then data does not change any more */
    bool duplicate;         /* another entry has the same name */
    bool raw_deflate;       /* zip_salvage: deflated; inflated without libzip, which needs the directory */
    bool crc_unknown;       /* zip_salvage: crc is not recorded anywhere intact */
    const char *fault;      /* zip_salvage: why it is not intact, or NULL */
};

typedef struct zip {
    source *src;
    arena *a;
    struct zip_entry *entries; /* central directory order */
    size_t n;
    map *names;        /* exact name -> first entry; NULL after zip_free_names */
    map *folded;       /* zip_index_case_folded: name in lower case -> entry, if it had capitals */
    char *lookup_name; /* scratch for a name of LONGEST bytes */
    size_t longest;
    pthread_mutex_t lock;      /* of window, located, sequential, and of entries until data_known */
    struct zip_window *window; /* the local headers read last */
    uint32_t *order;           /* entries by offset of their headers */
    uint64_t directory;        /* offset of the central directory */
    uint64_t end;              /* first byte after the end record and its comment */
    uint64_t shift;            /* bytes before the archive: added to every offset */
    bool other_methods;        /* set by the format: members may be bzip2, LZMA …, where libzip has it */
    bool crc_none;             /* every CRC in it is 0: none recorded */
    bool located;              /* zip_locate_all was called */
    bool sequential;           /* source_sequential was called */
    struct inflater *inflater; /* opened on first need */
} zip;

/* zip_new - an archive in SRC (referenced, not taken) without entries yet. NULL: no memory. */
zip *zip_new(source *src, arena *a);
/* zip_open - reads and checks the structure of the archive in SRC (takes a reference): end record, zip64
 * fields, every directory entry; entries must be within the file and must not overlap. Bytes before or
 * after a valid archive are allowed: shift > 0, end < size. */
ckpt_status zip_open(source *src, arena *a, zip **out, ckpt_error *err);
void zip_close(zip *z); /* NULL is allowed */
typedef ckpt_status zip_entry_visitor(void *user, size_t i, const struct zip_entry *e, ckpt_error *err);
/* zip_visit_entries - passes each of the *N entries of the directory in SRC to EACH, which may refuse it,
 * and keeps none. Each is checked on its own. Bytes before or after the archive are an error. */
ckpt_status zip_visit_entries(source *src, zip_entry_visitor *each, void *user, size_t *n, ckpt_error *err);
/* zip_find - index of the entry of exactly that name, or -1. */
int64_t zip_find(const zip *z, ckpt_str name);
/* zip_free_names - frees the index of names once few more lookups are expected: zip_find then searches. */
void zip_free_names(zip *z);
/* zip_index_case_folded - makes the index that zip_find_case_folded needs. */
ckpt_status zip_index_case_folded(zip *z, ckpt_error *err);
/* zip_find_case_folded - zip_find for FOLDER and NAME joined; if there is no exact match, the case of ASCII
 * letters is ignored, as torch does. It allocates nothing, so a
 * name is never reported missing for lack of memory. */
int64_t zip_find_case_folded(const zip *z, ckpt_str folder, ckpt_str name);
/* zip_locate_payload - reads the local header of entry I, compares it with the directory (name, method, and
 * CRC and sizes if it has them) and sets data. Any number of threads may call it at the same time, and read
 * members. */
ckpt_status zip_locate_payload(zip *z, size_t i, ckpt_error *err);
/* zip_locate_all - zip_locate_payload for every entry, in file order through a large window;
 * zip_locate_payload reports their faults later. */
void zip_locate_all(zip *z);
/* zip_open_member - entry I as a source: its bytes if stored, inflated on the fly (never beyond usize) if
 * deflated; other methods and encryption are refused by name. The local header is read with the first byte,
 * or by source_locate, so that listing many members takes no read. The zip must outlive it. */
ckpt_status zip_open_member(zip *z, size_t i, source **out, ckpt_error *err);
/* zip_load_member - reads entry I, at most MAX bytes, into the arena, and checks its CRC unless crc_none. */
ckpt_status zip_load_member(zip *z, size_t i, uint64_t max, ckpt_str *out, ckpt_error *err);

#endif
