/* part_remove.h - removes what parts of an output have written. */
#pragma once

#include "op/part_state.h"

/* part_work_remove - removes the work folder PATH with its files, plan.json last. */
ckpt_status part_work_remove(const char *path, ckpt_error *err);
