/* The table of element types is consistent. */
#include <stdio.h>

#include "base/cursor.h"
#include "core/dtype.h"
#include "unit.h"

static void every_row_is_consistent(void)
{
    for (unsigned i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++) {
        const struct dtype_info *d = dtype_info((ckpt_dtype)i);
        CU_ASSERT(d->name[0] && d->block_elems && d->swap_bytes && d->safetensors_dim_factor);
        CU_ASSERT_PTR_NOT_NULL(strchr("fiubcqpk", d->klass));
        CU_ASSERT(d->block_bytes % d->swap_bytes == 0);
        CU_ASSERT_EQUAL(d->safetensors[0] == 0, d->safetensors_order == 99); /* 99: none */
        for (unsigned k = CKPT_DT_NONE + 1; k < i; k++) {
            const struct dtype_info *e = dtype_info((ckpt_dtype)k);
            CU_ASSERT_STRING_NOT_EQUAL(d->name, e->name);
            CU_ASSERT(!d->safetensors[0] || d->safetensors_order != e->safetensors_order);
        }
    }
    CU_ASSERT_STRING_EQUAL(ckpt_dtype_name(CKPT_DT_NONE), "");
    CU_ASSERT_STRING_EQUAL(ckpt_dtype_name((ckpt_dtype)1000), "");
    CU_ASSERT_EQUAL(ckpt_dtype_bits((ckpt_dtype)1000), 0);
}

static void every_name_is_found(void)
{
    for (unsigned i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++) {
        const struct dtype_info *d = dtype_info((ckpt_dtype)i);
        if (i == CKPT_DT_NAMED)
            continue;
        CU_ASSERT_EQUAL(dtype_by_name(str_c(d->name)), i);
        CU_ASSERT_EQUAL(ckpt_dtype_parse(str_c(d->name)), i);
        if (d->storage)
            CU_ASSERT_EQUAL(dtype_by_storage(str_c(d->storage)), i);
        if (d->safetensors[0]) {
            CU_ASSERT_EQUAL(dtype_by_safetensors(str_c(d->safetensors)), i);
            uint64_t bytes = load_u64le((const unsigned char *)d->safetensors);
            CU_ASSERT(strlen(d->safetensors) >= 8 || dtype_by_safetensors8(bytes) == i);
            CU_ASSERT_EQUAL(ckpt_dtype_parse(str_c(d->safetensors)), i);
        }
    }
}

static void other_spellings_are_found(void)
{
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("torch.float16")), CKPT_DT_F16);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("torch.half")), CKPT_DT_F16);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("float")), CKPT_DT_F32);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("double")), CKPT_DT_F64);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("long")), CKPT_DT_I64);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("int")), CKPT_DT_I32);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("short")), CKPT_DT_I16);
    CU_ASSERT_EQUAL(dtype_by_name(STR_LIT("cfloat")), CKPT_DT_C64);
    CU_ASSERT_EQUAL(ckpt_dtype_parse(STR_LIT("bf16")), CKPT_DT_BF16);
    CU_ASSERT_EQUAL(ckpt_dtype_parse(STR_LIT("fp16")), CKPT_DT_F16);
    CU_ASSERT_EQUAL(ckpt_dtype_parse(STR_LIT("FP64")), CKPT_DT_F64);
    CU_ASSERT_EQUAL(ckpt_dtype_parse(STR_LIT("f8_e4m3fnuz")), CKPT_DT_F8_E4M3FNUZ);
    CU_ASSERT_EQUAL(dtype_by_safetensors(STR_LIT("bf16")), CKPT_DT_NONE); /* must be in capitals */
    CU_ASSERT_EQUAL(dtype_by_storage(STR_LIT("UntypedStorage")), CKPT_DT_U8);
}

static void other_names_are_not_found(void)
{
    static const char *const unknown_names[] = {
        "",        "torch.",  "torch.torch.float32",
        "float33", "FLOAT32", "F32 ",
        "numpy",   "F33",     "a name that is longer than any of them",
        "storage"};
    for (size_t i = 0; i < sizeof unknown_names / sizeof *unknown_names; i++)
        CU_ASSERT_EQUAL(ckpt_dtype_parse(str_c(unknown_names[i])), CKPT_DT_NONE);
    CU_ASSERT_EQUAL(ckpt_dtype_parse(STR_LIT("F32\0")), CKPT_DT_NONE);
    CU_ASSERT_EQUAL(dtype_by_storage(STR_LIT("")), CKPT_DT_NONE);
    CU_ASSERT_EQUAL(dtype_by_storage(STR_LIT("Storage")), CKPT_DT_NONE);
}

static void bytes_of_elements_are_counted(void)
{
    uint64_t n = 5;
    CU_ASSERT(dtype_bytes(CKPT_DT_F32, 3, &n) && n == 12);
    CU_ASSERT(dtype_bytes(CKPT_DT_F64, UINT64_MAX / 8, &n));
    CU_ASSERT(!dtype_bytes(CKPT_DT_F64, UINT64_MAX / 8 + 1, &n));
    CU_ASSERT(!dtype_bytes(CKPT_DT_F6_E2M3, 6, &n));
    CU_ASSERT(dtype_bytes(CKPT_DT_F6_E2M3, 8, &n) && n == 6);
    CU_ASSERT(dtype_bytes(CKPT_DT_QU4X2, 8, &n) && n == 4);
    CU_ASSERT(!dtype_bytes(CKPT_DT_NAMED, 1, &n));
    CU_ASSERT(!dtype_bytes(CKPT_DT_NONE, 1, &n));
    CU_ASSERT_EQUAL(n, 4); /* failures leave it unchanged */
    CU_ASSERT_EQUAL(ckpt_dtype_bits(CKPT_DT_F6_E2M3), 6);
    CU_ASSERT_EQUAL(ckpt_dtype_bits(CKPT_DT_QU2X4), 2);
    CU_ASSERT_EQUAL(ckpt_dtype_bits(CKPT_DT_C128), 128);
    CU_ASSERT_EQUAL(ckpt_dtype_bits(CKPT_DT_NAMED), 0);
}

/* is_listed - returns true if LIST has NAME itself, or covers it by "F8_*" or "I64 to I8". */
static bool is_listed(const char *list, const char *name)
{
    char word[32];
    bool is_integer = name[0] == 'I' || name[0] == 'U';
    snprintf(word, sizeof word, " %s,", name);
    if (strstr(list, word))
        return true;
    snprintf(word, sizeof word, is_integer ? " %.1s64 to " : " %.3s*,", name);
    return strstr(list, word) != NULL;
}

/* An error about an unknown type lists all types of safetensors. */
static void errors_list_the_types_of_safetensors(void)
{
    static const char file[] = "\x35\0\0\0\0\0\0\0"
                               "{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}....";
    ckpt_error err;
    ckpt_file *f = NULL;
    char list[128];
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(file, sizeof file - 1, "f", NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(err.found, "\"F31\"");
    snprintf(list, sizeof list, " %s,", err.allowed);
    for (unsigned i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++) {
        const char *name = dtype_info((ckpt_dtype)i)->safetensors;
        CU_ASSERT(!*name || is_listed(list, name));
    }
    CU_ASSERT(!is_listed(list, "F31") && !is_listed(list, "C128") && !is_listed(list, "F9_E4M3"));
}

void suite_dtype(void)
{
    UNIT(every_row_is_consistent);
    UNIT(every_name_is_found);
    UNIT(other_spellings_are_found);
    UNIT(other_names_are_not_found);
    UNIT(bytes_of_elements_are_counted);
    UNIT(errors_list_the_types_of_safetensors);
}
