/*
 * api.c - joins the two halves of the library behind ckpt.h: formats make a
 * ckpt_file, operations work on it. What is one line stands here; whatever
 * needs more has its own file on its own floor.
 */
#include <stdio.h>

#include "codec/json_scan.h"
#include "codec/unpack_archive.h"
#include "format/format.h"
#include "format/hub/shards.h"
#include "format/names.h"
#include "format/verify.h"
#include "io/journal.h"
#include "io/sink.h"
#include "op/digest.h"
#include "op/known_names.h"
#include "op/rename.h"
#include "op/sanitize.h"
#include "op/select.h"
#include "op/verify.h"
#include "scan/judge.h"
#include "scan/scan.h"

const char *ckpt_version(void) { return CKPT_VERSION; }

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

static struct journal_judge judge_of(const char *path)
{
    return (struct journal_judge){.user = (void *)(uintptr_t)path, .holds = journal_holds};
}

/* say_instead - HINT in the place of what ERR has. */
static void say_instead(ckpt_error *err, const char *hint)
{
    if (err)
        err->hint[0] = '\0';
    fail_hint(err, "%s", hint);
}

/* open_names - SRC (taken over), which did not open because of ERR, as a list of names; ERR stays where it is
 * none. */
static ckpt_status open_names(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                              const ckpt_error *err)
{
    ckpt_status why = err->status;
    bool may_be = why == CKPT_EUNKNOWN || why == CKPT_EFORMAT || why == CKPT_ETRUNCATED;
    if (may_be && names_open(path, source_ref(src), limits, out, NULL) == CKPT_OK)
        why = CKPT_OK;
    source_unref(src);
    return why;
}

/* open_path - with NAMES also a text of names. */
static ckpt_status open_path(const char *path, bool names, const ckpt_limits *limits, ckpt_file **out,
                             ckpt_error *err)
{
    source *src = NULL;
    struct journal_note note = {.judge = judge_of(path)};
    if (!source_is_folder(path)) {
        ckpt_status s = journal_open(path, &note, &src, err);
        if (s != CKPT_OK) {
            fail_file(err, path);
            return s;
        }
    }
    source *again = names && src ? source_ref(src) : NULL;
    ckpt_status st = format_open_compact(path, src, limits, out, err);
    if (again && st != CKPT_OK)
        st = open_names(path, again, limits, out, err);
    else
        source_unref(again);
    if (note.text[0] && st == CKPT_OK)
        file_notice(*out, "%s", note.text);
    else if (note.text[0] && check_is_fault(st)) /* which may be what that journal would undo */
        say_instead(err, note.text);
    return st;
}

ckpt_status ckpt_open(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    return open_path(path, false, limits, out, err);
}

ckpt_status ckpt_open_names(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    ckpt_error own;
    return open_path(path, true, limits, out, err ? err : &own);
}

ckpt_status ckpt_open_memory(const void *data, size_t size, const char *name, const ckpt_limits *limits,
                             ckpt_file **out, ckpt_error *err)
{
    source *src = source_mem(data, size, 0);
    return src ? format_open_compact(name, src, limits, out, err) : fail_memory(err);
}

ckpt_status ckpt_salvage(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    source *src = NULL;
    ckpt_status st = source_is_folder(path) ? CKPT_OK : journal_open(path, NULL, &src, err);
    if (st == CKPT_OK)
        return format_salvage(path, src, limits, out, err);
    fail_file(err, path);
    return st;
}

size_t ckpt_lost_count(const ckpt_file *f) { return f->nlost; }
const ckpt_lost *ckpt_lost_at(const ckpt_file *f, size_t i) { return i < f->nlost ? &f->lost[i] : NULL; }

void ckpt_close(ckpt_file *file) { file_free(file); }
void ckpt_emergency_cleanup(void) { sink_emergency(); }

