/* in_place.c - edits a file in place: checks that only names change, and reads the result before a byte is
 * written. Also checks whether an undo journal can be of such an edit. */
#include "base/sized.h"
#include "format/hub/listed_names.h"
#include "format/in_place.h"
#include "format/registry.h"

/* reopen_bytes - opens SRC as *OUT, or sets it to NULL if SRC is not a checkpoint. PATH is for messages. */
static ckpt_status reopen_bytes(const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    ckpt_status st = format_open(&(struct opening){.path = path, .src = source_ref(src)}, out, err);
    if (st == CKPT_OK && (st = table_locate(&(*out)->table, err)) == CKPT_OK)
        return CKPT_OK;
    if (st == CKPT_EIO || st == CKPT_ENOMEM)
        return st;
    file_free(*out);
    *out = NULL;
    return CKPT_OK;
}

/* journal_accepts_undo - the function accepts_undo of struct journal_judge. The format of RESTORED_BYTES, the
 * file after UNDO, decides whether an edit in place may have written UNDO. USER is the path. */
static ckpt_status journal_accepts_undo(void *user, source *now, source *restored_bytes,
                                        const struct patches *undo, bool *accepted, ckpt_error *err)
{
    ckpt_file *current = NULL, *restored = NULL;
    ckpt_status st = reopen_bytes(user, restored_bytes, &restored, err);
    CKPT_THEN(st, reopen_bytes(user, now, &current, err));
    *accepted = st == CKPT_OK && restored && restored->format->undoes &&
                restored->format->undoes(restored, current, now, undo);
    file_free(current);
    file_free(restored);
    return st;
}

/* check_unchanged - checks under the lock that no other edit changed the file since its header was read. */
static ckpt_status check_unchanged(void *user, ckpt_error *err) { return file_check_unchanged(user, err); }

struct journal_judge format_journal_judge(const char *path)
{
    return (struct journal_judge){.user = (void *)(uintptr_t)path, .accepts_undo = journal_accepts_undo};
}

struct journal_options format_journal_options(const ckpt_write_options *options, ckpt_file *f)
{
    return (struct journal_options){.follow_links = options->follow_links,
                                    .no_sync = options->no_sync,
                                    .dry_run = options->dry_run,
                                    .judge = {.user = f, .check_unchanged = check_unchanged}};
}

ckpt_status ckpt_recover(const char *path, const ckpt_write_options *opts, ckpt_recovered *what,
                         ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_write_options given;
    if (what)
        *what = CKPT_RECOVERED_NOTHING;
    CKPT_REQUIRE(err, path);
    CKPT_TRY(sized_struct_copy_in(opts, &given, sizeof given, err));
    struct journal_options o = format_journal_options(&given, NULL);
    ckpt_recovered recovered = CKPT_RECOVERED_NOTHING;
    o.judge = format_journal_judge(path);
    ckpt_status st = strcmp(path, "-") != 0 ? journal_recover(path, &o, &recovered, err) : CKPT_OK;
    if (what)
        *what = recovered;
    return st;
}

ckpt_status format_check_own_file(const ckpt_file *f, ckpt_error *err)
{
    if (f->src && !f->archive && source_pos(f->src, 0) != CKPT_NO_OFFSET && strcmp(f->path, "-") != 0)
        return CKPT_OK;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "only a single file on disk is edited in place");
}

/* check_only_names - fails unless P changes names alone and its file can be edited in place. */
static ckpt_status check_only_names(const ckpt_plan *p, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    CKPT_TRY(format_check_own_file(f, err));
    if (!f->format->in_place)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a %s file; torch zip, safetensors and GGUF are edited in place", f->format->title);
    if (p->casts.to)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "dtypes would change; in place only names can change");
    if (p->root_depth || p->nentries != f->table.nrows)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a part of the file; in place only names can change");
    return CKPT_OK;
}

static bool has_same_storages(const struct table *left, const struct table *right)
{
    bool same = left->nstorages == right->nstorages;
    for (size_t i = 0; same && i < left->nstorages; i++) {
        const struct storage *s = &left->storages[i], *t = &right->storages[i];
        same = s->nbytes == t->nbytes && s->dtype == t->dtype && s->has_crc == t->has_crc && s->crc == t->crc;
    }
    return same;
}

static bool has_same_tensors(const ckpt_plan *p, const ckpt_file *f)
{
    bool same = f->table.nrows == p->nentries && has_same_storages(&p->file->table, &f->table);
    for (size_t i = 0; same && i < p->nentries; i++) {
        const ckpt_tensor a = table_tensor(&p->file->table, p->entries[i].row),
                          b = table_tensor(&f->table, i);
        same = str_eq(b.name, p->entries[i].name) && table_same_place(&a, &b) &&
               a.requires_grad == b.requires_grad && a.parameter == b.parameter;
    }
    return same;
}

/* check_result - reads the file as it will be after PATCHES, and fails unless it has the tensors of P. */
static ckpt_status check_result(const ckpt_plan *p, const struct patches *patches, ckpt_error *err)
{
    ckpt_file *f = NULL;
    source *after = source_patched(p->file->src, patches);
    CKPT_TRY_ALLOC(after, err);
    const struct opening o = {
        .path = p->file->path, .src = after, .limits = &p->file->limits, .only = p->file->format};
    CKPT_TRY(format_open(&o, &f, err));
    bool same = has_same_tensors(p, f);
    file_free(f);
    return same ? CKPT_OK
                : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                       "the edited file would not read back as the same tensors");
}

static ckpt_status edit_in_place(ckpt_plan *p, const struct journal_options *options, struct patches *patches,
                                 ckpt_error *err)
{
    ckpt_status st = check_only_names(p, err);
    CKPT_THEN(st, shards_check_index(p, p->file->path, err));
    CKPT_THEN(st, p->file->format->in_place(p, patches, err));
    CKPT_THEN(st, check_result(p, patches, err));
    st = st == CKPT_OK ? st : file_status_after_read(p->file, st, err);
    if (st != CKPT_OK) {
        if (st == CKPT_EUNSUPPORTED || st == CKPT_EUSAGE)
            error_add_hint(err, "-o OUT writes a copy with the new names");
        return st;
    }
    return journal_apply(p->file->path, patches, options, err);
}

ckpt_status ckpt_plan_write_in_place(ckpt_plan *plan, const ckpt_write_options *opts, ckpt_write_result *out,
                                     ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_write_options given;
    CKPT_TRY(out ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, plan);
    CKPT_TRY(sized_struct_copy_in(opts, &given, sizeof given, err));
    const struct journal_options o = format_journal_options(&given, plan->file);
    struct patches patches = {0};
    plan->report.ndropped = plan->report.naliases = plan->report.noutputs = plan->report.ncasts = 0;
    CKPT_TRY(plan_update_entries(plan, err));
    ckpt_status st = plan->renames.n ? edit_in_place(plan, &o, &patches, err) : check_only_names(plan, err);
    CKPT_THEN(st, plan_note_output(plan, plan->file->path, err));
    if (st != CKPT_OK) {
        error_add_file(err, plan->file->path);
        return st;
    }
    ckpt_write_result r = {.format = plan->file->format->name,
                           .outputs = plan->report.outputs,
                           .noutputs = plan->report.noutputs,
                           .tensors = plan->nentries};
    for (size_t i = 0; i < patches.n; i++)
        r.bytes += patches.patch[i].bytes.len;
    if (out)
        sized_struct_copy_out(out, &r, sizeof r);
    return CKPT_OK;
}
