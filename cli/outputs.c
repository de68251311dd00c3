/* outputs.c - see outputs.h. Before a command that puts an output for each input into one folder writes the
 * first of them, all of their names are compared: the suffix may be changed, so that two inputs of different
 * names have outputs of one name, or an output has the name of an input that is still to be read. */
#include "outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "files.h"
#include "remote.h"

static const char index_suffix[] = ".index.json";

/* ------------------------------------------------------------------ format */

const char *output_path_format(const char *path)
{
    struct text t = {0};
    text_add(&t, strchr(path, '/') ? "" : "./");
    text_add(&t, path);
    const char *format = ckpt_write_format(t.ptr);
    text_free(&t);
    return format;
}

bool output_is_folder_path(const char *path)
{
    size_t n = strlen(path);
    return n && (path[n - 1] == '/' || is_folder(path));
}

const char *output_given_format(void)
{
    return writing.format ? ckpt_write_format(writing.format) : output_path_format(writing.output);
}

const char *output_format(const ckpt_file *f)
{
    const char *name = output_given_format();
    return name ? name : ckpt_file_format(f);
}

static bool ends_in(const char *text, const char *suffix)
{
    size_t n = strlen(text), length = strlen(suffix);
    return n > length && strcmp(text + n - length, suffix) == 0;
}

bool output_names_index(void) { return ends_in(writing.output, index_suffix); }

bool output_names_set(const ckpt_file *f)
{
    const char *path = writing.output, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *format = writing.format ? ckpt_write_format(writing.format) : NULL;
    bool fits = !writing.format ||
                (format && (strcmp(format, "safetensors") == 0 || strcmp(format, "torch-zip") == 0));
    return fits && !writing.max_shard && strcmp(ckpt_file_format(f), "hf-shards") == 0 &&
           (output_names_index() || output_is_folder_path(path) ||
            (*base && strcmp(path, "-") != 0 && !strchr(base, '.')));
}

/* ------------------------------------------------------------------- names */

/* length_without_suffix - returns the length of NAME (NBYTES bytes) without SUFFIX, in upper or lower case;
 * NBYTES if NAME does not end in SUFFIX, or is only that. */
static size_t length_without_suffix(const char *name, size_t nbytes, const char *suffix)
{
    size_t len = strlen(suffix);
    return nbytes > len && strncasecmp(name + nbytes - len, suffix, len) == 0 ? nbytes - len : nbytes;
}

/* stem_length - returns the length of NAME without a suffix that selects a format. */
static size_t stem_length(const char *name, size_t nbytes)
{
    size_t len_without_tar = length_without_suffix(name, nbytes, ".tar");
    const char *dot = strrchr(name, '.');
    if (!output_path_format(name) || !dot || dot == name)
        return nbytes;
    return len_without_tar < nbytes ? length_without_suffix(name, len_without_tar, ".pth")
                                    : (size_t)(dot - name);
}

/* add_base_name - adds the last component of INPUT, without the suffixes of an index or of a compressed file:
 * "model" if that is no name. */
