/* Parts of an output: what the plan id depends on, where the bytes are cut, and the records. The commands
 * are tested in tests/cli/convert/parts.sh, tests/cli/parts and tests/cli/merge-parts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "op/part_plan.h"
#include "small_files.h"
#include "unit.h"

#define MIB    (UINT64_C(1) << 20)
#define HEADER 1000u /* bytes of the header of each output file here */
#define FLOATS ((9 * MIB + 4) / 4)
#define PACKED (9 * MIB) /* bytes of a tensor that cannot be read from its middle: three have four elements */
#define COMPLEX (5 * MIB + 16)

static ckpt_error err;

/* open_three - opens a file of three tensors; the elements of the second have six bits. */
static ckpt_file *open_three(void)
{
    char header[512];
    const uint64_t ends[] = {FLOATS * 4, FLOATS * 4 + PACKED, FLOATS * 4 + PACKED + COMPLEX};
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
             "\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]},"
             "\"c\":{\"dtype\":\"C64\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}}",
             (unsigned long long)FLOATS, (unsigned long long)ends[0], (unsigned long long)PACKED / 3 * 4,
             (unsigned long long)ends[0], (unsigned long long)ends[1], (unsigned long long)COMPLEX / 8,
             (unsigned long long)ends[1], (unsigned long long)ends[2]);
    unsigned char *zeros = calloc(1, (size_t)ends[2]);
    ckpt_file *f = open_safetensors(header, zeros, (size_t)ends[2]);
    free(zeros);
    return f;
}

/* add_file - adds FILE with HEADER to PLAN. */
static void add_file(struct part_plan *plan, ckpt_str header, const struct layout_file *file)
{
    struct output_layout *layout = part_plan_layout(plan);
    ckpt_str begin = str_first(header, header.len / 2);
    CU_ASSERT_EQUAL(layout->put_header(layout, begin, &err), CKPT_OK);
    CU_ASSERT_EQUAL(layout->put_header(layout, str_skip(header, begin.len), &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(layout->add_file(layout, file, &err), CKPT_OK);
}

/* add_output - adds to PLAN the file NAME with the tensors [FIRST, END) of the file of open_three. */
static void add_output(struct part_plan *plan, const char *name, uint32_t first, uint32_t end)
{
    static const char header[HEADER] = "a header";
    struct layout_file file = {.path = name, .n = end - first};
    file.items = calloc(file.n + 1, sizeof *file.items);
    uint64_t at = 0;
    for (uint32_t row = first; row < end; row++) {
        file.items[row - first] = (struct layout_item){.begin = at, .row = row};
        at += table_nbytes_of(&plan->p->file->table, row);
    }
    file.size = HEADER + at;
    add_file(plan, str_of(header, HEADER), &file);
}

/* new_plan - returns a plan of two files: the first two tensors, and all three. */
static struct part_plan *new_plan(ckpt_plan *p, ckpt_write_options o)
{
    struct part_plan *plan;
    struct stat st = {.st_mode = S_IFREG, .st_size = 5};
    CU_ASSERT_EQUAL_FATAL(part_plan_new(p, &o, &plan, &err), CKPT_OK);
    add_output(plan, "out/model-00001-of-00002.safetensors", 0, 2);
    add_output(plan, "out/model-00002-of-00002.safetensors", 0, 3);
    const struct layout_file index = {.path = "out/model.safetensors.index.json", .size = 2};
    add_file(plan, STR_LIT("{}"), &index);
    CU_ASSERT_EQUAL_FATAL(part_plan_add_input(plan, &st, &err), CKPT_OK);
    return plan;
}

/* is_fit_cut - returns true if a part may begin at AT of output file FILE. */
static bool is_fit_cut(const struct layout_file *file, uint64_t at)
{
    if (at == 0 || at == file->header_size || at == file->size)
        return true;
    size_t k = part_plan_find_item(file, at - file->header_size);
    uint64_t begin = file->header_size + file->items[k].begin;
    if (at == begin)
        return true;
    uint64_t width = file->items[k].row == 0 ? 4 : file->items[k].row == 2 ? 8 : 0;
    return width && (at - begin) % width == 0 && (at + width - 1) % (4 * MIB) < width;
}

static int compare_ranges(const void *left, const void *right)
{
    const struct part_range *a = left, *b = right;
    return a->file != b->file ? (a->file > b->file) - (a->file < b->file)
                              : (a->from > b->from) - (a->from < b->from);
}

/* check_ranges - checks that the ranges in ALL have each byte of the files of PLAN once, and begin where a
 * cut may be. */
static void check_ranges(const struct part_plan *plan, struct part_record *all)
{
    size_t i = 0, unfit = 0;
    qsort(all->ranges, all->nranges, sizeof *all->ranges, compare_ranges);
    for (size_t k = 0; k < plan->nfiles; k++) {
        uint64_t at = 0;
        for (; i < all->nranges && all->ranges[i].file == k; i++) {
            CU_ASSERT_EQUAL(all->ranges[i].from, at);
            unfit += !is_fit_cut(&plan->files[k], at);
            at = all->ranges[i].to;
        }
        CU_ASSERT_EQUAL(at, plan->files[k].size);
    }
    CU_ASSERT(i == all->nranges && unfit == 0);
}

static void cuts_have_each_byte_once(void)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 11, 16, 64, 1000};
    ckpt_plan *p = plan_of(open_three());
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
        ckpt_write_options o = {
            .struct_size = sizeof o, .parts = counts[i / 2], .part_by_file = (uint32_t)(i & 1)};
        struct part_plan *plan = new_plan(p, o);
        struct part_record all = {0};
        CU_ASSERT_EQUAL_FATAL(part_plan_finish(plan, &err), CKPT_OK);
        for (uint32_t k = 0; k < o.parts; k++) {
            size_t before = all.nranges;
            uint64_t nbytes = 0;
            CU_ASSERT_EQUAL(part_plan_list(plan, k, &all, &err), CKPT_OK);
            for (size_t r = before; r < all.nranges; r++)
                nbytes += all.ranges[r].to - all.ranges[r].from;
            CU_ASSERT_EQUAL(nbytes, plan->job.part_bytes[k]);
        }
        check_ranges(plan, &all);
        part_plan_free(plan);
    }
    close_plan(p);
}

