#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attributes.h"
#include "cmd.h"
#include "git.h"
#include "json.h"

#define ATTRIBUTES_MAX ((size_t)1 << 20) /* bytes of a file of attributes */

static struct {
    bool local, global, check, remove;
} opts;

static const struct opt options[] = {
    {0, "local", NULL, OPT_FLAG, &opts.local, "for this repository (the default)"},
    {0, "global", NULL, OPT_FLAG, &opts.global, "for all repositories of this user"},
    {0, "check", NULL, OPT_FLAG, &opts.check, "change nothing; exit with 1 if something is missing"},
    {0, "remove", NULL, OPT_FLAG, &opts.remove, "undo the setup"},
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_git = {
    "git",  "setup [PATTERN…]", "let git diff show what changed in checkpoints", options, 1, NO_LIMIT,
    run_git};

/* The files whose names say that they are checkpoints, and not something else as well. */
static const char *const usual_patterns[] = {
    "*.pt",  "*.pth", "*.ckpt", "*.safetensors", "*.gguf",    "pytorch_model*.bin", "adapter_model.bin",
    "*.npz", "*.npy", "*.h5",   "*.keras",       "*.msgpack",
};

/* Git calls textconv for each version of a file, and keeps the text until this command line changes; the
 * number is that of the text's form. */
static const struct setting {
    const char *key, *value;
} settings[] = {
    {"diff.ckpt.textconv", "ckpt ls --text --text-version=1"},
    {"diff.ckpt.cachetextconv", "true"},
    {"diff.ckpt.binary", "true"}, /* a patch of the texts could not be applied */
    {"diff.ckpt.command", "ckpt diff --git"},
};
#define NSETTINGS (sizeof settings / sizeof *settings)

/* What was done, for the report. */
struct setup {
    const char *const *patterns;
    size_t npatterns;
    struct text path;               /* of the file of attributes */
    enum attribute_change *changes; /* by pattern */
    unsigned removed;               /* lines of that file that lost the driver */
    bool has_value[NSETTINGS];      /* before */
};

/* ------------------------------------------------------------------------ the file of attributes */

/* find_repository_attributes - sets PATH to the file of the repository's attributes. */
static int find_repository_attributes(struct text *path)
{
    static const char *const top[] = {"rev-parse", "--show-toplevel", NULL};
    int code = git_run(top, path);
    if (code == 0 && path->len)
        text_add(path, "/.gitattributes");
    if (code < 0)
        return EXIT_TROUBLE;
    return path->len ? EXIT_OK
                     : report_failure(CKPT_ENOTFOUND, NULL,
                                      "git init makes one; ckpt git setup --global needs none",
                                      "this folder is in no repository with files");
}

/* find_user_attributes - sets PATH to the file of the user's attributes, where git looks for it. */
static int find_user_attributes(struct text *path)
{
    static const char *const configured[] = {
        "config", "--global", "--type=path", "--get", "core.attributesFile", NULL};
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (git_run(configured, path) < 0)
        return EXIT_TROUBLE;
    if (path->len)
        return EXIT_OK;
    if (base && *base)
        text_addf(path, "%s/git/attributes", base);
    else if (home && *home)
        text_addf(path, "%s/.config/git/attributes", home);
    return path->len ? EXIT_OK
                     : report_failure(CKPT_ENOTFOUND, NULL, "set HOME, or use ckpt git setup --local",
                                      "HOME is not set, so there is no place for the user's attributes");
}

static int find_attributes(struct text *path)
{
    return opts.global ? find_user_attributes(path) : find_repository_attributes(path);
}

/* read_attributes - adds the bytes of the file PATH to LINES; a file that does not exist is empty. */
static int read_attributes(const char *path, struct text *lines)
{
    char bytes[4096];
    size_t got;
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT)
        return EXIT_OK;
    if (!file)
        return report_failure(CKPT_EIO, path, NULL, "%s", strerror(errno));
    while (lines->len <= ATTRIBUTES_MAX && (got = fread(bytes, 1, sizeof bytes, file)) > 0)
        text_bytes(lines, bytes, got);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return report_failure(CKPT_EIO, path, NULL, "%s", strerror(error));
    return lines->len <= ATTRIBUTES_MAX
               ? EXIT_OK
               : report_failure(CKPT_ELIMIT, path, NULL, "more than %zu bytes of attributes", ATTRIBUTES_MAX);
}

/* make_folders - makes the folders in which the file PATH is. Errors show when the file is made. */
static void make_folders(const char *path)
{
    struct text folder = {0};
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        text_clear(&folder);
        text_bytes(&folder, path, (size_t)(slash - path));
        (void)mkdir(folder.ptr, 0777);
    }
    text_free(&folder);
}

