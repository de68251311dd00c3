/* part_plan.h - which bytes of an output each part has.
 *
 * The plan is a pure function of the metadata of the input and of the options: a list of output files,
 * each with its header bytes and the tensors after them, as the writer of the format lays them out
 * (core/output_layout.h). Its digest, the plan id, covers
 *
 *   the version of this scheme, `strict`
 *   for each file:   header bytes, name, sizes; row, dtype and new dtype of each tensor
 *   for each input:  size, time of the last change; of files on a server: sizes, ETags, dates
 *
 * The number of parts, threads, the order of parts, the time, the locale and the paths of folders have no
 * part in it. They decide who writes a byte, never which byte.
 *
 * The bytes after the headers of all files, one file after the other, are one line. Of N parts, number I
 * has the bytes from B*I/N on, up to those of number I + 1, where B is the length of the line and each cut
 * is moved back to a multiple of 4 MiB of the offset in the file (no page and no stripe of a parallel file
 * system has two writers), then to the begin of an element; to the begin of a tensor that cannot be read
 * from its middle; or to the begin of the file's tensors. A part without any byte is complete at once.
 * Part 0 has all headers. With `part_by_file`, the files, the largest first, are dealt to the parts in
 * turn, with their headers. */
#pragma once

#include "io/spool.h"
#include "op/part_record.h"
#include "op/parts.h"

#define PART_ID_BYTES 16

struct part_plan {
    struct output_layout layout; /* receives the files */
    ckpt_plan *p;
    ckpt_write_options opts;
    arena *a;
    struct layout_file *files;
    uint64_t *begins; /* by file: where its tensors begin in the line; after the last file: the length */
    uint32_t *owners; /* by file: its part, with `part_by_file` */
    size_t nfiles, cap_files;
    void *identity; /* XXH3 of what the id is a digest of: headers and facts of files; then that of INPUTS */
    void *inputs;   /* XXH3 of sizes and times of the files of the input */
    uint64_t next_header; /* bytes so far of the header of the file that is added next */
    spool *spooled;       /* the headers of all files, if this part may write them; part_plan_finish makes */
    source *headers;      /* HEADERS of it, in which they follow each other */
    struct part_job job;
    struct storage input; /* all bytes of the input, for files with is_copy */
};

/* part_plan_finish - computes the id and the bytes of each part, after all files and inputs were added. */
ckpt_status part_plan_finish(struct part_plan *plan, ckpt_error *err);
/* part_plan_list - lists the ranges of part NUMBER in the order in which they are written, none larger
 * than about a sixteenth of the part or 1 GiB: after each of these amounts, what was written is recorded. */
ckpt_status part_plan_list(const struct part_plan *plan, uint32_t number, struct part_record *out,
                           ckpt_error *err);
/* part_plan_find_item - returns the index of the last tensor of FILE that begins at or before AT. */
size_t part_plan_find_item(const struct layout_file *file, uint64_t at);
/* part_plan_step - returns after how many bytes part NUMBER is recorded. */
uint64_t part_plan_step(const struct part_plan *plan, uint32_t number);
