/* list.c - prints the names, dtypes and shapes of the tensors of a checkpoint. Reads only its metadata.
 *
 *     cc list.c $(pkg-config --cflags --libs libckpt) -o list && ./list model.pt
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

static void print_shape(const ckpt_tensor *t)
{
    putchar('[');
    for (uint32_t k = 0; k < t->ndim; k++)
        printf(k ? ", %" PRIu64 : "%" PRIu64, t->shape[k]);
    puts("]");
}

static void print_tensors(const ckpt_file *f)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    char name[256];
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++) {
        ckpt_text_escape(t.name, name, sizeof name); /* because a name may have control characters */
        printf("%-40s %-9s ", name, ckpt_dtype_name((ckpt_dtype)t.dtype));
        print_shape(&t);
    }
    printf("%" PRIu32 " tensors, %s\n", ckpt_tensor_count(f), ckpt_file_title(f));
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fputs("usage: list FILE\n", stderr);
        return 2;
    }
    if (ckpt_open(argv[1], NULL, &f, &err) != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        if (err.hint[0])
            fprintf(stderr, "hint: %s\n", err.hint);
        return 1;
    }
    print_tensors(f);
    ckpt_close(f);
    return 0;
}
