/* members.c - see members.h. Stored members are ranges of the archive. Deflated ones are unpacked when they
 * are opened: the first MAX_IN_MEMORY bytes into memory, all others into one temporary file.
 *
 * Refused: a name that two members have, when it is opened; links, which are not followed; a file in a folder
 * that is a link or a file. Otherwise an unpacked archive could have different bytes at that path. */
#include "format/files/members.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec/tar.h"
#include "format/recognize.h"
#include "io/fd.h"
#include "io/spool.h"

#define MAX_INDEX     (UINT64_C(1) << 28) /* bytes of the list of members */
#define MAX_IN_MEMORY (UINT64_C(1) << 20)

struct member {
    ckpt_str name; /* normalized */
    size_t entry;  /* index in the archive */
    enum member_kind kind;
};

/* An archive and its members. */
struct archive_source {
    source as_source; /* must be first */
    source *bytes;
    arena *a;
    ckpt_str prefix; /* FILE! */
    zip *z;          /* NULL: a tar */
    struct tar_entry *tar;
    struct member *members; /* sorted by name */
    size_t n;
    size_t *files; /* the indexes of the members that are regular files */
    size_t nfiles;
    uint64_t in_memory, in_file, max_unpacked; /* bytes of members that were unpacked, and may be in all */
    int fd;                                    /* the temporary file; -1: none */
    bool skips_check;                          /* see members_skip_check */
    pthread_mutex_t lock;                      /* protects the fields below */
    source **unchecked; /* the stored members that were opened and not yet compared, see archive_check */
    size_t nunchecked, cap_unchecked;
    bool is_checked; /* archive_check was called: members are compared when they are opened */
};

/* A member as a source of its own: FILE!MEMBER is named, so offsets are in the member. */
struct member_source {
    source as_source; /* must be first */
    source *bytes;
    source *archive;
};

/* ------------------------------------------------------------------------ sources */

static ckpt_status member_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    return source_read(((struct member_source *)src)->bytes, off, out, nbytes, err);
}

static void member_close(source *src)
{
    source_unref(((struct member_source *)src)->bytes);
    source_unref(((struct member_source *)src)->archive);
    free(src);
}

static void member_advise(source *src) { source_advise_sequential(((struct member_source *)src)->bytes); }

static void member_watch(source *src, struct source_watch *watch)
{
    source_watch(((struct member_source *)src)->bytes, watch);
}

static void member_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    source_will_read(((struct member_source *)src)->bytes, off, nbytes);
}

static bool member_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    return source_extent(((struct member_source *)src)->bytes, off, fd, at);
}

static ckpt_status member_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    /* any length would do: source_map has checked the range */
    return source_map(((struct member_source *)src)->bytes, off, 1, out, err);
}

static source *member_origin(const source *src) { return ((const struct member_source *)src)->archive; }

static const struct source_ops member_ops = {.read_at = member_read,
                                             .close = member_close,
                                             .advise_sequential = member_advise,
                                             .will_read = member_will_read,
                                             .watch = member_watch,
                                             .extent = member_extent,
                                             .map = member_map,
                                             .origin = member_origin};

