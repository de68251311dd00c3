/*
 * gin.c - scans configurations of gin (gin/config_parser.py), as t5x writes them next to a checkpoint. Each
 * statement begins a line:
 *   import a.b as c     imported; also "from a import b"
 *   include 'file'      a configuration, which is read
 *   f.x = @scope/c.g()  a function, called if its program registered it, or, after an import of
 *                       __gin__.dynamic_registration, any function of an imported module
 * gin splits it into tokens as Python does: comments and strings name nothing, and strings of three quotes
 * may have several lines.
 */
#include <stdlib.h>

#include "scan/scan.h"

#define IMPORTS_MAX 64u /* whose names are kept */

/* Packages that register what configurations name. */
static const char packages[] =
    "__gin__ clu flax gin jax mesh_tensorflow seqio t5 t5x tensor2tensor tensorflow trax";

struct gin {
    const struct scanned *in;
    ckpt_str text;      /* of the configuration */
    ckpt_str statement; /* that text without what is in comments and strings: see mask_text */
    ckpt_str names[IMPORTS_MAX], modules[IMPORTS_MAX]; /* by which a module is named, and the module */
    size_t nimports;
};

static bool is_name_char(char ch) { return ch == '_' || ch == '.' || is_ascii_alnum(ch); }

/* take_path - removes blanks and then a name with dots from *LINE, and returns the name. */
static ckpt_str take_path(ckpt_str *line)
{
    size_t n = 0;
    *line = str_trim_start(*line, " \t\r\n\\");
    while (n < line->len && is_name_char(line->ptr[n]))
        n++;
    ckpt_str path = str_of(line->ptr, n);
    *line = str_skip(*line, n);
    return path;
}

/* note_import - reports that MODULE is imported, unless it is of a known package, and keeps its NAME. */
static ckpt_status note_import(struct gin *gin, uint64_t at, ckpt_str module, ckpt_str name)
{
    if (gin->nimports < IMPORTS_MAX) {
        gin->names[gin->nimports] = name;
        gin->modules[gin->nimports++] = module;
    }
    return str_matches_word(str_before(module, '.'), packages, str_eq)
               ? CKPT_OK
               : SCAN_FOUND(gin->in, SCAN_LOADER_CODE, at, "%.*s, what gin imports", STR_ARG(module));
}

/* read_import - reads the rest LINE of an import statement; from PACKAGE, if that is not empty. */
static ckpt_status read_import(struct gin *gin, uint64_t at, ckpt_str line, ckpt_str package)
{
    ckpt_str module = take_path(&line), name = module;
    if (package.len)
        module = ARENA_CONCAT(gin->in->x->a, package, STR_LIT("."), module);
    if (!module.ptr)
        return scan_note_system_failure(gin->in->x->scan, CKPT_ENOMEM, NULL) ? CKPT_OK : CKPT_ENOMEM;
    if (str_is(take_path(&line), "as"))
        name = take_path(&line);
    return module.len ? note_import(gin, at, module, name) : CKPT_OK;
}

/* judge_reference - reports PATH, a function that the configuration names, if it runs code. */
static ckpt_status judge_reference(const struct gin *gin, uint64_t at, ckpt_str path)
{
    for (size_t i = 0; i < gin->nimports; i++) {
        size_t n = gin->names[i].len;
        if (!str_starts(path, gin->names[i]) || path.len <= n || path.ptr[n] != '.')
            continue;
        ckpt_str full = ARENA_CONCAT(gin->in->x->a, gin->modules[i], str_skip(path, n));
        if (!full.ptr || scan_target_runs_code(full))
            return scan_config_target(gin->in, at, full.ptr ? full : path);
    }
    return scan_target_runs_code(path) ? scan_config_target(gin->in, at, path) : CKPT_OK;
}

/* read_references - judges what LINE, which begins at AT, names after each "@". */
static ckpt_status read_references(const struct gin *gin, uint64_t at, ckpt_str line)
{
    size_t from = str_find(line, STR_LIT("@"), 0);
    while (from != SIZE_MAX) {
        ckpt_str rest = str_skip(line, from + 1), path = take_path(&rest);
        while (rest.len && *rest.ptr == '/') {
            rest = str_skip(rest, 1);
            path = take_path(&rest);
        }
        CKPT_TRY(judge_reference(gin, at + from, path));
        from = str_find(line, STR_LIT("@"), from + 1);
    }
    return CKPT_OK;
}

