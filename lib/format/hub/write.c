/*
 * write.c - a plan as many files and an index, named as huggingface_hub
 * does it (serialization/_base.py, _torch.py).
 *
 *   STEM-00001-of-00003.EXT …      each written by its own format
 *   STEM.EXT.index.json            last; JSON as json.dumps(…, indent=2) has it
 *
 * One shard needs no number and no index. Ties that a format cannot hold are
 * noted in the index, and so is metadata that is not `format`.
 *
 * A set and the one file STEM.EXT take each other's place: transformers loads
 * the file where both are (see shards.c), others the set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "format/hub/replace.h"
#include "format/hub/shard_layout.h"
#include "format/hub/shards.h"
#include "format/ties.h"
#include "io/sink.h"

#define WAITING_MOST 400u
#define OTHER_FILES  24u /* standard streams, the input, what one file in the making needs */

static const struct kind {
    const char *format, *stem, *ext;
    bool shares; /* tensors may share a storage; else only names and tensors are kept */
} kinds[] = {
    {"safetensors", "model", ".safetensors", false},
    {"torch-zip", "pytorch_model", ".bin", true},
};

struct set {
    struct cut cut;
    ckpt_plan *p;
    const struct format *format;
    const struct kind *kind;
    const struct write_job *job;
    struct plan_pair *notes; /* what the input's metadata leave to be noted */
    size_t nnotes;
    buf folder, stem, ext; /* NUL-terminated; folder with its slash */
    bool made_folder;
    const char **paths;      /* of the shards and of the index */
    uint64_t done;           /* bytes in the shards that are finished */
    struct sink_batch batch; /* whole, and not yet in their places */
    size_t placed;           /* files of the set that are in their places */
    struct replaced *old;    /* the set that was there before; NULL: none, or it is still as it was */
    const char *one;         /* the one file whose place the set takes; NULL: there is none */
    bool one_is_read;        /* and it is the input, which stays */
    bool one_stays;          /* and it cannot be removed */
    bool whole;              /* all is in its place, and what it replaces is gone */
};

/* ------------------------------------------------------------------ names */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void put_z(buf *b, const char *text, size_t n)
{
    buf_put(b, text, n);
    buf_byte(b, 0);
}

/* PATH is a folder, existing or to be made, or a file whose stem and suffix
 * the shards take over. */
static ckpt_status name_output(struct set *s, ckpt_error *err)
{
    const char *path = s->job->path, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    bool file = dot && dot > base && (format_by_suffix(path) || strcmp(dot, ".bin") == 0) && !is_folder(path);
    if (strcmp(path, "-") == 0) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "shards are several files, standard output is one");
        fail_hint(err, "name a folder, or the file that the shards are to be named after");
        return CKPT_EUSAGE;
    }
    buf_put(&s->folder, path, file ? (size_t)(base - path) : strlen(path));
    if (!file && *base)
        buf_byte(&s->folder, '/');
    buf_byte(&s->folder, 0);
    put_z(&s->stem, file ? base : s->kind->stem, file ? (size_t)(dot - base) : strlen(s->kind->stem));
    put_z(&s->ext, file ? dot : s->kind->ext, strlen(file ? dot : s->kind->ext));
    return buf_ok(&s->folder) && buf_ok(&s->stem) && buf_ok(&s->ext) ? CKPT_OK : fail_memory(err);
}

/* make_name - of shard K, or of the index for K = nshards. */
static const char *make_name(const struct set *s, uint32_t k)
{
    const char *folder = (const char *)s->folder.data, *stem = (const char *)s->stem.data;
    const char *ext = (const char *)s->ext.data;
    if (k == s->cut.nshards)
        return arena_printf(s->p->a, "%s%s%s.index.json", folder, stem, ext).ptr;
    if (s->cut.nshards == 1)
        return arena_printf(s->p->a, "%s%s%s", folder, stem, ext).ptr;
    return arena_printf(s->p->a, "%s%s-%05u-of-%05u%s", folder, stem, k + 1, s->cut.nshards, ext).ptr;
}