const char *ckpt_file_path(const ckpt_file *f) { return f->path; }
const char *ckpt_file_format(const ckpt_file *f) { return f->format->name; }
const char *ckpt_file_title(const ckpt_file *f) { return f->format->title; }
uint64_t ckpt_file_bytes(const ckpt_file *f) { return f->nbytes; }
uint32_t ckpt_tensor_count(const ckpt_file *f) { return (uint32_t)f->table.nrows; }
bool ckpt_tensor_at(const ckpt_file *f, uint32_t i, ckpt_tensor *out)
{
    return table_show(&f->table, i, out);
}
ckpt_str ckpt_tensor_name(const ckpt_file *f, uint32_t i) { return table_name(&f->table, i); }
uint32_t ckpt_storage_count(const ckpt_file *f) { return (uint32_t)f->table.nstorages; }
bool ckpt_storage_at(const ckpt_file *f, uint32_t i, ckpt_storage *out)
{
    return table_show_storage(&f->table, i, out);
}
const ckpt_value *ckpt_file_root(const ckpt_file *f)
{
    (void)file_expand((ckpt_file *)(uintptr_t)f, NULL); /* made when asked for, as the name index is */
    return f->root;
}
size_t ckpt_leaf_count(const ckpt_file *f) { return f->nleaves; }
const ckpt_leaf *ckpt_leaf_at(const ckpt_file *f, size_t i) { return i < f->nleaves ? &f->leaves[i] : NULL; }
const char *ckpt_notice_at(const ckpt_file *f, size_t i) { return notices_at(&f->notices, i); }
ckpt_status ckpt_file_locate(ckpt_file *f, ckpt_error *err)
{
    ckpt_status st = table_locate(&f->table, err);
    fail_file(st == CKPT_OK ? NULL : err, f->path);
    return st;
}

void ckpt_file_ignore_crc(ckpt_file *f, bool ignore) { f->ignore_crc = ignore; }

void ckpt_file_ignore_case(ckpt_file *f, bool ignore) { f->ignore_case = ignore; }

const ckpt_value *ckpt_file_metadata(const ckpt_file *f) { return f->metadata; }

uint32_t ckpt_tensor_find(const ckpt_file *f, ckpt_str name)
{
    return file_find((ckpt_file *)(uintptr_t)f, name); /* the name index is a cache */
}

ckpt_status ckpt_plan_sanitize(ckpt_plan *p, const char *format, ckpt_error *err)
{
    const struct format *f = format ? format_by_name(format) : NULL;
    ckpt_status st = sanitize_plan(p, f && f->flat, err);
    fail_file(st == CKPT_OK ? NULL : err, p->file->path);
    return st;
}

static ckpt_status strict_refuses(const ckpt_plan *p, const ckpt_sanitized *first, ckpt_error *err)
{
    size_t others = 0;
    char more[48] = "";
    for (size_t i = 0; i < p->nsanitized; i++)
        others += p->sanitized[i].lost && &p->sanitized[i] != first;
    if (others)
        (void)snprintf(more, sizeof more, ", and %zu more", others);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" (%.*s) would be left out%s", STR_ARG(first->name),
               STR_ARG(first->type), more);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

static ckpt_status write_one(ckpt_plan *p, const struct format *f, const struct write_job *job,
                             ckpt_error *err)
{
    CKPT_TRY(shards_guard(p->file, job->path, true, err));
    CKPT_TRY(f->write(p, job, err));
    if (p->noutputs == 1 && strcmp(job->path, "-") != 0)
        shards_beside(p, p->outputs[0]);
    return CKPT_OK;
}

