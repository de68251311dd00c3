/* zip.h - opens the members of a zip archive as sources. zip_layout.c reads and checks the structure;
 * zip_inflate.c opens compressed members; zip_salvage.c opens damaged archives. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "codec/zip_header.h"

struct zip_entry {
    ckpt_str name;          /* as in the central directory; any bytes */
    uint64_t header_offset; /* of the local header */
    uint64_t data_offset;   /* of the payload; set by zip_locate_payload */
    uint64_t csize, usize;
    uint64_t next_at; /* of the next local header or of the central directory; the payload ends before it */
    uint32_t crc;
    uint16_t method, flags;
    atomic_bool is_located;     /* data_offset is set, and does not change any more */
    atomic_bool is_reported;    /* its fault was returned as an error */
    bool duplicate;             /* another entry has the same name */
    bool is_alias;              /* zip_salvage: the same member as an earlier entry, by the other name */
    bool avoids_libzip;         /* set by zip_salvage, because libzip needs the central directory */
    bool crc_unknown;           /* zip_salvage: no intact header or descriptor has its CRC */
    const char *fault;          /* zip_salvage: why it is not intact, or NULL */
    const ckpt_str *other_name; /* zip_salvage: the name in its other header if it differs, or NULL */
};

typedef struct zip {
    source *src;
    arena *a;
    struct zip_entry *entries; /* central directory order */
    size_t n;
    map *names;                /* exact name -> first entry not in the run; NULL after zip_free_names */
    size_t run_begin, run_end; /* a run of entries whose names are in order, so that they need no map */
    map *names_by_lower_case; /* a name with capitals, in lower case -> entry; set by zip_index_case_folded */
    char *lookup_name;        /* room for the name that zip_find_case_folded builds */
    size_t longest_name;      /* in bytes */
    pthread_mutex_t check_lock;  /* held while the bytes of a stored member are compared */
    pthread_mutex_t lock;        /* protects window, all_located, and entries until is_located */
    struct zip_window *window;   /* the local headers read last */
    uint32_t *entries_by_offset; /* the indexes of entries, sorted by the offset of their headers; NULL: they
                                    are in this order */
    uint64_t directory_at;       /* offset of the central directory */
    uint64_t archive_end;        /* first byte after the end record and its comment */
    uint64_t prefix_size;        /* bytes before the archive, which are added to every offset in it */
    bool allows_other_methods;   /* set by the format: opens members in bzip2, LZMA … too, if libzip can */
    bool crc_none;               /* every CRC in the central directory is 0: none was computed */
    bool all_located;            /* zip_locate_all was called */
    bool without_directory;      /* zip_salvage: the members were found by local headers */
    struct inflater *inflater;   /* opened on first need */
} zip;

/* zip_new - returns an archive without entries that refers to SRC; NULL: out of memory. */
zip *zip_new(source *src, arena *a);
/* zip_open - reads and checks the structure of the archive in SRC (takes a reference): end record, zip64
 * fields, every directory entry; entries must be within the file and must not overlap. Bytes before or after
 * a valid archive are allowed: see prefix_size and archive_end. */
ckpt_status zip_open(source *src, arena *a, zip **out, ckpt_error *err);
/* zip_salvage - opens an archive like zip_open, by its central directory if that is valid, else by its
 * local headers. Reads every member and compares its checksum. Sets the fault of each entry whose member is
 * not intact; zip_open_member fails with this fault. */
ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err);
void zip_close(zip *archive); /* NULL is allowed */
typedef ckpt_status zip_entry_visitor(void *user, size_t i, const struct zip_entry *e, ckpt_error *err);
/* zip_visit_entries - calls EACH for every entry of the central directory in SRC, and sets *COUNT to their
 * number. Keeps no entry in memory, so entries are not compared with each other. Stops with the error of
 * EACH. Fails if there are bytes before or after the archive. */
ckpt_status zip_visit_entries(source *src, zip_entry_visitor *each, void *user, size_t *count,
                              ckpt_error *err);
/* zip_find - returns the index of the entry whose name is exactly NAME, or -1. */
int64_t zip_find(const zip *archive, ckpt_str name);
/* zip_index_names - makes the index of names, and sets `duplicate` of the entries. */
ckpt_status zip_index_names(zip *archive, ckpt_error *err);
/* zip_free_names - frees the index of names, for when few lookups will follow: zip_find then compares every
 * name. */
void zip_free_names(zip *archive);
/* zip_index_case_folded - makes the index that zip_find_case_folded needs. */
ckpt_status zip_index_case_folded(zip *archive, ckpt_error *err);
/* zip_find_case_folded - returns the index of the entry whose name is FOLDER and NAME joined, or -1. If there
 * is no exact match, the case of ASCII letters is ignored, as by torch. Allocates nothing, so a name is never
 * missing for lack of memory; builds the name in ARCHIVE, so not for two threads at once. */
int64_t zip_find_case_folded(zip *archive, ckpt_str folder, ckpt_str name);
/* zip_locate_payload - sets data_offset of entry INDEX by its local header, which must match the central
 * directory in name, method, and CRC and sizes if it has them. Several threads may call it, and read members,
 * at the same time. */
ckpt_status zip_locate_payload(zip *archive, size_t index, ckpt_error *err);
/* zip_locate_all - locates the payload of every entry in file order, reading many headers at a time. Ignores
 * faults: zip_locate_payload reports them later. */
void zip_locate_all(zip *archive);
/* zip_will_read - announces that entry INDEX and its local header will be read, see source_will_read. */
void zip_will_read(zip *archive, size_t index);
/* zip_open_member - opens entry INDEX as a source: its bytes if stored, inflated on the fly (never beyond
 * usize) if deflated. Refuses encryption and most other methods, and names them. The local header is read
 * with the first byte, or by source_locate: listing many members reads none. The zip must outlive the
 * source. */
ckpt_status zip_open_member(zip *archive, size_t index, source **out, ckpt_error *err);
/* zip_load_member - reads entry INDEX, at most MAX bytes, into the arena, and checks its CRC unless
 * crc_none. */
ckpt_status zip_load_member(zip *archive, size_t index, uint64_t max, ckpt_str *out, ckpt_error *err);