static ckpt_status make_names(struct set *s, ckpt_error *err)
{
    s->paths = arena_array(s->p->a, s->cut.nshards + 1, sizeof *s->paths); /* bounded: MAX_SHARDS */
    for (uint32_t k = 0; s->paths && k <= s->cut.nshards; k++)
        if (!(s->paths[k] = make_name(s, k)))
            return fail_memory(err);
    return s->paths ? CKPT_OK : fail_memory(err);
}

/* base_name - of shard K, without the folder. */
static ckpt_str base_name(const struct set *s, uint32_t k)
{
    return str_c(s->paths[k] + s->folder.len - 1); /* bounded: behind it; its length counts the NUL */
}

/* one_file - what a set of one shard would be called. */
static const char *one_file(const struct set *s)
{
    return arena_printf(s->p->a, "%s%s%s", (const char *)s->folder.data, (const char *)s->stem.data,
                        (const char *)s->ext.data)
        .ptr;
}

/* ------------------------------------------------------------------ index */

static void put_note(buf *b, ckpt_str key, ckpt_str text)
{
    buf_text(b, ",\n    ");
    json_quote_ascii(b, key);
    buf_text(b, ": ");
    json_quote_ascii(b, text);
}

/* What the input's metadata and the ties dropped now leave to be noted. */
static ckpt_status put_notes(struct set *s, buf *b, size_t aliases, ckpt_error *err)
{
    size_t added;
    buf_printf(b, "{\n  \"metadata\": {\n    \"total_size\": %llu", (unsigned long long)s->cut.total);
    CKPT_TRY(ties_metadata(s->p, aliases, &s->notes, &s->nnotes, &added, err));
    for (size_t i = 0; i < s->nnotes; i++)
        if (!str_is(s->notes[i].key, "total_size") && !str_is(s->notes[i].key, "format"))
            put_note(b, s->notes[i].key, s->notes[i].text);
    buf_text(b, "\n  },\n");
    return CKPT_OK;
}

struct place {
    uint32_t shard, tied, unit;
};

static int by_place(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->tied != b->tied)
        return a->tied < b->tied ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

/* Within a shard first the units that it was opened for, then those that came
 * along with them. */
static ckpt_status put_map(const struct set *s, buf *b, ckpt_error *err)
{
    struct place *at = calloc(s->cut.nunits, sizeof *at);
    if (!at)
        return fail_memory(err);
    for (uint32_t u = 0; u < s->cut.nunits; u++)
        at[u] = (struct place){s->cut.units[u].shard, s->cut.units[u].up != u, u};
    qsort(at, s->cut.nunits, sizeof *at, by_place);
    buf_text(b, "  \"weight_map\": {");
    for (uint32_t i = 0; i < s->cut.nunits; i++) {
        buf_text(b, i ? ",\n    " : "\n    ");
        json_quote_ascii(b, s->cut.units[at[i].unit].name);
        buf_text(b, ": ");
        json_quote_ascii(b, base_name(s, at[i].shard));
    }
    buf_text(b, "\n  }\n}");
    free(at);
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

static ckpt_status write_index(struct set *s, size_t aliases, ckpt_error *err)
{
    struct sink_options so = plan_writing(s->p, s->job->opts);
    so.batch = &s->batch;
    const char *path = s->paths[s->cut.nshards];
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = put_notes(s, &b, aliases, err);
    if (st == CKPT_OK)
        st = put_map(s, &b, err);
    if (st == CKPT_OK && !s->job->opts->dry_run)
        st = sink_file_bytes(path, &so, buf_view(&b), err);
    s->job->result->bytes += b.len; /* bounded: it is in memory */
    buf_free(&b);
    return st == CKPT_OK ? plan_output(s->p, path, err) : st;
}

/* ------------------------------------------------------------------ write */

static int progress(void *user, uint64_t done, uint64_t total)
{
    const struct set *s = user;
    (void)total;
    return s->job->opts->progress(s->job->opts->user, s->done + done, s->cut.total);
}

static ckpt_status check_free(const struct set *s, const char *path, ckpt_error *err)
{
    if (s->job->opts->force || access(path, F_OK) != 0)
        return CKPT_OK;
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "already exists; nothing written");
    fail_hint(err, "use -f to replace it");
    fail_file(err, path);
    return err->status;
}

