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
#include "io/fd.h"

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

static void put_terminated(buf *out, const char *text, size_t nbytes)
{
    buf_put(out, text, nbytes);
    buf_byte(out, 0);
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
static bool is_shard_of_format(const struct shard_set *set, struct shard_name *name)
{
    const ckpt_file *f = set->p->file;
    return f->nparts && shard_name_parse(str_after_last(str_c(f->parts[0]->path), '/'), name) &&
           str_is(name->ext, set->kind->ext);
}

/* set_output_names - sets set->folder, set->stem and set->ext from the output path: a file, or a folder that
 * need not exist. */
static ckpt_status set_output_names(struct shard_set *set, ckpt_error *err)
{
    const char *path = set->job->path;
    if (str_ends(str_c(path), STR_LIT(INDEX_SUFFIX)))
        path = arena_str(set->p->a, str_of(path, strlen(path) - strlen(INDEX_SUFFIX))).ptr;
    CKPT_TRY_ALLOC(path, err);
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    struct shard_name first;
    bool keeps_names = keeps_shards(set->p, set->job) && is_shard_of_format(set, &first);
    ckpt_str stem = keeps_names ? first.stem : str_c(set->kind->stem),
             ext = keeps_names ? first.ext : str_c(set->kind->ext);
    bool is_file = dot && dot > base && (format_by_suffix(path) || strcmp(dot, ".bin") == 0) &&
                   !source_is_folder(path);
    if (strcmp(path, "-") == 0)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "shards are several files, standard output is one\n"
                    "name a folder, or the file that the shards are to be named after");
    buf_put(&set->folder, path, is_file ? (size_t)(base - path) : strlen(path));
    if (!is_file && *base)
        buf_byte(&set->folder, '/');
    buf_byte(&set->folder, 0);
    put_terminated(&set->stem, is_file ? base : stem.ptr, is_file ? (size_t)(dot - base) : stem.len);
    put_terminated(&set->ext, is_file ? dot : ext.ptr, is_file ? strlen(dot) : ext.len);
    return buf_ok(&set->folder) && buf_ok(&set->stem) && buf_ok(&set->ext) ? CKPT_OK : fail_memory(err);
}

static uint32_t count_files(const struct shard_set *set)
{
    return set->layout.nshards + set->kind->has_index;
}

/* make_single_path - returns the path of a single shard, which has no number. */
static const char *make_single_path(const struct shard_set *set)
{
    return arena_printf(set->p->a, "%s%s%s", (const char *)set->folder.data, (const char *)set->stem.data,
                        (const char *)set->ext.data)
        .ptr;
}

/* make_shard_path - returns the path of shard INDEX, or of the index if INDEX is nshards. */
static const char *make_shard_path(const struct shard_set *set, uint32_t index)
{
    const char *folder = (const char *)set->folder.data, *stem = (const char *)set->stem.data;
    const char *ext = (const char *)set->ext.data;
    if (index == set->layout.nshards)
        return arena_printf(set->p->a, "%s%s%s.index.json", folder, stem, ext).ptr;
    if (set->layout.nshards == 1)
        return make_single_path(set);
    return arena_printf(set->p->a, "%s%s-%05u-of-%05u%s", folder, stem, index + 1, set->layout.nshards, ext)
        .ptr;
}