/* id_of - returns the id of a plan with the options O, where CHANGE is 0 or what is different: 1: a row,
 * 2: a name, 3: a header, 4: the time of the input, 5: its size, 6: a dtype, 7: the time of a folder. */
static const char *id_of(ckpt_plan *p, ckpt_write_options o, int change)
{
    static char id[4][PART_ID_TEXT];
    static unsigned turn;
    struct part_plan *plan = new_plan(p, o);
    struct stat st = {.st_mode = change == 7 ? S_IFDIR : S_IFREG, .st_size = change == 5 ? 6 : 5};
    st.st_mtim.tv_nsec = change == 4 || change == 7;
    struct layout_file file = {.path = change == 2 ? "out/y" : "out/x", .size = 2 + FLOATS * 4, .n = 1};
    file.items = calloc(1, sizeof *file.items);
    file.items[0].row = change == 1 ? 2 : 0;
    add_file(plan, change == 3 ? STR_LIT("{ }") : STR_LIT("{}"), &file);
    if (change != 0)
        CU_ASSERT_EQUAL(part_plan_add_input(plan, &st, &err), CKPT_OK);
    if (change == 0 || change == 7) {
        st = (struct stat){.st_mode = S_IFREG, .st_size = 5};
        CU_ASSERT_EQUAL(part_plan_add_input(plan, &st, &err), CKPT_OK);
    }
    CU_ASSERT_EQUAL(part_plan_finish(plan, &err), CKPT_OK);
    turn = (turn + 1) % 4;
    memcpy(id[turn], plan->job.id, PART_ID_TEXT);
    part_plan_free(plan);
    return id[turn];
}

