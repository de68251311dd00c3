#!/bin/sh
# run.sh - golden tests of the command line: tests/cli/run.sh [--set] [NAME…]
#
# tests/cli/<command>/<what>.sh runs in a folder of its own, where `ckpt` is the program under test, data/ holds the
# examples and corpus/ the corpus. Beside it stand what must come out: .stdout and .stderr (absent: nothing at all) and
# .exit (absent: 0). A test that cannot run here prints why and exits 77: it is skipped. --set writes them anew from
# what does come out: read the difference before you commit it. JOBS tests (one, where it is not set) run at a time.
set -u
top=$PWD
CKPT=${CKPT:-$top/${B:-build}/ckpt}
case $CKPT in /*) ;; *) CKPT=$top/$CKPT ;; esac
[ -x "$CKPT" ] || { echo "no $CKPT; run make"; echo 'cli: 0 passed, 1 failed'; exit 1; }

set_new=
[ "${1:-}" = --set ] && { set_new=1; shift; }
jobs=${JOBS:-1} workers=
all=$(mktemp -d) || exit 2
trap 'rm -rf "$all"' EXIT
trap '[ -z "$workers" ] || kill $workers; exit 130' INT TERM

mkdir "$all/bin"
ln -s "$CKPT" "$all/bin/ckpt"
PATH=$all/bin:$PATH LC_ALL=C TZ=UTC0
TESTS=$top/tests/cli
export PATH LC_ALL TZ CKPT TESTS
unset NO_COLOR COLUMNS || :

passed=0 failed=0 skipped=0

# expect WHAT FILE - the golden FILE (or nothing) against what came out
expect()
{
    [ -e "$2" ] || set -- "$1" /dev/null
    cmp -s "$2" "$work/$1" && return
    diff -u "$2" "$work/$1" | sed '1,2d; s/^/    /' | head -n 40
    return 1
}

renew()
{
    for what in stdout stderr; do
        rm -f "$1.$what"
        [ -s "$work/$what" ] && cp "$work/$what" "$1.$what"
    done
    rm -f "$1.exit"
    [ "$(cat "$work/exit")" = 0 ] || cp "$work/exit" "$1.exit"
    chmod 644 "$1".* 2>/dev/null
}

one()
{
    golden=${1%.sh}
    rm -rf "$work/dir"
    mkdir "$work/dir"
    ln -s "$top/tests/corpus" "$work/dir/corpus"
    ln -s "$top/tests/data/examples" "$work/dir/data"
    (cd "$work/dir" && exec sh "$top/$1") >"$work/stdout" 2>"$work/stderr" </dev/null
    echo $? >"$work/exit"
    if [ "$(cat "$work/exit")" = 77 ]; then
        skipped=$((skipped + 1))
        echo "${1#tests/cli/} skipped: $(cat "$work/stdout")"
        return
    fi
    if [ "$set_new" ]; then
        renew "$golden"
        return
    fi
    ok=1
    echo 0 >"$work/zero"
    code=$golden.exit
    [ -e "$code" ] || code=$work/zero
    cmp -s "$code" "$work/exit" || { echo "    exit $(cat "$work/exit"), not $(cat "$code")"; ok=0; }
    expect stdout "$golden.stdout" || ok=0
    expect stderr "$golden.stderr" || ok=0
    if [ $ok = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED ${1#tests/cli/}"
    fi
}

wanted=${*:-}

# is_wanted NAME - it begins as one of those given does, or none is given
is_wanted()
{
    [ -n "$wanted" ] || return 0
    for w in $wanted; do
        case $1 in "$w"*) return 0 ;; esac
    done
    return 1
}

# worker N - each JOBS-th of the tests from the Nth on, in a folder of its own, with its count there
worker()
{
    work=$all/$1 turn=0
    mkdir "$work"
    for t in tests/cli/*/*.sh; do
        is_wanted "${t#tests/cli/}" || continue
        turn=$((turn + 1))
        [ $((turn % jobs)) = "$1" ] || continue
        one "$t" >"$work/said"
        cat "$work/said"
    done
    echo "$passed $failed $skipped" >"$work/count"
}

if [ "$jobs" = 1 ]; then
    worker 0
else
    for n in $(seq 0 $((jobs - 1))); do
        worker "$n" &
        workers="$workers $!"
    done
    wait
fi
[ "$set_new" ] && { git diff --stat -- tests/cli 2>/dev/null; exit 0; }
counted=$(cat "$all"/*/count | wc -l) # fewer than workers: one was lost, and its tests with it
cat "$all"/*/count | awk -v lost="$((jobs - counted))" '{p += $1; f += $2; s += $3}
    END {printf "cli: %d passed, %d failed, %d skipped\n", p, f + lost, s; exit (f + lost > 0)}'
