/* table_json.h - the rows of a file as JSON. */
#pragma once

#include "core/file.h"

/* What a document of rows is made of. */
struct table_json {
    const ckpt_file *f;
    const char *format; /* its name */
    ckpt_table_json_options o;
};

/* table_json - implements ckpt_table_json of ckpt.h, for options that were checked. */
ckpt_status table_json(const struct table_json *table, char **text, size_t *len, ckpt_error *err);
