/* temp.c - see temp.h.
 *
 * A named temporary is locked (flock) by the process that writes it. A temporary that can be locked was left
 * by a crash and is removed. Before a new file is locked, another process may mistake it for such a leftover,
 * and lock or unlink it: then another file is created. */
#include "io/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "io/renameat2.h"

#define INFIX      ".ckpt-"
#define INFIX_LEN  6u
#define RANDOM_LEN 6u
#define MAX_TRIES  100

/* States of an entry: unused; reserved for a temporary; the name of a file; the name of a folder; the name of
 * a folder that is removed if it is empty. */
enum { NAME_FREE, NAME_CLAIMED, NAME_LIVE, NAME_LIVE_FOLDER, NAME_LIVE_TARGET };

/* The names for the signal handler: a list that only grows and whose nodes are
 * reused, because a handler can neither wait nor read freed memory. */
struct temp_name {
    struct temp_name *next;
    atomic_int state;
    int dir;
    char text[NAME_MAX + 1];
};

static _Atomic(struct temp_name *) live_names;

/* claim_name - returns an entry that no other temporary uses, for a name in the folder DIR; NULL: errno. */
static struct temp_name *claim_name(int dir)
{
    for (struct temp_name *n = atomic_load(&live_names); n; n = n->next) {
        int expected = NAME_FREE;
        if (atomic_compare_exchange_strong(&n->state, &expected, NAME_CLAIMED)) {
            n->dir = dir;
            return n;
        }
    }
    struct temp_name *n = calloc(1, sizeof *n);
    if (!n) {
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&n->state, NAME_CLAIMED);
    n->dir = dir;
    n->next = atomic_load(&live_names);
    while (!atomic_compare_exchange_weak(&live_names, &n->next, n))
        continue;
    return n;
}

static void release_name(struct temp_name **name)
{
    if (*name)
        atomic_store(&(*name)->state, NAME_FREE);
    *name = NULL;
}

/* An entry as getdents64(2) returns it: 8 bytes inode, 8 offset, 2 length of the entry, 1 type, the name. */
#define ENTRY_LENGTH 16u
#define ENTRY_NAME   19u

/* unlink_listed - unlinks the files that ENTRIES, NBYTES bytes, list of the folder FD; false: it unlinked
 * none. */
static bool unlink_listed(int fd, const char *entries, size_t nbytes)
{
    bool any_unlinked = false;
    uint16_t length;
    for (size_t at = 0; at < nbytes; at += length) {
        memcpy(&length, entries + at + ENTRY_LENGTH, sizeof length);
        any_unlinked = unlinkat(fd, entries + at + ENTRY_NAME, 0) == 0 || any_unlinked;
    }
    return any_unlinked;
}

/* unlink_files - unlinks the files in the folder FD; sets *ANY if it unlinked one. False: FD could not be
 * listed. Async-signal-safe, which readdir is not. */
