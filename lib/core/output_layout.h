/* output_layout.h - the files of an output as its writer lays them out, without writing them: for an
 * output that several processes write, each a part of its bytes (op/parts.h). */
#pragma once

#include "base/error.h"
#include "base/str.h"

/* A tensor of an output file. */
struct layout_item {
    ckpt_str name;  /* lives as long as the plan */
    uint64_t begin; /* offset of its bytes from the end of the header */
    uint32_t row;
};

/* A file of the output: a header, then the bytes of ITEMS without gaps, in their order. */
struct layout_file {
    const char *path;
    uint64_t header_size;
    uint64_t size; /* of the file */
    struct layout_item *items;
    size_t n;
    bool is_copy; /* the file has the bytes of the input, and neither header nor items */
};

/* What receives the files, the index of a set last. */
struct output_layout {
    /* put_header - adds BYTES to the header of the file that is added next. */
    ckpt_status (*put_header)(struct output_layout *layout, ckpt_str bytes, ckpt_error *err);
    /* add_file - adds FILE, whose path it copies, and takes over the array file->items. */
    ckpt_status (*add_file)(struct output_layout *layout, const struct layout_file *file, ckpt_error *err);
};