static void the_id_is_of_metadata_and_options(void)
{
    ckpt_plan *p = plan_of(open_three());
    ckpt_write_options o = {.struct_size = sizeof o, .parts = 1};
    char id[PART_ID_TEXT];
    memcpy(id, id_of(p, o, 0), sizeof id);
    o = (ckpt_write_options){
        .struct_size = sizeof o, .part = 3, .parts = 64, .threads = 2, .part_by_file = 1, .no_sync = 1};
    CU_ASSERT_STRING_EQUAL(id_of(p, o, 0), id);
    CU_ASSERT_STRING_EQUAL(id_of(p, o, 7), id);
    for (int change = 1; change <= 5; change++)
        CU_ASSERT_STRING_NOT_EQUAL(id_of(p, o, change), id);
    o.strict = 1;
    CU_ASSERT_STRING_NOT_EQUAL(id_of(p, o, 0), id);
    o.strict = 0;
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a", CKPT_DT_F16, &err), CKPT_OK);
    CU_ASSERT_STRING_NOT_EQUAL(id_of(p, o, 0), id);
    close_plan(p);
}

/* ------------------------------------------------------------------- writing */

/* What the callbacks below do, and what they have seen. */
struct writing_case {
    const char *folder;
    bool refuses_plan, is_failing; /* another part fails after some bytes */
    char id[PART_ID_TEXT];
    uint64_t done;
};

static int note_plan(void *user, const char *plan_id)
{
    struct writing_case *c = user;
    snprintf(c->id, sizeof c->id, "%s", plan_id);
    return c->refuses_plan;
}

/* fail_other_part - makes the file that a part that fails makes. */
static int fail_other_part(void *user, uint64_t done, uint64_t total)
{
    struct writing_case *c = user;
    char name[128];
    (void)total;
    c->done = done;
    if (c->is_failing && done > MIB) {
        snprintf(name, sizeof name, "%s/.ckpt-%s/failed", c->folder, c->id);
        fclose(fopen(name, "w"));
        c->is_failing = false;
    }
    return 0;
}

/* write_case - writes the part of C, of 200 MiB of zeros, and returns the status. */
static ckpt_status write_case(struct writing_case *c)
{
    char input[64], output[64];
    ckpt_file *f;
    snprintf(input, sizeof input, "%s/in.safetensors", c->folder);
    snprintf(output, sizeof output, "%s/out.safetensors", c->folder);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(input, NULL, &f, &err), CKPT_OK);
    ckpt_plan *p = plan_of(f);
    ckpt_write_options o = {.struct_size = sizeof o, .threads = 1, .no_sync = 1, .parts = 1, .user = c};
    o.progress = fail_other_part;
    o.planned = note_plan;
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    ckpt_status st = ckpt_plan_write(p, output, &o, &result, &err);
    if (st == CKPT_OK)
        CU_ASSERT_STRING_EQUAL(result.plan_id, c->id);
    close_plan(p);
    ckpt_close(f);
    return st;
}

static void make_input(const char *folder)
{
    static const char header[] = "\110\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[209715200],"
                                 "\"data_offsets\":[0,209715200]}}   ";
    char name[64];
    snprintf(name, sizeof name, "%s/in.safetensors", folder);
    FILE *f = fopen(name, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(header, 1, 80, f), 80);
    CU_ASSERT_EQUAL(fclose(f), 0);
    CU_ASSERT_EQUAL(truncate(name, 80 + 209715200), 0);
}

