/* unrecoverable_objects.h - objects other than tensors that hold a lost storage. */
#pragma once

#include "core/file.h"

/* graph_find_unrecoverable_objects - adds a lost row for each object that is no tensor and holds a lost
 * storage. Sets f->losses.of_row of the tensors that are lost with such an object. That array does not grow:
 * it has no entries for the added rows. */
ckpt_status graph_find_unrecoverable_objects(ckpt_file *f, ckpt_error *err);
