#!/bin/sh
# in_turn.sh PROGRAM - in_turn.c over all kept inputs of the fuzzer, and over every EACH-th (40) small file of
# the corpus.
set -u
program=$1
packs=tests/fuzz/corpus
work=$(mktemp) || exit 2
trap 'rm -f "$work"*' EXIT
for pack in "$packs"/*.pack; do
    target=${pack##*/}
    FUZZ_TARGET=${target%.pack} "$program" "$pack"
done >"$work" 2>&1
"$program" -e "$packs"/any.pack "$packs"/torch_*.pack "$packs"/safetensors.pack >>"$work" 2>&1
find tests/corpus tests/data -type f -size -16 | sort |
    awk -v each="${EACH:-40}" 'NR % each == 0' >"$work.files"
for target in salvage scan zip zip_patch zip_write; do
    FUZZ_TARGET=$target xargs "$program" -m 8000 <"$work.files" >>"$work" 2>&1
done
xargs "$program" -e -m 8000 <"$work.files" >>"$work" 2>&1
grep -v '^in turn: .* 0 failed$' "$work" | head -n 40
awk '/^in turn: [0-9]* passed, [0-9]* failed$/ {p += $3; f += $5; n++}
     END {printf "in turn: %d passed, %d failed\n", p, f + !n; exit f || !n}' "$work"
