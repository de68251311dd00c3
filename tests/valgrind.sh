#!/bin/sh
# valgrind.sh - runs the unit tests and the demo's commands under valgrind, which must find no invalid access, no use
# of uninitialized values and no leak.
set -u
top=$PWD B=${B:-build}
part=valgrind
. tests/check.sh

if ! command -v valgrind >/dev/null 2>&1; then
    skip 'valgrind is not installed'
    summary
    exit
fi

# is_clean COMMAND… - runs COMMAND under valgrind, which must find nothing; COMMAND may refuse its input
is_clean()
{
    valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect "$@" >"$tmp/out" 2>&1
    status=$?
    tail -n 60 "$tmp/out"
    [ $status -eq 0 ] || { [ $status -le 2 ] && ! grep -q '^==' "$tmp/out"; }
}

ckpt=$top/$B/ckpt
train=$top/tests/data/examples/train.pt
check 'unit tests' is_clean "$B/unit"
cd "$tmp" || exit 2
check ls is_clean "$ckpt" ls -l "$train"
check info is_clean "$ckpt" info "$train"
check show is_clean "$ckpt" show "$train" 'state_dict.module.fc.weight[0:2,:4]'
check hash is_clean "$ckpt" hash --json "$train"
check strip is_clean "$ckpt" strip --auto "$train" -o fixed.pt
check convert is_clean "$ckpt" convert fixed.pt fixed.safetensors
check 'convert back' is_clean "$ckpt" convert fixed.safetensors back.pt
check shards is_clean "$ckpt" convert --max-shard-size 10KB fixed.pt model.safetensors
check rename is_clean "$ckpt" rename -s 'conv=>c' fixed.pt -o renamed.pt
check diff is_clean "$ckpt" diff "$train" fixed.safetensors
check 'a refusal' is_clean "$ckpt" ls "$top/README.md"
summary
