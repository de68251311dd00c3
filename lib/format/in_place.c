/* in_place.c - a file edited where it stands: what may be edited so, the file read as it will be before a
 * byte of it changes, and whether an undo journal can be of such an edit. */
#include "base/sized.h"
#include "format/format.h"

/* ------------------------------------------------------------------- journals */

/* open_again - SRC as a file of ours, made of nothing but its bytes; *OUT is NULL where it is none. */
static ckpt_status open_again(const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    ckpt_status st = format_open(path, source_ref(src), NULL, NULL, out, err);
    if (st == CKPT_OK && (st = table_locate(&(*out)->table, err)) == CKPT_OK)
        return CKPT_OK;
    if (st == CKPT_EIO || st == CKPT_ENOMEM)
        return st;
    file_free(*out);
    *out = NULL;
    return CKPT_OK;
}

/* journal_holds - journal_judge: by the format of what would be restored. */
static ckpt_status journal_holds(void *user, source *now, source *after, const struct patches *undo,
                                 bool *held, ckpt_error *err)
{
    ckpt_file *is = NULL, *was = NULL;
    ckpt_status st = open_again(user, after, &was, err);
    if (st == CKPT_OK)
        st = open_again(user, now, &is, err);
    *held = st == CKPT_OK && was && was->format->undoes && was->format->undoes(was, is, now, undo);
    file_free(is);
    file_free(was);
    return st;
}

struct journal_judge format_judge(const char *path)
{
    return (struct journal_judge){.user = (void *)(uintptr_t)path, .holds = journal_holds};
}

static struct journal_options journal_of(const ckpt_write_options *o)
{
    return (struct journal_options){
        .follow_links = o->follow_links, .no_sync = o->no_sync, .dry_run = o->dry_run};
}

ckpt_status ckpt_recover(const char *path, const ckpt_write_options *opts, ckpt_recovered *what,
                         ckpt_error *err)
{
    ckpt_write_options given;
    if (what)
        *what = CKPT_RECOVERED_NOTHING;
    CKPT_REQUIRE(err, path);
    CKPT_TRY(sized_take(opts, &given, sizeof given, err));
    struct journal_options o = journal_of(&given);
    ckpt_recovered did = CKPT_RECOVERED_NOTHING;
    o.judge = format_judge(path);
    ckpt_status st = strcmp(path, "-") != 0 ? journal_recover(path, &o, &did, err) : CKPT_OK;
    if (what)
        *what = did;
    return st;
}

/* --------------------------------------------------------------------- editing */

/* only_names - does P change nothing else, and can its file take that? */
static ckpt_status only_names(const ckpt_plan *p, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    if (strcmp(f->path, "-") == 0 || !f->src)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "only a single file on disk is edited in place");
    if (!f->format->in_place)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a %s file; torch zip and safetensors are edited in place", f->format->title);
    if (p->cast)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "dtypes would change; in place only names can change");
    if (p->root_depth || p->nentries != f->table.nrows)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a part of the file; in place only names can change");
    return CKPT_OK;
}

static bool same_storages(const struct table *a, const struct table *b)
{
    bool same = a->nstorages == b->nstorages;
    for (size_t i = 0; same && i < a->nstorages; i++) {
        const struct storage *s = &a->storages[i], *t = &b->storages[i];
        same = s->s.nbytes == t->s.nbytes && s->numel == t->numel && s->has_crc == t->has_crc &&
               s->crc == t->crc;
    }
    return same;
}

/* same_tensors - does F, which is what the patches would leave, hold those of P? */
static bool same_tensors(const ckpt_plan *p, const ckpt_file *f)
{
    bool same = f->table.nrows == p->nentries && same_storages(&p->file->table, &f->table);
    for (size_t i = 0; same && i < p->nentries; i++) {
        const ckpt_tensor *a = &p->file->table.rows[p->entries[i].row].t, *b = &f->table.rows[i].t;
        same = str_eq(b->name, p->entries[i].name) && table_same_place(a, b) &&
               a->requires_grad == b->requires_grad && a->parameter == b->parameter;
    }
    return same;
}

/* rehearse - reads the file as it will be before a byte of it changes. */
static ckpt_status rehearse(const ckpt_plan *p, const struct patches *list, ckpt_error *err)
{
    ckpt_file *f = NULL;
    source *after = source_patched(p->file->src, list);
    if (!after)
        return fail_memory(err);
    CKPT_TRY(format_open(p->file->path, after, &p->file->limits, p->file->format, &f, err));
    bool same = same_tensors(p, f);
    file_free(f);
    return same ? CKPT_OK
                : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                       "the edited file would not read back as the same tensors");
}

static ckpt_status plan_unchanged(void *user, ckpt_error *err)
{
    return file_unchanged(((const ckpt_plan *)user)->file, err);
}

static ckpt_status edit_in_place(ckpt_plan *p, struct journal_options *o, struct patches *list,
                                 ckpt_error *err)
{
    ckpt_status st = only_names(p, err);
    o->judge = (struct journal_judge){.user = p, .unchanged = plan_unchanged};
    if (st == CKPT_OK)
        st = p->file->format->in_place(p, list, err);
    if (st == CKPT_OK)
        st = rehearse(p, list, err);
    st = st == CKPT_OK ? st : file_settled(p->file, st, err);
    if (st != CKPT_OK) {
        if (st == CKPT_EUNSUPPORTED || st == CKPT_EUSAGE)
            fail_hint(err, "-o OUT writes a copy with the new names");
        return st;
    }
    return journal_apply(p->file->path, list, o, err);
}

ckpt_status ckpt_plan_write_in_place(ckpt_plan *p, const ckpt_write_options *opts, ckpt_write_result *out,
                                     ckpt_error *err)
{
    ckpt_write_options given;
    CKPT_TRY(out ? sized_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, p);
    CKPT_TRY(sized_take(opts, &given, sizeof given, err));
    struct journal_options o = journal_of(&given);
    struct patches list = {0};
    ckpt_error own;
    if (!err)
        err = &own;
    p->ndropped = p->naliases = p->noutputs = p->ncasts = 0;
    CKPT_TRY(plan_entries(p, err));
    ckpt_status st = p->nrenames ? edit_in_place(p, &o, &list, err) : only_names(p, err);
    if (st == CKPT_OK)
        st = plan_output(p, p->file->path, err);
    if (st != CKPT_OK) {
        fail_file(err, p->file->path);
        return st;
    }
    ckpt_write_result r = {.format = p->file->format->name,
                           .outputs = p->outputs,
                           .noutputs = p->noutputs,
                           .tensors = p->nentries};
    for (size_t i = 0; i < list.n; i++)
        r.bytes += list.at[i].bytes.len; /* bounded: they are in memory */
    if (out)
        sized_give(out, &r, sizeof r);
    return CKPT_OK;
}
