#!/bin/sh
# demo.sh - strips, converts and checks a real training checkpoint: a small net trained under DataParallel and saved
# with its optimizer by tests/data/examples/make_train.py. Prints each command, runs it, and stops if it fails.
set -eu

B=${B:-build}
top=$PWD
out=$top/$B/demo
rm -rf "$out"
mkdir -p "$out"
cp tests/data/examples/train.pt "$out"
cd "$out"
PATH=$top/$B:$PATH

say() { printf '\n# %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

say 'What is in this file?'
run ckpt info train.pt
run ckpt ls train.pt

say 'Every weight is called module.something, because the model was trained under DataParallel. Take that off:'
run ckpt strip module. train.pt -o fixed.pt
run ckpt ls fixed.pt

say 'The weights alone, as safetensors:'
run ckpt convert fixed.pt fixed.safetensors
run ckpt ls fixed.safetensors

say 'The same numbers? The names differ by the prefix, which diff ignores here; the optimizer stayed in the .pt:'
run ckpt diff --root state_dict --ignore-prefix module. train.pt fixed.safetensors
