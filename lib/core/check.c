/* check.c - see check.h. */
#include "core/check.h"

#define MAX_BYTES     (UINT64_C(1) << 30) /* memory for the texts of findings and the list of records */
#define CHANGE_CHECKS 100u /* each of the first 100 findings makes sure that no file has changed meanwhile */

static const struct {
    const char *name, *text;
} rules[CHECK_RULES] = {
#define RULE(id, name, text) {name, text},
#include "core/check_rules.def"
#undef RULE
};

const char *ckpt_finding_text(const char *id)
{
    for (size_t i = 0; id && i < CHECK_RULES; i++)
        if (strcmp(rules[i].name, id) == 0)
            return rules[i].text;
    return NULL;
}

enum check_rule find_check_rule(const char *id)
{
    size_t i = 0;
    while (i < CHECK_RULES && strcmp(rules[i].name, id) != 0)
        i++;
    return i < CHECK_RULES ? (enum check_rule)i : CHECK_MALFORMED;
}

ckpt_status check_init(struct check *check, const ckpt_verify_options *opts, ckpt_verify_result *result,
                       ckpt_error *err)
{
    *check = (struct check){.opts = opts, .result = result};
    *result = (ckpt_verify_result){0};
    check->a = arena_new(MAX_BYTES);
    check->reported = map_new(0);
    return check->a && check->reported ? CKPT_OK : fail_memory(err);
}

void check_free(struct check *check)
{
    for (size_t i = 0; i < check->nrecords; i++)
        source_unref(check->records[i].src);
    for (size_t i = 0; i < check->nobjects; i++)
        check->free_object(check->objects[i]);
    for (size_t i = 0; i < check->nwatched; i++)
        source_unref(check->watched[i]);
    map_free(check->reported);
    arena_free(check->a);
}

bool check_is_fault(ckpt_status st)
{
    return st == CKPT_EFORMAT || st == CKPT_ETRUNCATED || st == CKPT_ECHECKSUM;
}

/* note_finding - notes ERROR. *UNSEEN: no finding noted before has its file, offset, innermost `where`,
 * text. */
static ckpt_status note_finding(struct check *check, const ckpt_error *error, bool *unseen, ckpt_error *err)
{
    uint32_t old;
    ckpt_str key = arena_printf(check->a, "%s\n%llu\n%s\n%s", error->file, (unsigned long long)error->offset,
                                error->where + error->innermost, error->what);
    CKPT_TRY_ALLOC(key.ptr && map_put(check->reported, key, 1, &old), err);
    *unseen = old == MAP_NONE;
    return CKPT_OK;
}

ckpt_status check_set_hint(struct check *check, const char *hint, ckpt_error *err)
{
    ckpt_str kept = arena_printf(check->a, "%s", hint);
    CKPT_TRY_ALLOC(kept.ptr, err);
    check->hint = kept.len ? kept.ptr : check->hint;
    return CKPT_OK;
}

/* call_report - passes FINDING to the caller, with the hint of CHECK if there is one. */
static int call_report(const struct check *check, ckpt_finding *finding)
{
    ckpt_error error_copy = *finding->error;
    if (check->hint)
        error_replace_hint(&error_copy, check->hint);
    finding->error = &error_copy;
    return check->report(check->user, finding);
}

ckpt_status check_report_finding(struct check *check, enum check_rule rule, ckpt_finding *finding,
                                 ckpt_error *err)
{
    bool unseen = false;
    if (check->cancelled)
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    CKPT_TRY(note_finding(check, finding->error, &unseen, err));
    if (!unseen)
        return CKPT_OK;
    if (check->result->findings < CHANGE_CHECKS && check_unchanged(check, err) == CKPT_ECHANGED)
        return CKPT_ECHANGED; /* a concurrent writer caused the fault */
    finding->id = rules[rule].name;
    check->result->findings++;
    check->cancelled = check->report && call_report(check, finding);
    return check->cancelled ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}

ckpt_status check_report(struct check *check, enum check_rule rule, const char *file, const ckpt_error *error,
                         ckpt_error *err)
{
    ckpt_error error_copy = *error;
    ckpt_finding f = {.error = &error_copy};
    if (file)
        error_add_file(&error_copy, file);
    return check_report_finding(check, rule, &f, err);
}