static void a_part_stops_when_another_fails(void)
{
    char folder[] = "/tmp/ckpt-unit-XXXXXX", output[64], input[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(output, sizeof output, "%s/out.safetensors", folder);
    snprintf(input, sizeof input, "%s/in.safetensors", folder);
    make_input(folder);
    struct writing_case c = {.folder = folder, .refuses_plan = true};
    CU_ASSERT_EQUAL(write_case(&c), CKPT_ECANCELLED);
    CU_ASSERT(strlen(c.id) == PART_ID_TEXT - 1 && c.done == 0);
    CU_ASSERT_EQUAL(ckpt_parts_clean(output, &err), CKPT_ENOTFOUND);
    c.refuses_plan = false;
    c.is_failing = true;
    CU_ASSERT_EQUAL(write_case(&c), CKPT_ECANCELLED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "another part failed"));
    CU_ASSERT(c.done >= 48 * MIB && c.done < 96 * MIB);
    CU_ASSERT_EQUAL(write_case(&c), CKPT_OK); /* that failure was before this run */
    CU_ASSERT_EQUAL(ckpt_parts_clean(output, &err), CKPT_OK);
    CU_ASSERT(remove(input) == 0 && rmdir(folder) == 0);
}

/* ------------------------------------------------------------------ records */

static char path[] = "/tmp/ckpt-unit-XXXXXX";

static void write_text(ckpt_str text)
{
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(text.ptr, 1, text.len, f), text.len);
    CU_ASSERT_EQUAL(fclose(f), 0);
}

static struct part_file output_files[] = {{{"a \"name\"", 8}, 100}, {{"b", 1}, INT64_MAX}};
static uint64_t part_bytes[] = {60, INT64_MAX};
static const struct part_job job = {.id = "0123456789abcdef0123456789abcdef",
                                    .inputs = "00000000000000000000000000000123",
                                    .parts = 2,
                                    .by_file = true,
                                    .target = {"b", 1},
                                    .files = output_files,
                                    .nfiles = 2,
                                    .part_bytes = part_bytes};