static void archive_close(source *src)
{
    struct archive_source *c = (struct archive_source *)src;
    zip_close(c->z);
    source_unref(c->bytes);
    arena_free(c->a);
    if (c->fd >= 0)
        (void)close(c->fd);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static ckpt_status archive_check(source *src, ckpt_error *err)
{
    struct archive_source *c = (struct archive_source *)src;
    ckpt_status st = CKPT_OK;
    pthread_mutex_lock(&c->lock);
    c->is_checked = true;
    while (c->nunchecked && (st = source_check(c->unchecked[c->nunchecked - 1], err)) == CKPT_OK)
        c->nunchecked--;
    pthread_mutex_unlock(&c->lock);
    if (st == CKPT_ECHECKSUM)
        err->offset = CKPT_NO_OFFSET; /* it counts in the archive, not in the member */
    return st;
}

static source *archive_origin(const source *src) { return ((const struct archive_source *)src)->bytes; }

static const struct source_ops archive_ops;

/* has_members - returns true if members_open made SRC, not a server. */
static bool has_members(const source *src) { return src->ops == &archive_ops; }

bool members_is_archive(const source *src) { return src && src->ops->open_file; }

source *members_archive_of(source *src)
{
    if (src && src->ops == &member_ops)
        return ((struct member_source *)src)->archive;
    return members_is_archive(src) ? src : NULL;
}

/* ------------------------------------------------------------------------- names */

/* take_word - removes the first component of *NAME, and the slash after it, and returns it. */
static ckpt_str take_word(ckpt_str *name)
{
    ckpt_str word = str_first(*name, str_find(*name, STR_LIT("/"), 0));
    *name = str_skip(*name, word.len + 1);
    return word;
}

static bool is_normal(ckpt_str name)
{
    bool normal = !str_ends(name, STR_LIT("/"));
    while (normal && name.len) {
        ckpt_str word = take_word(&name);
        normal = word.len && !str_is(word, ".") && !str_is(word, "..");
    }
    return normal;
}

/* normalize - sets *OUT to NAME as a path in the folder to which the archive is unpacked; allocates from A if
 * that is not a part of NAME. out->ptr NULL: no memory. False: NAME leads out of the folder. */
static bool normalize(arena *a, ckpt_str name, ckpt_str *out)
{
    while (str_starts(name, STR_LIT("./")) || str_starts(name, STR_LIT("/")))
        name = str_skip(name, name.ptr[0] == '.' ? 2 : 1);
    *out = name;
    if (is_normal(name))
        return true;
    char *text = arena_alloc(a, name.len + 1);
    size_t n = 0;
    *out = str_of(text, 0);
    while (text && name.len) {
        ckpt_str word = take_word(&name);
        if (str_is(word, "..") && !n)
            return false;
        if (str_is(word, "..")) {
            n = str_folder(str_of(text, n)).len;
            n -= n > 0;
        } else if (word.len && !str_is(word, ".")) {
            if (n)
                text[n++] = '/';
            memcpy(text + n, word.ptr, word.len);
            n += word.len;
        }
    }
    if (text)
        text[n] = '\0';
    out->len = n;
    return true;
}

static int compare_members(const void *left, const void *right)
{
    const struct member *x = left, *y = right;
    int order = str_compare(x->name, y->name);
    return order ? order : (x->entry > y->entry) - (x->entry < y->entry);
}

static enum member_kind get_kind(const struct archive_source *archive, size_t index)
{
    ckpt_str name = archive->z ? archive->z->entries[index].name : archive->tar[index].name;
    char type = archive->z ? '0' : archive->tar[index].type;
    if (type == '5' || ((type == '0' || !type) && str_ends(name, STR_LIT("/"))))
        return MEMBER_FOLDER;
    return type == '0' || type == '7' || !type ? MEMBER_FILE : MEMBER_OTHER;
}

/* index_members - sorts the COUNT members of ARCHIVE by their names. Those that lead out of the folder of the
 * archive, or have a zero byte, are left out: no path names them. */
static ckpt_status index_members(struct archive_source *archive, size_t count, ckpt_error *err)
{
    archive->members = arena_array(archive->a, count, sizeof *archive->members);
    archive->files = arena_array(archive->a, count, sizeof *archive->files);
    CKPT_TRY_ALLOC(archive->members && archive->files, err);
    for (size_t i = 0; i < count; i++) {
        struct member m = {.entry = i, .kind = get_kind(archive, i)};
        bool inside = normalize(archive->a, archive->z ? archive->z->entries[i].name : archive->tar[i].name,
                                &m.name);
        CKPT_TRY_ALLOC(m.name.ptr, err);
        if (inside && m.name.len && !memchr(m.name.ptr, 0, m.name.len))
            archive->members[archive->n++] = m;
    }
    if (archive->n)
        qsort(archive->members, archive->n, sizeof *archive->members, compare_members);
    for (size_t i = 0; i < archive->n; i++)
        if (archive->members[i].kind == MEMBER_FILE)
            archive->files[archive->nfiles++] = i;
    return CKPT_OK;
}

static ckpt_status list_archive(struct archive_source *archive, ckpt_error *err)
{
    size_t n = 0;
    struct probe *p = calloc(1, sizeof *p);
    ckpt_status st = p ? recognize_fill(p, "", archive->bytes, err) : fail_memory(err);
    bool is_zip = st == CKPT_OK && recognize_archive(p), is_tar = st == CKPT_OK && recognize_as(p, SIGN_TAR);
    free(p);
    CKPT_TRY(st);
    if (is_zip) {
        CKPT_TRY(zip_open(archive->bytes, archive->a, &archive->z, err));
        n = archive->z->n;
    } else if (is_tar) {
        CKPT_TRY(tar_list(archive->bytes, archive->a, false, &archive->tar, &n, err));
    } else {
        return fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET, "not {=a zip or tar archive}: no members");
    }
    return index_members(archive, n, err);
}

