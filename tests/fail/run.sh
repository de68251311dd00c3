#!/bin/sh
# run.sh - tests commands with a full disk, failing calls, SIGKILL, a modified input and failing allocations (faults.c),
# and the library with failing calls (each_call.c).
set -u
each=${EACH:-1} # runs every EACH-th job, or without those of ASan and each_call; -N: what EACH=N leaves out
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
sample=tests/corpus/torch/t215/dp_state_dict.pt
work=$(mktemp -d) || exit 2
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# add_counts LOG NAME - prints the file LOG and adds the numbers of its last line "NAME: … passed, … failed"; if
# there is no such line, counts a failure
add_counts()
{
    counts=$(sed -n "s/^$2: \([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p" "$1" | tail -n 1)
    cat "$1"
    [ "$counts" ] || counts="0 1"
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
}

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "$*"; }

# check_full TITLE ARGUMENT… - checks that ckpt ARGUMENT… fails with the message for a full disk
check_full()
{
    title=$1
    shift
    "$CKPT" "$@" >/dev/null 2>"$work/err"
    code=$?
    if [ $code -eq 2 ] && grep -q '^ckpt: .*No space left on device' "$work/err"; then pass; else
        fail "$title: exit $code, $(cat "$work/err")"
    fi
}

check_dev_full()
{
    [ -e /dev/full ] || return
    check_full '/dev/full as output' strip --auto $sample -o /dev/full
    for command in "ls $sample" "ls --json $sample" "info $sample" "hash $sample" "stat $sample" \
        "diff $sample tests/data/examples/train.pt" "scan --all $sample" "strip --auto $sample -o -" "ls --help"; do
        # shellcheck disable=SC2086
        "$CKPT" $command >/dev/full 2>"$work/err"
        code=$?
        if [ $code -eq 2 ] && grep -q '^ckpt: \|ckpt.error.v1' "$work/err"; then pass; else
            fail "$command to /dev/full: exit $code"
        fi
    done
}

check_full_tmpfs()
{
    mkdir "$work/small"
    if mount -t tmpfs -o size=64k tmpfs "$work/small" 2>/dev/null; then
        "$CKPT" strip --auto $sample -q -o "$work/small/out.pt" || fail 'a full tmpfs: cannot write the first file'
        cp "$work/small/out.pt" "$work/out.pt.before"
        cp tests/data/examples/train.pt "$work/small/f"
        cp "$work/small/f" "$work/f.before"
        check_full 'a full tmpfs, replaced' strip --auto tests/data/examples/train.pt -f -o "$work/small/out.pt"
        check_full 'a full tmpfs, new' convert tests/data/examples/train.pt -o "$work/small/new.safetensors"
        check_full 'a full tmpfs, shards' convert tests/data/examples/train.pt --max-shard-size 9000 \
            -o "$work/small/s.safetensors"
        dd if=/dev/zero of="$work/small/filler" bs=1k 2>/dev/null
        check_full 'a full tmpfs, in place' add a.long.prefix.for.every.key. -i "$work/small/f"
        if cmp -s "$work/out.pt.before" "$work/small/out.pt" && cmp -s "$work/f.before" "$work/small/f"; then pass; else
            fail 'a full tmpfs: a file was changed'
        fi
        files=$(ls -A "$work/small" | tr '\n' ' ')
        if [ "$files" = 'f filler out.pt ' ]; then pass; else fail "a full tmpfs: the files are $files"; fi
    else
        echo 'full tmpfs skipped: mounting needs root'
        skipped=1
    fi
}

[ "$each" -lt 0 ] || { check_dev_full; check_full_tmpfs; }
"$B/tests/fail/faults" -e "$each" "$CKPT" $sample >"$work/log"
add_counts "$work/log" faults
# -k 16: allocations fail. In the normal build, each allocation fails in some run. Under ASan, which also finds leaks,
# only every OOM_STEP-th (11) does.
for options in "-s 1 $B/tests/fail/ckpt-oom" "-s ${OOM_STEP:-11} $B/asan/tests/fail/ckpt-oom"; do
    program=${options##* }
    [ -x "$program" ] || continue
    case $program:$each in
    "$B/asan/"*:-*) step=1 ;; # with N > 1, no job was run under ASan
    "$B/asan/"*:1 | "$B/tests/"*) step=$each ;;
    *) continue ;;
    esac
    # shellcheck disable=SC2086
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
        "$B/tests/fail/faults" -e "$step" -k 16 $options $sample >"$work/log"
    add_counts "$work/log" faults
done
# Each call of the library fails in some run. The numbers are the INPUT_STEP and FILE_STEP of each_call.sh. ASan is slow
# and gets fewer inputs.
for arguments in "$B/tests/fail/each_call $B/unit 2 24" "$B/asan/tests/fail/each_call $B/unit 24 24"; do
    [ -x "${arguments%% *}" ] && [ "$each" -le 1 ] || continue
    # shellcheck disable=SC2086
    sh tests/fail/each_call.sh $arguments >"$work/log"
    add_counts "$work/log" 'each call'
done
echo "faults: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
