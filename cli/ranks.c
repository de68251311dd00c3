#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "edit.h"
#include "share.h"

enum meeting { AT_PLAN, AT_WRITTEN, AT_EXCHANGE, AT_END };

/* What a rank brings to a meeting. */
struct rank_state {
    uint32_t meeting, exit_code;
    uint32_t error; /* ckpt_status of what it failed with; CKPT_OK: nothing, or it stopped for another rank */
    char id[36];    /* of its plan, or of the results that it brings */
    uint64_t result_bytes; /* of these results */
};

static struct {
    bool is_shared;         /* the command */
    struct rank_state *all; /* by rank, at the last meeting */
    ckpt_error error;       /* the first that was kept */
    uint32_t failed_with;   /* as in struct rank_state */
    struct text output;     /* what is written, once all ranks have agreed on its plan */
    bool is_new;            /* nothing was there before */
    bool at_end;            /* all ranks are: errors are printed */
    uint64_t *overflowed;   /* by cast, in all ranks; NULL: not known */
    char *results;          /* of all ranks, at the last exchange */
} ranks;

/* ---------------------------------------------------------------- launchers */

/* is_above_one - returns true if TEXT is a decimal number above 1. */
static bool is_above_one(const char *text)
{
    size_t ndigits = strspn(text, "0123456789");
    if (!ndigits || text[ndigits])
        return false;
    while (*text == '0')
        text++;
    return strcmp(text, "1") > 0;
}

int ranks_check_launcher(const struct cmd *cmd)
{
    /* Only mpirun, mpiexec and srun --mpi=pmi2 set these; SLURM_NTASKS is set in interactive shells, too. */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    bool has_output = writing.output || writing.in_place || cmd == &cmd_convert; /* which takes an operand */
    if (!has_output || comm_size() > 1 || !opt_find(cmd, "output") || writing.part || writing.dry_run ||
        writing.check)
        return EXIT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && is_above_one(value))
            return report_failure(
                CKPT_EUSAGE, NULL, comm_hint,
                "one of %.20s processes of an MPI, which would all write the same output (%s)", value,
                names[i]);
    }
    return EXIT_OK;
}

/* ---------------------------------------------------------------- meetings */

bool ranks_are_several(void) { return comm_size() > 1; }

bool ranks_leave_to_first(void)
{
    ranks.is_shared = false;
    return comm_rank() != 0;
}

/* can_share - returns true if the ranks can share the work of CMD. */
static bool can_share(const struct cmd *cmd)
{
    return opt_find(cmd, "part") && !writing.dry_run && !writing.check && !writing.in_place;
}

bool ranks_take_part(const struct cmd *cmd, int count, char *const *operands)
{
    if (comm_size() == 1)
        return true;
    ranks.is_shared = can_share(cmd);
    for (int i = 0; i < count; i++)
        if (is_read_once(operands[i]))
            return !ranks_leave_to_first();
    return ranks.is_shared || comm_rank() == 0;
}

bool ranks_divide(uint32_t *part, uint32_t *parts)
{
    if (!ranks.is_shared)
        return false;
    *part = comm_rank();
    *parts = comm_size();
    return true;
}

/* meet - waits for a meeting of all ranks, of which this one is OWN; returns true if all are at the same. */
static bool meet(struct rank_state own)
{
    bool all = true;
    if (!ranks.all)
        ranks.all = mem_new(comm_size(), sizeof *ranks.all);
    own.error = ranks.failed_with;
    comm_gather(&own, sizeof own, ranks.all);
    for (uint32_t i = 0; i < comm_size(); i++)
        all = all && ranks.all[i].meeting == own.meeting;
    return all;
}

/* meet_with_id - does so at MEETING, which has no exit code. */
static bool meet_with_id(enum meeting meeting, const char *id, size_t result_bytes)
{
    struct rank_state own = {.meeting = meeting, .result_bytes = result_bytes};
    (void)snprintf(own.id, sizeof own.id, "%s", id);
    return meet(own);
}

bool ranks_keep_error(const ckpt_error *err)
{
    bool is_own = err->status != CKPT_ECANCELLED;
    if (comm_size() == 1 || ranks.at_end)
        return false;
    if (!ranks.error.status || (is_own && !ranks.failed_with))
        ranks.error = *err;
    if (is_own && !ranks.failed_with)
        ranks.failed_with = err->status;
    return comm_rank() != 0 || !is_own;
}

/* compare_ids - returns EXIT_OK if the ids of all ranks are equal; else reports that, and returns
 * EXIT_TROUBLE. */
static int compare_ids(void)
{
    uint32_t rank = 1;
    while (rank < comm_size() && strcmp(ranks.all[rank].id, ranks.all[0].id) == 0)
        rank++;
    if (rank >= comm_size())
        return EXIT_OK;
    return report_failure(
        CKPT_ECHANGED, NULL,
        "give all ranks the same options, version of ckpt, and files with the same times (cp -p)",
        "the ranks see different inputs: the id of rank %u is %s, that of rank 0 %s", rank,
        ranks.all[rank].id, ranks.all[0].id);
}

int ranks_agree(void *user, const char *plan_id)
{
    (void)user;
    ranks.is_new = access(writing.output, F_OK) != 0; /* before another rank makes it */
    if (!meet_with_id(AT_PLAN, plan_id, 0) || compare_ids() != EXIT_OK)
        return EXIT_TROUBLE;
    text_clear(&ranks.output);
    text_add(&ranks.output, writing.output);
    return EXIT_OK;
}

