/* Members of zip and tar archives as files in folders: names, folders, what is refused, what may be
 * unpacked. */
#include <stdlib.h>
#include <unistd.h>

#include "format/files/members.h"
#include "tarball.h"
#include "unit.h"
#include "zipped.h"

struct opened {
    buf bytes;
    source *src, *archive;
    arena *a;
    ckpt_error err;
};

static bool is_any(ckpt_str name) { return name.len > 0; }

/* open_archive - opens the archive in o->bytes as "x.tar". */
static void open_archive(struct opened *o, uint64_t max_unpacked)
{
    CU_ASSERT_FATAL(buf_ok(&o->bytes));
    o->a = arena_new(1 << 20);
    o->src = source_mem(o->bytes.data, o->bytes.len, 0);
    CU_ASSERT_FATAL(o->src && members_open(o->src, "x.tar", max_unpacked, &o->archive, &o->err) == CKPT_OK);
}

static void close_archive(struct opened *o)
{
    source_unref(o->archive);
    source_unref(o->src);
    arena_free(o->a);
    buf_free(&o->bytes);
}

/* open_tar - opens a tar of empty members: one for each of NAMES, which begin with their type. */
static struct opened open_tar(const char *const *names, size_t n)
{
    struct opened o = {.archive = NULL};
    buf_init(&o.bytes, 1 << 20);
    for (size_t i = 0; i < n; i++)
        tar_member(&o.bytes, names[i] + 1, names[i][0], str_c(names[i][0] == '0' ? names[i] : ""));
    tar_end(&o.bytes);
    open_archive(&o, 0);
    return o;
}

#define OPEN_TAR(names) open_tar(names, sizeof(names) / sizeof *(names))

/* has_content - returns true if PATH is a file that was the member TEXT of open_tar. */
static bool has_content(struct opened *o, const char *path, const char *text)
{
    source *src;
    char bytes[64] = "";
    bool same = members_open_file(o->archive, path, &src, &o->err) == CKPT_OK && src->size < sizeof bytes &&
                source_read(src, 0, bytes, (size_t)src->size, &o->err) == CKPT_OK && strcmp(bytes, text) == 0;
    source_unref(src);
    return same;
}

/* list - returns the names in the folder PATH, in the order of their bytes, separated by blanks. */
static const char *list(struct opened *o, const char *path)
{
    static char text[256];
    ckpt_str *names;
    size_t n, used = 0;
    text[0] = '\0';
    if (members_list(o->archive, path, o->a, is_any, &names, &n, &o->err) != CKPT_OK)
        return "none";
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", i ? " " : "", STR_ARG(names[i]));
    return text;
}

static void names_are_normalized(void)
{
    static const char *const names[] = {"5./",       "0./a",        "5./d/",       "0./d//b", "0d/./c",
                                        "0d/e/../f", "0/top",       "0d-g/h",      "0../out", "0d/../../out",
                                        "0d/e2/i",   "0d/e2/j/k/l", "0d/e2/../..", "0d/e3/"};
    struct opened o = OPEN_TAR(names);
    CU_ASSERT(has_content(&o, "x.tar!a", "0./a"));
    CU_ASSERT(has_content(&o, "x.tar!./d/b", "0./d//b"));
    CU_ASSERT(has_content(&o, "x.tar!d/b/../c", "0d/./c"));
    CU_ASSERT(has_content(&o, "x.tar!/top", "0/top"));
    CU_ASSERT(!has_content(&o, "x.tar!../out", "0../out"));
    CU_ASSERT(!has_content(&o, "x.tar!out", "0../out"));
    CU_ASSERT(!has_content(&o, "y.tar!a", "0./a"));
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!"), "a d d-g top");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!."), "a d d-g top");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!d"), "b c e2 e3 f");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!d/e2/"), "i j");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!d/e3"), "");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!d/e"), "none");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!a"), "none");
    CU_ASSERT(members_find(o.archive, "x.tar!d/e2/j") == MEMBER_FOLDER);
    CU_ASSERT(members_find(o.archive, "x.tar!d/e2/j/k/l") == MEMBER_FILE);
    CU_ASSERT(members_find(o.archive, "x.tar!d/e2/j/k/l/m") == MEMBER_NONE);
    CU_ASSERT(members_find(o.archive, "x.tar") == MEMBER_NONE);
    CU_ASSERT(members_folder_has(o.archive, "x.tar!d", "e*"));
    CU_ASSERT(!members_folder_has(o.archive, "x.tar!d", "i"));
    ckpt_str folder = members_folder_of(o.archive, "x.tar!d/b");
    ckpt_str top = members_folder_of(o.archive, "x.tar!a");
    CU_ASSERT(str_is(folder, "x.tar!d/") && str_is(top, "x.tar!"));
    close_archive(&o);
}

