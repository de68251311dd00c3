/* container.h - finds the checkpoint in a zip or tar archive. */
#pragma once

#include "io/source.h"

/* container_open_path - if PATH is FILE!MEMBER, sets *OUT to that member of the zip or tar archive FILE,
 * which may be compressed; to the archive (members.h) if it is a folder in it. CKPT_ENOTFOUND: no part of
 * PATH before a "!" is a file. */
ckpt_status container_open_path(const char *path, source **out, ckpt_error *err);
