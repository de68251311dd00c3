/* scan.c - reports whether loading a file would run code, without running any of it.
 *
 *     cc scan.c $(pkg-config --cflags --libs libckpt) -o scan && ./scan downloaded.pt
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

static int print_finding(void *user, const ckpt_scan_record *r)
{
    char text[512];
    (void)user;
    if (!r->rule || r->level <= CKPT_SCAN_NOTE)
        return 0;
    ckpt_text_escape(r->where, text, sizeof text);
    printf("%s %s: %s: %s\n", r->rule->id, ckpt_scan_level_name((ckpt_scan_level)r->level), text,
           r->rule->text);
    return 0;
}

/* scan - scans PATH, and sets *FINE if there are only notes and the purpose of each byte is known. */
static ckpt_status scan(const char *path, bool *fine, ckpt_error *err)
{
    ckpt_scan_result result = CKPT_INIT(ckpt_scan_result);
    ckpt_status status = ckpt_scan(path, NULL, print_finding, NULL, &result, err);
    *fine = status == CKPT_OK && result.accounted == result.bytes;
    for (int level = CKPT_SCAN_NOTE + 1; level < 8; level++)
        *fine = *fine && result.found[level] == 0;
    if (status == CKPT_OK)
        printf("%s, %" PRIu64 " pickles, %" PRIu64 " calls\n",
               ckpt_scan_verdict_name((ckpt_scan_verdict)result.verdict), result.pickles, result.calls);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_error err;
    char line[1024];
    bool fine;
    if (argc != 2) {
        fputs("usage: scan FILE\n", stderr);
        return 2;
    }
    if (scan(argv[1], &fine, &err) != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        return 2;
    }
    return !fine;
}
