/* part_plan.c - see part_plan.h. */
#include "op/part_plan.h"

#include <stdlib.h>

#include "base/search.h"
#include "base/store.h"
#include "base/utf8.h"
#include "op/hash_xxh3.h"
#include "op/share.h"

#define PLAN_VERSION   1u
#define PLAN_ARENA_MAX (UINT64_C(1) << 34) /* bytes */
#define CUT_ALIGN      (UINT64_C(4) << 20)
#define STEP_MAX       (UINT64_C(1) << 30)
#define STEPS          16u /* at least, if each has CUT_ALIGN bytes */

/* ------------------------------------------------------------------- files */

static void digest_number(void *state, uint64_t number)
{
    unsigned char bytes[8];
    store_u64le(bytes, number);
    xxh3_update(state, bytes, sizeof bytes);
}

static void digest_text(void *state, ckpt_str text)
{
    digest_number(state, text.len);
    xxh3_update(state, text.ptr, text.len);
}

/* identify_file - adds the facts of FILE, called NAME, to the identity of PLAN. */
static void identify_file(struct part_plan *plan, const struct layout_file *file, ckpt_str name)
{
    digest_text(plan->identity, name);
    digest_number(plan->identity, file->size);
    digest_number(plan->identity, file->header_size);
    digest_number(plan->identity, file->is_copy);
    digest_number(plan->identity, file->n);
    for (size_t i = 0; i < file->n; i++) {
        uint32_t row = file->items[i].row;
        uint64_t from = table_dtype_of(&plan->p->file->table, row), to = plan_dtype(plan->p, row);
        digest_number(plan->identity, row | from << 32 | to << 48);
    }
}

/* put_header - adds BYTES to the identity. Only the part that writes the header of a file keeps its bytes;
 * which one that is shows only at the end if parts have files, not ranges. */
static ckpt_status put_header(struct output_layout *layout, ckpt_str bytes, ckpt_error *err)
{
    struct part_plan *plan = (struct part_plan *)layout;
    bool keeps_header = plan->opts.part == 0 || plan->opts.part_by_file;
    xxh3_update(plan->identity, bytes.ptr, bytes.len);
    plan->next_header += bytes.len; /* they were in memory: the sum does not wrap */
    return keeps_header ? spool_write(plan->spooled, bytes.ptr, bytes.len, err) : CKPT_OK;
}

static ckpt_status add_file(struct output_layout *layout, const struct layout_file *file, ckpt_error *err)
{
    struct part_plan *plan = (struct part_plan *)layout;
    ckpt_str name = str_after_last(str_c(file->path), '/');
    struct layout_file copy = *file;
    ckpt_status st = CKPT_OK;
    if (!utf8_check(name, false, NULL))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                  "the name of the output is not UTF-8, which an output written by several processes needs");
    else if (part_name_is_reserved(name))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                  "an output written by several processes cannot have this name, which a file of theirs has");
    st = name_file_if_failed(st, file->path, err);
    copy.path = arena_str(plan->a, str_c(file->path)).ptr;
    copy.header_size = plan->next_header;
    if (st == CKPT_OK && !(copy.path && ARENA_PUSH(plan->a, plan, files, &copy)))
        st = fail_memory(err);
    if (st == CKPT_OK)
        identify_file(plan, &copy, name);
    else
        free(file->items);
    plan->next_header = 0;
    return st;
}

ckpt_status part_plan_new(ckpt_plan *p, const ckpt_write_options *opts, struct part_plan **out,
                          ckpt_error *err)
{
    struct part_plan *plan = *out = calloc(1, sizeof *plan);
    CKPT_TRY_ALLOC(plan, err);
    plan->layout = (struct output_layout){.put_header = put_header, .add_file = add_file};
    plan->p = p;
    plan->opts = *opts;
    if (p->file->src)
        plan->input = (struct storage){.src = p->file->src, .nbytes = p->file->src->size};
    plan->a = arena_new(PLAN_ARENA_MAX);
    plan->identity = xxh3_new();
    plan->inputs = xxh3_new();
    plan->spooled = spool_new(UINT64_MAX);
    CKPT_TRY_ALLOC(plan->a && plan->identity && plan->inputs && plan->spooled, err);
    digest_number(plan->identity, PLAN_VERSION);
    digest_number(plan->identity, opts->strict != 0);
    digest_number(plan->identity, p->file->ignore_crc);
    digest_text(plan->identity, p->rules); /* they may change elements, and neither names nor shapes */
    return CKPT_OK;
}

struct output_layout *part_plan_layout(struct part_plan *plan) { return &plan->layout; }

ckpt_status part_plan_add_input(void *plan, const struct stat *st, ckpt_error *err)
{
    void *inputs = ((struct part_plan *)plan)->inputs;
    uint64_t facts[3];
    (void)err;
    if (share_input_facts(st, facts))
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            digest_number(inputs, facts[i]);
    return CKPT_OK;
}

