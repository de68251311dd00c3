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

ckpt_status check_init(struct check *c, const ckpt_verify_options *opts, ckpt_verify_result *result,
                       ckpt_error *err)
{
    *c = (struct check){.opts = opts, .result = result};
    *result = (ckpt_verify_result){0};
    c->a = arena_new(MAX_BYTES);
    c->reported = map_new(0);
    return c->a && c->reported ? CKPT_OK : fail_memory(err);
}

void check_free(struct check *c)
{
    for (size_t i = 0; i < c->nrecords; i++)
        source_unref(c->records[i].src);
    for (size_t i = 0; i < c->nobjects; i++)
        c->free_object(c->objects[i]);
    for (size_t i = 0; i < c->nwatched; i++)
        source_unref(c->watched[i]);
    map_free(c->reported);
    arena_free(c->a);
}

bool check_is_fault(ckpt_status st)
{
    return st == CKPT_EFORMAT || st == CKPT_ETRUNCATED || st == CKPT_ECHECKSUM;
}

/* note_finding - notes E. *UNSEEN: no finding noted before has its file, offset, innermost `where`, text. */
static ckpt_status note_finding(struct check *c, const ckpt_error *e, bool *unseen, ckpt_error *err)
{
    uint32_t old;
    ckpt_str key = arena_printf(c->a, "%s\n%llu\n%s\n%s", e->file, (unsigned long long)e->offset,
                                e->where + e->innermost, e->what);
    CKPT_TRY_ALLOC(key.ptr && map_put(c->reported, key, 1, &old), err);
    *unseen = old == MAP_NONE;
    return CKPT_OK;
}

ckpt_status check_set_hint(struct check *c, const char *hint, ckpt_error *err)
{
    ckpt_str kept = arena_printf(c->a, "%s", hint);
    CKPT_TRY_ALLOC(kept.ptr, err);
    c->hint = kept.len ? kept.ptr : c->hint;
    return CKPT_OK;
}

/* call_report - passes F to the caller, with the hint of C if there is one. */
static int call_report(const struct check *c, ckpt_finding *f)
{
    ckpt_error error_copy = *f->error;
    if (c->hint)
        error_replace_hint(&error_copy, c->hint);
    f->error = &error_copy;
    return c->report(c->user, f);
}

ckpt_status check_report_finding(struct check *c, enum check_rule rule, ckpt_finding *f, ckpt_error *err)
{
    bool unseen = false;
    if (c->cancelled)
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    CKPT_TRY(note_finding(c, f->error, &unseen, err));
    if (!unseen)
        return CKPT_OK;
    if (c->result->findings < CHANGE_CHECKS && check_unchanged(c, err) == CKPT_ECHANGED)
        return CKPT_ECHANGED; /* a concurrent writer caused the fault */
    f->id = rules[rule].name;
    c->result->findings++;
    c->cancelled = c->report && call_report(c, f);
    return c->cancelled ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}

ckpt_status check_report(struct check *c, enum check_rule rule, const char *file, const ckpt_error *e,
                         ckpt_error *err)
{
    ckpt_error error_copy = *e;
    ckpt_finding f = {.error = &error_copy};
    if (file)
        error_add_file(&error_copy, file);
    return check_report_finding(c, rule, &f, err);
}

ckpt_status check_report_fault(struct check *c, const char *file, const ckpt_error *e, ckpt_error *err)
{
    return check_report(c, check_rule_of_status(e->status), file, e, err);
}

/* copy_path - returns PATH in the arena of C; records of one file share it. NULL: no memory. */
static const char *copy_path(struct check *c, const char *path)
{
    const char *last = c->nrecords ? c->records[c->nrecords - 1].path : NULL;
    return last && strcmp(last, path) == 0 ? last : arena_str(c->a, str_c(path)).ptr;
}

ckpt_status check_add_record(struct check *c, const struct check_record *r, ckpt_error *err)
{
    struct check_record copy = *r;
    copy.name = arena_str(c->a, r->name);
    copy.path = copy_path(c, r->path);
    if (copy.name.ptr && copy.path && ARENA_PUSH(c->a, c, records, &copy))
        return CKPT_OK;
    source_unref(r->src);
    return fail_memory(err);
}

void check_count(struct check *c, uint64_t n, uint64_t bytes)
{
    if (!c)
        return;
    c->result->records = size_add(c->result->records, n);
    c->result->read = size_add(c->result->read, bytes);
}

ckpt_status check_add_slice(struct check *c, struct check_record r, source *src, uint64_t offset, uint64_t n,
                            ckpt_error *err)
{
    if (!c || !range_within(offset, n, src->size))
        return CKPT_OK;
    CKPT_TRY(source_slice(src, offset, n, &r.src, err));
    r.file_offset = source_pos(src, offset);
    return check_add_record(c, &r, err);
}

ckpt_status check_watch_source(struct check *c, source *src, ckpt_error *err)
{
    if (ARENA_PUSH(c->a, c, watched, &src))
        return CKPT_OK;
    source_unref(src);
    return fail_memory(err);
}

ckpt_status check_unchanged(const struct check *c, ckpt_error *err)
{
    for (size_t i = 0; i < c->nwatched; i++)
        CKPT_TRY(source_check_unchanged(c->watched[i], err));
    return CKPT_OK;
}

ckpt_status check_keep_object(struct check *c, void *object, ckpt_error *err)
{
    if (ARENA_PUSH(c->a, c, objects, &object))
        return CKPT_OK;
    c->free_object(object);
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

/* storage_offset - returns the file offset of storage I, which an archive locates on demand. */
static uint64_t storage_offset(const ckpt_file *f, uint32_t i)
{
    ckpt_error ignored;
    const struct storage *s = i < f->table.nstorages ? &f->table.storages[i] : NULL;
    return s && s->src && source_locate(s->src, &ignored) == CKPT_OK ? source_pos(s->src, s->off)
                                                                     : CKPT_NO_OFFSET;
}

ckpt_status file_add_row(ckpt_file *f, const struct row *r, uint32_t *index, ckpt_error *err)
{
    ckpt_status st = table_add_row(&f->table, r, index, err);
    if (st == CKPT_OK || !f->check || !check_is_fault(st))
        return st;
    struct row without_data = *r;
    if (err->offset == CKPT_NO_OFFSET)
        err->offset = storage_offset(f, r->t.storage);
    CKPT_TRY(file_report_fault(f, st, err));
    without_data.t.has_data = without_data.t.has_shape = false;
    without_data.t.ndim = 0;
    without_data.t.stride = NULL;
    without_data.t.storage = CKPT_NO_STORAGE;
    return table_add_row(&f->table, &without_data, index, err);
}
