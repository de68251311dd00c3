/*
 * replace.c - see hub/replace.h. Names are all that can change at one stroke, so:
 *
 *   1. each old file whose name the new set needs gets a second one, .NAME.ckpt-old (a hard link);
 *   2. the old index is replaced by one that calls its shards by those;
 *   3. the new shards take their places, which no index names by now;
 *   4. the new index takes its own;
 *   5. second names and shards that only the old index named are removed, its own second name last.
 *
 * Until 4 the index is that of the old set, from there on that of the new one. What a run that was
 * killed leaves the next one to the same set removes in 5: before, the old index may need it.
 *
 * Where there are no hard links, or links stand in the places of the files, the old index goes
 * before 3: nobody must read some shards of one set with some of the other. It goes, too, when what
 * takes the place of the set is one file, behind that.
 *
 * What 5 removes is listed before 1. From 3 on nothing here asks for memory: neither going on nor
 * going back may fail for want of it.
 */
#include "format/hub/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/map.h"
#include "codec/json_scan.h"
#include "io/sink.h"
#include "io/source.h"

#define SECOND     ".ckpt-old"
#define MOST_BYTES (UINT64_C(1) << 30) /* of an index and what is made of it */

struct part {
    const char *path, *base, *second; /* BASE and SECOND: of the new file, of the old one */
    bool was;                         /* something had that name */
    bool kept;                        /* and has a second one */
};

struct replaced {
    arena *a;
    struct part *parts; /* the index is the last */
    size_t n;
    ckpt_str folder, stem, ext;
    ckpt_str text;            /* of the old index; empty: there is none to be read */
    map *named;               /* what it calls its shards */
    ckpt_str *names;          /* the same, and those of one that a run left that was killed in 5; */
    size_t nnames, cap_names; /* once listed: first names of what only they name */
    char *room;               /* FOLDER, and behind it space for one of NAMES or its second name */
    bool sync;
    bool ours;    /* it used second names before */
    bool renamed; /* there are new ones */
    char *from;   /* what the old index was called that has a second name alone; else NULL */
};

static const char *second_name(struct replaced *r, ckpt_str base)
{
    return arena_printf(r->a, "%.*s.%.*s" SECOND, STR_ARG(r->folder), STR_ARG(base)).ptr;
}

static ckpt_str base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return str_c(slash ? slash + 1 : path);
}

/* look - *YES: is there something at PATH? */
static ckpt_status look(const char *path, struct stat *st, bool *yes, ckpt_error *err)
{
    *yes = lstat(path, st) == 0;
    if (*yes || errno == ENOENT)
        return CKPT_OK;
    (void)fail_errno(err, CKPT_NO_OFFSET, "cannot examine what is to be replaced");
    fail_file(err, path);
    return err->status;
}

/* ------------------------------------------------------------------ the index */

static ckpt_status note_name(struct replaced *r, map *named, ckpt_str name, ckpt_error *err)
{
    uint32_t before;
    if (!map_put(named, name, 0, &before))
        return fail_memory(err);
    if (before != MAP_NONE)
        return CKPT_OK;
    ckpt_str *grown = arena_grow(r->a, r->names, r->nnames, &r->cap_names, r->nnames + 1, sizeof *grown);
    if (!grown)
        return fail_memory(err);
    r->names = grown;
    grown[r->nnames++] = name;
    return CKPT_OK;
}

/* next_shard - J moves to the next file name of the weight_map; false: there is none, or it is
 * no index, or out of memory, which the error of J tells. IN: are we inside the map? */
static bool next_shard(json_scan *j, bool *in)
{
    enum json_event e = *in ? JSON_NULL : json_next(j);
    while (!*in && (e = json_next(j)) == JSON_KEY) {
        *in = str_is(j->str, "weight_map");
        e = json_next(j);
        if (*in ? e != JSON_OBJECT : !json_skip(j, e))
            return false;
    }
    return *in && json_next(j) == JSON_KEY && json_next(j) == JSON_STRING;
}

