#!/bin/sh
# run.sh - golden tests of the command line: tests/cli/run.sh [--set] [NAME…]
#
# Each tests/cli/<command>/<what>.sh runs in an empty folder, with `ckpt` in PATH and two links: data, to
# tests/data/examples, and corpus, to tests/corpus. Its output must be that of <what>.stdout and <what>.stderr (no
# file: no output), its exit code that of <what>.exit (no file: 0). A test that cannot run here prints the reason and
# exits with 77, and is skipped. --set writes these files from the output: read the difference before you commit it.
# JOBS tests (default: 1) run at a time.
#
# The locale is C.UTF-8. A test whose output is not ASCII runs once more in the locale C, where its output must be
# ASCII, except for lines of JSON and Markdown. A test that shows other output for programs, or bytes that do not come
# from ckpt, has a line `# not ASCII: ` with the reason.
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
PATH=$all/bin:$PATH LC_ALL=C.UTF-8 TZ=UTC0
TESTS=$top/tests/cli
export PATH LC_ALL TZ CKPT TESTS
unset NO_COLOR COLUMNS || :

passed=0 failed=0 skipped=0

# check_output WHAT FILE - compares the output WHAT (stdout or stderr) with FILE, or with nothing if there is no FILE
check_output()
{
    [ -e "$2" ] || set -- "$1" /dev/null
    cmp -s "$2" "$work/$1" && return
    diff -u "$2" "$work/$1" | sed '1,2d; s/^/    /' | head -n 40
    return 1
}

# write_expected NAME - writes the expected files of the test NAME from its output
write_expected()
{
    for what in stdout stderr; do
        rm -f "$1.$what"
        [ -s "$work/$what" ] && cp "$work/$what" "$1.$what"
    done
    rm -f "$1.exit"
    [ "$(cat "$work/exit")" = 0 ] || cp "$work/exit" "$1.exit"
    chmod 644 "$1".* 2>/dev/null
}

# run_script SCRIPT - runs a test in a new folder, and keeps its output and exit code in $work
run_script()
{
    rm -rf "$work/dir"
    mkdir "$work/dir"
    ln -s "$top/tests/corpus" "$work/dir/corpus"
    ln -s "$top/tests/data/examples" "$work/dir/data"
    (cd "$work/dir" && exec sh "$top/$1") >"$work/stdout" 2>"$work/stderr" </dev/null
    echo $? >"$work/exit"
}

# print_not_ascii FILE… - prints the lines that are not ASCII
print_not_ascii() { LC_ALL=C grep -a '[^ -~[:cntrl:]]' "$@"; }

# check_ascii SCRIPT - if the test printed something that is not ASCII, runs it in the locale C, and returns whether
# its output there is ASCII
check_ascii()
{
    print_not_ascii -q "$work/stdout" "$work/stderr" || return 0
    grep -q '^# not ASCII: ' "$1" && return 0
    (LC_ALL=C; run_script "$1")
    ! print_not_ascii -h "$work/stdout" "$work/stderr" | LC_ALL=C grep -av '^{"schema":\|^| ' |
        sed 's/^/    not ASCII in the locale C: /' | head -n 10 | LC_ALL=C grep -a .
}

# run_test SCRIPT - runs and counts a test
run_test()
{
    golden=${1%.sh}
    run_script "$1"
    if [ "$(cat "$work/exit")" = 77 ]; then
        skipped=$((skipped + 1))
        echo "${1#tests/cli/} skipped: $(cat "$work/stdout")"
        return
    fi
    if [ "$set_new" ]; then
        write_expected "$golden"
        return
    fi
    ok=1
    echo 0 >"$work/zero"
    code=$golden.exit
    [ -e "$code" ] || code=$work/zero
    cmp -s "$code" "$work/exit" || { echo "    exit $(cat "$work/exit"), not $(cat "$code")"; ok=0; }
    check_output stdout "$golden.stdout" || ok=0
    check_output stderr "$golden.stderr" || ok=0
    check_ascii "$1" || ok=0
    if [ $ok = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED ${1#tests/cli/}"
    fi
}

wanted=${*:-}

# is_wanted NAME - returns whether NAME begins with one of the names given, or none is given
is_wanted()
{
    [ -n "$wanted" ] || return 0
    for w in $wanted; do
        case $1 in "$w"*) return 0 ;; esac
    done
    return 1
}

# run_share N - runs the tests whose number modulo JOBS is N, in the folder $all/N, and writes the counts there
run_share()
{
    work=$all/$1 turn=0
    mkdir "$work"
    for t in tests/cli/*/*.sh; do
        is_wanted "${t#tests/cli/}" || continue
        turn=$((turn + 1))
        [ $((turn % jobs)) = "$1" ] || continue
        run_test "$t" >"$work/messages"
        cat "$work/messages"
    done
    echo "$passed $failed $skipped" >"$work/count"
}

if [ "$jobs" = 1 ]; then
    run_share 0
else
    for n in $(seq 0 $((jobs - 1))); do
        run_share "$n" &
        workers="$workers $!"
    done
    wait
fi
[ "$set_new" ] && { git diff --stat -- tests/cli 2>/dev/null; exit 0; }
counted=$(cat "$all"/*/count | wc -l) # fewer than jobs if a worker has died
cat "$all"/*/count | awk -v lost="$((jobs - counted))" '{p += $1; f += $2; s += $3}
    END {printf "cli: %d passed, %d failed, %d skipped\n", p, f + lost, s; exit (f + lost > 0)}'
