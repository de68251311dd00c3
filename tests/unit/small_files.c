/* small_files.c - see small_files.h. */
#include "small_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"
#include "core/file.h"
#include "core/plan.h"
#include "unit.h"

#define MAX_FILES 8

static ckpt_file *files[MAX_FILES];
static unsigned char *bytes[MAX_FILES];
static size_t nfiles;

static ckpt_file *register_file(ckpt_file *f, ckpt_status st, const ckpt_error *err)
{
    char text[1024];
    if (st != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(err, text, sizeof text));
    CU_ASSERT_EQUAL(st, CKPT_OK);
    files[nfiles++] = st == CKPT_OK ? f : NULL;
    return files[nfiles - 1];
}

ckpt_file *open_safetensors(const char *header, const void *data, size_t size)
{
    size_t len = strlen(header);
    ckpt_file *f = NULL;
    ckpt_error err;
    if (nfiles == MAX_FILES)
        abort();
    unsigned char *file = bytes[nfiles] = calloc(1, 8 + len + size);
    store_u64le(file, len);
    memcpy(file + 8, header, len);
    if (size)
        memcpy(file + 8 + len, data, size);
    ckpt_status st = ckpt_open_memory(file, 8 + len + size, "memory", NULL, &f, &err);
    return register_file(f, st, &err);
}

ckpt_file *open_one_tensor(const char *name, const char *dtype, size_t elements, const void *data,
                           size_t size)
{
    char header[200];
    /* the width of a number, of which a complex element has two */
    size_t width = elements ? size / elements / (*dtype == 'C' ? 2 : 1) : 0;
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
             name, dtype, elements, size);
    unsigned char *little_endian = malloc(size + 1);
    if (!little_endian)
        abort();
    if (size)
        memcpy(little_endian, data, size);
    if (width > 1)
        unit_to_host_order(little_endian, size / width, width);
    ckpt_file *f = open_safetensors(header, little_endian, size);
    free(little_endian);
    return f;
}

ckpt_file *open_corpus_file(const char *name)
{
    ckpt_file *f = NULL;
    ckpt_error err;
    if (nfiles == MAX_FILES)
        abort();
    bytes[nfiles] = NULL;
    ckpt_status st = ckpt_open(unit_corpus_path(name), NULL, &f, &err);
    return register_file(f, st, &err);
}

void close_open_files(void)
{
    while (nfiles) {
        nfiles--;
        ckpt_close(files[nfiles]);
        free(bytes[nfiles]);
    }
}

ckpt_plan *plan_of(ckpt_file *f)
{
    ckpt_plan *p = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    return p;
}

void close_plan(ckpt_plan *p)
{
    ckpt_plan_free(p);
    close_open_files();
}

const char *names_of(ckpt_plan *p)
{
    static char text[8192];
    size_t len = 0;
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    text[0] = '\0';
    for (size_t i = 0; i < p->nentries; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i ? "," : "",
                                (int)p->entries[i].name.len, p->entries[i].name.ptr);
    return text;
}
