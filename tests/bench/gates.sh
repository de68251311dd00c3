#!/bin/sh
# bench/gates.sh - checks costs that do not depend on the machine: bytes read and written, system calls, peak memory,
# instructions. GATES_SHOW=1 prints the measured values. GATES_DOUBT=1 sets each limit below the measured value, to
# see each check fail.
#
# Limit of the peak memory of most commands: 8 MiB + 1 KiB for each tensor + 1 MiB for each thread, for files of any
# size.
set -u
B=${B:-build}
ckpt=$B/ckpt
bin=$B/tests/bench
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
tracing=1 # empty: ptrace is not permitted

skip()
{
    skipped=$((skipped + 1))
    echo "gates skipped: $1"
}

# check_limit TITLE VALUE LIMIT - checks that VALUE is at most LIMIT
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

# make_file OPTIONS… FILE - makes FILE by mkckpt and sets $metadata to the size of its metadata; the reason of a
# failure is in $tmp/reason
make_file() { metadata=$("$bin/mkckpt" "$@" 2>"$tmp/reason"); }

# measure TITLE COMMAND… - runs COMMAND and sets $kib to its peak memory. If ptrace is permitted, also sets $calls to
# the number of its system calls, $in and $out to the bytes read and written. Fails if COMMAND exits with more than 1.
measure()
{
    title=$1
    shift
    calls= in= out= kib= status=2
    # shellcheck disable=SC2046
    if [ "$tracing" ]; then
        set -- "$bin/count" -o "$tmp/messages" "$@"
        counts=$("$@") || counts='0 0 0 0 2' # a failure of `count` counts as one of the command
        set -- $counts
        calls=$1 in=$2 out=$3 kib=$4 status=$5
    else
        set -- $("$bin/runner" -n 1 -o "$tmp/messages" "$@")
        kib=$2 status=$3
    fi
    if [ "$status" -gt 1 ]; then
        failed=$((failed + 1))
        echo "FAIL $title: exit $status: $(head -n 2 "$tmp/messages")"
        return 1
    fi
}

