#!/bin/sh
# bench/gates.sh - checks costs that do not depend on the machine: bytes read and written, system calls, peak
# memory, instructions. GATES_SHOW=1 prints the measured values; GATES_DOUBT=1 sets each limit below the measured value,
# so that each check must fail.
#
# The memory limit: 8 MiB + 1 KiB for each tensor + 1 MiB for each thread, for files of any size.
set -u
B=${B:-build}
ckpt=$B/ckpt
bin=$B/tests/bench
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
tracing=1

skip()
{
    skipped=$((skipped + 1))
    echo "gates skipped: $1"
}

# check_limit WHAT VALUE LIMIT - checks that VALUE is at most LIMIT
check_limit()
{
    limit=$3
    [ -z "${GATES_DOUBT:-}" ] || limit=$(($2 - 1))
    if [ "$2" -le "$limit" ]; then
        passed=$((passed + 1))
        [ -z "${GATES_SHOW:-}" ] || echo "$1: $2, at most $limit"
    else
        failed=$((failed + 1))
        echo "FAIL $1: $2, at most $limit"
    fi
}

# make_file OPTIONS… FILE - makes FILE by mkckpt and sets $metadata to the size of its metadata
make_file() { metadata=$("$bin/mkckpt" "$@" 2>"$tmp/why"); }

# measure WHAT COMMAND… - runs COMMAND and sets $calls, $in, $out (empty without ptrace) and $kib; fails if COMMAND
# does
measure()
{
    what=$1
    shift
    calls= in= out= kib= status=2
    # shellcheck disable=SC2046
    if [ "$tracing" ]; then
        set -- "$bin/count" -o "$tmp/messages" "$@"
        got=$("$@") || return 1
        set -- $got
        calls=$1 in=$2 out=$3 kib=$4 status=$5
    else
        set -- $("$bin/runner" -n 1 -o "$tmp/messages" "$@")
        kib=$2 status=$3
    fi
    if [ "$status" -gt 1 ]; then
        failed=$((failed + 1))
        echo "FAIL $what: exit $status: $(head -n 2 "$tmp/messages")"
        return 1
    fi
}

# check_memory WHAT TENSORS THREADS COMMAND… - checks that COMMAND stays within the memory limit
check_memory()
{
    what=$1 room=$((8192 + $2 + 1024 * $3))
    shift 3
    measure "$what" "$@" && check_limit "$what: peak KiB" "$kib" "$room"
    rm -rf "$tmp"/out*
}

# count_instructions COMMAND… - prints the number of instructions that COMMAND executes
count_instructions()
{
    if command -v valgrind >/dev/null 2>&1; then
        valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
            sed -n 's/.*Collected : *\([0-9]*\).*/\1/p'
    else
        perf stat -x, -e instructions:u "$@" 2>&1 >/dev/null | sed -n 's/^\([0-9]*\),.*instructions.*/\1/p'
    fi
}

can_count_instructions()
{
    command -v valgrind >/dev/null 2>&1 || perf stat -e instructions:u true >/dev/null 2>&1
}

# ------------------------------------------------------------------ 100 GB

# check_mem_of_huge KIND INSTRUCTIONS - checks that `ckpt mem` reads names and shapes only
check_mem_of_huge()
{
    measure "mem of 100 GB, .$1" "$ckpt" mem "$tmp/huge.$1" || return
    check_limit "mem of 100 GB, .$1: peak KiB" "$kib" 16384
    [ -z "$tracing" ] || check_limit "mem of 100 GB, .$1: bytes read" "$in" $((2 * metadata + 131072))
    [ -z "$tracing" ] || check_limit "mem of 100 GB, .$1: system calls" "$calls" 200
    ! can_count_instructions ||
        check_limit "mem of 100 GB, .$1: instructions" "$(count_instructions "$ckpt" mem "$tmp/huge.$1")" "$2"
}

