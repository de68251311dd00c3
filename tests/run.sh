#!/bin/sh
# run.sh - every check by name: `tests/run.sh` runs all, `tests/run.sh unit cli` those, `tests/run.sh ^robust` all but
# that. `make check` (T='unit cli') builds first and sets what is used below.
#
# A part may print what it likes and ends with "NAME: N passed, N failed[, N skipped][ (more)]"; a part that ends badly
# without such a line counts as one failure. What it printed is shown when something failed or was skipped.
set -u

B=${B:-build}
CC=${CC:-cc}
MAKE=${MAKE:-make}
CORPUS_PUBLIC=${CORPUS_PUBLIC:-../shared/corpus/public}
CKPT=$PWD/$B/ckpt
export B CC MAKE CKPT CORPUS_PUBLIC
export LC_ALL=C

parts='unit unit-asan warnings lint header build install example cli man schema faults readme git demo gates truth
       truth-asan rewrite replay robust threats attacks fuzz public oracle'

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export CHECK_TMP="$work"

skip() { echo "$1 skipped: $2"; echo "$1: 0 passed, 0 failed, 1 skipped"; }

# as NAME COMMAND… - the summary line of COMMAND under another name
as()
{
    name=$1
    shift
    "$@" >"$work/as" 2>&1
    code=$?
    sed "s/^[a-z-]*: \([0-9]* passed\)/$name: \1/" "$work/as"
    return $code
}

part_unit() { "$B/unit"; }
part_unit_asan() { as unit-asan "$B/asan/unit"; }
part_warnings() { sh tests/warnings.sh; }
part_lint() { sh tests/lint/run.sh; }
part_header() { sh tests/header.sh; }
part_build() { sh tests/build.sh; }
part_install() { sh tests/install.sh; }
part_example() { sh tests/example.sh; }
part_cli() { sh tests/cli/run.sh; }
part_man() { sh tests/cli/man.sh; }
part_schema() { sh tests/schema.sh; }
part_faults() { sh tests/fail/run.sh; }
part_readme() { sh tests/readme.sh; }
part_gates() { sh tests/bench/gates.sh; }
part_git() { sh tests/git.sh; }
part_demo() { sh tests/demo.sh && echo 'demo: 1 passed, 0 failed'; }
part_truth() { "$B/tests/truth" tests/corpus; }
part_truth_asan() { as truth-asan "$B/asan/tests/truth" tests/corpus; }
part_rewrite() { sh tests/rewrite.sh; }
part_replay() { "$B/asan/tests/robust" --replay tests/corpus tests/data; }
part_robust() { "$B/asan/tests/robust" -f "${ROBUST_FLIPS:-1}" tests/corpus; }
part_threats() { sh tests/threats/run.sh; }
part_attacks() { sh tests/threats/attacks.sh; }
part_fuzz() { FUZZ_SECONDS=${FUZZ_SECONDS:-10} sh tests/fuzz/run.sh; }
part_oracle() { sh tests/oracle/run.sh --sample; }

part_public()
{
    if [ ! -d "$CORPUS_PUBLIC" ]; then
        skip public "no folder $CORPUS_PUBLIC (make check CORPUS_PUBLIC=DIR)"
        return
    fi
    as public "$B/asan/tests/robust" --replay "$CORPUS_PUBLIC"
}

passed=0 failed=0 skipped=0

# tally FILE STATUS - adds the last summary line of FILE to the totals, and sets $line.
tally()
{
    line=$(sed -n 's/^[a-z-]*: \([0-9]* passed, [0-9]* failed.*\)$/\1/p' "$1" | tail -n 1)
    # shellcheck disable=SC2086
    set -- "$2" $(printf '%s' "${line%% (*}" | tr -cd '0-9 ')
    passed=$((passed + ${2:-0}))
    failed=$((failed + ${3:-0}))
    skipped=$((skipped + ${4:-0}))
    if [ "$1" -ne 0 ] && [ "${3:-0}" -eq 0 ]; then
        failed=$((failed + 1))
        line="${line:+$line, }exit status $1"
    elif [ -z "$line" ]; then
        failed=$((failed + 1))
        line='said nothing'
    fi
}

run_part()
{
    begin=$(date +%s)
    "part_$(echo "$1" | tr - _)" >"$work/log" 2>&1 </dev/null
    before=$failed before_skipped=$skipped
    tally "$work/log" $?
    printf '%-11s %s  (%d s)\n' "$1" "$line" $(($(date +%s) - begin))
    if [ "$failed" -gt "$before" ]; then
        tail -n "${LOG_LINES:-200}" "$work/log" | sed 's/^/    /'
    elif [ "$skipped" -gt "$before_skipped" ]; then
        grep -i 'skipped: ' "$work/log" | sed 's/^/    /'
    fi
}

chosen=
for arg; do
    case $arg in
    ^*) parts=$(echo " $(echo $parts) " | sed "s/ ${arg#^} / /") ;;
    *) chosen="$chosen $arg" ;;
    esac
done
for part in ${chosen:-$parts}; do
    run_part "$part"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
