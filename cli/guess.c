#include "guess.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "files.h"
#include "outputs.h"
#include "remote.h"

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
    const char *typed, *line, *word;
} command_guesses[] = {
#define GUESS_COMMAND(typed, line, word) {typed, line, word},
#include "guesses.def"
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What was given to an unknown command: the operands, by what they probably are in the command line that is
 * suggested. */
struct given {
    const char *files[64];
    size_t nfiles;
    const char *word, *output; /* NULL: not given */
    struct text options;       /* those that the suggested command has, too */
    bool is_unclear;           /* something is neither of these: suggest placeholders */
};

/* How a suggested command line is made from LINE, a template of guesses.def. */
struct suggestion {
    const char *line, *word; /* WORD: what stands for WORD in the line if none is given */
    const struct cmd *cmd;   /* NULL: none, as for --version */
    struct given given;
};

static const struct cmd *find_command(const char *line)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
    return cmd_find(name);
}

static const struct opt *find_option(const struct cmd *cmd, const char *option)
{
    const struct opt *o;
    const char *name = option + 2;
    for (size_t i = 0; cmd && (o = opt_at(cmd, i)); i++)
        if (option[1] != '-' ? o->letter == option[1]
                             : o->name && strlen(o->name) == strcspn(name, "=") &&
                                   strncmp(o->name, name, strlen(o->name)) == 0)
            return o;
    return NULL;
}

static bool is_path(const char *word)
{
    return strcmp(word, "-") == 0 || access(word, F_OK) == 0 || strpbrk(word, "/!") ||
           output_path_format(word);
}

/* is_word - returns true if WORD may stand for WORD in SUGGESTION: a size, a dtype or any name, as
 * suggestion->word is. */
static bool is_word(const struct suggestion *suggestion, const char *word)
{
    if (!strstr(suggestion->line, "WORD") || suggestion->given.word || is_path(word))
        return false;
    if (suggestion->word[0] >= '0' && suggestion->word[0] <= '9')
        return word[0] >= '0' && word[0] <= '9';
    return !guess_option_value("cast", suggestion->word) || guess_option_value("cast", word);
}

/* get_word - returns WORD, for which is_word is true, as the command takes it. */
static const char *get_word(const struct suggestion *suggestion, const char *word)
{
    const char *dtype = guess_option_value("cast", suggestion->word) ? guess_option_value("cast", word)
                                                                     : NULL;
    return dtype ? dtype : word;
}

/* takes_file - returns true if WORD is a further file that SUGGESTION reads, and no output. */
static bool takes_file(const struct suggestion *suggestion, const char *word)
{
    bool has_output = strstr(suggestion->line, "OUT"),
         takes_many = !has_output || strstr(suggestion->line, "FILES");
    if (suggestion->given.nfiles == COUNT(suggestion->given.files) ||
        (suggestion->given.word && !is_path(word)))
        return false;
    return suggestion->given.nfiles == 0 || (takes_many && (!has_output || remote_may_exist(word)));
}

/* sort_word_option - if the option ARGV[0] of another tool, as in `cast --to bf16` or `split --size=5GB`, has
 * the word for the command as its value, keeps that, and returns how many words it takes; else 0. */
static int sort_word_option(struct suggestion *suggestion, int argc, char **argv)
{
    const char *equals = strchr(argv[0], '='), *value = equals ? equals + 1 : argc > 1 ? argv[1] : "";
    bool is_dtype = guess_option_value("cast", suggestion->word) && strncmp(argv[0], "--to", 4) == 0;
    if ((find_option(suggestion->cmd, argv[0]) && !is_dtype) || !*value || *value == '-' ||
        !is_word(suggestion, value))
        return 0;
    suggestion->given.word = get_word(suggestion, value);
    return equals ? 1 : 2;
}

/* sort_option - keeps the option ARGV[0], and returns how many words it takes; 0: the command has no such
 * option. */