static ckpt_status make_paths(struct shard_set *set, ckpt_error *err)
{
    set->paths = arena_array(set->p->a, set->layout.nshards + 1, sizeof *set->paths);
    for (uint32_t k = 0; set->paths && k <= set->layout.nshards; k++)
        CKPT_TRY_ALLOC(set->paths[k] = make_shard_path(set, k), err);
    return set->paths ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------ index */

static void write_metadata_pair(buf *out, ckpt_str key, ckpt_str text)
{
    buf_put_cstr(out, ",\n    ");
    json_quote_ascii(out, key);
    buf_put_cstr(out, ": ");
    json_quote_ascii(out, text);
}

static ckpt_status write_metadata(struct shard_set *set, buf *out, size_t first_alias, ckpt_error *err)
{
    size_t added;
    buf_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %llu", (unsigned long long)set->layout.total);
    CKPT_TRY(ties_update_metadata(set->p, first_alias, &set->metadata, &set->nmetadata, &added, err));
    for (size_t i = 0; i < set->nmetadata; i++)
        if (!str_is(set->metadata[i].key, "total_size") && !str_is(set->metadata[i].key, "format"))
            write_metadata_pair(out, set->metadata[i].key, set->metadata[i].text);
    buf_put_cstr(out, "\n  },\n");
    return CKPT_OK;
}

/* An index while it is written, in pieces: that of a million tensors has 90 MB. */
struct index_writer {
    struct shard_set *set;
    sink *out; /* NULL: it is not written */
    buf text;  /* that was not written yet */
    uint64_t size;
};

/* put_text - writes the text of INDEX, unless that is less than MIN bytes. */
static ckpt_status put_text(struct index_writer *index, size_t min, ckpt_error *err)
{
    struct output_layout *layout = index->set->job->layout;
    const ckpt_str text = buf_view(&index->text);
    CKPT_TRY_ALLOC(buf_ok(&index->text), err);
    if (text.len < min)
        return CKPT_OK;
    if (layout)
        CKPT_TRY(layout->put_header(layout, text, err));
    else if (index->out)
        CKPT_TRY(sink_write(index->out, text.ptr, text.len, err));
    index->size += text.len;
    index->text.len = 0;
    return CKPT_OK;
}

/* order_units - sets ORDER to the units in the order of the shards; within a shard, heads of groups first.
 * NEXT has a 0 for each shard, and one more. */
static void order_units(const struct shard_layout *layout, uint32_t *order, uint32_t *next)
{
    for (uint32_t u = 0; u < layout->nunits; u++)
        next[layout->units[u].shard + 1]++;
    for (uint32_t k = 0; k < layout->nshards; k++)
        next[k + 1] += next[k]; /* where the units of the shard begin */
    for (int follows_head = 0; follows_head <= 1; follows_head++)
        for (uint32_t u = 0; u < layout->nunits; u++)
            if ((layout->units[u].parent != u) == follows_head)
                order[next[layout->units[u].shard]++] = u;
}

static ckpt_status write_weight_map(struct index_writer *index, ckpt_error *err)
{
    const struct shard_set *set = index->set;
    buf *b = &index->text;
    uint32_t *order = calloc((size_t)set->layout.nunits + 1, sizeof *order);
    uint32_t *next = calloc((size_t)set->layout.nshards + 1, sizeof *next);
    ckpt_status st = order && next ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK)
        order_units(&set->layout, order, next);
    free(next);
    buf_put_cstr(b, "  \"weight_map\": {");
    for (uint32_t i = 0; st == CKPT_OK && i < set->layout.nunits; i++) {
        const struct unit *unit = &set->layout.units[order[i]];
        buf_put_cstr(b, i ? ",\n    " : "\n    ");
        json_quote_ascii(b, unit->name);
        buf_put_cstr(b, ": ");
        json_quote_ascii(b, str_after_last(str_c(set->paths[unit->shard]), '/'));
        st = put_text(index, FD_CHUNK, err);
    }
    buf_put_cstr(b, "\n  }\n}");
    free(order);
    CKPT_TRY(st);
    return put_text(index, 0, err);
}

static ckpt_status write_index_text(struct index_writer *index, size_t first_alias, ckpt_error *err)
{
    CKPT_TRY(write_metadata(index->set, &index->text, first_alias, err));
    return write_weight_map(index, err);
}

static ckpt_status describe_index(const struct index_writer *index, const char *path, ckpt_error *err)
{
    struct output_layout *layout = index->set->job->layout;
    const struct layout_file file = {.path = path, .size = index->size};
    return layout->add_file(layout, &file, err);
}

