/* ocdbt.h - reads OCDBT, the key-value database in a folder that TensorStore defines and Orbax writes. */
#pragma once

#include "base/map.h"
#include "io/source.h"

#define OCDBT_MANIFEST "manifest.ocdbt"
#define OCDBT_NUMBERED "manifest." /* and 16 digits */

struct ocdbt_file {
    ckpt_str path;     /* path in the folder of the database */
    size_t base_len;   /* paths in the nodes of this file are relative to the first BASE_LEN bytes of PATH */
    source *src;       /* NULL: not opened yet */
    const char *shown; /* its path as errors show it; NULL: there is none */
};

/* Callbacks of ocdbt_read. All but open_file may be NULL. */
struct ocdbt_callbacks {
    /* open_file - sets F->shown, and F->src to the file at F->path, which lives as long as the database. */
    ckpt_status (*open_file)(void *user, struct ocdbt_file *f, ckpt_error *err);
    /* on_record_read - is called before each manifest or node is read. N: bytes of all up to this one. */
    void (*on_record_read)(void *user, uint64_t n);
    /* find_newest_manifest - sets *NAME to the manifest with the greatest number; empty: there is none. */
    ckpt_status (*find_newest_manifest)(void *user, ckpt_str *name, ckpt_error *err);
    /* on_fault - is called if a subtree cannot be read because of ST and ERR. Returns CKPT_OK to leave the
     * subtree out. */
    ckpt_status (*on_fault)(void *user, ckpt_status st, ckpt_error *err);
    void *user;
};

struct ocdbt_entry {
    ckpt_str key;
    const unsigned char *bytes; /* the value; NULL: it is in a file */
    uint32_t file;              /* index into ocdbt.files */
    uint64_t at, n;             /* offset in that file; size of the value */
};

struct ocdbt {
    arena *a;
    const struct ocdbt_callbacks *callbacks;
    uint64_t max_decoded; /* bytes of all nodes together that may still be decoded */
    struct ocdbt_file *files;
    size_t nfiles, cap_files;
    map *paths;                  /* path -> index into files */
    struct ocdbt_entry *entries; /* sorted by key */
    size_t n, cap;
    uint64_t nodes_read, stored_bytes; /* nodes that were read; bytes in the files of these and manifests */
};

/* ocdbt_measure_record - sets *COUNT to the size of the record at AT of SRC. Refuses bytes that are no
 * record, a record that ends beyond the end of SRC, and a wrong checksum. */
ckpt_status ocdbt_measure_record(source *src, uint64_t at, uint64_t *count, ckpt_error *err);
bool ocdbt_has_magic(source *src);
/* ocdbt_read - reads the newest version of the database with this MANIFEST into OCDBT, of which the caller
 * has set a, callbacks and max_decoded. Everything but ocdbt->paths is in ocdbt->a; the caller calls
 * ocdbt_free, also after a failure. */
ckpt_status ocdbt_read(struct ocdbt *ocdbt, source *manifest, ckpt_error *err);
void ocdbt_free(struct ocdbt *ocdbt);
/* ocdbt_open_file - sets *OUT to the source of file number FILE of OCDBT, without a reference for the
 * caller. */
ckpt_status ocdbt_open_file(struct ocdbt *ocdbt, uint32_t file, source **out, ckpt_error *err);
