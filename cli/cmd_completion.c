#include <string.h>

#include "cmd.h"
#include "recipes.h"

static const struct opt options[] = {
    {0},
};

const struct cmd cmd_completion = {
    "completion", "bash|zsh|fish", "print completion rules for a shell", options, 1, 1, run_completion};

/* print_quoted - prints TEXT for use inside single quotes, with a backslash before each character of
 * SPECIAL. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

/* print_words - prints the words of LIST; if LIST is NULL, the formats that can be written. */
static void print_words(const char *list)
{
    char word[32];
    struct text formats = {0};
    if (!list)
        text_formats(&formats, " ", " ");
    fputs(formats.ptr ? formats.ptr : "", stdout);
    text_free(&formats);
    for (size_t i = 0; opt_choice(list, i, word, sizeof word); i++)
        printf("%s%s", i ? " " : "", word);
}

/* What the shell proposes for the argument of an option. */
enum argument_kind {
    ANYTHING, /* nothing is proposed */
    WORDS,    /* the words of a list, or the formats */
    A_FILE,
    NAMES, /* names of tensors and values in the files on the command line */
    ROOTS, /* the containers in these names */
};

/* What is proposed for each argument of an option, such as FILE. An OPT_CHOICE lists its own words. */
static const struct {
    const char *arg;
    enum argument_kind kind;
    const char *words;
} kinds[] = {
    {"OUT", A_FILE, NULL},
    {"JSON", A_FILE, NULL},
    {"FILE", A_FILE, NULL},
    {"GLOB", NAMES, NULL},
    {"NAME", NAMES, NULL},
    {"PATH", ROOTS, NULL},
    {"FORMAT", WORDS, NULL},
    {"[GLOB=]DTYPE", WORDS,
     "f64|f32|f16|bf16|float8_e4m3fn|float8_e5m2|float8_e4m3fnuz|float8_e5m2fnuz|q8_0"},
    {"nan,inf", WORDS, "nan|inf|nan,inf"},
    {"P", WORDS, "module.|_orig_mod.|model."},
};

/* argument_kind - returns what the shell proposes for the argument of OPTION. For WORDS, sets *LIST to
 * them. */
static enum argument_kind argument_kind(const struct opt *option, const char **list)
{
    *list = option->arg;
    if (option->type == OPT_CHOICE)
        return WORDS;
    if (strcmp(option->arg, "RECIPE") == 0)
        *list = recipe_words();
    if (*list != option->arg)
        return WORDS;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].arg, option->arg) == 0) {
            *list = kinds[i].words;
            return kinds[i].kind;
        }
    return ANYTHING;
}

/* print_argument - prints what proposes the argument of OPTION: for words, these between BEFORE and AFTER,
 * else the text of its kind. */
static void print_argument(const struct opt *option, const char *before, const char *after,
                           const char *const texts[ROOTS + 1])
{
    const char *list;
    enum argument_kind kind = argument_kind(option, &list);
    fputs(kind == WORDS ? before : texts[kind], stdout);
    if (kind == WORDS) {
        print_words(list);
        fputs(after, stdout);
    }
}

static void print_command_names(void)
{
    for (size_t i = 0; cmd_list[i]; i++)
        printf("%s%s", i ? " " : "", cmd_list[i]->name);
}

static bool takes_words(const struct cmd *cmd) { return cmd == &cmd_help || cmd == &cmd_completion; }

/* print_operand_words - prints the words that can be operands of CMD, which takes words, not files. */
static void print_operand_words(const struct cmd *cmd)
{
    if (cmd == &cmd_completion) {
        print_words(cmd->operands);
    } else {
        print_command_names();
        fputs(" formats json remote", stdout);
    }
}

/* An awk program that prints the containers of names, each once: "a" and "a.b" for "a.b.c". */
#define CONTAINERS_AWK                                                                                       \
    "awk -F. '{ p = \"\"; for (i = 1; i < NF; i++) "                                                         \
    "{ p = p (i > 1 ? \".\" : \"\") $i; if (!s[p]++) print p } }'"

/* -------------------------------------------------------------------- bash */

/* compgen -W expands its words: a name like $(cmd), from an untrusted file, would be executed. So names are
 * compared as text, and readline quotes what it inserts (-o filenames). */
