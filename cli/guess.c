#include "guess.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Damerau-Levenshtein distance, where two swapped neighbours count once. Keeps three rows of the matrix. */
int guess_distance(const char *typed, const char *meant)
{
    enum { MAX_WORD = 40 };
    size_t n = strlen(typed), m = strlen(meant);
    int row[3][MAX_WORD + 1];
    if (n > MAX_WORD || m > MAX_WORD)
        return -1;
    for (size_t j = 0; j <= m; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *current = row[i % 3], *previous = row[(i + 2) % 3], *before_previous = row[(i + 1) % 3];
        current[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = previous[j - 1] + (typed[i - 1] != meant[j - 1]);
            best = previous[j] + 1 < best ? previous[j] + 1 : best;
            best = current[j - 1] + 1 < best ? current[j - 1] + 1 : best;
            if (i > 1 && j > 1 && typed[i - 1] == meant[j - 2] && typed[i - 2] == meant[j - 1] &&
                before_previous[j - 2] + 1 < best)
                best = before_previous[j - 2] + 1;
            current[j] = best;
        }
    }
    int limit = m <= 2 ? 0 : m <= 4 ? 1 : 2; /* more changes than this are no typing error */
    if (n >= 2 && m >= 2 && (n < m || n == m + 1) && strncmp(typed, meant, n < m ? n : m) == 0)
        return 1; /* one word is the beginning of the other */
    return row[n % 3][m] <= limit ? row[n % 3][m] : -1;
}

/* How far the nearest word so far is from TYPED. */
struct nearest {
    const char *typed;
    int distance;
    bool found;
};

/* replace_if_nearer - returns true, and keeps the distance of WORD, if no word so far is as near. */
static bool replace_if_nearer(struct nearest *best, const char *word)
{
    int d = guess_distance(best->typed, word);
    if (d < 0 || (best->found && d >= best->distance))
        return false;
    best->distance = d;
    best->found = true;
    return true;
}