ckpt_status members_open(source *bytes, const char *path, uint64_t max_unpacked, source **archive,
                         ckpt_error *err)
{
    struct archive_source *c = calloc(1, sizeof *c);
    CKPT_TRY_ALLOC(c, err);
    c->as_source = (source){.ops = &archive_ops, .position = CKPT_NO_OFFSET, .refs = 1};
    c->bytes = source_ref(bytes);
    c->max_unpacked = max_unpacked;
    c->fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    c->a = arena_new(MAX_INDEX);
    c->prefix = c->a ? ARENA_CONCAT(c->a, str_c(path), STR_LIT("!")) : str_of(NULL, 0);
    ckpt_status st = c->prefix.ptr ? list_archive(c, err) : fail_memory(err);
    if (st == CKPT_OK)
        *archive = &c->as_source;
    else
        archive_close(&c->as_source);
    return st;
}

uint64_t members_unpacked(const source *archive)
{
    const struct archive_source *c = (const struct archive_source *)archive;
    return c->in_memory + c->in_file;
}

size_t members_count(const source *archive) { return ((const struct archive_source *)archive)->nfiles; }

ckpt_str members_name(const source *archive, size_t index)
{
    const struct archive_source *c = (const struct archive_source *)archive;
    return c->members[c->files[index]].name;
}

ckpt_str members_folder_of(const source *archive, const char *path)
{
    ckpt_str prefix = has_members(archive) ? ((const struct archive_source *)archive)->prefix : str_of("", 0),
             folder = str_folder(str_c(path));
    return folder.len > prefix.len ? folder : str_of(path, prefix.len);
}

/* ------------------------------------------------------------------------- find */

/* comes_before - returns true if MEMBER comes before NAME or, if BELOW, before all that is in the folder
 * NAME. Names such as "a-b" are between "a" and "a/b". */
static bool comes_before(ckpt_str member, ckpt_str name, bool below)
{
    int order = str_compare(str_first(member, name.len), name);
    return order ? order < 0 : below && name.len && (member.len == name.len || member.ptr[name.len] < '/');
}

