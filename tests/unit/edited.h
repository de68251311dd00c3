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

#define SIZE       2000u /* size of the file before an edit */
#define GROWN_SIZE 2500u /* size of the file after an edit that appends bytes */

static char dir[64], path[96], journal_path[128]; /* the folder, the file, and its journal */
/* The bytes of the file before and after an edit. From SIZE on, BEFORE holds zeros. */
static char before[GROWN_SIZE + 1], changed[GROWN_SIZE + 1];
static const struct journal_options no_sync_options = {.no_sync = true};

static void put_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(name, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fchmod(fileno(f), 0600);
    fclose(f);
}

static bool file_is(const char *name, const void *bytes, size_t n)
{
    char got[SIZE * 2];
    FILE *f = fopen(name, "rb");
    size_t nread = f ? fread(got, 1, sizeof got, f) : 0;
    if (f)
        fclose(f);
    return nread == n && memcmp(got, bytes, n) == 0;
}

static bool file_exists(const char *name) { return access(name, F_OK) == 0; }

static void begin_edit(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-journal-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(journal_path, sizeof journal_path, "%s" JOURNAL_SUFFIX, path);
    for (size_t i = 0; i < GROWN_SIZE; i++) {
        before[i] = i < SIZE ? (char)(i * 7) : 0;
        changed[i] = (i >= 100 && i < 1400) || i >= SIZE - 10 ? (char)(i * 11 + 1) : before[i];
    }
    put_file(path, before, SIZE);
}

static void end_edit(void)
{
    unlink(journal_path);
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* fails if the folder holds other files */
}

/* make_patches - returns an edit that turns BEFORE into CHANGED, at the same size. */
static struct patches make_patches(void)
{
    struct patches p = {.old_size = SIZE, .new_size = SIZE};
    CU_ASSERT(patches_add(&p, 100, str_of(changed + 100, 1300)));
    CU_ASSERT(patches_add(&p, SIZE - 10, str_of(changed + SIZE - 10, 10)));
    return p;
}

#endif