/* take_index - the text of PATH, empty where it is no index, and what it names. */
static ckpt_status take_index(struct replaced *r, const char *path, map *named, ckpt_str *out,
                              ckpt_error *err)
{
    source *src = NULL;
    ckpt_error why = {0};
    json_scan j;
    bool in = false;
    CKPT_TRY(source_file_open(path, &src, err));
    size_t n = src->size < MOST_BYTES / 4 ? (size_t)src->size : 0;
    char *text = arena_alloc(r->a, n);
    ckpt_status st = text ? source_read(src, 0, text, n, err) : fail_memory(err);
    source_unref(src);
    CKPT_TRY(st);
    json_init(&j, str_of(text, n), 0, r->a, &why);
    while (next_shard(&j, &in))
        CKPT_TRY(note_name(r, named, j.str, err));
    if (why.status == CKPT_ENOMEM) /* else it is broken: of use up to there */
        return fail_memory(err);
    *out = str_of(text, in ? n : 0);
    return CKPT_OK;
}

/* take_left - the names in an index whose set was replaced, but not removed to its end. */
static ckpt_status take_left(struct replaced *r, ckpt_error *err)
{
    struct stat is;
    ckpt_str text;
    bool there;
    const char *path = r->parts[r->n - 1].second;
    CKPT_TRY(look(path, &is, &there, err));
    if (!there || !S_ISREG(is.st_mode))
        return CKPT_OK;
    map *named = map_new(r->n);
    ckpt_status st = named ? take_index(r, path, named, &text, err) : fail_memory(err);
    map_free(named);
    return st;
}

/* with_second_names - the old index, byte for byte but for them. */
static ckpt_status with_second_names(struct replaced *r, buf *b, ckpt_error *err)
{
    ckpt_error why = {0};
    json_scan j;
    bool in = false;
    size_t from = 0;
    map *kept = map_new(r->n);
    bool ok = kept != NULL;
    for (size_t i = 0; ok && i + 1 < r->n; i++)
        if (r->parts[i].kept)
            ok = map_put(kept, str_c(r->parts[i].base), (uint32_t)i, NULL);
    json_init(&j, r->text, 0, r->a, &why);
    while (ok && next_shard(&j, &in)) {
        uint32_t i = map_get(kept, j.str);
        if (i == MAP_NONE)
            continue;
        buf_put(b, r->text.ptr + from, j.at - from); /* bounded: the scan goes forward */
        json_quote_ascii(b, base_of(r->parts[i].second));
        from = j.pos;
    }
    map_free(kept);
    buf_put(b, r->text.ptr + from, r->text.len - from); /* bounded: as above */
    return ok && why.status != CKPT_ENOMEM && buf_ok(b) ? CKPT_OK : fail_memory(err);
}

/* rewrite - the old index names second names from here on. */
static ckpt_status rewrite(struct replaced *r, ckpt_error *err)
{
    struct sink_options so = {.force = true, .no_sync = !r->sync};
    buf b;
    buf_init(&b, (size_t)MOST_BYTES);
    ckpt_status st = with_second_names(r, &b, err);
    if (st == CKPT_OK)
        st = sink_file_bytes(r->parts[r->n - 1].path, &so, buf_view(&b), err);
    buf_free(&b);
    return st;
}

/* ------------------------------------------------------- what only the old set had */

/* first_name - of a second one; others are as they are. */
static ckpt_str first_name(ckpt_str name)
{
    if (str_starts(name, STR_LIT(".")) && str_ends(name, STR_LIT(SECOND)))
        name = str_of(name.ptr + 1, name.len - sizeof SECOND); /* bounded: it begins and ends so */
    return name;
}

/* is_ours - is NAME what a set of this stem calls a shard? */
static bool is_ours(const struct replaced *r, ckpt_str name)
{
    ckpt_str digits = STR_LIT("-00000-of-00000"), rest = str_skip(name, r->stem.len);
    if (!str_starts(name, r->stem) || !str_ends(rest, r->ext) || rest.len - r->ext.len != digits.len)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        char c = rest.ptr[i];
        if (digits.ptr[i] == '0' ? c < '0' || c > '9' : c != digits.ptr[i])
            return false;
    }
    return true;
}