void part_plan_free(struct part_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->nfiles; i++)
        free(plan->files[i].items);
    xxh3_free(plan->identity);
    xxh3_free(plan->inputs);
    spool_free(plan->spooled);
    source_unref(plan->headers);
    arena_free(plan->a);
    free(plan);
}

/* -------------------------------------------------------------------- cuts */

/* find_file - returns the last file whose tensors begin at or before POS of the line; it has that byte. */
static size_t find_file(const struct part_plan *plan, uint64_t pos)
{
    return find_begin(plan->begins, plan->nfiles, sizeof *plan->begins, 0, pos);
}

size_t part_plan_find_item(const struct layout_file *file, uint64_t at)
{
    return find_begin(file->items, file->n, sizeof *file->items, offsetof(struct layout_item, begin), at);
}

/* move_to_element - returns the begin of the element of FILE's tensors that has the byte AT, or that of
 * its tensor if that cannot be read from its middle. */
static uint64_t move_to_element(const struct part_plan *plan, const struct layout_file *file, uint64_t at)
{
    const struct layout_item *x = &file->items[part_plan_find_item(file, at)];
    struct table *t = &plan->p->file->table;
    const struct dtype_info *from = dtype_info(table_dtype_of(t, x->row)),
                            *to = dtype_info(plan_dtype(plan->p, x->row));
    bool splits = from->block_elems == 1 && to->block_elems == 1 && stream_can_split(t, x->row);
    uint64_t within = at - x->begin;
    return splits ? at - within % to->block_bytes : x->begin;
}

/* move_cut - returns the cut that is made at or before byte POS of the line. */
static uint64_t move_cut(const struct part_plan *plan, uint64_t pos)
{
    uint64_t total = plan->begins[plan->nfiles];
    if (pos >= total)
        return total;
    size_t k = find_file(plan, pos);
    const struct layout_file *file = &plan->files[k];
    uint64_t at = file->header_size + (pos - plan->begins[k]); /* below the file's size */
    at -= at % CUT_ALIGN;
    if (at <= file->header_size)
        return plan->begins[k];
    at -= file->header_size;
    return plan->begins[k] + (file->is_copy ? at : move_to_element(plan, file, at));
}

/* find_cut - returns where part NUMBER of the line begins. */
static uint64_t find_cut(const struct part_plan *plan, uint32_t number)
{
    return move_cut(plan, share_find_cut(plan->begins[plan->nfiles], number, plan->job.parts));
}

/* ------------------------------------------------------------------ ranges */

/* choose_step - returns the amount that is written before it is recorded, of a part of NBYTES bytes. */
static uint64_t choose_step(uint64_t nbytes)
{
    uint64_t step = nbytes / STEPS;
    step += CUT_ALIGN - step % CUT_ALIGN;
    return step < STEP_MAX ? step : STEP_MAX;
}

uint64_t part_plan_step(const struct part_plan *plan, uint32_t number)
{
    return choose_step(plan->job.part_bytes[number]);
}

static ckpt_status add_range(const struct part_plan *plan, struct part_record *out, size_t file,
                             uint64_t from, uint64_t to, ckpt_error *err)
{
    const struct part_range r = {.file = (uint32_t)file, .from = from, .to = to};
    if (from == to)
        return CKPT_OK;
    return ARENA_PUSH(plan->a, out, ranges, &r) ? CKPT_OK : fail_memory(err);
}

/* add_line - adds the ranges of the files that the bytes [FROM, TO) of the line are. */
static ckpt_status add_line(const struct part_plan *plan, struct part_record *out, uint64_t from, uint64_t to,
                            ckpt_error *err)
{
    for (size_t k = find_file(plan, from); from < to; k++) {
        uint64_t end = plan->begins[k + 1] < to ? plan->begins[k + 1] : to;
        uint64_t offset = plan->files[k].header_size + (from - plan->begins[k]);
        CKPT_TRY(add_range(plan, out, k, offset, offset + (end - from), err));
        from = end;
    }
    return CKPT_OK;
}

/* add_steps - adds the bytes [FROM, TO) of the line in steps. */
static ckpt_status add_steps(const struct part_plan *plan, struct part_record *out, uint64_t from,
                             uint64_t to, uint64_t step, ckpt_error *err)
{
    while (from < to) {
        uint64_t wanted = from, next = from;
        while (next <= from && wanted < to) { /* a cut may be moved back to FROM, in a large tensor */
            wanted = size_add(wanted, step);
            next = wanted < to ? move_cut(plan, wanted) : to;
        }
        CKPT_TRY(add_line(plan, out, from, next, err));
        from = next;
    }
    return CKPT_OK;
}

static bool owns_header(const struct part_plan *plan, uint32_t number, size_t file)
{
    return plan->opts.part_by_file ? plan->owners[file] == number : number == 0;
}

