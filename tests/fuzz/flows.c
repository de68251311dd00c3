/*
 * flows.c - fuzz targets for whole operations. They check that a written file reads back with the same
 * tensors, that a repaired file is complete, and that each refusal has a reason. Files are in a temporary
 * folder.
 */
#include "parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fail/folder.h"
#include "../zipcrc.h"
#include "base/crc32.h"
#include "codec/pickle_write.h"
#include "codec/tar.h"
#include "format/distributed/part_files.h"
#include "format/format.h"
#include "io/journal.h"
#include "op/weights_only.h"

#define EDITED 1500u /* bytes of the file that journals are for */

static struct {
    char folder[200];
    char in[256], out_pt[256], out_st[256], out_flax[256], out_dcp[256], ranks[256];
    char index[256], one[256], edited[256], journal[280];
    int in_fd;
    pid_t owner;    /* the process that removes the folder when it ends */
    uint64_t inode; /* of the edited file */
    unsigned char original[EDITED];
    ckpt_file *file; /* the file `one`, opened */
} files;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd) != 0)
        die(path);
}

/* write_shard - writes a safetensors file with HEADER, of less than 256 bytes, and N bytes of data. */
static void write_shard(const char *path, const char *header, size_t n)
{
    char all[512] = {0};
    size_t len = strlen(header);
    all[0] = (char)len;
    memcpy(all + 8, header, len);
    write_file(path, all, 8 + len + n);
}

static void name_file(char *out, size_t cap, const char *name)
{
    if ((size_t)snprintf(out, cap, "%s/%s", files.folder, name) >= cap)
        die("FUZZ_FOLDER");
}

static bool remove_folder(const char *path)
{
    if (access(path, F_OK) != 0)
        return true;
    folder_empty(path);
    return rmdir(path) == 0;
}

static void clean_up(void)
{
    char path[256];
    static const char *const names[] = {"in",
                                        "out.pt",
                                        "out.safetensors",
                                        "out.msgpack",
                                        "a.safetensors",
                                        "b.safetensors",
                                        "edited",
                                        ("edited" JOURNAL_SUFFIX)};
    if (getpid() != files.owner)
        return;
    ckpt_close(files.file);
    (void)remove_folder(files.ranks);
    (void)remove_folder(files.out_dcp);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        name_file(path, sizeof path, names[i]);
        unlink(path);
    }
    rmdir(files.folder);
}

