/* values.c - prints the values of a checkpoint that are not tensors: epochs, learning rates, configurations.
 *
 *     cc values.c $(pkg-config --cflags --libs libckpt) -o values && ./values checkpoint.pt
 */
#include <stdio.h>

#include <ckpt.h>

static void print_values(const ckpt_file *f)
{
    char name[256], type[64], text[128];
    for (size_t i = 0; i < ckpt_leaf_count(f); i++) {
        const ckpt_leaf *leaf = ckpt_leaf_at(f, i);
        ckpt_text_escape(leaf->name, name, sizeof name);
        ckpt_value_text(leaf->value, 8, text, sizeof text); /* of a container, at most 8 items */
        printf("%-40s %-8s %s\n", name, ckpt_value_type_name(leaf->value, type, sizeof type), text);
    }
}

/* print_top - prints the keys of the root, and the types of their values. */
static void print_top(const ckpt_file *f)
{
    const ckpt_value *root = ckpt_file_root(f), *key, *value;
    char name[256], type[64];
    for (size_t i = 0; ckpt_value_item(root, i, &key, &value); i++) {
        ckpt_value_text(key, 1, name, sizeof name);
        printf("%s: %s\n", name, ckpt_value_type_name(value, type, sizeof type));
    }
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fputs("usage: values FILE\n", stderr);
        return 2;
    }
    if (ckpt_open(argv[1], NULL, &f, &err) != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        return 1;
    }
    print_top(f);
    print_values(f);
    ckpt_close(f);
    return 0;
}