ckpt_status part_plan_list(const struct part_plan *plan, uint32_t number, struct part_record *out,
                           ckpt_error *err)
{
    uint64_t step = part_plan_step(plan, number);
    for (size_t k = 0; k < plan->nfiles; k++)
        if (owns_header(plan, number, k))
            CKPT_TRY(add_range(plan, out, k, 0, plan->files[k].header_size, err));
    if (!plan->opts.part_by_file)
        return add_steps(plan, out, find_cut(plan, number), find_cut(plan, number + 1), step, err);
    for (size_t k = 0; k < plan->nfiles; k++)
        if (plan->owners[k] == number)
            CKPT_TRY(add_steps(plan, out, plan->begins[k], plan->begins[k + 1], step, err));
    return CKPT_OK;
}

/* ------------------------------------------------------------------ finish */

static ckpt_status lay_out_line(struct part_plan *plan, ckpt_error *err)
{
    uint64_t total = 0;
    plan->begins = arena_array(plan->a, plan->nfiles + 1, sizeof *plan->begins);
    CKPT_TRY_ALLOC(plan->begins, err);
    for (size_t k = 0; k < plan->nfiles; k++) {
        const struct layout_file *file = &plan->files[k];
        plan->begins[k] = total;
        if (file->size > INT64_MAX || !checked_add(total, file->size - file->header_size, &total))
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the output would exceed the largest file size");
    }
    plan->begins[plan->nfiles] = total;
    return CKPT_OK;
}

struct sized_file {
    uint64_t size;
    size_t file;
};

static int compare_sized_files(const void *left, const void *right)
{
    const struct sized_file *a = left, *b = right;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return (a->file > b->file) - (a->file < b->file);
}

/* deal_files - deals the files to the parts in turn, the largest first. */
static ckpt_status deal_files(struct part_plan *plan, ckpt_error *err)
{
    struct sized_file *sorted = arena_array(plan->a, plan->nfiles, sizeof *sorted);
    plan->owners = arena_array(plan->a, plan->nfiles, sizeof *plan->owners);
    CKPT_TRY_ALLOC(sorted && plan->owners, err);
    for (size_t k = 0; k < plan->nfiles; k++)
        sorted[k] = (struct sized_file){plan->files[k].size, k};
    qsort(sorted, plan->nfiles, sizeof *sorted, compare_sized_files);
    for (size_t i = 0; i < plan->nfiles; i++)
        plan->owners[sorted[i].file] = (uint32_t)(i % plan->job.parts);
    return CKPT_OK;
}

/* count_bytes - computes the bytes of each part. */
static ckpt_status count_bytes(struct part_plan *plan, ckpt_error *err)
{
    struct part_job *job = &plan->job;
    job->part_bytes = arena_array(plan->a, job->parts, sizeof *job->part_bytes);
    CKPT_TRY_ALLOC(job->part_bytes, err);
    for (uint32_t i = 0; i < job->parts && !plan->opts.part_by_file; i++)
        job->part_bytes[i] = find_cut(plan, i + 1) - find_cut(plan, i);
    for (size_t k = 0; k < plan->nfiles; k++) {
        const struct layout_file *file = &plan->files[k];
        uint64_t *bytes = &job->part_bytes[plan->opts.part_by_file ? plan->owners[k] : 0];
        *bytes = size_add(*bytes, plan->opts.part_by_file ? file->size : file->header_size);
    }
    return CKPT_OK;
}

/* find_target - returns what the output is called: its file, or the file that a set is numbered after. */
static ckpt_str find_target(const struct part_plan *plan)
{
    ckpt_str name = str_after_last(str_c(plan->files[plan->nfiles - 1].path), '/');
    return str_ends(name, STR_LIT(PART_INDEX_SUFFIX)) ? str_first(name, name.len - strlen(PART_INDEX_SUFFIX))
                                                      : name;
}

static ckpt_status describe_job(struct part_plan *plan, ckpt_error *err)
{
    struct part_job *job = &plan->job;
    uint8_t id[XXH3_BYTES];
    xxh3_final(plan->inputs, id);
    part_id_format(id, job->inputs);
    xxh3_update(plan->identity, id, sizeof id);
    xxh3_final(plan->identity, id);
    part_id_format(id, job->id);
    job->parts = plan->opts.parts;
    job->by_file = plan->opts.part_by_file != 0;
    job->target = find_target(plan);
    job->nfiles = plan->nfiles;
    job->files = arena_array(plan->a, plan->nfiles, sizeof *job->files);
    CKPT_TRY_ALLOC(job->files, err);
    for (size_t k = 0; k < plan->nfiles; k++)
        job->files[k] = (struct part_file){.name = str_after_last(str_c(plan->files[k].path), '/'),
                                           .size = plan->files[k].size};
    return CKPT_OK;
}

ckpt_status part_plan_finish(struct part_plan *plan, ckpt_error *err)
{
    if (plan->nfiles >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu files are too many", plan->nfiles);
    plan->headers = spool_source(plan->spooled);
    plan->spooled = NULL;
    CKPT_TRY(describe_job(plan, err));
    CKPT_TRY(lay_out_line(plan, err));
    if (plan->opts.part_by_file)
        CKPT_TRY(deal_files(plan, err));
    return count_bytes(plan, err);
}
