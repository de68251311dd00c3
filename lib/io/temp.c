/* temp.c - see temp.h.
 *
 * A named temporary is locked (flock) by the process that writes it. One that can
 * be locked was left by a crash and is removed. A file found locked or unlinked
 * right after it was created was mistaken for such a leftover, and is created anew. */
#include "io/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "io/renameat2.h"

#define INFIX      ".ckpt-"
#define INFIX_LEN  6u
#define RANDOM_LEN 6u
#define MAX_TRIES  100

enum { NAME_FREE, NAME_CLAIMED, NAME_LIVE };

/* The names for the signal handler: a list that only grows and whose nodes are
 * reused, because a handler can neither wait nor read freed memory. */
struct temp_name {
    struct temp_name *next;
    atomic_int state;
    int dir;
    char text[NAME_MAX + 1];
};

static _Atomic(struct temp_name *) live_names;

static struct temp_name *claim_name(void)
{
    for (struct temp_name *n = atomic_load(&live_names); n; n = n->next) {
        int is_free = NAME_FREE;
        if (atomic_compare_exchange_strong(&n->state, &is_free, NAME_CLAIMED))
            return n;
    }
    struct temp_name *n = calloc(1, sizeof *n);
    if (!n) {
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&n->state, NAME_CLAIMED);
    n->next = atomic_load(&live_names);
    while (!atomic_compare_exchange_weak(&live_names, &n->next, n))
        continue;
    return n;
}

static void release_name(struct temp *t)
{
    if (t->name)
        atomic_store(&t->name->state, NAME_FREE);
    t->name = NULL;
}

void temp_emergency(void)
{
    for (struct temp_name *n = atomic_load(&live_names); n; n = n->next)
        if (atomic_load(&n->state) == NAME_LIVE)
            unlinkat(n->dir, n->text, 0);
}

/* get_stem_len - how many bytes of BASE fit into the name of a temporary. */
static int get_stem_len(const char *base)
{
    size_t len = strlen(base), max = NAME_MAX - 1 - INFIX_LEN - RANDOM_LEN;
    return (int)(len < max ? len : max);
}

static void random_letters(char out[RANDOM_LEN + 1])
{
    unsigned char b[RANDOM_LEN];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b) {
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

static void choose_name(struct temp_name *n, const char *base)
{
    char letters[RANDOM_LEN + 1];
    random_letters(letters);
    snprintf(n->text, sizeof n->text, ".%.*s" INFIX "%s", get_stem_len(base), base, letters);
}

static ckpt_str stem_of(const char *base) { return str_of(base, (size_t)get_stem_len(base)); }

/* parse_temp_name - the stem in the name of a temporary; empty: NAME is not one. */
static ckpt_str parse_temp_name(const char *name)
{
    size_t len = strlen(name), tail = INFIX_LEN + RANDOM_LEN;
    const char *infix = name + len - tail; /* bounded: read only if len > 1 + tail */
    bool is_ours = len > 1 + tail && name[0] == '.' && memcmp(infix, INFIX, INFIX_LEN) == 0 &&
                   strspn(infix + INFIX_LEN, "abcdefghijklmnopqrstuvwxyz0123456789") == RANDOM_LEN;
    return is_ours ? str_of(name + 1, len - 1 - tail) : str_of("", 0);
}

static void remove_leftover(int dir, const char *name)
{
    struct stat st, there;
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == st.st_ino &&
        there.st_dev == st.st_dev)
        unlinkat(dir, name, 0);
    close(fd);
}

/* remove_leftovers - removes those of the target with this STEM, or, if STEMS is not NULL, of all in
 * STEMS. */
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

void temp_tidy(struct temp_tidied *t, const char *dir, const char *const *paths, size_t n)
{
    struct stat is;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    map *stems = map_new(n);
    t->done = fd >= 0 && stems && fstat(fd, &is) == 0;
    for (size_t i = 0; t->done && i < n; i++) {
        const char *slash = strrchr(paths[i], '/');
        t->done = map_put(stems, stem_of(slash ? slash + 1 : paths[i]), 0, NULL);
    }
    if (t->done) {
        t->dev = is.st_dev;
        t->ino = is.st_ino;
        remove_leftovers(fd, str_of("", 0), stems);
    }
    map_free(stems);
    if (fd >= 0)
        close(fd);
}

