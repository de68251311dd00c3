#include "opt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guess.h"

static const struct opt help_opt = {'h', "help", NULL, OPT_FLAG, NULL, "show this help"};

/* What opt_parse() has parsed, for opt_command_line(). */
static struct {
    struct text options; /* each after a space */
    const char *output;
} given;

/* is_output - returns true if OPTION is -o, the output of a command that writes. */
static bool is_output(const struct opt *option)
{
    return option->letter == 'o' && option->type == OPT_TEXT && strcmp(option->name, "output") == 0;
}

void opt_command_line(struct text *out, const char *word, int count, char *const *operand, const char *output)
{
    text_addf(out, "ckpt %s%s", ui.cmd->name, given.options.len ? given.options.ptr : "");
    if (word) {
        text_add(out, " ");
        text_shell(out, word);
    }
    for (int i = 0; i < count; i++) {
        text_add(out, " ");
        text_operand(out, operand[i]);
    }
    if (!output && !given.output)
        return;
    text_add(out, " -o ");
    text_operand(out, output ? output : given.output);
}

int opt_fail_output(const char *word, int count, char *const *operand, const char *output)
{
    char shown[256];
    struct text hint = {0};
    ckpt_text_escape(str_c(output), shown, sizeof shown);
    opt_command_line(&hint, word, count, operand, output);
    int status = usage_error_suggest(hint.ptr, "unexpected argument '%s': the output goes after -o", shown);
    text_free(&hint);
    return status;
}

bool opt_choice(const char *words, size_t index, char *out, size_t cap)
{
    for (; index && words; index--) {
        words = strchr(words, '|');
        words = words ? words + 1 : NULL;
    }
    if (!words)
        return false;
    snprintf(out, cap, "%.*s", (int)strcspn(words, "|"), words);
    return true;
}

/* parse_size - parses a size as split(1) does: K and KiB are 1024, kB and KB 1000. */
static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGTP";
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long n = strtoull(text, &end, 10);
    uint64_t scale = 1;
    const char *unit = *end ? strchr(units, *end == 'k' ? 'K' : *end) : NULL;
    if (unit) {
        for (long i = 0; i <= unit - units; i++)
            scale *= end[1] == 'B' ? 1000 : 1024;
        end += end[1] == 'i' && end[2] == 'B' ? 2 : 1;
    }
    if (*end == 'B')
        end++;
    *out = n * scale;
    return !*end && !errno && n && *out / scale == n;
}

static bool set_choice(const struct opt *option, const char *value)
{
    char word[32];
    for (size_t i = 0; opt_choice(option->arg, i, word, sizeof word); i++) {
        if (strcmp(word, value) == 0) {
            *(int *)option->variable = (int)i;
            return true;
        }
    }
    return false;
}

static bool set_number(const struct opt *option, const char *value)
{
    char *end;
    errno = 0;
    if (option->type == OPT_REAL) {
        double d = strtod(value, &end);
        *(double *)option->variable = d;
        return end != value && !*end && isfinite(d) && d >= 0;
    }
    if (*value < '0' || *value > '9')
        return false;
    *(uint64_t *)option->variable = strtoull(value, &end, 10);
    return !*end && !errno;
}

