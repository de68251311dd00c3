#!/bin/sh
# bench/latency.sh - checks how many reads ckpt has in flight at a slow store: build/tests/bench/ckpt-slow (slow.c) is
# ckpt with a pause before each read of an input. The time follows from that: N reads that take D each take N * D
# divided by the reads in flight. SHOW=1 prints the values.
set -u
B=${B:-build}
ckpt=$B/tests/bench/ckpt-slow
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
. tests/bench/limit.sh

if [ ! -x "$ckpt" ]; then
    echo "latency skipped: no $ckpt"
    echo 'latency: 0 passed, 0 failed, 1 skipped'
    exit 0
fi

# check_depth THREADS ARGUMENT… - checks that `ckpt ARGUMENT…` has THREADS reads in flight, on average half as many
check_depth()
{
    threads=$1
    shift
    rm -rf "$tmp"/out* "$tmp"/.ckpt*
    if ! SLOW=$tmp/report SLOW_MS=5 "$ckpt" "$@" -j "$threads" >/dev/null 2>"$tmp/messages"; then
        fail "$1"
        return
    fi
    read -r most reads sum <"$tmp/report"
    check_limit "$1 -j $threads: reads that were never in flight, of $threads" $((threads - most)) 0
    check_limit "$1 -j $threads: percent of the time with one read in flight" $((100 * reads / sum)) \
        $((200 / threads))
}

# check_parts PROCESSES THREADS - checks that as many processes with so many threads, four in all, take at most 30 %
# longer than a quarter of the time with one read in flight
check_parts()
{
    rm -rf "$tmp"/out* "$tmp"/.ckpt*
    part=0 pids=
    while [ $part -lt "$1" ]; do
        SLOW=$tmp/report.$part SLOW_MS=5 "$ckpt" convert -j "$2" --part $part/"$1" --no-sync "$tmp/in.safetensors" \
            "$tmp/out.safetensors" >/dev/null 2>&1 &
        pids="$pids $!"
        part=$((part + 1))
    done
    # shellcheck disable=SC2086
    wait $pids
    # the time of a process is READS * READS / SUM, and that of all is that of the slowest
    percent=$(cat "$tmp"/report.? | awk '{ all += $2; time = $2 * $2 / $3; if (time > most) most = time }
        END { printf "%d", 100 * most / all }')
    check_limit "$1 processes, $2 threads each: percent of the time with one read in flight" "$percent" $((130 / 4))
    rm -f "$tmp"/report.?
}

# a part of less than 128 MiB is recorded after each 8 MiB or less, which is too little for several threads
"$B/tests/bench/mkckpt" -n 1024 -b 256M --sparse "$tmp/in.safetensors" >/dev/null || exit 2
check_depth 16 convert --no-sync "$tmp/in.safetensors" "$tmp/out.safetensors"
check_depth 16 convert --part 0/1 --no-sync "$tmp/in.safetensors" "$tmp/out.safetensors"
check_depth 16 hash "$tmp/in.safetensors"
check_depth 16 stat "$tmp/in.safetensors"
check_depth 16 diff "$tmp/in.safetensors" "$tmp/in.safetensors"
check_parts 1 4
check_parts 2 2
check_parts 4 1
echo "latency: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