/* find_first - returns the index of the first member that does not come before NAME. */
static size_t find_first(const struct archive_source *archive, ckpt_str name, bool below)
{
    size_t low = 0, high = archive->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (comes_before(archive->members[mid].name, name, below))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* is_below - returns true if there is a member INDEX, and it is in FOLDER. Sets *NAME to its path from
 * there. */
static bool is_below(const struct archive_source *archive, size_t index, ckpt_str folder, ckpt_str *name)
{
    if (index >= archive->n || !str_starts(archive->members[index].name, folder))
        return false;
    *name = str_skip(archive->members[index].name, folder.len);
    if (!folder.len)
        return true;
    bool below = name->len && name->ptr[0] == '/';
    *name = str_skip(*name, 1);
    return below;
}

/* find_name - returns what NAME, which is normalized, is by the members of that name alone. Sets *AT to the
 * first of them, and *COUNT to how many there are. */
static enum member_kind find_name(const struct archive_source *archive, ckpt_str name, size_t *at,
                                  size_t *count)
{
    enum member_kind kind = MEMBER_NONE;
    size_t i = *at = find_first(archive, name, false);
    for (; i < archive->n && str_eq(archive->members[i].name, name); i++) {
        enum member_kind next = archive->members[i].kind;
        kind = kind == MEMBER_NONE || (kind == MEMBER_FOLDER && next == kind) ? next : MEMBER_OTHER;
    }
    *count = i - *at;
    return kind;
}

/* is_in_other - returns true if a folder that NAME is in is a link or a file in the archive. */
static bool is_in_other(const struct archive_source *archive, ckpt_str name)
{
    size_t at, n;
    for (ckpt_str folder = str_folder(name); folder.len; folder = str_folder(folder)) {
        folder.len--;
        enum member_kind kind = find_name(archive, folder, &at, &n);
        if (kind != MEMBER_NONE && kind != MEMBER_FOLDER)
            return true;
    }
    return false;
}

/* get_name - sets *NAME, in ARCHIVE's arena, to the normalized name in PATH; .ptr NULL: no memory. False:
 * PATH is not in the archive. */
static bool get_name(const struct archive_source *archive, const char *path, ckpt_str *name)
{
    ckpt_str all = str_c(path);
    *name = str_of("", 0);
    return str_starts(all, archive->prefix) &&
           normalize(archive->a, str_skip(all, archive->prefix.len), name);
}

static enum member_kind find(const struct archive_source *archive, ckpt_str name, size_t *at, size_t *count)
{
    ckpt_str below;
    enum member_kind kind = find_name(archive, name, at, count);
    if (kind == MEMBER_NONE &&
        (!name.len || is_below(archive, find_first(archive, name, true), name, &below)))
        kind = MEMBER_FOLDER;
    return kind != MEMBER_NONE && is_in_other(archive, name) ? MEMBER_OTHER : kind;
}

static enum member_kind archive_find(const source *archive, const char *path)
{
    const struct archive_source *c = (const struct archive_source *)archive;
    size_t at, n;
    ckpt_str name;
    return get_name(c, path, &name) && name.ptr ? find(c, name, &at, &n) : MEMBER_NONE;
}

/* fail_other - fails because NAME, the name of COUNT members, is MEMBER_OTHER. */
static ckpt_status fail_other(const struct archive_source *archive, ckpt_str name, size_t count,
                              ckpt_error *err)
{
    if (count > 1)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%zu members} are called \"%.*s\", {=one} is allowed",
                    count, STR_ARG(name));
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                is_in_other(archive, name)
                    ? "\"%.*s\" is in {a member that is a link}, not in {=a folder}\n%s"
                    : "\"%.*s\" is {a link or device} in the archive; {=a regular file} was expected\n%s",
                STR_ARG(name), "if you trust the archive, unpack it and read its folder");
}

/* -------------------------------------------------------------------------- open */

/* new_spool_for - returns a spool for COUNT bytes that are unpacked. NULL: *ERR has the reason. */
static spool *new_spool_for(struct archive_source *archive, uint64_t count, ckpt_error *err)
{
    const char *dir;
    spool *made;
    if (count <= MAX_IN_MEMORY - archive->in_memory) {
        archive->in_memory += count;
        made = spool_new_in_memory(count);
    } else {
        if (archive->fd < 0 && (archive->fd = fd_temp(&dir)) < 0) {
            (void)fail_errno(err, CKPT_NO_OFFSET,
                             "cannot create a temporary file in %s\nset TMPDIR to a writable folder", dir);
            return NULL;
        }
        made = spool_new_at(archive->fd, archive->in_file, count);
        archive->in_file += count;
    }
    if (!made)
        (void)fail_memory(err);
    return made;
}