/* Which of two members counts, who unpacks them decides; and a link may lead anywhere. */
static void ambiguous_names_are_refused(void)
{
    static const char *const names[] = {"0d/a",  "0d/./a", "5e",   "5e/", "0e/a", "2l",  "0l/a",
                                        "1hard", "0f",     "0f/a", "2m",  "0m",   "3dev"};
    static const char *const refused[] = {"x.tar!d/a", "x.tar!l", "x.tar!l/a", "x.tar!hard",
                                          "x.tar!f/a", "x.tar!m", "x.tar!dev"};
    struct opened o = OPEN_TAR(names);
    source *src;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CU_ASSERT(members_find(o.archive, refused[i]) == MEMBER_OTHER);
        CU_ASSERT(members_open_file(o.archive, refused[i], &src, &o.err) == CKPT_EFORMAT && !src);
    }
    CU_ASSERT(has_content(&o, "x.tar!e/a", "0e/a"));
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!d"), "a");
    CU_ASSERT_STRING_EQUAL(list(&o, "x.tar!l"), "none");
    close_archive(&o);
}

/* put_deflated - makes a zip of two members "d/a" and "d/b", each "xxxxxxxx" deflated. */
static void put_deflated(buf *b)
{
    static const ckpt_str deflated = {"\xab\xa8\x80\x00\x00", 5};
    const struct member m[] = {{"d/a", deflated, 8, 0, 8, 0xa69254c9, false},
                               {"d/b", deflated, 8, 0, 8, 0xa69254c9, false}};
    buf_init(b, 1 << 20);
    zip_put(b, m, 2, 0);
}

static void unpacked_bytes_of_all_members_are_limited(void)
{
    struct opened o = {.archive = NULL};
    source *a = NULL, *b = NULL;
    put_deflated(&o.bytes);
    open_archive(&o, 15);
    CU_ASSERT(members_open_file(o.archive, "x.tar!d/a", &a, &o.err) == CKPT_OK && a && a->size == 8);
    CU_ASSERT(members_unpacked(o.archive) == 8);
    CU_ASSERT(members_open_file(o.archive, "x.tar!d/b", &b, &o.err) == CKPT_ELIMIT && !b);
    source_unref(a);
    close_archive(&o);
}

/* A member is still readable when its archive was closed. */
static void members_keep_their_archive(void)
{
    struct opened o = {.archive = NULL};
    source *a = NULL;
    char bytes[8] = "";
    put_deflated(&o.bytes);
    open_archive(&o, 8);
    CU_ASSERT_FATAL(members_open_file(o.archive, "x.tar!d/a", &a, &o.err) == CKPT_OK);
    CU_ASSERT(members_archive_of(a) == o.archive && members_archive_of(o.archive) == o.archive);
    CU_ASSERT(!members_archive_of(o.src) && !members_archive_of(NULL) && !members_is_archive(a));
    source_unref(o.archive);
    o.archive = NULL;
    CU_ASSERT(source_read(a, 0, bytes, 8, &o.err) == CKPT_OK && memcmp(bytes, "xxxxxxxx", 8) == 0);
    source_unref(a);
    close_archive(&o);
}

/* A change of the archive is one of its members, also of a range of one. */
static void a_changed_archive_is_noticed(void)
{
    static const char *const names[] = {"0d/a"};
    char path[] = "/tmp/ckpt-archive-XXXXXX";
    struct opened o = OPEN_TAR(names);
    source *file, *archive, *member = NULL;
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, o.bytes.data, o.bytes.len) == (ssize_t)o.bytes.len);
    CU_ASSERT_FATAL(source_file_open(path, &file, &o.err) == CKPT_OK);
    CU_ASSERT_FATAL(members_open(file, "x.tar", 0, &archive, &o.err) == CKPT_OK);
    CU_ASSERT_FATAL(members_open_file(archive, "x.tar!d/a", &member, &o.err) == CKPT_OK);
    CU_ASSERT(source_check_unchanged(member, &o.err) == CKPT_OK);
    CU_ASSERT(source_opened_stat(member) != NULL && source_opened_stat(archive) != NULL);
    CU_ASSERT(write(fd, "x", 1) == 1);
    CU_ASSERT(source_check_unchanged(member, &o.err) == CKPT_ECHANGED);
    CU_ASSERT(source_check_unchanged(archive, &o.err) == CKPT_ECHANGED);
    close(fd);
    unlink(path);
    source_unref(member);
    source_unref(archive);
    source_unref(file);
    close_archive(&o);
}

void suite_archive_members(void)
{
    UNIT(a_changed_archive_is_noticed);
    UNIT(names_are_normalized);
    UNIT(ambiguous_names_are_refused);
    UNIT(unpacked_bytes_of_all_members_are_limited);
    UNIT(members_keep_their_archive);
}
