/* temp.c - see temp.h.
 *
 * A named temporary is locked (flock) by the process that writes it, so one that
 * can be locked belongs to nobody: that is how what a crash left is told from
 * what another process is busy with. A file found locked or unlinked right after
 * it was made lost this race and is made anew. */
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

#define MARK       ".ckpt-"
#define MARK_LEN   6u
#define RANDOM_LEN 6u
#define TRIES      100

enum { NAME_FREE, NAME_TAKEN, NAME_LIVE };

/* The names a signal handler must find: a list that only grows and whose nodes
 * are used again, because a handler can neither wait nor follow freed memory. */
struct temp_name {
    struct temp_name *next;
    atomic_int state;
    int dir;
    char text[NAME_MAX + 1];
};

static _Atomic(struct temp_name *) names;

static struct temp_name *name_take(void)
{
    for (struct temp_name *n = atomic_load(&names); n; n = n->next) {
        int is_free = NAME_FREE;
        if (atomic_compare_exchange_strong(&n->state, &is_free, NAME_TAKEN))
            return n;
    }
    struct temp_name *n = calloc(1, sizeof *n);
    if (!n) {
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&n->state, NAME_TAKEN);
    n->next = atomic_load(&names);
    while (!atomic_compare_exchange_weak(&names, &n->next, n))
        continue;
    return n;
}

static void name_drop(struct temp *t)
{
    if (t->name)
        atomic_store(&t->name->state, NAME_FREE);
    t->name = NULL;
}

void temp_emergency(void)
{
    for (struct temp_name *n = atomic_load(&names); n; n = n->next)
        if (atomic_load(&n->state) == NAME_LIVE)
            unlinkat(n->dir, n->text, 0);
}

/* stem_len - how much of BASE fits beside the rest of a temporary's name. */
static int stem_len(const char *base)
{
    size_t len = strlen(base), most = NAME_MAX - 1 - MARK_LEN - RANDOM_LEN;
    return (int)(len < most ? len : most);
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

static void name_choose(struct temp_name *n, const char *base)
{
    char letters[RANDOM_LEN + 1];
    random_letters(letters);
    snprintf(n->text, sizeof n->text, ".%.*s" MARK "%s", stem_len(base), base, letters);
}

static ckpt_str stem_of(const char *base) { return str_of(base, (size_t)stem_len(base)); }

/* made_for - the stem in the name of a temporary; empty: it is none. */
static ckpt_str made_for(const char *name)
{
    size_t len = strlen(name), tail = MARK_LEN + RANDOM_LEN;
    const char *mark = name + len - tail; /* bounded: looked at if there is so much */
    bool ours = len > 1 + tail && name[0] == '.' && memcmp(mark, MARK, MARK_LEN) == 0 &&
                strspn(mark + MARK_LEN, "abcdefghijklmnopqrstuvwxyz0123456789") == RANDOM_LEN;
    return ours ? str_of(name + 1, len - 1 - tail) : str_of("", 0);
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

/* remove_leftovers - of the target with this STEM, or of those that STEMS, unless NULL, has. */
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
        ckpt_str its = made_for(e->d_name);
        if (its.len && (stems ? map_get(stems, its) != MAP_NONE : str_eq(its, stem)))
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
    close(fd); /* without /proc it could never get a name */
    return -1;
}

/* ours - is FD, just made, still there and locked by us? File systems without
 * locks count as locked: nobody else can lock there either. */
static bool ours(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0; /* unknown: as if it were, or it would stay behind */
}

static bool open_named(struct temp *t, const char *base, mode_t mode)
{
    sigset_t all, old;
    if (!(t->name = name_take()))
        return false;
    t->name->dir = t->dir;
    sigfillset(&all);
    for (int tries = 0; tries < TRIES; tries++) {
        name_choose(t->name, base);
        /* No signal may come between the file and its entry in the list. */
        pthread_sigmask(SIG_BLOCK, &all, &old);
        t->fd = openat(t->dir, t->name->text, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, mode);
        int why = errno;
        if (t->fd >= 0)
            atomic_store(&t->name->state, NAME_LIVE);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        errno = why;
        if (t->fd >= 0 && ours(t->fd))
            return true;
        if (t->fd < 0 && errno != EEXIST)
            break;
        atomic_store(&t->name->state, NAME_TAKEN);
        if (t->fd >= 0)
            close(t->fd);
        t->fd = -1;
        errno = EEXIST;
    }
    name_drop(t);
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

/* give_name - links an unnamed file to a hidden name, as rename alone replaces. */
static bool give_name(struct temp *t, const char *base)
{
    if (!(t->name = name_take()))
        return false;
    t->name->dir = t->dir;
    for (int tries = 0; tries < TRIES; tries++) {
        name_choose(t->name, base);
        if (link_as(t, t->name->text)) {
            atomic_store(&t->name->state, NAME_LIVE);
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    name_drop(t);
    return false;
}

/* move_new - a rename that never replaces, in three ways: by one call, by a
 * link where that is unknown, by claiming the name where there are no links. */
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

static bool place(struct temp *t, const char *base, bool replace)
{
    if (!replace && !t->name)
        return link_as(t, base);
    if (!replace)
        return move_new(t, base);
    return (t->name || give_name(t, base)) && renameat(t->dir, t->name->text, t->dir, base) == 0;
}

bool temp_place(struct temp *t, const char *base, bool replace)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool done = place(t, base, replace);
    int why = errno;
    if (done)
        name_drop(t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return done;
}

void temp_close(struct temp *t)
{
    if (t->name)
        unlinkat(t->dir, t->name->text, 0);
    name_drop(t);
    if (t->fd >= 0)
        close(t->fd);
    if (t->dir >= 0)
        close(t->dir);
    *t = (struct temp){-1, -1, NULL};
}