static bool unlink_files(int fd, bool *any)
{
    char entries[4096];
    long n;
    while ((n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
        *any = unlink_listed(fd, entries, (size_t)n) || *any;
    return n == 0;
}

/* remove_folder - removes the folder NAME of the folder DIR, and the files in it; false: it is still there.
 * The folder is listed again until nothing more is unlinked, because some file systems skip entries while
 * others are removed. A failure to list it is tolerated once. Async-signal-safe. */
static bool remove_folder(int dir, const char *name)
{
    bool again = true;
    for (int failed = 0; again;) {
        bool any = false;
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool listed = fd >= 0 && unlink_files(fd, &any);
        if (fd >= 0)
            close(fd);
        again = any || (!listed && failed++ == 0);
    }
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

void temp_emergency(void)
{
    for (struct temp_name *n = atomic_load(&live_names); n; n = n->next) {
        int state = atomic_load(&n->state);
        if (state == NAME_LIVE)
            unlinkat(n->dir, n->text, 0);
        else if (state == NAME_LIVE_FOLDER)
            (void)remove_folder(n->dir, n->text);
    }
    for (struct temp_name *n = atomic_load(&live_names); n; n = n->next) /* no temporary is in them now */
        if (atomic_load(&n->state) == NAME_LIVE_TARGET)
            (void)unlinkat(n->dir, n->text, AT_REMOVEDIR);
}

/* compute_stem_len - computes how many bytes of BASE fit into the name of a temporary. */
static int compute_stem_len(const char *base)
{
    size_t len = strlen(base), max = NAME_MAX - 1 - INFIX_LEN - RANDOM_LEN;
    return (int)(len < max ? len : max);
}

/* make_random_letters - makes RANDOM_LEN letters and digits; from the time if there are no random bytes. */
static void make_random_letters(char out[RANDOM_LEN + 1])
{
    unsigned char b[RANDOM_LEN];
    if (syscall(SYS_getrandom, b, sizeof b, 0) != (long)sizeof b) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        unsigned long mix = (unsigned long)now.tv_nsec * 31 + (unsigned long)getpid();
        for (size_t i = 0; i < sizeof b; i++, mix /= 36)
            b[i] = (unsigned char)(mix % 36);
    }
    for (size_t i = 0; i < RANDOM_LEN; i++)
        out[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[b[i] % 36];
    out[RANDOM_LEN] = '\0';
}

static void choose_name(struct temp_name *name, const char *base)
{
    char letters[RANDOM_LEN + 1];
    make_random_letters(letters);
    snprintf(name->text, sizeof name->text, ".%.*s" INFIX "%s", compute_stem_len(base), base, letters);
}

static ckpt_str stem_of(const char *base) { return str_of(base, (size_t)compute_stem_len(base)); }

/* parse_temp_name - returns the stem in NAME; empty: NAME is not the name of a temporary. */
static ckpt_str parse_temp_name(const char *name)
{
    size_t len = strlen(name), tail = INFIX_LEN + RANDOM_LEN;
    const char *infix = len > 1 + tail ? name + len - tail : NULL;
    bool is_ours = infix && name[0] == '.' && memcmp(infix, INFIX, INFIX_LEN) == 0 &&
                   strspn(infix + INFIX_LEN, "abcdefghijklmnopqrstuvwxyz0123456789") == RANDOM_LEN;
    return is_ours ? str_of(name + 1, len - 1 - tail) : str_of("", 0);
}

static void remove_leftover_folder(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_folder(dir, name);
    if (fd >= 0)
        close(fd);
}

static void remove_leftover(int dir, const char *name)
{
    struct stat st, named_file;
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == EISDIR)
        remove_leftover_folder(dir, name);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(dir, name, &named_file, AT_SYMLINK_NOFOLLOW) == 0 && named_file.st_ino == st.st_ino &&
        named_file.st_dev == st.st_dev)
        unlinkat(dir, name, 0);
    close(fd);
}

/* remove_leftovers - removes the leftovers of targets with a stem in STEMS or, if that is NULL, with STEM. */
static void remove_leftovers(int dir, ckpt_str stem, const map *stems)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        ckpt_str its_stem = parse_temp_name(e->d_name);
        if (its_stem.len && (stems ? map_get(stems, its_stem) != MAP_NONE : str_eq(its_stem, stem)))
            remove_leftover(dir, e->d_name);
    }
    closedir(d);
}

void temp_clean_folder(struct cleaned_folder *folder, const char *dir, const char *const *paths, size_t count)
{
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    map *stems = map_new(count);
    folder->done = fd >= 0 && stems && fstat(fd, &st) == 0;
    for (size_t i = 0; folder->done && i < count; i++) {
        const char *slash = strrchr(paths[i], '/');
        folder->done = map_put(stems, stem_of(slash ? slash + 1 : paths[i]), 0, NULL);
    }
    if (folder->done) {
        folder->dev = st.st_dev;
        folder->ino = st.st_ino;
        remove_leftovers(fd, str_of("", 0), stems);
    }
    map_free(stems);
    if (fd >= 0)
        close(fd);
}

static bool is_cleaned(const struct cleaned_folder *folder, int dir)
{
    struct stat st;
    return folder && folder->done && fstat(dir, &st) == 0 && st.st_dev == folder->dev &&
           st.st_ino == folder->ino;
}

static int open_unnamed(int dir, mode_t mode)
{
    char path[32];
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || access(path, F_OK) == 0)
        return fd;
    close(fd); /* without /proc it could not be linked */
    return -1;
}

