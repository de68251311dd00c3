#!/bin/sh
# bench/plan.sh - checks what it costs to open a folder that many ranks wrote, and to plan an output of it: opens and
# reads of each file, peak memory, and the steps for twice the tensors. PLAN_BIG=1 checks, in place of two small
# folders, that each process takes at most 400 MiB for a million tensors or chunks in 4,096 files. SHOW=1 prints
# the values.
set -u
B=${B:-build}
bin=$B/tests/bench
steps_program=$B/steps/tests/bench/ckpt-steps
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
. tests/bench/limit.sh
skipped=0
tracing=1 # empty: ptrace is not permitted

skip()
{
    skipped=$((skipped + 1))
    echo "plan skipped: $1"
}

# run_counted COMMAND… - sets $kib, $status and, if ptrace is permitted, $opens and $reads
run_counted()
{
    # shellcheck disable=SC2046
    if [ "$tracing" ]; then
        set -- $("$bin/count" -o "$tmp/messages" "$@")
        kib=$4 status=$5 opens=$6 reads=$7
    else
        set -- $("$bin/runner" -n 1 -o "$tmp/messages" "$@")
        kib=$2 status=$3
    fi
}

# check_command TITLE FILES KIB COMMAND… - checks COMMAND, which reads $metadata bytes in FILES files. A file of
# metadata is read in windows of 64 KiB; 20 opens and 40 reads are for the libraries and the folder.
check_command()
{
    title=$1 files=$2 kib_limit=$3
    shift 3
    run_counted "$@"
    if [ "$status" -ne 0 ]; then
        fail "$title: exit $status"
        return
    fi
    check_limit "$title: peak KiB" "$kib" "$kib_limit"
    [ "$tracing" ] || return 0
    check_limit "$title: opens of $files files" "$opens" $((files + 20))
    check_limit "$title: reads of $files files" "$reads" $((2 * files + 40 + metadata / 65536))
}

# set_plan KIND TENSORS - sets $plan to the arguments that plan one of 16 parts of an output of $tmp/KIND.TENSORS
set_plan() { plan="convert -n --max-shard-size=50GB $tmp/$1.$2 $tmp/out.safetensors"; }

# make_folder KIND CHUNKS FILES - makes $tmp/KIND.CHUNKS and sets $metadata. A tensor of dcp has four chunks.
make_folder()
{
    tensors=$2
    [ "$1" = safetensors ] || tensors=$(($2 / 4))
    metadata=$("$bin/mkset" "$1" $tensors "$3" "$tmp/$1.$2") &&
        [ "$(du -ks "$tmp/$1.$2" | cut -f1)" -lt 2000000 ]
}

# check_folder KIND CHUNKS FILES KIB - checks the cost of a folder of KIND, and keeps it
check_folder()
{
    if ! make_folder "$1" "$2" "$3"; then
        skip "$1: this file system does not support sparse files"
        return
    fi
    set_plan "$1" "$2"
    check_command "info of $2, $1" "$3" "$4" "$B/ckpt" info "$tmp/$1.$2"
    # shellcheck disable=SC2086
    for part in 0 3; do
        check_command "plan of $2, $1, part $part" "$3" "$4" "$B/ckpt" $plan --part $part/16
    done
}

# count_steps KIND CHUNKS - sets $steps to the steps of a plan
count_steps()
{
    set_plan "$1" "$2"
    # shellcheck disable=SC2086
    STEPS=$tmp/steps "$steps_program" $plan --part 3/16 >/dev/null 2>"$tmp/messages" && read -r steps <"$tmp/steps"
}

# check_growth KIND FEW - checks the steps for twice the tensors
check_growth()
{
    if [ ! -x "$steps_program" ]; then
        skip "steps, $1: the compiler has no -fsanitize-coverage=trace-pc"
    elif count_steps "$1" "$2" && steps_of_few=$steps && count_steps "$1" $((2 * $2)); then
        check_limit "plan of $((2 * $2)), $1: steps in percent of those of $2" $((steps * 100 / steps_of_few)) 230
    else
        fail "steps of a plan, $1"
    fi
}

"$bin/count" true >/dev/null 2>"$tmp/reason"
if [ $? -eq 77 ]; then
    tracing=
    skip "opens and reads: ptrace is not permitted ($(cat "$tmp/reason"))"
fi
for kind in safetensors dcp; do
    if [ "${PLAN_BIG:-}" ]; then
        check_folder $kind 1000000 4096 409600
    else # 8 MiB and 400 bytes for each tensor or chunk
        check_folder $kind 25000 103 $((8192 + 25000 * 400 / 1024))
        check_folder $kind 50000 205 $((8192 + 50000 * 400 / 1024))
        check_growth $kind 25000
    fi
    rm -rf "$tmp/$kind".*
done
echo "plan: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
