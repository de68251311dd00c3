#!/bin/sh
# run.sh - an edit in place is killed before every one of its system calls. Whatever it left, the next run must make the
# old file or the new one of it, byte for byte, with no journal beside it; and nothing may read the file in between
# unless it is one of the two.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
kill=$PWD/$B/tests/fail/kill
data=$PWD/tests/data/examples/train.pt
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 2
passed=0 failed=0

"$kill" 1 true
if [ $? -ne 1 ]; then
    echo 'kill skipped: this machine lets nobody trace'
    echo 'kill: 0 passed, 0 failed, 1 skipped'
    exit
fi

bad()
{
    failed=$((failed + 1))
    echo "$1, killed before call $n: $2"
}

same() { cmp -s "$1" old || cmp -s "$1" new; }

# each WHAT COMMAND… - COMMAND edits the file f, which is `old` before
each()
{
    what=$1
    shift
    cp old f && "$CKPT" "$@" f -q && mv f new || { bad "$what" 'cannot be done at all'; return; }
    n=0 code=1
    while [ $code -eq 1 ] && [ $n -lt 2000 ]; do
        n=$((n + 1))
        cp old f
        "$kill" $n "$CKPT" "$@" f -q >/dev/null 2>&1
        code=$?
        "$CKPT" ls f >/dev/null 2>&1 && ! same f && { bad "$what" 'a reader took a half changed file'; return; }
        "$CKPT" "$@" f --check -q >/dev/null 2>&1
        [ $? -le 1 ] || { bad "$what" 'the next run fails'; return; }
        same f || { bad "$what" 'neither the old file nor the new one'; return; }
        [ ! -e f.ckpt-undo ] || { bad "$what" 'a journal stays'; return; }
        passed=$((passed + 1))
    done
    cmp -s f new && [ $n -gt 20 ] || bad "$what" 'the last run did not get to its end'
}

cp "$data" old
each 'shorter names in a zip' strip --auto -i
each 'longer names in a zip' add a.prefix.that.is.longer.than.the.room.in.the.pickle. -i
"$CKPT" convert "$data" --root state_dict -o s.safetensors -q && mv s.safetensors old
each 'safetensors' strip --auto -i
echo "kill: $passed passed, $failed failed"
[ $failed -eq 0 ]