/* list_old - of the names in the old index only those stay that are to go when all is done. */
static ckpt_status list_old(struct replaced *r, ckpt_error *err)
{
    size_t n = 0, longest = r->stem.len + sizeof "-00000-of-00000" + r->ext.len; /* bounded: see is_ours */
    map *fresh = map_new(r->n);
    bool ok = fresh != NULL;
    for (size_t i = 0; ok && i < r->n; i++)
        ok = map_put(fresh, str_c(r->parts[i].base), 0, NULL);
    for (size_t i = 0; ok && i < r->nnames; i++) {
        ckpt_str name = first_name(r->names[i]);
        if (is_ours(r, name) && map_get(fresh, name) == MAP_NONE)
            r->names[n++] = name;
    }
    map_free(fresh);
    r->nnames = n;
    r->room = arena_alloc(r->a, r->folder.len + longest + sizeof "." SECOND); /* bounded: as above */
    if (!ok || !r->room)
        return fail_memory(err);
    memcpy(r->room, r->folder.ptr, r->folder.len);
    return CKPT_OK;
}

/* --------------------------------------------------------------- second names */

static void forget_names(struct replaced *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->parts[i].kept)
            (void)unlink(r->parts[i].second);
        r->parts[i].kept = false;
    }
}

/* keep - P gets a second name. What lies under that name already is of use if the index says
 * so: then a run was killed, and what has the first name is not the old set's. */
