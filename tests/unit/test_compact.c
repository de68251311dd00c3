/* The compact table: records where the header was, the same rows as when they are made whole, and made whole
 * whenever anything else is asked for. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "flat.h"
#include "format/format.h"
#include "unit.h"

static ckpt_error err;

static void records_hold_what_was_put(void)
{
    static const uint64_t wide[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX};
    static const size_t lengths[] = {0, 1, 126, 127, 128, 129, 16383, 16384, 300000};
    unsigned char *bytes = malloc(1u << 20);
    uint32_t at = 0;
    struct compact p = {.bytes = bytes, .at = &at, .n = 1};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            uint32_t narrow = wide[i] < UINT32_MAX ? (uint32_t)wide[i] : UINT32_MAX;
            struct compact_row in = {.begin = wide[i],
                                     .end = wide[sizeof wide / sizeof *wide - 1 - i],
                                     .at = narrow,
                                     .shape = narrow,
                                     .ndim = narrow,
                                     .dtype = CKPT_DT_COUNT - 1},
                               out;
            at = (uint32_t)i;
            in.name = str_of((char *)bytes + i + 1 + k, lengths[k]); /* under the record */
            memset(bytes, 0, i + 1 + k);
            for (size_t c = 0; c < lengths[k]; c++)
                bytes[i + 1 + k + c] = (unsigned char)(c * 7 + k);
            size_t end = compact_put(bytes, at, &in);
            bytes[end] = 0xff; /* nothing that is behind it counts */
            compact_get(&p, 0, &out);
            CU_ASSERT(out.begin == in.begin && out.end == in.end && out.at == in.at &&
                      out.shape == in.shape && out.ndim == in.ndim && out.dtype == in.dtype && !out.bad);
            CU_ASSERT_EQUAL_FATAL(out.name.len, lengths[k]);
            CU_ASSERT_EQUAL(out.name.ptr[out.name.len], '\0');
            for (size_t c = 0; c < lengths[k]; c++)
                if ((unsigned char)out.name.ptr[c] != (unsigned char)(c * 7 + k))
                    CU_FAIL_FATAL("another name");
            compact_spoil(&p, 0);
            compact_get(&p, 0, &out);
            CU_ASSERT(out.bad && out.end == in.end && out.name.len == lengths[k]);
        }
    }
    free(bytes);
}

/* same - is row I of A, compact or not, that of B? Only the path may be told in two ways. */
static bool same(const ckpt_file *a, const ckpt_file *b, uint32_t i)
{
    const ckpt_tensor x = tensor_at(a, i), y = tensor_at(b, i);
    const ckpt_storage s = storage_at(a, x.storage), t = storage_at(b, y.storage);
    const ckpt_path_elem p = path_at(&x, 0), q = path_at(&y, 0);
    bool shape = x.ndim == y.ndim;
    for (uint32_t k = 0; shape && k < x.ndim; k++)
        shape = x.shape[k] == y.shape[k];
    return shape && str_eq(x.name, y.name) && x.name.ptr[x.name.len] == '\0' && x.npath == y.npath &&
           str_eq(p.str, q.str) && p.is_int == q.is_int && x.dtype == y.dtype && x.kind == y.kind &&
           x.has_shape == y.has_shape && x.has_data == y.has_data && !x.stride == !y.stride &&
           x.elements == y.elements && x.nbytes == y.nbytes && x.storage == y.storage &&
           x.storage_offset == y.storage_offset && x.file_offset == y.file_offset &&
           x.alias_of == y.alias_of && x.part_of == y.part_of && x.klass.len == y.klass.len &&
           x.location.len == y.location.len && x.note.len == y.note.len && x.parameter == y.parameter &&
           x.requires_grad == y.requires_grad && s.nbytes == t.nbytes && s.file_offset == t.file_offset &&
           str_eq(s.key, t.key) && s.has_crc == t.has_crc && str_eq(ckpt_tensor_name(a, i), x.name) &&
           ckpt_tensor_find(a, x.name) == ckpt_tensor_find(b, y.name);
}

