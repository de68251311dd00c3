/* write.c - writes a plan as shards and an index, with the file names of huggingface_hub
 * (serialization/_base.py, _torch.py).
 *
 *   STEM-00001-of-00003.EXT …      each written by its own format
 *   STEM.EXT.index.json            written last; JSON as json.dumps(…, indent=2) writes it
 *
 * GGUF has no index, because its files hold their number (format/gguf/write.c). A set of GGUF is never
 * replaced: without an index, files of the old and the new set would read as one.
 *
 * A single shard has no number and no index. Ties that a format cannot hold are recorded in the index, and so
 * are metadata other than `format`.
 *
 * A set and the single file STEM.EXT replace each other, because if both exist, transformers loads the file
 * (see shards.c) and other libraries load the set. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "format/files/checkpoint_names.h"
#include "format/files/own_files.h"
#include "format/files/path.h"
#include "format/hub/replace.h"
#include "format/hub/shard_layout.h"
#include "format/hub/shards.h"
#include "format/hub/write.h"
#include "format/parts/part_files.h"
#include "format/ties.h"

#define DEFAULT_MAX_SHARD UINT64_C(5000000000) /* as that of huggingface_hub */
#define MAX_WAITING       400u
#define OTHER_FILES       24u /* standard streams, the input, what writing one file needs */

/* The formats that shards can have. */
static const struct kind {
    const char *format, *stem, *ext;
    bool shares_storages; /* tensors may share a storage; else only names and tensors are kept */
    bool has_index;
} kinds[] = {
    {"safetensors", "model", ".safetensors", false, true},
    {"torch-zip", "pytorch_model", ".bin", true, true},
    {"gguf", "model", ".gguf", false, false},
};

/* A set of shards, while it is written. */
struct shard_set {
    struct shard_layout layout;
    ckpt_plan *p;
    const struct format *format;
    const struct kind *kind;
    const struct write_job *job;
    struct plan_pair *metadata; /* of the index */
    size_t nmetadata;
    buf folder, stem, ext; /* NUL-terminated; folder with its slash */
    bool made_folder;
    struct temp new_folder;    /* if made_folder: it is removed in the end if it is empty */
    const char **paths;        /* of the shards and of the index */
    uint64_t done_bytes;       /* bytes in the shards that are finished */
    struct sink_batch batch;   /* files that are finished, but not yet in place */
    size_t nplaced;            /* files of the set that are in place */
    struct replaced *replaced; /* the set that is being replaced; NULL: none, or not begun */
    const char *single_path;   /* the single file that the set replaces; NULL: none */
    bool single_is_input;      /* the single file is the input, and stays */
    bool single_stays;         /* the single file cannot be removed */
    bool is_complete;          /* all files are in place, and what they replace is removed */
};

/* ------------------------------------------------------------------ names */

static void put_terminated(buf *b, const char *text, size_t n)
{
    buf_put(b, text, n);
    buf_byte(b, 0);
}

/* keeps_shards - returns true if the output has the shards of the input, a set. */
static bool keeps_shards(const ckpt_plan *p, const struct write_job *job)
{
    return job->opts->keep_shards && !job->opts->max_shard && shards_is_set(p->file);
}

bool shards_are_wanted(const ckpt_plan *p, const struct write_job *job)
{
    return job->opts->max_shard || keeps_shards(p, job) ||
           (job->path && str_ends(str_c(job->path), STR_LIT(INDEX_SUFFIX)));
}

/* is_shard_of_format - sets *NAME to the parts of the name of the input's first shard. False: it has not the
 * name of a shard, or a suffix of another format. */
static bool is_shard_of_format(const struct shard_set *s, struct shard_name *name)
{
    const ckpt_file *f = s->p->file;
    return f->nparts && shard_name_parse(str_after_last(str_c(f->parts[0]->path), '/'), name) &&
           str_is(name->ext, s->kind->ext);
}

/* set_output_names - sets s->folder, s->stem and s->ext from the output path: a file, or a folder that need
 * not exist. */
