/* write.c - fuzz target: a file that can be opened and written must open again with the same tensors. */
#include <unistd.h>

#include "../exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* compute_digest - computes the digest of row ROW; returns false if the row is too large or cannot be
 * read. */
static bool compute_digest(ckpt_file *file, uint32_t row, uint8_t digest[CKPT_DIGEST_MAX])
{
    ckpt_error err = {0};
    const ckpt_tensor t = tensor_at(file, row);
    return t.has_data && t.nbytes <= EXERCISE_BYTES_MAX &&
           ckpt_digest_tensor(file, row, CKPT_SHA256, digest, &err) == CKPT_OK;
}

/* check_tensors - aborts if a tensor of BACK and the tensor of the same name in FILE have different bytes. */
static void check_tensors(ckpt_file *file, ckpt_file *back)
{
    for (uint32_t i = 0; i < ckpt_tensor_count(back) && i < EXERCISE_ROWS_MAX; i++) {
        const ckpt_tensor t = tensor_at(back, i);
        uint32_t row = ckpt_tensor_find(file, t.name);
        uint8_t digest[CKPT_DIGEST_MAX], expected[CKPT_DIGEST_MAX];
        if (row == CKPT_NO_TENSOR || ckpt_tensor_find(back, t.name) != i)
            continue;
        if (compute_digest(back, i, digest) && compute_digest(file, row, expected) &&
            memcmp(digest, expected, sizeof digest) != 0)
            exercise_abort("a tensor was written with different bytes");
    }
}

/* check_round_trip - writes FILE to PATH. Aborts if the written file lacks tensors or has different ones. */
static void check_round_trip(ckpt_file *file, const char *path)
{
    ckpt_plan *plan = NULL;
    ckpt_error err = {0};
    ckpt_write_options opts = {.struct_size = sizeof opts, .force = true, .no_sync = true};
    ckpt_write_result written = CKPT_INIT(ckpt_write_result);
    ckpt_status status = ckpt_plan_new(file, &plan, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_write(plan, path, &opts, &written, &err);
    if (status != CKPT_OK) {
        exercise_check_error(status, &err);
    } else {
        ckpt_file *back = NULL;
        if (ckpt_open(path, NULL, &back, &err) != CKPT_OK) {
            fprintf(stderr, "%s\n", err.what);
            exercise_abort("the written file cannot be opened");
        }
        if (written.tensors > ckpt_tensor_count(back))
            exercise_abort("the written file has too few tensors");
        check_tensors(file, back);
        ckpt_close(back);
    }
    ckpt_plan_free(plan);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckpt_file *file = NULL;
    char path[128];
    const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (ckpt_open_memory(data, size, "fuzz", NULL, &file, NULL) != CKPT_OK)
        return 0;
    snprintf(path, sizeof path, "%s/ckpt-fuzz-%ld.pt", dir, (long)getpid());
    check_round_trip(file, path);
    snprintf(path, sizeof path, "%s/ckpt-fuzz-%ld.safetensors", dir, (long)getpid());
    check_round_trip(file, path);
    ckpt_close(file);
    return 0;
}
