#!/bin/sh
# run.sh - fuzzing. FUZZ_SECONDS for each target, two at a time.
#   run.sh          for `make check`: replays the kept inputs, mutates some for a while, with any compiler
#   run.sh --long   for `make fuzz`: with libFuzzer where $B/fuzz has it; adds its totals to the LEDGER
# Findings are kept in build/fuzz/found; one that is mended goes to tests/fuzz/corpus by a telling name.
set -u
B=${B:-build}
seconds=${FUZZ_SECONDS:-10}
parts='any foreign json names pickle pickle_back safetensors scan tar text torch_legacy torch_tar torch_zip
       trace zip'
found=$B/fuzz/found
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$found"
ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=4:max_malloc_fill_size=0:malloc_context_size=8
export ASAN_OPTIONS FUZZ_TARGET

# by_ours TARGET SECONDS - with main.c
by_ours()
{
    case $1 in
    open | write | scan_file)
        program=${1%_file}
        seeds='tests/corpus/torch tests/corpus/vectors tests/data tests/fuzz/corpus'
        ;;
    *) program=parts seeds="tests/fuzz/corpus/$1.pack" ;;
    esac
    # shellcheck disable=SC2086
    FUZZ_TARGET=$1 "$B/asan/tests/fuzz/$program" -t "$2" -s "${FUZZ_SEED:-1}" -o "$found" $seeds
}

by_libfuzzer()
{
    mkdir -p "$B/fuzz/corpus/$1" "$work/$1"
    "$B/asan/tests/fuzz/parts" -u "$work/$1" "tests/fuzz/corpus/$1.pack" &&
        FUZZ_TARGET=$1 "$B/fuzz/tests/fuzz/parts" -max_total_time="$2" -max_len=4096 -timeout=20 \
            -artifact_prefix="$found/$1-" -dict=tests/fuzz/ckpt.dict -print_final_stats=1 -verbosity=0 \
            "$B/fuzz/corpus/$1" "$work/$1"
}

# target NAME - runs it, and leaves "NAME executions status" in the work folder
target()
{
    by=by_ours
    case $1 in open | write | scan_file) ;; *) [ -n "$fuzzer" ] && by=by_libfuzzer ;; esac
    $by "$1" "$seconds" >"$work/$1.log" 2>&1
    code=$?
    runs=$(sed -n 's/.*number_of_executed_units: *//p; s/.* files, \([0-9]*\) runs.*/\1/p' "$work/$1.log")
    echo "$1 ${runs:-0} $code" >"$work/$1.result"
    [ $code -eq 0 ] || tail -n 40 "$work/$1.log"
}

fuzzer=
[ "${1:-}" = --long ] && [ -x "$B/fuzz/tests/fuzz/parts" ] && fuzzer=libFuzzer
begin=$(date +%s)
if [ "${1:-}" = --long ]; then
    for one in $parts write; do
        target "$one" &
        running=$((${running:-0} + 1))
        [ $((running % 2)) -ne 0 ] || wait
    done
    wait
else
    for one in open scan_file write; do target "$one"; done
    seconds=0
    for one in $parts; do target "$one"; done
fi
cat "$work"/*.result >"$work/all"
awk '{printf "  %-14s %12d%s\n", $1, $2, $3 ? "  FAILED" : ""}' "$work/all"
total=$(awk '{n += $2} END {printf "%d", n}' "$work/all")
failed=$(awk '$3' "$work/all" | wc -l)
echo "$total executions in $(($(date +%s) - begin)) s"
if [ "${1:-}" = --long ]; then
    printf '%s  %-9s %11d executions, %d of %d targets failed, %d s\n' "$(date -u +%Y-%m-%d)" \
        "${fuzzer:-main.c}" "$total" "$failed" "$(wc -l <"$work/all")" $(($(date +%s) - begin)) \
        >>tests/fuzz/LEDGER
fi
echo "fuzz: $(($(wc -l <"$work/all") - failed)) passed, $((failed)) failed"
[ "$failed" -eq 0 ]
