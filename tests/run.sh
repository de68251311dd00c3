#!/bin/sh
# run.sh [--all] [PART…] - runs the parts that a change needs, with --all every part; or only those named: `unit cli`
# runs two, `^robust` all but one. `make check` and `make check-all` (T='unit cli') build first and set the variables
# used below.
#
# Without --all, the parts robust, threats, faults and rewrite take only every N-th file. If a run without --all has
# passed, and no source file has changed since, --all adds the counts of that run. It then runs only the parts that run
# with --all only, and these four with the files that they have not taken.
#
# The output of a part ends with "NAME: N passed, N failed[, N skipped][ (more)]"; a part that fails without that line
# counts as one failure. The output of a part is shown if something in it failed; if something was only skipped, the
# lines about that are shown. Two parts run at a time if CHECK_JOBS (default: the number of processors) is 2 or more.
set -u

B=${B:-build}
CC=${CC:-cc}
MAKE=${MAKE:-make}
CORPUS_PUBLIC=${CORPUS_PUBLIC:-../shared/corpus/public}
CKPT=$PWD/$B/ckpt
export B CC MAKE CKPT CORPUS_PUBLIC
export LC_ALL=C

# The parts that take longest come first, so that two workers end at about the same time.
quick='cli robust growth plan faults remote scale unit warnings lint format latency threats rewrite schema man
       attacks build abi tsan install mpi header example budget readme git ci hooks python demo mem truth
       truth-asan replay public'
sampled='robust faults threats rewrite' # take every N-th file without --all
slow='unit-asan gates plan-big fuzz oracle' # run with --all only

all=
files='every N-th' # that the sampled parts take
[ "${1:-}" = --all ] && { all=1 files=all; shift; }

# file_step N - prints N for every N-th file, 1 for all, -N for those that are left by N
file_step()
{
    case $files in
    all) echo 1 ;;
    others) echo "-$1" ;;
    *) echo "$1" ;;
    esac
}

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export CHECK_TMP="$work"
mkdir "$work/claimed"

skip() { echo "$1 skipped: $2"; echo "$1: 0 passed, 0 failed, 1 skipped"; }

# run_as NAME COMMAND… - runs COMMAND and replaces the name in its summary line by NAME
run_as()
{
    name=$1
    shift
    "$@" >"$work/$name" 2>&1
    code=$?
    sed "s/^[a-z-]*: \([0-9]* passed\)/$name: \1/" "$work/$name"
    return $code
}

part_unit() { "$B/unit"; }
part_unit_asan() { run_as unit-asan "$B/asan/unit"; }
part_warnings() { sh tests/warnings.sh; }
part_lint() { sh tests/lint/run.sh; }
part_format() { sh tests/format.sh; }
part_header() { sh tests/header.sh; }
part_tsan() { sh tests/tsan.sh; }
part_abi() { sh tests/abi/run.sh; }
part_build() { sh tests/build.sh; }
part_install() { sh tests/install.sh; }
part_example() { sh tests/example.sh; }
part_cli() { sh tests/cli/run.sh; }
part_man() { sh tests/cli/man.sh; }
part_schema() { sh tests/schema.sh; }
part_faults() { EACH=$(file_step 12) sh tests/fail/run.sh; }
part_readme() { sh tests/readme.sh; }
part_gates() { sh tests/bench/gates.sh; }
part_growth() { sh tests/bench/growth.sh; }
part_plan() { sh tests/bench/plan.sh; }
part_plan_big() { PLAN_BIG=1 run_as plan-big sh tests/bench/plan.sh; }
part_latency() { sh tests/bench/latency.sh; }
part_budget() { sh tests/bench/budget.sh; }
part_mpi() { sh tests/mpi/run.sh; }
part_remote() { sh tests/remote/run.sh; }
part_scale() { sh tests/scale/run.sh; }
part_git() { sh tests/git.sh; }
part_ci() { bash tests/ci.sh; }
part_hooks() { sh tests/hooks.sh; }
part_python() { sh tests/python/run.sh; }
part_demo() { sh tests/demo.sh && echo 'demo: 1 passed, 0 failed'; }
part_mem() { "$B/tests/mem" tests/corpus/mem; }
part_truth() { "$B/tests/truth" tests/corpus; }
part_truth_asan() { run_as truth-asan "$B/asan/tests/truth" tests/corpus; }
part_rewrite() { EACH=$(file_step 10) sh tests/rewrite.sh; }
part_replay() { "$B/asan/tests/robust" --replay tests/corpus tests/data; }
part_robust() { "$B/asan/tests/robust" -e "$(file_step 20)" -f "${ROBUST_FLIPS:-1}" tests/corpus; }
part_threats() { EACH=$(file_step 30) sh tests/threats/run.sh; }
part_attacks() { sh tests/threats/attacks.sh; }
part_fuzz() { FUZZ_SECONDS=${FUZZ_SECONDS:-10} sh tests/fuzz/run.sh; }
part_oracle() { sh tests/oracle/run.sh --sample; }