/* write_new - writes LINES to a new file in place of PATH, with its permissions. TEMPORARY is its name
 * before, and ends in XXXXXX. Returns an errno. */
static int write_new(char *temporary, const char *path, const struct text *lines)
{
    struct stat st;
    mode_t mask = umask(0);
    (void)umask(mask);
    int fd = mkstemp(temporary), error = 0;
    if (fd < 0)
        return errno;
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 07777 : 0666 & ~mask;
    if (fchmod(fd, mode) != 0 || write(fd, lines->ptr ? lines->ptr : "", lines->len) != (ssize_t)lines->len ||
        fsync(fd) != 0)
        error = errno ? errno : EIO;
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && rename(temporary, path) != 0)
        error = errno;
    if (error)
        (void)unlink(temporary);
    return error;
}

/* write_attributes - replaces the file PATH, or the file that it is a link to, by LINES. */
static int write_attributes(const char *path, const struct text *lines)
{
    char *target = realpath(path, NULL);
    struct text temporary = {0};
    if (!target)
        make_folders(path);
    text_addf(&temporary, "%s.XXXXXX", target ? target : path);
    int error = write_new(temporary.ptr, target ? target : path, lines);
    text_free(&temporary);
    free(target);
    return error ? report_failure(CKPT_EIO, path, NULL, "%s", strerror(error)) : EXIT_OK;
}

/* set_attributes - adds the driver to the patterns, or removes it, and notes what that changes. */
static int set_attributes(struct setup *setup)
{
    struct text lines = {0};
    bool changed = false;
    int status = read_attributes(setup->path.ptr, &lines);
    if (status == EXIT_OK && opts.remove)
        setup->removed = attributes_remove_driver(&lines);
    for (size_t i = 0; status == EXIT_OK && !opts.remove && i < setup->npatterns; i++) {
        setup->changes[i] = attributes_add_driver(&lines, setup->patterns[i]);
        changed = changed || setup->changes[i] == ATTRIBUTE_ADDED || setup->changes[i] == ATTRIBUTE_CHANGED;
    }
    if (status == EXIT_OK && !opts.check && (changed || setup->removed))
        status = write_attributes(setup->path.ptr, &lines);
    text_free(&lines);
    return status;
}

/* ------------------------------------------------------------------------------ git's settings */

static const char *scope(void) { return opts.global ? "--global" : "--local"; }

static int fail_config(const char *key, int code)
{
    return code < 0 ? EXIT_TROUBLE
                    : report_failure(CKPT_EIO, NULL, NULL, "git config %s %s failed with exit code %d",
                                     scope(), key, code);
}

/* find_settings - notes which settings have their value. */
static int find_settings(struct setup *setup)
{
    int status = EXIT_OK;
    for (size_t i = 0; status == EXIT_OK && i < NSETTINGS; i++) {
        const char *const get[] = {"config", scope(), "--get", settings[i].key, NULL};
        struct text value = {0};
        int code = git_run(get, &value);
        setup->has_value[i] = code == 0 && value.ptr && strcmp(value.ptr, settings[i].value) == 0;
        if (opts.remove && code == 0)
            setup->has_value[i] = true;
        if (code < 0 || code > 1)
            status = fail_config(settings[i].key, code);
        text_free(&value);
    }
    return status;
}

static int change_setting(const struct setting *setting)
{
    const char *const set[] = {"config", scope(), "--replace-all", setting->key, setting->value, NULL};
    const char *const unset[] = {"config", scope(), "--unset-all", setting->key, NULL};
    struct text ignored = {0};
    int code = git_run(opts.remove ? unset : set, &ignored);
    text_free(&ignored);
    return code == 0 ? EXIT_OK : fail_config(setting->key, code);
}

static int change_settings(const struct setup *setup)
{
    int status = EXIT_OK;
    for (size_t i = 0; status == EXIT_OK && i < NSETTINGS; i++)
        if (setup->has_value[i] == opts.remove)
            status = change_setting(&settings[i]);
    return status;
}

/* ------------------------------------------------------------------------------------- report */

static bool is_missing(enum attribute_change change)
{
    return change == ATTRIBUTE_ADDED || change == ATTRIBUTE_CHANGED;
}

/* count_changes - counts what the setup lacks, or with --remove, what it has. */
static size_t count_changes(const struct setup *setup)
{
    size_t count = setup->removed;
    for (size_t i = 0; !opts.remove && i < setup->npatterns; i++)
        count += is_missing(setup->changes[i]);
    for (size_t i = 0; i < NSETTINGS; i++)
        count += setup->has_value[i] == opts.remove;
    return count;
}