# check_huge KIND STRIP_LIMIT MEM_LIMIT - checks the cost, on a file of 100 GB, of commands that need only its metadata;
# the limits are instructions
check_huge()
{
    make_file -n 1000 -b 100G --sparse -p module. "$tmp/huge.$1" || { skip "100 GB .$1: $(cat "$tmp/why")"; return; }
    if [ "$(du -k "$tmp/huge.$1" | cut -f1)" -gt 65536 ]; then
        skip "100 GB .$1: this file system does not support sparse files"
        rm -f "$tmp/huge.$1"
        return
    fi
    measure "ls of 100 GB, .$1" "$ckpt" ls "$tmp/huge.$1" || return
    check_limit "ls of 100 GB, .$1: peak KiB" "$kib" 16384
    [ -z "$tracing" ] || check_limit "ls of 100 GB, .$1: bytes read" "$in" $((2 * metadata + 131072))
    check_mem_of_huge "$1" "$3"
    measure "strip --in-place of 100 GB, .$1" "$ckpt" strip --in-place module. "$tmp/huge.$1" || return
    check_limit "strip --in-place of 100 GB, .$1: peak KiB" "$kib" $((8192 + 1000 + 1024))
    [ -z "$tracing" ] || check_limit "strip --in-place of 100 GB, .$1: bytes written" "$out" $((2 * metadata + 65536))
    left=$("$ckpt" ls "$tmp/huge.$1" 2>/dev/null | grep -c '^module[.]')
    check_limit "strip --in-place of 100 GB, .$1: names left with the prefix" "$left" 0
    if can_count_instructions; then
        make_file -n 1000 -b 100G --sparse -p module. "$tmp/huge.$1"
        got=$(count_instructions "$ckpt" strip --in-place module. "$tmp/huge.$1")
        check_limit "strip --in-place of 100 GB, .$1: instructions" "$got" "$2"
    else
        skip "instructions of strip --in-place, .$1: neither valgrind nor perf"
    fi
    rm -f "$tmp/huge.$1"
}

# check_in_place KIND TENSORS INSTRUCTIONS - checks what an edit in place costs, which has the old and the new metadata
# and the patches in memory
check_in_place()
{
    make_file -n "$2" -b 80M --sparse -p module. "$tmp/some.$1" || exit 2
    measure "strip --in-place of $2 tensors, .$1" "$ckpt" strip --in-place module. "$tmp/some.$1" &&
        check_limit "strip --in-place of $2 tensors, .$1: peak KiB" "$kib" $((8192 + 2 * $2 + 1024 + metadata / 1024))
    if can_count_instructions; then
        make_file -n "$2" -b 80M --sparse -p module. "$tmp/some.$1"
        got=$(count_instructions "$ckpt" strip --in-place module. "$tmp/some.$1")
        check_limit "strip --in-place of $2 tensors, .$1: instructions" "$got" "$3"
    fi
    rm -f "$tmp/some.$1"
}

# ------------------------------------------------------------- many shards

# check_shards N - converts N shards to N shards, and checks that each is not examined again for each of the others
check_shards()
{
    make_file -n "$1" -b "${1}K" "$tmp/one.safetensors" || exit 2
    mkdir "$tmp/set"
    "$ckpt" convert -q --no-sync --max-shard-size 1K "$tmp/one.safetensors" -o "$tmp/set/m.safetensors" || return
    measure "$1 shards into $1" "$ckpt" convert --no-sync --max-shard-size 1K "$tmp/set/" -o "$tmp/out.safetensors"
    check_limit "$1 shards into $1: files written" "$(find "$tmp" -name 'out-*' | wc -l)" "$1"
    [ -z "$tracing" ] || check_limit "$1 shards into $1: system calls" "$calls" $(($1 * 60))
    rm -rf "$tmp"/set "$tmp"/out* "$tmp"/one.safetensors
}

# ------------------------------------------------------------ many tensors

# check_edit WHAT COMMAND ARGUMENT… - checks what an edit costs, which has the value graph, the new names and the
# layout of the output in memory
check_edit()
{
    what=$1 command=$2
    shift 2
    for j in 1 4; do
        check_memory "$what -j $j" 20000 $j "$ckpt" "$command" -j $j --no-sync "$@"
        [ -z "$tracing" ] || check_limit "$what -j $j: system calls" "$calls" 5000
    done
}

# check_edits KIND - checks what each edit of $tmp/many.KIND costs
check_edits()
{
    from=$tmp/many.$1
    check_edit "strip of 20,000 tensors, .$1" strip module. "$from" -o "$tmp/out.$1"
    check_edit "add of 20,000 tensors, .$1" add x. "$from" -o "$tmp/out.$1"
    check_edit "rename of 20,000 tensors, .$1" rename -s '^module=>m' "$from" -o "$tmp/out.$1"
    check_edit "convert of 20,000 tensors, .$1 to .pt" convert "$from" "$tmp/out.pt"
    check_edit "convert of 20,000 tensors, .$1 to .safetensors" convert "$from" "$tmp/out.safetensors"
}