/* find_one - the one file whose place a set takes. */
static ckpt_status find_one(struct set *s, ckpt_error *err)
{
    struct stat st;
    const char *one = one_file(s);
    if (!one)
        return fail_memory(err);
    bool there = lstat(one, &st) == 0, link = there && S_ISLNK(st.st_mode);
    bool leads = there && (!link || stat(one, &st) == 0);
    if (!there && (errno == ENOENT || errno == ENOTDIR))
        return CKPT_OK;
    if (!leads && !(link && errno == ENOENT)) {
        (void)fail_errno(err, CKPT_NO_OFFSET, "cannot examine what is to be replaced");
        fail_file(err, one);
        return err->status;
    }
    if (leads)
        CKPT_TRY(shards_made_of(s->p->file, &st, &s->one_is_read, err));
    s->one = one;
    return s->one_is_read ? CKPT_OK : check_free(s, one, err);
}

/* check_places - before a byte is written: what is there stays unless it may be replaced, and
 * what is read always does. */
static ckpt_status check_places(struct set *s, ckpt_error *err)
{
    for (uint32_t k = 0; k <= s->cut.nshards; k++) { /* of one, the index is that of an older set */
        CKPT_TRY(shards_guard(s->p->file, s->paths[k], s->cut.nshards == 1, err));
        CKPT_TRY(check_free(s, s->paths[k], err));
    }
    return s->cut.nshards > 1 ? find_one(s, err) : CKPT_OK;
}

/* make_way - what is to be replaced gets out of the way, when all that is new is whole. */
static ckpt_status make_way(struct set *s, ckpt_error *err)
{
    const ckpt_write_options *o = s->job->opts;
    if (s->old || !o->force)
        return CKPT_OK;
    return replaced_begin(s->paths, s->cut.nshards + 1, (const char *)s->stem.data, (const char *)s->ext.data,
                          !o->no_sync, &s->old, err); /* bounded: MAX_SHARDS */
}

static ckpt_status make_folder(struct set *s, ckpt_error *err)
{
    const char *folder = (const char *)s->folder.data;
    if (s->job->opts->dry_run || !folder[0] || is_folder(folder))
        return CKPT_OK;
    s->made_folder = mkdir(folder, 0777) == 0;
    if (s->made_folder || errno == EEXIST)
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder for the shards");
    fail_file(err, folder);
    return st;
}

/* place - puts in their places what is whole, the index behind the shards. */
static ckpt_status place(struct set *s, ckpt_error *err)
{
    size_t placed = 0;
    ckpt_status st = make_way(s, err);
    if (st == CKPT_OK)
        st = sink_batch_commit(&s->batch, &placed, err);
    s->placed += placed; /* bounded: the files of this set */
    return st;
}

/* finish - the set is in its place, though the disk may not have been waited for. */
static void finish(struct set *s)
{
    if (s->old)
        replaced_done(s->old);
    s->old = NULL;
}

/* A set that is not whole is no checkpoint: what was there before comes back. */
static void take_back(struct set *s, size_t from)
{
    size_t end = from + s->placed; /* bounded: the files of this set */
    end = end < s->p->noutputs ? end : s->p->noutputs;
    sink_batch_abort(&s->batch);
    if (s->whole || (s->cut.nshards > 1 && s->placed > s->cut.nshards && !s->one_stays)) {
        if (s->one && !s->one_is_read)
            (void)unlink(s->one);
        finish(s);
        return;
    }
    for (size_t i = from; i < end; i++)
        if (!s->job->opts->force)
            (void)unlink(s->p->outputs[i]);
    if (s->old)
        replaced_undo(s->old, s->placed);
    s->old = NULL;
    if (s->made_folder)
        (void)rmdir((const char *)s->folder.data);
    s->p->noutputs = from;
}

/* Shard K through the format's own writer: the plan's mask shows it only what
 * is its own, and ties are resolved already. */
