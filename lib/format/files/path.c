/* path.c - paths of files and folders, on disk or in an archive. */
#include "format/files/path.h"
#include "io/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "format/files/members.h"

char *path_make(ckpt_str folder, ckpt_str name)
{
    buf b;
    buf_init(&b, 1u << 16);
    buf_put_str(&b, folder);
    if (folder.len && folder.ptr[folder.len - 1] != '/')
        buf_byte(&b, '/');
    buf_put_str(&b, name);
    buf_byte(&b, 0);
    if (buf_ok(&b))
        return (char *)b.data;
    buf_free(&b);
    return NULL;
}

bool path_is_unsafe(ckpt_str name)
{
    size_t from = 0;
    if (!name.len || name.ptr[0] == '/' || memchr(name.ptr, 0, name.len))
        return true;
    while (from <= name.len) {
        size_t slash = str_find(name, STR_LIT("/"), from), end = slash == SIZE_MAX ? name.len : slash;
        if (end - from == 2 && memcmp(name.ptr + from, "..", 2) == 0)
            return true;
        from = end + 1;
    }
    return false;
}

char *path_to_show(const char *path)
{
    ckpt_str shown = address_is_url(path) ? url_show(path) : str_c(path);
    while (shown.len > 1 && address_is_url(path) && str_ends(shown, STR_LIT("/")) &&
           !str_ends(shown, STR_LIT("//"))) /* not that of a scheme */
        shown.len--;
    return strndup(shown.ptr, shown.len);
}

bool path_exists(const source *archive, const char *path)
{
    return archive ? members_find(archive, path) != MEMBER_NONE : access(path, F_OK) == 0;
}

bool path_is_folder(const source *archive, const char *path)
{
    return archive ? members_find(archive, path) == MEMBER_FOLDER : source_is_folder(path);
}

bool has_folder(const ckpt_file *f) { return f->archive || (f->src && source_is_named_file(f->src)); }

ckpt_str folder_of(const ckpt_file *f)
{
    return f->archive ? members_folder_of(f->archive, f->path) : str_folder(str_c(f->path));
}

ckpt_str name_of(const ckpt_file *f) { return str_skip(str_c(f->path), folder_of(f).len); }

ckpt_status path_check_regular(const char *path, ckpt_error *err)
{
    struct stat file_stat;
    if (stat(path, &file_stat) != 0 || S_ISREG(file_stat.st_mode))
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{no} {=regular file}\n"
                "a folder, pipe or device cannot be read here: put the file itself in its place");
}

/* path_if_exists - returns PATH if that file exists; else frees it and returns NULL. */
static char *path_if_exists(const source *archive, char *path)
{
    if (path && path_exists(archive, path))
        return path;
    free(path);
    return NULL;
}

char *path_find_prefix(const source *archive, const char *path)
{
    static const char pattern[] = "-????"
                                  "?-of-"; /* two literals, because ??- is a trigraph */
    size_t n = strlen(path), room = n + sizeof ".index";
    const char *found = strstr(path, pattern);
    char *file = malloc(room);
    if (file && found) {
        memcpy(file, path, n + 1);
        memcpy(file + (found - path) + 1, "00000", 5);
    } else if (file) {
        (void)snprintf(file, room, "%s.index", path);
    }
    return path_if_exists(archive, file);
}
