/*
 * container.c - reads a checkpoint that is a member of a zip or tar archive, which may be compressed:
 *
 *   NeMo's .nemo               tar or tar.gz: model_config.yaml, model_weights.ckpt, tokenizers; or in place
 *                              of model_weights.ckpt a folder model_weights/ with a distributed checkpoint
 *   Stable-Baselines3's .zip   data (JSON), policy.pth, policy.optimizer.pth, pytorch_variables.pth
 *   any other                  a checkpoint with its usual suffix
 *
 * FILE!MEMBER names a member. FILE itself is the weights of NeMo or Stable-Baselines3, else the only member
 * with the suffix of a checkpoint, apart from the companions of weights, such as optimizer.pt. Which that is
 * depends on the names alone; its content is then recognized like that of a file.
 *
 * Refused: several such members, or a distributed checkpoint; a name that two members have; a member that is
 * encrypted or unpacks to more than MAX_UNPACKED bytes and 100 times its size. Sources: nemo/core/connectors/
 * save_restore_connector.py, stable_baselines3/common/save_util.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/text.h"
#include "codec/tar.h"
#include "format/folder.h"
#include "format/recognize.h"
#include "io/spool.h"

#define SEPARATOR    '!'
#define MAX_UNPACKED (UINT64_C(1) << 30)
#define MAX_INDEX    (UINT64_C(1) << 28) /* bytes of the list of members */

/* An archive and its members. */
struct container {
    source *src; /* the archive, unpacked; not owned */
    arena *a;
    zip *z; /* NULL: a tar */
    struct tar_entry *tar;
    size_t n; /* members */
};

/* A member as a source of its own: FILE!MEMBER is named, so offsets are in the member. */
struct member_source {
    source as_source;
    source *bytes;
};

/* ------------------------------------------------------------------------- source */

static ckpt_status member_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    return source_read(((struct member_source *)s)->bytes, off, out, n, err);
}

static void member_close(source *s)
{
    source_unref(((struct member_source *)s)->bytes);
    free(s);
}

static void member_advise(source *s) { source_advise_sequential(((struct member_source *)s)->bytes); }

static bool member_extent(source *s, uint64_t off, int *fd, uint64_t *at)
{
    return source_extent(((struct member_source *)s)->bytes, off, fd, at);
}

static ckpt_status member_map(source *s, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    /* any length would do: source_map has checked the range */
    return source_map(((struct member_source *)s)->bytes, off, 1, out, err);
}

static const struct source_ops member_ops = {.read_at = member_read,
                                             .close = member_close,
                                             .advise_sequential = member_advise,
                                             .extent = member_extent,
                                             .map = member_map};

bool container_is_member(const source *s) { return s->ops == &member_ops; }

/* wrap_member - sets *OUT to a source of BYTES (taken over). */
static ckpt_status wrap_member(source *bytes, source **out, ckpt_error *err)
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
                            .block_size = bytes->block_size};
    s->bytes = bytes;
    *out = &s->as_source;
    return CKPT_OK;
}

/* ------------------------------------------------------------------------ members */

static void container_close(struct container *c)
{
    zip_close(c->z);
    arena_free(c->a);
}

/* container_open - lists the members of SRC. The caller calls container_close also after a failure. */
static ckpt_status container_open(struct container *c, source *src, ckpt_error *err)
{
    struct probe *p = calloc(1, sizeof *p);
    *c = (struct container){.src = src, .a = arena_new(MAX_INDEX)};
    ckpt_status st = p && c->a ? recognize_fill(p, "", src, err) : fail_memory(err);
    bool is_zip = st == CKPT_OK && recognize_archive(p), is_tar = st == CKPT_OK && recognize_as(p, SIGN_TAR);
    free(p);
    CKPT_TRY(st);
    if (is_zip) {
        CKPT_TRY(zip_open(src, c->a, &c->z, err));
        CKPT_TRY(zip_index_names(c->z, err));
        c->n = c->z->n;
        return CKPT_OK;
    }
    return is_tar ? tar_list(src, c->a, false, &c->tar, &c->n, err)
                  : fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET, "not {=a zip or tar archive}: no members");
}