void flows_begin(void)
{
    const char *parent = getenv("FUZZ_FOLDER");
    char path[256];
    struct stat st;
    snprintf(files.folder, sizeof files.folder, "%s/ckpt-fuzz-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(files.folder))
        die(files.folder);
    name_file(files.in, sizeof files.in, "in");
    name_file(files.out_pt, sizeof files.out_pt, "out.pt");
    name_file(files.out_st, sizeof files.out_st, "out.safetensors");
    name_file(files.out_flax, sizeof files.out_flax, "out.msgpack");
    name_file(files.out_dcp, sizeof files.out_dcp, "out.dcp");
    name_file(files.ranks, sizeof files.ranks, "ranks");
    name_file(files.index, sizeof files.index, "model.safetensors.index.json");
    name_file(files.one, sizeof files.one, "a.safetensors");
    name_file(files.edited, sizeof files.edited, "edited");
    name_file(files.journal, sizeof files.journal, "edited" JOURNAL_SUFFIX);
    write_shard(files.one,
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                "\"b.weight\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                11);
    name_file(path, sizeof path, "b.safetensors");
    write_shard(path, "{\"c\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 8);
    for (size_t i = 0; i < EDITED; i++)
        files.original[i] = (unsigned char)(i * 7 + i / 256);
    write_file(files.edited, files.original, EDITED);
    files.in_fd = open(files.in, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (files.in_fd < 0 || stat(files.edited, &st) != 0 ||
        ckpt_open(files.one, NULL, &files.file, NULL) != CKPT_OK)
        die(files.folder);
    files.inode = st.st_ino;
    files.owner = getpid();
    atexit(clean_up);
}

/* write_input - writes the bytes to the file files.in. */
static void write_input(const uint8_t *data, size_t size)
{
    if (ftruncate(files.in_fd, 0) != 0 || pwrite(files.in_fd, data, size, 0) != (ssize_t)size)
        die(files.in);
}

/* --------------------------------------------------------------- write, read */

static bool compute_digest(ckpt_file *file, uint32_t row, uint8_t sum[CKPT_DIGEST_MAX])
{
    const ckpt_tensor it = tensor_at(file, row), *t = &it;
    return t->has_data && t->nbytes <= EXERCISE_STREAM &&
           ckpt_digest_tensor(file, row, CKPT_XXH3, sum, NULL) == CKPT_OK;
}

/* check_tensors - aborts if a tensor of BACK has other bytes than the one of the same name in FILE. */
static void check_tensors(ckpt_file *file, ckpt_file *back)
{
    for (uint32_t i = 0; i < ckpt_tensor_count(back) && i < 64; i++) {
        uint32_t row = ckpt_tensor_find(file, ckpt_tensor_name(back, i));
        uint8_t a[CKPT_DIGEST_MAX] = {0}, b[CKPT_DIGEST_MAX] = {0};
        if (row == CKPT_NO_TENSOR || ckpt_tensor_find(back, ckpt_tensor_name(back, i)) != i)
            continue;
        if (compute_digest(back, i, a) && compute_digest(file, row, b) && memcmp(a, b, sizeof a) != 0)
            exercise_abort("a tensor was written with different bytes");
    }
}

/* write_and_reopen - writes P to PATH and opens that file; NULL: writing it was refused. */
static ckpt_file *write_and_reopen(ckpt_plan *p, const char *path)
{
    ckpt_error err = {0};
    ckpt_write_options opts = {.struct_size = sizeof opts, .force = true, .no_sync = true, .threads = 1};
    ckpt_write_result res = CKPT_INIT(ckpt_write_result);
    ckpt_file *back = NULL;
    ckpt_status st = ckpt_plan_write(p, path, &opts, &res, &err);
    check_reason(st, &err);
    if (st != CKPT_OK)
        return NULL;
    st = ckpt_open(path, NULL, &back, &err);
    if (st == CKPT_ENOMEM || st == CKPT_EIO) /* a call that each_call.c makes fail */
        return NULL;
    if (st != CKPT_OK) {
        fprintf(stderr, "%d %s: %s\n", (int)err.status, err.where, err.what);
        exercise_abort("the written file cannot be opened");
    }
    if (res.tensors > ckpt_tensor_count(back))
        exercise_abort("the written file has too few tensors");
    return back;
}

/* write_each - writes F, cast to DTYPE unless that is NONE, to each of OUTPUTS up to NULL, and reads it
 * back. */
static void write_each(ckpt_file *f, ckpt_dtype dtype, const char *const *outputs)
{
    ckpt_file *back;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK && dtype)
        st = ckpt_plan_cast(p, NULL, dtype, &err);
    check_reason(st, &err);
    for (; st == CKPT_OK && *outputs; outputs++)
        if ((back = write_and_reopen(p, *outputs))) {
            if (!dtype)
                check_tensors(f, back);
            ckpt_close(back);
        }
    ckpt_plan_free(p);
}

static void fuzz_write_as(const uint8_t *data, size_t size, ckpt_dtype dtype)
{
    const char *const outputs[] = {files.out_pt, files.out_st, files.out_flax, NULL};
    ckpt_file *f = NULL;
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    write_each(f, dtype, outputs);
    ckpt_close(f);
}

void fuzz_cast(const uint8_t *data, size_t size) { fuzz_write_as(data, size, CKPT_DT_BF16); }
void fuzz_round(const uint8_t *data, size_t size) { fuzz_write_as(data, size, CKPT_DT_NONE); }

/* fuzz_sanitize - checks that torch.load(weights_only=True) would accept the sanitized file. */
void fuzz_sanitize(const uint8_t *data, size_t size)
{
    ckpt_file *f = NULL, *back = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    ckpt_str why;
    int verdict = 1;
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK)
        st = ckpt_plan_sanitize(p, "torch-zip", &err);
    check_reason(st, &err);
    if (st == CKPT_OK && (back = write_and_reopen(p, files.out_pt))) {
        check_tensors(f, back);
        st = weights_only_verdict(back, back->a, &verdict, &why, &err);
        check_reason(st, &err);
        if (st == CKPT_OK && verdict != 1)
            exercise_abort("weights_only refuses what was sanitized");
        ckpt_close(back);
    }
    ckpt_plan_free(p);
    ckpt_close(f);
}

/* has_planned_tensors - returns whether F holds the tensors of P's file under the names that P gives them. */
static bool has_planned_tensors(const ckpt_plan *p, ckpt_file *f)
{
    bool same = f->table.nrows == p->nentries && f->table.nstorages == p->file->table.nstorages;
    for (uint32_t i = 0; same && i < f->table.nrows; i++) {
        ckpt_tensor a = CKPT_INIT(ckpt_tensor), b = CKPT_INIT(ckpt_tensor);
        same = table_copy_row(&p->file->table, p->entries[i].row, &a) && table_copy_row(&f->table, i, &b) &&
               str_eq(b.name, p->entries[i].name) && a.dtype == b.dtype && a.kind == b.kind &&
               a.nbytes == b.nbytes && a.storage == b.storage && a.storage_offset == b.storage_offset;
    }
    return same;
}

/* edited_entry - sets *TEXT to the name that the edit of V in the plan USER gives to entry I; false: the edit
 * drops the entry. */
static bool edited_entry(void *user, const ckpt_value *v, uint32_t i, ckpt_str *text)
{
    const struct edit *e = plan_find_edit(user, v);
    if (!e || i >= e->n)
        return true;
    *text = e->names[i];
    return !e->dropped[i];
}

/* has_planned_graph - returns whether the graph of F and that of P with its edits are written as the same
 * pickle. */
static bool has_planned_graph(const ckpt_plan *p, const ckpt_file *f)
{
    struct pickle_hooks edited = {.user = (void *)(uintptr_t)p, .entry = edited_entry};
    buf a, b;
    buf_init(&a, 64u << 20);
    buf_init(&b, 64u << 20);
    ckpt_status x = pickle_write(p->root, &edited, &a, NULL), y = pickle_write(f->root, NULL, &b, NULL);
    bool none = x == CKPT_ENOMEM || y == CKPT_ENOMEM; /* an allocation that each_call.c makes fail */
    bool same = none || (x == y && (x != CKPT_OK || str_eq(buf_view(&a), buf_view(&b))));
    buf_free(&a);
    buf_free(&b);
    return same;
}

/* fuzz_in_place - checks that patches are in order and inside the file, and that the patched file can be
 * read. */
void fuzz_in_place(const uint8_t *data, size_t size)
{
    ckpt_file *f = NULL, *after = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    struct patches list = {0};
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK && (st = ckpt_plan_strip_auto(p, &err)) == CKPT_OK && ckpt_plan_rename_count(p) == 0)
        st = size % 4 ? ckpt_plan_rename_regex(p, "^(.)..=>\\1", &err) : ckpt_plan_add(p, "f.", &err);
    if (st == CKPT_OK)
        st = plan_update_entries(p, &err);
    check_reason(st, &err);
    if (st == CKPT_OK && f->src && f->format->in_place && p->nrenames) {
        st = f->format->in_place(p, &list, &err);
        check_reason(st, &err);
        for (size_t i = 0; st == CKPT_OK && i < list.n; i++)
            if ((i && list.at[i].at < list.at[i - 1].at + list.at[i - 1].bytes.len) ||
                list.at[i].at > list.new_size || list.at[i].bytes.len > list.new_size - list.at[i].at)
                exercise_abort("patches overlap, or exceed the file");
        source *patched = st == CKPT_OK ? source_patched(f->src, &list) : NULL;
        const struct opening o = {.path = "fuzz", .src = patched, .only = f->format};
        if (patched && (st = format_open(&o, &after, &err)) == CKPT_OK)
            for (uint32_t i = 0; i < ckpt_tensor_count(after) && i < 64; i++)
                exercise_read_row(after, i);
        check_reason(st, &err);
        if (st == CKPT_OK && after && has_planned_tensors(p, after) && !has_planned_graph(p, after))
            exercise_abort("an edit in place reads back as a different graph");
    }
    ckpt_close(st == CKPT_OK ? after : NULL);
    ckpt_plan_free(p);
    ckpt_close(f);
}

/* ------------------------------------------------------------- damaged files */

static int check_finding(void *user, const ckpt_finding *f)
{
    (void)user;
    if (!f->id || !ckpt_finding_text(f->id))
        exercise_abort("a finding with an unknown id");
    return 0;
}

static const ckpt_work one_thread = {.struct_size = sizeof(ckpt_work), .threads = 1};

void fuzz_verify(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_verify_options o = {.struct_size = sizeof o, .finite = true, .how = &one_thread};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    write_input(data, size);
    check_reason(ckpt_verify(files.in, &o, check_finding, NULL, &r, &err), &err);
}

static int check_diagnosis(void *user, const ckpt_diagnosis *d)
{
    (void)user;
    if (!d->id || !d->text || !d->text[0])
        exercise_abort("a diagnosis without text");
    return 0;
}

void fuzz_doctor(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_doctor_options o = {.struct_size = sizeof o, .how = &one_thread};
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    write_input(data, size);
    check_reason(ckpt_doctor(files.in, &o, check_diagnosis, NULL, &r, &err), &err);
}

/* --------------------------------------------------------------- many ranks */

/* make_folders - makes the parent folders of PATH. */
static void make_folders(char *path)
{
    for (char *at = path + strlen(files.ranks) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

/* unpack_file - writes the file T of the tar DATA, with the CRCs of a zip archive corrected. */
static void unpack_file(const uint8_t *data, const struct tar_entry *t)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%.*s", files.ranks, STR_ARG(t->name));
    uint8_t *copy = malloc(t->size + 1);
    if (copy && t->type == '0' && !path_leaves_folder(t->name) && (size_t)n < sizeof path) {
        memcpy(copy, data + t->data, t->size);
        (void)zipcrc_fix(copy, t->size);
        make_folders(path);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd >= 0) /* else one name is both a file and a folder */
            (void)(write(fd, copy, t->size) | close(fd));
    }
    free(copy);
}

/* unpack_tar - replaces the folder files.ranks by the files of the tar DATA. */
static bool unpack_tar(const uint8_t *data, size_t size)
{
    arena *a = arena_new(1 << 20);
    source *src = source_mem(data, size, 0);
    struct tar_entry *member;
    size_t n = 0;
    bool made = a && src && remove_folder(files.ranks) && mkdir(files.ranks, 0700) == 0 &&
                tar_list(src, a, true, &member, &n, NULL) == CKPT_OK;
    for (size_t i = 0; made && i < n && i < 64; i++)
        unpack_file(data, &member[i]);
    source_unref(src);
    arena_free(a);
    return made;
}

/* check_folder_error - aborts unless ERR names the folder files.ranks or a file in it, and has all that an
 * error must have. */
static void check_folder_error(const ckpt_error *err)
{
    struct stat st;
    bool placed = stat(err->file, &st) == 0 && S_ISREG(st.st_mode) &&
                  (err->offset != CKPT_NO_OFFSET || !err->where[0]);
    if (strncmp(err->file, files.ranks, strlen(files.ranks)) != 0) {
        fprintf(stderr, "%s: %s\n", err->file, err->what);
        exercise_abort("an error names a file outside of the folder");
    }
    exercise_check_refusal(err, err->file, placed ? (size_t)st.st_size : SIZE_MAX);
}

/* fuzz_ranks - unpacks a tar of the files that many ranks wrote, then opens, writes, salvages and verifies
 * them as one checkpoint. */
void fuzz_ranks(const uint8_t *data, size_t size)
{
    const char *const outputs[] = {files.out_pt, files.out_st, files.out_dcp, NULL};
    ckpt_error err = {0};
    ckpt_verify_options o = {.struct_size = sizeof o, .how = &one_thread};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    ckpt_file *f = NULL;
    if (!unpack_tar(data, size))
        return;
    ckpt_status st = ckpt_open(files.ranks, NULL, &f, &err);
    check_reason(st, &err);
    if (st == CKPT_OK) {
        exercise_file(f);
        write_each(f, CKPT_DT_NONE, outputs);
        ckpt_close(f);
    } else {
        check_folder_error(&err);
    }
    st = ckpt_salvage(files.ranks, NULL, &f, &err);
    check_reason(st, &err);
    if (st == CKPT_OK) {
        exercise_file(f);
        ckpt_close(f);
    }
    check_reason(ckpt_verify(files.ranks, &o, check_finding, NULL, &r, &err), &err);
}

/* ---------------------------------------------------------- more than one file */

/* fuzz_index - opens the bytes as the index of a set whose shards a.safetensors and b.safetensors exist. */
void fuzz_index(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    ckpt_status st = ckpt_open_memory(data, size, files.index, NULL, &f, &err);
    check_reason(st, &err);
    if (st != CKPT_OK)
        return;
    for (uint32_t i = 0; i < ckpt_tensor_count(f) && i < 64; i++)
        exercise_read_row(f, i);
    ckpt_close(f);
}

void fuzz_manifest(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_verify_options o = {.struct_size = sizeof o, .manifest = files.in, .how = &one_thread};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    write_input(data, size);
    check_reason(ckpt_verify(files.one, &o, check_finding, NULL, &r, &err), &err);
}

void fuzz_map(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_plan *p = NULL;
    ckpt_status st = ckpt_plan_new(files.file, &p, &err);
    write_input(data, size);
    if (st == CKPT_OK)
        st = ckpt_plan_rename_map(p, files.in, &err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < ckpt_plan_rename_count(p); i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i); /* NULL: out of memory */
        if (r && !str_is(r->from, "a") && !str_is(r->from, "b.weight"))
            exercise_abort("a name that no tensor has was renamed");
    }
    ckpt_plan_free(p);
}