static const char bash_functions[] =
    "# bash completion of ckpt: eval \"$(ckpt completion bash)\"\n"
    "_ckpt_lines() # each line of standard input that begins with $1\n{\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        if [[ $line == \"$1\"* ]]; then COMPREPLY+=(\"$line\"); fi\n"
    "    done\n}\n"
    "_ckpt_names() # the names of tensors and values in the files on the command line\n{\n"
    "    local word\n"
    "    for word in \"${COMP_WORDS[@]:2}\"; do\n"
    "        word=${word//\\\\/} # without the shell's quoting\n"
    "        [ -f \"$word\" ] || continue\n"
    "        \"${COMP_WORDS[0]}\" ls --tsv --values -- \"$word\" 2>/dev/null | cut -f1\n"
    "    done\n}\n"
    "_ckpt_roots() # the containers in these names\n{\n"
    "    echo auto\n"
    "    _ckpt_names | " CONTAINERS_AWK "\n}\n";

static void print_bash_option(const struct opt *option)
{
    static const char *const texts[] = {
        [ANYTHING] = ") return ;;\n",
        [A_FILE] = ") _ckpt_lines \"$cur\" < <(compgen -f -- \"$cur\"); return ;;\n",
        [NAMES] = ") _ckpt_lines \"$cur\" < <(_ckpt_names); return ;;\n",
        [ROOTS] = ") _ckpt_lines \"$cur\" < <(_ckpt_roots); return ;;\n"};
    printf("        --%s", option->name);
    if (option->letter)
        printf("|-%c", option->letter);
    print_argument(option, ") COMPREPLY=($(compgen -W '", "' -- \"$cur\")); return ;;\n", texts);
}

static void print_bash_command(const struct cmd *cmd)
{
    const struct opt *o;
    printf("    %s)\n        case \"$prev\" in\n", cmd->name);
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
        if (o->arg)
            print_bash_option(o);
    fputs("        esac\n        opts='--help", stdout);
    for (size_t i = 0; (o = opt_at(cmd, i)); i++)
        printf(" --%s", o->name);
    fputs("'\n", stdout);
    if (takes_words(cmd)) {
        fputs("        args='", stdout);
        print_operand_words(cmd);
        fputs("'\n", stdout);
    }
    if (cmd == &cmd_show)
        fputs("        if [[ $cur != -* && -n $(_ckpt_names) ]]; then\n"
              "            _ckpt_lines \"$cur\" < <(_ckpt_names); return\n        fi\n",
              stdout);
    fputs("        ;;\n", stdout);
}