/* get_name - returns the name of member I without a leading "./"; empty: it is no regular file. */
static ckpt_str get_name(const struct container *c, size_t i)
{
    ckpt_str name = c->z ? c->z->entries[i].name : c->tar[i].name;
    bool is_file = c->z ? !str_ends(name, STR_LIT("/")) : c->tar[i].type == '0' || !c->tar[i].type;
    if (str_starts(name, STR_LIT("./")))
        name = str_skip(name, 2);
    return is_file ? name : STR_LIT("");
}

/* unpack_member - sets *OUT to the bytes of the compressed entry E, read from PACKED. */
static ckpt_status unpack_member(const struct container *c, const struct zip_entry *e, source *packed,
                                 source **out, ckpt_error *err)
{
    uint64_t max = size_mul(e->csize, 100) > MAX_UNPACKED ? size_mul(e->csize, 100) : MAX_UNPACKED;
    uint32_t crc = 0;
    if (e->usize > max)
        return fail(err, CKPT_ELIMIT, source_pos(c->z->src, e->header_offset),
                    "it unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} are read", e->usize, max);
    spool *to = spool_new(max);
    if (!to)
        return fail_memory(err);
    ckpt_status st = spool_copy(to, packed, 0, packed->size, err);
    if (st != CKPT_OK) {
        spool_free(to);
        return st;
    }
    *out = spool_source(to);
    st = source_crc(*out, 0, (*out)->size, CRC_32, &crc, err);
    if (st == CKPT_OK && !c->z->crc_none && crc != e->crc)
        st = fail(err, CKPT_ECHECKSUM, source_pos(c->z->src, e->header_offset),
                  "its CRC-32 is {%08x}, the central directory records {=%08x}\n"
                  "the file is damaged; fetch it again",
                  crc, e->crc);
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

static ckpt_status open_zip_member(const struct container *c, size_t i, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &c->z->entries[i];
    source *member;
    CKPT_TRY(zip_open_member(c->z, i, &member, err));
    ckpt_status st = source_locate(member, err);
    if (st == CKPT_OK)
        st = e->method == ZIP_STORED ? source_slice(c->src, e->data_offset, e->usize, out, err)
                                     : unpack_member(c, e, member, out, err);
    source_unref(member);
    return st;
}

/* open_member - sets *OUT to the bytes of member I. */
static ckpt_status open_member(const struct container *c, size_t i, source **out, ckpt_error *err)
{
    source *bytes;
    ckpt_status st = c->z ? open_zip_member(c, i, &bytes, err)
                          : source_slice(c->src, c->tar[i].data, c->tar[i].size, &bytes, err);
    if (st != CKPT_OK)
        return prefix_where_if_failed(st, get_name(c, i), err);
    return wrap_member(bytes, out, err);
}

/* ------------------------------------------------------------------------- choice */

static ckpt_str get_last_name(ckpt_str name) { return str_skip(name, str_folder(name).len); }

static bool is_checkpoint(ckpt_str name)
{
    static const char suffixes[] = ".pt .pth .bin .ckpt .safetensors .gguf .h5 .keras .msgpack .npz .onnx "
                                   ".params .pdparams .pdiparams .ptl .pkl .joblib .th";
    return str_matches_word(name, suffixes, str_ends);
}

/* is_preferred - returns true for the weights of NeMo and Stable-Baselines3, which have other checkpoints
 * next to them. */
static bool is_preferred(ckpt_str name)
{
    return str_is(name, "model_weights.ckpt") || str_is(name, "policy.pth");
}

static bool is_distributed(ckpt_str name)
{
    return str_is(get_last_name(name), ".metadata") || str_ends(name, STR_LIT(".distcp"));
}

/* The members that a container may stand for. */
struct choice {
    size_t first; /* the index of the first of them; the preferred one, if there is one */
    size_t n, npreferred;
    size_t distributed; /* index of a file of a distributed checkpoint, or SIZE_MAX */
};

static void choose(const struct container *c, struct choice *out)
{
    *out = (struct choice){.distributed = SIZE_MAX};
    for (size_t i = 0; i < c->n; i++) {
        ckpt_str name = get_name(c, i);
        bool preferred = is_preferred(name);
        if (name.len && is_distributed(name))
            out->distributed = i;
        if (!preferred && (!is_checkpoint(name) || folder_is_companion(get_last_name(name))))
            continue;
        if (out->n++ == 0 || (preferred && !out->npreferred))
            out->first = i;
        out->npreferred += preferred;
    }
}

static bool is_clear(const struct choice *choice)
{
    return choice->npreferred == 1 || (choice->n == 1 && choice->distributed == SIZE_MAX);
}

/* join_member - returns PATH!NAME; .ptr NULL: out of memory. */
static ckpt_str join_member(const struct container *c, const char *path, ckpt_str name)
{
    return ARENA_CONCAT(c->a, str_c(path), STR_LIT("!"), name);
}

/* hint_members - sets the hint of ERR to the members of C, an archive of the name PATH: its checkpoints or,
 * if there is none, all. */
static void hint_members(const struct container *c, const char *path, ckpt_error *err)
{
    char text[sizeof err->hint - 40], word[SHELL_WORD_MAX];
    size_t used = 0, shown = 0, n = 0, checkpoints = 0;
    for (size_t i = 0; i < c->n; i++)
        checkpoints += is_checkpoint(get_name(c, i));
    for (size_t i = 0; i < c->n; i++) {
        ckpt_str name = get_name(c, i);
        if (!name.len || (checkpoints && !is_checkpoint(name)))
            continue;
        n++;
        ckpt_str full = join_member(c, path, name);
        const char *shown_name = full.ptr ? shell_path(full.ptr, word) : "FILE!MEMBER";
        if (shown + 1 != n || strlen(shown_name) + 3 > sizeof text - used)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown ? ", " : "", shown_name);
        shown++;
    }
    if (shown && shown < n)
        error_add_hint(err, "name one: %s and %zu more", text, n - shown);
    else if (shown)
        error_add_hint(err, "name %s%s", n > 1 ? "one: " : "", text);
}

