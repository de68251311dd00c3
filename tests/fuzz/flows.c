/*
 * flows.c - fuzz targets for complete operations, such as to write a file and read it back. They check that a
 * written file has the same tensors, that a patched file can be read, and that each refusal has a reason.
 * Files are in a temporary folder.
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
#include "format/files/path.h"
#include "op/lora_config.h"
#include "format/registry.h"
#include "io/journal.h"
#include "op/weights_only.h"

#define EDITED_SIZE 1500u /* bytes of the file files.edited, which undo journals restore */

static struct {
    char folder[200];
    char in[256], out_pt[256], out_st[256], out_flax[256], out_dcp[256], ranks[256];
    char index[256], shard[256], edited[256], journal[280];
    int in_fd;
    pid_t owner;    /* the process that removes the folder when it ends; its children do not */
    uint64_t inode; /* of files.edited */
    unsigned char original[EDITED_SIZE]; /* the content of files.edited */
    ckpt_file *file;                     /* the file `shard`, opened */
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

/* write_shard - writes a safetensors file of HEADER, less than 256 bytes, and of N zero bytes of data. */
static void write_shard(const char *path, const char *header, size_t n)
{
    char file[512] = {0};
    size_t header_length = strlen(header);
    file[0] = (char)header_length;
    memcpy(file + 8, header, header_length);
    write_file(path, file, 8 + header_length + n);
}

/* format_path - writes the path of the file NAME in files.folder to OUT. */
static void format_path(char *out, size_t cap, const char *name)
{
    if ((size_t)snprintf(out, cap, "%s/%s", files.folder, name) >= cap)
        die("FUZZ_FOLDER");
}

/* remove_folder - removes the folder PATH, if it exists, and returns whether it is gone. */
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
        format_path(path, sizeof path, names[i]);
        unlink(path);
    }
    rmdir(files.folder);
}

