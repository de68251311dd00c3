/*
 * names.c - reads a text of tensor names, which is no checkpoint: `print(name)` for each key of a model,
 * or what `ckpt ls` prints. The format is not in formats.def, because nearly every text would match it.
 *
 *   LINE   NAME [TAB or two spaces, and anything] [CR] LF
 *
 * Empty lines are skipped. Refused: text that is not UTF-8, other control characters, a single blank inside a
 * name (such a text is prose, or a Git LFS pointer), and lines that begin as JSON, Python or HTML do.
 */
#include "base/utf8.h"
#include "core/check.h"
#include "format/format.h"
#include "format/kit.h"

static const struct format format_names = {.name = "names", .title = "list of names"};

static ckpt_str take_line(ckpt_str *text)
{
    size_t n = str_find(*text, STR_LIT("\n"), 0);
    ckpt_str line = n == SIZE_MAX ? *text : str_of(text->ptr, n);
    *text = str_skip(*text, line.len + 1); /* bounded: by the text */
    return line;
}

/* get_name - returns the name at the start of LINE, or an empty text. */
static ckpt_str get_name(ckpt_str line)
{
    size_t tab = str_find(line, STR_LIT("\t"), 0), gap = str_find(line, STR_LIT("  "), 0);
    size_t end = tab < gap ? tab : gap;
    ckpt_str name = str_of(line.ptr, end < line.len ? end : line.len);
    while (name.len && (name.ptr[name.len - 1] == '\r' || name.ptr[name.len - 1] == ' '))
        name.len--;
    return name;
}

static bool is_name(ckpt_str name)
{
    size_t pos = 0;
    if (memchr("{}[]()<>\"'`", name.ptr[0], 11) || memchr(name.ptr, ' ', name.len))
        return false;
    while (pos < name.len) {
        uint32_t cp = utf8_next(name, &pos, false);
        if (cp == UTF8_BAD || utf8_unsafe(cp))
            return false;
    }
    return true;
}

static ckpt_status add_name(ckpt_file *f, ckpt_str name)
{
    ckpt_error ignored;
    ckpt_path_elem *path = ARENA_NEW(f->a, ckpt_path_elem);
    if (!path)
        return CKPT_ENOMEM;
    path->str = name;
    struct row row = {.t = {.path = path,
                            .npath = 1,
                            .kind = CKPT_META,
                            .storage = CKPT_NO_STORAGE,
                            .file_offset = CKPT_NO_OFFSET,
                            .alias_of = CKPT_NO_TENSOR,
                            .part_of = CKPT_NO_TENSOR}};
    return file_add_row(f, &row, NULL, &ignored);
}

static ckpt_status read_names(ckpt_file *f)
{
    ckpt_error ignored;
    ckpt_str text;
    CKPT_TRY(kit_read_metadata(f, f->src, 0, f->src->size, &text, &ignored));
    while (text.len) {
        ckpt_str name = get_name(take_line(&text));
        if (name.len && !is_name(name))
            return CKPT_EUNKNOWN;
        if (name.len)
            CKPT_TRY(add_name(f, name));
    }
    return f->table.nrows ? CKPT_OK : CKPT_EUNKNOWN;
}

ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out)
{
    ckpt_error ignored;
    ckpt_file *f;
    CKPT_TRY(file_new(path, src, limits, &f, &ignored));
    f->format = &format_names;
    f->names_only = true;
    ckpt_status st = read_names(f);
    if (st == CKPT_OK)
        *out = f;
    else
        file_free(f);
    return st;
}
