#!/bin/sh
# bench/run.sh - time and memory on generated files, beside what everybody has: sha256sum, cp, cmp, unzip.
#
#   make bench                    2 GB files in build/bench
#   make bench BENCH_BYTES=200M   smaller ones
#
# Medians of 7 runs (3 where 2 GB are moved), warm page cache. A bound that is missed is marked and makes the exit
# status 1.
set -eu
B=${B:-build}
bytes=${BENCH_BYTES:-2G}
dir=${BENCH_DIR:-$B/bench}
ckpt=$B/ckpt
run=$B/tests/bench/runner
mk=$B/tests/bench/mkckpt
mkdir -p "$dir"
over=0

make_file() { [ -s "$1" ] || "$mk" $2 "$1"; }

# row CASE RUNS MS-BOUND MIB-BOUND YARDSTICK OURS… - YARDSTICK is one word-split command; "-" for a bound or a
# yardstick means none
row()
{
    name=$1 runs=$2 ms_bound=$3 mib_bound=$4 yard=$5
    shift 5
    rm -f "$dir"/out*
    ours=$("$run" -n "$runs" "$@")
    other='- - 0'
    rm -f "$dir"/out*
    # shellcheck disable=SC2086
    [ "$yard" = - ] || other=$("$run" -n "$runs" $yard)
    echo "$ours $other" | awk -v name="$name" -v mb="$mib_bound" -v tb="$ms_bound" -v yard="${yard%% *}" '
    {
        mib = $2 / 1024
        mark = $3 > 1 ? "FAILED" : ((tb != "-" && $1 > tb) || (mb != "-" && mib > mb)) ? "OVER" : ""
        limit = (tb == "-" ? "" : "<= " tb " ms ") (mb == "-" ? "" : "<= " mb " MiB")
        ratio = $4 == "-" || $4 == 0 ? "-" : sprintf("%.2f", $1 / $4)
        printf "| %-34s | %8.1f ms | %6.1f MiB | %-10s | %9s | %5s | %-18s | %s\n", name, $1, mib, \
            yard == "-" ? "" : yard, $4 == "-" ? "" : $4 " ms", ratio, limit, mark
        exit mark != ""
    }' || over=1
}

pt=$dir/big.pt st=$dir/big.safetensors many=$dir/many.pt
echo "making files in $dir" >&2
make_file "$pt" "-n 291 -b $bytes -p module."
make_file "$st" "-n 291 -b $bytes -p module."
make_file "$many" "-n 20000 -b 80M"
make_file "$dir/many.safetensors" "-n 20000 -b 80M"
make_file "$dir/huge.pt" "-n 2000 -b 1T --sparse"
[ -s "$dir/same.pt" ] || cp --reflink=auto "$pt" "$dir/same.pt"
cat "$pt" "$st" "$many" >/dev/null

"$ckpt" --version
printf '| %-34s | %11s | %10s | %-10s | %9s | %5s | %-18s |\n' case ours peak yardstick time ratio bound
row 'start-up: --version' 21 - - true "$ckpt" --version
row "ls, 291 tensors, $bytes .pt" 21 10 16 "unzip -l $pt" "$ckpt" ls "$pt"
row "ls, 291 tensors, $bytes .safetensors" 21 10 16 - "$ckpt" ls "$st"
row 'ls, 20000 tensors .pt' 11 25 - "unzip -l $many" "$ckpt" ls "$many"
row 'ls, 20000 tensors .safetensors' 11 25 - - "$ckpt" ls "$dir/many.safetensors"
row 'ls, 1 TB .pt (sparse)' 11 10 16 - "$ckpt" ls "$dir/huge.pt"
row "info, $bytes .pt" 7 - 16 - "$ckpt" info "$pt"
row "hash, $bytes .pt" 3 - 16 "sha256sum $pt" "$ckpt" hash "$pt"
row "hash --xxh3, $bytes .pt" 3 - 16 "cksum $pt" "$ckpt" hash --xxh3 "$pt"
row "diff, $bytes .pt, .safetensors" 3 - 16 "cmp $pt $dir/same.pt" "$ckpt" diff "$pt" "$st"
row "strip, $bytes .pt" 3 - 16 "cp $pt $dir/out" "$ckpt" strip -f module. "$pt" -o "$dir/out.pt"
row "convert, $bytes .pt to .safetensors" 3 - 16 "cp $pt $dir/out" "$ckpt" convert -f "$pt" "$dir/out.safetensors"
row "convert, $bytes .safetensors to .pt" 3 - 16 "cp $st $dir/out" "$ckpt" convert -f "$st" "$dir/out.pt"
rm -f "$dir"/out*
exit $over
