/* journal_bytes.h - writes and parses the bytes of an undo journal, and compares them with the file. */
#pragma once

#include <sys/stat.h>

#include "io/journal.h"

#define JOURNAL_MAX (1u << 30)

/* A range of bytes that the edit changes. */
struct journal_piece {
    uint64_t offset;
    size_t size, old_size;          /* bytes; how many of them the old file had */
    const unsigned char *old;       /* OLD_SIZE old bytes */
    const unsigned char *checksums; /* 4 bytes for each segment, see journal_bytes.c */
};

enum journal_kind {
    JOURNAL_NONE,
    JOURNAL_UNRELATED,     /* a different file with the name of a journal */
    JOURNAL_UNTRUSTED,     /* other users may have written it */
    JOURNAL_DAMAGED,       /* was a journal, and changed since */
    JOURNAL_OTHER_VERSION, /* intact, written by a different version of ckpt */
    JOURNAL_INVALID,       /* intact, but no edit leaves such a journal */
    JOURNAL_VALID,
};

/* A journal in memory. */
struct journal {
    unsigned char *bytes;
    uint64_t inode, old_size, new_size; /* of the edited file */
    struct journal_piece pieces[PATCHES_MAX];
    size_t n;             /* number of pieces */
    const char *distrust; /* JOURNAL_UNTRUSTED: why */
    bool unreadable;      /* JOURNAL_UNTRUSTED because this user may not read it */
    struct stat st;       /* attributes of the journal */
};

enum journal_kind journal_parse(struct journal *journal, size_t size);
/* journal_compare_piece - compares NOW, the GOT bytes that the file has at PIECE, with the old and the new
 * bytes. Clears *NEW unless all bytes of PIECE are new. Of the bytes before the old end of the file, clears
 * *OLD unless all are old, and *FITS unless each segment is old or new. */
void journal_compare_piece(const struct journal_piece *piece, const unsigned char *now, size_t got, bool *old,
                           bool *new, bool *fits);
/* journal_write - writes to TO the journal for applying PATCHES to the file FD, whose inode number is INODE.
 * If a write to TO fails, returns CKPT_OK and sets *WHY to its errno; else *WHY is 0. */
ckpt_status journal_write(int to, int *why, int fd, uint64_t inode, const struct patches *patches,
                          ckpt_error *err);