static ckpt_status write_index(struct shard_set *set, size_t first_alias, ckpt_error *err)
{
    struct sink_options sink_opts = plan_sink_options(set->p, set->job->opts);
    sink_opts.batch = &set->batch;
    const char *path = set->paths[set->layout.nshards];
    struct index_writer index = {.set = set};
    bool is_written = !set->job->layout && !set->job->opts->dry_run;
    if (is_written)
        CKPT_TRY(sink_file(path, &sink_opts, &index.out, err));
    buf_init(&index.text, SIZE_MAX / 2);
    ckpt_status st = write_index_text(&index, first_alias, err);
    if (is_written)
        st = sink_end(index.out, st, err);
    else if (st == CKPT_OK && set->job->layout)
        st = describe_index(&index, path, err);
    set->job->result->bytes += index.size;
    buf_free(&index.text);
    return st == CKPT_OK ? plan_note_output(set->p, path, err) : st;
}

/* ------------------------------------------------------------------ write */

static int report_progress(void *user, uint64_t done, uint64_t total)
{
    const struct shard_set *s = user;
    (void)total;
    return s->job->opts->progress(s->job->opts->user, s->done_bytes + done, s->layout.total);
}

static ckpt_status check_replaceable(const struct shard_set *set, const char *path, ckpt_error *err)
{
    bool replaces = set->kind->has_index || set->layout.nshards == 1;
    if ((set->job->opts->force && replaces) || access(path, F_OK) != 0)
        return CKPT_OK;
    ckpt_status st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "already exists; nothing written\n%s",
                          replaces ? "use -f to replace it"
                                   : "the files of a split GGUF are not replaced: remove them first");
    return name_file_if_failed(st, path, err);
}

/* find_single_file - sets set->single_path to the single file that the set replaces, if it exists. */
static ckpt_status find_single_file(struct shard_set *set, ckpt_error *err)
{
    struct stat st;
    const char *path = make_single_path(set);
    CKPT_TRY_ALLOC(path, err);
    bool name_exists = lstat(path, &st) == 0, is_link = name_exists && S_ISLNK(st.st_mode);
    bool has_target = name_exists && (!is_link || stat(path, &st) == 0);
    if (!name_exists && (errno == ENOENT || errno == ENOTDIR))
        return CKPT_OK;
    if (!has_target && !(is_link && errno == ENOENT))
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot examine what is to be replaced"),
                                   path, err);
    if (has_target)
        CKPT_TRY(own_files_contain(set->p->file, &st, &set->single_is_input, err));
    set->single_path = path;
    return set->single_is_input ? CKPT_OK : check_replaceable(set, path, err);
}

static ckpt_status add_inode(void *user, const struct stat *st, ckpt_error *err)
{
    return map_put_num(user, (uint64_t)st->st_ino, 0, NULL) ? CKPT_OK : fail_memory(err);
}

/* check_output - checks that the path of file INDEX is not a file of the input and may be replaced. */
static ckpt_status check_output(const struct shard_set *set, uint32_t index, const map *inodes,
                                ckpt_error *err)
{
    struct stat file_stat;
    bool exists = stat(set->paths[index], &file_stat) == 0;
    if (exists && (map_get_num(inodes, (uint64_t)file_stat.st_ino) != MAP_NONE || set->p->file->nparts == 0))
        CKPT_TRY(own_files_check_output(set->p->file, set->paths[index], set->layout.nshards == 1, err));
    return check_replaceable(set, set->paths[index], err);
}

