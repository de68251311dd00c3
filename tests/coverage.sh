#!/bin/sh
# coverage.sh - reports, file by file, how many branches of lib/codec, format, scan and doctor the tests take. `make
# coverage` builds with --coverage, without optimization so that each branch is one of the source, and runs this.
# Processes that run at the same time share the counts, which gcov locks. A failed test does not fail the run, because
# some tests limit what a process may write, and that limits gcov, too.
set -u
B=${B:-build/coverage}
CKPT=$PWD/$B/ckpt
CORPUS_PUBLIC=${CORPUS_PUBLIC:-../shared/corpus/public}
min_percent=95
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export B CKPT GCOV_ERROR_FILE="$work/gcov"

# run NAME COMMAND… - runs COMMAND and prints NAME, the last line of output and the time; more lines if it failed
run()
{
    name=$1 begin=$(date +%s)
    shift
    "$@" >"$work/messages" 2>&1 </dev/null
    code=$?
    [ $code -eq 0 ] || tail -n 12 "$work/messages" | sed 's/^/    /'
    printf '%-10s %s  (%d s)\n' "$name" "$(tail -n 1 "$work/messages")" $(($(date +%s) - begin))
}

# run_inputs - runs each fuzz target on its kept inputs, and opens, scans and writes small files of the corpus
run_inputs()
{
    for pack in tests/fuzz/corpus/*.pack; do
        target=${pack##*/}
        FUZZ_TARGET=${target%.pack} "$B/tests/fuzz/parts" -t 0 -o "$work" "$pack" || return
    done
    for program in open scan write; do
        "$B/tests/fuzz/$program" -t 0 -o "$work" tests/corpus/torch tests/corpus/vectors tests/data \
            tests/fuzz/corpus || return
    done
}

find "$B" -name '*.gcda' -exec rm -f {} +
folders='tests/corpus tests/data'
[ ! -d "$CORPUS_PUBLIC" ] || folders="$folders $CORPUS_PUBLIC"
run unit "$B/unit"
run cli sh tests/cli/run.sh
# shellcheck disable=SC2086
run replay "$B/tests/robust" --replay $folders
run robust "$B/tests/robust" -f 1 -m 1000 tests/corpus tests/data
run extremes "$B/tests/robust" -x -m 300 tests/corpus
run inputs run_inputs
run each_call sh tests/fail/each_call.sh "$B/tests/fail/each_call" "$B/unit"

for f in lib/codec/*.c lib/format/*.c lib/format/*/*.c lib/scan/*.c lib/doctor/*.c; do
    gcov -b -n -o "$B/obj/${f%.c}.gcda" "$f" 2>/dev/null | awk -v file="$f" '
        $1 == "File" {in_file = index($0, file) > 0}
        in_file && /^Lines executed/ {split($0, a, /[:% ]+/); lines = a[3]; nl = a[5]}
        in_file && /^Taken at least once/ {split($0, a, /[:% ]+/); taken = a[5]; nb = a[7]}
        END {print file, lines + 0, nl + 0, taken + 0, nb + 0}'
done | awk -v min_percent="$min_percent" '
    # prints the percentage of nl lines that ran, and of nb branches that were taken
    function print_row(name, lines, nl, taken, nb)
    {
        printf "%-34s lines %6.2f %% of %5d   branches %6.2f %% of %5d\n", name, lines, nl, taken, nb
    }
    {print_row($1, $2, $3, $4, $5); l += $2 * $3; nl += $3; b += $4 * $5; nb += $5}
    END {
        if (!nl || !nb)
            exit 1
        print_row("all", l / nl, nl, b / nb, nb)
        ok = b / nb >= min_percent
        printf "coverage: %.2f %% of branches, %s\n", b / nb,
            min_percent ? (ok ? "at least " : "less than ") min_percent " %: " (ok ? "passed" : "FAILED") : "no limit"
        exit !ok
    }'
