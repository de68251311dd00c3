/*
 * scan_zip.c - every member of an archive, whatever its name.
 */
#include <inttypes.h>

#include "format/scan.h"

/* below - is NAME in FOLDER, which ends in '/', or in a folder of that name further down? */
static bool below(ckpt_str name, const char *folder)
{
    ckpt_str f = str_c(folder);
    for (size_t at = 0; (at = str_find(name, f, at)) != SIZE_MAX; at++)
        if (at == 0 || name.ptr[at - 1] == '/')
            return true;
    return false;
}

/* role_of - torch keeps storages in folders of their own, and nothing else there. */
static enum scan_role role_of(ckpt_str name)
{
    bool storage = below(name, "data/") || below(name, "tensors/") || below(name, "constants/") ||
                   str_ends(name, STR_LIT(".storage"));
    return storage ? SCAN_STORAGE : SCAN_MEMBER;
}

static ckpt_status member(struct scanner *x, zip *z, size_t i, ckpt_str where, uint64_t *known,
                          ckpt_error *err)
{
    const struct zip_entry *e = &z->entries[i];
    source *src = NULL;
    ckpt_error why;
    uint64_t inside = 0;
    if (e->usize == 0)
        return CKPT_OK;
    ckpt_status st = zip_data(z, i, &why);
    if (st == CKPT_OK)
        st = zip_member(z, i, &src, &why);
    if (st != CKPT_OK)
        return scan_found(x->s, st == CKPT_EUNSUPPORTED ? SCAN_ARC002 : SCAN_ZIP001, where, z->src, e->header,
                          "%s", why.what)
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    x->s->result->members++;
    x->depth++;
    st = scan_bytes(x, src, where, role_of(e->name), &inside, err);
    x->depth--;
    if (st == CKPT_OK && inside >= src->size)
        *known += e->csize; /* bounded: inside the archive */
    source_unref(src);
    return st;
}

/* has_code - program text that the loader of this archive runs. */
static ckpt_status has_code(struct scanner *x, const zip *z, ckpt_str where)
{
    size_t n = 0;
    ckpt_str first = str_of("", 0);
    for (size_t i = 0; i < z->n; i++)
        if (str_ends(z->entries[i].name, STR_LIT(".py")) && n++ == 0)
            first = z->entries[i].name;
    if (n == 0)
        return CKPT_OK;
    return scan_found(x->s, SCAN_SRC001, where, NULL, CKPT_NO_OFFSET,
                      "%zu file%s of program text, the first is %.*s", n, n == 1 ? "" : "s", STR_ARG(first))
               ? CKPT_OK
               : CKPT_ECANCELLED;
}

ckpt_status scan_zip(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    zip *z;
    ckpt_error why;
    uint64_t inside = 0, payload = 0;
    if (x->depth == 0)
        x->format = "zip";
    if (x->depth >= x->s->opts->max_depth)
        return scan_found(x->s, SCAN_ARC002, where, NULL, CKPT_NO_OFFSET, "an archive that lies too deep")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    ckpt_status st = zip_open(src, x->a, &z, &why);
    if (st == CKPT_ENOMEM || st == CKPT_EIO)
        return st;
    if (st != CKPT_OK)
        return scan_found(x->s, SCAN_ZIP001, where, NULL, CKPT_NO_OFFSET, "%s", why.what) ? CKPT_OK
                                                                                          : CKPT_ECANCELLED;
    for (size_t i = 0; st == CKPT_OK && i < z->n; i++) {
        ckpt_str name = scan_join(x, where, z->entries[i].name);
        payload += z->entries[i].csize; /* bounded: extents do not overlap */
        st = name.ptr ? member(x, z, i, name, &inside, err) : fail_memory(err);
    }
    if (st == CKPT_OK)
        st = has_code(x, z, where);
    *known += src->size - payload + inside; /* bounded: inside <= payload <= size */
    zip_close(z);
    return st == CKPT_OK ? scan_strict(x, src, where, NULL, NULL, err) : st;
}
