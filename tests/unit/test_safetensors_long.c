/* A long safetensors header: its texts stay, the rest of it goes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/file.h"
#include "core/plan.h"
#include "flat.h"
#include "format/safetensors/safetensors.h"
#include "io/journal.h"
#include "unit.h"

enum { N = 50000, NOTE = 100000 };

static ckpt_error err;

/* N tensors of one byte, names with an escape, and a note of NOTE bytes and a quote. */
static void make(buf *b)
{
    static char note[NOTE + 1];
    memset(note, 'x', NOTE);
    buf_init(b, SIZE_MAX);
    buf_printf(b, "%8s{\"__metadata__\":{\"k\\n\":\"%s\\\"\"}", "", note);
    for (int i = 0; i < N; i++)
        buf_printf(b, ",\"t\\u00e4.%d\":{\"shape\":[1],\"dtype\":\"%s\",\"data_offsets\":[%d,%d]}", i,
                   i % 2 ? "U8" : "I8", i, i + 1);
    buf_byte(b, '}');
    for (int i = 0; i < 8; i++)
        b->data[i] = (unsigned char)((uint64_t)(b->len - 8) >> 8 * i);
}

static bool is_itself(const ckpt_file *f, uint32_t i)
{
    char name[64];
    uint32_t n;
    const ckpt_tensor before = tensor_at(f, i);
    ckpt_str key = value_pairs(ckpt_file_root(f), &n)[i].key->u.str;
    const ckpt_tensor it = tensor_at(f, i), *t = &it;
    if (before.name.ptr != t->name.ptr || before.shape != t->shape || before.file_offset != t->file_offset)
        return false; /* what was handed out stays */
    snprintf(name, sizeof name, "t\xc3\xa4.%u", i);
    return strcmp(t->name.ptr, name) == 0 && t->name.len == strlen(name) && t->npath == 1 &&
           t->path[0].str.ptr == t->name.ptr && !t->path[0].is_int && key.ptr == t->name.ptr &&
           key.len == t->name.len && t->dtype == (i % 2 ? CKPT_DT_U8 : CKPT_DT_I8) && t->shape[0] == 1;
}

static void texts_stay_when_the_header_goes(void)
{
    buf b;
    ckpt_file *f;
    ckpt_str note = {0};
    static char data[N];
    make(&b);
    buf_put(&b, data, N);
    CU_ASSERT_FATAL(buf_ok(&b));
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(b.data, b.len, "x", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), N);
    for (uint32_t i = 0; i < N; i++)
        if (!is_itself(f, i))
            CU_FAIL_FATAL("a row is not its own");
    CU_ASSERT_FATAL(value_text(value_get(f->metadata, "k\n"), &note));
    CU_ASSERT_EQUAL(note.len, NOTE + 1);
    CU_ASSERT_EQUAL(note.ptr[NOTE], '"');
    CU_ASSERT(arena_used(f->a) < (uint64_t)N * 560 + 2 * NOTE);
    ckpt_close(f);
    buf_free(&b);
}

/* Names that the format cannot hold, in a file without metadata. */
static void names_in_place_are_held_to_the_format(void)
{
    static const struct {
        ckpt_str name;
        ckpt_status status;
        const char *why;
    } cases[] = {{{"a", 1}, CKPT_EEXIST, "two tensors would be called"},
                 {{"__metadata__", 12}, CKPT_ELOSSY, "is not a name that safetensors can hold"},
                 {{"\xff", 1}, CKPT_ELOSSY, "is not a name that safetensors can hold"},
                 {{"c", 1}, CKPT_OK, NULL}};
    ckpt_file *f = flat_open("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                             "\"a.very.long.name\":{\"dtype\":\"U8\",\"shape\":[1],"
                             "\"data_offsets\":[1,2]}}",
                             "ab", 2);
    ckpt_plan *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(plan_entries(plan, &err), CKPT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct patches list = {0};
        plan->entries[1].name = cases[i].name;
        CU_ASSERT_EQUAL(safetensors_in_place(plan, &list, &err), cases[i].status);
        CU_ASSERT(!cases[i].why || strstr(err.what, cases[i].why));
    }
    ckpt_plan_free(plan);
    flat_close();
}

void suite_safetensors_long(void)
{
    UNIT(texts_stay_when_the_header_goes);
    UNIT(names_in_place_are_held_to_the_format);
}
