/* flat.h - small checkpoints made in memory, for suites of lib/op. */
#ifndef UNIT_FLAT_H
#define UNIT_FLAT_H

#include <stdio.h>
#include <string.h>

#include "ckpt.h"

/* flat_open - a safetensors file with this HEADER (JSON) over SIZE bytes of
 * DATA, opened; NULL and a failed assertion when it is refused. At most eight
 * are open at a time; flat_close() closes all. */
ckpt_file *flat_open(const char *header, const void *data, size_t size);
/* flat_numbers - a file of one tensor NAME of N numbers of DTYPE, which DATA holds in the host's order. */
ckpt_file *flat_numbers(const char *name, const char *dtype, size_t n, const void *data, size_t size);
void flat_close(void);
/* corpus_open - a corpus file; closed by flat_close() too. */
ckpt_file *corpus_open(const char *below);

/* JSON with its quotes, written with apostrophes to stay legible. */
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