static bool keep(struct part *p, bool in_use)
{
    struct stat st;
    if (in_use) {
        p->kept = lstat(p->second, &st) == 0;
        return p->kept;
    }
    (void)unlink(p->second);
    if (lstat(p->path, &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = EXDEV;
        return false;
    }
    p->kept = linkat(AT_FDCWD, p->path, AT_FDCWD, p->second, 0) == 0;
    return p->kept;
}

static bool keep_all(struct replaced *r)
{
    struct part *index = &r->parts[r->n - 1];
    for (size_t i = 0; i + 1 < r->n; i++) {
        struct part *p = &r->parts[i];
        bool in_use = map_get(r->named, base_of(p->second)) != MAP_NONE;
        r->ours |= in_use;
        if (in_use)
            (void)keep(p, true);
        else if (p->was && map_get(r->named, str_c(p->base)) != MAP_NONE && !(r->renamed = keep(p, false)))
            return false;
    }
    /* Of an index with second names none is kept: to go back to it, they must stay. */
    if (!r->ours)
        return keep(index, false) || !r->renamed;
    (void)keep(index, true);
    return true;
}

/* no_links - is it that second names cannot be had here, rather than that something failed? */
static bool no_links(int why)
{
    return why == EPERM || why == EOPNOTSUPP || why == ENOSYS || why == EMLINK || why == EXDEV ||
           why == ENAMETOOLONG || why == EINVAL;
}

/* without_links - the old index goes, under its second name where that can be, so that a later run
 * knows what to remove; of a symbolic link, what it leads to. While it is there it may need the
 * second names. */
static ckpt_status without_links(struct replaced *r, ckpt_error *err)
{
    const struct part *index = &r->parts[r->n - 1];
    char *path = realpath(index->path, NULL);
    bool moved = path && r->text.len && rename(path, index->second) == 0;
    bool gone = moved || (path ? unlink(path) == 0 || errno == ENOENT : errno == ENOENT);
    ckpt_status st = gone ? CKPT_OK
                          : fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index that is to be replaced");
    if (moved)
        r->from = path;
    else
        free(path);
    CKPT_TRY(st);
    r->parts[r->n - 1].kept &= !moved;
    forget_names(r);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------ all */

static void replaced_free(struct replaced *r)
{
    map_free(r->named);
    arena_free(r->a);
    free(r->from);
    free(r);
}

static ckpt_status list_parts(struct replaced *r, const char *const *paths, ckpt_error *err)
{
    struct stat st;
    r->parts = arena_array(r->a, r->n, sizeof *r->parts);
    r->named = map_new(r->n);
    if (!r->parts || !r->named)
        return fail_memory(err);
    for (size_t i = 0; i < r->n; i++) {
        struct part *p = &r->parts[i];
        ckpt_str base = base_of(paths[i]);
        r->folder = str_of(paths[i], strlen(paths[i]) - base.len); /* bounded: BASE is its end */
        *p = (struct part){.path = arena_str(r->a, str_c(paths[i])).ptr, .second = second_name(r, base)};
        if (!p->path || !p->second)
            return fail_memory(err);
        r->folder.ptr = p->path;
        p->base = base_of(p->path).ptr;
        CKPT_TRY(look(p->path, &st, &p->was, err));
    }
    return CKPT_OK;
}

static ckpt_status begin(struct replaced *r, ckpt_error *err)
{
    bool was = r->parts[r->n - 1].was;
    ckpt_status st = take_left(r, err);
    if (st == CKPT_OK && was)
        st = take_index(r, r->parts[r->n - 1].path, r->named, &r->text, err);
    if (st == CKPT_OK)
        st = list_old(r, err);
    if (st == CKPT_OK && r->text.len) {
        if (keep_all(r))
            st = r->renamed ? rewrite(r, err) : CKPT_OK;
        else if (no_links(errno))
            st = without_links(r, err);
        else
            st = fail_errno(err, CKPT_NO_OFFSET, "cannot keep the set that is to be replaced");
    } else if (st == CKPT_OK && was) {
        st = without_links(r, err);
    }
    if (st != CKPT_OK)
        fail_file(err, r->parts[r->n - 1].path);
    return st;
}

ckpt_status replaced_begin(const char *const *paths, size_t n, const char *stem, const char *ext, bool sync,
                           struct replaced **out, ckpt_error *err)
{
    struct replaced *r = calloc(1, sizeof *r);
    if (!r || !(r->a = arena_new(MOST_BYTES))) {
        free(r);
        return fail_memory(err);
    }
    r->n = n;
    r->sync = sync;
    r->stem = arena_str(r->a, str_c(stem));
    r->ext = arena_str(r->a, str_c(ext));
    ckpt_status st = r->stem.ptr && r->ext.ptr ? list_parts(r, paths, err) : fail_memory(err);
    if (st != CKPT_OK) {
        replaced_free(r);
        return st;
    }
    if ((st = begin(r, err)) == CKPT_OK)
        *out = r;
    else
        replaced_undo(r, 0);
    return st;
}

/* restore - the old file under its first name again. */
static bool restore(const struct part *p)
{
    struct stat a, b;
    if (lstat(p->path, &a) == 0 && lstat(p->second, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        return true;
    return (unlink(p->path) == 0 || errno == ENOENT) && link(p->second, p->path) == 0;
}

void replaced_undo(struct replaced *r, size_t placed)
{
    const struct part *index = &r->parts[r->n - 1];
    bool whole = true;
    if (placed == r->n)
        (void)unlink(index->path);
    for (size_t i = 0; i + 1 < r->n; i++) {
        const struct part *p = &r->parts[i];
        if (p->kept)
            whole = whole && restore(p);
        else if (!p->was && i < placed)
            (void)unlink(p->path);
    }
    /* Where nothing was placed, and no second name is needed, the set is as it was but for its index. */
    if (r->from && (placed || r->ours || rename(index->second, r->from) != 0))
        (void)unlink(index->second);
    /* What fails here leaves the index with the second names, which then stay. */
    if (whole && (index->kept ? rename(index->second, index->path) == 0 : !r->ours))
        forget_names(r);
    replaced_free(r);
}

/* remove_old - NAME and its second name. */
static void remove_old(struct replaced *r, ckpt_str name)
{
    char *at = r->room + r->folder.len; /* bounded: list_old made room for both */
    memcpy(at, name.ptr, name.len);
    at[name.len] = '\0';
    (void)unlink(r->room);
    *at++ = '.';
    memcpy(at, name.ptr, name.len);
    memcpy(at + name.len, SECOND, sizeof SECOND); /* bounded: as above */
    (void)unlink(r->room);
}

bool replaced_by_one(const struct replaced *r)
{
    const struct part *index = &r->parts[r->n - 1];
    return (!index->kept && rename(index->path, index->second) == 0) || unlink(index->path) == 0 ||
           errno == ENOENT;
}

void replaced_done(struct replaced *r)
{
    for (size_t i = 0; i + 1 < r->n; i++)
        (void)unlink(r->parts[i].second);
    for (size_t i = 0; i < r->nnames; i++)
        remove_old(r, r->names[i]);
    (void)unlink(r->parts[r->n - 1].second);
    replaced_free(r);
}
