/* flat.h - opens small safetensors files in memory and files of the corpus, and creates plans of them. */
#ifndef UNIT_FLAT_H
#define UNIT_FLAT_H

#include <stdio.h>
#include <string.h>

#include "ckpt.h"

/* flat_open - opens a safetensors file of the JSON HEADER and SIZE bytes of DATA; an entry of
 * HEADER may be short, [dtype, shape, offsets]. If the file is refused, an assertion fails and
 * NULL is returned. At most eight files are open at a time. flat_close() closes all. */
ckpt_file *flat_open(const char *header, const void *data, size_t size);
/* flat_numbers - opens a file of one tensor NAME of DTYPE, whose ELEMENTS numbers are in DATA, in host byte
 * order. */
ckpt_file *flat_numbers(const char *name, const char *dtype, size_t elements, const void *data, size_t size);
void flat_close(void);
/* plan_of - returns a new plan of F, which close_plan() frees; close_plan() also calls flat_close(). */
ckpt_plan *plan_of(ckpt_file *f);
void close_plan(ckpt_plan *p);
/* names_of - returns the names that P would write, separated by commas, valid until the next call. */
const char *names_of(ckpt_plan *p);
/* corpus_open - opens the file BELOW the folder of the test corpus; flat_close() closes it. */
ckpt_file *corpus_open(const char *below);

/* quoted - returns TEXT with each apostrophe replaced by a quotation mark, so that JSON is readable in C. */
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
