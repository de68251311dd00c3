/* comm.h - the ranks of a command: the processes that run it together. In ckpt-mpi they are those of an MPI
 * (comm_mpi.c, the only file that includes mpi.h), in ckpt there is one (comm_self.c). The main thread calls
 * these functions. comm_gather, comm_sum and comm_broadcast return when all ranks have called them, in the
 * same order; a rank that waits for others sleeps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* comm_hint - what to do if a launcher has started several processes that are not ranks of one command. */
extern const char comm_hint[];

/* comm_begin - joins the other ranks, and removes what their launcher has added to the arguments. Only rank 0
 * prints: the others get /dev/null for standard output and error. comm_end - leaves them. */
void comm_begin(int *argc, char ***argv);
void comm_end(void);
/* comm_has_terminal - returns false if standard output may be a terminal that only the launcher reads. */
bool comm_has_terminal(void);
uint32_t comm_rank(void); /* from 0 */
uint32_t comm_size(void);
/* comm_gather - sets ALL to the NBYTES bytes OWN of each rank, one after the other. */
void comm_gather(const void *own, size_t nbytes, void *all);
/* comm_sum - sets each of the COUNT numbers to the sum of those of all ranks. */
void comm_sum(uint64_t *numbers, size_t count);
/* comm_broadcast - sets the NBYTES bytes of all ranks to those of RANK. */
void comm_broadcast(uint32_t rank, void *bytes, size_t nbytes);
