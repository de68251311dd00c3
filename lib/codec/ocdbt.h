/* ocdbt.h - OCDBT, the database of keys and values that TensorStore keeps in a folder and Orbax writes. */
#ifndef CODEC_OCDBT_H
#define CODEC_OCDBT_H

#include "base/arena.h"
#include "base/map.h"
#include "io/source.h"

#define OCDBT_MANIFEST "manifest.ocdbt"
#define OCDBT_NUMBERED "manifest." /* and 16 digits */

struct ocdbt_file {
    ckpt_str path;     /* in the folder of the database */
    size_t base;       /* of PATH: what names in this file's nodes are relative to */
    source *src;       /* NULL: not opened yet */
    const char *shown; /* its path, for errors; NULL: there is none */
};

/* The files of a database, which whoever reads it opens. All but open may be NULL. */
struct ocdbt_files {
    /* open - sets src, which lives as long as the database, and shown of F, the file at f->path. */
    ckpt_status (*open)(void *user, struct ocdbt_file *f, ckpt_error *err);
    /* budget - N bytes of nodes, all so far, are parsed into the arena. */
    void (*budget)(void *user, uint64_t n);
    /* newest - *NAME: that of the numbered manifest with the greatest number; empty: there is none. */
    ckpt_status (*newest)(void *user, ckpt_str *name, ckpt_error *err);
    /* fault - ST and ERR are why a part of the tree cannot be read; CKPT_OK: leave it out. */
    ckpt_status (*fault)(void *user, ckpt_status st, ckpt_error *err);
    void *user;
};

struct ocdbt_entry {
    ckpt_str key;
    const unsigned char *bytes; /* the value; NULL: it is in a file */
    uint32_t file;
    uint64_t at, n;
};

struct ocdbt {
    arena *a;
    const struct ocdbt_files *files;
    uint64_t max_decoded; /* bytes of all nodes together that may still be decoded */
    struct ocdbt_file *file;
    size_t nfiles, cap_files;
    map *paths;                /* of FILE */
    struct ocdbt_entry *entry; /* in the order of their keys */
    size_t n, cap;
    uint64_t nodes, stored; /* that were read, and the bytes they take in their files */
};

/* ocdbt_record - *N: the bytes of the record at AT of SRC. Refuses what is none, reaches beyond its end or
 * has another checksum. */
ckpt_status ocdbt_record(source *src, uint64_t at, uint64_t *n, ckpt_error *err);
/* ocdbt_has_magic - does SRC begin as a record does? */
bool ocdbt_has_magic(source *src);
/* ocdbt_read - fills O, of which a, files and max_decoded are set, with the newest version of the database
 * whose MANIFEST that is. All of it lives in o->a but o->paths: ocdbt_free. */
ckpt_status ocdbt_read(struct ocdbt *o, source *manifest, ckpt_error *err);
void ocdbt_free(struct ocdbt *o);
/* ocdbt_file - *OUT: file FILE of O, not a reference. */
ckpt_status ocdbt_file(struct ocdbt *o, uint32_t file, source **out, ckpt_error *err);

#endif
