/* Tests of ckpt.h: its version, how long files and plans live, and the list of formats. */
#include <stdio.h>

#include "base/str.h"
#include "small_files.h"
#include "unit.h"

#define ONE_TENSOR "{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}"

static void the_version_agrees_with_its_parts(void)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", CKPT_VERSION_MAJOR, CKPT_VERSION_MINOR, CKPT_VERSION_PATCH);
    CU_ASSERT_STRING_EQUAL(text, CKPT_VERSION);
    CU_ASSERT_STRING_EQUAL(ckpt_version(), CKPT_VERSION);
}

static void errors_have_a_fixed_size(void) { CU_ASSERT_EQUAL(sizeof(ckpt_error), 2048); }

/* check_plan - checks that P, a plan of a file with one tensor, can be changed and written. */
static void check_plan(ckpt_plan *p)
{
    ckpt_write_options o = {.struct_size = sizeof o, .dry_run = 1, .format = "safetensors"};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "x.", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, "/nonexistent", &o, &r, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(r.tensors, 1);
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(p), 1);
}

static void a_plan_keeps_its_file_open(void)
{
    ckpt_plan *first = NULL, *second = NULL;
    unsigned char bytes[8 + sizeof ONE_TENSOR + 2] = {sizeof ONE_TENSOR - 1}; /* the length of the header */
    ckpt_file *f = NULL;
    memcpy(bytes + 8, ONE_TENSOR "abc", sizeof ONE_TENSOR + 2);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, sizeof bytes, "memory", NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &first, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &second, NULL), CKPT_OK);
    ckpt_close(f);
    check_plan(first);
    ckpt_plan_free(first);
    check_plan(second);
    ckpt_plan_free(second);
}

static void a_file_outlives_its_plans(void)
{
    ckpt_file *f = open_safetensors(ONE_TENSOR, "abc", 3);
    ckpt_plan *p = plan_of(f);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 1);
    close_open_files();
}

static void names_come_at_once(void)
{
    ckpt_str names[4] = {{NULL, 0}};
    ckpt_file *f = open_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                    "\"bc\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                                    "abc", 3);
    CU_ASSERT_EQUAL(ckpt_tensor_names(f, 0, 4, names), 2);
    CU_ASSERT(str_is(names[0], "a") && str_is(names[1], "bc") && !names[2].ptr);
    CU_ASSERT_EQUAL(ckpt_tensor_names(f, 1, 1, names), 1);
    CU_ASSERT(str_is(names[0], "bc"));
    CU_ASSERT_EQUAL(ckpt_tensor_names(f, 2, 1, names), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_names(f, UINT32_MAX, UINT32_MAX, names), 0);
    close_open_files();
}

/* Each format of the list is found by its name and by its first suffix. */
static void formats_are_found_by_name_and_suffix(void)
{
    const char *name;
    size_t n = 0;
    bool flat_found = false, graph_found = false;
    for (; (name = ckpt_write_format_at(n)); n++) {
        char suffix[32];
        const char *suffixes = ckpt_write_format_suffixes(name);
        snprintf(suffix, sizeof suffix, "x%.*s", (int)strcspn(suffixes, " "), suffixes);
        CU_ASSERT_STRING_EQUAL(ckpt_write_format(suffix), ckpt_write_format(name));
        flat_found = flat_found || (ckpt_write_format_is_flat(name) && strcmp(name, "safetensors") == 0);
        CU_ASSERT_EQUAL(ckpt_write_format_is_folder(name), strcmp(name, "dcp") == 0);
        graph_found = graph_found || (!ckpt_write_format_is_flat(name) && strcmp(name, "torch-zip") == 0);
    }
    CU_ASSERT(n > 1 && flat_found && graph_found);
    /* formats that are read, but cannot be written */
    CU_ASSERT(!ckpt_write_format_is_flat("mxnet") && !ckpt_write_format_suffixes("onnx"));
}

void suite_api(void)
{
    UNIT(the_version_agrees_with_its_parts);
    UNIT(errors_have_a_fixed_size);
    UNIT(a_plan_keeps_its_file_open);
    UNIT(a_file_outlives_its_plans);
    UNIT(names_come_at_once);
    UNIT(formats_are_found_by_name_and_suffix);
}
