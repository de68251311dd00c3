/* keras.h - what the files of this folder share. */
#pragma once

#include "format/kit.h"

/* keras_read_hdf5 - adds the data sets of SRC to KIT as tensors, and the attributes in SRC as values with the
 * keys "PATH@NAME". Sets the producer of the file if an attribute names it. */
ckpt_status keras_read_hdf5(struct kit *kit, source *src);