static void held(const void *bytes, size_t size, uint32_t rows, bool compact)
{
    ckpt_file *f = NULL, *whole = NULL;
    unsigned char *guarded = unit_guard(bytes, size);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(guarded, size, "x", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(format_open("x", source_mem(bytes, size, 0), NULL, NULL, &whole, &err), CKPT_OK);
    CU_ASSERT_EQUAL(f->table.compact != NULL, compact);
    CU_ASSERT_PTR_NULL(whole->table.compact);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), rows);
    for (int again = 0; again < 2; again++) {
        CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(f), ckpt_tensor_count(whole));
        CU_ASSERT_EQUAL(ckpt_storage_count(f), ckpt_storage_count(whole));
        for (uint32_t i = 0; i < rows; i++)
            CU_ASSERT(same(f, whole, i));
        ckpt_tensor past;
        CU_ASSERT(!ckpt_tensor_at(f, rows, &past) && !past.name.len && !ckpt_tensor_name(f, rows).len);
        CU_ASSERT_EQUAL(ckpt_file_locate(f, &err), CKPT_OK);
        CU_ASSERT_PTR_NOT_NULL(ckpt_file_root(f));
        CU_ASSERT_PTR_NULL(f->table.compact);
    }
    for (uint32_t i = 0; i < rows; i++)
        CU_ASSERT_EQUAL(ckpt_value_tensor(tensor_at(f, i).value), i);
    ckpt_close(f);
    ckpt_close(whole);
    unit_guard_free(guarded, size);
}

static void begin(buf *b)
{
    buf_init(b, SIZE_MAX);
    buf_printf(b, "%8s{", "");
}

/* end - the header, and N bytes behind it. */
static void end(buf *b, size_t n)
{
    buf_byte(b, '}');
    for (int i = 0; i < 8; i++)
        b->data[i] = (unsigned char)((uint64_t)(b->len - 8) >> 8 * i);
    for (size_t i = 0; i < n; i++)
        buf_byte(b, 0);
    CU_ASSERT_FATAL(buf_ok(b));
}

/* Entries as short as they can be, one behind the other: the records must not overtake them. */
static void the_shortest_entries_have_room(void)
{
    buf b;
    begin(&b);
    buf_printf(&b, "\"\":[\"U8\",[],[0,1]]");
    for (int i = 1; i < 95; i++)
        if (i + 31 != '"' && i + 31 != '\\')
            buf_printf(&b, ",\"%c\":[\"U8\",[0],[1,1]]", i + 31);
    end(&b, 1);
    held(b.data, b.len, 93, true);
    buf_free(&b);
}

static void names_and_shapes_of_any_length_have_room(void)
{
    static const int lengths[] = {126, 127, 128, 129, 16383, 16384, 16385, 2097151, 2097152};
    enum { EACH = sizeof lengths / sizeof *lengths };
    buf b;
    begin(&b);
    for (int i = 0; i < EACH; i++) {
        buf_printf(&b, "%s\"", i ? "," : "");
        for (int c = 0; c < lengths[i]; c++)
            buf_byte(&b, (unsigned char)('a' + i));
        buf_printf(&b, "\":[\"U8\",[1");
        for (int d = 1; d < lengths[i] % 1000; d++)
            buf_printf(&b, ",1");
        buf_printf(&b, "],[%d,%d]]", i, i + 1);
    }
    buf_printf(
        &b, ",\"a\\u0000b\":{\"dtype\":\"F64\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]}");
    end(&b, EACH);
    held(b.data, b.len, EACH + 1, true);
    buf_free(&b);
}

