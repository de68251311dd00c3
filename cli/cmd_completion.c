#include <string.h>

#include "cmd.h"

static int run(int n, char **operand);

static const struct opt options[] = {
    {0},
};

const struct cmd cmd_completion = {
    "completion", "bash|zsh|fish", "print completion rules for a shell", options, 1, 1, run, "bash|zsh|fish"};

/* Text inside single quotes of a shell; zsh also gives ':' and brackets a meaning. */
static void quoted(const char *s, const char *also)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else if (strchr(also, *s))
            printf("\\%c", *s);
        else
            putchar(*s);
    }
}

static void words(const char *list, const char *between)
{
    char word[32];
    for (size_t i = 0; opt_choice(list, i, word, sizeof word); i++)
        printf("%s%s", i ? between : "", word);
}

static bool takes_file(const struct opt *o)
{
    return o->type == OPT_TEXT && (strcmp(o->arg, "OUT") == 0 || strcmp(o->arg, "JSON") == 0);
}

static void command_names(void)
{
    for (size_t i = 0; cmd_list[i]; i++)
        printf("%s%s", i ? " " : "", cmd_list[i]->name);
}

/* -------------------------------------------------------------------- bash */

static void bash_command(const struct cmd *cmd)
{
    printf("    %s)\n        case \"$prev\" in\n", cmd->name);
    for (const struct opt *o = cmd->opts; o->help; o++) {
        if (!o->arg)
            continue;
        printf("        --%s", o->name);
        if (o->letter)
            printf("|-%c", o->letter);
        if (o->type == OPT_CHOICE) {
            fputs(") COMPREPLY=($(compgen -W '", stdout);
            words(o->arg, " ");
            fputs("' -- \"$cur\")); return ;;\n", stdout);
        } else {
            fputs(takes_file(o) ? ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n" : ") return ;;\n",
                  stdout);
        }
    }
    fputs("        esac\n        opts='--help", stdout);
    for (const struct opt *o = cmd->opts; o->help; o++)
        printf(" --%s", o->name);
    fputs("'\n", stdout);
    if (cmd->words || cmd == &cmd_help) {
        fputs("        args='", stdout);
        if (cmd->words)
            words(cmd->words, " ");
        else
            command_names();
        fputs("'\n", stdout);
    }
    fputs("        ;;\n", stdout);
}

static void bash(void)
{
    fputs("# bash completion of ckpt: eval \"$(ckpt completion bash)\"\n"
          "_ckpt()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts= args=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '--help --version ",
          stdout);
    command_names();
    fputs("' -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; cmd_list[i]; i++)
        bash_command(cmd_list[i]);
    fputs("    esac\n"
          "    case $cur in\n"
          "    -*) COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\")) ;;\n"
          "    *) if [ -n \"$args\" ]; then COMPREPLY=($(compgen -W \"$args\" -- \"$cur\"));\n"
          "       else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n"
          "    esac\n}\n"
          "complete -o filenames -F _ckpt ckpt\n",
          stdout);
}

/* --------------------------------------------------------------------- zsh */

static void zsh_option(const struct opt *o)
{
    fputs("            '", stdout);
    if (o->type == OPT_LIST)
        putchar('*');
    if (o->letter)
        printf("(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter, o->arg ? "+" : "", o->name,
               o->arg ? "=" : "");
    else
        printf("--%s%s[", o->name, o->arg ? "=" : "");
    quoted(o->help, "[]:");
    putchar(']');
    if (o->type == OPT_CHOICE) {
        fputs(":word:(", stdout);
        words(o->arg, " ");
        putchar(')');
    } else if (o->arg) {
        putchar(':');
        quoted(o->arg, "[]:");
        fputs(takes_file(o) ? ":_files" : ":", stdout);
    }
    fputs("' \\\n", stdout);
}

static void zsh(void)
{
    fputs("#compdef ckpt\n# zsh completion of ckpt: ckpt completion zsh > ${fpath[1]}/_ckpt\n"
          "_ckpt()\n{\n    local -a commands=(\n",
          stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        printf("        '%s:", cmd_list[i]->name);
        quoted(cmd_list[i]->about, ":");
        fputs("'\n", stdout);
    }
    fputs(
        "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
        stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        const struct cmd *cmd = cmd_list[i];
        printf("    %s)\n        _arguments -s -S '(-h --help)'{-h,--help}'[help]' \\\n", cmd->name);
        for (const struct opt *o = cmd->opts; o->help; o++)
            zsh_option(o);
        fputs("            '*:", stdout);
        if (cmd->words || cmd == &cmd_help) {
            fputs("word:(", stdout);
            if (cmd->words)
                words(cmd->words, " ");
            else
                command_names();
            fputs(")' ;;\n", stdout);
        } else {
            fputs("file:_files' ;;\n", stdout);
        }
    }
    fputs("    esac\n}\nif [ \"$funcstack[1]\" = _ckpt ]; then _ckpt \"$@\"; else compdef _ckpt ckpt; fi\n",
          stdout);
}

/* -------------------------------------------------------------------- fish */

static void fish_option(const struct cmd *cmd, const struct opt *o)
{
    printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -l %s", cmd->name, o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (o->type == OPT_CHOICE) {
        fputs(" -x -a '", stdout);
        words(o->arg, " ");
        putchar('\'');
    } else if (o->arg) {
        fputs(takes_file(o) ? " -r" : " -x", stdout);
    }
    fputs(" -d \"", stdout);
    for (const char *s = o->help; *s; s++)
        printf("%s%c", strchr("\"\\$", *s) ? "\\" : "", *s);
    fputs("\"\n", stdout);
}

static void fish(void)
{
    fputs("# fish completion of ckpt: ckpt completion fish > ~/.config/fish/completions/ckpt.fish\n"
          "complete -c ckpt -n __fish_use_subcommand -l version -d 'the version'\n",
          stdout);
    for (size_t i = 0; cmd_list[i]; i++) {
        const struct cmd *cmd = cmd_list[i];
        printf("complete -c ckpt -n __fish_use_subcommand -f -a %s -d '", cmd->name);
        quoted(cmd->about, "");
        fputs("'\n", stdout);
        if (cmd->words || cmd == &cmd_help) {
            printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -f -a '", cmd->name);
            if (cmd->words)
                words(cmd->words, " ");
            else
                command_names();
            fputs("'\n", stdout);
        }
        for (const struct opt *o = cmd->opts; o->help; o++)
            fish_option(cmd, o);
    }
}

static int run(int n, char **operand)
{
    (void)n;
    if (strcmp(operand[0], "bash") == 0)
        bash();
    else if (strcmp(operand[0], "zsh") == 0)
        zsh();
    else if (strcmp(operand[0], "fish") == 0)
        fish();
    else
        return usage_error("completion", "want bash, zsh or fish");
    return YES;
}