static ckpt_status fail_distributed(const struct container *c, size_t i, const char *path, ckpt_error *err)
{
    ckpt_str folder = str_folder(get_name(c, i));
    char word[SHELL_WORD_MAX], name[SHELL_WORD_MAX];
    if (folder.len > 1)
        folder.len--; /* bounded: the slash */
    (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               "{a distributed checkpoint} in an archive; it is read as {=a folder}");
    error_add_hint(err, "unpack it: `%s %s`, then name the folder %s", c->z ? "unzip" : "tar -xf",
                   shell_path(path, word),
                   shell_word(folder.len ? folder : STR_LIT("."), "", "FOLDER", name));
    return CKPT_EUNSUPPORTED;
}

static ckpt_status fail_unclear(const struct container *c, const struct choice *choice, const char *path,
                                ckpt_error *err)
{
    if (choice->distributed != SIZE_MAX)
        return fail_distributed(c, choice->distributed, path, err);
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
               "archive with %zu checkpoints: it is not clear which of them is meant", choice->n);
    hint_members(c, path, err);
    return CKPT_EUSAGE;
}

/* -------------------------------------------------------------------- FILE!MEMBER */

/* find_member - sets *OUT to the index of the only member NAME. */
static ckpt_status find_member(const struct container *c, const char *path, ckpt_str name, size_t *out,
                               ckpt_error *err)
{
    size_t n = 0;
    *out = 0;
    ckpt_str wanted = str_starts(name, STR_LIT("./")) ? str_skip(name, 2) : name;
    for (size_t i = 0; i < c->n; i++)
        if (wanted.len && str_eq(get_name(c, i), wanted)) {
            *out = i;
            n++;
        }
    if (n == 1)
        return CKPT_OK;
    if (n)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%zu members} are called \"%.*s\", {=one} is allowed",
                    n, STR_ARG(wanted));
    for (size_t i = 0; i < c->n; i++) /* the name of a folder? */
        if (is_distributed(get_name(c, i)) && wanted.len && str_starts(get_name(c, i), wanted))
            return fail_distributed(c, i, path, err);
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no member of the archive is called \"%.*s\"",
               STR_ARG(wanted));
    hint_members(c, path, err);
    return CKPT_ENOTFOUND;
}

