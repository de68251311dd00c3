/* comm_mpi.c - see comm.h: the ranks of MPI_COMM_WORLD. MPI carries no bytes of files: these are read and
 * written by each rank for itself. An error in MPI ends all ranks, which is MPI's default. */
#include "comm.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char comm_hint[] =
    "their launcher is not that of the MPI with which ckpt-mpi was built: use its mpirun, or srun --mpi=pmix";

/* The number of items in a message, because MPI counts in int; below 1 GiB. */
#define PIECE ((size_t)1 << 26)

static int own_rank, all_ranks;

static void print_nothing(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

void comm_begin(int *argc, char ***argv)
{
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
    if (own_rank)
        print_nothing();
}

void comm_end(void) { MPI_Finalize(); }

bool comm_has_terminal(void) { return !getenv("OMPI_COMM_WORLD_SIZE"); }

uint32_t comm_rank(void) { return (uint32_t)own_rank; }

uint32_t comm_size(void) { return (uint32_t)all_ranks; }

/* wait_for - waits for REQUEST. MPI_Wait would use a processor that another rank needs, perhaps for hours. */
static void wait_for(MPI_Request *request)
{
    struct timespec pause = {.tv_nsec = 20000};
    int is_done = 0;
    while (MPI_Test(request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done) {
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 5000000)
            pause.tv_nsec *= 2;
    }
}

void comm_gather(const void *own, size_t nbytes, void *all)
{
    MPI_Request request;
    MPI_Iallgather(own, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(&request);
}

void comm_sum(uint64_t *numbers, size_t count)
{
    MPI_Request request;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < PIECE ? count - at : PIECE;
        MPI_Iallreduce(MPI_IN_PLACE, numbers + at, (int)n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
        wait_for(&request);
    }
}

void comm_broadcast(uint32_t rank, void *bytes, size_t nbytes)
{
    MPI_Request request;
    for (size_t at = 0, n; at < nbytes; at += n) {
        n = nbytes - at < PIECE ? nbytes - at : PIECE;
        MPI_Ibcast((char *)bytes + at, (int)n, MPI_BYTE, (int)rank, MPI_COMM_WORLD, &request);
        wait_for(&request);
    }
}