static void add_base_name(struct text *name, const char *input)
{
    size_t end = strlen(input);
    while (end > 1 && input[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && input[begin - 1] != '/')
        begin--;
    text_bytes(name, input + begin, length_without_suffix(input + begin, end - begin, index_suffix));
    size_t compressed = compression_suffix_length(name->ptr);
    if (compressed < name->len)
        text_cut(name, name->len - compressed);
    if (strcmp(name->ptr, "-") == 0 || strcmp(name->ptr, ".") == 0 || strcmp(name->ptr, "..") == 0) {
        text_clear(name);
        text_add(name, "model");
    }
}

/* format_by_name - returns the format of an output called NAME: by --to, or its suffix; NULL: that of its
 * input. */
static const char *format_by_name(const char *name)
{
    return writing.format ? ckpt_write_format(writing.format) : output_path_format(name);
}

/* format_suffix - returns the suffix of FORMAT; if that is NULL, that of the input's format OWN. */
static const char *format_suffix(const char *format, const char *own)
{
    if (!format)
        format = ckpt_write_format(own);
    if (ckpt_write_format_is_flat(format))
        return ckpt_write_format_suffixes(format); /* flat formats have exactly one */
    return !format && strcmp(own, "hf-shards") == 0 ? ".safetensors" : ".pt";
}

/* add_path - adds the path of the output of INPUT, whose format is OWN, in the folder OUT. */
static void add_path(struct text *path, const char *input, const char *own)
{
    struct text name = {0};
    add_base_name(&name, input);
    const char *suffix = format_suffix(format_by_name(name.ptr), own), *named = output_path_format(name.ptr);
    bool keeps_suffix = named && strcmp(named, ckpt_write_format(suffix)) == 0; /* .pth stays .pth, not .pt */
    text_add(path, writing.output);
    if (path->ptr[path->len - 1] != '/')
        text_add(path, "/");
    text_bytes(path, name.ptr, keeps_suffix ? name.len : stem_length(name.ptr, name.len));
    text_add(path, keeps_suffix ? "" : suffix);
    text_free(&name);
}

bool output_is_folder(const char *own_format)
{
    const char *format = output_given_format();
    return !writing.max_shard && !ckpt_write_format_is_folder(format ? format : own_format) &&
           output_is_folder_path(writing.output);
}

void output_place(const ckpt_file *f, const char *input, const char *own_format, struct text *path)
{
    if (writing.keep_shards || !output_is_folder(own_format))
        return;
    add_path(path, input, ckpt_file_format(f));
    writing.output = path->ptr;
}

/* ------------------------------------------------------------ several inputs */

/* The outputs of the inputs, by their numbers. */
struct outputs {
    int n;
    char **inputs;
    struct text *paths; /* empty: the input cannot be opened */
    char **real;        /* the file that exists at that path; NULL: none */
};

static int fail_equal(const struct outputs *outputs, int left, int right)
{
    return report_failure(CKPT_EEXIST, outputs->inputs[right], "write them one by one, each to -o FILE",
                          "its output would be %s, and so would that of %s; nothing written",
                          escape_name(str_c(outputs->paths[right].ptr)),
                          escape_name(str_c(outputs->inputs[left])));
}

static int fail_own_folder(const char *input)
{
    return report_failure(CKPT_EUSAGE, input, "write them one by one, each into another folder",
                          "its output has several files, which need a folder of their own; nothing written");
}

/* name_by_content - sets PATH to the output of INPUT, whose name or kind depends on its content. */
static int name_by_content(const char *input, bool keeps_folders, struct text *path)
{
    ckpt_error ignored; /* is reported when the output is to be written */
    ckpt_file *f;
    int status = EXIT_OK;
    if (ckpt_open(remote_typed(input), &ui.limits, &f, &ignored) != CKPT_OK)
        return EXIT_OK;
    if (output_names_set(f) || !output_is_folder(keeps_folders ? ckpt_file_format(f) : NULL))
        status = fail_own_folder(input);
    else
        add_path(path, input, ckpt_file_format(f));
    ckpt_close(f);
    return status;
}

/* name_output - sets PATH to the output of INPUT in the folder that -o names. */
static int name_output(const char *input, bool keeps_folders, struct text *path)
{
    struct text name = {0};
    bool is_stdin = strcmp(input, "-") == 0;
    if (!output_is_folder(NULL))
        return fail_own_folder(input);
    if (is_stdin && !writing.format)
        return usage_error(ui.cmd->name,
                           "the name of the output for standard input depends on its format: use --to");
    add_base_name(&name, input);
    bool name_is_enough = output_path_format(name.ptr) && !is_folder(input) && !ends_in(input, index_suffix);
    text_free(&name);
    if (!name_is_enough && !is_stdin)
        return name_by_content(input, keeps_folders, path);
    add_path(path, input, "");
    return EXIT_OK;
}

/* find_existing - sets outputs->real of output INDEX. A link to nowhere is refused: two may lead to one
 * file. */
static int find_existing(struct outputs *outputs, int index)
{
    struct stat st;
    const char *path = outputs->paths[index].ptr;
    outputs->real[index] = realpath(path, NULL);
    if (outputs->real[index] || lstat(path, &st) != 0)
        return EXIT_OK;
    return report_failure(CKPT_EEXIST, path, "remove it first",
                          "is a link to a file that does not exist; nothing written");
}

static bool are_equal(const struct outputs *outputs, int left, int right)
{
    if (!outputs->paths[left].ptr || !outputs->paths[right].ptr)
        return false;
    return strcasecmp(outputs->paths[left].ptr, outputs->paths[right].ptr) ==
               0 || /* one file, if the disk ignores case */
           (outputs->real[left] && outputs->real[right] &&
            strcmp(outputs->real[left], outputs->real[right]) == 0);
}

static int name_outputs(struct outputs *outputs, bool keeps_folders)
{
    int status = EXIT_OK;
    for (int i = 0; status == EXIT_OK && i < outputs->n; i++) {
        status = name_output(outputs->inputs[i], keeps_folders, &outputs->paths[i]);
        if (status == EXIT_OK && outputs->paths[i].ptr)
            status = find_existing(outputs, i);
        for (int k = 0; status == EXIT_OK && k < i; k++)
            if (are_equal(outputs, k, i))
                status = fail_equal(outputs, k, i);
    }
    return status;
}

/* check_input - checks that no output but its own is a file of input INDEX. */
static int check_input(const struct outputs *outputs, int index)
{
    ckpt_error ignored; /* is reported when the output is to be written */
    ckpt_file *f;
    int status = EXIT_OK;
    if (strcmp(outputs->inputs[index], "-") == 0 ||
        ckpt_open(remote_typed(outputs->inputs[index]), &ui.limits, &f, &ignored) != CKPT_OK)
        return EXIT_OK;
    for (int k = 0; status == EXIT_OK && k < outputs->n; k++)
        if (k != index && outputs->real[k] && ckpt_file_contains_path(f, outputs->paths[k].ptr))
            status = report_failure(CKPT_EUSAGE, outputs->inputs[k],
                                    "write into another folder, then move it",
                                    "its output would replace %s, which is read, too; nothing written",
                                    escape_name(str_c(outputs->paths[k].ptr)));
    ckpt_close(f);
    return status;
}

/* check_folder - reports, once for all inputs, that the folder of the outputs does not exist. */
static int check_folder(void)
{
    struct stat st;
    struct text hint = {0};
    if (stat(writing.output, &st) == 0 || errno != ENOENT)
        return EXIT_OK;
    text_add(&hint, "mkdir -p ");
    text_operand(&hint, writing.output);
    int status = report_failure(CKPT_EIO, writing.output, hint.ptr,
                                "there is no such folder; nothing written");
    text_free(&hint);
    return status;
}

/* may_replace - returns true if a file exists at the path of an output and -f replaces it. */
static bool may_replace(const struct outputs *outputs)
{
    bool found = false;
    for (int i = 0; i < outputs->n; i++)
        found |= outputs->real[i] != NULL;
    return found && writing.force;
}

bool output_check_each(int count, char **inputs, bool keeps_folders)
{
    struct outputs o = {count, inputs, mem_new((size_t)count, sizeof *o.paths),
                        mem_new((size_t)count, sizeof *o.real)};
    int status = name_outputs(&o, keeps_folders);
    status = status == EXIT_OK ? check_folder() : status;
    bool checks_inputs = may_replace(&o);
    for (int i = 0; checks_inputs && status == EXIT_OK && i < count; i++)
        status = check_input(&o, i);
    for (int i = 0; i < count; i++) {
        text_free(&o.paths[i]);
        free(o.real[i]);
    }
    free(o.paths);
    free(o.real);
    return status == EXIT_OK;
}
