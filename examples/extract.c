/* extract.c - extracts a LoRA adapter from a model and one that was made from it.
 *
 *     cc extract.c $(pkg-config --cflags --libs libckpt) -o extract && ./extract base tuned adapter
 */
#include <stdio.h>

#include <ckpt.h>

static void print_differences(const ckpt_extraction *extraction)
{
    const ckpt_extracted *tensor;
    for (size_t i = 0; (tensor = ckpt_extracted_at(extraction, i)); i++)
        if (tensor->kind == CKPT_EXTRACTED_PAIR)
            printf("%.*s: rank %llu keeps %.4g %%\n", (int)tensor->name.len, tensor->name.ptr,
                   (unsigned long long)tensor->rank, 100 * tensor->kept);
        else
            printf("%.*s: %s\n", (int)tensor->name.len, tensor->name.ptr, tensor->why ? tensor->why : "tied");
}

static ckpt_status extract(ckpt_plan *base, ckpt_plan *tuned, const char *folder, ckpt_error *err)
{
    ckpt_extract_options opts = CKPT_INIT(ckpt_extract_options);
    ckpt_extraction *extraction;
    opts.rank = 16;
    opts.others = CKPT_OTHERS_SAVE;
    ckpt_status status = ckpt_extract_lora(base, tuned, &opts, &extraction, err);
    print_differences(extraction);
    if (status == CKPT_OK)
        status = ckpt_extraction_write(extraction, folder, NULL, NULL, err);
    ckpt_extraction_free(extraction);
    return status;
}

static ckpt_status open_plan(const char *path, ckpt_file **f, ckpt_plan **p, ckpt_error *err)
{
    ckpt_status status = ckpt_open(path, NULL, f, err);
    if (status == CKPT_OK)
        status = ckpt_plan_new(*f, p, err);
    return status == CKPT_OK ? ckpt_plan_root(*p, "auto", err) : status;
}

int main(int argc, char **argv)
{
    ckpt_file *f[2] = {NULL, NULL};
    ckpt_plan *p[2] = {NULL, NULL};
    ckpt_error err;
    char line[1024];
    if (argc != 4) {
        fputs("usage: extract BASE TUNED FOLDER\n", stderr);
        return 2;
    }
    ckpt_status status = open_plan(argv[1], &f[0], &p[0], &err);
    if (status == CKPT_OK)
        status = open_plan(argv[2], &f[1], &p[1], &err);
    if (status == CKPT_OK)
        status = extract(p[0], p[1], argv[3], &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    for (int i = 0; i < 2; i++) {
        ckpt_plan_free(p[i]);
        ckpt_close(f[i]);
    }
    return status != CKPT_OK;
}
