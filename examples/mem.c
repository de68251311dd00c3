/* mem.c - prints the memory that training a checkpoint's weights takes, without activations.
 *
 *     cc mem.c $(pkg-config --cflags --libs libckpt) -o mem && ./mem model.safetensors
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

/* print_memory - prints an estimate for parameters in fp32 and AdamW as it runs on a GPU. */
static ckpt_status print_memory(ckpt_mem *m, ckpt_error *err)
{
    ckpt_mem_run run = CKPT_INIT(ckpt_mem_run);
    ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
    run.precision = CKPT_MEM_FP32;
    run.optimizer = "adamw-foreach";
    ckpt_status status = ckpt_mem_estimate(m, &run, &r, err);
    if (status != CKPT_OK)
        return status;
    printf("parameters %" PRIu64 ", gradients %" PRIu64 ", optimizer %" PRIu64 " bytes\n", r.parameters.bytes,
           r.gradients.bytes, r.optimizer_states.bytes);
    for (size_t i = 0; ckpt_mem_assumed_at(m, i); i++)
        printf("assumed: %s\n", ckpt_mem_assumed_at(m, i));
    return CKPT_OK;
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_mem *m = NULL;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fputs("usage: mem FILE\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &f, &err);
    if (status == CKPT_OK)
        status = ckpt_mem_new(f, NULL, &m, &err);
    if (status == CKPT_OK)
        status = print_memory(m, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_mem_free(m);
    ckpt_close(f);
    return status != CKPT_OK;
}