# check_many KIND INSTRUCTIONS - checks what commands cost with 20,000 tensors, and ls with 40,000
check_many()
{
    make_file -n 40000 -b 80M --sparse -p module. "$tmp/more.$1" || exit 2
    make_file -n 20000 -b 80M --sparse -p module. "$tmp/many.$1" || exit 2
    measure "ls of 20,000 tensors, .$1" "$ckpt" ls "$tmp/many.$1" || return
    check_limit "ls of 20,000 tensors, .$1: peak KiB" "$kib" $((8192 + 20000 + 1024))
    [ -z "$tracing" ] || check_limit "ls of 20,000 tensors, .$1: system calls" "$calls" 200
    measure "ls --json of 20,000 tensors, .$1" "$ckpt" ls --json "$tmp/many.$1" || return
    [ -z "$tracing" ] ||
        check_limit "ls --json of 20,000 tensors, .$1: bytes read" "$in" $((2 * metadata + 20000 * 256))
    check_edits "$1"
    if ! can_count_instructions; then
        skip "instructions of ls, .$1: neither valgrind nor perf"
        return
    fi
    one=$(count_instructions "$ckpt" ls "$tmp/many.$1")
    check_limit "ls of 20,000 tensors, .$1: instructions" "$one" "$2"
    two=$(count_instructions "$ckpt" ls "$tmp/more.$1")
    check_limit "ls of 40,000 tensors, .$1: instructions in percent of those for 20,000" $((two * 100 / one)) 220
    rm -f "$tmp"/many.* "$tmp"/more.*
}

# ---------------------------------------------------------- long headers

# write_long_header FILE - writes a safetensors file with a header of 100,000,000 bytes, the maximum: a tensor, a text
write_long_header()
{
    {
        printf '\000\341\365\005\000\000\000\000{"__metadata__":{"note":"'
        head -c 99999919 /dev/zero | tr '\000' a
        printf '"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000'
    } >"$1"
}

# check_long_headers - checks that a header is in memory only once: names and texts are not copied from it
check_long_headers()
{
    write_long_header "$tmp/long.safetensors"
    measure 'ls of a header of 100 MB, one long text' "$ckpt" ls "$tmp/long.safetensors" &&
        check_limit 'ls of a header of 100 MB, one long text: peak KiB' "$kib" $((150 * 1024))
    make_file -n 893000 -b 4M --sparse -p module. "$tmp/long.safetensors" || exit 2
    for how in --order=natural --json --tsv --tree --depth=3; do
        measure "ls $how of a header of 100 MB, 893,000 tensors" "$ckpt" ls $how "$tmp/long.safetensors" &&
            check_limit "ls $how of a header of 100 MB, 893,000 tensors: peak KiB" "$kib" $((8192 + 893000 + 1024))
    done
    rm -f "$tmp/long.safetensors"
}

# ------------------------------------------------------------------- scan

# print_pickle N - prints a harmless pickle of 8 N opcodes in 42 N bytes
print_pickle()
{
    record='(U\031layer.weight.of.the.modelK\001K\002M\001\002J\001\002\003\004Nl'
    printf '\200\002]('
    # shellcheck disable=SC2059
    printf "$record%.0s" $(seq 1 1000) >"$tmp/records"
    for _ in $(seq 1 $(($1 / 1000))); do cat "$tmp/records"; done
    printf 'e.'
}

