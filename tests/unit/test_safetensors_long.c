/* Safetensors headers with many entries, and with very short and very long entries. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/store.h"
#include "core/file.h"
#include "core/plan.h"
#include "format/safetensors/safetensors.h"
#include "io/journal.h"
#include "small_files.h"
#include "unit.h"

enum { TENSORS = 50000, NOTE_LENGTH = 100000 };

static ckpt_error err;

static void begin_header(buf *b)
{
    buf_init(b, SIZE_MAX);
    buf_printf(b, "%8s{", "");
}

/* end_header - closes the header, sets its length, and appends DATA_SIZE zero bytes. */
static void end_header(buf *b, size_t data_size)
{
    buf_byte(b, '}');
    CU_ASSERT_FATAL(buf_ok(b));
    store_u64le(b->data, b->len - 8);
    for (size_t i = 0; i < data_size; i++)
        buf_byte(b, 0);
    CU_ASSERT_FATAL(buf_ok(b));
}

static ckpt_file *open_header(const buf *b)
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(b->data, b->len, "x", NULL, &f, &err), CKPT_OK);
    return f;
}

/* put_long_header - writes a header with a long metadata text and TENSORS tensors, whose names have an
 * escape. The data are one byte for each tensor. */
static void put_long_header(buf *b)
{
    static char note[NOTE_LENGTH + 1];
    memset(note, 'x', NOTE_LENGTH);
    begin_header(b);
    buf_printf(b, "\"__metadata__\":{\"k\\n\":\"%s\\\"\"}", note);
    for (int i = 0; i < TENSORS; i++)
        buf_printf(b, ",\"t\\u00e4.%d\":{\"shape\":[1],\"dtype\":\"%s\",\"data_offsets\":[%d,%d]}", i,
                   i % 2 ? "U8" : "I8", i, i + 1);
    end_header(b, TENSORS);
}

/* is_tensor_of_long_header - returns whether tensor I of F has the name, dtype and shape that
 * put_long_header() writes, and its name, path and key in the root point to one copy of the name. */
static bool is_tensor_of_long_header(const ckpt_file *f, uint32_t i)
{
    char name[64];
    uint32_t n;
    ckpt_str key = value_pairs(ckpt_file_root(f), &n)[i].key->u.str;
    const ckpt_tensor t = tensor_at(f, i);
    snprintf(name, sizeof name, "t\xc3\xa4.%u", i);
    return strcmp(t.name.ptr, name) == 0 && t.name.len == strlen(name) && t.npath == 1 &&
           t.path[0].str.ptr == t.name.ptr && !t.path[0].is_int && key.ptr == t.name.ptr &&
           key.len == t.name.len && t.dtype == (i % 2 ? CKPT_DT_U8 : CKPT_DT_I8) && t.shape[0] == 1;
}

static void names_are_stored_once(void)
{
    buf b;
    ckpt_str note = {0};
    put_long_header(&b);
    ckpt_file *f = open_header(&b);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), TENSORS);
    for (uint32_t i = 0; i < TENSORS; i++)
        if (!is_tensor_of_long_header(f, i))
            CU_FAIL_FATAL("a tensor differs from the header, or its name is stored twice");
    CU_ASSERT_FATAL(value_text(value_get(f->metadata, "k\n"), &note));
    CU_ASSERT_EQUAL(note.len, NOTE_LENGTH + 1);
    CU_ASSERT_EQUAL(note.ptr[NOTE_LENGTH], '"'); /* the header has it as \" */
    CU_ASSERT(arena_used(f->a) < (uint64_t)TENSORS * 640 + 2 * NOTE_LENGTH);
    ckpt_close(f);
    buf_free(&b);
}

static void the_shortest_entries_are_read(void)
{
    buf b;
    uint32_t n = 1;
    begin_header(&b);
    buf_printf(&b, "\"\":[\"U8\",[],[0,1]]");
    for (int c = ' '; c < 0x7f; c++)
        if (c != '"' && c != '\\') {
            buf_printf(&b, ",\"%c\":[\"U8\",[0],[1,1]]", c);
            n++;
        }
    end_header(&b, 1);
    ckpt_file *f = open_header(&b);
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(f), n);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, i);
        CU_ASSERT(t.name.len == (i > 0) && t.name.ptr[t.name.len] == '\0' && t.elements == (i == 0));
        CU_ASSERT_EQUAL(ckpt_tensor_find(f, t.name), i);
    }
    ckpt_close(f);
    buf_free(&b);
}

