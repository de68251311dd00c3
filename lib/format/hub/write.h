/* write.h - writes a plan as shards and an index. */
#pragma once

#include "format/format.h"

/* shards_write - writes P as shards of at most opts->max_shard tensor bytes, each a file in FORMAT, and their
 * index. */
ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err);
/* shards_are_wanted - returns true if JOB is to write P as a set: of shards of a given size, as an index, or
 * with the shards of the input. */
bool shards_are_wanted(const ckpt_plan *p, const struct write_job *job);
/* shards_write_as_read - writes P as one file in the format of its shards. If job->path is a folder, the file
 * is put into it. */
ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