/* read_include - reports the file that LINE, the rest of an include statement, names, if it is elsewhere. */
static ckpt_status read_include(const struct gin *gin, uint64_t at, ckpt_str line)
{
    line = str_trim_end(line, " \t\r\n");
    line.ptr = gin->text.ptr + (line.ptr - gin->statement.ptr);
    line = str_trim_end(str_trim_start(line, " \t\r\n\\'\""), " \t\r\n'\"");
    return scan_path_leaves_folder(line) || str_has(line, STR_LIT("\\"))
               ? SCAN_FOUND(gin->in, SCAN_EXTERNAL_PATH, at,
                            "a configuration that gin reads is \"%.*s\", outside of the folder",
                            STR_ARG(line))
               : CKPT_OK;
}

static ckpt_status read_line(struct gin *gin, uint64_t at, ckpt_str line)
{
    ckpt_str rest = line, word = take_path(&rest);
    if (str_is(word, "import"))
        return read_import(gin, at, rest, STR_LIT(""));
    if (str_is(word, "from")) {
        ckpt_str package = take_path(&rest);
        return str_is(take_path(&rest), "import") ? read_import(gin, at, rest, package) : CKPT_OK;
    }
    return str_is(word, "include") ? read_include(gin, at, rest) : read_references(gin, at, line);
}

/* is_continued - returns true if the line of TEXT that ends at END goes on in the next. */
static bool is_continued(ckpt_str text, size_t end)
{
    ckpt_str line = str_first(text, end);
    return str_ends(line, STR_LIT("\\")) || str_ends(line, STR_LIT("\\\r"));
}

static ckpt_status read_lines(struct gin *gin)
{
    ckpt_str text = gin->statement;
    for (size_t from = 0; from < text.len;) {
        size_t end = str_find(text, STR_LIT("\n"), from);
        while (end != SIZE_MAX && is_continued(text, end))
            end = str_find(text, STR_LIT("\n"), end + 1);
        end = end == SIZE_MAX ? text.len : end;
        ckpt_str line = str_of(text.ptr + from, end - from);
        CKPT_TRY(read_line(gin, from, line));
        from = end + 1;
    }
    return CKPT_OK;
}

/* find_string_end - returns the offset after the string of Python that begins with the quote at AT. Sets
 * *UNENDED to the offset up to which it has no end, and returns AT + 1. */
static size_t find_string_end(ckpt_str text, size_t at, size_t *unended)
{
    const char *quote = text.ptr + at;
    bool is_triple = text.len - at > 2 && quote[1] == *quote && quote[2] == *quote;
    size_t size = is_triple ? 3 : 1;
    size_t i = at + size;
    for (; i < text.len; i++) {
        ckpt_str rest = str_skip(text, i);
        if (!is_triple && (*rest.ptr == '\n' || *rest.ptr == '\r'))
            break;
        if (*rest.ptr == '\\')
            i += str_starts(rest, STR_LIT("\\\r\n")) ? 2 : 1;
        else if (str_starts(rest, str_of(quote, size)))
            return i + size;
    }
    *unended = i;
    return at + 1;
}

/* mask_text - overwrites in TEXT comments by blanks, what is in strings by underscores, and ends of lines of
 * old Macs by newlines. A quote that begins no string is no character of Python: what follows it is kept. */
static void mask_text(char *text, size_t nbytes)
{
    ckpt_str all = str_of(text, nbytes);
    size_t unended[2] = {0, 0}, end; /* of strings in either quote */
    for (size_t i = 0; i < nbytes; i = end) {
        size_t *limit = &unended[text[i] == '"'];
        end = i + 1;
        if (text[i] == '#') {
            for (; end < nbytes && text[end] != '\n' && text[end] != '\r'; end++)
                text[end] = ' ';
            text[i] = ' ';
        } else if ((text[i] == '"' || text[i] == '\'') && i >= *limit) {
            end = find_string_end(all, i, limit);
            if (end - i > 2)
                memset(text + i + 1, '_', end - i - 2);
        } else if (text[i] == '\r' && (end == nbytes || text[end] != '\n')) {
            text[i] = '\n';
        }
    }
}

ckpt_status gin_scan(const struct yaml_file *file, ckpt_error *err)
{
    char *statement = malloc(file->text.len ? file->text.len : 1);
    CKPT_TRY_ALLOC(statement, err);
    struct gin g = {.in = file->in, .text = file->text};
    if (file->text.len)
        memcpy(statement, file->text.ptr, file->text.len);
    mask_text(statement, file->text.len);
    g.statement = str_of(statement, file->text.len);
    ckpt_status st = read_lines(&g);
    free(statement);
    return st;
}