static bool is_tidied(const struct temp_tidied *t, int dir)
{
    struct stat is;
    return t && t->done && fstat(dir, &is) == 0 && is.st_dev == t->dev && is.st_ino == t->ino;
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

/* is_ours - is FD, just created, still linked and locked by us? File systems without
 * locks count as locked: no other process can lock there either. */
static bool is_ours(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0; /* unknown: assume so, or it would never be removed */
}

static bool open_named(struct temp *t, const char *base, mode_t mode)
{
    sigset_t all, old;
    if (!(t->name = claim_name()))
        return false;
    t->name->dir = t->dir;
    sigfillset(&all);
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        choose_name(t->name, base);
        /* No signal may come between the file and its entry in the list. */
        pthread_sigmask(SIG_BLOCK, &all, &old);
        t->fd = openat(t->dir, t->name->text, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, mode);
        int why = errno;
        if (t->fd >= 0)
            atomic_store(&t->name->state, NAME_LIVE);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        errno = why;
        if (t->fd >= 0 && is_ours(t->fd))
            return true;
        if (t->fd < 0 && errno != EEXIST)
            break;
        atomic_store(&t->name->state, NAME_CLAIMED);
        if (t->fd >= 0)
            close(t->fd);
        t->fd = -1;
        errno = EEXIST;
    }
    release_name(t);
    return false;
}

bool temp_open(struct temp *t, const char *dir, const char *base, mode_t mode,
               const struct temp_tidied *tidied)
{
    *t = (struct temp){-1, -1, NULL};
    t->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->dir < 0 && errno == EACCES) /* a folder may be entered and written to, but not listed */
        t->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (t->dir < 0)
        return false;
    if (!is_tidied(tidied, t->dir))
        remove_leftovers(t->dir, stem_of(base), NULL);
    t->fd = open_unnamed(t->dir, mode);
    if (t->fd >= 0) {
        flock(t->fd, LOCK_EX | LOCK_NB);
        return true;
    }
    if (open_named(t, base, mode))
        return true;
    int why = errno;
    close(t->dir);
    t->dir = -1;
    errno = why;
    return false;
}

static bool link_as(const struct temp *t, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", t->fd);
    return linkat(AT_FDCWD, path, t->dir, name, AT_SYMLINK_FOLLOW) == 0;
}

/* link_hidden_name - links an unnamed file under a hidden name, because only rename replaces a file. */
static bool link_hidden_name(struct temp *t, const char *base)
{
    if (!(t->name = claim_name()))
        return false;
    t->name->dir = t->dir;
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        choose_name(t->name, base);
        if (link_as(t, t->name->text)) {
            atomic_store(&t->name->state, NAME_LIVE);
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    release_name(t);
    return false;
}

/* move_new - renames without replacing, in the first way that works: renameat2, a hard
 * link, or creating the target to claim its name. */
static bool move_new(const struct temp *t, const char *base)
{
    const char *from = t->name->text;
    if (renameat2(t->dir, from, t->dir, base, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (linkat(t->dir, from, t->dir, base, 0) == 0)
        return unlinkat(t->dir, from, 0) == 0;
    if (errno == EEXIST)
        return false;
    int claim = openat(t->dir, base, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
    if (claim < 0)
        return false;
    close(claim);
    if (renameat(t->dir, from, t->dir, base) == 0)
        return true;
    int why = errno;
    unlinkat(t->dir, base, 0);
    errno = why;
    return false;
}

static bool move_or_link(struct temp *t, const char *base, bool replace)
{
    if (!replace && !t->name)
        return link_as(t, base);
    if (!replace)
        return move_new(t, base);
    return (t->name || link_hidden_name(t, base)) && renameat(t->dir, t->name->text, t->dir, base) == 0;
}

bool temp_place(struct temp *t, const char *base, bool replace)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool done = move_or_link(t, base, replace);
    int why = errno;
    if (done)
        release_name(t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return done;
}

void temp_close(struct temp *t)
{
    if (t->name)
        unlinkat(t->dir, t->name->text, 0);
    release_name(t);
    if (t->fd >= 0)
        close(t->fd);
    if (t->dir >= 0)
        close(t->dir);
    *t = (struct temp){-1, -1, NULL};
}