/* unpack_member - sets *OUT to the bytes of the compressed entry ENTRY, read from PACKED. */
static ckpt_status unpack_member(struct archive_source *archive, const struct zip_entry *entry,
                                 source *packed, source **out, ckpt_error *err)
{
    uint64_t left = archive->max_unpacked - members_unpacked(&archive->as_source);
    uint32_t crc = 0;
    if (entry->usize > left)
        return fail(err, CKPT_ELIMIT, source_pos(archive->z->src, entry->header_offset),
                    "it unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} more are allowed\n"
                    "unpack the archive first",
                    entry->usize, left);
    spool *to = new_spool_for(archive, entry->usize, err);
    if (!to)
        return err->status;
    ckpt_status st = spool_copy(to, packed, 0, packed->size, err);
    if (st != CKPT_OK) {
        spool_free(to);
        return st;
    }
    *out = spool_source(to);
    st = source_crc(*out, 0, (*out)->size, CRC_32, &crc, err);
    if (st == CKPT_OK && !archive->z->crc_none && crc != entry->crc)
        st = fail(err, CKPT_ECHECKSUM, source_pos(archive->z->src, entry->header_offset),
                  "its CRC-32 is {%08x}, the central directory records {=%08x}\n"
                  "the file is damaged; fetch it again",
                  crc, entry->crc);
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

void members_skip_check(source *archive) { ((struct archive_source *)archive)->skips_check = true; }

bool members_have_checksums(const source *archive)
{
    const zip *z = has_members(archive) ? ((const struct archive_source *)archive)->z : NULL;
    return z && !z->crc_none;
}

/* check_stored - compares MEMBER, which is stored, or lists it to be compared before values are read. */
static ckpt_status check_stored(struct archive_source *archive, source *member, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    if (archive->skips_check)
        return CKPT_OK;
    pthread_mutex_lock(&archive->lock);
    if (archive->is_checked)
        st = source_check(member, err);
    else if (!ARENA_PUSH(archive->a, archive, unchecked, &member))
        st = fail_memory(err);
    pthread_mutex_unlock(&archive->lock);
    return st;
}

static ckpt_status open_zip_member(struct archive_source *archive, size_t index, source **out,
                                   ckpt_error *err)
{
    const struct zip_entry *e = &archive->z->entries[index];
    source *member;
    CKPT_TRY(zip_open_member(archive->z, index, &member, err));
    ckpt_status st = source_locate(member, err);
    CKPT_THEN(st, e->method == ZIP_STORED ? source_slice(archive->bytes, e->data_offset, e->usize, out, err)
                                          : unpack_member(archive, e, member, out, err));
    if (st == CKPT_OK && e->method == ZIP_STORED && (st = check_stored(archive, member, err)) != CKPT_OK)
        source_unref(*out);
    source_unref(member); /* the member itself is ARCHIVE's until the archive is closed */
    return st;
}

ckpt_status members_wrap(source *archive, source *bytes, source **out, ckpt_error *err)
{
    struct member_source *s = malloc(sizeof *s);
    if (!s) {
        source_unref(bytes);
        return fail_memory(err);
    }
    s->as_source = (source){.ops = &member_ops,
                            .size = bytes->size,
                            .refs = 1,
                            .serializes_reads = bytes->serializes_reads,
                            .block_size = bytes->block_size,
                            .is_remote = bytes->is_remote};
    s->bytes = bytes;
    s->archive = source_ref(archive);
    *out = &s->as_source;
    return CKPT_OK;
}

/* open_name - sets *OUT to the file NAME, which is normalized. */
static ckpt_status open_name(struct archive_source *archive, ckpt_str name, source **out, ckpt_error *err)
{
    size_t at, n;
    source *bytes;
    enum member_kind kind = find(archive, name, &at, &n);
    if (kind == MEMBER_NONE)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no member of the archive is called \"%.*s\"",
                    STR_ARG(name));
    if (kind == MEMBER_FOLDER)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "\"%.*s\" is {a folder} in the archive; {=a regular file} was expected", STR_ARG(name));
    if (kind == MEMBER_OTHER)
        return fail_other(archive, name, n, err);
    size_t entry = archive->members[at].entry;
    ckpt_status st = archive->z ? open_zip_member(archive, entry, &bytes, err)
                                : source_slice(archive->bytes, archive->tar[entry].data,
                                               archive->tar[entry].size, &bytes, err);
    return st == CKPT_OK ? members_wrap(&archive->as_source, bytes, out, err)
                         : prefix_where_if_failed(st, name, err);
}