static ckpt_status set_output_names(struct shard_set *s, ckpt_error *err)
{
    const char *path = s->job->path;
    if (str_ends(str_c(path), STR_LIT(INDEX_SUFFIX)))
        path = arena_str(s->p->a, str_of(path, strlen(path) - strlen(INDEX_SUFFIX))).ptr;
    CKPT_TRY_ALLOC(path, err);
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    struct shard_name first;
    bool keeps_names = keeps_shards(s->p, s->job) && is_shard_of_format(s, &first);
    ckpt_str stem = keeps_names ? first.stem : str_c(s->kind->stem),
             ext = keeps_names ? first.ext : str_c(s->kind->ext);
    bool is_file = dot && dot > base && (format_by_suffix(path) || strcmp(dot, ".bin") == 0) &&
                   !source_is_folder(path);
    if (strcmp(path, "-") == 0)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "shards are several files, standard output is one\n"
                    "name a folder, or the file that the shards are to be named after");
    buf_put(&s->folder, path, is_file ? (size_t)(base - path) : strlen(path));
    if (!is_file && *base)
        buf_byte(&s->folder, '/');
    buf_byte(&s->folder, 0);
    put_terminated(&s->stem, is_file ? base : stem.ptr, is_file ? (size_t)(dot - base) : stem.len);
    put_terminated(&s->ext, is_file ? dot : ext.ptr, is_file ? strlen(dot) : ext.len);
    return buf_ok(&s->folder) && buf_ok(&s->stem) && buf_ok(&s->ext) ? CKPT_OK : fail_memory(err);
}

static uint32_t count_files(const struct shard_set *s) { return s->layout.nshards + s->kind->has_index; }

/* make_single_path - returns the path of a single shard, which has no number. */
static const char *make_single_path(const struct shard_set *s)
{
    return arena_printf(s->p->a, "%s%s%s", (const char *)s->folder.data, (const char *)s->stem.data,
                        (const char *)s->ext.data)
        .ptr;
}

/* make_shard_path - returns the path of shard K, or of the index if K is nshards. */
static const char *make_shard_path(const struct shard_set *s, uint32_t k)
{
    const char *folder = (const char *)s->folder.data, *stem = (const char *)s->stem.data;
    const char *ext = (const char *)s->ext.data;
    if (k == s->layout.nshards)
        return arena_printf(s->p->a, "%s%s%s.index.json", folder, stem, ext).ptr;
    if (s->layout.nshards == 1)
        return make_single_path(s);
    return arena_printf(s->p->a, "%s%s-%05u-of-%05u%s", folder, stem, k + 1, s->layout.nshards, ext).ptr;
}

