/* The test archives of libzip. If both our reader and libzip read one, they find the same number of members,
 * names and sizes (zip_public.txt has libzip's). If our reader refuses one, the audit reports a flaw. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "codec/zip.h"
#include "codec/zip_audit.h"
#include "unit.h"

static FILE *list;

static const char *data_folder(char dir[512])
{
    const char *top = getenv("CORPUS_PUBLIC");
    snprintf(dir, 512, "%s/zip/regress/data", top ? top : "../shared/corpus/public");
    return dir;
}

/* open_next_archive - reads a line "NAME LIBZIP_RESULT" of the list and opens the archive; *SRC is NULL if
 * that fails. Returns false at the end of the list. */
static bool open_next_archive(char name[256], char libzip_result[256], source **src)
{
    char line[600], dir[512], path[1024];
    ckpt_error err;
    *src = NULL;
    while (fgets(line, sizeof line, list)) {
        char *space = strchr(line, ' ');
        if (line[0] == '#' || !space || space - line > 250)
            continue;
        *space = '\0';
        snprintf(name, 256, "%.250s", line);
        snprintf(libzip_result, 256, "%.*s", (int)strcspn(space + 1, "\n"), space + 1);
        snprintf(path, sizeof path, "%s/%s", data_folder(dir), name);
        if (source_file_open(path, src, &err) != CKPT_OK)
            *src = NULL;
        return true;
    }
    return false;
}

static bool archives_available(void)
{
    char dir[512], path[600];
    snprintf(path, sizeof path, "%s/bogus.zip", data_folder(dir));
    FILE *f = fopen(path, "rb");
    list = f ? fopen("tests/unit/zip_public.txt", "r") : NULL;
    if (f)
        fclose(f);
    if (!list)
        printf(" [SKIPPED: no %s] ", dir);
    return list != NULL;
}

/* describe_members - writes the number of members of Z, and the CRC of their names and sizes, to OUT. */
static void describe_members(const zip *z, char out[256])
{
    uint32_t crc = 0;
    for (size_t i = 0; i < z->n; i++) {
        char size[32];
        int n = snprintf(size, sizeof size, "%llu ", (unsigned long long)z->entries[i].usize);
        crc = crc32_update(crc, size, (size_t)n);
        crc = crc32_update(crc, z->entries[i].name.ptr, z->entries[i].name.len);
        crc = crc32_update(crc, "\n", 1);
    }
    snprintf(out, 256, "%zu %08x", z->n, crc);
}

static void names_and_sizes_are_those_of_libzip(void)
{
    char name[256], libzip_result[256], result[256];
    source *src;
    unsigned nread = 0, nrefused = 0, narchives = 0;
    if (!archives_available())
        return;
    for (; open_next_archive(name, libzip_result, &src); source_unref(src)) {
        zip *z;
        ckpt_error err;
        arena *a = arena_new((uint64_t)64 << 20);
        narchives += src != NULL;
        if (src && a && zip_open(src, a, &z, &err) == CKPT_OK) {
            describe_members(z, result);
            if (strcmp(libzip_result, "refused") != 0 && strcmp(libzip_result, result) != 0)
                printf("\n    %s: %s, libzip: %s", name, result, libzip_result);
            CU_ASSERT(strcmp(libzip_result, "refused") == 0 || strcmp(libzip_result, result) == 0);
            nread++;
            zip_close(z);
        } else {
            nrefused++;
        }
        arena_free(a);
    }
    fclose(list);
    CU_ASSERT_EQUAL(narchives, 165); /* the number of lines in zip_public.txt */
    CU_ASSERT_EQUAL(nread + nrefused, 165);
    CU_ASSERT(nread >= 100);
}

static void count_flaw(void *user, const struct zip_flaw *f)
{
    unsigned *nflaws = user;
    CU_ASSERT(f->message || f->what);
    ++*nflaws;
}

static void the_audit_reports_what_the_reader_refuses(void)
{
    char name[256], libzip_result[256];
    source *src;
    if (!archives_available())
        return;
    for (; open_next_archive(name, libzip_result, &src); source_unref(src)) {
        zip *strict;
        ckpt_error err;
        unsigned flaws = 0;
        arena *a = arena_new((uint64_t)64 << 20), *b = arena_new((uint64_t)256 << 20);
        struct zip_audit z = {.src = src, .a = b, .flaw = count_flaw, .user = &flaws};
        ckpt_status st = src && a ? zip_open(src, a, &strict, &err) : CKPT_ENOMEM;
        if (st == CKPT_OK)
            zip_close(strict);
        CU_ASSERT_EQUAL(zip_audit(&z, &err), CKPT_OK);
        if (st != CKPT_OK && flaws == 0)
            printf("\n    %s: %s, but the audit finds nothing", name, err.what);
        CU_ASSERT(st == CKPT_OK || flaws > 0);
        arena_free(a);
        arena_free(b);
    }
    fclose(list);
}

void suite_zip_public(void)
{
    UNIT(names_and_sizes_are_those_of_libzip);
    UNIT(the_audit_reports_what_the_reader_refuses);
}
