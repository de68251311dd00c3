/* verify.c - checks the structure and checksums of a checkpoint, and that all numbers are finite.
 *
 *     cc verify.c $(pkg-config --cflags --libs libckpt) -o verify && ./verify model.pt
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

static int print_finding(void *user, const ckpt_finding *finding)
{
    char line[1024];
    (void)user;
    printf("%s: %s\n", finding->id, ckpt_error_text(finding->error, line, sizeof line));
    return 0;
}

static ckpt_status verify(const char *path, uint64_t *findings, ckpt_error *err)
{
    ckpt_verify_options options = CKPT_INIT(ckpt_verify_options);
    ckpt_verify_result result = CKPT_INIT(ckpt_verify_result);
    options.finite = 1;
    ckpt_status status = ckpt_verify(path, &options, print_finding, NULL, &result, err);
    *findings = result.findings;
    if (status == CKPT_OK)
        printf("%" PRIu64 " tensors, %" PRIu64 " of %" PRIu64 " bytes read, %" PRIu64 " findings\n",
               result.tensors, result.read, result.bytes, result.findings);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_error err;
    char line[1024];
    uint64_t findings;
    if (argc != 2) {
        fputs("usage: verify FILE\n", stderr);
        return 2;
    }
    if (verify(argv[1], &findings, &err) != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        return 2;
    }
    return findings != 0;
}