static ckpt_status make_paths(struct shard_set *s, ckpt_error *err)
{
    s->paths = arena_array(s->p->a, s->layout.nshards + 1, sizeof *s->paths);
    for (uint32_t k = 0; s->paths && k <= s->layout.nshards; k++)
        CKPT_TRY_ALLOC(s->paths[k] = make_shard_path(s, k), err);
    return s->paths ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------ index */

static void write_metadata_pair(buf *b, ckpt_str key, ckpt_str text)
{
    buf_put_cstr(b, ",\n    ");
    json_quote_ascii(b, key);
    buf_put_cstr(b, ": ");
    json_quote_ascii(b, text);
}

static ckpt_status write_metadata(struct shard_set *s, buf *b, size_t first_alias, ckpt_error *err)
{
    size_t added;
    buf_printf(b, "{\n  \"metadata\": {\n    \"total_size\": %llu", (unsigned long long)s->layout.total);
    CKPT_TRY(ties_update_metadata(s->p, first_alias, &s->metadata, &s->nmetadata, &added, err));
    for (size_t i = 0; i < s->nmetadata; i++)
        if (!str_is(s->metadata[i].key, "total_size") && !str_is(s->metadata[i].key, "format"))
            write_metadata_pair(b, s->metadata[i].key, s->metadata[i].text);
    buf_put_cstr(b, "\n  },\n");
    return CKPT_OK;
}

/* The sort key of a unit in the weight_map; the fields are compared in this order. */
struct map_position {
    uint32_t shard, follows_head, unit;
};

static int compare_map_positions(const void *pa, const void *pb)
{
    const struct map_position *a = pa, *b = pb;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->follows_head != b->follows_head)
        return a->follows_head < b->follows_head ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

/* write_weight_map - writes the units in the order of the shards; within a shard, heads of groups first. */
static ckpt_status write_weight_map(const struct shard_set *s, buf *b, ckpt_error *err)
{
    struct map_position *positions = calloc(s->layout.nunits, sizeof *positions);
    CKPT_TRY_ALLOC(positions, err);
    for (uint32_t u = 0; u < s->layout.nunits; u++)
        positions[u] = (struct map_position){s->layout.units[u].shard, s->layout.units[u].parent != u, u};
    qsort(positions, s->layout.nunits, sizeof *positions, compare_map_positions);
    buf_put_cstr(b, "  \"weight_map\": {");
    for (uint32_t i = 0; i < s->layout.nunits; i++) {
        buf_put_cstr(b, i ? ",\n    " : "\n    ");
        json_quote_ascii(b, s->layout.units[positions[i].unit].name);
        buf_put_cstr(b, ": ");
        json_quote_ascii(b, str_after_last(str_c(s->paths[positions[i].shard]), '/'));
    }
    buf_put_cstr(b, "\n  }\n}");
    free(positions);
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

static ckpt_status write_index(struct shard_set *s, size_t first_alias, ckpt_error *err)
{
    struct sink_options sink_opts = plan_sink_options(s->p, s->job->opts);
    sink_opts.batch = &s->batch;
    const char *path = s->paths[s->layout.nshards];
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = write_metadata(s, &b, first_alias, err);
    if (st == CKPT_OK)
        st = write_weight_map(s, &b, err);
    if (st == CKPT_OK && !s->job->opts->dry_run)
        st = sink_write_whole_file(path, &sink_opts, buf_view(&b), err);
    s->job->result->bytes += b.len;
    buf_free(&b);
    return st == CKPT_OK ? plan_note_output(s->p, path, err) : st;
}

/* ------------------------------------------------------------------ write */

static int report_progress(void *user, uint64_t done, uint64_t total)
{
    const struct shard_set *s = user;
    (void)total;
    return s->job->opts->progress(s->job->opts->user, s->done_bytes + done, s->layout.total);
}

static ckpt_status check_replaceable(const struct shard_set *s, const char *path, ckpt_error *err)
{
    bool replaces = s->kind->has_index || s->layout.nshards == 1;
    if ((s->job->opts->force && replaces) || access(path, F_OK) != 0)
        return CKPT_OK;
    ckpt_status st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "already exists; nothing written\n%s",
                          replaces ? "use -f to replace it"
                                   : "the files of a split GGUF are not replaced: remove them first");
    return name_file_if_failed(st, path, err);
}

/* find_single_file - sets s->single_path to the single file that the set replaces, if it exists. */
static ckpt_status find_single_file(struct shard_set *s, ckpt_error *err)
{
    struct stat st;
    const char *path = make_single_path(s);
    CKPT_TRY_ALLOC(path, err);
    bool name_exists = lstat(path, &st) == 0, is_link = name_exists && S_ISLNK(st.st_mode);
    bool has_target = name_exists && (!is_link || stat(path, &st) == 0);
    if (!name_exists && (errno == ENOENT || errno == ENOTDIR))
        return CKPT_OK;
    if (!has_target && !(is_link && errno == ENOENT))
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot examine what is to be replaced"),
                                   path, err);
    if (has_target)
        CKPT_TRY(own_files_contain(s->p->file, &st, &s->single_is_input, err));
    s->single_path = path;
    return s->single_is_input ? CKPT_OK : check_replaceable(s, path, err);
}

static ckpt_status add_inode(void *user, const struct stat *st, ckpt_error *err)
{
    return map_put_num(user, (uint64_t)st->st_ino, 0, NULL) ? CKPT_OK : fail_memory(err);
}

/* check_output - checks that the path of file K is not a file of the input and may be replaced. */
static ckpt_status check_output(const struct shard_set *s, uint32_t k, const map *inodes, ckpt_error *err)
{
    struct stat file_stat;
    bool exists = stat(s->paths[k], &file_stat) == 0;
    if (exists && (map_get_num(inodes, (uint64_t)file_stat.st_ino) != MAP_NONE || s->p->file->nparts == 0))
        CKPT_TRY(own_files_check_output(s->p->file, s->paths[k], s->layout.nshards == 1, err));
    return check_replaceable(s, s->paths[k], err);
}