static void plans_are_read_as_written(void)
{
    buf text;
    struct part_job got;
    arena *a = arena_new(1 << 20);
    buf_init(&text, 1 << 20);
    part_job_put(&text, &job);
    write_text(buf_view(&text));
    CU_ASSERT_EQUAL_FATAL(part_job_read(path, a, &got, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(got.id, job.id);
    CU_ASSERT_STRING_EQUAL(got.inputs, job.inputs);
    CU_ASSERT(got.parts == 2 && got.by_file && got.nfiles == 2 && str_eq(got.target, job.target));
    CU_ASSERT(str_eq(got.files[0].name, output_files[0].name) && got.files[1].size == INT64_MAX);
    CU_ASSERT(got.part_bytes[0] == 60 && got.part_bytes[1] == INT64_MAX);
    buf_free(&text);
    arena_free(a);
}

static void records_are_read_as_written(void)
{
    struct part_range ranges[] = {{0, 5, 100, {1, 0xff}}, {1, 0, INT64_MAX, {0}}};
    struct part_checksum checksums[] = {{7, STR_LIT("w"), 3, 4, 10, 0xffffffff, 1, true}};
    const struct part_record record = {.id = "0123456789abcdef0123456789abcdef",
                                       .part = 1,
                                       .parts = 2,
                                       .done = true,
                                       .overflowed = 9,
                                       .ranges = ranges,
                                       .nranges = 2,
                                       .checksums = checksums,
                                       .nchecksums = 1};
    struct part_record got;
    buf text;
    arena *a = arena_new(1 << 20);
    buf_init(&text, 1 << 20);
    part_record_put(&text, &record);
    write_text(buf_view(&text));
    CU_ASSERT_EQUAL_FATAL(part_record_read(path, &job, a, &got, &err), CKPT_OK);
    CU_ASSERT(got.part == 1 && got.parts == 2 && got.done && got.overflowed == 9);
    CU_ASSERT_FATAL(got.nranges == 2 && got.nchecksums == 1);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT(got.ranges[i].file == ranges[i].file && got.ranges[i].from == ranges[i].from);
        CU_ASSERT(got.ranges[i].to == ranges[i].to &&
                  memcmp(got.ranges[i].digest, ranges[i].digest, PART_DIGEST_BYTES) == 0);
    }
    const struct part_checksum *c = &got.checksums[0];
    CU_ASSERT(c->row == 7 && str_is(c->name, "w") && c->from == 3 && c->nbytes == 4 && c->total == 10);
    CU_ASSERT(c->crc == 0xffffffff && c->recorded == 1 && c->is_crc32c);
    buf_free(&text);
    arena_free(a);
}

#define ID     "'plan_id':'0123456789abcdef0123456789abcdef'"
#define INPUTS "'inputs':'0123456789abcdef0123456789abcdef'"
#define PLAN   "{'schema':'ckpt.part-plan.v1'," ID "," INPUTS ","
#define PART   "{'schema':'ckpt.part.v1'," ID ",'part':0,'parts':2,'done':true,'overflowed':0,"

static void malformed_plans_are_refused(void)
{
    static const char *const texts[] = {
        "[]",
        "{}",
        "{'schema':'ckpt.part.v1'}",
        PLAN "'parts':0,'unit':'file','target':'b','files':[['b',1]],'part_bytes':[]}",
        PLAN "'parts':65537,'unit':'file','target':'b','files':[['b',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['../b',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['..',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['plan.json',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['part-0000-of-0001.json',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['failed-0000.json',1]],'part_bytes':[1]}",
        "{'schema':'ckpt.part-plan.v1'," ID
        ",'parts':1,'unit':'file','target':'b','files':[['b',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['\\u0000',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'','files':[['b',1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['b',-1]],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['b']],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[7],'part_bytes':[1]}",
        PLAN "'parts':1,'unit':'file','target':'b','files':[['b',1]],'part_bytes':[1,2]}",
        PLAN "'parts':1,'unit':3,'target':'b','files':[['b',1]],'part_bytes':[1]}",
        "{'schema':'ckpt.part-plan.v1','plan_id':'0'}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct part_job got;
        arena *a = arena_new(1 << 20);
        write_text(str_c(quoted(texts[i])));
        ckpt_status st = part_job_read(path, a, &got, &err);
        if (st != CKPT_EFORMAT)
            fprintf(stderr, "%s: %s\n", texts[i], ckpt_status_name(st));
        CU_ASSERT_EQUAL(st, CKPT_EFORMAT);
        CU_ASSERT_STRING_EQUAL(err.file, path);
        arena_free(a);
    }
}

static void malformed_records_are_refused(void)
{
    static const char *const texts[] = {
        PLAN "}",
        PART "'ranges':[]}",
        PART "'checksums':[]}",
        PART "'ranges':[],'checksums':{}}",
        PART "'ranges':[[2,0,1,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,0,101,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,1,1,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,2,1,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,-1,1,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,0,1.5,'00000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,0,1,'0000000000000000000000000000000']],'checksums':[]}",
        PART "'ranges':[[0,0,1,'0000000000000000000000000000000g']],'checksums':[]}",
        PART "'ranges':[[0,0,1]],'checksums':[]}",
        PART "'ranges':[0],'checksums':[]}",
        PART "'ranges':[],'checksums':[[0,5,6,1,'crc32',10,1,'w']]}",
        PART "'ranges':[],'checksums':[[0,5,5,4294967296,'crc32',10,1,'w']]}",
        PART "'ranges':[],'checksums':[[0,5,5,1,'crc32',10,1]]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct part_record got;
        arena *a = arena_new(1 << 20);
        write_text(str_c(quoted(texts[i])));
        CU_ASSERT_EQUAL(part_record_read(path, &job, a, &got, &err), CKPT_EFORMAT);
        arena_free(a);
    }
}

void suite_parts(void)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return;
    close(fd);
    UNIT(cuts_have_each_byte_once);
    UNIT(the_id_is_of_metadata_and_options);
    UNIT(a_part_stops_when_another_fails);
    UNIT(plans_are_read_as_written);
    UNIT(records_are_read_as_written);
    UNIT(malformed_plans_are_refused);
    UNIT(malformed_records_are_refused);
}