static ckpt_status write_shard(struct set *s, uint32_t k, ckpt_error *err)
{
    ckpt_write_options opts = *s->job->opts;
    ckpt_write_result result = {0};
    struct write_job job = {
        .path = s->paths[k], .opts = &opts, .result = &result, .batch = &s->batch, .has_index = true};
    size_t dropped = s->p->ndropped;
    opts.max_shard = 0;
    opts.ties = CKPT_TIES_COPY;
    opts.user = opts.progress ? s : NULL;
    opts.progress = opts.progress ? progress : NULL;
    for (size_t i = 0; i < s->cut.n; i++)
        s->p->keep[s->cut.entries[i].row] = s->cut.units[s->cut.unit_of[i]].shard == k;
    s->p->entries_stale = true;
    CKPT_TRY(s->format->write(s->p, &job, err));
    if (k) /* the first has listed what no shard holds */
        s->p->ndropped = dropped;
    s->job->result->tensors += result.tensors;
    s->job->result->bytes += result.bytes; /* bounded: they were written */
    for (uint32_t u = 0; u < s->cut.nunits; u++)
        if (s->cut.units[u].shard == k && s->cut.units[u].up == u)
            s->done += s->cut.units[u].size;
    return CKPT_OK;
}

/* Only `format` goes into every shard; the index has the rest. */
static ckpt_status shard_metadata(const struct set *s, ckpt_value **out, ckpt_error *err)
{
    ckpt_value *format = s->p->file->metadata ? value_get(s->p->file->metadata, "format") : NULL;
    *out = NULL;
    if (!format)
        return CKPT_OK;
    ckpt_value *key = value_str(s->p->a, STR_LIT("format"));
    *out = value_new(s->p->a, CKPT_V_DICT, 0);
    return key && *out && value_put(s->p->a, *out, key, format) ? CKPT_OK : fail_memory(err);
}

static const char *folder_of(const struct set *s)
{
    return s->folder.len > 1 ? (const char *)s->folder.data : ".";
}

/* sync_folder - a file that is gone from the folder does not come back after a power cut: it would
 * be read in the place of the new one. A folder that may not be listed cannot be synced. */
static ckpt_status sync_folder(const struct set *s, ckpt_error *err)
{
    const char *folder = folder_of(s);
    if (s->job->opts->no_sync)
        return CKPT_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 ? fsync(fd) == 0 || errno == EINVAL || errno == EROFS : errno == EACCES;
    ckpt_status st = ok ? CKPT_OK : fail_errno(err, CKPT_NO_OFFSET, "cannot bring the folder to the disk");
    if (!ok)
        fail_file(err, folder);
    if (fd >= 0)
        close(fd);
    return st;
}

/* replace_one - the set is whole: where there was one file, that is not taken for it any more. */
static ckpt_status replace_one(struct set *s, ckpt_error *err)
{
    char one[SHELL_MOST];
    if (s->one && s->one_is_read)
        plan_notice(s->p, "%s, the input, is there too, and some loaders take it first: rm %s", s->one,
                    shell_path(s->one, one));
    else if (s->one && !s->job->opts->dry_run && unlink(s->one) != 0 && errno != ENOENT) {
        s->one_stays = true;
        ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the file that the set replaces");
        fail_file(err, s->one);
        return st;
    }
    s->whole = true;
    return s->one && !s->one_is_read && !s->job->opts->dry_run ? sync_folder(s, err) : CKPT_OK;
}

/* waiting_most - files of the set that wait, two descriptors each; of more, the first do not. */
static size_t waiting_most(const struct set *s)
{
    struct rlimit most;
    size_t parts = s->p->file->nparts, open = shards_open_most();
    size_t used = (parts < open ? parts : open) + OTHER_FILES; /* bounded: files that are open */
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur / 2 > used + WAITING_MOST)
        return WAITING_MOST;
    return most.rlim_cur > used + 2 ? (size_t)(most.rlim_cur - used) / 2 : 1;
}