static ckpt_status check_outputs(struct shard_set *s, ckpt_error *err)
{
    map *inodes = map_new(s->p->file->nparts + 1);
    ckpt_status st = inodes ? own_files_visit(s->p->file, add_inode, inodes, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = own_files_check_set(s->p->file, (const char *)s->folder.data, (const char *)s->stem.data,
                                 (const char *)s->ext.data, err);
    for (uint32_t k = 0; st == CKPT_OK && k < count_files(s); k++) /* index, too: a single shard removes it */
        st = check_output(s, k, inodes, err);
    map_free(inodes);
    CKPT_TRY(st);
    return s->layout.nshards > 1 && s->kind->has_index ? find_single_file(s, err) : CKPT_OK;
}

/* keep_old_set - gives the old set second names, before the first file of the new set is placed. */
static ckpt_status keep_old_set(struct shard_set *s, ckpt_error *err)
{
    const ckpt_write_options *o = s->job->opts;
    if (s->replaced || !o->force || !s->kind->has_index)
        return CKPT_OK;
    return replaced_begin(s->paths, s->layout.nshards + 1, (const char *)s->stem.data,
                          (const char *)s->ext.data, !o->no_sync, &s->replaced, err);
}

static ckpt_status make_folder(struct shard_set *s, ckpt_error *err)
{
    const char *folder = (const char *)s->folder.data;
    if (s->job->opts->dry_run || !folder[0] || source_is_folder(folder))
        return CKPT_OK;
    s->made_folder = temp_target_make(&s->new_folder, folder);
    if (s->made_folder || errno == EEXIST)
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder for the shards");
    sink_hint_folder(err, folder);
    return name_file_if_failed(st, folder, err);
}

/* place_files - moves the finished files into place, the index after the shards. */
static ckpt_status place_files(struct shard_set *s, ckpt_error *err)
{
    size_t placed = 0;
    ckpt_status st = keep_old_set(s, err);
    if (st == CKPT_OK)
        st = sink_batch_commit(&s->batch, &placed, err);
    s->nplaced += placed;
    return st;
}

/* undo_set - restores the old files, unless the new set is complete. */
static void undo_set(struct shard_set *s, size_t first_output)
{
    size_t end_output = first_output + s->nplaced;
    end_output = end_output < s->p->report.noutputs ? end_output : s->p->report.noutputs;
    sink_batch_abort(&s->batch);
    bool all_placed = s->layout.nshards > 1 && s->nplaced == count_files(s);
    if (s->is_complete || (all_placed && !s->single_stays)) {
        if (s->single_path && !s->single_is_input)
            (void)unlink(s->single_path);
        replaced_done(s->replaced);
        return;
    }
    for (size_t i = first_output; i < end_output; i++)
        if (!s->job->opts->force)
            (void)unlink(s->p->report.outputs[i]);
    if (s->replaced)
        replaced_undo(s->replaced, s->nplaced);
    s->p->report.noutputs = first_output;
}

/* write_shard - sets the mask of the plan to the tensors of shard K and writes them by the writer of the
 * format. The layout has resolved ties. */
static ckpt_status write_shard(struct shard_set *s, uint32_t k, ckpt_error *err)
{
    ckpt_write_options opts = *s->job->opts;
    ckpt_write_result result = {0};
    struct write_job job = {
        .path = s->paths[k], .opts = &opts, .result = &result, .batch = &s->batch, .has_index = true};
    size_t dropped = s->p->report.ndropped;
    opts.max_shard = 0;
    opts.keep_shards = 0;
    opts.ties = CKPT_TIES_COPY;
    if (!s->kind->has_index) {
        job.shard.number = k;
        job.shard.count = s->layout.nshards;
        job.shard.tensors = s->layout.n;
    }
    opts.user = opts.progress ? s : NULL;
    opts.progress = opts.progress ? report_progress : NULL;
    uint32_t begin = s->layout.begins[k];
    size_t n = s->layout.begins[k + 1] - begin;
    CKPT_TRY(plan_narrow(s->p, s->layout.entries + begin, n, err));
    CKPT_TRY(s->format->write(s->p, &job, err));
    if (k) /* the first shard has counted what is dropped */
        s->p->report.ndropped = dropped;
    s->job->result->tensors += result.tensors;
    s->job->result->bytes += result.bytes;
    s->done_bytes += s->layout.sizes[k];
    return CKPT_OK;
}

/* make_shard_metadata - makes the metadata of each shard: `format` alone if there is an index, which has the
 * other pairs; else all of them. */
static ckpt_status make_shard_metadata(const struct shard_set *s, ckpt_value **out, ckpt_error *err)
{
    *out = s->p->file->metadata;
    if (!s->kind->has_index)
        return CKPT_OK;
    ckpt_value *format = s->p->file->metadata ? value_get(s->p->file->metadata, "format") : NULL;
    *out = NULL;
    if (!format)
        return CKPT_OK;
    ckpt_value *key = value_str(s->p->a, STR_LIT("format"));
    *out = value_new(s->p->a, CKPT_V_DICT, 0);
    return key && *out && value_put(s->p->a, *out, key, format) ? CKPT_OK : fail_memory(err);
}

static const char *get_folder(const struct shard_set *s)
{
    return s->folder.len > 1 ? (const char *)s->folder.data : ".";
}

/* sync_folder - makes removals durable: after a power cut, a removed file must not reappear and be read
 * instead of the new one. A folder without read permission cannot be synced. */
static ckpt_status sync_folder(const struct shard_set *s, ckpt_error *err)
{
    const char *folder = get_folder(s);
    if (s->job->opts->no_sync)
        return CKPT_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 ? fsync(fd) == 0 || errno == EINVAL || errno == EROFS : errno == EACCES;
    ckpt_status st = ok ? CKPT_OK : fail_errno(err, CKPT_NO_OFFSET, "cannot flush the folder to disk");
    if (!ok)
        error_add_file(err, folder);
    if (fd >= 0)
        close(fd);
    return st;
}

/* remove_single_file - removes the single file that the complete set replaces, or gives a notice if it is the
 * input. */
static ckpt_status remove_single_file(struct shard_set *s, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    if (s->single_path && s->single_is_input)
        plan_notice(s->p, "%s, the input, is still there, and some loaders prefer it to the set: rm %s",
                    s->single_path, shell_path(s->single_path, word));
    else if (s->single_path && !s->job->opts->dry_run && unlink(s->single_path) != 0 && errno != ENOENT) {
        s->single_stays = true;
        ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the file that the set replaces");
        return name_file_if_failed(st, s->single_path, err);
    }
    s->is_complete = true;
    return s->single_path && !s->single_is_input && !s->job->opts->dry_run ? sync_folder(s, err) : CKPT_OK;
}

/* publish - if ST, the status of writing the files, is CKPT_OK, moves those that wait into place and calls
 * FINISH. Restores the old files if that fails. A signal has to wait, because a part of a set is of no use,
 * and all is written. */
static ckpt_status publish(struct shard_set *s, ckpt_status st, size_t first_output,
                           ckpt_status (*finish)(struct shard_set *s, ckpt_error *err), ckpt_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (st == CKPT_OK && !s->job->opts->dry_run)
        st = place_files(s, err);
    if (st == CKPT_OK)
        st = finish(s, err);
    if (st == CKPT_OK)
        replaced_done(s->replaced);
    else
        undo_set(s, first_output);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st;
}

/* get_max_waiting - returns how many finished files may wait to be moved into place; each has two
 * descriptors. */
static size_t get_max_waiting(const struct shard_set *s)
{
    struct rlimit file_limit;
    size_t parts = s->p->file->nparts, open = part_files_max_open();
    size_t used = (parts < open ? parts : open) + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &file_limit) != 0 || file_limit.rlim_cur / 2 > used + MAX_WAITING)
        return MAX_WAITING;
    return file_limit.rlim_cur > used + 2 ? (size_t)(file_limit.rlim_cur - used) / 2 : 1;
}

