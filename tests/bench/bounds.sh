#!/bin/sh
# bench/bounds.sh - the promises about memory, which hold on any machine: listing needs little whatever the file's size,
# and no operation holds a file in memory (8 MiB + 1 KiB for each tensor + 1 MiB for each thread, and what a
# process needs to start).
set -u
B=${B:-build}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# at_most MIB WHAT COMMAND… - its peak memory, and that it works
at_most()
{
    mib=$1 what=$2
    shift 2
    # shellcheck disable=SC2046
    set -- "$mib" "$what" $("$B/tests/bench/runner" -n 1 "$@")
    if [ "$5" -le 1 ] && [ "$4" -le $((mib * 1024)) ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what: $4 KiB, exit $5; at most $mib MiB"
    fi
}

make_file() { "$B/tests/bench/mkckpt" "$@" || exit 2; }

make_file -n 291 -b 2G --sparse -p module. "$tmp/big.pt"
make_file -n 291 -b 2G --sparse -p module. "$tmp/big.safetensors"
make_file -n 291 -b 160M -p module. "$tmp/a.pt"
make_file -n 291 -b 160M -p module. "$tmp/a.safetensors"
make_file -n 2 -b 160M "$tmp/two.pt"
make_file -n 20000 -b 80M --sparse "$tmp/many.pt"
ckpt=$B/ckpt
at_most 16 'ls of 2 GB, .pt' "$ckpt" ls "$tmp/big.pt"
at_most 16 'ls of 2 GB, .safetensors' "$ckpt" ls "$tmp/big.safetensors"
at_most 16 'info of 2 GB' "$ckpt" info "$tmp/big.pt"
at_most 40 'ls of 20000 tensors' "$ckpt" ls "$tmp/many.pt"
at_most 16 'hash' "$ckpt" hash "$tmp/a.pt"
at_most 16 'hash of two large tensors' "$ckpt" hash --xxh3 "$tmp/two.pt"
at_most 16 'diff' "$ckpt" diff "$tmp/a.pt" "$tmp/a.safetensors"
at_most 16 'strip' "$ckpt" strip module. "$tmp/a.pt" -o "$tmp/out.pt"
at_most 16 'convert to safetensors' "$ckpt" convert "$tmp/a.pt" "$tmp/out.safetensors"
at_most 16 'convert to .pt' "$ckpt" convert -f "$tmp/a.safetensors" "$tmp/out.pt"
at_most 16 'convert to shards' "$ckpt" convert --max-shard-size 50MB "$tmp/a.pt" "$tmp/model.safetensors"
echo "bounds: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
