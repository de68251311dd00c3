/* attributes.h - lines of a .gitattributes file, which name the diff driver of files: "*.pt diff=ckpt". */
#pragma once

#include <stdbool.h>

#include "text.h"

enum attribute_change {
    ATTRIBUTE_KEPT,    /* it has the driver */
    ATTRIBUTE_ADDED,   /* it had none */
    ATTRIBUTE_CHANGED, /* it had that of Git LFS, which git does not know */
    ATTRIBUTE_FOREIGN, /* it has another one, or none on purpose; the line stays */
};

/* attributes_add_driver - sets the diff attribute of PATTERN to "ckpt" in LINES, the text of a .gitattributes
 * file. Returns what that changed. */
enum attribute_change attributes_add_driver(struct text *lines, const char *pattern);
/* attributes_remove_driver - removes "diff=ckpt" from all lines of LINES: where Git LFS keeps the files,
 * "diff=lfs" takes its place. A line that says nothing else is removed. Returns how many lines changed. */
unsigned attributes_remove_driver(struct text *lines);
/* attributes_is_pattern - returns true if PATTERN can be written without quotes. */
bool attributes_is_pattern(const char *pattern);
