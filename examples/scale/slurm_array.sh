#!/bin/sh
# slurm_array.sh - converts a checkpoint by a job array of Slurm. A second job merges the parts when all have succeeded.
# Edit the three lines, then run on a login node: sh slurm_array.sh
# If elements of the array failed, run it again: it submits only the parts that are not done.
parts=16
out=/shared/model-bf16
convert() { ckpt convert /shared/model "$out" --cast bfloat16 --max-shard-size 5GB "$@"; }

set -eu
submit() { sbatch --parsable --time=4:00:00 "$@"; }

case ${1:-submit} in
submit)
    done=0
    state=$(ckpt parts --json "$out" 2>/dev/null) || done=$?
    case $done in
    0) exec ckpt merge-parts "$out" ;;
    1) todo=$(printf '%s\n' "$state" | sed 's/.*"missing":\[\(.*\)\].*/\1/') ;;
    *) todo=0-$((parts - 1)) ;; # none was begun
    esac
    array=$(submit --array="$todo" --cpus-per-task=4 --mem=4G --output=ckpt-part-%a.log "$0" part)
    merge=$(submit --dependency="afterok:${array%;*}" --kill-on-invalid-dep=yes --output=ckpt-merge.log "$0" merge)
    echo "parts $todo: job ${array%;*}; merge: job ${merge%;*}"
    ;;
# The number of parts is not $SLURM_ARRAY_TASK_COUNT, which is 1 if one part is run again.
part) convert -j "$SLURM_CPUS_PER_TASK" --part "$SLURM_ARRAY_TASK_ID/$parts" ;;
merge) ckpt merge-parts "$out" ;;
esac