/* has_long_name_and_shape - returns whether the name of tensor I of F is LENGTH times the I-th letter, and
 * its shape has LENGTH % 1000 dimensions of size 1. */
static bool has_long_name_and_shape(const ckpt_file *f, uint32_t i, size_t length)
{
    const ckpt_tensor t = tensor_at(f, i);
    bool ok = t.name.len == length && t.name.ptr[length] == '\0' && t.ndim == length % 1000 && t.nbytes == 1;
    for (size_t c = 0; ok && c < length; c++)
        ok = t.name.ptr[c] == (char)('a' + i);
    for (uint32_t k = 0; ok && k < t.ndim; k++)
        ok = t.shape[k] == 1;
    return ok;
}

static void names_and_shapes_of_any_length_are_read(void)
{
    /* around 2^7, 2^14 and 2^21 */
    static const int lengths[] = {126, 127, 128, 129, 16383, 16384, 16385, 2097151, 2097152};
    enum { NLENGTHS = sizeof lengths / sizeof *lengths };
    buf b;
    begin_header(&b);
    for (int i = 0; i < NLENGTHS; i++) {
        buf_byte(&b, '"');
        for (int c = 0; c < lengths[i]; c++)
            buf_byte(&b, (unsigned char)('a' + i));
        buf_printf(&b, "\":[\"U8\",[1");
        for (int dim = 1; dim < lengths[i] % 1000; dim++)
            buf_printf(&b, ",1");
        buf_printf(&b, "],[%d,%d]],", i, i + 1);
    }
    buf_printf(&b,
               "\"a\\u0000b\":{\"dtype\":\"F64\",\"shape\":[0,18446744073709551615],"
               "\"data_offsets\":[%d,%d]}",
               NLENGTHS, NLENGTHS);
    end_header(&b, NLENGTHS);
    ckpt_file *f = open_header(&b);
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(f), NLENGTHS + 1);
    for (uint32_t i = 0; i < NLENGTHS; i++)
        CU_ASSERT(has_long_name_and_shape(f, i, (size_t)lengths[i]));
    const ckpt_tensor empty = tensor_at(f, NLENGTHS);
    CU_ASSERT(str_eq(empty.name, str_of("a\0b", 3)) && empty.name.ptr[3] == '\0' && empty.ndim == 2);
    CU_ASSERT(empty.shape[0] == 0 && empty.shape[1] == UINT64_MAX && empty.elements == 0);
    ckpt_close(f);
    buf_free(&b);
}

/* A tensor is renamed: the last name can be stored, the others cannot. */
static void renaming_in_place_checks_names(void)
{
    static const struct {
        ckpt_str name;
        ckpt_status status;
        const char *words; /* words of the message */
    } cases[] = {{{"a", 1}, CKPT_EEXIST, "two tensors would be called"},
                 {{"__metadata__", 12}, CKPT_ELOSSY, "is not a name that safetensors can hold"},
                 {{"\xff", 1}, CKPT_ELOSSY, "is not a name that safetensors can hold"},
                 {{"c", 1}, CKPT_OK, NULL}};
    ckpt_file *f = open_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                    "\"a.very.long.name\":{\"dtype\":\"U8\",\"shape\":[1],"
                                    "\"data_offsets\":[1,2]}}",
                                    "ab", 2);
    ckpt_plan *plan = plan_of(f);
    CU_ASSERT_EQUAL_FATAL(plan_update_entries(plan, &err), CKPT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct patches patches = {0};
        plan->entries[1].name = cases[i].name;
        CU_ASSERT_EQUAL(safetensors_in_place(plan, &patches, &err), cases[i].status);
        CU_ASSERT(!cases[i].words || strstr(err.what, cases[i].words));
    }
    ckpt_plan_free(plan);
    close_open_files();
}

void suite_safetensors_long(void)
{
    UNIT(names_are_stored_once);
    UNIT(the_shortest_entries_are_read);
    UNIT(names_and_shapes_of_any_length_are_read);
    UNIT(renaming_in_place_checks_names);
}
