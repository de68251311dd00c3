/* Each member of an archive and each file of a folder of the corpus is replaced by malformed texts, one at a
 * time: every function that opens a checkpoint must refuse the result, or read it. A member is replaced once
 * for each format and name. */
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../exercise.h"
#include "base/utf8.h"
#include "codec/zip.h"
#include "io/sink.h"
#include "unit.h"
#include "zipped.h"

#define MEMBER_MAX  16384u /* longer members are not replaced */
#define ARCHIVE_MAX (256u * 1024u)
#define PATH_SIZE   1200

static char folder[64];                  /* in which the damaged checkpoints are */
static char current_case[2 * PATH_SIZE]; /* printed if a signal ends the test */
static map *seen;                        /* "FORMAT NAME" of the members that were replaced */
static arena *keys;                      /* has the texts in `seen` */
static size_t nreplaced, nruns;

static void print_case(int signal_number)
{
    (void)!write(2, current_case, strlen(current_case));
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* --------------------------------------------------------------------- malformed texts */

#define TEXT(text) {text, sizeof text - 1}

static const ckpt_str malformed[] = {
    TEXT(""),
    TEXT(" "),
    TEXT("\n"),
    TEXT("{"),
    TEXT("}"),
    TEXT("["),
    TEXT("[]"),
    TEXT("{}"),
    TEXT("null"),
    TEXT("true"),
    TEXT("0"),
    TEXT("-1"),
    TEXT("1e999"),
    TEXT("99999999999999999999999999"),
    TEXT("\"text\""),
    TEXT("[[[[[[[["),
    TEXT("[null, {}, [], \"\", 0, 1.5, true]"),
    TEXT("{\"\": null, \"a\": {\"a\": []}, \"a\": 0}"),
    TEXT("a: &a [*a, *a]\n"),
    TEXT("a: !!python/name:builtins.print\n"),
    TEXT("%YAML 9.9\n--- |\n"),
    TEXT("a {\n  b: "),
    TEXT("\xff\xfe\xfd"),
    TEXT("a\0b"),
    TEXT("\x80\x02}q\x00."),
    TEXT("\x80\x02K\x01."),
    TEXT("\x80\x02N."),
    TEXT("\x80\x02]."),
    TEXT("\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    TEXT("\xff\xff\xff\xff\xff\xff\xff\x7f{}"),
};

static const ckpt_str wrong_values[] = {TEXT("null"), TEXT("[]"),   TEXT("{}"),       TEXT("\"\""),
                                        TEXT("-1"),   TEXT("1e30"), TEXT("[[null]]"), TEXT("4294967296")};

/* find_value_end - returns where the value of JSON at FROM in TEXT ends. */
static size_t find_value_end(ckpt_str text, size_t from)
{
    size_t depth = 0, i = from;
    bool quoted = false;
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if (quoted) {
            quoted = c != '"';
            i += c == '\\';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == ',' || c == '}' || c == ']') {
            if (depth == 0)
                return i;
            depth -= c != ',';
        }
    }
    return i < text.len ? i : text.len;
}

/* A way to run the checkpoint in which the member has the bytes TEXT. */
typedef void run_with(void *context, ckpt_str text);

/* try_wrong_values - calls RUN with TEXT, which is JSON, after each of its first values was replaced. */
static void try_wrong_values(ckpt_str text, run_with *run, void *context)
{
    buf changed;
    size_t nvalues = 0;
    for (size_t i = 0; i < text.len && nvalues < 40; i++) {
        if (text.ptr[i] != ':' && text.ptr[i] != '[')
            continue;
        size_t end = find_value_end(text, i + 1);
        ckpt_str wrong = wrong_values[nvalues++ % (sizeof wrong_values / sizeof *wrong_values)];
        buf_init(&changed, MEMBER_MAX * 2);
        buf_put(&changed, text.ptr, i + 1);
        buf_put_str(&changed, wrong);
        buf_put(&changed, text.ptr + end, text.len - end);
        run(context, buf_view(&changed));
        buf_free(&changed);
    }
}

/* try_texts - calls RUN with each malformed text, and with parts and changes of the true one. */
static void try_texts(ckpt_str text, run_with *run, void *context)
{
    buf deep;
    nreplaced++;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        run(context, malformed[i]);
    run(context, str_of(text.ptr, text.len / 2));
    run(context, str_of(text.ptr, text.len - 1));
    buf_init(&deep, 1 << 20);
    for (size_t i = 0; i < 50000; i++)
        buf_put_cstr(&deep, "[");
    run(context, buf_view(&deep));
    for (size_t i = 0; i < 50000; i++)
        ((char *)deep.data)[i] = i % 5 ? "\"a\":"[i % 5 - 1] : '{';
    run(context, buf_view(&deep));
    buf_free(&deep);
    if (utf8_check(text, false, NULL) && (text.ptr[0] == '{' || text.ptr[0] == '['))
        try_wrong_values(text, run, context);
}

/* ---------------------------------------------------------------------- opening a path */

static int ignore_record(void *user, const ckpt_finding *record)
{
    (void)user;
    (void)record;
    return 0;
}

static int ignore_diagnosis(void *user, const ckpt_diagnosis *diagnosis)
{
    (void)user;
    (void)diagnosis;
    return 0;
}

static int ignore_finding(void *user, const ckpt_scan_record *finding)
{
    (void)user;
    (void)finding;
    return 0;
}

/* check_status - if ST is a failure, checks that ERR describes it. */
static void check_status(ckpt_status st, const ckpt_error *err)
{
    if (st != CKPT_OK)
        exercise_check_error(st, err);
}

/* run_path - opens PATH by each function that opens a checkpoint, also without an error. */
static void run_path(const char *path)
{
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    ckpt_verify_result verified = CKPT_INIT(ckpt_verify_result);
    ckpt_doctor_result diagnosed = CKPT_INIT(ckpt_doctor_result);
    ckpt_scan_result scanned = CKPT_INIT(ckpt_scan_result);
    nruns++;
    ckpt_status st = ckpt_open(path, NULL, &f, &err);
    check_status(st, &err);
    if (st == CKPT_OK)
        exercise_file(f);
    ckpt_close(f);
    CU_ASSERT_EQUAL(ckpt_open(path, NULL, &f, NULL), st);
    ckpt_close(f);
    check_status(ckpt_salvage(path, NULL, &f, &err), &err);
    ckpt_close(f);
    check_status(ckpt_verify(path, NULL, ignore_record, NULL, &verified, &err), &err);
    check_status(ckpt_doctor(path, NULL, ignore_diagnosis, NULL, &diagnosed, &err), &err);
    check_status(ckpt_scan(path, NULL, ignore_finding, NULL, &scanned, &err), &err);
}

static bool write_bytes(const char *path, ckpt_str bytes)
{
    FILE *out = fopen(path, "wb");
    bool ok = out && fwrite(bytes.ptr, 1, bytes.len, out) == bytes.len;
    return out && fclose(out) == 0 && ok;
}

static ckpt_str get_base_name(ckpt_str path)
{
    size_t n = str_folder(path).len;
    return str_of(path.ptr + n, path.len - n);
}

/* is_new - notes that member NAME of a file of FORMAT is replaced; returns false if one of this name was. */
static bool is_new(const char *format, ckpt_str name)
{
    static char key[PATH_SIZE];
    uint32_t before = 0;
    ckpt_str base = get_base_name(name);
    int n = snprintf(key, sizeof key, "%s %.*s", format, (int)base.len, base.ptr);
    for (int i = 0; i < n; i++)
        key[i] = key[i] >= '0' && key[i] <= '9' ? '0' : key[i];
    ckpt_str kept = arena_str(keys, str_c(key));
    CU_ASSERT_FATAL(kept.ptr && map_put(seen, kept, 0, &before));
    return before == MAP_NONE;
}

/* ------------------------------------------------------------------ members of archives */

struct archive {
    const char *original; /* its path */
    char path[PATH_SIZE]; /* of the archive with the replaced member */
    struct member *members;
    size_t n, replaced;
};

static void run_archive(void *context, ckpt_str text)
{
    struct archive *archive = context;
    struct member *member = &archive->members[archive->replaced];
    const ckpt_str bytes = member->bytes;
    buf b;
    snprintf(current_case, sizeof current_case, "%s: member %s is %.60s\n", archive->original, member->name,
             text.ptr);
    buf_init(&b, ARCHIVE_MAX * 4);
    member->bytes = text;
    zip_put(&b, archive->members, archive->n, 0);
    member->bytes = bytes;
    CU_ASSERT(buf_ok(&b) && write_bytes(archive->path, buf_view(&b)));
    buf_free(&b);
    run_path(archive->path);
}

/* replace_members - replaces each member of Z, an archive of FORMAT at PATH. */
static void replace_members(zip *z, const char *path, const char *format)
{
    ckpt_error ignored;
    struct archive archive = {.original = path, .n = z->n};
    const char *suffix = strrchr(path, '.');
    snprintf(archive.path, sizeof archive.path, "%s/archive%s", folder, suffix ? suffix : "");
    archive.members = arena_array(z->a, z->n, sizeof *archive.members);
    for (size_t i = 0; i < z->n; i++) {
        struct member *m = &archive.members[i];
        m->name = z->entries[i].name.ptr; /* names in an arena are terminated */
        if (zip_load_member(z, i, ARCHIVE_MAX, &m->bytes, &ignored) != CKPT_OK)
            return;
    }
    for (size_t i = 0; i < z->n; i++) {
        archive.replaced = i;
        ckpt_str bytes = archive.members[i].bytes;
        if (bytes.len && bytes.len <= MEMBER_MAX && is_new(format, z->entries[i].name))
            try_texts(bytes, run_archive, &archive);
    }
    unlink(archive.path);
}

static void try_archive(const char *path, const char *format)
{
    ckpt_error ignored;
    source *src = NULL;
    zip *z = NULL;
    arena *a = arena_new(8 * ARCHIVE_MAX);
    if (source_file_open(path, &src, &ignored) == CKPT_OK && src->size <= ARCHIVE_MAX &&
        zip_open(src, a, &z, &ignored) == CKPT_OK)
        replace_members(z, path, format);
    zip_close(z);
    source_unref(src);
    arena_free(a);
}

/* -------------------------------------------------------------------- files of folders */

struct checkpoint {
    char copy[PATH_SIZE];     /* the path to open: a copy of the checkpoint */
    char replaced[PATH_SIZE]; /* the file in the copy */
};

static void run_checkpoint(void *context, ckpt_str text)
{
    const struct checkpoint *c = context;
    snprintf(current_case, sizeof current_case, "%s is %.60s\n", c->replaced, text.ptr);
    CU_ASSERT(write_bytes(c->replaced, text));
    run_path(c->copy);
}

/* read_small_file - sets *TEXT to the bytes of the file at PATH, on the heap; false: it is empty or long. */
static bool read_small_file(const char *path, ckpt_str *text)
{
    FILE *in = fopen(path, "rb");
    char *bytes = malloc(MEMBER_MAX + 2);
    size_t n = in && bytes ? fread(bytes, 1, MEMBER_MAX + 1, in) : 0;
    if (in)
        fclose(in);
    *text = str_of(bytes, n);
    if (n && n <= MEMBER_MAX)
        return true;
    free(bytes);
    return false;
}

/* replace_file - replaces the file at C->replaced, then restores it. */
static void replace_file(struct checkpoint *c, const char *format)
{
    ckpt_str text;
    if (!read_small_file(c->replaced, &text))
        return;
    if (is_new(format, str_c(c->replaced))) {
        try_texts(text, run_checkpoint, c);
        CU_ASSERT(write_bytes(c->replaced, text));
    }
    free((char *)text.ptr);
}

/* each_entry - calls TRY for each entry of the folder PATH. */
static void each_entry(const char *path, void (*try)(void *context, const char *entry), void *context)
{
    DIR *dir = opendir(path);
    char entry[PATH_SIZE];
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (snprintf(entry, sizeof entry, "%s/%s", path, e->d_name) < (int)sizeof entry)
            try(context, entry);
    }
    if (dir)
        closedir(dir);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

struct folder_job {
    struct checkpoint checkpoint;
    const char *format;
};

static void replace_entry(void *context, const char *entry)
{
    struct folder_job *job = context;
    if (is_folder(entry)) {
        each_entry(entry, replace_entry, job);
        return;
    }
    snprintf(job->checkpoint.replaced, sizeof job->checkpoint.replaced, "%s", entry);
    replace_file(&job->checkpoint, job->format);
}

static size_t copied_prefix; /* length of the path of the folder that is copied */

/* copy_entry - copies the entry PATH of a folder to the same place in the copy. */
static int copy_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
    char to[PATH_SIZE];
    (void)place;
    int n = snprintf(to, sizeof to, "%s/copy%s", folder, path + copied_prefix);
    if (type == FTW_D)
        return n < (int)sizeof to ? mkdir(to, 0700) : -1;
    FILE *in = st->st_size <= 4 * ARCHIVE_MAX ? fopen(path, "rb") : NULL, *out = in ? fopen(to, "wb") : NULL;
    for (int c; out && (c = getc(in)) != EOF;)
        putc(c, out);
    bool ok = out && fclose(out) == 0;
    if (in)
        fclose(in);
    return ok ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

/* copy_folder - replaces the copy by one of the folder FROM, and returns its path; NULL: FROM has long
 * files. */
static const char *copy_folder(const char *from)
{
    static char copy[PATH_SIZE];
    snprintf(copy, sizeof copy, "%s/copy", folder);
    (void)nftw(copy, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    copied_prefix = strlen(from);
    return nftw(from, copy_entry, 16, FTW_PHYS) == 0 ? copy : NULL;
}

static void try_folder(const char *path, const char *format)
{
    struct folder_job job = {.format = format};
    const char *copy = copy_folder(path);
    if (!copy)
        return;
    snprintf(job.checkpoint.copy, sizeof job.checkpoint.copy, "%s", copy);
    each_entry(copy, replace_entry, &job);
}

/* try_companion - replaces the file at PATH, such as an index, which is opened in its folder. */
static void try_companion(const char *path, const char *format)
{
    struct checkpoint c;
    char parent[PATH_SIZE];
    ckpt_str text, name = get_base_name(str_c(path));
    if (!read_small_file(path, &text))
        return;
    bool is_text = utf8_check(text, false, NULL);
    free((char *)text.ptr);
    snprintf(parent, sizeof parent, "%.*s", (int)(strlen(path) - name.len), path);
    const char *copy = is_text ? copy_folder(parent) : NULL;
    if (!copy)
        return;
    snprintf(c.copy, sizeof c.copy, "%s/%s", copy, name.ptr);
    snprintf(c.replaced, sizeof c.replaced, "%s", c.copy);
    replace_file(&c, format);
}

/* -------------------------------------------------------------------------- the corpus */

static void try_path(void *context, const char *path)
{
    ckpt_file *f = NULL;
    char format[64];
    (void)context;
    bool opens = ckpt_open(path, NULL, &f, NULL) == CKPT_OK;
    snprintf(format, sizeof format, "%s", ckpt_file_format(f));
    ckpt_close(f);
    if (opens && !is_folder(path)) {
        try_archive(path, format);
        try_companion(path, format);
    } else if (opens) {
        try_folder(path, format);
    }
    if (is_folder(path))
        each_entry(path, try_path, NULL);
}

static void every_member_may_be_malformed(void)
{
    snprintf(folder, sizeof folder, "/tmp/unit-members-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL && (seen = map_new(0)) && (keys = arena_new(1 << 20)));
    signal(SIGSEGV, print_case);
    signal(SIGABRT, print_case);
    try_path(NULL, unit_corpus_path(""));
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    printf("[%zu members, %zu runs] ", nreplaced, nruns);
    CU_ASSERT(nreplaced >= 100);
    CU_ASSERT_EQUAL(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    map_free(seen);
    arena_free(keys);
}

void suite_members(void) { UNIT(every_member_may_be_malformed); }