static void append_value(struct list *list, const char *value)
{
    list->items = mem_make_room(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = value;
}

/* join_value - appends VALUE to the text at VARIABLE, after a comma if that has one. */
static void join_value(const char **variable, const char *value)
{
    size_t n = *variable ? strlen(*variable) : 0, size = n + strlen(value) + sizeof ",";
    char *joined = mem_grow((char *)(uintptr_t)*variable, size, 1);
    snprintf(joined + n, size - n, "%s%s", n ? "," : "", value);
    *variable = joined;
}

/* is_second_output - returns true if OPTION is -o, and was given with another value than VALUE before. */
static bool is_second_output(const struct opt *option, const char *value)
{
    const char *before = is_output(option) ? *(const char **)option->variable : NULL;
    return before && strcmp(before, value) != 0;
}

static int fail_second_output(const struct opt *option, const char *value)
{
    char shown[256], before[256];
    ckpt_text_escape(str_c(value), shown, sizeof shown);
    ckpt_text_escape(str_c(*(const char **)option->variable), before, sizeof before);
    return usage_error(ui.cmd->name, "unexpected -o '%s': the output is already '%s'", shown, before);
}

static bool set_option(const struct opt *option, const char *value)
{
    switch (option->type) {
    case OPT_GROUP: return false; /* opt_at() returns none */
    case OPT_FLAG: *(bool *)option->variable = true; return true;
    case OPT_TEXT: *(const char **)option->variable = value; return true;
    case OPT_LIST: append_value(option->variable, value); return true;
    case OPT_JOINED: join_value(option->variable, value); return true;
    case OPT_SIZE: return parse_size(value, option->variable);
    case OPT_CHOICE: return set_choice(option, value);
    case OPT_COUNT:
    case OPT_REAL: return set_number(option, value);
    }
    return false;
}

int opt_bad_value(const char *name, const char *value, const char *expected)
{
    const char *shown = escape_name(str_c(value)), *equals = strrchr(shown, '=');
    int n = equals ? (int)(equals + 1 - shown) : 0; /* bytes of "GLOB=" */
    const char *meant = guess_option_value(name, shown + n);
    if (meant)
        return usage_error(ui.cmd->name, "--%s '%.200s': did you mean --%s=%.*s%s?", name, shown, name, n,
                           shown, meant);
    return usage_error(ui.cmd->name, "--%s: invalid value '%.200s' (expected %s)", name, shown, expected);
}

static int fail_bad_value(const struct opt *option, const char *value)
{
    const char *expected = option->type == OPT_SIZE    ? "a size like 5GB, 512MiB, 2G or 1000000"
                           : option->type == OPT_COUNT ? "a whole number"
                           : option->type == OPT_REAL  ? "a number that is not negative"
                                                       : option->arg;
    return opt_bad_value(option->name, value, expected);
}

/* parse_value - sets OPTION to VALUE; returns OPT_PARSED, or an exit code after printing the error. */
static int parse_value(const struct opt *option, const char *value)
{
    if (is_second_output(option, value))
        return fail_second_output(option, value);
    return set_option(option, value) ? OPT_PARSED : fail_bad_value(option, value);
}

const struct opt *opt_at(const struct cmd *cmd, size_t index)
{
    for (const struct opt *o = cmd->opts; o->help; o++) {
        const struct opt *inner = o->type == OPT_GROUP ? o->variable : NULL;
        if (!inner && index-- == 0)
            return o;
        for (; inner && inner->help; inner++)
            if (index-- == 0)
                return inner;
    }
    return NULL;
}

const struct opt *opt_find(const struct cmd *cmd, const char *word)
{
    const struct opt *o;
    size_t n = strcspn(word, "=");
    if (n == 4 && memcmp(word, "help", 4) == 0)
        return &help_opt;
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
        if (o->name && strlen(o->name) == n && memcmp(o->name, word, n) == 0)
            return o;
    return NULL;
}

static const struct opt *find_letter(const struct cmd *cmd, char character)
{
    const struct opt *o;
    if (character == 'h')
        return &help_opt;
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
        if (o->letter == character)
            return o;
    return NULL;
}

/* parse_long_option - parses "--word[=value]" at argv[*INDEX], and moves *INDEX to the value if that is the
 * next argument. */
static int parse_long_option(const struct cmd *cmd, int argc, char **argv, int *index)
{
    const char *word = argv[*index] + 2, *eq = strchr(word, '=');
    const struct opt *o = opt_find(cmd, word);
    if (!o)
        return report_unknown_option(cmd, word);
    if (o == &help_opt) {
        opt_usage(cmd, stdout);
        return EXIT_OK;
    }
    if (!o->arg && eq)
        return usage_error(cmd->name, "--%s takes no value", o->name);
    if (o->arg && !eq && *index + 1 >= argc)
        return usage_error(cmd->name, "--%s needs %s", o->name, o->arg);
    return parse_value(o, !o->arg ? NULL : eq ? eq + 1 : argv[++*index]);
}

/* parse_short_options - parses "-ql", "-oFILE" or "-o" FILE at argv[*INDEX]. */
static int parse_short_options(const struct cmd *cmd, int argc, char **argv, int *index)
{
    for (const char *p = argv[*index] + 1; *p; p++) {
        const struct opt *o = find_letter(cmd, *p);
        if (!o) {
            char shown[16];
            ckpt_text_escape((ckpt_str){p, 1}, shown, sizeof shown);
            return usage_error(cmd->name, "unknown option '-%s'", shown);
        }
        if (o == &help_opt) {
            opt_usage(cmd, stdout);
            return EXIT_OK;
        }
        if (!o->arg) {
            set_option(o, NULL);
            continue;
        }
        if (!p[1] && *index + 1 >= argc)
            return usage_error(cmd->name, "-%c needs %s", *p, o->arg);
        return parse_value(o, p[1] ? p + 1 : argv[++*index]);
    }
    return OPT_PARSED;
}

/* has_piped_input - returns true if standard input is a pipe or a file. */
static bool has_piped_input(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

int opt_fail_too_few(const struct cmd *cmd)
{
    struct text hint = {0};
    if (cmd->min_operands > 1 || strncmp(cmd->operands, "FILE", 4) != 0 || !has_piped_input())
        return usage_error(cmd->name, "%s needs %s", cmd->name, cmd->operands);
    opt_command_line(&hint, NULL, 1, (char *[]){(char[]){"-"}}, NULL);
    int status = usage_error_suggest(hint.ptr, "%s needs %s; standard input is -", cmd->name, cmd->operands);
    text_free(&hint);
    return status;
}

/* fail_too_many - reports that COUNT operands are too many for CMD. If CMD writes, the first of these is
 * probably the output. */
static int fail_too_many(const struct cmd *cmd, int count, char *const *operand)
{
    char shown[256];
    int max = cmd->max_operands;
    const struct opt *o = find_letter(cmd, 'o');
    if (o && is_output(o) && count == max + 1 && !given.output)
        return opt_fail_output(NULL, max, operand, operand[max]);
    ckpt_text_escape(str_c(operand[max]), shown, sizeof shown);
    return usage_error(cmd->name, "unexpected argument '%s': %s takes %s", shown, cmd->name,
                       *cmd->operands ? cmd->operands : "none");
}

/* keep_given - keeps the COUNT words of an option of CMD for opt_command_line(). */
static void keep_given(const struct cmd *cmd, char **words, int count)
{
    const struct opt *o = words[0][1] == '-' ? opt_find(cmd, words[0] + 2) : find_letter(cmd, words[0][1]);
    if (o && o != &help_opt && is_output(o)) {
        given.output = *(const char **)o->variable;
        return;
    }
    for (int i = 0; i < count; i++) {
        text_add(&given.options, " ");
        text_shell(&given.options, words[i]);
    }
}

int opt_parse(const struct cmd *cmd, int argc, char **argv, int *count)
{
    bool only_operands = false;
    *count = 0;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        int code = OPT_PARSED, first = i;
        if (only_operands || word[0] != '-' || !word[1])
            argv[(*count)++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else
            code = word[1] == '-' ? parse_long_option(cmd, argc, argv, &i)
                                  : parse_short_options(cmd, argc, argv, &i);
        if (code != OPT_PARSED)
            return code;
        if (!only_operands && word[0] == '-' && word[1])
            keep_given(cmd, argv + first, i - first + 1);
    }
    if (*count < cmd->min_operands)
        return opt_fail_too_few(cmd);
    if (*count > cmd->max_operands)
        return fail_too_many(cmd, *count, argv);
    bool has_output = *count == 2 && strcmp(cmd->name, "convert") == 0; /* `convert - -` */
    for (int i = 0, nstdin = 0; cmd->max_operands > 2 && !has_output && i < *count; i++)
        if (strcmp(argv[i], "-") == 0 && nstdin++)
            return usage_error(cmd->name, "standard input can be read only once, but '-' is given twice");
    return OPT_PARSED;
}

void opt_help(const struct opt *option, struct text *out)
{
    static const char formats_word[] = "{formats}";
    const char *at = strstr(option->help, formats_word);
    text_bytes(out, option->help, at ? (size_t)(at - option->help) : strlen(option->help));
    if (at) {
        text_formats(out, ", ", " or ");
        text_add(out, at + strlen(formats_word));
    }
}

static void print_option(const struct opt *option, FILE *stream)
{
    char left_column[64];
    struct text help = {0};
    int n = option->letter ? snprintf(left_column, sizeof left_column, "  -%c%s", option->letter,
                                      option->name ? ", " : "")
                           : snprintf(left_column, sizeof left_column, "      ");
    if (option->name)
        n += snprintf(left_column + n, sizeof left_column - (size_t)n, "--%s", option->name);
    if (option->arg)
        n += snprintf(left_column + n, sizeof left_column - (size_t)n, "%c%s", option->name ? '=' : ' ',
                      option->arg);
    opt_help(option, &help);
    if (n > 27)
        print_text(stream, "%s\n%28s%s\n", left_column, "", help.ptr);
    else
        print_text(stream, "%-28s%s\n", left_column, help.ptr);
    text_free(&help);
}

void opt_usage(const struct cmd *cmd, FILE *stream)
{
    const struct opt *o;
    print_text(stream, "usage: ckpt %s [options] %s\n%s\n\n", cmd->name, cmd->operands, cmd->about);
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
        print_option(o, stream);
    print_option(&help_opt, stream);
    print_text(stream, "\n`ckpt help %s` shows the manual with examples.\n", cmd->name);
}