static ckpt_status archive_open_file(source *archive, const char *path, source **out, ckpt_error *err)
{
    struct archive_source *c = (struct archive_source *)archive;
    ckpt_str name;
    *out = NULL;
    if (!get_name(c, path, &name))
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{a path} that is not in {=the archive}");
    return name.ptr ? open_name(c, name, out, err) : fail_memory(err);
}

/* -------------------------------------------------------------------------- list */

static bool is_last(const ckpt_str *list, size_t count, ckpt_str name)
{
    return count && str_eq(list[count - 1], name);
}

static int compare_names(const void *left, const void *right)
{
    return str_compare(*(const ckpt_str *)left, *(const ckpt_str *)right);
}

/* remove_duplicates - sorts the *COUNT names of LIST and keeps one of each. */
static void remove_duplicates(ckpt_str *list, size_t *count)
{
    size_t kept = 0;
    if (*count)
        qsort(list, *count, sizeof *list, compare_names);
    for (size_t i = 0; i < *count; i++)
        if (!is_last(list, kept, list[i]))
            list[kept++] = list[i];
    *count = kept;
}

static ckpt_status archive_list(const source *archive, const char *path, arena *a,
                                bool (*match)(ckpt_str name), ckpt_str **out, size_t *count, ckpt_error *err)
{
    const struct archive_source *c = (const struct archive_source *)archive;
    ckpt_str folder, below, name;
    size_t at, nsame, cap = 0;
    *out = NULL;
    *count = 0;
    bool inside = get_name(c, path, &folder);
    CKPT_TRY_ALLOC(folder.ptr, err);
    if (!inside || find(c, folder, &at, &nsame) != MEMBER_FOLDER)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{no folder} of this name in {=the archive}");
    for (size_t i = find_first(c, folder, true); is_below(c, i, folder, &below); i++) {
        ckpt_str word = take_word(&below);
        if (is_last(*out, *count, word) || !match(word))
            continue;
        name = arena_str(a, word);
        CKPT_TRY_ALLOC(name.ptr && arena_push(a, out, count, &cap, &name, sizeof name), err);
    }
    remove_duplicates(*out, count);
    return CKPT_OK;
}

/* ---------------------------------------------------------- of archives and servers */

enum member_kind members_find(const source *archive, const char *path)
{
    return archive->ops->find(archive, path);
}

ckpt_status members_open_file(source *archive, const char *path, source **out, ckpt_error *err)
{
    return archive->ops->open_file(archive, path, out, err);
}

ckpt_status members_list(const source *archive, const char *path, arena *a, bool (*match)(ckpt_str name),
                         ckpt_str **out, size_t *count, ckpt_error *err)
{
    return archive->ops->list(archive, path, a, match, out, count, err);
}

static bool is_any_name(ckpt_str name)
{
    (void)name;
    return true;
}

bool members_folder_has(const source *archive, const char *path, const char *glob)
{
    ckpt_error ignored;
    ckpt_str *names;
    size_t n = 0;
    bool found = false;
    arena *a = arena_new(MAX_INDEX);
    bool listed = a && members_list(archive, path, a, is_any_name, &names, &n, &ignored) == CKPT_OK;
    for (size_t i = 0; listed && !found && i < n; i++)
        found = ckpt_glob_match(str_c(glob), names[i]);
    arena_free(a);
    return found;
}

/* without read_at, because there are no bytes */
static const struct source_ops archive_ops = {.close = archive_close,
                                              .check = archive_check,
                                              .origin = archive_origin,
                                              .open_file = archive_open_file,
                                              .find = archive_find,
                                              .list = archive_list};