static void print_bash(void)
{
    fputs(bash_functions, stdout);
    fputs("_ckpt()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts= args=\n"
          "    COMPREPLY=()\n"
          "    # --option=value is three words\n"
          "    if [ \"$cur\" = = ]; then cur=\n"
          "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '--help --version ",
          stdout);
    print_command_names();
    fputs("' -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; cmd_list[i]; i++)
        print_bash_command(cmd_list[i]);
    fputs("    esac\n"
          "    case $cur in\n"
          "    -*) COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\")) ;;\n"
          "    *) if [ -n \"$args\" ]; then COMPREPLY=($(compgen -W \"$args\" -- \"$cur\"));\n"
          "       else _ckpt_lines \"$cur\" < <(compgen -f -- \"$cur\"); fi ;;\n"
          "    esac\n}\n"
          "complete -o filenames -F _ckpt ckpt\n",
          stdout);
}

/* --------------------------------------------------------------------- zsh */

static void print_zsh_argument(const struct opt *option)
{
    static const char *const texts[] = {
        [ANYTHING] = ":", [A_FILE] = ":_files", [NAMES] = ":_ckpt_names", [ROOTS] = ":_ckpt_roots"};
    const char *list;
    if (argument_kind(option, &list) != WORDS) {
        putchar(':');
        print_quoted(option->arg, "[]:");
    }
    print_argument(option, ":word:(", ")", texts);
}

static void print_zsh_option(const struct opt *option)
{
    struct text help = {0};
    const char *value = option->arg ? "=" : "";
    fputs("            ", stdout);
    if (option->type == OPT_LIST || option->type == OPT_JOINED)
        fputs("'*'", stdout);
    else if (option->letter)
        printf("'(-%c --%s)'", option->letter, option->name);
    if (option->letter)
        printf("{-%c%s,--%s%s}'[", option->letter, option->arg ? "+" : "", option->name, value);
    else
        printf("'--%s%s[", option->name, value);
    opt_help(option, &help);
    print_quoted(help.ptr, "[]:");
    text_free(&help);
    putchar(']');
    if (option->arg)
        print_zsh_argument(option);
    fputs("' \\\n", stdout);
}

static void print_zsh(void)
{
    const struct opt *o;
    fputs("#compdef ckpt\n# zsh completion of ckpt: ckpt completion zsh > ${fpath[1]}/_ckpt\n"
          "_ckpt_names()\n{\n    local word\n    local -a names\n"
          "    for word in ${(Q)words[2,-1]}; do\n"
          "        [[ -f $word ]] || continue\n"
          "        names+=(${(f)\"$(ckpt ls --tsv --values -- $word 2>/dev/null | cut -f1)\"})\n"
          "    done\n    compadd -a names\n}\n"
          "_ckpt_roots()\n{\n    local word\n    local -a names=(auto)\n"
          "    for word in ${(Q)words[2,-1]}; do\n"
          "        [[ -f $word ]] && names+=("
          "${(f)\"$(ckpt ls --tsv -- $word 2>/dev/null | cut -f1 | " CONTAINERS_AWK ")\"})\n"
          "    done\n    compadd -a names\n}\n"
          "_ckpt()\n{\n    local -a commands=(\n",
          stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        printf("        '%s:", cmd_list[i]->name);
        print_quoted(cmd_list[i]->about, ":");
        fputs("'\n", stdout);
    }
    fputs(
        "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
        stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        const struct cmd *cmd = cmd_list[i];
        printf("    %s)\n        _arguments -s -S '(-h --help)'{-h,--help}'[help]' \\\n", cmd->name);
        for (size_t k = 0; (o = opt_at(cmd, k)); k++)
            print_zsh_option(o);
        fputs("            '*:", stdout);
        if (takes_words(cmd)) {
            fputs("word:(", stdout);
            print_operand_words(cmd);
            fputs(")' ;;\n", stdout);
        } else if (cmd == &cmd_show) {
            fputs("name:_ckpt_names' '1:file:_files' ;;\n", stdout);
        } else {
            fputs("file:_files' ;;\n", stdout);
        }
    }
    fputs("    esac\n}\nif [ \"$funcstack[1]\" = _ckpt ]; then _ckpt \"$@\"; else compdef _ckpt ckpt; fi\n",
          stdout);
}

/* -------------------------------------------------------------------- fish */

static void print_fish_argument(const struct opt *option)
{
    static const char *const texts[] = {[ANYTHING] = " -x",
                                        [A_FILE] = " -r",
                                        [NAMES] = " -x -a '(__ckpt_names)'",
                                        [ROOTS] = " -x -a '(__ckpt_roots)'"};
    print_argument(option, " -x -a '", "'", texts);
}

static void print_fish_option(const struct cmd *cmd, const struct opt *option)
{
    struct text help = {0};
    printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -l %s", cmd->name, option->name);
    if (option->letter)
        printf(" -s %c", option->letter);
    if (option->arg)
        print_fish_argument(option);
    fputs(" -d \"", stdout);
    opt_help(option, &help);
    for (const char *s = help.ptr; *s; s++)
        printf("%s%c", strchr("\"\\$", *s) ? "\\" : "", *s);
    text_free(&help);
    fputs("\"\n", stdout);
}

static void print_fish(void)
{
    const struct opt *o;
    fputs(
        "# fish completion of ckpt: ckpt completion fish > ~/.config/fish/completions/ckpt.fish\n"
        "function __ckpt_names\n    for word in (commandline -opc)[2..-1]\n"
        "        test -f \"$word\"; and ckpt ls --tsv --values -- $word 2>/dev/null | cut -f1\n    end\nend\n"
        "function __ckpt_roots\n    echo auto\n    __ckpt_names | " CONTAINERS_AWK "\nend\n"
        "complete -c ckpt -n __fish_use_subcommand -l version -d 'the version'\n",
        stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        const struct cmd *cmd = cmd_list[i];
        printf("complete -c ckpt -n __fish_use_subcommand -f -a %s -d '", cmd->name);
        print_quoted(cmd->about, "");
        fputs("'\n", stdout);
        if (takes_words(cmd)) {
            printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -f -a '", cmd->name);
            print_operand_words(cmd);
            fputs("'\n", stdout);
        }
        if (cmd == &cmd_show)
            fputs("complete -c ckpt -n '__fish_seen_subcommand_from show; "
                  "and test (count (__ckpt_names)) -gt 0' -f -a '(__ckpt_names)'\n",
                  stdout);
        for (size_t k = 0; (o = opt_at(cmd, k)); k++)
            print_fish_option(cmd, o);
    }
}

int run_completion(int count, char **operand)
{
    (void)count;
    if (strcmp(operand[0], "bash") == 0)
        print_bash();
    else if (strcmp(operand[0], "zsh") == 0)
        print_zsh();
    else if (strcmp(operand[0], "fish") == 0)
        print_fish();
    else
        return usage_error("completion", "unknown shell (expected bash, zsh or fish)");
    return EXIT_OK;
}