static ckpt_status check_outputs(struct shard_set *set, ckpt_error *err)
{
    map *inodes = map_new(set->p->file->nparts + 1);
    ckpt_status st = inodes ? own_files_visit(set->p->file, add_inode, inodes, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = own_files_check_set(set->p->file, (const char *)set->folder.data, (const char *)set->stem.data,
                                 (const char *)set->ext.data, err);
    for (uint32_t k = 0; st == CKPT_OK && k < count_files(set);
         k++) /* index, too: a single shard removes it */
        st = check_output(set, k, inodes, err);
    map_free(inodes);
    CKPT_TRY(st);
    return set->layout.nshards > 1 && set->kind->has_index ? find_single_file(set, err) : CKPT_OK;
}

/* keep_old_set - gives the old set second names, before the first file of the new set is placed. */
static ckpt_status keep_old_set(struct shard_set *set, ckpt_error *err)
{
    const ckpt_write_options *o = set->job->opts;
    if (set->replaced || !o->force || !set->kind->has_index)
        return CKPT_OK;
    return replaced_begin(set->paths, set->layout.nshards + 1, (const char *)set->stem.data,
                          (const char *)set->ext.data, !o->no_sync, &set->replaced, err);
}

static ckpt_status make_folder(struct shard_set *set, ckpt_error *err)
{
    const char *folder = (const char *)set->folder.data;
    if (set->job->opts->dry_run || !folder[0] || source_is_folder(folder))
        return CKPT_OK;
    set->made_folder = temp_target_make(&set->new_folder, folder);
    if (set->made_folder || errno == EEXIST)
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder for the shards");
    sink_hint_folder(err, folder);
    return name_file_if_failed(st, folder, err);
}

/* place_files - moves the finished files into place, the index after the shards. */
static ckpt_status place_files(struct shard_set *set, ckpt_error *err)
{
    size_t placed = 0;
    ckpt_status st = keep_old_set(set, err);
    if (st == CKPT_OK)
        st = sink_batch_commit(&set->batch, &placed, err);
    set->nplaced += placed;
    return st;
}

/* undo_set - restores the old files, unless the new set is complete. */
static void undo_set(struct shard_set *set, size_t first_output)
{
    size_t end_output = first_output + set->nplaced;
    end_output = end_output < set->p->report.noutputs ? end_output : set->p->report.noutputs;
    sink_batch_abort(&set->batch);
    bool all_placed = set->layout.nshards > 1 && set->nplaced == count_files(set);
    if (set->is_complete || (all_placed && !set->single_stays)) {
        if (set->single_path && !set->single_is_input)
            (void)unlink(set->single_path);
        replaced_done(set->replaced);
        return;
    }
    for (size_t i = first_output; i < end_output; i++)
        if (!set->job->opts->force)
            (void)unlink(set->p->report.outputs[i]);
    if (set->replaced)
        replaced_undo(set->replaced, set->nplaced);
    set->p->report.noutputs = first_output;
}

/* write_shard - sets the mask of the plan to the tensors of shard INDEX and writes them by the writer of the
 * format. The layout has resolved ties. */
static ckpt_status write_shard(struct shard_set *set, uint32_t index, ckpt_error *err)
{
    ckpt_write_options opts = *set->job->opts;
    ckpt_write_result result = {0};
    struct write_job job = {.path = set->paths[index],
                            .opts = &opts,
                            .result = &result,
                            .batch = &set->batch,
                            .has_index = true,
                            .layout = set->job->layout};
    size_t dropped = set->p->report.ndropped;
    opts.max_shard = 0;
    opts.keep_shards = 0;
    opts.ties = CKPT_TIES_COPY;
    if (!set->kind->has_index) {
        job.shard.number = index;
        job.shard.count = set->layout.nshards;
        job.shard.tensors = set->layout.n;
    }
    opts.user = opts.progress ? set : NULL;
    opts.progress = opts.progress ? report_progress : NULL;
    uint32_t begin = set->layout.begins[index];
    size_t n = set->layout.begins[index + 1] - begin;
    CKPT_TRY(plan_narrow(set->p, set->layout.entries + begin, n, err));
    CKPT_TRY(set->format->write(set->p, &job, err));
    if (index) /* the first shard has counted what is dropped */
        set->p->report.ndropped = dropped;
    set->job->result->tensors += result.tensors;
    set->job->result->bytes += result.bytes;
    set->done_bytes += set->layout.sizes[index];
    return CKPT_OK;
}

/* make_shard_metadata - makes the metadata of each shard: `format` alone if there is an index, which has the
 * other pairs; else all of them. */
static ckpt_status make_shard_metadata(const struct shard_set *set, ckpt_value **out, ckpt_error *err)
{
    *out = set->p->file->metadata;
    if (!set->kind->has_index)
        return CKPT_OK;
    ckpt_value *format = set->p->file->metadata ? value_get(set->p->file->metadata, "format") : NULL;
    *out = NULL;
    if (!format)
        return CKPT_OK;
    ckpt_value *key = value_str(set->p->a, STR_LIT("format"));
    *out = value_new(set->p->a, CKPT_V_DICT, 0);
    return key && *out && value_put(set->p->a, *out, key, format) ? CKPT_OK : fail_memory(err);
}

static const char *get_folder(const struct shard_set *set)
{
    return set->folder.len > 1 ? (const char *)set->folder.data : ".";
}

/* sync_folder - makes removals durable: after a power cut, a removed file must not reappear and be read
 * instead of the new one. A folder without read permission cannot be synced. */
static ckpt_status sync_folder(const struct shard_set *set, ckpt_error *err)
{
    const char *folder = get_folder(set);
    if (set->job->opts->no_sync)
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
static ckpt_status remove_single_file(struct shard_set *set, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    if (set->single_path && set->single_is_input)
        plan_notice(set->p, "%s, the input, is still there, and some loaders prefer it to the set: rm %s",
                    set->single_path, shell_path(set->single_path, word));
    else if (set->single_path && !set->job->opts->dry_run && unlink(set->single_path) != 0 &&
             errno != ENOENT) {
        set->single_stays = true;
        ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the file that the set replaces");
        return name_file_if_failed(st, set->single_path, err);
    }
    set->is_complete = true;
    return set->single_path && !set->single_is_input && !set->job->opts->dry_run ? sync_folder(set, err)
                                                                                 : CKPT_OK;
}

/* publish - if ST, the status of writing the files, is CKPT_OK, moves those that wait into place and calls
 * FINISH. Restores the old files if that fails. A signal has to wait, because a part of a set is of no use,
 * and all is written. */
static ckpt_status publish(struct shard_set *set, ckpt_status st, size_t first_output,
                           ckpt_status (*finish)(struct shard_set *set, ckpt_error *err), ckpt_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (st == CKPT_OK && !set->job->opts->dry_run)
        st = place_files(set, err);
    if (st == CKPT_OK)
        st = finish(set, err);
    if (st == CKPT_OK)
        replaced_done(set->replaced);
    else
        undo_set(set, first_output);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st;
}

/* get_max_waiting - returns how many finished files may wait to be moved into place; each has two
 * descriptors. */
static size_t get_max_waiting(const struct shard_set *set)
{
    struct rlimit file_limit;
    size_t parts = set->p->file->nparts, open = part_files_max_open();
    size_t used = (parts < open ? parts : open) + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &file_limit) != 0 || file_limit.rlim_cur / 2 > used + MAX_WAITING)
        return MAX_WAITING;
    return file_limit.rlim_cur > used + 2 ? (size_t)(file_limit.rlim_cur - used) / 2 : 1;
}

