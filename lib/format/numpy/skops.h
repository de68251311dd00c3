/* skops.h - the names of the arrays in a file of skops. */
#pragma once

#include "format/format.h"

#define SKOPS_SCHEMA "schema.json"

/* A name of the array in a member. */
struct skops_name {
    ckpt_str text;
    int64_t id;           /* "__id__" of the node that has it, 0: none */
    bool is_first_object; /* skops makes one object of the node and of that of the member's first name */
    uint32_t next;        /* index of the member's next name, MAP_NONE: none */
    uint32_t last;        /* of the member's first name: index of its last one */
};

struct skops {
    bool is_skops; /* the archive has a schema of skops */
    arena *a;
    struct skops_name *names;
    size_t nnames, cap;
    map *files; /* from the name of a member to the index of its first name in NAMES */
    map *used;  /* the names */
};

/* skops_read - reads the names of the arrays in ARCHIVE, the archive of F, to SKOPS. An archive that is not
 * of skops has none; a damaged schema is a fault of the file. The caller calls skops_free, also after a
 * failure. */
ckpt_status skops_read(struct skops *skops, ckpt_file *f, zip *archive, ckpt_error *err);
/* skops_find_name - returns the index in skops->names of the first name of the array in the member FILE, or
 * MAP_NONE. An object that is in several places has several names. */
uint32_t skops_find_name(const struct skops *skops, ckpt_str file);
void skops_free(struct skops *skops);
