/* journal_bytes.h - the undo journal itself: its bytes written, taken apart, held against a file. */
#ifndef IO_JOURNAL_BYTES_H
#define IO_JOURNAL_BYTES_H

#include <sys/stat.h>

#include "io/journal.h"

#define JOURNAL_MAX (1u << 30)

struct piece {
    uint64_t at;
    size_t n, nold;
    const unsigned char *old, *sums;
};

enum journal_kind {
    JOURNAL_NONE,
    JOURNAL_ALIEN,   /* somebody's file that has the name of a journal */
    JOURNAL_UNTRUSTED, /* anybody may have written it */
    JOURNAL_DAMAGED, /* a journal, and not as it was written */
    JOURNAL_STRANGE, /* whole, and not of this version */
    JOURNAL_FALSE,   /* whole, and what no edit leaves */
    JOURNAL_WHOLE,
};

/* A journal in memory. */
struct journal {
    unsigned char *bytes;
    uint64_t inode, old_size, new_size;
    struct piece at[PATCHES_MAX];
    size_t n;
    const char *distrust; /* JOURNAL_UNTRUSTED: why */
    bool secret;          /* … because it may not be read */
    struct stat st;       /* of the file that it is */
};

/* journal_parse - J from its SIZE bytes. */
enum journal_kind journal_parse(struct journal *j, size_t size);
/* journal_piece - clears of *OLD, *NEW and *FITS what NOW, all GOT bytes that FILE has of P, is not. */
void journal_piece(const struct piece *p, const unsigned char *now, size_t got, bool *old, bool *new,
                   bool *fits);
/* journal_put - writes the journal for the patches P of the file INODE, open as FD, to TO. *WHY is 0, or the
 * errno of what TO did not take. */
ckpt_status journal_put(int to, int *why, int fd, uint64_t inode, const struct patches *p, ckpt_error *err);

#endif
