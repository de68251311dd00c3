#!/bin/sh
# run.sh - tests all commands that write with a full disk, failing calls, SIGKILL and a modified input (faults.c).
set -u
each=${EACH:-1} # runs each EACH-th job; if this is not 1, the jobs with ASan and in_turn are left out
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
seed=tests/corpus/torch/t215/dp_state_dict.pt
work=$(mktemp -d) || exit 2
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# add_counts FILE NAME - prints FILE and adds the counts of its last line "NAME: … passed, … failed"; if there is no
# such line, counts a failure
add_counts()
{
    counts=$(sed -n "s/^$2: \([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p" "$1" | tail -n 1)
    cat "$1"
    [ "$counts" ] || counts="0 1"
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
}

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "$*"; }

# check_full WHAT COMMAND… - checks that ckpt COMMAND… fails with the message for a full disk
check_full()
{
    what=$1
    shift
    "$CKPT" "$@" >/dev/null 2>"$work/err"
    code=$?
    if [ $code -eq 2 ] && grep -q '^ckpt: .*No space left on device' "$work/err"; then ok; else
        bad "$what: exit $code, $(cat "$work/err")"
    fi
}

if [ -e /dev/full ]; then
    check_full '/dev/full as output' strip --auto $seed -o /dev/full
    for command in "ls $seed" "ls --json $seed" "info $seed" "hash $seed" "stat $seed" \
        "diff $seed tests/data/examples/train.pt" "scan --all $seed" "strip --auto $seed -o -" "ls --help"; do
        # shellcheck disable=SC2086
        "$CKPT" $command >/dev/full 2>"$work/err"
        code=$?
        if [ $code -eq 2 ] && grep -q '^ckpt: \|ckpt.error.v1' "$work/err"; then ok; else
            bad "$command to /dev/full: exit $code"
        fi
    done
fi

mkdir "$work/small"
if mount -t tmpfs -o size=64k tmpfs "$work/small" 2>/dev/null; then
    "$CKPT" strip --auto $seed -q -o "$work/small/out.pt" || bad 'a small file system: nothing fits'
    cp "$work/small/out.pt" "$work/was"
    cp tests/data/examples/train.pt "$work/small/f"
    cp "$work/small/f" "$work/f"
    check_full 'a full tmpfs, replaced' strip --auto tests/data/examples/train.pt -f -o "$work/small/out.pt"
    check_full 'a full tmpfs, new' convert tests/data/examples/train.pt -o "$work/small/new.safetensors"
    check_full 'a full tmpfs, shards' convert tests/data/examples/train.pt --max-shard-size 9000 \
        -o "$work/small/s.safetensors"
    dd if=/dev/zero of="$work/small/rest" bs=1k 2>/dev/null
    check_full 'a full tmpfs, in place' add a.long.prefix.for.every.key. -i "$work/small/f"
    if cmp -s "$work/was" "$work/small/out.pt" && cmp -s "$work/f" "$work/small/f"; then ok; else
        bad 'a full tmpfs: a file was changed'
    fi
    left=$(ls -A "$work/small" | tr '\n' ' ')
    if [ "$left" = 'f out.pt rest ' ]; then ok; else bad "a full tmpfs: left are $left"; fi
else
    echo 'full tmpfs skipped: mounting needs root'
    skipped=1
fi

"$B/tests/fail/faults" -e "$each" "$CKPT" $seed >"$work/log"
add_counts "$work/log" faults
# In the normal build each allocation fails once; under ASan, which also finds leaks, each eleventh (OOM_STEP).
for oom in "-s 1 $B/tests/fail/ckpt-oom" "-s ${OOM_STEP:-11} $B/asan/tests/fail/ckpt-oom"; do
    [ -x "${oom##* }" ] || continue
    case $each:$oom in 1:* | *" $B/tests/"*) ;; *) continue ;; esac
    # shellcheck disable=SC2086
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
        "$B/tests/fail/faults" -e "$each" -k 16 $oom $seed >"$work/log"
    add_counts "$work/log" faults
done
# Each call of a reader that can fail does so once; under ASan fewer, because starting a process for each is slow.
for some in "$B/tests/fail/in_turn $B/unit 2 24" "$B/asan/tests/fail/in_turn $B/unit 24 24"; do
    [ -x "${some%% *}" ] && [ "$each" = 1 ] || continue
    # shellcheck disable=SC2086
    sh tests/fail/in_turn.sh $some >"$work/log"
    add_counts "$work/log" 'in turn'
done
echo "faults: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