# check_memory TITLE TENSORS THREADS COMMAND… - checks that COMMAND stays within the memory limit
check_memory()
{
    title=$1 kib_limit=$((8192 + $2 + 1024 * $3))
    shift 3
    measure "$title" "$@" && check_limit "$title: peak KiB" "$kib" "$kib_limit"
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

# ---------------------------------------------------------------- start-up

# check_start - checks what every command costs before it opens a file, most of which is the loading of libraries
check_start()
{
    measure 'start-up' "$ckpt" --version || return
    check_limit 'start-up: peak KiB' "$kib" 3500
    [ -z "$tracing" ] || check_limit 'start-up: system calls' "$calls" 90
    ! can_count_instructions ||
        check_limit 'start-up: instructions' "$(count_instructions "$ckpt" --version)" 900000
}

# ------------------------------------------------------------------ 100 GB

# check_mem_command KIND LIMIT - checks that `ckpt mem` reads only the metadata of $tmp/huge.KIND and executes at most
# LIMIT instructions
check_mem_command()
{
    measure "mem of 100 GB, .$1" "$ckpt" mem "$tmp/huge.$1" || return
    check_limit "mem of 100 GB, .$1: peak KiB" "$kib" 16384
    [ -z "$tracing" ] || check_limit "mem of 100 GB, .$1: bytes read" "$in" $((2 * metadata + 131072))
    [ -z "$tracing" ] || check_limit "mem of 100 GB, .$1: system calls" "$calls" 200
    ! can_count_instructions ||
        check_limit "mem of 100 GB, .$1: instructions" "$(count_instructions "$ckpt" mem "$tmp/huge.$1")" "$2"
}

# check_huge KIND STRIP_LIMIT MEM_LIMIT - checks the cost, on a file of 100 GB, of commands that need only its
# metadata; the limits are the instructions of `strip --in-place` and of `ckpt mem`
check_huge()
{
    make_file -n 1000 -b 100G --sparse -p module. "$tmp/huge.$1" || { skip "100 GB .$1: $(cat "$tmp/reason")"; return; }
    if [ "$(du -k "$tmp/huge.$1" | cut -f1)" -gt 65536 ]; then
        skip "100 GB .$1: this file system does not support sparse files"
        rm -f "$tmp/huge.$1"
        return
    fi
    measure "ls of 100 GB, .$1" "$ckpt" ls "$tmp/huge.$1" || return
    check_limit "ls of 100 GB, .$1: peak KiB" "$kib" 16384
    [ -z "$tracing" ] || check_limit "ls of 100 GB, .$1: bytes read" "$in" $((2 * metadata + 131072))
    check_mem_command "$1" "$3"
    measure "strip --in-place of 100 GB, .$1" "$ckpt" strip --in-place module. "$tmp/huge.$1" || return
    check_limit "strip --in-place of 100 GB, .$1: peak KiB" "$kib" $((8192 + 1000 + 1024))
    [ -z "$tracing" ] || check_limit "strip --in-place of 100 GB, .$1: bytes written" "$out" $((2 * metadata + 65536))
    names=$("$ckpt" ls "$tmp/huge.$1" 2>/dev/null | grep -c '^module[.]')
    check_limit "strip --in-place of 100 GB, .$1: names left with the prefix" "$names" 0
    if can_count_instructions; then
        make_file -n 1000 -b 100G --sparse -p module. "$tmp/huge.$1"
        instructions=$(count_instructions "$ckpt" strip --in-place module. "$tmp/huge.$1")
        check_limit "strip --in-place of 100 GB, .$1: instructions" "$instructions" "$2"
    else
        skip "instructions of strip --in-place, .$1: neither valgrind nor perf"
    fi
    rm -f "$tmp/huge.$1"
}

# check_in_place KIND TENSORS LIMIT - checks the cost of an edit in place, which has the old metadata, the new
# metadata and the patches in memory; LIMIT is of instructions
check_in_place()
{
    make_file -n "$2" -b 80M --sparse -p module. "$tmp/small.$1" || exit 2
    measure "strip --in-place of $2 tensors, .$1" "$ckpt" strip --in-place module. "$tmp/small.$1" &&
        check_limit "strip --in-place of $2 tensors, .$1: peak KiB" "$kib" $((8192 + 2 * $2 + 1024 + metadata / 1024))
    if can_count_instructions; then
        make_file -n "$2" -b 80M --sparse -p module. "$tmp/small.$1"
        instructions=$(count_instructions "$ckpt" strip --in-place module. "$tmp/small.$1")
        check_limit "strip --in-place of $2 tensors, .$1: instructions" "$instructions" "$3"
    fi
    rm -f "$tmp/small.$1"
}

# ------------------------------------------------------------- many shards

# check_memory_of_names N - checks the peak memory of ls for N tensors in one file of safetensors and in shards: 8 MiB
# + 400 bytes for each tensor + 1 MiB
check_memory_of_names()
{
    make_file -n "$1" -b "${1}K" --sparse -p module. "$tmp/one.safetensors" || exit 2
    kib_limit=$((8192 + 400 * $1 / 1024 + 1024))
    measure "ls of $1 tensors in a file" "$ckpt" ls "$tmp/one.safetensors" &&
        check_limit "ls of $1 tensors in a file: peak KiB" "$kib" $kib_limit
    mkdir "$tmp/set"
    "$ckpt" convert -q --no-sync --max-shard-size 1M "$tmp/one.safetensors" -o "$tmp/set/m.safetensors" || return
    measure "ls of $1 tensors in shards" "$ckpt" ls "$tmp/set" &&
        check_limit "ls of $1 tensors in shards: peak KiB" "$kib" $kib_limit
    rm -rf "$tmp/set" "$tmp/one.safetensors"
}

# check_shards N - converts N shards to N shards, and checks that the number of system calls for each does not depend
# on N, and that `show` reads the index and one shard
check_shards()
{
    make_file -n "$1" -b "${1}K" "$tmp/unsharded.safetensors" || exit 2
    mkdir "$tmp/set"
    "$ckpt" convert -q --no-sync --max-shard-size 1K "$tmp/unsharded.safetensors" -o "$tmp/set/m.safetensors" || return
    measure "$1 shards into $1" "$ckpt" convert --no-sync --max-shard-size 1K "$tmp/set/" -o "$tmp/out.safetensors"
    check_limit "$1 shards into $1: files written" "$(find "$tmp" -name 'out-*' | wc -l)" "$1"
    [ -z "$tracing" ] || check_limit "$1 shards into $1: system calls" "$calls" $(($1 * 60))
    measure "show of one of $1 shards" "$ckpt" show "$tmp/set" 'model.layers.0.mlp.up_proj.weight[0]'
    index_bytes=$(cat "$tmp"/set/*.json | wc -c)
    [ -z "$tracing" ] || check_limit "show of one of $1 shards: bytes read" "$in" $((index_bytes + 131072))
    [ -z "$tracing" ] || check_limit "show of one of $1 shards: system calls" "$calls" $(($1 * 2 + 200))
    rm -rf "$tmp"/set "$tmp"/out* "$tmp"/unsharded.safetensors
}

# ------------------------------------------------------------ many tensors

# check_edit TITLE COMMAND ARGUMENT… - checks the cost of an edit, which has the value graph, the new names and the
# layout of the output in memory
check_edit()
{
    edit=$1 command=$2
    shift 2
    for threads in 1 4; do
        check_memory "$edit -j $threads" 20000 $threads "$ckpt" "$command" -j $threads --no-sync "$@"
        [ -z "$tracing" ] || check_limit "$edit -j $threads: system calls" "$calls" 5000
    done
}

# check_edits KIND - checks the costs of all edits of $tmp/many.KIND
check_edits()
{
    input=$tmp/many.$1
    check_edit "strip of 20,000 tensors, .$1" strip module. "$input" -o "$tmp/out.$1"
    [ -z "$tracing" ] || [ "$1" != pt ] || # members are read with their headers, once
        check_limit "strip of 20,000 tensors, .$1: bytes read" "$in" $(($(wc -c <"$input") * 5 / 4))
    check_edit "add of 20,000 tensors, .$1" add x. "$input" -o "$tmp/out.$1"
    check_edit "rename of 20,000 tensors, .$1" rename -s '^module=>m' "$input" -o "$tmp/out.$1"
    check_edit "convert of 20,000 tensors, .$1 to .pt" convert "$input" "$tmp/out.pt"
    check_edit "convert of 20,000 tensors, .$1 to .safetensors" convert "$input" "$tmp/out.safetensors"
}

# check_many KIND LIMIT KIB - checks the costs of commands for 20,000 tensors, and of ls for 40,000, too; LIMIT is the
# maximum number of instructions that ls may execute for 20,000 tensors, KIB that of its peak memory
check_many()
{
    make_file -n 40000 -b 80M --sparse -p module. "$tmp/twice.$1" || exit 2
    make_file -n 20000 -b 80M --sparse -p module. "$tmp/many.$1" || exit 2
    measure "ls of 20,000 tensors, .$1" "$ckpt" ls "$tmp/many.$1" || return
    check_limit "ls of 20,000 tensors, .$1: peak KiB" "$kib" "$3"
    [ -z "$tracing" ] || check_limit "ls of 20,000 tensors, .$1: system calls" "$calls" 200
    measure "ls --json of 20,000 tensors, .$1" "$ckpt" ls --json "$tmp/many.$1" || return
    [ -z "$tracing" ] ||
        check_limit "ls --json of 20,000 tensors, .$1: bytes read" "$in" $((2 * metadata + 20000 * 256))
    check_edits "$1"
    if ! can_count_instructions; then
        skip "instructions of ls, .$1: neither valgrind nor perf"
        return
    fi
    instructions=$(count_instructions "$ckpt" ls "$tmp/many.$1")
    check_limit "ls of 20,000 tensors, .$1: instructions" "$instructions" "$2"
    check_limit "tree of 20,000 tensors, .$1: instructions in percent of those of ls" \
        $(($(count_instructions "$ckpt" tree "$tmp/many.$1") * 100 / instructions)) 150
    instructions_twice=$(count_instructions "$ckpt" ls "$tmp/twice.$1")
    check_limit "ls of 40,000 tensors, .$1: instructions in percent of those for 20,000" \
        $((instructions_twice * 100 / instructions)) 220
    rm -f "$tmp"/many.* "$tmp"/twice.*
}

# ---------------------------------------------------------- long headers

# write_long_header FILE - writes a safetensors file with a header of 100,000,000 bytes, the maximum, for one tensor
# and a long text
write_long_header()
{
    {
        printf '\000\341\365\005\000\000\000\000{"__metadata__":{"note":"'
        head -c 99999919 /dev/zero | tr '\000' a
        printf '"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000'
    } >"$1"
}

# check_long_headers - checks that a header is in memory only once, because names and texts are not copied
check_long_headers()
{
    write_long_header "$tmp/long.safetensors"
    measure 'ls of a header of 100 MB, one long text' "$ckpt" ls "$tmp/long.safetensors" &&
        check_limit 'ls of a header of 100 MB, one long text: peak KiB' "$kib" $((150 * 1024))
    make_file -n 893000 -b 4M --sparse -p module. "$tmp/long.safetensors" || exit 2
    for option in --order=natural --json --tsv --tree --depth=3; do
        measure "ls $option of a header of 100 MB, 893,000 tensors" "$ckpt" ls $option "$tmp/long.safetensors" &&
            check_limit "ls $option of a header of 100 MB, 893,000 tensors: peak KiB" "$kib" $((8192 + 893000 + 1024))
    done
    for option in --no-fold --order=size; do
        measure "tree $option of a header of 100 MB, 893,000 tensors" "$ckpt" tree $option "$tmp/long.safetensors" &&
            check_limit "tree $option of a header of 100 MB, 893,000 tensors: peak KiB" "$kib" $((8192 + 893000 + 1024))
    done
    rm -f "$tmp/long.safetensors"
}

# ----------------------------------------------------------- compressed chunks

# check_chunks - checks that a tensor of 2^31 elements in a file of 2 MB is hashed by reading each of its 2048 chunks
# once, and one without most of its chunks by reading only the one that is stored
check_chunks()
{
    tar -xzf tests/bench/chunks.tar.gz -C "$tmp" || exit 2
    measure 'hash of 2^31 elements' "$ckpt" hash "$tmp/rows.h5" || return
    check_limit 'hash of 2^31 elements: peak KiB' "$kib" 32768
    [ -z "$tracing" ] || check_limit 'hash of 2^31 elements: system calls' "$calls" $((2 * 2048 + 300))
    [ -z "$tracing" ] || check_limit 'hash of 2^31 elements: bytes read' "$in" $((2 * $(wc -c <"$tmp/rows.h5")))
    measure 'hash of 2^31 elements, one chunk stored' "$ckpt" hash --max-expanded=2GiB "$tmp/unallocated.h5" || return
    check_limit 'hash of 2^31 elements, one chunk stored: peak KiB' "$kib" 32768
    [ -z "$tracing" ] || check_limit 'hash of 2^31 elements, one chunk stored: system calls' "$calls" 400
    [ -z "$tracing" ] || check_limit 'hash of 2^31 elements, one chunk stored: bytes read' "$in" 65536
    rm -f "$tmp"/*.h5
}

# ------------------------------------------------------------------- scan

# print_pickle N - prints a harmless pickle: 1000 × N times the same 8 opcodes, which take 42 bytes
print_pickle()
{
    record='(U\031layer.weight.of.the.modelK\001K\002M\001\002J\001\002\003\004Nl'
    printf '\200\002]('
    # shellcheck disable=SC2059
    printf "$record%.0s" $(seq 1 1000) >"$tmp/records"
    for _ in $(seq 1 "$1"); do cat "$tmp/records"; done
    printf 'e.'
}

# check_scan - checks the system calls for each storage, the memory that a scan of three million opcodes takes, and the
# instructions for each opcode
check_scan()
{
    make_file -n 1000 -b 80M --sparse -p module. "$tmp/small.pt" || exit 2
    measure 'scan of 1,000 storages' "$ckpt" scan --sandbox=off "$tmp/small.pt" || return
    [ -z "$tracing" ] || check_limit 'scan of 1,000 storages: system calls' "$calls" 7000
    print_pickle 375 >"$tmp/many.pkl"
    measure 'scan of 3 million opcodes' "$ckpt" scan --sandbox=off "$tmp/many.pkl" || return
    check_limit 'scan of 3 million opcodes: exit code' "$status" 0
    check_limit 'scan of 3 million opcodes: peak KiB' "$kib" 65536
    [ -z "$tracing" ] || check_limit 'scan of 3 million opcodes: bytes read, of 15.75 MB' "$in" 50000000
    if ! can_count_instructions; then
        skip 'instructions of scan: neither valgrind nor perf'
        return
    fi
    print_pickle 25 >"$tmp/few.pkl"
    print_pickle 50 >"$tmp/twice.pkl"
    instructions=$(count_instructions "$ckpt" scan --sandbox=off "$tmp/few.pkl")
    instructions_twice=$(count_instructions "$ckpt" scan --sandbox=off "$tmp/twice.pkl")
    check_limit 'scan: instructions per opcode' $(((instructions_twice - instructions) / 200000)) 200
    rm -f "$tmp"/*.pkl "$tmp/records" "$tmp/small.pt"
}

# ----------------------------------------------------------------- rewrite

# check_rewrite - rewrites a .pt of 2 GB, and checks that it takes at most two system calls for each 256 KiB and 20 for
# each tensor, and that each tensor is aligned to 64 bytes
check_rewrite()
{
    measure 'strip of 2 GB' "$ckpt" strip --no-sync module. "$tmp/big.pt" -o "$tmp/out.pt" || return
    check_limit 'strip of 2 GB: peak KiB' "$kib" $((8192 + 291 + 1024 * 4))
    bytes=$(wc -c <"$tmp/big.pt")
    [ -z "$tracing" ] || check_limit 'strip of 2 GB: system calls' "$calls" $((2 * bytes / 262144 + 20 * 291))
    "$ckpt" ls --json "$tmp/out.pt" 2>/dev/null | tr ',' '\n' |
        sed -n 's/.*"file_offset":\([0-9]*\).*/\1/p' >"$tmp/offsets"
    check_limit 'strip of 2 GB: tensors not aligned to 64 bytes' "$(awk '$1 % 64 || !$1' "$tmp/offsets" | wc -l)" 0
    check_limit 'strip of 2 GB: tensors not listed' $((291 - $(wc -l <"$tmp/offsets"))) 0
    rm -f "$tmp"/out*
}

# -------------------------------------------------------------------- memory

# check_memory_of_commands - checks the peak memory of commands on files of 2 GB with 291 tensors
check_memory_of_commands()
{
    pt=$tmp/big.pt st=$tmp/big.safetensors name=module.model.layers.0.mlp.up_proj.weight
    check_memory 'ls' 291 1 "$ckpt" ls "$pt"
    check_memory 'ls, safetensors' 291 1 "$ckpt" ls "$st"
    check_memory 'info' 291 1 "$ckpt" info "$pt"
    check_memory 'show' 291 1 "$ckpt" show "$pt" "$name[0:8]"
    for threads in 1 4; do
        check_memory "hash -j $threads" 291 $threads "$ckpt" hash -j $threads "$pt"
        check_memory "hash --xxh3 -j $threads" 291 $threads "$ckpt" hash --xxh3 -j $threads "$st"
        check_memory "diff -j $threads" 582 $threads "$ckpt" diff -j $threads "$pt" "$st"
        check_memory "stat -j $threads" 291 $threads "$ckpt" stat -j $threads "$st"
        check_memory "convert to safetensors -j $threads" 291 $threads \
            "$ckpt" convert -j $threads --no-sync "$pt" "$tmp/out.safetensors"
        check_memory "convert to .pt -j $threads" 291 $threads \
            "$ckpt" convert -j $threads --no-sync "$st" "$tmp/out.pt"
    done
    check_memory 'convert --cast' 291 1 "$ckpt" convert --no-sync --cast bf16 "$st" "$tmp/out.safetensors"
    check_memory 'convert to shards' 291 4 "$ckpt" convert --no-sync --max-shard-size 500MB "$pt" "$tmp/out.safetensors"
    check_memory 'add' 291 4 "$ckpt" add --no-sync x. "$pt" -o "$tmp/out.pt"
    check_memory 'rename' 291 4 "$ckpt" rename --no-sync -s '^module=>m' "$pt" -o "$tmp/out.pt"
    check_memory 'add --in-place' 291 4 "$ckpt" add --in-place x. "$pt"
    check_memory 'strip --in-place' 291 4 "$ckpt" strip --in-place x. "$pt"
    check_memory 'rename --in-place' 291 4 "$ckpt" rename --in-place -s '^module=>m' "$st"
}

# check_average - averages three files of 64 MB, of which each byte is read once
check_average()
{
    one=$tmp/one.safetensors
    make_file -n 20 -b 64M "$one" || { skip "average: $(cat "$tmp/reason")"; return; }
    cp "$one" "$tmp/two.safetensors"
    cp "$one" "$tmp/three.safetensors"
    measure 'average of three files' "$ckpt" average -j 1 --no-sync "$one" "$tmp/two.safetensors" \
        "$tmp/three.safetensors" -o "$tmp/out.safetensors" || return
    bytes=$(wc -c <"$one")
    check_limit 'average of three files: peak KiB' "$kib" $((8192 + 3 * 20 + 1024))
    [ -z "$tracing" ] || check_limit 'average of three files: bytes read' "$in" $((3 * bytes + 262144))
    [ -z "$tracing" ] || check_limit 'average of three files: system calls' "$calls" $((3 * bytes / 30000 + 1000))
    rm -f "$tmp"/out* "$one" "$tmp/two.safetensors" "$tmp/three.safetensors"
}

# check_stack - stacks 4,096 experts of a set, of which each byte is read once, and cuts the stacks again
check_stack()
{
    modules=$tmp/modules.safetensors experts=$tmp/experts stacks=$tmp/stacks
    make_file -n 16 -b 64M "$modules" || { skip "stack: $(cat "$tmp/reason")"; return; }
    "$ckpt" edit -q --no-sync "$modules" -o "$experts" --max-shard-size 8MB \
        -e 'slice * [:524288] ; reshape [256, -1] ; unstack * -> *.{e}' || return
    measure 'stack of 4,096 experts' "$ckpt" edit -q -j 1 --no-sync "$experts" -o "$stacks" --max-shard-size 8MB \
        -e 'stack *.{e} -> *' || return
    bytes=$(cat "$experts"/* | wc -c)
    check_limit 'stack of 4,096 experts: peak KiB' "$kib" $((8192 + 4096 + 1024))
    [ -z "$tracing" ] || check_limit 'stack of 4,096 experts: bytes read' "$in" $((bytes + 3 * 1048576))
    [ -z "$tracing" ] || check_limit 'stack of 4,096 experts: system calls' "$calls" 3000
    measure 'unstack to 4,096 experts' "$ckpt" edit -q -j 1 --no-sync "$stacks" -o "$tmp/out" --max-shard-size 8MB \
        -e 'unstack * -> *.{e}' || return
    check_limit 'unstack to 4,096 experts: peak KiB' "$kib" $((8192 + 4096 + 1024))
    [ -z "$tracing" ] || check_limit 'unstack to 4,096 experts: bytes read' "$in" $((bytes * 5 / 4))
    [ -z "$tracing" ] || check_limit 'unstack to 4,096 experts: system calls' "$calls" 3000
    rm -rf "$tmp"/out* "$modules" "$experts" "$stacks"
}

# check_transpose - transposes a matrix of 64 MB, of which each byte is read once; bands of rows are in memory
check_transpose()
{
    flat=$tmp/flat.safetensors matrix=$tmp/matrix.safetensors
    make_file -n 1 -b 64M "$flat" || { skip "transpose: $(cat "$tmp/reason")"; return; }
    "$ckpt" edit -q --no-sync "$flat" -o "$matrix" -e 'slice * [:16777216] ; reshape [4096, 4096]' || return
    measure 'transpose of 64 MB' "$ckpt" edit -q -j 1 --no-sync "$matrix" -o "$tmp/out.safetensors" -e 'transpose *' ||
        return
    check_limit 'transpose of 64 MB: peak KiB' "$kib" $((56 * 1024))
    [ -z "$tracing" ] || check_limit 'transpose of 64 MB: bytes read' "$in" $((67108864 * 5 / 4))
    [ -z "$tracing" ] || check_limit 'transpose of 64 MB: system calls' "$calls" 20000
    rm -f "$tmp"/out*
    ! can_count_instructions || check_limit 'transpose of 64 MB: instructions for each element' \
        $(($(count_instructions "$ckpt" edit -q -j 1 --no-sync "$matrix" -o "$tmp/out.safetensors" -e 'transpose *') \
        / 16777216)) 12
    rm -f "$tmp"/out* "$flat" "$matrix"
}

# check_mem_plan - checks the cost of a plan for 200 blocks
check_mem_plan()
{
    if ! can_count_instructions; then
        skip 'instructions of mem --fits: neither valgrind nor perf'
        return
    fi
    sed 's/"n_layer": 12/"n_layer": 200/' tests/data/examples/gpt2.json >"$tmp/deep.json"
    instructions=$(count_instructions "$ckpt" mem -b 8 -s 1024 --fits=100G "$tmp/deep.json")
    check_limit 'plan of 200 blocks: instructions' "$instructions" 40000000
}

"$bin/count" true >/dev/null 2>"$tmp/reason"
if [ $? -eq 77 ]; then
    tracing=
    skip "bytes and system calls: ptrace is not permitted ($(cat "$tmp/reason"))"
fi
check_start
check_shards 400
check_memory_of_names 60000
# After KIND, and the 4000 and 20000 tensors of check_in_place, are limits of instructions.
check_huge pt 40000000 38000000
check_huge safetensors 25000000 34000000
check_in_place pt 4000 150000000
check_in_place pt 20000 700000000
check_in_place safetensors 20000 500000000
check_many pt 155000000 19500
check_many safetensors 160000000 29216
check_long_headers
check_chunks
check_scan
check_mem_plan
check_average
check_stack
check_transpose
make_file -n 291 -b 2G --sparse -p module. "$tmp/big.pt" || exit 2
make_file -n 291 -b 2G --sparse -p module. "$tmp/big.safetensors" || exit 2
check_rewrite
check_memory_of_commands
echo "gates: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