static ckpt_status write_set(struct shard_set *s, size_t first_alias, ckpt_error *err)
{
    ckpt_value *input_metadata = s->p->file->metadata, *shard_metadata;
    size_t outputs = s->p->report.noutputs, max_waiting = get_max_waiting(s);
    CKPT_TRY(make_shard_metadata(s, &shard_metadata, err));
    ckpt_status st = make_folder(s, err);
    if (st == CKPT_OK && !s->job->opts->dry_run)
        temp_clean_folder(&s->batch.cleaned_folder, get_folder(s), s->paths, count_files(s));
    s->p->file->metadata = shard_metadata;
    for (uint32_t k = 0; st == CKPT_OK && k < s->layout.nshards; k++) {
        if (s->batch.n == max_waiting)
            st = place_files(s, err);
        if (st == CKPT_OK)
            st = write_shard(s, k, err);
    }
    s->p->file->metadata = input_metadata;
    if (st == CKPT_OK)
        st = file_check_unchanged(s->p->file, err); /* once: input and output may have thousands of files */
    if (st == CKPT_OK && s->kind->has_index)
        st = write_index(s, first_alias, err);
    s->job->result->tensors += s->p->report.naliases - first_alias; /* the index records them */
    return publish(s, st, outputs, remove_single_file, err);
}

