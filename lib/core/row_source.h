/* row_source.h - the elements of a tensor as a source: row-major, without gaps, little-endian, whatever its
 * strides and byte order in the file are. Any number of threads may read it. The first read compares the
 * checksum of the tensor's storage, if it has one. */
#pragma once

#include "core/file.h"

/* row_source_check - fails unless row_source can present tensor ROW of F: a dense tensor with bytes, whose
 * elements have whole bytes each. */
ckpt_status row_source_check(const ckpt_file *f, uint32_t row, ckpt_error *err);
/* row_source - returns the source of tensor ROW of F, which must outlive it, as the table describes ROW now.
 * NULL: no memory. */
source *row_source(ckpt_file *f, uint32_t row);
/* row_elements - returns a source of the elements that tensor ROW of F is a view of: its first element is at
 * byte *AT, and its strides lead to the others. Without a checksum to compare, and if they are little-endian,
 * that is the source of its storage. NULL: no memory. */
source *row_elements(ckpt_file *f, uint32_t row, uint64_t *at);
