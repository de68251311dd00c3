/* small_files.h - opens small safetensors files in memory and files of the corpus, and makes plans. */
#ifndef UNIT_SMALL_FILES_H
#define UNIT_SMALL_FILES_H

#include <stdio.h>
#include <string.h>

#include "ckpt.h"

/* open_safetensors - opens a safetensors file in memory. It has the JSON HEADER and then SIZE bytes of DATA.
 * HEADER may describe a tensor in short, as [dtype, shape, offsets]. If the file is refused, an assertion
 * fails and NULL is returned. At most eight files are open at a time. */
ckpt_file *open_safetensors(const char *header, const void *data, size_t size);
/* open_one_tensor - opens a safetensors file with the tensor NAME. The SIZE bytes of DATA hold its ELEMENTS
 * numbers of DTYPE in host byte order. */
ckpt_file *open_one_tensor(const char *name, const char *dtype, size_t elements, const void *data,
                           size_t size);
/* open_corpus_file - opens a file of the test corpus; NAME is its path from the folder of the corpus. */
ckpt_file *open_corpus_file(const char *name);
/* close_open_files - closes every file that the functions above opened. */
void close_open_files(void);
/* plan_of - returns a new plan of F, which close_plan() frees. */
ckpt_plan *plan_of(ckpt_file *f);
/* close_plan - frees P and calls close_open_files(). */
void close_plan(ckpt_plan *p);
/* names_of - returns the names of the tensors that P would write, separated by commas. The text is valid
 * until the next call. */
const char *names_of(ckpt_plan *p);

/* quoted - returns TEXT with each apostrophe replaced by a quotation mark, so that JSON is readable in C. The
 * results of the last two calls are valid. */
static inline const char *quoted(const char *text)
{
    static char out[2][1024];
    static int turn;
    turn = !turn;
    snprintf(out[turn], sizeof out[turn], "%s", text);
    for (char *p = out[turn]; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return out[turn];
}

#endif