static void write_le(unsigned char *at, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++, v >>= 8)
        at[i] = (unsigned char)v;
}

static uint64_t read_le(const unsigned char *at)
{
    uint64_t v = 0;
    for (size_t i = 8; i-- > 0;)
        v = v << 8 | at[i];
    return v;
}

/* fuzz_journal - recovers a file with the bytes as its journal. If they begin like a journal, the inode of
 * the file, the length and the CRC in them are corrected first. Then the file must be unchanged, or have
 * the old size that the journal holds. */
void fuzz_journal(const uint8_t *data, size_t size)
{
    unsigned char now[4096], all[4096 + 4];
    struct journal_options o = {.no_sync = true};
    ckpt_error err = {0};
    ckpt_recovered what = CKPT_RECOVERED_NOTHING;
    struct stat st;
    size = size > 4096 ? 4096 : size;
    memcpy(all, data, size);
    if (size >= 48 && all[0] == 'C') {
        write_le(all + 16, files.inode, 8);
        write_le(all + 40, size + 4, 8);
        write_le(all + size, crc32_update(0, all, size), 4);
        size += 4;
    }
    write_file(files.journal, all, size);
    check_reason(journal_recover(files.edited, &o, &what, &err), &err);
    int fd = open(files.edited, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        die(files.edited);
    ssize_t n = read(fd, now, sizeof now);
    bool same = n == EDITED && st.st_size == EDITED && memcmp(now, files.original, EDITED) == 0;
    bool undone = what == CKPT_RECOVERED_OLD;
    if (!same && !undone)
        exercise_abort("a refused journal changed the file");
    if (undone && (uint64_t)st.st_size != read_le(all + 24))
        exercise_abort("an undone edit left a wrong size");
    if (!same && (ftruncate(fd, 0) != 0 || pwrite(fd, files.original, EDITED, 0) != EDITED))
        die(files.edited);
    close(fd);
    unlink(files.journal);
}
/* ---------------------------------------------------------------------- mem */

/* make_small_llama - builds a LLaMA of one block, whose tensors have no bytes; later calls return it, too. */
static ckpt_file *make_small_llama(void)
{
    static const struct {
        const char *name;
        uint32_t ndim;
        uint64_t shape[2];
    } rows[] = {{"model.embed_tokens.weight", 2, {50, 32}},
                {"model.layers.0.input_layernorm.weight", 1, {32}},
                {"model.layers.0.self_attn.q_proj.weight", 2, {32, 32}},
                {"model.layers.0.self_attn.k_proj.weight", 2, {16, 32}},
                {"model.layers.0.self_attn.v_proj.weight", 2, {16, 32}},
                {"model.layers.0.self_attn.o_proj.weight", 2, {32, 32}},
                {"model.layers.0.post_attention_layernorm.weight", 1, {32}},
                {"model.layers.0.mlp.gate_proj.weight", 2, {64, 32}},
                {"model.layers.0.mlp.up_proj.weight", 2, {64, 32}},
                {"model.layers.0.mlp.down_proj.weight", 2, {32, 64}},
                {"model.norm.weight", 1, {32}},
                {"lm_head.weight", 2, {50, 32}}};
    static ckpt_file *made;
    ckpt_builder *b;
    if (made)
        return made;
    if (ckpt_builder_new("llama", &b, NULL) != CKPT_OK)
        abort();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ckpt_callbacks nowhere = {.struct_size = sizeof nowhere, .read_at = tensor_read_nothing};
        ckpt_builder_tensor t = CKPT_INIT(ckpt_builder_tensor);
        t.dtype = CKPT_DT_F32;
        t.ndim = rows[i].ndim;
        t.shape = rows[i].shape;
        nowhere.size = 4 * rows[i].shape[0] * (t.ndim > 1 ? rows[i].shape[1] : 1);
        t.callbacks = &nowhere;
        if (ckpt_builder_add_tensor(b, rows[i].name, &t, NULL) != CKPT_OK)
            abort();
    }
    if (ckpt_builder_finish(b, &made, NULL) != CKPT_OK)
        abort();
    return made;
}

