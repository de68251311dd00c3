#include "share.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "ranks.h"
#include "text.h"

struct sharing sharing;
static struct {
    uint32_t number, parts; /* parts 0: all */
    ckpt_results *results;
    bool is_recorded;
} part;

bool share_is_on(void) { return sharing.part != NULL; }
bool share_is_one(void) { return part.parts != 0; }

bool part_parse(const char *text, uint32_t *number, uint32_t *parts)
{
    enum { MAX_PARTS = 65536 };
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long i = strtoul(text, &end, 10);
    if (*end != '/' || end[1] < '0' || end[1] > '9')
        return false;
    unsigned long n = strtoul(end + 1, &end, 10);
    *number = (uint32_t)i;
    *parts = (uint32_t)n;
    return !*end && n <= MAX_PARTS && i < n;
}

bool is_read_once(const char *name)
{
    struct stat st;
    return strcmp(name, "-") == 0 || (stat(name, &st) == 0 && S_ISFIFO(st.st_mode));
}

int share_check(const char *cmd, int count, char **operands, int max)
{
    if (!sharing.part)
        return sharing.folder ? usage_error(cmd, "-o WORK goes with --part") : EXIT_OK;
    if (ranks_are_several())
        return usage_error(cmd, "ckpt-mpi divides the work itself: leave out --part");
    if (strcmp(sharing.part, "all") != 0 && !part_parse(sharing.part, &part.number, &part.parts))
        return opt_bad_value("part", sharing.part,
                             "i/n, counted from 0: of four parts 0/4, 1/4, 2/4, 3/4; or all");
    if (!sharing.folder || !*sharing.folder || strcmp(sharing.folder, "-") == 0)
        return usage_error(cmd, "--part records results in a folder: give it by -o WORK");
    if (files.recursive || count > max)
        return usage_error(cmd, "--part is for one %s, not for several", max > 1 ? "pair" : "file");
    for (int i = 0; i < count; i++)
        if (is_read_once(operands[i]))
            return usage_error(cmd, "each part reads the input, which must be a file; save it first");
    return EXIT_OK;
}

ckpt_status share_begin(const char *cmd, ckpt_work *how, ckpt_error *err)
{
    if (ranks_divide(&how->part, &how->parts))
        how->exchange = ranks_exchange;
    if (!sharing.part)
        return CKPT_OK;
    ckpt_status st = ckpt_results_open(sharing.folder, cmd, part.number, part.parts, &part.results, err);
    ckpt_results_share(part.results, how);
    return st;
}

/* print_recorded - prints "WORK   part 3/16 of ckpt hash recorded". */
static void print_recorded(bool before)
{
    struct text line = {0};
    if (ui.quiet)
        return;
    text_name(&line, str_c(sharing.folder));
    text_addf(&line, "   part %s %s; when all are done: the same command with --part all", sharing.part,
              before ? "was done before" : "done");
    print_text(stderr, "%s\n", line.ptr);
    text_free(&line);
}

ckpt_status share_end(ckpt_status st, ckpt_error *err)
{
    uint32_t outcome;
    st = ckpt_results_close(part.results, st, &outcome, err);
    part.results = NULL;
    part.is_recorded = st == CKPT_OK && outcome != CKPT_RESULTS_TAKEN;
    if (!part.is_recorded)
        return st;
    print_recorded(outcome == CKPT_RESULTS_FOUND);
    return CKPT_ECANCELLED;
}

int share_report(ckpt_status st, const ckpt_error *err, const char *path)
{
    return st == CKPT_ECANCELLED && part.is_recorded ? EXIT_OK : report_error(err, path);
}