static ckpt_status write_set(struct shard_set *set, size_t first_alias, ckpt_error *err)
{
    ckpt_value *input_metadata = set->p->file->metadata, *shard_metadata;
    size_t outputs = set->p->report.noutputs, max_waiting = get_max_waiting(set);
    CKPT_TRY(make_shard_metadata(set, &shard_metadata, err));
    ckpt_status st = make_folder(set, err);
    if (st == CKPT_OK && !set->job->opts->dry_run)
        temp_clean_folder(&set->batch.cleaned_folder, get_folder(set), set->paths, count_files(set));
    set->p->file->metadata = shard_metadata;
    for (uint32_t k = 0; st == CKPT_OK && k < set->layout.nshards; k++) {
        if (set->batch.n == max_waiting)
            st = place_files(set, err);
        if (st == CKPT_OK)
            st = write_shard(set, k, err);
    }
    set->p->file->metadata = input_metadata;
    shard_layout_free_entries(&set->layout);
    if (st == CKPT_OK)
        st = file_check_unchanged(set->p->file, err); /* once: input and output may have thousands of files */
    if (st == CKPT_OK && set->kind->has_index)
        st = write_index(set, first_alias, err);
    set->job->result->tensors += set->p->report.naliases - first_alias; /* the index records them */
    return publish(set, st, outputs, remove_single_file, err);
}