static int sort_option(struct suggestion *suggestion, int argc, char **argv)
{
    const struct opt *o = find_option(suggestion->cmd, argv[0]);
    bool has_value = argv[0][1] == '-' ? strchr(argv[0], '=') != NULL : argv[0][2] != '\0';
    bool takes_next = o && o->arg && !has_value;
    if (!o || (takes_next && argc < 2))
        return 0;
    if (o->letter == 'o' && takes_next) {
        suggestion->given.output = argv[1];
        return 2;
    }
    for (int i = 0; i < 1 + takes_next; i++) {
        text_add(&suggestion->given.options, " ");
        text_shell(&suggestion->given.options, argv[i]);
    }
    return 1 + takes_next;
}

static void sort_given(struct suggestion *suggestion, int argc, char **argv)
{
    struct given *g = &suggestion->given;
    for (int i = 0, n = 1; i < argc; i += n, n = 1) {
        const char *word = argv[i];
        if (word[0] == '-' && word[1]) {
            n = sort_word_option(suggestion, argc - i, argv + i);
            n = n ? n : sort_option(suggestion, argc - i, argv + i);
            g->is_unclear = g->is_unclear || !n;
            n = n ? n : 1;
        } else if (is_word(suggestion, word)) {
            g->word = get_word(suggestion, word);
        } else if (takes_file(suggestion, word)) {
            g->files[g->nfiles++] = word;
        } else if (strstr(suggestion->line, "OUT") && g->nfiles && !g->output) {
            g->output = word;
        } else {
            g->is_unclear = true;
        }
    }
}

/* add_output - adds the output that was given, or the name of a new file. The name must select a format. */
static void add_output(struct text *out, const struct suggestion *suggestion)
{
    const struct given *g = &suggestion->given;
    bool convert = strcmp(suggestion->cmd->name, "convert") == 0;
    const char *suffix = convert ? ".safetensors" : ".pt";
    struct text name = {0};
    if (g->nfiles && output_path_format(g->files[0]))
        suffix = NULL;
    if (!g->nfiles) {
        text_addf(out, "OUT%s", convert ? ".safetensors" : "");
    } else if (!g->output) {
        text_new_name(out, "out", g->files[0], suffix);
    } else {
        bool has_format = output_path_format(g->output) || output_is_folder_path(g->output);
        text_addf(&name, "%s%s", g->output, convert && !has_format ? ".safetensors" : "");
        text_operand(out, name.ptr);
    }
    text_free(&name);
}

/* add_files - adds the files that were given; if there are none, OPERAND, such as "FILE". */
static void add_files(struct text *out, const struct suggestion *suggestion, const char *operand)
{
    if (!suggestion->given.nfiles)
        text_add(out, operand);
    for (size_t i = 0; i < suggestion->given.nfiles; i++) {
        text_add(out, i ? " " : "");
        text_operand(out, suggestion->given.files[i]);
    }
}

/* add_token - adds a space and the NBYTES bytes at TOKEN, a word of the template, with what stands for WORD
 * in it; nothing if that is empty. */
static void add_token(struct text *out, const struct suggestion *suggestion, const char *token, size_t nbytes)
{
    struct text filled = {0};
    const char *at = strstr(token, "WORD");
    size_t before = at && at < token + nbytes ? (size_t)(at - token) : nbytes;
    const char *word = suggestion->given.word ? suggestion->given.word : suggestion->word;
    if (before < nbytes && !*word)
        return;
    text_bytes(&filled, token, before);
    if (before < nbytes) {
        text_add(&filled, word);
        text_bytes(&filled, at + strlen("WORD"), nbytes - before - strlen("WORD"));
    }
    text_add(out, " ");
    text_shell(out, filled.ptr);
    text_free(&filled);
}

