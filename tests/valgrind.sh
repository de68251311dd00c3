#!/bin/sh
# valgrind.sh - runs the unit tests and the demo's commands under valgrind, which must find no invalid access, no use of
# uninitialized values and no leak.
set -u
B=${B:-build}
top=$PWD
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

if ! command -v valgrind >/dev/null 2>&1; then
    echo 'valgrind skipped: no valgrind (apt-get install valgrind)'
    echo 'valgrind: 0 passed, 0 failed, 1 skipped'
    exit 0
fi

watch() # watch WHAT COMMAND… - runs COMMAND under valgrind
{
    what=$1
    shift
    if valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        "$@" >"$tmp/log" 2>&1 || { [ $? -le 2 ] && ! grep -q '^==' "$tmp/log"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -n 60 "$tmp/log"
    fi
}

ckpt=$top/$B/ckpt
train=$top/tests/data/examples/train.pt
watch 'unit tests' "$B/unit"
cd "$tmp" || exit 2
watch ls "$ckpt" ls -l "$train"
watch info "$ckpt" info "$train"
watch show "$ckpt" show "$train" 'state_dict.module.fc.weight[0:2,:4]'
watch hash "$ckpt" hash --json "$train"
watch strip "$ckpt" strip --auto "$train" -o fixed.pt
watch convert "$ckpt" convert fixed.pt fixed.safetensors
watch 'convert back' "$ckpt" convert fixed.safetensors back.pt
watch shards "$ckpt" convert --max-shard-size 10KB fixed.pt model.safetensors
watch rename "$ckpt" rename -s 'conv=>c' fixed.pt -o renamed.pt
watch diff "$ckpt" diff "$train" fixed.safetensors
watch 'a refusal' "$ckpt" ls "$top/README.md"
echo "valgrind: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