/* remove_index - removes the index of the set that a single shard replaces. */
static ckpt_status remove_index(struct shard_set *set, ckpt_error *err)
{
    if (set->replaced && !replaced_remove_index(set->replaced))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index of the set that is replaced");
    set->is_complete = true;
    return set->replaced ? sync_folder(set, err) : CKPT_OK;
}

static ckpt_status write_single_shard(struct shard_set *set, ckpt_error *err)
{
    ckpt_write_options o = *set->job->opts;
    struct write_job job = {.path = set->paths[0],
                            .opts = &o,
                            .result = set->job->result,
                            .batch = &set->batch,
                            .layout = set->job->layout};
    size_t outputs = set->p->report.noutputs;
    o.max_shard = 0;
    o.keep_shards = 0;
    ckpt_status st = make_folder(set, err);
    st = st == CKPT_OK ? set->format->write(set->p, &job, err) : st;
    return publish(set, st, outputs, remove_index, err);
}

/* -------------------------------------------------------------------- all */

static ckpt_status write_layout(struct shard_set *set, ckpt_error *err)
{
    ckpt_plan *p = set->p;
    struct plan_saved saved;
    size_t first_alias = p->report.naliases, dropped = p->report.ndropped;
    ckpt_write_options o = *set->job->opts;
    if (!set->kind->has_index && o.ties == CKPT_TIES_DROP) /* nothing would record them */
        o.ties = CKPT_TIES_COPY;
    o.keep_shards = keeps_shards(p, set->job);
    if (!o.max_shard && !o.keep_shards)
        o.max_shard = DEFAULT_MAX_SHARD;
    CKPT_TRY(plan_update_entries(p, err));
    CKPT_TRY(plan_metadata(p, &set->metadata, &set->nmetadata, err));
    CKPT_TRY(plan_save(p, &saved, err));
    ckpt_status st = set_output_names(set, err);
    if (st == CKPT_OK)
        st = shards_lay_out(p, &o, set->kind->shares_storages, &set->layout, err);
    if (st == CKPT_OK)
        st = make_paths(set, err);
    if (st == CKPT_OK)
        st = check_outputs(set, err);
    if (st == CKPT_OK && set->layout.nshards > 1)
        st = write_set(set, first_alias, err);
    plan_restore(p, &saved);
    if (st != CKPT_OK || set->layout.nshards > 1)
        return st;
    p->report.naliases = first_alias;
    p->report.ndropped = dropped;
    return write_single_shard(set, err);
}

static const struct kind *get_kind(const ckpt_plan *p, const struct format **format)
{
    const ckpt_file *f = p->file;
    const struct format *shard = f->nparts ? f->parts[0]->format : NULL; /* those of DCP have none */
    if (*format == f->format && shard)
        *format = f->loading.by ? format_by_name("torch-zip") : shard;
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
    if (job->layout)
        CKPT_TRY(format_check_lays_out(format, err));
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