ckpt_status ckpt_plan_write(ckpt_plan *p, const char *path, const ckpt_write_options *opts,
                            ckpt_write_result *out, ckpt_error *err)
{
    static const ckpt_write_options plain;
    const struct format *f;
    ckpt_write_result result = {0};
    struct write_job job = {.path = path, .opts = opts ? opts : &plain, .result = &result};
    CKPT_TRY(format_target(p, path, job.opts->format, &f, err));
    p->ndropped = p->naliases = p->noutputs = p->ncasts = 0;
    ckpt_status st = file_unchanged(p->file, err);
    if (plan_root_is_module(p))
        plan_module_notice(p);
    cast_note_rest(p);
    for (size_t i = 0; job.opts->strict && i < p->nsanitized && st == CKPT_OK; i++)
        if (p->sanitized[i].lost)
            st = strict_refuses(p, &p->sanitized[i], err);
    if (st == CKPT_OK && job.opts->max_shard)
        st = shards_write(p, f, &job, err);
    else if (st == CKPT_OK)
        st = write_one(p, f, &job, err);
    if (st != CKPT_OK)
        st = file_settled(p->file, st, err);
    if (st != CKPT_OK) {
        fail_file(err, p->file->path);
        return st;
    }
    result.format = f->name;
    result.outputs = p->outputs;
    result.noutputs = p->noutputs;
    result.dropped = p->dropped;
    result.ndropped = p->ndropped;
    result.aliases = p->aliases;
    result.naliases = p->naliases;
    result.casts = p->casts;
    result.ncasts = p->ncasts;
    if (out)
        *out = result;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ in place */

static struct journal_options journal_of(const ckpt_write_options *o)
{
    if (!o)
        return (struct journal_options){0};
    return (struct journal_options){
        .follow_links = o->follow_links, .no_sync = o->no_sync, .dry_run = o->dry_run};
}

ckpt_status ckpt_recover(const char *path, const ckpt_write_options *opts, ckpt_recovered *what,
                         ckpt_error *err)
{
    struct journal_options o = journal_of(opts);
    ckpt_recovered did = CKPT_RECOVERED_NOTHING;
    o.judge = judge_of(path);
    ckpt_status st = strcmp(path, "-") != 0 ? journal_recover(path, &o, &did, err) : CKPT_OK;
    if (what)
        *what = did;
    return st;
}

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

/* same_tensors - does F, which is what the patches would leave, hold those of P? */
static bool same_tensors(const ckpt_plan *p, const ckpt_file *f)
{
    bool same = f->table.nrows == p->nentries && f->table.nstorages == p->file->table.nstorages;
    for (size_t i = 0; same && i < p->nentries; i++) {
        const ckpt_tensor *a = &p->file->table.rows[p->entries[i].row].t, *b = &f->table.rows[i].t;
        same = str_eq(b->name, p->entries[i].name) && table_same_place(a, b);
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
    if (st == CKPT_OK && !list->reread)
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
    struct journal_options o = journal_of(opts);
    struct patches list = {0};
    ckpt_error own;
    if (!err)
        err = &own;
    p->ndropped = p->naliases = p->noutputs = 0;
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
        *out = r;
    return CKPT_OK;
}

const char *ckpt_write_format(const char *path_or_name)
{
    const struct format *f = format_by_name(path_or_name);
    if (!f || !f->write)
        f = format_by_suffix(path_or_name);
    return f ? f->name : NULL;
}

/* map_pairs - {"old": "new", …}: the texts end up in FROM and TO. ERR is set. */
static ckpt_status map_pairs(json_scan *j, arena *a, ckpt_str **from, ckpt_str **to, size_t *n,
                             ckpt_error *err)
{
    size_t cap_from = 0, cap_to = 0;
    enum json_event e = json_next(j);
    if (e != JSON_OBJECT)
        return e == JSON_ERROR ? err->status
                               : json_fail(j, "a rename map is {=a JSON object %s}", "{\"old\": \"new\"}");
    while ((e = json_next(j)) == JSON_KEY) {
        ckpt_str key = j->str;
        e = json_next(j);
        if (e != JSON_STRING)
            break;
        *from = arena_grow(a, *from, *n, &cap_from, *n + 1, sizeof **from);
        *to = arena_grow(a, *to, *n, &cap_to, *n + 1, sizeof **to);
        if (!*from || !*to)
            return fail_memory(err);
        (*from)[*n] = key;
        (*to)[(*n)++] = j->str;
    }
    if (e != JSON_OBJECT_END)
        return e == JSON_ERROR ? err->status : json_fail(j, "every value of a rename map is a string");
    e = json_next(j);
    return e == JSON_END ? CKPT_OK : err->status;
}

ckpt_status ckpt_plan_rename_map(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    source *src = NULL;
    ckpt_str *from = NULL, *to = NULL;
    size_t n = 0;
    json_scan j;
    ckpt_error own;
    if (!err)
        err = &own;
    ckpt_status st = source_file_open(path, &src, err);
    if (st == CKPT_OK && src->size > plan->file->limits.max_header)
        st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "rename map of %llu bytes",
                  (unsigned long long)src->size);
    char *text = st == CKPT_OK ? arena_alloc(plan->a, (size_t)src->size) : NULL;
    if (st == CKPT_OK)
        st = text ? source_read(src, 0, text, (size_t)src->size, err) : fail_memory(err);
    if (st == CKPT_OK) {
        json_init(&j, str_of(text, (size_t)src->size), 0, plan->a, err);
        st = map_pairs(&j, plan->a, &from, &to, &n, err);
    }
    source_unref(src);
    if (st != CKPT_OK) {
        fail_file(err, path);
        return st;
    }
    return plan_rename_pairs(plan, n, from, to, err);
}

bool ckpt_scan_ready(void)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    bool lists = names_sha256(sum, NULL) == CKPT_OK, archives = unpack_archive_ready();
    return lists && archives;
}