static const struct {
    const char *typed, *command, *operands;
} command_guesses[] = {
#define GUESS_COMMAND(typed, command, operands) {typed, command, operands},
#include "guesses.def"
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* is_option_value - returns true if WORD is probably no file, but a value for the option in COMMAND. */
static bool is_option_value(const char *command, const char *word)
{
    return strpbrk(command, "'=") && access(word, F_OK) != 0;
}

/* add_operands - adds the operands in ARGV; PLACEHOLDERS if there are none or COMMAND does not take them. */
static void add_operands(struct text *out, const char *command, int argc, char **argv,
                         const char *placeholders)
{
    bool takes_given = argc > 1 && !strchr(placeholders, '-') && !is_option_value(command, argv[1]);
    for (int i = 1; i < argc; i++)
        takes_given = takes_given && argv[i][0] != '-';
    if (!takes_given)
        text_addf(out, "%s%s", *placeholders ? " " : "", placeholders);
    for (int i = 1; takes_given && i < argc; i++) {
        text_add(out, " ");
        text_operand(out, argv[i]);
    }
}

/* suggest_command_line - sets OUT to the command line that was probably meant by ARGV, and returns its
 * command, or NULL if none is near. */
static const char *suggest_command_line(struct text *out, int argc, char **argv)
{
    struct nearest best = {.typed = argv[0]};
    const char *command = NULL, *operands = NULL;
    for (size_t i = 0; cmd_list[i]; i++)
        if (replace_if_nearer(&best, cmd_list[i]->name)) {
            command = cmd_list[i]->name;
            operands = "--help";
        }
    for (size_t i = 0; i < COUNT(command_guesses); i++)
        if (replace_if_nearer(&best, command_guesses[i].typed)) {
            command = command_guesses[i].command;
            operands = command_guesses[i].operands;
        }
    if (!command)
        return NULL;
    text_addf(out, "ckpt %s", command);
    add_operands(out, command, argc, argv, operands);
    return command;
}

int report_unknown_command(int argc, char **argv)
{
    struct text answer = {0};
    char shown[128];
    int status;
    ckpt_text_escape(str_of(argv[0]), shown, sizeof shown);
    const char *meant = suggest_command_line(&answer, argc, argv);
    if (meant) {
        status = usage_error_suggest(answer.ptr, "unknown command '%s'; did you mean `ckpt %s`?", shown,
                                     meant);
    } else if (access(argv[0], F_OK) == 0) {
        text_add(&answer, "ckpt info ");
        text_operand(&answer, argv[0]);
        status = usage_error_suggest(answer.ptr, "'%s' is a file, not a command", shown);
    } else {
        status = usage_error(NULL, "unknown command '%s'", shown);
    }
    text_free(&answer);
    return status;
}

static const struct {
    const char *commands, *typed, *answer;
} option_guesses[] = {
#define GUESS_OPTION(commands, typed, answer) {commands, typed, answer},
#include "guesses.def"
};

static bool is_command_listed(const char *commands, const struct cmd *cmd)
{
    char word[32];
    for (size_t i = 0; opt_choice(commands, i, word, sizeof word); i++)
        if (strcmp(word, cmd->name) == 0)
            return true;
    return strcmp(commands, "*") == 0;
}

/* answer_fits - returns true if ANSWER is a command line, or an option of CMD. */
static bool answer_fits(const struct cmd *cmd, const char *answer)
{
    if (answer[0] != '-')
        return true;
    for (const struct opt *o = cmd->opts; o->help; o++) {
        size_t n = o->name ? strlen(o->name) : 0;
        if (answer[1] != '-' ? answer[1] == o->letter
                             : n && strncmp(answer + 2, o->name, n) == 0 && strchr("= ;", answer[2 + n]))
            return true;
    }
    return false;
}

int report_unknown_option(const struct cmd *cmd, const char *word)
{
    size_t n = strcspn(word, "=");
    char name[64], shown[256];
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    ckpt_text_escape(str_of(name), shown, sizeof shown);
    struct nearest best = {.typed = name};
    const char *meant = NULL, *answer = NULL;
    for (const struct opt *o = cmd->opts; o->help; o++)
        if (o->name && replace_if_nearer(&best, o->name))
            meant = o->name;
    if (replace_if_nearer(&best, "help"))
        meant = "help";
    for (size_t i = 0; i < COUNT(option_guesses); i++)
        if (is_command_listed(option_guesses[i].commands, cmd) &&
            answer_fits(cmd, option_guesses[i].answer) && replace_if_nearer(&best, option_guesses[i].typed))
            answer = option_guesses[i].answer;
    if (answer)
        return usage_error(cmd->name, "unknown option '--%s'; use %s", shown, answer);
    if (meant)
        return usage_error(cmd->name, "unknown option '--%s'; did you mean '--%s'?", shown, meant);
    return usage_error(cmd->name, "unknown option '--%s'", shown);
}

static const struct {
    const char *option, *typed, *value;
} value_guesses[] = {
#define GUESS_VALUE(option, typed, value) {option, typed, value},
#include "guesses.def"
};

const char *guess_option_value(const char *option, const char *value)
{
    struct nearest best = {.typed = *value == '.' ? value + 1 : value}; /* --to=.npz is --to=npz */
    const char *meant = NULL;
    for (size_t i = 0; i < COUNT(value_guesses); i++)
        if (strcmp(value_guesses[i].option, option) == 0 &&
            (replace_if_nearer(&best, value_guesses[i].value) ||
             replace_if_nearer(&best, value_guesses[i].typed)))
            meant = value_guesses[i].value;
    for (size_t i = 0; strcmp(option, "optimizer") == 0 && ckpt_mem_optimizer_at(i); i++)
        if (replace_if_nearer(&best, ckpt_mem_optimizer_at(i)))
            meant = ckpt_mem_optimizer_at(i);
    return meant;
}

#define MAX_FILES 10000u /* names of a folder that are compared */

/* file_distance - returns guess_distance of two file names; the same suffix does not make them nearer. */
static int file_distance(const char *typed, const char *name)
{
    char stem_typed[64], stem_name[64];
    const char *typed_dot = strrchr(typed, '.'), *name_dot = strrchr(name, '.');
    int d = guess_distance(typed, name);
    if (d < 0 || !typed_dot || !name_dot || strcmp(typed_dot, name_dot) != 0)
        return d;
    snprintf(stem_typed, sizeof stem_typed, "%.*s", (int)(typed_dot - typed), typed);
    snprintf(stem_name, sizeof stem_name, "%.*s", (int)(name_dot - name), name);
    return guess_distance(stem_typed, stem_name);
}

/* find_nearest_file - sets NAME to the file in FOLDER that is nearest to TYPED; of several, the first by
 * name. Returns false if none is near. */
static bool find_nearest_file(const char *folder, const char *typed, char name[NAME_MAX + 1])
{
    int best = -1;
    struct dirent *e;
    DIR *dir = opendir(folder);
    for (unsigned i = 0; dir && i < MAX_FILES && (e = readdir(dir)); i++) {
        int d = e->d_name[0] == '.' ? -1 : file_distance(typed, e->d_name);
        if (d < 0 || (best >= 0 && (d > best || (d == best && strcmp(e->d_name, name) >= 0))))
            continue;
        best = d;
        snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return best >= 0;
}

bool guess_file(const char *path, char *hint, size_t cap)
{
    struct text folder = {0};
    char name[NAME_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    text_bytes(&folder, path, n);
    bool is_glob = strpbrk(path, "*?[") && answer_fits(ui.cmd, "-g");
    bool found = access(path, F_OK) != 0 &&
                 (is_glob || find_nearest_file(n ? folder.ptr : ".", path + n, name));
    if (found && is_glob) {
        text_clear(&folder);
        text_shell(&folder, path);
        snprintf(hint, cap, "to select tensors by name, use -g %s", folder.ptr);
    } else if (found) {
        text_add(&folder, name);
        snprintf(hint, cap, "did you mean '%s'?", escape_name(str_of(folder.ptr)));
    }
    text_free(&folder);
    return found;
}
