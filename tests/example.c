/* The worked example of libckpt.3: cc example.c -lckpt */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt.h"

/* Prints the mean of a float32 tensor, a chunk of it in memory at a time. */
struct sum {
    double total;
};

static int add_up(void *user, const void *bytes, size_t n)
{
    struct sum *sum = user;
    const float *x = bytes; /* the machine is little-endian, as the bytes are */
    for (size_t i = 0; i < n / sizeof *x; i++)
        sum->total += (double)x[i];
    return 0; /* go on */
}

static ckpt_status list(ckpt_file *f, ckpt_error *err)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    char name[256];
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++) {
        ckpt_text_escape(t.name, name, sizeof name);
        printf("%-45s %-9s %8" PRIu64 " bytes", name, ckpt_dtype_name(t.dtype), t.nbytes);
        if (t.has_data && t.dtype == CKPT_DT_F32 && t.elements) {
            struct sum sum = {0};
            ckpt_status status = ckpt_tensor_stream(f, i, add_up, &sum, err);
            if (status != CKPT_OK)
                return status;
            printf("  mean %g", sum.total / (double)t.elements);
        }
        putchar('\n');
    }
    return CKPT_OK;
}

/* Reads the first element of the first tensor that has one. */
static ckpt_status first_element(ckpt_file *f, ckpt_error *err)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    uint32_t i = 0;
    while (ckpt_tensor_at(f, i, &t) && !(t.has_data && t.elements))
        i++;
    if (i == ckpt_tensor_count(f))
        return CKPT_OK;
    unsigned char element[16];
    ckpt_status status = ckpt_tensor_read(f, i, 0, 1, element, err);
    if (status == CKPT_OK)
        printf("the first byte of the first tensor is 0x%02x\n", element[0]);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fprintf(stderr, "usage: example FILE\n");
        return EXIT_FAILURE;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &f, &err);
    if (status == CKPT_OK) {
        status = list(f, &err);
        if (status == CKPT_OK)
            status = first_element(f, &err);
        ckpt_close(f);
    }
    if (status != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