static void print_attributes(const struct setup *setup)
{
    struct text line = {0};
    size_t count = 0;
    for (size_t i = 0; !opts.remove && i < setup->npatterns; i++)
        if (is_missing(setup->changes[i])) {
            text_add(&line, count++ ? " " : "");
            text_name(&line, str_c(setup->patterns[i]));
        }
    if (count)
        line_printf("%s   diff=ckpt for %s", escape_name(str_c(setup->path.ptr)), line.ptr);
    if (setup->removed)
        line_printf("%s   diff=ckpt removed from %s", escape_name(str_c(setup->path.ptr)),
                    show_noun(setup->removed, "line", "lines"));
    text_free(&line);
}

static void print_settings(const struct setup *setup)
{
    for (size_t i = 0; i < NSETTINGS; i++) {
        if (setup->has_value[i] != opts.remove)
            continue;
        if (opts.remove)
            line_printf("git config %s --unset-all %s", scope(), settings[i].key);
        else
            line_printf("git config %s %s '%s'", scope(), settings[i].key, settings[i].value);
    }
}

static void print_setup(const struct setup *setup)
{
    size_t count = count_changes(setup);
    if (opts.check && count)
        print_reason(NULL, "the setup lacks:");
    print_attributes(setup);
    print_settings(setup);
    if (!count)
        line_printf(opts.remove ? "there is no setup" : "set up already");
}

static void print_setup_json(const struct setup *setup)
{
    static const char *const names[] = {"kept", "added", "changed", "foreign"}; /* by attribute_change */
    json *j = json_schema("ckpt.git.v1");
    json_text(j, "scope", scope() + 2);
    json_bool(j, "checked_only", opts.check);
    json_bool(j, "removed", opts.remove);
    json_u64(j, "changes", count_changes(setup));
    json_text(j, "attributes", setup->path.ptr);
    json *patterns = json_add_array(j, "patterns");
    for (size_t i = 0; !opts.remove && i < setup->npatterns; i++) {
        json *item = json_add_object(patterns, NULL);
        json_text(item, "pattern", setup->patterns[i]);
        json_text(item, "change", names[setup->changes[i]]);
    }
    json *list = json_add_array(j, "config");
    for (size_t i = 0; i < NSETTINGS; i++) {
        json *item = json_add_object(list, NULL);
        json_text(item, "key", settings[i].key);
        json_text(item, "value", settings[i].value);
        json_bool(item, "changed", setup->has_value[i] == opts.remove);
    }
    json_line(j, stdout);
}

/* print_doubts - prints notices about what keeps git from using ckpt. */
static void print_doubts(const struct setup *setup)
{
    for (size_t i = 0; !opts.remove && i < setup->npatterns; i++)
        if (setup->changes[i] == ATTRIBUTE_FOREIGN)
            print_notice(setup->path.ptr, "%s has another diff driver, or none on purpose: it stays",
                         escape_name(str_c(setup->patterns[i])));
}

/* ------------------------------------------------------------------------------------ command */

static int set_up(struct setup *setup)
{
    int status = find_attributes(&setup->path);
    if (status == EXIT_OK)
        status = find_settings(setup);
    if (status == EXIT_OK)
        status = set_attributes(setup);
    if (status == EXIT_OK && !opts.check)
        status = change_settings(setup);
    if (status != EXIT_OK)
        return status;
    print_doubts(setup);
    if (ui.json)
        print_setup_json(setup);
    else if (!ui.quiet || (opts.check && count_changes(setup)))
        print_setup(setup);
    return opts.check && count_changes(setup) ? EXIT_NO : EXIT_OK;
}

static int check_operands(int count, char **operand)
{
    if (strcmp(operand[0], "setup") != 0)
        return usage_error("git", "git has one subcommand, setup, and not '%s'",
                           escape_name(str_c(operand[0])));
    if (opts.local && opts.global)
        return usage_error("git", "--local and --global exclude each other");
    if (opts.check && opts.remove)
        return usage_error("git", "--check and --remove exclude each other");
    if (opts.remove && count > 1)
        return usage_error("git", "--remove takes no patterns: it removes the driver from all of them");
    for (int i = 1; i < count; i++)
        if (!attributes_is_pattern(operand[i]))
            return usage_error("git", "'%s' is no pattern of .gitattributes without quotes",
                               escape_name(str_c(operand[i])));
    return EXIT_OK;
}

int run_git(int count, char **operand)
{
    if (check_operands(count, operand) != EXIT_OK)
        return EXIT_TROUBLE;
    struct setup setup = {.patterns = usual_patterns,
                          .npatterns = sizeof usual_patterns / sizeof *usual_patterns};
    if (count > 1) {
        setup.patterns = (const char *const *)operand + 1;
        setup.npatterns = (size_t)count - 1;
    }
    setup.changes = mem_new(setup.npatterns, sizeof *setup.changes);
    int status = set_up(&setup);
    free(setup.changes);
    text_free(&setup.path);
    return status;
}
