/* zip_row.h - several archives in one file. */
#ifndef CODEC_ZIP_ROW_H
#define CODEC_ZIP_ROW_H

#include "io/source.h"

/* zip_row_last - where the archive begins that ends at END of SRC; false: none ends there. */
bool zip_row_last(source *src, uint64_t end, uint64_t *start);

#endif
