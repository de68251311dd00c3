#!/bin/sh
# scale/run.sh - runs the recipes of examples/scale, with other paths and sizes in the lines that users edit, and
# compares what they write with the output of one process. Slurm is a cluster of one node, started here.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
part=scale
. tests/check.sh
. tests/scale/cluster.sh
trap 'stop_cluster; rm -rf "$tmp"' EXIT
recipes=$PWD/examples/scale
input=$tmp/input.safetensors

# What recipes find in PATH: a ckpt that logs its arguments, and fails if its part is in the file `broken`, and an ssh
# that stays on this machine
mkdir "$tmp/bin"
cat >"$tmp/bin/ckpt" <<EOF
#!/bin/sh
echo "\$*" >>"$tmp/calls"
case " \$* " in
*" --part \$(cat "$tmp/broken" 2>/dev/null) "*) echo 'this node is broken' >&2; exit 2 ;;
esac
exec "$CKPT" "\$@"
EOF
cat >"$tmp/bin/ssh" <<EOF
#!/bin/sh
echo "\$1" >>"$tmp/hosts"
shift 2 # the host and --
cd # as ssh does, which sets SHELL; without it, parallel runs nothing and exits with 0
SHELL=/bin/sh exec sh -c "\$*"
EOF
chmod +x "$tmp/bin"/*
[ ! -x "$B/ckpt-mpi" ] || ln -s "$PWD/$B/ckpt-mpi" "$tmp/bin"
PATH=$tmp/bin:$PATH:/usr/sbin
export HOME="$tmp"

# edited RECIPE OUT - writes the recipe to the current folder with the paths and sizes of this test
edited()
{
    sed -e "s|/shared/model-bf16|$2|; s|/shared/model\>|$input|; s|\<5GB|8MB|" \
        -e 's/^\(parts=\|  completions: \|  PARTS: "\)16/\14/' "$recipes/$1" >"$1"
}

is_same() { diff -r "$tmp/expected" "$1"; }
# parts_run - prints the numbers of the parts that were run since the log was removed
parts_run() { sed -n 's|.*--part \([0-9]*\)/.*|\1|p' "$tmp/calls" | sort -n | xargs; }
ran() { [ "$(parts_run)" = "$1" ] || { parts_run; return 1; }; }

# begin NAME - enters an empty folder for a recipe, from which nothing was run
begin()
{
    mkdir "$tmp/$1"
    cd "$tmp/$1" || exit
    rm -f "$tmp/calls" "$tmp/broken"
}

"$B/tests/bench/mkckpt" -n 9 -b 40000000 "$input" >/dev/null || exit
"$CKPT" convert -q "$input" "$tmp/expected" --cast bfloat16 --max-shard-size 8MB || exit
check 'the output is a set' test -f "$tmp/expected/model-00003-of-00003.safetensors"

# ---------------------------------------------------------------- GNU parallel

if parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    begin parallel
    edited gnu_parallel.sh out
    check 'GNU parallel' sh gnu_parallel.sh
    check 'GNU parallel: parts' ran '0 1 2 3'
    check 'GNU parallel: output' is_same out

    begin parallel-ssh
    edited gnu_parallel.sh out
    sed -i 's/^hosts=:/hosts=one,two/' gnu_parallel.sh
    check 'GNU parallel by ssh' sh gnu_parallel.sh
    check 'GNU parallel by ssh: hosts' grep -q two "$tmp/hosts"
    check 'GNU parallel by ssh: output' is_same out

    begin parallel-failed
    edited gnu_parallel.sh out
    echo 2/4 >"$tmp/broken"
    refuses() { ! sh gnu_parallel.sh && [ ! -e out/model.safetensors.index.json ]; }
    check 'GNU parallel, a part fails' refuses
    check 'GNU parallel, a part fails: tries' ran '0 1 2 2 2 3'
    rm "$tmp/broken"
    check 'GNU parallel, again' sh gnu_parallel.sh
    check 'GNU parallel, again: output' is_same out
else
    skip 'GNU parallel is not installed'
fi

# ---------------------------------------------------------------- Kubernetes

# command_of JOB - prints the script of the container of JOB, which is the only block of text in it
command_of()
{
    awk -v job="$1" '/^  name: / {name = $2} $1 != "" && in_block && match($0, /[^ ]/) <= indent {in_block = 0}
        name == job && in_block {print} / - \|$/ {in_block = 1; indent = match($0, /-/)}' kubernetes.yaml
}
# setting NAME - prints the value of NAME in the ConfigMap or in a Job
setting() { sed -n "s/^  $1: \"*\([^ \"]*\).*/\1/p" kubernetes.yaml; }
is_indexed() { [ "$(setting completionMode)" = Indexed ] && [ "$(setting completions)" = "$PARTS" ]; }

begin kubernetes
edited kubernetes.yaml "$PWD/out"
for name in INPUT OUT PARTS; do export "$name=$(setting $name)"; done
command_of ckpt-parts >part.sh
command_of ckpt-merge | sed 's/sleep 30/sleep 0.1/' >merge.sh
check 'Kubernetes: an Indexed Job' is_indexed
timeout 30 sh -e merge.sh >merge.log 2>&1 &
merge=$!
for i in 2 0 3 1; do check "Kubernetes: index $i" env JOB_COMPLETION_INDEX=$i sh part.sh; done
check 'Kubernetes: merge' wait $merge
check 'Kubernetes: output' is_same out
unset INPUT OUT PARTS

# ---------------------------------------------------------------- Slurm

if start_cluster; then
    begin array
    edited slurm_array.sh out
    echo 2/4 >"$tmp/broken"
    check 'Slurm array, an element fails' sh slurm_array.sh
    check 'Slurm array, an element fails: ends' wait_for_jobs
    check 'Slurm array, an element fails: log' grep -q 'this node is broken' ckpt-part-2.log
    check 'Slurm array, an element fails: parts' ran '0 1 2 3'
    not_merged() { [ ! -e out/model.safetensors.index.json ] && ! grep merge-parts "$tmp/calls"; }
    check 'Slurm array, an element fails: not merged' not_merged
    rm "$tmp/calls" "$tmp/broken"
    check 'Slurm array, again' sh slurm_array.sh
    check 'Slurm array, again: ends' wait_for_jobs
    check 'Slurm array, again: parts' ran 2
    check 'Slurm array, again: output' is_same out

    begin array-merge
    edited slurm_array.sh out
    check 'Slurm array' sh slurm_array.sh
    check 'Slurm array: ends' wait_for_jobs
    check 'Slurm array: parts' ran '0 1 2 3'
    check 'Slurm array: output' is_same out

    begin mpi
    edited slurm_mpi.sh out
    if [ ! -x "$tmp/bin/ckpt-mpi" ]; then
        skip 'the recipe slurm_mpi.sh: ckpt-mpi is not built (make mpi)'
    elif ! srun --mpi=list 2>&1 | grep -q '\<pmix\>'; then
        skip 'the recipe slurm_mpi.sh: Slurm has no plugin for PMIx'
    else
        check 'Slurm, MPI' sbatch --nodes=1 --ntasks-per-node=3 --cpus-per-task=2 --output=log slurm_mpi.sh
        check 'Slurm, MPI: ends' wait_for_jobs
        check 'Slurm, MPI: one report of all ranks' test "$(grep -c ' tensors, ' log)" = 1
        check 'Slurm, MPI: output' is_same out
    fi
else
    skip "the recipes of Slurm: $why_no_cluster"
fi
summary
