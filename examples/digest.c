/* digest.c - prints the SHA-256 of each tensor, which depends on its numbers alone and not on the format.
 *
 *     cc digest.c $(pkg-config --cflags --libs libckpt) -o digest && ./digest model.safetensors
 */
#include <stdio.h>
#include <stdlib.h>

#include <ckpt.h>

static void print_digest(const uint8_t *digest, const char *name)
{
    for (int i = 0; i < CKPT_DIGEST_MAX; i++)
        printf("%02x", digest[i]);
    printf("  %s\n", name);
}

/* print_digests - prints the digest of each tensor, which several threads compute, and one for the whole file. */
static ckpt_status print_digests(ckpt_file *f, ckpt_error *err)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    uint8_t file_digest[CKPT_DIGEST_MAX],
        *digests = calloc((size_t)ckpt_tensor_count(f) + 1, CKPT_DIGEST_MAX);
    char name[256];
    if (!digests)
        exit(EXIT_FAILURE);
    ckpt_status status = ckpt_digest_tensors(f, CKPT_SHA256, NULL, digests, err);
    if (status == CKPT_OK)
        status = ckpt_digest_file(f, CKPT_SHA256, digests, file_digest, err);
    for (uint32_t i = 0; status == CKPT_OK && ckpt_tensor_at(f, i, &t); i++) {
        ckpt_text_escape(t.name, name, sizeof name);
        if (t.has_data)
            print_digest(digests + (size_t)i * CKPT_DIGEST_MAX, name);
    }
    if (status == CKPT_OK)
        print_digest(file_digest, "(all)");
    free(digests);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fputs("usage: digest FILE\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &f, &err);
    if (status == CKPT_OK)
        status = print_digests(f, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(f);
    return status != CKPT_OK;
}