/* What torch counts otherwise, and what is empty, is whole at once. */
static void what_is_not_plain_is_whole(void)
{
    buf b;
    begin(&b);
    end(&b, 0);
    held(b.data, b.len, 0, false);
    buf_free(&b);
    begin(&b);
    buf_printf(&b, "\"a\":[\"F4\",[3,2],[0,3]]");
    end(&b, 3);
    held(b.data, b.len, 1, false);
    buf_free(&b);
}

static void without_memory_it_stays_compact(void)
{
    uint64_t k = 0;
    ckpt_status st = CKPT_ENOMEM;
    for (; st != CKPT_OK && k < 100; k++) {
        ckpt_file *f = flat_open("{\"a\":[\"U8\",[1],[0,1]],\"b\":[\"U8\",[2],[1,3]]}", "abc", 3);
        uint8_t byte = 0;
        arena_fail_at(f->a, k + 1);
        st = ckpt_tensor_read(f, 1, 1, 1, &byte, &err);
        arena_fail_at(f->a, 0);
        CU_ASSERT(st == CKPT_ENOMEM || (st == CKPT_OK && byte == 'c'));
        CU_ASSERT_EQUAL(f->table.compact == NULL, st == CKPT_OK);
        CU_ASSERT(ckpt_tensor_count(f) == 2 && str_is(ckpt_tensor_name(f, 1), "b") &&
                  storage_at(f, 1).nbytes == 2);
        CU_ASSERT_EQUAL(ckpt_tensor_read(f, 1, 0, 1, &byte, &err), CKPT_OK); /* and later there is some */
        CU_ASSERT_EQUAL(byte, 'b');
        flat_close();
    }
    CU_ASSERT(k > 2 && k < 100);
}

/* Whatever is asked for first finds rows. */
static void every_question_finds_rows(void)
{
    static const uint32_t rows[] = {0, 1};
    static uint8_t sums[2 * CKPT_DIGEST_MAX];
    ckpt_info info;
    ckpt_stats stats[2];
    ckpt_plan *plan = NULL;
    ckpt_diff_totals totals;
    for (int ask = 0; ask < 8; ask++) {
        ckpt_file *f = flat_open("{\"a\":[\"U8\",[1],[0,1]],\"b\":[\"U8\",[2],[1,3]]}", "abc", 3);
        ckpt_file *g = flat_open("{\"a\":[\"U8\",[1],[0,1]],\"b\":[\"U8\",[2],[1,3]]}", "abd", 3);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f->table.compact);
        ckpt_status st = CKPT_OK;
        switch (ask) {
        case 0: st = ckpt_inspect(f, &info, &err); break;
        case 1: st = ckpt_digest_tensor(f, 1, CKPT_XXH3, sums, &err); break;
        case 2: st = ckpt_digest_tensors(f, CKPT_XXH3, NULL, sums, &err); break;
        case 3: st = ckpt_digest_file(f, CKPT_XXH3, sums, sums, &err); break;
        case 4: st = ckpt_stat(f, rows, 2, NULL, stats, &err); break;
        case 5: st = ckpt_plan_new(f, &plan, &err); break;
        case 6: st = ckpt_diff(f, g, NULL, NULL, NULL, &totals, &err); break;
        default: st = ckpt_digest_payload(f, CKPT_XXH3, NULL, sums, &err);
        }
        CU_ASSERT_EQUAL(st, CKPT_OK);
        CU_ASSERT(ask < 7 ? !f->table.compact : f->table.compact != NULL);
        if (ask == 5)
            CU_ASSERT_EQUAL(ckpt_plan_tensor_count(plan), 2);
        if (ask == 6)
            CU_ASSERT(totals.same == 1 && totals.changed == 1);
        ckpt_plan_free(plan);
        plan = NULL;
        flat_close();
    }
}

void suite_compact(void)
{
    UNIT(records_hold_what_was_put);
    UNIT(the_shortest_entries_have_room);
    UNIT(names_and_shapes_of_any_length_have_room);
    UNIT(what_is_not_plain_is_whole);
    UNIT(without_memory_it_stays_compact);
    UNIT(every_question_finds_rows);
}
