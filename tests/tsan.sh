#!/bin/sh
# tsan.sh - reads samples of torch's formats, and one safetensors file, in several threads at once under ThreadSanitizer
# (tests/tsan.c). A data race ends the program with exit status 66.
set -u
B=${B:-build}
corpus=tests/corpus/torch
if [ ! -x "$B/tsan/can" ]; then
    echo "tsan skipped: programs built with ${CC:-cc} -fsanitize=thread do not run (see $B/tsan/can.log)"
    echo 'tsan: 0 passed, 0 failed, 1 skipped'
    exit
fi
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
"$B/tests/bench/mkckpt" -n 40 -b 24M "$tmp/large.pt" >/dev/null &&
    "$B/ckpt" convert -q -o "$tmp/large.safetensors" "$tmp/large.pt" || exit 2
samples=$(find $corpus/exp $corpus/badexp/01_ok.pt $corpus/misc2 $corpus/legexp $corpus/t14py2 $corpus/t26 \
    -name '*.p[tk]*' -size -100k | LC_ALL=C sort |
    while read -r path; do "$B/ckpt" ls -q "$path" >/dev/null 2>&1 && echo "$path"; done)
# shellcheck disable=SC2086
TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}" "$B/tsan/tests/tsan" "$tmp"/large.* $samples