/* ---------------------------------------------------------------- merging */

/* sum_overflows - sets ranks.overflowed to the sums of all ranks, whose plans list the same casts. */
static void sum_overflows(const ckpt_plan *p)
{
    size_t n = 0;
    const ckpt_cast *cast;
    while (ckpt_plan_cast_at(p, n))
        n++;
    ranks.overflowed = mem_new(n, sizeof *ranks.overflowed);
    for (size_t i = 0; (cast = ckpt_plan_cast_at(p, i)); i++)
        ranks.overflowed[i] = cast->overflowed;
    comm_sum(ranks.overflowed, n);
}

uint64_t ranks_overflowed(const ckpt_plan *p, size_t index)
{
    return ranks.overflowed ? ranks.overflowed[index] : ckpt_plan_cast_at(p, index)->overflowed;
}

static int merge_parts(void)
{
    ckpt_parts *parts;
    ckpt_error err;
    const char *output = ranks.output.ptr;
    ckpt_merge_options o = CKPT_INIT(ckpt_merge_options);
    o.no_sync = writing.no_sync;
    if (ckpt_parts_open(output, &parts, &err) != CKPT_OK)
        return report_error(&err, output);
    ckpt_status status = ckpt_parts_merge(parts, &o, &err);
    ckpt_parts_close(parts);
    return status == CKPT_OK ? EXIT_OK : report_error(&err, output);
}

int ranks_complete(const ckpt_plan *p)
{
    if (!ranks.output.len)
        return EXIT_OK;
    if (!meet_with_id(AT_WRITTEN, "", 0))
        return EXIT_TROUBLE;
    sum_overflows(p);
    return comm_rank() == 0 ? merge_parts() : EXIT_OK;
}

/* ---------------------------------------------------------------- exchange */

/* gather_results - sets ranks.results to the OWN results of each rank, one after the other, and *NBYTES to
 * their size. */
static void gather_results(const void *own, size_t *nbytes)
{
    size_t at = 0;
    *nbytes = 0;
    for (uint32_t i = 0; i < comm_size(); i++)
        *nbytes += (size_t)ranks.all[i].result_bytes;
    free(ranks.results);
    ranks.results = mem_new(*nbytes, 1);
    for (uint32_t i = 0; i < comm_size(); i++) {
        size_t n = (size_t)ranks.all[i].result_bytes;
        if (i == comm_rank())
            memcpy(ranks.results + at, own, n);
        comm_broadcast(i, ranks.results + at, n);
        at += n;
    }
}

int ranks_exchange(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                   size_t *all_bytes)
{
    (void)user;
    if (!own)
        return EXIT_OK;
    if (!meet_with_id(AT_EXCHANGE, id, own_bytes) || compare_ids() != EXIT_OK)
        return EXIT_TROUBLE;
    gather_results(own, all_bytes);
    *all = ranks.results;
    return EXIT_OK;
}

/* ---------------------------------------------------------------- end */

/* find_failed - returns the first rank that failed, else the first with the exit code CODE, the highest. */
static uint32_t find_failed(uint32_t code)
{
    uint32_t stopped = comm_size();
    for (uint32_t i = 0; i < comm_size(); i++) {
        if (ranks.all[i].error)
            return i;
        if (stopped == comm_size() && ranks.all[i].exit_code == code)
            stopped = i;
    }
    return stopped;
}

/* print_failure - prints in rank 0 the error of RANK, unless rank 0 has printed its own. */
static void print_failure(uint32_t rank)
{
    ckpt_error err = ranks.error;
    comm_broadcast(rank, &err, sizeof err);
    if (comm_rank() || ranks.failed_with || !err.status)
        return;
    report_error(&err, NULL);
    if (rank)
        print_reason(NULL, "this is the error of rank %u of %u", rank, comm_size());
}

/* remove_parts - removes what was written, unless the rank that failed with ERROR found parts of another run
 * or another output. */
static void remove_parts(uint32_t error)
{
    ckpt_error ignored; /* that of a rank is printed */
    if (comm_rank() || !ranks.output.len || !error || error == CKPT_EEXIST)
        return;
    if (ckpt_parts_clean(ranks.output.ptr, &ignored) == CKPT_OK && ranks.is_new)
        (void)rmdir(ranks.output.ptr); /* of a set; it is empty */
}

/* end_together - does what ranks_end does if there are several. */
static int end_together(int status)
{
    uint32_t code = EXIT_OK;
    while (!meet((struct rank_state){.meeting = AT_END, .exit_code = (uint32_t)status}))
        ;
    ranks.at_end = true;
    for (uint32_t i = 0; i < comm_size(); i++)
        code = ranks.all[i].exit_code > code ? ranks.all[i].exit_code : code;
    if (code == EXIT_TROUBLE) {
        uint32_t failed = find_failed(code);
        print_failure(failed);
        remove_parts(ranks.all[failed].error);
    }
    text_free(&ranks.output);
    free(ranks.overflowed);
    free(ranks.results);
    free(ranks.all);
    return (int)code;
}

int ranks_end(int status)
{
    if (comm_size() > 1)
        status = end_together(status);
    comm_end();
    return status;
}