/* needs_recursive - returns true if a folder was given that is no checkpoint itself. */
static bool needs_recursive(const struct suggestion *suggestion)
{
    ckpt_error ignored;
    ckpt_file *f;
    for (size_t i = 0; i < suggestion->given.nfiles; i++) {
        const char *path = suggestion->given.files[i];
        if (!is_folder(path))
            continue;
        if (ckpt_open(path, &ui.limits, &f, &ignored) != CKPT_OK)
            return true;
        ckpt_close(f);
    }
    return false;
}

/* add_command_line - adds the command line of SUGGESTION, or only the words before the first file. */
static void add_command_line(struct text *out, const struct suggestion *suggestion, bool only_command)
{
    text_add(out, "ckpt");
    for (const char *token = suggestion->line; *token; token += strspn(token, " ")) {
        size_t n = strcspn(token, " ");
        bool is_file = strncmp(token, "FILE", 4) == 0, is_output = n == 3 && strncmp(token, "OUT", 3) == 0;
        if (only_command && (is_file || is_output || strncmp(token, "-o", n) == 0))
            break;
        if (is_file) {
            text_add(out, " ");
            add_files(out, suggestion, n > 4 ? "A B" : "FILE");
        } else if (is_output) {
            text_add(out, " ");
            add_output(out, suggestion);
        } else {
            add_token(out, suggestion, token, n);
        }
        token += n;
    }
    if (!only_command && find_option(suggestion->cmd, "--recursive") && needs_recursive(suggestion))
        text_add(out, " -r");
    if (!only_command && suggestion->given.options.len)
        text_add(out, suggestion->given.options.ptr);
}

/* is_misspelled - returns true if TYPED may be WORD, of guesses.def, with a typing error. A word of five
 * letters with two other letters is another word: `shape` is not `shard`. */
static bool is_misspelled(const char *typed, const char *word)
{
    return strlen(word) > 5 || guess_distance(typed, word) < 2;
}

/* find_template - sets LINE and WORD of SUGGESTION to the template for TYPED, and returns true if it comes
 * from guesses.def; else LINE is the name of the command that is nearest, or NULL. */
static bool find_template(struct suggestion *suggestion, const char *typed)
{
    struct nearest best = {.typed = typed};
    bool is_listed = false;
    for (size_t i = 0; cmd_list[i]; i++)
        if (replace_if_nearer(&best, cmd_list[i]->name))
            suggestion->line = cmd_list[i]->name;
    for (size_t i = 0; i < COUNT(command_guesses); i++)
        if (is_misspelled(typed, command_guesses[i].typed) &&
            replace_if_nearer(&best, command_guesses[i].typed)) {
            suggestion->line = command_guesses[i].line;
            suggestion->word = command_guesses[i].word;
            is_listed = true;
        }
    return is_listed;
}

/* keep_existing_files - drops all but the files that exist: what else was given is not understood. */
static void keep_existing_files(struct given *this_given)
{
    size_t n = 0;
    for (size_t i = 0; i < this_given->nfiles; i++)
        if (remote_may_exist(this_given->files[i]))
            this_given->files[n++] = this_given->files[i];
    this_given->nfiles = n;
    this_given->word = this_given->output = NULL;
    text_free(&this_given->options);
    this_given->options = (struct text){0};
}

/* suggest_command_line - sets OUT to the command line that was probably meant by ARGV, and COMMAND to its
 * beginning. Returns false if no command is near. */
static bool suggest_command_line(struct text *out, struct text *command, int argc, char **argv)
{
    struct suggestion s = {.line = NULL};
    bool is_listed = find_template(&s, argv[0]);
    if (!s.line)
        return false;
    s.cmd = find_command(s.line);
    if (is_listed)
        sort_given(&s, argc - 1, argv + 1);
    if (s.given.is_unclear)
        keep_existing_files(&s.given);
    add_command_line(command, &s, true);
    add_command_line(out, &s, false);
    for (int i = 1; !is_listed && i < argc; i++) { /* a misspelled command: its operands are right */
        text_add(out, " ");
        text_shell(out, argv[i]);
    }
    text_add(out, !is_listed && argc == 1 ? " --help" : "");
    text_free(&s.given.options);
    return true;
}

