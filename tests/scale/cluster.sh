# cluster.sh - a cluster of Slurm with one node, this machine, for tests/scale/run.sh, which sources it. All its files
# are in $tmp/slurm; its munged has a key of its own, so that nobody else can submit jobs to it.
cluster=$tmp/slurm
cluster_pids=

# write_config PORT - writes slurm.conf for slurmctld at PORT and slurmd at the next one. The plugin for version 1 of
# cgroups is loaded but not used, and so works in containers that have none
write_config()
{
    echo CgroupPlugin=cgroup/v1 >"$cluster/cgroup.conf"
    cat >"$cluster/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=$(uname -n | cut -d . -f 1)(127.0.0.1)
SlurmctldPort=$1
SlurmdPort=$(($1 + 1))
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.sock
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MinJobAge=2
SlurmdParameters=config_overrides
NodeName=node NodeHostname=$(uname -n | cut -d . -f 1) NodeAddr=127.0.0.1 CPUs=16 RealMemory=65536
PartitionName=all Nodes=node Default=YES State=UP
EOF
}

# start_daemon COMMAND… - starts a daemon. stop_cluster ends it, or a timeout if this script was killed
start_daemon()
{
    timeout -k 5 100 "$@" >"$cluster/${1##*/}.log" 2>&1 </dev/null &
    cluster_pids="$! $cluster_pids"
}

# wait_until SECONDS COMMAND… - waits until COMMAND succeeds; fails after SECONDS
wait_until()
{
    deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt $deadline ] || return
        sleep 0.1
    done
}

is_idle() { timeout 2 sinfo -h -o %T | grep -qx idle; }
no_jobs() { timeout 2 squeue -h -o %T >"$cluster/jobs" && ! grep -v '^COMPLETING$' "$cluster/jobs"; }
# wait_for_jobs - waits until all jobs have ended, at most until a minute after the start of the cluster
wait_for_jobs() { wait_until $((cluster_begin + 60 - $(date +%s))) no_jobs; }

# start_munged - starts munged, and succeeds if it answers. It needs --force because only this user may enter $tmp
start_munged()
{
    (umask 077 && head -c 128 /dev/urandom >"$cluster/munge.key")
    start_daemon munged --foreground --force --key-file="$cluster/munge.key" --socket="$cluster/munge.sock" \
        --pid-file="$cluster/munged.pid" --log-file="$cluster/munged.own.log" --seed-file="$cluster/munge.seed"
    wait_until 5 munge -n -S "$cluster/munge.sock"
}

# start_cluster - starts the daemons and sets SLURM_CONF; if that cannot be done, fails and sets $why_no_cluster
start_cluster()
{
    for program in munged munge slurmctld slurmd sbatch srun; do
        command -v $program >/dev/null || { why_no_cluster="$program is not installed"; return 1; }
    done
    # Nothing of a job that runs this test is used.
    # shellcheck disable=SC2046
    unset $(env | sed -n 's/^\(\(SLURM\|SBATCH\|SRUN\|PMIX\)_[A-Z_]*\)=.*/\1/p') SLURM_CONF
    mkdir -m 755 "$cluster" "$cluster/state" "$cluster/spool"
    export SLURM_CONF="$cluster/slurm.conf"
    start_munged || { why_no_cluster='munged does not start'; return 1; }
    for try in 0 1 2; do # other ports if these are in use
        write_config $((20000 + ($$ * 3 + try) % 6000 * 2))
        start_daemon slurmctld -D
        start_daemon slurmd -D -N node
        cluster_begin=$(date +%s)
        wait_until 20 is_idle && return
        grep -q 'already in use' "$cluster"/slurm*.log || break
    done
    why_no_cluster="its daemons do not start: $(grep -h 'error\|fatal' "$cluster"/slurm*.log | tail -n 1)"
    return 1
}

# stop_cluster - ends the jobs and the daemons
stop_cluster()
{
    [ "$cluster_pids" ] || return 0
    no_jobs || { timeout 2 scancel -u "$(id -un)" 2>/dev/null && wait_until 5 no_jobs; }
    # shellcheck disable=SC2086
    kill $cluster_pids 2>/dev/null
    wait
}
