/* read.c - prints the mean of each float32 tensor, read chunk by chunk, and the first numbers of one tensor.
 *
 *     cc read.c $(pkg-config --cflags --libs libckpt) -o read && ./read model.pt fc.weight
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ckpt.h>

/* add_up - adds the numbers of a chunk to *USER. No number is split between chunks. Assumes a little-endian machine. */
static int add_up(void *user, const void *bytes, size_t n)
{
    double *sum = user;
    for (size_t i = 0; i + sizeof(float) <= n; i += sizeof(float)) {
        float x;
        memcpy(&x, (const char *)bytes + i, sizeof x);
        *sum += (double)x;
    }
    return 0; /* any other value stops the stream */
}

static ckpt_status print_means(ckpt_file *f, ckpt_error *err)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    char name[256];
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++) {
        double sum = 0;
        if (t.dtype != CKPT_DT_F32 || !t.has_data || !t.elements)
            continue;
        ckpt_status status = ckpt_tensor_stream(f, i, add_up, &sum, err);
        if (status != CKPT_OK)
            return status;
        ckpt_text_escape(t.name, name, sizeof name);
        printf("%-40s mean %g\n", name, sum / (double)t.elements);
    }
    return CKPT_OK;
}

static ckpt_status print_first(ckpt_file *f, const char *name, ckpt_error *err)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    float x[4];
    uint32_t i = ckpt_tensor_find(f, (ckpt_str){name, strlen(name)});
    if (!ckpt_tensor_at(f, i, &t) || t.dtype != CKPT_DT_F32) {
        printf("no float32 tensor is called %s\n", name);
        return CKPT_OK;
    }
    uint64_t n = t.elements < 4 ? t.elements : 4;
    ckpt_status status = ckpt_tensor_read(f, i, 0, n, x, err);
    for (uint64_t k = 0; status == CKPT_OK && k < n; k++)
        printf("%s[%" PRIu64 "] = %g\n", name, k, (double)x[k]);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 3) {
        fputs("usage: read FILE TENSOR\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &f, &err);
    if (status == CKPT_OK)
        status = print_means(f, &err);
    if (status == CKPT_OK)
        status = print_first(f, argv[2], &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(f); /* F is NULL if it could not be opened */
    return status != CKPT_OK;
}
