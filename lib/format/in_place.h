/* in_place.h - edits a file in place. */
#pragma once

#include "core/file.h"
#include "io/journal.h"

/* format_journal_judge - returns what checks whether an undo journal belongs to an edit in place of PATH. */
struct journal_judge format_journal_judge(const char *path);
/* format_check_own_file - fails unless F is a single file on disk: only that is edited in place. */
ckpt_status format_check_own_file(const ckpt_file *f, ckpt_error *err);
/* format_journal_options - returns the options for editing F in place, with a check that F is unchanged. */
struct journal_options format_journal_options(const ckpt_write_options *options, ckpt_file *f);