/* lock_new_file - locks FD, just created, if the file system has locks; false: another process was faster. */
static bool lock_new_file(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0; /* if fstat fails: the file is ours */
}

static bool open_named(struct temp *temp, const char *base, mode_t mode)
{
    sigset_t all, old;
    if (!(temp->name = claim_name(temp->dir)))
        return false;
    sigfillset(&all);
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        choose_name(temp->name, base);
        /* No signal may come between creating the file and adding it to the list. */
        pthread_sigmask(SIG_BLOCK, &all, &old);
        temp->fd = openat(temp->dir, temp->name->text, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC,
                          mode);
        int saved_errno = errno;
        if (temp->fd >= 0)
            atomic_store(&temp->name->state, NAME_LIVE);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        errno = saved_errno;
        if (temp->fd >= 0 && lock_new_file(temp->fd))
            return true;
        if (temp->fd < 0 && errno != EEXIST)
            break;
        atomic_store(&temp->name->state, NAME_CLAIMED);
        if (temp->fd >= 0)
            close(temp->fd);
        temp->fd = -1;
        errno = EEXIST;
    }
    release_name(&temp->name);
    return false;
}

bool temp_open(struct temp *temp, const char *dir, const char *base, mode_t mode,
               const struct cleaned_folder *cleaned_folder)
{
    *temp = (struct temp){-1, -1, NULL};
    temp->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (temp->dir < 0 && errno == EACCES) /* a folder may be entered and written to, but not listed */
        temp->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (temp->dir < 0)
        return false;
    if (!is_cleaned(cleaned_folder, temp->dir))
        remove_leftovers(temp->dir, stem_of(base), NULL);
    temp->fd = open_unnamed(temp->dir, mode);
    if (temp->fd >= 0) {
        flock(temp->fd, LOCK_EX | LOCK_NB);
        return true;
    }
    if (open_named(temp, base, mode))
        return true;
    int saved_errno = errno;
    close(temp->dir);
    temp->dir = -1;
    errno = saved_errno;
    return false;
}

static bool link_as(const struct temp *temp, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", temp->fd);
    return linkat(AT_FDCWD, path, temp->dir, name, AT_SYMLINK_FOLLOW) == 0;
}

