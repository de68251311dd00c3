#!/bin/sh
#SBATCH --nodes=4 --ntasks-per-node=1 --cpus-per-task=8 --time=4:00:00
# slurm_mpi.sh - converts a checkpoint by the ranks of MPI in one job of Slurm. Edit the line above and the two after
# "set", then: sbatch slurm_mpi.sh
# If the job was killed, submit it again with the same number of ranks: it continues where it was.
# "srun --mpi=list" prints which interfaces to MPI the site has. Open MPI needs pmix; if Slurm has none, write
# "mpirun ckpt-mpi" instead of the line of srun. MPICH and Intel MPI need pmi2.
set -eu
srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    ckpt-mpi convert /shared/model /shared/model-bf16 --cast bfloat16 --max-shard-size 5GB -j "$SLURM_CPUS_PER_TASK"
