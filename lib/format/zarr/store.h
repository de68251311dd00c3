/* store.h - a key-value store, as Zarr uses one: the files of a folder by path, or the entries of an OCDBT
 * database. */
#pragma once

#include "codec/ocdbt.h"
#include "core/file.h"

#define STORE_WHOLE_FILE UINT64_MAX /* the length of an entry whose value is a complete file */

struct store {
    ckpt_file *f;
    ckpt_error *err;     /* for all calls with this store */
    ckpt_str folder;     /* within f->folder: empty, or with '/' at its end */
    const char *trusted; /* as in part_files.h */
    struct ocdbt db;     /* the entries of the database or the folder, sorted by key */
    struct ocdbt_callbacks callbacks;
};

/* store_open - lists the files in and below the folder or, if IS_OCDBT, reads the database there. The caller
 * sets f, err, folder and trusted of STORE. */
ckpt_status store_open(struct store *store, bool is_ocdbt);
void store_close(struct store *store);
/* store_find - returns the index of the first entry whose key is not less than KEY; store->db.n: none. */
size_t store_find(const struct store *store, ckpt_str key);
/* store_find_bytes - finds the value of entry INDEX: *COUNT bytes at *AT of *SRC, to which the caller gets a
 * reference. */
ckpt_status store_find_bytes(struct store *store, size_t index, source **src, uint64_t *at, uint64_t *count);
/* store_file_path - returns the path of the file with the value of entry INDEX, for errors, after
 * store_find_bytes. NULL: the value is in a node of the database. */
const char *store_file_path(const struct store *store, size_t index);
/* store_read_text - reads the value of entry INDEX to *TEXT, in the arena of the file. Refuses more bytes
 * than max_header. */
ckpt_status store_read_text(struct store *store, size_t index, ckpt_str *text);
/* store_read_file - reads the file NAME of the folder in the same way. CKPT_ENOTFOUND: no such file. */
ckpt_status store_read_file(struct store *store, ckpt_str name, ckpt_str *text);
