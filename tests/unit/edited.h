/* edited.h - creates a file to edit in place, in a temporary folder. A test calls begin_edit() first and
 * end_edit() last. */
#ifndef EDITED_H
#define EDITED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/journal.h"
#include "unit.h"

#define SIZE  2000u /* of the file */
#define GROWN 2500u /* its size after an edit that appends bytes */

static char dir[64], path[96], undo[128];          /* the folder, the file, and its journal */
static char before[GROWN + 1], changed[GROWN + 1]; /* the bytes of the file; from SIZE on, BEFORE is zero */
static const struct journal_options unsynced = {.no_sync = true};

static void put_file(const char *at, const void *bytes, size_t n)
{
    FILE *f = fopen(at, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fchmod(fileno(f), 0600);
    fclose(f);
}

static bool file_is(const char *at, const void *bytes, size_t n)
{
    char got[SIZE * 2];
    FILE *f = fopen(at, "rb");
    size_t m = f ? fread(got, 1, sizeof got, f) : 0;
    if (f)
        fclose(f);
    return m == n && memcmp(got, bytes, n) == 0;
}

static bool file_exists(const char *at) { return access(at, F_OK) == 0; }

static void begin_edit(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-journal-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(undo, sizeof undo, "%s" JOURNAL_SUFFIX, path);
    for (size_t i = 0; i < GROWN; i++) {
        before[i] = i < SIZE ? (char)(i * 7) : 0;
        changed[i] = (i >= 100 && i < 1400) || i >= SIZE - 10 ? (char)(i * 11 + 1) : before[i];
    }
    put_file(path, before, SIZE);
}

static void end_edit(void)
{
    unlink(undo);
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* fails if other files were left */
}

/* make_patches - returns the edit that changes BEFORE to CHANGED and keeps the size. */
static struct patches make_patches(void)
{
    struct patches p = {.old_size = SIZE, .new_size = SIZE};
    CU_ASSERT(patches_add(&p, 100, str_of(changed + 100, 1300)));
    CU_ASSERT(patches_add(&p, SIZE - 10, str_of(changed + SIZE - 10, 10)));
    return p;
}

#endif