/* remove_index - removes the index of the set that a single shard replaces. */
static ckpt_status remove_index(struct shard_set *s, ckpt_error *err)
{
    if (s->replaced && !replaced_remove_index(s->replaced))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index of the set that is replaced");
    s->is_complete = true;
    return s->replaced ? sync_folder(s, err) : CKPT_OK;
}

static ckpt_status write_single_shard(struct shard_set *s, ckpt_error *err)
{
    ckpt_write_options o = *s->job->opts;
    struct write_job job = {.path = s->paths[0], .opts = &o, .result = s->job->result, .batch = &s->batch};
    size_t outputs = s->p->report.noutputs;
    o.max_shard = 0;
    o.keep_shards = 0;
    ckpt_status st = make_folder(s, err);
    st = st == CKPT_OK ? s->format->write(s->p, &job, err) : st;
    return publish(s, st, outputs, remove_index, err);
}

/* -------------------------------------------------------------------- all */

static ckpt_status write_layout(struct shard_set *s, ckpt_error *err)
{
    ckpt_plan *p = s->p;
    struct plan_saved saved;
    size_t first_alias = p->report.naliases, dropped = p->report.ndropped;
    ckpt_write_options o = *s->job->opts;
    if (!s->kind->has_index && o.ties == CKPT_TIES_DROP) /* nothing would record them */
        o.ties = CKPT_TIES_COPY;
    o.keep_shards = keeps_shards(p, s->job);
    if (!o.max_shard && !o.keep_shards)
        o.max_shard = DEFAULT_MAX_SHARD;
    CKPT_TRY(plan_update_entries(p, err));
    CKPT_TRY(plan_metadata(p, &s->metadata, &s->nmetadata, err));
    CKPT_TRY(plan_save(p, &saved, err));
    ckpt_status st = set_output_names(s, err);
    if (st == CKPT_OK)
        st = shards_lay_out(p, &o, s->kind->shares_storages, &s->layout, err);
    if (st == CKPT_OK)
        st = make_paths(s, err);
    if (st == CKPT_OK)
        st = check_outputs(s, err);
    if (st == CKPT_OK && s->layout.nshards > 1)
        st = write_set(s, first_alias, err);
    plan_restore(p, &saved);
    if (st != CKPT_OK || s->layout.nshards > 1)
        return st;
    p->report.naliases = first_alias;
    p->report.ndropped = dropped;
    return write_single_shard(s, err);
}

static const struct kind *get_kind(const ckpt_plan *p, const struct format **format)
{
    const ckpt_file *f = p->file;
    if (*format == f->format && f->nparts) /* in the format of the shards */
        *format = f->loading.by ? format_by_name("torch-zip") : f->parts[0]->format;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp((*format)->name, kinds[i].format) == 0)
            return &kinds[i];
    *format = format_by_name(kinds[0].format);
    return &kinds[0];
}

ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err)
{
    struct shard_set s = {.p = p, .job = job};
    s.kind = get_kind(p, &format);
    s.format = format;
    buf_init(&s.folder, 1u << 16);
    buf_init(&s.stem, 1u << 16);
    buf_init(&s.ext, 1u << 16);
    ckpt_status st = write_layout(&s, err);
    if (s.made_folder)
        (void)temp_close(&s.new_folder);
    buf_free(&s.folder);
    buf_free(&s.stem);
    buf_free(&s.ext);
    shard_layout_free(&s.layout);
    return st;
}

ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    const struct format *format = p->file->format;
    const struct kind *kind = get_kind(p, &format);
    struct write_job file_job = *job;
    if (!job->path)
        return format->write(p, job, err);
    if (source_is_folder(job->path)) {
        char *path = path_make(str_c(job->path), arena_printf(p->a, "%s%s", kind->stem, kind->ext));
        file_job.path = path ? arena_str(p->a, str_c(path)).ptr : NULL;
        free(path);
    }
    ckpt_status st = file_job.path ? own_files_check_output(p->file, file_job.path, true, err)
                                   : fail_memory(err);
    return st == CKPT_OK ? format->write(p, &file_job, err) : st;
}
