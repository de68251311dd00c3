/* skops.h - the names of the arrays in a file of skops. */
#ifndef FORMAT_NUMPY_SKOPS_H
#define FORMAT_NUMPY_SKOPS_H

#include "base/map.h"
#include "codec/zip.h"
#include "format/format.h"

#define SKOPS_SCHEMA "schema.json"

struct skops {
    bool is_skops; /* the archive has a schema of skops */
    arena *a;
    ckpt_str *names;
    size_t nnames, cap;
    map *files; /* from the name of a member to the index of its name in NAMES */
    map *used;  /* the names */
};

/* skops_read - reads the names of the arrays in Z, the archive of F, to S. An archive that is not of skops
 * has none; a damaged schema is a fault of the file. The caller calls skops_free, also after a failure. */
ckpt_status skops_read(struct skops *s, ckpt_file *f, zip *z, ckpt_error *err);
/* skops_get_name - returns the name of the array in the member FILE, or an empty text. */
ckpt_str skops_get_name(const struct skops *s, ckpt_str file);
void skops_free(struct skops *s);

#endif