/* link_hidden_name - links an unnamed file under a hidden name, because only rename replaces a file. */
static bool link_hidden_name(struct temp *temp, const char *base)
{
    if (!(temp->name = claim_name(temp->dir)))
        return false;
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        choose_name(temp->name, base);
        if (link_as(temp, temp->name->text)) {
            atomic_store(&temp->name->state, NAME_LIVE);
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    release_name(&temp->name);
    return false;
}

/* move_new - renames without replacing, in the first way that works: renameat2, a hard
 * link, or creating the target to claim its name. */
static bool move_new(const struct temp *temp, const char *base)
{
    const char *from = temp->name->text;
    if (renameat2(temp->dir, from, temp->dir, base, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (linkat(temp->dir, from, temp->dir, base, 0) == 0)
        return unlinkat(temp->dir, from, 0) == 0;
    if (errno == EEXIST)
        return false;
    int claim = openat(temp->dir, base, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
    if (claim < 0)
        return false;
    close(claim);
    if (renameat(temp->dir, from, temp->dir, base) == 0)
        return true;
    int saved_errno = errno;
    unlinkat(temp->dir, base, 0);
    errno = saved_errno;
    return false;
}

static bool move_or_link(struct temp *temp, const char *base, bool replace)
{
    if (!replace && !temp->name)
        return link_as(temp, base);
    if (!replace)
        return move_new(temp, base);
    return (temp->name || link_hidden_name(temp, base)) &&
           renameat(temp->dir, temp->name->text, temp->dir, base) == 0;
}

bool temp_place(struct temp *temp, const char *base, bool replace)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool done = move_or_link(temp, base, replace);
    int saved_errno = errno;
    if (done)
        release_name(&temp->name);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved_errno;
    return done;
}

bool temp_close(struct temp *temp)
{
    int state = temp->name ? atomic_load(&temp->name->state) : NAME_FREE;
    if (state == NAME_LIVE)
        unlinkat(temp->dir, temp->name->text, 0);
    else if (state == NAME_LIVE_TARGET)
        (void)unlinkat(temp->dir, temp->name->text, AT_REMOVEDIR);
    bool gone = state != NAME_LIVE_FOLDER || remove_folder(temp->dir, temp->name->text);
    release_name(&temp->name);
    if (temp->fd >= 0)
        close(temp->fd);
    if (temp->dir >= 0)
        close(temp->dir);
    *temp = (struct temp){-1, -1, NULL};
    return gone;
}

/* ------------------------------------------------------------------ folders */

/* make_named - makes the folder temp->name, which is in the list of the signal handler from then on, with
 * STATE. */
static bool make_named(struct temp *temp, int state)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool is_made = mkdirat(temp->dir, temp->name->text, 0777) == 0;
    int saved_errno = errno;
    if (is_made)
        atomic_store(&temp->name->state, state);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved_errno;
    return is_made;
}

/* make_folder - makes the folder with a new name. */
static bool make_folder(struct temp *temp, const char *base)
{
    bool is_made = false;
    errno = EEXIST;
    for (int tries = 0; !is_made && tries < MAX_TRIES && errno == EEXIST; tries++) {
        choose_name(temp->name, base);
        is_made = make_named(temp, NAME_LIVE_FOLDER);
    }
    return is_made;
}

/* open_parent - opens the folder of PATH, and sets *BASE and *LEN to the name after it. */
static int open_parent(const char *path, const char **base, size_t *len)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    *base = path + begin;
    *len = end - begin;
    char *parent = begin ? strndup(path, begin) : strdup(".");
    int fd = parent ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int saved_errno = parent ? errno : ENOMEM;
    free(parent);
    errno = saved_errno;
    return fd;
}

bool temp_target_make(struct temp *temp, const char *path)
{
    const char *base;
    size_t len;
    *temp = (struct temp){open_parent(path, &base, &len), -1, NULL};
    if (temp->dir < 0)
        return false;
    bool fits = len <= NAME_MAX;
    temp->name = fits ? claim_name(temp->dir) : NULL;
    if (!fits)
        errno = ENAMETOOLONG;
    if (temp->name) {
        memcpy(temp->name->text, base, len);
        temp->name->text[len] = 0;
        if (make_named(temp, NAME_LIVE_TARGET))
            return true;
    }
    int saved_errno = errno;
    (void)temp_close(temp);
    errno = saved_errno;
    return false;
}

bool temp_folder_open(struct temp *temp, const char *dir, const char *base)
{
    *temp = (struct temp){-1, -1, NULL};
    temp->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (temp->dir < 0)
        return false;
    remove_leftovers(temp->dir, stem_of(base), NULL);
    temp->name = claim_name(temp->dir);
    if (temp->name && make_folder(temp, base))
        temp->fd = openat(temp->dir, temp->name->text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int saved_errno = errno;
    if (temp->fd >= 0)
        flock(temp->fd, LOCK_EX | LOCK_NB);
    else
        (void)temp_close(temp);
    errno = saved_errno;
    return temp->dir >= 0;
}

const char *temp_folder_name(const struct temp *temp) { return temp->name->text; }

/* sync_folder - syncs the folder; false: errno. File systems that cannot sync folders need not. */
static bool sync_folder(int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == EROFS; }

bool temp_folder_place(struct temp *temp, const char *base, bool replace, bool sync)
{
    sigset_t all, old;
    if (sync && !sync_folder(temp->fd))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool done = renameat(temp->dir, temp->name->text, temp->dir, base) == 0;
    bool target_has_files = !done && (errno == ENOTEMPTY || errno == EEXIST);
    if (target_has_files && replace)
        done = renameat2(temp->dir, temp->name->text, temp->dir, base, RENAME_EXCHANGE) == 0;
    int saved_errno = target_has_files && !replace ? EEXIST : errno;
    if (done && !target_has_files)
        release_name(&temp->name); /* else the name is that of the old folder */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (done && sync)
        (void)sync_folder(temp->dir); /* BASE is complete either way */
    errno = saved_errno;
    return done;
}
