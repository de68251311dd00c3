/* keras.h - what the files of this folder share. */
#ifndef FORMAT_KERAS_KERAS_H
#define FORMAT_KERAS_KERAS_H

#include "format/kit.h"

/* keras_read_hdf5 - the data sets of SRC as tensors of K, its attributes as values "PATH@NAME". Sets the
 * producer of the file if an attribute names it. */
ckpt_status keras_read_hdf5(struct kit *k, source *src);

#endif
