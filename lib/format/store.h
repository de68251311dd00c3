/* store.h - the keys and values that Zarr's arrays are made of: the files of a folder, or what an OCDBT has.
 * */
#ifndef FORMAT_STORE_H
#define FORMAT_STORE_H

#include "codec/ocdbt.h"
#include "core/file.h"

#define STORE_WHOLE UINT64_MAX /* the length of an entry that is a file */

struct store {
    ckpt_file *f;
    ckpt_error *err;     /* for all calls with this store */
    ckpt_str folder;     /* in that of F: empty, or with '/' at its end */
    const char *trusted; /* a file of F: where it is a link to, others may be; or NULL */
    struct ocdbt db;     /* its entries and files, also where it is a folder */
    struct ocdbt_files files;
};

/* store_open - S, of which f, err, folder and trusted are set, has the files of the folder and of those in it;
 * if IS_OCDBT, what the database there has. */
ckpt_status store_open(struct store *s, bool is_ocdbt);
void store_close(struct store *s);
/* store_find - the first entry whose key is not less than KEY. */
size_t store_find(const struct store *s, ckpt_str key);
/* store_bytes - *SRC, a reference: what has the value of entry I, *N bytes at *AT. */
ckpt_status store_bytes(struct store *s, size_t i, source **src, uint64_t *at, uint64_t *n);
/* store_file - the path of the file that has the value of entry I, for errors, after store_bytes; NULL: a
 * node of the database has it. */
const char *store_file(const struct store *s, size_t i);
/* store_text - *TEXT: the value of entry I, in the arena of the file; refuses more than max_header. */
ckpt_status store_text(struct store *s, size_t i, ckpt_str *text);
/* store_read_file - *TEXT: all of the file NAME of the folder, the same. CKPT_ENOTFOUND: there is none. */
ckpt_status store_read_file(struct store *s, ckpt_str name, ckpt_str *text);

#endif