void make_target_files(void)
{
    const char *parent = getenv("FUZZ_FOLDER");
    char path[256];
    struct stat st;
    snprintf(files.folder, sizeof files.folder, "%s/ckpt-fuzz-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(files.folder))
        die(files.folder);
    format_path(files.in, sizeof files.in, "in");
    format_path(files.out_pt, sizeof files.out_pt, "out.pt");
    format_path(files.out_st, sizeof files.out_st, "out.safetensors");
    format_path(files.out_flax, sizeof files.out_flax, "out.msgpack");
    format_path(files.out_dcp, sizeof files.out_dcp, "out.dcp");
    format_path(files.ranks, sizeof files.ranks, "ranks");
    format_path(files.index, sizeof files.index, "model.safetensors.index.json");
    format_path(files.shard, sizeof files.shard, "a.safetensors");
    format_path(files.edited, sizeof files.edited, "edited");
    format_path(files.journal, sizeof files.journal, "edited" JOURNAL_SUFFIX);
    write_shard(files.shard,
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                "\"b.weight\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                11);
    format_path(path, sizeof path, "b.safetensors");
    write_shard(path, "{\"c\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 8);
    for (size_t i = 0; i < EDITED_SIZE; i++)
        files.original[i] = (unsigned char)(i * 7 + i / 256);
    write_file(files.edited, files.original, EDITED_SIZE);
    files.in_fd = open(files.in, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (files.in_fd < 0 || stat(files.edited, &st) != 0 ||
        ckpt_open(files.shard, NULL, &files.file, NULL) != CKPT_OK)
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

/* compute_digest - computes the digest of row ROW; returns false if the row is too large or cannot be
 * read. */
static bool compute_digest(ckpt_file *file, uint32_t row, uint8_t digest[CKPT_DIGEST_MAX])
{
    const ckpt_tensor t = tensor_at(file, row);
    return t.has_data && t.nbytes <= EXERCISE_BYTES_MAX &&
           ckpt_digest_tensor(file, row, CKPT_XXH3, digest, NULL) == CKPT_OK;
}

/* check_tensors - aborts if a tensor of BACK and the tensor of the same name in FILE have different bytes. */
static void check_tensors(ckpt_file *file, ckpt_file *back)
{
    for (uint32_t i = 0; i < ckpt_tensor_count(back) && i < 64; i++) {
        uint32_t row = ckpt_tensor_find(file, ckpt_tensor_name(back, i));
        uint8_t digest[CKPT_DIGEST_MAX] = {0}, expected[CKPT_DIGEST_MAX] = {0};
        if (row == CKPT_NO_TENSOR || ckpt_tensor_find(back, ckpt_tensor_name(back, i)) != i)
            continue;
        if (compute_digest(back, i, digest) && compute_digest(file, row, expected) &&
            memcmp(digest, expected, sizeof digest) != 0)
            exercise_abort("a tensor was written with different bytes");
    }
}

/* write_and_reopen - writes PLAN to PATH and opens that file. Returns NULL if the plan could not be
 * written. */
static ckpt_file *write_and_reopen(ckpt_plan *plan, const char *path)
{
    ckpt_error err = {0};
    ckpt_write_options opts = {.struct_size = sizeof opts, .force = true, .no_sync = true, .threads = 1};
    ckpt_write_result written = CKPT_INIT(ckpt_write_result);
    ckpt_file *back = NULL;
    ckpt_status st = ckpt_plan_write(plan, path, &opts, &written, &err);
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
    if (written.tensors > ckpt_tensor_count(back))
        exercise_abort("the written file has too few tensors");
    return back;
}

/* What happens to the tensors before they are written. */
enum change { UNCHANGED, CAST, DEQUANTIZED };

static ckpt_status change_tensors(ckpt_plan *p, enum change change, ckpt_error *err)
{
    switch (change) {
    case CAST: return ckpt_plan_cast(p, NULL, CKPT_DT_BF16, err);
    case DEQUANTIZED: return ckpt_plan_dequantize(p, err);
    default: return CKPT_OK;
    }
}

/* write_outputs - writes F, changed by CHANGE, to each path of OUTPUTS, a list that NULL ends, and opens the
 * written file. Tensors that are not changed must equal F's. */
static void write_outputs(ckpt_file *f, enum change change, const char *const *outputs)
{
    ckpt_file *back;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK)
        st = change_tensors(p, change, &err);
    check_reason(st, &err);
    for (; st == CKPT_OK && *outputs; outputs++)
        if ((back = write_and_reopen(p, *outputs))) {
            if (change == UNCHANGED)
                check_tensors(f, back);
            ckpt_close(back);
        }
    ckpt_plan_free(p);
}

static void fuzz_write_as(const uint8_t *data, size_t size, enum change change)
{
    const char *const outputs[] = {files.out_pt, files.out_st, files.out_flax, NULL};
    ckpt_file *f = NULL;
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    write_outputs(f, change, outputs);
    ckpt_close(f);
}

void fuzz_cast(const uint8_t *data, size_t size) { fuzz_write_as(data, size, CAST); }
void fuzz_dequantize(const uint8_t *data, size_t size) { fuzz_write_as(data, size, DEQUANTIZED); }
void fuzz_round_trip(const uint8_t *data, size_t size) { fuzz_write_as(data, size, UNCHANGED); }

/* fuzz_sanitize - checks that torch.load(weights_only=True) would accept the sanitized file. */
void fuzz_sanitize(const uint8_t *data, size_t size)
{
    ckpt_file *f = NULL, *back = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    struct weights_only loading;
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK)
        st = ckpt_plan_sanitize(p, "torch-zip", &err);
    check_reason(st, &err);
    if (st == CKPT_OK && (back = write_and_reopen(p, files.out_pt))) {
        check_tensors(f, back);
        st = weights_only_check(back, back->a, &loading, &err);
        check_reason(st, &err);
        if (st == CKPT_OK && loading.verdict != 1)
            exercise_abort("torch.load(weights_only=True) would refuse the sanitized file");
        ckpt_close(back);
    }
    ckpt_plan_free(p);
    ckpt_close(f);
}

/* has_planned_tensors - returns whether F holds the tensors of the plan's file under the names that the plan
 * P gives them. */
static bool has_planned_tensors(const ckpt_plan *p, ckpt_file *f)
{
    bool same = f->table.nrows == p->nentries && f->table.nstorages == p->file->table.nstorages;
    for (uint32_t i = 0; same && i < f->table.nrows; i++) {
        const ckpt_tensor a = table_tensor(&p->file->table, p->entries[i].row);
        const ckpt_tensor b = table_tensor(&f->table, i);
        same = str_eq(b.name, p->entries[i].name) && a.dtype == b.dtype && a.kind == b.kind &&
               a.nbytes == b.nbytes && a.storage == b.storage && a.storage_offset == b.storage_offset;
    }
    return same;
}

/* get_planned_name - sets *NAME to the name that the plan USER gives to entry I of the mapping V. Returns
 * false if the plan drops the entry. */
static bool get_planned_name(void *user, const ckpt_value *v, uint32_t i, ckpt_str *name)
{
    const struct edit *edit = plan_find_edit(user, v);
    if (!edit || i >= edit->n)
        return true;
    *name = edit->names[i];
    return !edit->dropped[i];
}

/* has_planned_graph - returns whether the pickle written from the graph of F equals the pickle written from
 * the graph of the plan P with its edits. */
static bool has_planned_graph(const ckpt_plan *p, const ckpt_file *f)
{
    struct pickle_hooks edited = {.user = (void *)(uintptr_t)p, .keep_entry = get_planned_name};
    buf planned, found;
    ckpt_error ignored;
    buf_init(&planned, 64u << 20);
    buf_init(&found, 64u << 20);
    ckpt_status planned_status = pickle_write(p->root, &edited, &planned, &ignored);
    ckpt_status found_status = pickle_write(f->root, NULL, &found, &ignored);
    bool same = planned_status == found_status;
    if (same && planned_status == CKPT_OK)
        same = str_eq(buf_view(&planned), buf_view(&found));
    if (planned_status == CKPT_ENOMEM || found_status == CKPT_ENOMEM)
        same = true; /* not known: each_call.c makes an allocation fail */
    buf_free(&planned);
    buf_free(&found);
    return same;
}

/* check_patches - aborts unless the patches are in order and inside the file. */
static void check_patches(const struct patches *patches)
{
    uint64_t previous_end = 0;
    for (size_t i = 0; i < patches->n; i++) {
        uint64_t begin = patches->patch[i].offset, length = patches->patch[i].bytes.len;
        if (begin < previous_end)
            exercise_abort("patches overlap");
        if (begin > patches->new_size || length > patches->new_size - begin)
            exercise_abort("a patch exceeds the file");
        previous_end = begin + length;
    }
}

/* fuzz_in_place - renames tensors in place: strips prefixes, or if there are none, shortens each name by two
 * characters or adds a prefix. Checks the patches, and that the patched file can be read. */
void fuzz_in_place(const uint8_t *data, size_t size)
{
    ckpt_file *f = NULL, *edited = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    struct patches patches = {0};
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK && (st = ckpt_plan_strip_auto(p, &err)) == CKPT_OK && ckpt_plan_rename_count(p) == 0)
        st = size % 4 ? ckpt_plan_rename_regex(p, "^(.)..=>\\1", &err) : ckpt_plan_add(p, "f.", &err);
    if (st == CKPT_OK)
        st = plan_update_entries(p, &err);
    check_reason(st, &err);
    if (st == CKPT_OK && f->src && f->format->in_place && p->renames.n) {
        st = f->format->in_place(p, &patches, &err);
        check_reason(st, &err);
        if (st == CKPT_OK)
            check_patches(&patches);
        source *patched = st == CKPT_OK ? source_patched(f->src, &patches) : NULL;
        const struct opening o = {.path = "fuzz", .src = patched, .only = f->format};
        if (patched && (st = format_open(&o, &edited, &err)) == CKPT_OK)
            for (uint32_t i = 0; i < ckpt_tensor_count(edited) && i < 64; i++)
                exercise_read_row(edited, i);
        check_reason(st, &err);
        if (st == CKPT_OK && edited && has_planned_tensors(p, edited) && !has_planned_graph(p, edited))
            exercise_abort("an edit in place reads back as a different graph");
    }
    ckpt_close(st == CKPT_OK ? edited : NULL);
    ckpt_plan_free(p);
    ckpt_close(f);
}

/* ------------------------------------------------------------- damaged files */

static int check_finding(void *user, const ckpt_finding *f)
{
    (void)user;
    if (!f->id || !ckpt_finding_text(f->id))
        exercise_abort("a finding has an unknown id");
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
        exercise_abort("a diagnosis has no id or no text");
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

/* make_folders - makes the folders below files.ranks in which the file PATH is to be. */
static void make_folders(char *path)
{
    for (char *slash = path + strlen(files.ranks) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

/* unpack_file - writes the member ENTRY of the tar DATA to a file. If the member is a zip archive, corrects
 * its CRCs. */
static void unpack_file(const uint8_t *data, const struct tar_entry *entry)
{
    char path[512];
    int path_length = snprintf(path, sizeof path, "%s/%.*s", files.ranks, STR_ARG(entry->name));
    bool is_file = entry->type == '0' && !path_is_unsafe(entry->name);
    uint8_t *copy = malloc(entry->size + 1);
    if (copy && is_file && (size_t)path_length < sizeof path) {
        memcpy(copy, data + entry->data, entry->size);
        (void)zipcrc_fix(copy, entry->size);
        make_folders(path);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd >= 0) /* else the tar has a file and a folder of this name */
            (void)(write(fd, copy, entry->size) | close(fd));
    }
    free(copy);
}

/* unpack_tar - replaces the content of the folder files.ranks by the files of the tar DATA; returns whether
 * DATA is a tar. */
static bool unpack_tar(const uint8_t *data, size_t size)
{
    ckpt_error ignored;
    arena *a = arena_new(1 << 20);
    source *src = source_mem(data, size, 0);
    struct tar_entry *entries;
    size_t nentries = 0;
    bool unpacked = a && src && remove_folder(files.ranks) && mkdir(files.ranks, 0700) == 0 &&
                    tar_list(src, a, true, &entries, &nentries, &ignored) == CKPT_OK;
    for (size_t i = 0; unpacked && i < nentries && i < 64; i++)
        unpack_file(data, &entries[i]);
    source_unref(src);
    arena_free(a);
    return unpacked;
}

/* check_folder_error - aborts unless ERR names the folder files.ranks or a file in it, and has all fields
 * that exercise_check_refusal() requires. */
static void check_folder_error(const ckpt_error *err)
{
    struct stat st;
    bool is_file = stat(err->file, &st) == 0 && S_ISREG(st.st_mode);
    bool needs_offset = err->offset != CKPT_NO_OFFSET || !err->where[0];
    if (strncmp(err->file, files.ranks, strlen(files.ranks)) != 0) {
        fprintf(stderr, "%s: %s\n", err->file, err->what);
        exercise_abort("an error names a file outside of the folder");
    }
    exercise_check_refusal(err, err->file, is_file && needs_offset ? (size_t)st.st_size : SIZE_MAX);
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
        write_outputs(f, UNCHANGED, outputs);
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

/* fuzz_index - opens the bytes as the index of a set of shards; a.safetensors and b.safetensors exist. */
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

/* fuzz_manifest - verifies a file with the bytes as its manifest. */
void fuzz_manifest(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_verify_options o = {.struct_size = sizeof o, .manifest = files.in, .how = &one_thread};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    write_input(data, size);
    check_reason(ckpt_verify(files.shard, &o, check_finding, NULL, &r, &err), &err);
}

/* fuzz_map - renames the tensors "a" and "b.weight" with the bytes as the map of names. */
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
            exercise_abort("a tensor that does not exist was renamed");
    }
    ckpt_plan_free(p);
}

/* has_small_results - returns true if P has no tensor of more than 1,000 elements. */
static bool has_small_results(const ckpt_plan *p)
{
    const ckpt_edited *tensor;
    for (size_t i = 0; (tensor = ckpt_plan_edited_at(p, i)); i++)
        for (uint64_t k = 0, elements = 1; k < tensor->ndim; k++)
            if (tensor->shape[k] > 1000 || (elements *= tensor->shape[k]) > 1000)
                return false;
    return true;
}

/* check_edited - writes what P makes, with the tensors that were edited, to memory. */
static void check_edited(ckpt_plan *p)
{
    ckpt_error err = {0};
    const ckpt_write_options opts = {.struct_size = sizeof opts, .format = "safetensors"};
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    void *bytes = NULL;
    size_t size;
    check_reason(ckpt_plan_write_memory(p, &opts, &bytes, &size, &result, &err), &err);
    ckpt_free(bytes);
}

/* opens_files - returns true if RULES might read a device or standard input. */
static bool opens_files(const char *rules) { return strstr(rules, "set") && strpbrk(rules, "/-"); }

/* fuzz_rules - edits the tensors "a" and "b.weight" by the bytes as rules. */
void fuzz_rules(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_file *file = NULL;
    ckpt_plan *p = NULL;
    char *rules = malloc(size + 1);
    if (!rules)
        return;
    memcpy(rules, data, size);
    rules[size] = '\0';
    const ckpt_parameter n = {.name = {"n", 1}, .value = 2};
    const ckpt_edit_options opts = {.struct_size = sizeof opts, .parameters = &n, .nparameters = 1};
    ckpt_status st = opens_files(rules) ? CKPT_EUSAGE : ckpt_open(files.shard, NULL, &file, &err);
    if (file && st == CKPT_OK)
        st = ckpt_plan_new(file, &p, &err);
    if (p && st == CKPT_OK)
        st = ckpt_plan_edit(p, rules, &opts, &err);
    if (file)
        check_reason(st, &err);
    if (p && st == CKPT_OK && has_small_results(p))
        check_edited(p);
    ckpt_plan_free(p);
    ckpt_close(file);
    free(rules);
}

/* open_names - opens the text DATA as a list of names; NULL: it is none. */
static ckpt_file *open_names(const uint8_t *data, size_t size)
{
    const ckpt_open_options o = {.struct_size = sizeof o, .names = 1, .data = data, .size = size};
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    check_reason(ckpt_open_with("fuzz", &o, &f, &err), &err);
    return f;
}

/* fuzz_match - matches two texts of names, which a NUL separates. The certain rules must be accepted, and no
 * name that is wanted may be lost by them. */
void fuzz_match(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    ckpt_match *match = NULL;
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    if (!end)
        return;
    size_t first = (size_t)(end - data);
    ckpt_file *wanted = open_names(data, first), *file = open_names(end + 1, size - first - 1);
    if (wanted && file) {
        ckpt_status st = ckpt_match_new(wanted, file, NULL, &match, &err);
        check_reason(st, &err);
        uint64_t same = st == CKPT_OK ? ckpt_match_count(match)->same : 0;
        if (st == CKPT_OK && (st = ckpt_match_apply(match, &err)) != CKPT_OK && !is_environment_error(&err))
            exercise_abort("edit refuses what match proposes");
        if (st == CKPT_OK && ckpt_match_count(match)->same < same)
            exercise_abort("the rules of match lose a name");
    }
    ckpt_match_free(match);
    ckpt_close(file);
    ckpt_close(wanted);
}

/* fuzz_lora - reads the bytes as the adapter_config.json of LoRA, and looks up some modules. */
void fuzz_lora(const uint8_t *data, size_t size)
{
    static const char *const modules[] = {"", "fc", "model.layers.0.self_attn.q_proj", "a.b.c"};
    ckpt_error err = {0};
    struct lora_config config = {.rank = 0};
    struct lora_setting setting;
    arena *a = arena_new(16u << 20);
    if (!a)
        return;
    ckpt_status st = lora_config_read(str_of((const char *)data, size), str_of("", 0), a, &config, &err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < sizeof modules / sizeof *modules; i++) {
        st = lora_config_find(&config, str_c(modules[i]), &setting, &err);
        check_reason(st, &err);
        (void)lora_config_saves(&config, str_c(modules[i]));
    }
    lora_config_free(&config);
    arena_free(a);
}

/* write_le - writes NUMBER as N bytes, little-endian. */
static void write_le(unsigned char *out, uint64_t number, size_t n)
{
    for (size_t i = 0; i < n; i++, number >>= 8)
        out[i] = (unsigned char)number;
}

/* read_le - reads 8 bytes, little-endian. */
static uint64_t read_le(const unsigned char *bytes)
{
    uint64_t number = 0;
    for (size_t i = 8; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

/* Offsets of fields in an undo journal, and the size of its header; see io/journal_bytes.c. */
enum { JOURNAL_INODE = 16, JOURNAL_OLD_SIZE = 24, JOURNAL_LENGTH = 40, JOURNAL_HEADER = 48 };

/* fuzz_journal - recovers files.edited with the bytes as its journal. If the bytes begin like a journal, the
 * inode, the length and the CRC in them are corrected first. After the recovery, the file must be unchanged,
 * or have the old size that the journal holds. */
void fuzz_journal(const uint8_t *data, size_t size)
{
    unsigned char now[4096], journal[4096 + 4]; /* 4: the CRC */
    struct journal_options o = {.no_sync = true};
    ckpt_error err = {0};
    ckpt_recovered recovered = CKPT_RECOVERED_NOTHING;
    struct stat st;
    size = size > 4096 ? 4096 : size;
    memcpy(journal, data, size);
    if (size >= JOURNAL_HEADER && journal[0] == 'C') {
        write_le(journal + JOURNAL_INODE, files.inode, 8);
        write_le(journal + JOURNAL_LENGTH, size + 4, 8);
        write_le(journal + size, crc32_update(0, journal, size), 4);
        size += 4;
    }
    write_file(files.journal, journal, size);
    check_reason(journal_recover(files.edited, &o, &recovered, &err), &err);
    int fd = open(files.edited, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        die(files.edited);
    ssize_t n = read(fd, now, sizeof now);
    bool same = n == EDITED_SIZE && st.st_size == EDITED_SIZE &&
                memcmp(now, files.original, EDITED_SIZE) == 0;
    bool undone = recovered == CKPT_RECOVERED_OLD;
    if (!same && !undone)
        exercise_abort("a journal changed the file, but is reported as not applied");
    if (undone && (uint64_t)st.st_size != read_le(journal + JOURNAL_OLD_SIZE))
        exercise_abort("the file has a wrong size after its edit was undone");
    if (!same && (ftruncate(fd, 0) != 0 || pwrite(fd, files.original, EDITED_SIZE, 0) != EDITED_SIZE))
        die(files.edited);
    close(fd);
    unlink(files.journal);
}
/* ---------------------------------------------------------------------- mem */

/* make_small_llama - returns a LLaMA of one block, whose tensors have no bytes; the first call builds it. */
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
    static ckpt_file *llama;
    ckpt_builder *b;
    if (llama)
        return llama;
    if (ckpt_builder_new("llama", &b, NULL) != CKPT_OK)
        abort();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ckpt_callbacks no_bytes = {.struct_size = sizeof no_bytes, .read_at = tensor_read_nothing};
        ckpt_builder_tensor t = CKPT_INIT(ckpt_builder_tensor);
        t.dtype = CKPT_DT_F32;
        t.ndim = rows[i].ndim;
        t.shape = rows[i].shape;
        no_bytes.size = 4 * rows[i].shape[0] * (t.ndim > 1 ? rows[i].shape[1] : 1);
        t.callbacks = &no_bytes;
        if (ckpt_builder_add_tensor(b, rows[i].name, &t, NULL) != CKPT_OK)
            abort();
    }
    if (ckpt_builder_finish(b, &llama, NULL) != CKPT_OK)
        abort();
    return llama;
}

/* check_plans - aborts if a plan of activation checkpointing needs more memory than the run without it, or
 * more than the limit for which the plan was made. */
static void check_plans(ckpt_mem *m, ckpt_mem_run run)
{
    ckpt_error err;
    ckpt_mem_result estimate = CKPT_INIT(ckpt_mem_result), plan = CKPT_INIT(ckpt_mem_result);
    uint64_t largest_batch;
    for (run.attention = CKPT_MEM_SDPA; run.attention <= CKPT_MEM_EAGER; run.attention++)
        for (run.precision = CKPT_MEM_AS_STORED; run.precision <= CKPT_MEM_FP16_MASTER; run.precision++) {
            ckpt_status st = ckpt_mem_estimate(m, &run, &estimate, &err);
            check_reason(st, &err);
            if (st != CKPT_OK)
                continue;
            if (ckpt_mem_plan(m, &run, 0, &plan, &err) != CKPT_OK || plan.total.bytes > estimate.total.bytes)
                abort();
            uint64_t limit = plan.total.bytes + (estimate.total.bytes - plan.total.bytes) / 2;
            if (ckpt_mem_plan(m, &run, limit, &plan, &err) != CKPT_OK || plan.total.bytes > limit ||
                (run.precision == CKPT_MEM_FP32 &&
                 ckpt_mem_largest_batch(m, &run, limit, &largest_batch, &err) != CKPT_OK))
                abort();
        }
}

/* fuzz_mem - estimates memory with the bytes as config.json: for a small LLaMA, then without a checkpoint. */
void fuzz_mem(const uint8_t *data, size_t size)
{
    const ckpt_mem_options o = {.struct_size = sizeof o, .config = files.in};
    write_input(data, size);
    for (int without_checkpoint = 0; without_checkpoint < 2; without_checkpoint++) {
        ckpt_error err;
        ckpt_mem *m;
        const ckpt_mem_run run = {.struct_size = sizeof run, .batch = 3, .seq = 5};
        ckpt_status st = ckpt_mem_new(without_checkpoint ? NULL : make_small_llama(), &o, &m, &err);
        check_reason(st, &err);
        if (st == CKPT_OK)
            check_plans(m, run);
        ckpt_mem_free(st == CKPT_OK ? m : NULL);
    }
}