/* unpack_outer - sets *OUT to ARCHIVE, unpacked if it is compressed. */
static ckpt_status unpack_outer(source *archive, source **out, ckpt_error *err)
{
    struct probe *p = calloc(1, sizeof *p);
    ckpt_status st = p ? recognize_fill(p, "", archive, err) : fail_memory(err);
    const struct signature *s = st == CKPT_OK ? recognize_compression(p) : NULL;
    free(p);
    if (st != CKPT_OK || !s || s->kind == SIGN_ZLIB) {
        *out = st == CKPT_OK ? source_ref(archive) : NULL;
        return st;
    }
    uint64_t used, max = size_mul(archive->size, 100);
    max = max > MAX_UNPACKED ? max : MAX_UNPACKED;
    st = unpack_head(archive, s, max, out, &used, err);
    if (st != CKPT_OK) {
        source_unref(*out);
        *out = NULL;
    }
    return st;
}

/* open_named - sets *OUT to the member NAME of the archive ARCHIVE, a file of the name PATH. */
static ckpt_status open_named(source *archive, const char *path, ckpt_str name, source **out, ckpt_error *err)
{
    struct container c;
    source *unpacked;
    size_t i;
    CKPT_TRY(unpack_outer(archive, &unpacked, err));
    ckpt_status st = container_open(&c, unpacked, err);
    if (st == CKPT_OK)
        st = find_member(&c, path, name, &i, err);
    if (st == CKPT_OK)
        st = open_member(&c, i, out, err);
    container_close(&c);
    source_unref(unpacked);
    return st;
}

ckpt_status container_open_path(const char *path, source **out, ckpt_error *err)
{
    ckpt_status st = CKPT_ENOTFOUND;
    ckpt_error ignored;
    *out = NULL;
    for (const char *mark = strchr(path, SEPARATOR); mark && !*out && st == CKPT_ENOTFOUND;
         mark = strchr(mark + 1, SEPARATOR)) {
        source *archive;
        size_t n = (size_t)(mark - path); /* bounded: MARK is in PATH */
        char *file = malloc(n + 1);
        if (!file)
            return fail_memory(err);
        memcpy(file, path, n);
        file[n] = '\0';
        if (n && !source_is_folder(file) && source_file_open(file, &archive, &ignored) == CKPT_OK) {
            st = name_file_if_failed(open_named(archive, file, str_c(mark + 1), out, err), file, err);
            source_unref(archive);
            if (st == CKPT_ENOTFOUND)
                st = CKPT_EUSAGE; /* the archive is there: its error counts */
        }
        free(file);
    }
    return st;
}

/* ------------------------------------------------------------------------- format */

static bool probe(const struct probe *p)
{
    struct container c;
    struct choice choice = {.n = 0, .distributed = SIZE_MAX};
    if (p->is_folder || (!p->zip && !recognize_as(p, SIGN_TAR)))
        return false;
    ckpt_error why;
    ckpt_status st = container_open(&c, p->src, &why);
    if (st == CKPT_OK)
        choose(&c, &choice);
    container_close(&c);
    if (st == CKPT_ENOMEM)
        *p->no_memory = true;
    return choice.n || choice.distributed != SIZE_MAX;
}

static ckpt_status read_member(ckpt_file *f, const struct container *c, size_t i, ckpt_error *err)
{
    source *bytes;
    ckpt_file *part = NULL;
    ckpt_str name = get_name(c, i);
    ckpt_str path = join_member(c, f->path, name);
    if (!path.ptr)
        return fail_memory(err);
    CKPT_TRY(open_member(c, i, &bytes, err));
    CKPT_TRY(format_open_part(f, path.ptr, bytes, &part, err));
    if (!part) /* its fault was reported */
        return err->status;
    file_take_over(f, part);
    f->torch_load_refusal = STR_LIT("it is in an archive");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct container c;
    struct choice choice;
    ckpt_status st = container_open(&c, f->src, err);
    if (st == CKPT_OK) {
        choose(&c, &choice);
        st = is_clear(&choice) ? read_member(f, &c, choice.first, err)
                               : fail_unclear(&c, &choice, f->path, err);
    }
    container_close(&c);
    return st;
}

const struct format format_container = {
    .name = "container", .title = "archive with a checkpoint", .probe = probe, .read = read};
