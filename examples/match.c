/* match.c - prints the rules by which the names of a checkpoint become those of another one.
 *
 *     cc match.c $(pkg-config --cflags --libs libckpt) -o match && ./match wanted.safetensors model.pt
 */
#include <stdio.h>

#include <ckpt.h>

/* print_rules - prints the certain rules and, as comments, those that are not. */
static void print_rules(const ckpt_match *match)
{
    const ckpt_match_rule *rule;
    for (size_t i = 0; (rule = ckpt_match_rule_at(match, i)); i++) {
        printf("# %.*s\n", (int)rule->evidence.len, rule->evidence.ptr);
        printf("%s%.*s\n", rule->certain ? "" : "#   ", (int)rule->text.len, rule->text.ptr);
    }
}

static ckpt_status match_files(ckpt_file *wanted, ckpt_file *f, ckpt_error *err)
{
    ckpt_match *match;
    ckpt_status status = ckpt_match_new(wanted, f, NULL, &match, err);
    if (status == CKPT_OK) {
        print_rules(match);
        status = ckpt_match_apply(match, err);
    }
    if (status == CKPT_OK)
        printf("# %llu names are missing after that\n", (unsigned long long)ckpt_match_count(match)->missing);
    ckpt_match_free(match);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *wanted = NULL, *f = NULL;
    ckpt_error err;
    char line[1024];
    if (argc != 3) {
        fputs("usage: match WANTED FILE\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open_names(argv[1], NULL, &wanted, &err);
    if (status == CKPT_OK)
        status = ckpt_open(argv[2], NULL, &f, &err);
    if (status == CKPT_OK)
        status = match_files(wanted, f, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(f);
    ckpt_close(wanted);
    return status != CKPT_OK;
}