int report_unknown_command(int argc, char **argv)
{
    struct text answer = {0}, command = {0};
    char shown[128];
    int status;
    ckpt_text_escape(str_c(argv[0]), shown, sizeof shown);
    if (suggest_command_line(&answer, &command, argc, argv)) {
        status = usage_error_suggest(answer.ptr, "unknown command '%s'; did you mean `%s`?", shown,
                                     command.ptr);
    } else if (access(argv[0], F_OK) == 0) {
        text_add(&answer, "ckpt info ");
        text_operand(&answer, argv[0]);
        status = usage_error_suggest(answer.ptr, "'%s' is a file, not a command", shown);
    } else {
        status = usage_error(NULL, "unknown command '%s'", shown);
    }
    text_free(&answer);
    text_free(&command);
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
    const struct opt *o;
    if (answer[0] != '-')
        return true;
    for (size_t i = 0; (o = opt_at(cmd, i)); i++) {
        size_t n = o->name ? strlen(o->name) : 0;
        if (answer[1] != '-' ? answer[1] == o->letter
                             : n && strncmp(answer + 2, o->name, n) == 0 && strchr("= ;", answer[2 + n]))
            return true;
    }
    return false;
}

int report_unknown_option(const struct cmd *cmd, const char *word)
{
    const struct opt *o;
    size_t n = strcspn(word, "=");
    char name[64], shown[256];
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    ckpt_text_escape(str_c(name), shown, sizeof shown);
    struct nearest best = {.typed = name};
    const char *meant = NULL, *answer = NULL;
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
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

/* is_name - returns true if PATH is probably the name of a tensor, for the option -g. */
static bool is_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0) && answer_fits(ui.cmd, "-g");
}

/* guess_address - writes a hint how to get the file at PATH, an address that is not read. */
static void guess_address(const char *path, char *hint, size_t cap)
{
    struct text word = {0};
    text_operand(&word, path);
    if (strncasecmp(path, "ftp", 3) == 0)
        snprintf(hint, cap, "fetch it first: curl -fLO %s", word.ptr);
    else
        snprintf(hint, cap, "URLs that are read begin with https://, http://, hf:// or s3://");
    text_free(&word);
}

/* guess_scheme - writes a hint with the URL that was probably meant by PATH, which has a scheme, but not
 * "://" after it, or another name of the scheme. Returns false if it has none. */
static bool guess_scheme(const char *path, char *hint, size_t cap)
{
    const char *meant, *host = remote_find_host(path, &meant);
    if (!host || !*host || !meant)
        return false;
    snprintf(hint, cap, "did you mean '%s%s%s'?", meant, escape_name(str_c(host)),
             remote_is_without_query(path) ? "?QUERY" : "");
    return true;
}

bool guess_file(const char *path, char *hint, size_t cap)
{
    struct text folder = {0};
    char name[NAME_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (guess_scheme(path, hint, cap))
        return true;
    if (strstr(path, "://")) {
        guess_address(path, hint, cap);
        return true;
    }
    text_bytes(&folder, path, n);
    bool is_glob = strpbrk(path, "*?[") && answer_fits(ui.cmd, "-g");
    bool is_missing = access(path, F_OK) != 0;
    bool is_near = is_missing && !is_glob && find_nearest_file(n ? folder.ptr : ".", path + n, name);
    bool found = is_missing && (is_glob || is_near || is_name(path));
    if (found && !is_near) {
        text_clear(&folder);
        text_shell(&folder, path);
        snprintf(hint, cap, "to select tensors by name, use -g %s", folder.ptr);
    } else if (found) {
        text_add(&folder, name);
        snprintf(hint, cap, "did you mean '%s'?", escape_name(str_c(folder.ptr)));
    }
    text_free(&folder);
    return found;
}