part_public()
{
    if [ ! -d "$CORPUS_PUBLIC" ]; then
        skip public "no folder $CORPUS_PUBLIC (make check CORPUS_PUBLIC=DIR)"
        return
    fi
    run_as public "$B/asan/tests/robust" --replay "$CORPUS_PUBLIC"
}

# print_counts LOG STATUS - prints "PASSED FAILED SKIPPED LINE" for a part with the exit status STATUS; LINE is the
# last summary line in LOG, without the name
print_counts()
{
    line=$(sed -n 's/^[a-z-]*: \([0-9]* passed, [0-9]* failed.*\)$/\1/p' "$1" | tail -n 1)
    # shellcheck disable=SC2086
    set -- "$2" $(printf '%s' "${line%% (*}" | tr -cd '0-9 ')
    extra_failures=0
    if [ "$1" -ne 0 ] && [ "${3:-0}" -eq 0 ]; then
        extra_failures=1 line="${line:+$line, }exit status $1"
    elif [ -z "$line" ]; then
        extra_failures=1 line='printed no summary'
    fi
    echo "${2:-0} $((${3:-0} + extra_failures)) ${4:-0} $line"
}

# run_part NAME - runs the part, adds a line to $work/counts and prints a line for it, and its output if a check
# failed
run_part()
{
    begin=$(date +%s)
    log=$work/log.$1
    "part_$(echo "$1" | tr - _)" >"$log" 2>&1 </dev/null
    counts=$(print_counts "$log" $?)
    echo "$counts" >>"$work/counts"
    # shellcheck disable=SC2086
    set -- "$1" $counts
    {
        printf '%-11s %s  (%d s)\n' "$1" "${counts#* * * }" $(($(date +%s) - begin))
        if [ "$3" -gt 0 ]; then
            tail -n "${LOG_LINES:-200}" "$log" | sed 's/^/    /'
        elif [ "$4" -gt 0 ]; then
            grep -i 'skipped: ' "$log" | sed 's/^/    /'
        fi
    } >"$log.report"
    cat "$log.report" # in one write, because another worker prints, too
}

# run_unclaimed_parts - runs those of $parts that no other worker has begun
run_unclaimed_parts()
{
    for part in $parts; do
        mkdir "$work/claimed/$part" 2>/dev/null && run_part "$part"
    done
}

# is_unchanged - succeeds if no source file, and neither compiler nor flags, has changed since the last run without
# --all that passed
is_unchanged()
{
    [ -e "$B/check.passed" ] || return
    newer=$(find lib cli tests man completion examples Makefile ./*.in ./*.md "$B/compile.flags" "$B/link.flags" \
        -newer "$B/check.passed" 2>/dev/null)
    [ -z "$newer" ]
}

chosen=
parts=$quick
if [ "$all" ]; then
    parts="$slow $quick"
    if [ $# -eq 0 ] && is_unchanged; then
        parts="$sampled $slow" files=others
        cat "$B/check.passed" >"$work/counts"
        echo "make check passed: its parts are counted, not run again"
    fi
fi
for arg; do
    case $arg in
    ^*) parts=$(echo " $(echo $parts) " | sed "s/ ${arg#^} / /") ;;
    *) chosen="$chosen $arg" ;;
    esac
    case " $(echo $quick $slow) " in
    *" ${arg#^} "*) ;;
    *) echo "no part '${arg#^}'; the parts are" $quick $slow; exit 2 ;;
    esac
done
parts=${chosen:-$parts}

touch "$work/begun" "$work/counts"
jobs=${CHECK_JOBS:-$(nproc 2>/dev/null || echo 2)}
[ "$jobs" -lt 2 ] || run_unclaimed_parts &
run_unclaimed_parts
wait
total=$(awk '{passed += $1; failed += $2; skipped += $3}
    END {printf "%d passed, %d failed, %d skipped", passed, failed, skipped}' "$work/counts")
case $total in
*' 0 failed,'*) ;;
*) echo "$total"; exit 1 ;;
esac
if [ $# -eq 0 ] && [ ! "$all" ]; then
    awk '{passed += $1; skipped += $3} END {print passed, 0, skipped + 0}' "$work/counts" >"$B/check.passed" &&
        touch -r "$work/begun" "$B/check.passed"
fi
echo "$total"