static ckpt_status write_set(struct set *s, size_t aliases, ckpt_error *err)
{
    ckpt_value *all = s->p->file->metadata, *own;
    size_t outputs = s->p->noutputs, most = waiting_most(s);
    CKPT_TRY(shard_metadata(s, &own, err));
    ckpt_status st = make_folder(s, err);
    if (st == CKPT_OK && !s->job->opts->dry_run)
        temp_tidy(&s->batch.tidied, folder_of(s), s->paths, s->cut.nshards + 1); /* bounded: MAX_SHARDS */
    s->p->file->metadata = own;
    for (uint32_t k = 0; st == CKPT_OK && k < s->cut.nshards; k++) {
        if (s->batch.n == most)
            st = place(s, err);
        if (st == CKPT_OK)
            st = write_shard(s, k, err);
    }
    s->p->file->metadata = all;
    if (st == CKPT_OK)
        st = write_index(s, aliases, err);
    s->job->result->tensors += s->p->naliases - aliases; /* the index records them */
    if (st == CKPT_OK && !s->job->opts->dry_run)
        st = place(s, err);
    if (st == CKPT_OK)
        st = replace_one(s, err);
    if (st != CKPT_OK)
        take_back(s, outputs);
    else
        finish(s);
    return st;
}

/* One shard is the whole: written as if nobody had asked for shards, but in the place of a set. */
static ckpt_status write_single(struct set *s, ckpt_error *err)
{
    ckpt_write_options o = *s->job->opts;
    struct write_job job = {
        .path = s->paths[0], .opts = &o, .result = s->job->result, .batch = &s->batch};
    size_t outputs = s->p->noutputs;
    o.max_shard = 0;
    ckpt_status st = make_folder(s, err);
    st = st == CKPT_OK ? s->format->write(s->p, &job, err) : st;
    if (st == CKPT_OK && !o.dry_run)
        st = place(s, err);
    if (st == CKPT_OK && s->old && !replaced_by_one(s->old))
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index of the set that is replaced");
    s->whole = st == CKPT_OK;
    if (st == CKPT_OK && s->old)
        st = sync_folder(s, err);
    if (st != CKPT_OK)
        take_back(s, outputs);
    else
        finish(s);
    return st;
}

/* -------------------------------------------------------------------- all */

static ckpt_status write_cut(struct set *s, ckpt_error *err)
{
    ckpt_plan *p = s->p;
    struct plan_saved saved;
    size_t aliases = p->naliases, dropped = p->ndropped;
    CKPT_TRY(plan_entries(p, err));
    CKPT_TRY(plan_metadata(p, &s->notes, &s->nnotes, err));
    CKPT_TRY(plan_save(p, &saved, err));
    ckpt_status st = name_output(s, err);
    if (st == CKPT_OK)
        st = shards_cut(p, s->job->opts, s->kind->shares, &s->cut, err);
    if (st == CKPT_OK)
        st = make_names(s, err);
    if (st == CKPT_OK)
        st = check_places(s, err);
    if (st == CKPT_OK && s->cut.nshards > 1)
        st = write_set(s, aliases, err);
    plan_restore(p, &saved);
    if (st != CKPT_OK || s->cut.nshards > 1)
        return st;
    p->naliases = aliases;
    p->ndropped = dropped;
    return write_single(s, err);
}

static const struct kind *kind_of(const ckpt_plan *p, const struct format **format)
{
    const ckpt_file *f = p->file;
    if (*format == f->format && f->nparts) /* shards of what they were */
        *format = f->torch_load ? format_by_name("torch-zip") : f->parts[0]->format;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp((*format)->name, kinds[i].format) == 0)
            return &kinds[i];
    *format = format_by_name(kinds[0].format);
    return &kinds[0];
}

ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err)
{
    struct set s = {.p = p, .job = job};
    s.kind = kind_of(p, &format);
    s.format = format;
    buf_init(&s.folder, 1u << 16);
    buf_init(&s.stem, 1u << 16);
    buf_init(&s.ext, 1u << 16);
    ckpt_status st = write_cut(&s, err);
    buf_free(&s.folder);
    buf_free(&s.stem);
    buf_free(&s.ext);
    shards_cut_free(&s.cut);
    return st;
}

ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    const struct format *format = p->file->format;
    const struct kind *kind = kind_of(p, &format);
    struct write_job one = *job;
    if (is_folder(job->path)) {
        char *path = shards_join(str_c(job->path), arena_printf(p->a, "%s%s", kind->stem, kind->ext));
        one.path = path ? arena_str(p->a, str_c(path)).ptr : NULL;
        free(path);
    }
    ckpt_status st = one.path ? shards_guard(p->file, one.path, true, err) : fail_memory(err);
    return st == CKPT_OK ? format->write(p, &one, err) : st;
}