ckpt_status ckpt_scan_lists(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    return names_sha256(out, err);
}

ckpt_status ckpt_scan(const char *path, const ckpt_scan_options *opts,
                      int (*tell)(void *user, const ckpt_scan_record *), void *user, ckpt_scan_result *result,
                      ckpt_error *err)
{
    ckpt_scan_options o = opts ? *opts : (ckpt_scan_options){0};
    struct scan s = {.opts = &o, .tell = tell, .user = user, .result = result};
    struct judge *judge = NULL;
    source *src = NULL;
    ckpt_error own;
    err = err ? err : &own;
    o.max_depth = o.max_depth ? o.max_depth : 4;
    o.max_unpacked = o.max_unpacked ? o.max_unpacked : (uint64_t)4 << 30;
    *result = (ckpt_scan_result){0};
    ckpt_error torn;
    ckpt_status half = journal_check(path, NULL, &torn);
    ckpt_status st = source_file_open(path, &src, err);
    if (st == CKPT_OK)
        st = judge_new(&s, &judge, err);
    if (st == CKPT_OK && o.opened && o.opened(user) != 0)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped");
    if (st == CKPT_OK)
        st = format_scan(path, src, &s, err);
    if (st == CKPT_OK && o.sha256)
        st = digest_source(src, result->sha256, err);
    if (st == CKPT_OK)
        st = source_file_changed(src, err);
    if (st == CKPT_OK && half != CKPT_OK) { /* what was told holds for the file as it stands */
        st = half;
        *err = torn;
    }
    if (s.failed.status != CKPT_OK) {
        st = s.failed.status;
        *err = s.failed;
    }
    judge_free(judge);
    source_unref(src);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}

ckpt_status ckpt_verify(const char *path, const ckpt_verify_options *opts,
                        int (*tell)(void *user, const ckpt_finding *), void *user, ckpt_verify_result *result,
                        ckpt_error *err)
{
    static const ckpt_verify_options plain;
    struct check c;
    ckpt_file *f = NULL;
    ckpt_error own;
    ckpt_verify_options o = opts ? *opts : plain;
    err = err ? err : &own;
    ckpt_status st = check_init(&c, &o, result, err);
    c.tell = tell;
    c.user = user;
    if (st == CKPT_OK)
        st = format_verify(path, &c, &f, err);
    if (st == CKPT_OK && f)
        f->ignore_case = o.ignore_case;
    if (st == CKPT_OK && f && (o.root || o.nglobs))
        st = ckpt_file_narrow(f, o.root, o.globs, o.nglobs, err);
    if (st == CKPT_OK && f && o.nglobs && !f->table.nrows)
        st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches");
    if (st == CKPT_OK && f)
        c.result->tensors = f->table.nrows;
    if (st == CKPT_OK)
        st = verify_data(&c, f, err);
    file_free(f);
    check_free(&c);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}