ckpt_status check_report_fault(struct check *check, const char *file, const ckpt_error *error,
                               ckpt_error *err)
{
    return check_report(check, check_rule_of_status(error->status), file, error, err);
}

/* copy_path - returns PATH in the arena of CHECK; records of one file share it. NULL: no memory. */
static const char *copy_path(struct check *check, const char *path)
{
    const char *last = check->nrecords ? check->records[check->nrecords - 1].path : NULL;
    return last && strcmp(last, path) == 0 ? last : arena_str(check->a, str_c(path)).ptr;
}

ckpt_status check_add_record(struct check *check, const struct check_record *record, ckpt_error *err)
{
    struct check_record copy = *record;
    copy.name = arena_str(check->a, record->name);
    copy.path = copy_path(check, record->path);
    if (copy.name.ptr && copy.path && ARENA_PUSH(check->a, check, records, &copy))
        return CKPT_OK;
    source_unref(record->src);
    return fail_memory(err);
}

void check_count(struct check *check, uint64_t count, uint64_t bytes)
{
    if (!check)
        return;
    check->result->records = size_add(check->result->records, count);
    check->result->read = size_add(check->result->read, bytes);
}

ckpt_status check_add_slice(struct check *check, struct check_record record, source *src, uint64_t offset,
                            uint64_t nbytes, ckpt_error *err)
{
    if (!check || !range_within(offset, nbytes, src->size))
        return CKPT_OK;
    CKPT_TRY(source_slice(src, offset, nbytes, &record.src, err));
    record.file_offset = source_pos(src, offset);
    return check_add_record(check, &record, err);
}

ckpt_status check_watch_source(struct check *check, source *src, ckpt_error *err)
{
    if (ARENA_PUSH(check->a, check, watched, &src))
        return CKPT_OK;
    source_unref(src);
    return fail_memory(err);
}

ckpt_status check_unchanged(const struct check *check, ckpt_error *err)
{
    for (size_t i = 0; i < check->nwatched; i++)
        CKPT_TRY(source_check_unchanged(check->watched[i], err));
    return CKPT_OK;
}

ckpt_status check_keep_object(struct check *check, void *object, ckpt_error *err)
{
    if (ARENA_PUSH(check->a, check, objects, &object))
        return CKPT_OK;
    check->free_object(object);
    return fail_memory(err);
}

ckpt_status file_report_fault_as(ckpt_file *f, enum check_rule rule, ckpt_status st, ckpt_error *err)
{
    ckpt_error reported;
    if (st == CKPT_OK || !f->check || !check_is_fault(st))
        return st;
    reported = *err;
    return check_report(f->check, rule, f->path, &reported, err);
}

ckpt_status file_report_lost(ckpt_file *f, ckpt_status st, ckpt_str what, ckpt_error *err)
{
    if (!f->salvage || !check_is_fault(st))
        return file_report_fault(f, st, err);
    file_note_loss(f, "%.*s: %s; it is lost", STR_ARG(what), err->what);
    return CKPT_OK;
}

/* storage_offset - returns the file offset of storage INDEX, which an archive locates on demand. */
static uint64_t storage_offset(const ckpt_file *f, uint32_t index)
{
    ckpt_error ignored;
    const struct storage *s = index < f->table.nstorages ? &f->table.storages[index] : NULL;
    return s && s->src && source_locate(s->src, &ignored) == CKPT_OK ? source_pos(s->src, s->off)
                                                                     : CKPT_NO_OFFSET;
}

ckpt_status file_add_row(ckpt_file *f, struct row *row, uint32_t *index, ckpt_error *err)
{
    ckpt_status st = table_add_row(&f->table, row, index, err);
    if (st == CKPT_OK || !f->check || !check_is_fault(st))
        return st;
    if (err->offset == CKPT_NO_OFFSET)
        err->offset = storage_offset(f, row->t.storage);
    CKPT_TRY(file_report_fault(f, st, err));
    row->t.has_data = row->t.has_shape = false;
    row->t.ndim = 0;
    row->t.stride = NULL;
    row->t.storage = CKPT_NO_STORAGE;
    return table_add_row(&f->table, row, index, err);
}