/* check_plans - aborts if a plan needs more memory than a run without checkpointing, or than its limit. */
static void check_plans(ckpt_mem *m, ckpt_mem_run run)
{
    ckpt_error err;
    ckpt_mem_result all = CKPT_INIT(ckpt_mem_result), plan = CKPT_INIT(ckpt_mem_result);
    uint64_t largest;
    for (run.attention = CKPT_MEM_SDPA; run.attention <= CKPT_MEM_EAGER; run.attention++)
        for (run.precision = CKPT_MEM_AS_STORED; run.precision <= CKPT_MEM_FP16_MASTER; run.precision++) {
            ckpt_status st = ckpt_mem_estimate(m, &run, &all, &err);
            check_reason(st, &err);
            if (st != CKPT_OK)
                continue;
            if (ckpt_mem_plan(m, &run, 0, &plan, &err) != CKPT_OK || plan.total.bytes > all.total.bytes)
                abort();
            uint64_t limit = plan.total.bytes + (all.total.bytes - plan.total.bytes) / 2;
            if (ckpt_mem_plan(m, &run, limit, &plan, &err) != CKPT_OK || plan.total.bytes > limit ||
                (run.precision == CKPT_MEM_FP32 &&
                 ckpt_mem_largest_batch(m, &run, limit, &largest, &err) != CKPT_OK))
                abort();
        }
}

/* fuzz_mem - estimates memory with the bytes as config.json, for a LLaMA and without a checkpoint. */
void fuzz_mem(const uint8_t *data, size_t size)
{
    const ckpt_mem_options o = {.struct_size = sizeof o, .config = files.in};
    write_input(data, size);
    for (int alone = 0; alone < 2; alone++) {
        ckpt_error err;
        ckpt_mem *m;
        const ckpt_mem_run run = {.struct_size = sizeof run, .batch = 3, .seq = 5};
        ckpt_status st = ckpt_mem_new(alone ? NULL : make_small_llama(), &o, &m, &err);
        check_reason(st, &err);
        if (st == CKPT_OK)
            check_plans(m, run);
        ckpt_mem_free(st == CKPT_OK ? m : NULL);
    }
}