# check_scan - checks the memory that three million opcodes take, and the instructions for each
check_scan()
{
    print_pickle 375000 >"$tmp/many.pkl"
    measure 'scan of 3 million opcodes' "$ckpt" scan --sandbox=off "$tmp/many.pkl" || return
    check_limit 'scan of 3 million opcodes: exit code' "$status" 0
    check_limit 'scan of 3 million opcodes: peak KiB' "$kib" 65536
    [ -z "$tracing" ] || check_limit 'scan of 3 million opcodes: bytes read, of 15.75 MB' "$in" 50000000
    if ! can_count_instructions; then
        skip 'instructions of scan: neither valgrind nor perf'
        return
    fi
    print_pickle 25000 >"$tmp/few.pkl"
    print_pickle 50000 >"$tmp/more.pkl"
    one=$(count_instructions "$ckpt" scan --sandbox=off "$tmp/few.pkl")
    two=$(count_instructions "$ckpt" scan --sandbox=off "$tmp/more.pkl")
    check_limit 'scan: instructions per opcode' $(((two - one) / 200000)) 200
    rm -f "$tmp"/*.pkl "$tmp/records"
}

# ----------------------------------------------------------------- rewrite

# check_rewrite - rewrites a .pt of 2 GB, and checks that the number of system calls depends on the size of buffers, not
# on the number of tensors, and that each tensor is aligned to 64 bytes
check_rewrite()
{
    measure 'strip of 2 GB' "$ckpt" strip --no-sync module. "$tmp/big.pt" -o "$tmp/out.pt" || return
    check_limit 'strip of 2 GB: peak KiB' "$kib" $((8192 + 291 + 1024 * 4))
    bytes=$(wc -c <"$tmp/big.pt")
    [ -z "$tracing" ] || check_limit 'strip of 2 GB: system calls' "$calls" $((2 * bytes / 262144 + 20 * 291))
    "$ckpt" ls --json "$tmp/out.pt" 2>/dev/null | tr ',' '\n' | sed -n 's/.*"file_offset":\([0-9]*\).*/\1/p' >"$tmp/at"
    check_limit 'strip of 2 GB: tensors not aligned to 64 bytes' "$(awk '$1 % 64 || !$1' "$tmp/at" | wc -l)" 0
    check_limit 'strip of 2 GB: tensors not listed' $((291 - $(wc -l <"$tmp/at"))) 0
    rm -f "$tmp"/out*
}

# -------------------------------------------------------------------- memory

check_memory_of_commands()
{
    pt=$tmp/big.pt st=$tmp/big.safetensors name=module.model.layers.0.mlp.up_proj.weight
    check_memory 'ls' 291 1 "$ckpt" ls "$pt"
    check_memory 'ls, safetensors' 291 1 "$ckpt" ls "$st"
    check_memory 'info' 291 1 "$ckpt" info "$pt"
    check_memory 'show' 291 1 "$ckpt" show "$pt" "$name[0:8]"
    for j in 1 4; do
        check_memory "hash -j $j" 291 $j "$ckpt" hash -j $j "$pt"
        check_memory "hash --xxh3 -j $j" 291 $j "$ckpt" hash --xxh3 -j $j "$st"
        check_memory "diff -j $j" 582 $j "$ckpt" diff -j $j "$pt" "$st"
        check_memory "stat -j $j" 291 $j "$ckpt" stat -j $j "$st"
        check_memory "convert to safetensors -j $j" 291 $j "$ckpt" convert -j $j --no-sync "$pt" "$tmp/out.safetensors"
        check_memory "convert to .pt -j $j" 291 $j "$ckpt" convert -j $j --no-sync "$st" "$tmp/out.pt"
    done
    check_memory 'convert --cast' 291 1 "$ckpt" convert --no-sync --cast bf16 "$st" "$tmp/out.safetensors"
    check_memory 'convert to shards' 291 4 "$ckpt" convert --no-sync --max-shard-size 500MB "$pt" "$tmp/out.safetensors"
    check_memory 'add' 291 4 "$ckpt" add --no-sync x. "$pt" -o "$tmp/out.pt"
    check_memory 'rename' 291 4 "$ckpt" rename --no-sync -s '^module=>m' "$pt" -o "$tmp/out.pt"
    check_memory 'add --in-place' 291 4 "$ckpt" add --in-place x. "$pt"
    check_memory 'strip --in-place' 291 4 "$ckpt" strip --in-place x. "$pt"
    check_memory 'rename --in-place' 291 4 "$ckpt" rename --in-place -s '^module=>m' "$st"
}

"$bin/count" true >/dev/null 2>"$tmp/why"
if [ $? -eq 77 ]; then
    tracing=
    skip "bytes and system calls: no tracing here ($(cat "$tmp/why"))"
fi
check_shards 400
check_huge pt 40000000 38000000
check_huge safetensors 25000000 34000000
check_in_place pt 4000 150000000
check_in_place pt 20000 700000000
check_in_place safetensors 20000 500000000
check_many pt 200000000
check_many safetensors 160000000
check_long_headers
check_scan
make_file -n 291 -b 2G --sparse -p module. "$tmp/big.pt" || exit 2
make_file -n 291 -b 2G --sparse -p module. "$tmp/big.safetensors" || exit 2
check_rewrite
check_memory_of_commands
echo "gates: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
