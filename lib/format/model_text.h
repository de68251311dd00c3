/* model_text.h - reads what print() of torch shows of a model, for format/names.c. */
#pragma once

#include "core/file.h"
#include "format/names.h"

/* model_text_begins - returns true if TEXT begins as a module does that is printed over several lines, or as
 * one that has parameters and is printed on one. */
bool model_text_begins(ckpt_str text);
/* model_text_read - adds the tensors of the model in TEXT to F, and a notice of what TEXT does not show.
 * CKPT_EUNKNOWN: it is something else. */
ckpt_status model_text_read(ckpt_file *f, ckpt_str text);
