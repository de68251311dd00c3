#!/bin/sh
# bench/run.sh - measures time and memory on generated files, next to common tools (cp, cmp, cksum, xxhsum, openssl)
# and, if a Python with torch is found, next to the same job in Python.
#
#   make bench                256 MB files in build/bench, or in BENCH_DIR if it is set
#   make bench BENCH_BIG=1    2 GB files
#   make bench-results        2 GB files, and the table kept in tests/bench/RESULTS.md
#   make bench CASES=diff     only the cases whose name has "diff"
#
# The page cache is warm. The yardstick of a case is a common tool that does similar work. The two run alternately;
# the ratio is ckpt's time over that of the yardstick: the median of 5 batches, with the lowest and the highest. The
# exit status is 1 if a case fails, exceeds its memory limit, or takes more than 1.5 times its goal.
set -eu
export LC_ALL=C
B=${B:-build}
dir=${BENCH_DIR:-$B/bench}
ckpt=$B/ckpt
bin=$B/tests/bench
CASES=${CASES:-}
status=0

# touch_bytes: bytes of memory to touch before each run of a case that writes (runner.c gives the reason)
# write_runs, read_runs, peer_runs: runs in a batch of a case that writes, of a case that reads, and of peer.py
if [ "${BENCH_BIG:-}" ]; then
    bytes=2G size='2 GB' touch_bytes=3200000000 write_runs=1 read_runs=3 peer_runs=1
else
    bytes=256M size='256 MB' touch_bytes=400000000 write_runs=3 read_runs=5 peer_runs=3
fi
mkdir -p "$dir"

python=
for candidate in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import torch, safetensors.torch' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
[ "$python" ] ||
    echo 'peer column skipped: no Python with torch and safetensors (make oracle-env, or ORACLE_PYTHON=…)' >&2

# -------------------------------------------------------------- the machine

# print_version COMMAND… - prints the name of COMMAND and the version number in its first line of output
print_version() { "$@" 2>&1 | sed -n '1{s/^[^0-9]* \([0-9][0-9.]*[0-9][a-z]*\).*/\1/p;}' | sed "s/^/${1##*/} /"; }
has_command() { command -v "$1" >/dev/null 2>&1; }

# print_reflink - prints whether this file system can clone files
print_reflink()
{
    echo x >"$dir/out.a"
    cp --reflink=always "$dir/out.a" "$dir/out.b" 2>/dev/null && echo 'clones files' || echo 'does not clone files'
    rm -f "$dir"/out*
}

# print_machine - prints the versions, processor, memory and file system that the results depend on
print_machine()
{
    echo "- $("$ckpt" --version | head -n 1), $(print_version "${CC:-cc}" --version), files of $size"
    echo "- $(uname -sm) $(uname -r | sed 's/[^0-9.].*//'),$(
        sed -n 's/^model name[^:]*:/ /p' /proc/cpuinfo | head -n 1 |
        tr -s ' '), $(nproc) cores, $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
    echo "- $(df --output=fstype "$dir" | tail -n 1), $(print_reflink)"
    echo "- $(print_version cp --version)$(has_command xxhsum && echo ", $(print_version xxhsum --version)"), $(
        print_version openssl version)$(has_command zipinfo && echo ", $(print_version unzip -v)")"
    [ -z "$python" ] || echo "- $("$python" --version), torch $("$python" -c 'import torch; print(torch.__version__)')"
}

# -------------------------------------------------------- a row of the table

# reset_row - sets the defaults of what a case may set for its row:
#   prepare           a command to run before each run
#   touched           bytes of memory to touch before each run
#   runs              runs in a batch
#   tensors, threads  their numbers, from which the memory limit is calculated
#   peer              the arguments of peer.py, or empty
reset_row() { prepare=true touched=0 runs=$read_runs tensors=291 threads=1 peer=; }
reset_row

# set_peer ARGUMENT… - lets the next row run peer.py with the ARGUMENTs, too
set_peer() { peer=$*; }

# measure_peer CKPT-MS - runs peer.py, and sets $peer_ratio to the time of ckpt over that of peer.py, and $peer_text to
# the text of the column "peer", which shows the inverse ratio
measure_peer()
{
    peer_text=- peer_ratio=0
    [ "$python" ] && [ "$peer" ] || return 0
    rm -f "$dir"/out*
    # shellcheck disable=SC2086
    set -- "$1" $("$bin/runner" -n "$peer_runs" "$python" tests/bench/peer.py $peer)
    [ "$4" -eq 0 ] || { echo "peer: $peer: exit status $4" >&2; return 0; }
    peer_ratio=$(awk -v ms="$1" -v peer_ms="$2" 'BEGIN {print ms / peer_ms}')
    peer_text=$(awk -v ms="$1" -v peer_ms="$2" -v kib="$3" 'BEGIN {
        printf peer_ms / ms < 10 ? "%.1f" : "%.0f", peer_ms / ms
        printf "× (%.1f s, %.0f MiB)", peer_ms / 1e3, kib / 1024}')
}

# print_row CASE GOAL YARDSTICK COMMAND… - measures COMMAND and prints a row of the table. YARDSTICK is a command in
# one word, or "-". GOAL is a maximum: a ratio to the yardstick; "N ms"; "1/N peer", a fraction of the time of
# peer.py; or "-" for none.
print_row()
{
    name=$1 goal=$2 yardstick=$3
    shift 3
    case $name in *"$CASES"*) ;; *) reset_row; return 0 ;; esac
    if [ "$yardstick" != - ] && ! has_command "${yardstick%% *}"; then
        echo "$name: ${yardstick%% *} is not installed" >&2
        yardstick=-
    fi
    rm -f "$dir"/out*
    # sets $1 … $7 to the output of the runner: MS KIB STATUS YARDSTICK-MS RATIO LOWEST HIGHEST
    # shellcheck disable=SC2046,SC2086
    if [ "$yardstick" = - ]; then
        set -- $("$bin/runner" -b 5 -n "$runs" -p "$prepare" -t "$touched" -o "$dir/messages" "$@") - - - -
    else
        set -- $("$bin/runner" -b 5 -n "$runs" -p "$prepare" -t "$touched" -o "$dir/messages" "$@" -- $yardstick)
    fi
    [ "$3" -le 1 ] || head -n 2 "$dir/messages" >&2
    measure_peer "$1"
    echo "$*" | awk -v name="$name" -v goal="$goal" -v yardstick="$(basename "${yardstick%% *}")" \
        -v peer_text="$peer_text" -v peer_ratio="$peer_ratio" -v kib_limit=$((8192 + tensors + 1024 * threads)) '
    function duration(ms) { return ms < 10 ? sprintf("%.1f ms", ms)  : \
        ms < 1000 ? sprintf("%.0f ms", ms) : sprintf("%.2f s", ms / 1e3) }
    function ratio(number) { return number < 10 ? sprintf("%.2f", number) : sprintf("%.0f", number) }
    {
        split(goal, number, "[ /]")
        # the time of ckpt as a fraction of its goal
        of_goal = goal ~ /ms$/ ? $1 / number[1] : goal ~ /peer$/ ? peer_ratio * number[2] : \
            (goal == "-" || $5 == "-") ? 0 : $5 / goal
        verdict = $3 > 1 ? " **failed**" : of_goal > 1 ? " **missed**" : ""
        yardstick_text = yardstick == "-" ? "" : yardstick " " duration($4)
        ratios = $5 == "-" ? "" : ratio($5) " (" ratio($6) "-" ratio($7) ")"
        over = ($2 > kib_limit) ? " **over**" : "" # the memory limit
        printf("| %s | %s | %s | %s | %s%s | %s | %.1f MiB%s |\n", name, duration($1), yardstick_text, ratios, \
            goal == "-" ? "" : "≤ " goal, verdict, peer_text == "-" ? "" : peer_text, $2 / 1024, over)
        exit ($3 > 1 || over || of_goal > 1.5)
    }' || status=1
    rm -f "$dir"/out*
    reset_row
}

# prepare_write [THREADS] - sets up a row that writes: before each run, its output is removed and memory is touched
prepare_write() { prepare="rm -f $dir/out*" touched=$touch_bytes runs=$write_runs threads=${1:-1}; }

# prepare_edit FILE - sets up a row that edits FILE in place: before each run, FILE is made again and flushed to disk,
# so that the edit, which flushes FILE, waits only for the bytes that it has changed
prepare_edit() { prepare="rm -f $dir/out* && $mkckpt -n 1000 -b 100G --sparse -p module. $1 >/dev/null && sync $1"; }

# --------------------------------------------------------------------- files

pt=$dir/$bytes.pt st=$dir/$bytes.safetensors same=$dir/$bytes.same.pt changed=$dir/$bytes.changed.pt
many=$dir/many huge=$dir/huge long=$dir/long zero=$dir/zero3.$bytes dcp=$dir/dcp.$bytes shards=$dir/set
mkckpt=$bin/mkckpt tf=$dir/$bytes.tf gguf=$dir/$bytes.gguf npz=$dir/$bytes.npz h5=$dir/$bytes.h5

# make_file OPTION… FILE - makes FILE by mkckpt, unless it exists
make_file() { eval "[ -s \"\${$#}\" ]" || "$mkckpt" "$@" >/dev/null; }

# make_folders - makes the folders of many ranks by torch, unless their last files exist
make_folders()
{
    [ -s "$zero/latest" ] || {
        rm -rf "$zero"
        "$python" tests/bench/mkzero.py "$zero" $bytes
    }
    for kind in ranks first last; do
        [ -s "$dcp.$kind/.metadata" ] || {
            rm -rf "$dcp.$kind"
            "$python" tests/bench/mkdcp.py "$dcp.$kind" $kind $bytes
        }
    done
}

make_files()
{
    make_file -n 291 -b $bytes -p module. "$pt"
    make_file -n 291 -b $bytes -p module. "$st"
    make_file -n 291 -b $bytes -p module. --changed "$changed"
    [ -s "$same" ] || cp --reflink=auto "$pt" "$same"
    for kind in pt safetensors; do
        make_file -n 20000 -b 80M -p module. "$many.$kind"
        make_file -n 1000 -b 100G --sparse -p module. "$huge.$kind"
    done
    make_file -n 893000 -b 4M -p module. "$long.safetensors"
    # a header of 100,000,000 bytes, the maximum: 0x5f5e100, written as octal bytes
    [ -s "$long.text.safetensors" ] || {
        printf '\000\341\365\005\000\000\000\000{"__metadata__":{"note":"'
        head -c 99999919 /dev/zero | tr '\000' a
        printf '"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000'
    } >"$long.text.safetensors"
    # a pickle with 8 opcodes in 42 bytes, 375,000 times
    record='(U\031layer.weight.of.the.modelK\001K\002M\001\002J\001\002\003\004Nl'
    # shellcheck disable=SC2059
    printf "$record%.0s" $(seq 1 1000) >"$dir/records"
    { printf '\200\002]('; for _ in $(seq 1 375); do cat "$dir/records"; done; printf 'e.'; } >"$dir/many.pkl"
    [ -s "$shards/model.safetensors.index.json" ] || {
        make_file -n 2000 -b 200M "$many.set.safetensors"
        mkdir -p "$shards"
        "$ckpt" convert -q --max-shard-size 1KB "$many.set.safetensors" "$shards/model.safetensors"
    }
    [ -s "$gguf" ] || "$ckpt" convert -q --architecture bench "$st" "$gguf"
    [ -s "$npz" ] || "$ckpt" convert -q "$st" "$npz"
    ! has_command python3 || [ -s "$tf.index" ] || python3 tests/bench/mkother.py tf "$tf" $bytes
    [ ! "$python" ] || [ -s "$h5" ] || "$python" tests/bench/mkother.py h5 "$h5" $bytes
    [ ! "$python" ] || make_folders
    cat "$pt" "$st" "$same" "$changed" "$many.pt" "$many.safetensors" >/dev/null
}

# --------------------------------------------------------------------- cases

# for_other_formats FUNCTION - calls FUNCTION TITLE FILE for each format of another framework, if its file was made
for_other_formats()
{
    for format in TensorFlow:$tf.index GGUF:$gguf npz:$npz HDF5:$h5; do
        [ ! -s "${format#*:}" ] || "$1" "${format%%:*}" "${format#*:}"
    done
}
bench_listing_of() { print_row "ls, $size $1" '15 ms' - "$ckpt" ls "$2"; }
bench_conversion_of()
{
    data=$2
    [ "$1" != TensorFlow ] || data=${2%index}data-00000-of-00001
    prepare_write 2
    print_row "convert, $size $1 to .safetensors, -j 2" 1.3 "cp $data $dir/out.cp" \
        "$ckpt" convert -j 2 --no-sync "$2" "$dir/out.safetensors"
}

bench_listing()
{
    runs=7 print_row 'start-up: --version' '1.5 ms' true "$ckpt" --version
    set_peer ls "$pt"
    runs=7 print_row "ls, $size .pt" '10 ms' "zipinfo -1 $pt" "$ckpt" ls "$pt"
    runs=7 print_row "ls, $size .safetensors" '10 ms' - "$ckpt" ls "$st"
    set_peer ls "$many.pt"
    tensors=20000 print_row 'ls, 20000 tensors .pt' '1/40 peer' "zipinfo -1 $many.pt" "$ckpt" ls "$many.pt"
    tensors=20000 print_row 'ls, 20000 tensors .safetensors' - - "$ckpt" ls "$many.safetensors"
    # the memory limit is 150 MiB
    tensors=144384 print_row 'ls, 100 MB safetensors header, one text' '1000 ms' "cat $long.text.safetensors" \
        "$ckpt" ls "$long.text.safetensors"
    tensors=893000 print_row 'ls, 100 MB safetensors header, 893000 tensors' '1500 ms' "cat $long.safetensors" \
        "$ckpt" ls "$long.safetensors"
    tensors=1000 print_row 'ls, 100 GB .pt (sparse)' '10 ms' - "$ckpt" ls "$huge.pt"
    tensors=1000 print_row 'ls, 100 GB .safetensors (sparse)' '10 ms' - "$ckpt" ls "$huge.safetensors"
    for_other_formats bench_listing_of
    print_row "info, $size .pt" '10 ms' - "$ckpt" info "$pt"
    # the memory limit of scan is 64 MiB, that of 56320 tensors
    runs=7 tensors=56320 print_row 'scan, 3 million opcodes of a pickle (15.7 MB)' '200 ms' "cat $dir/many.pkl" \
        "$ckpt" scan "$dir/many.pkl"
    print_row 'show, a value of 2000 shards' '20 ms' - "$ckpt" show "$shards" 'model.layers.0.mlp.up_proj.weight[0]'
    print_row "show, 8 values of $size .pt" '10 ms' - "$ckpt" show "$pt" 'module.model.layers.0.mlp.up_proj.weight[0:8]'
}

bench_renaming()
{
    prepare_write
    set_peer strip "$pt" "$dir/out.py.pt"
    print_row "strip, $size .pt" 1.15 "cp $pt $dir/out.cp" "$ckpt" strip --no-sync module. "$pt" -o "$dir/out.pt"
    prepare_write
    print_row "add, $size .pt" - "cp $pt $dir/out.cp" "$ckpt" add --no-sync x. "$pt" -o "$dir/out.pt"
    prepare_write
    print_row "rename, $size .safetensors" - "cp $st $dir/out.cp" \
        "$ckpt" rename --no-sync -s '^module=>m' "$st" -o "$dir/out.safetensors"
    prepare_write
    tensors=20000 print_row 'strip, 20000 tensors .pt' - "cp $many.pt $dir/out.cp" \
        "$ckpt" strip --no-sync module. "$many.pt" -o "$dir/out.pt"
    for kind in pt safetensors; do
        prepare_edit "$dir/out.$kind"
        tensors=1000 print_row "strip --in-place, 100 GB .$kind (sparse)" '10 ms' - \
            "$ckpt" strip --in-place module. "$dir/out.$kind"
    done
    prepare_edit "$dir/out.pt"
    tensors=1000 print_row 'add --in-place, 100 GB .pt (sparse)' - - "$ckpt" add --in-place x. "$dir/out.pt"
}

bench_conversion()
{
    for j in 1 2; do
        prepare_write $j
        [ $j = 2 ] || set_peer convert "$pt" "$dir/out.py.safetensors"
        print_row "convert, $size .pt to .safetensors, -j $j" 1.2 "cp $pt $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync "$pt" "$dir/out.safetensors"
        prepare_write $j
        [ $j = 2 ] || set_peer convert "$st" "$dir/out.py.pt"
        print_row "convert, $size .safetensors to .pt, -j $j" 1.3 "cp $st $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync "$st" "$dir/out.pt"
        prepare_write $j
        [ $j = 2 ] || set_peer cast "$pt" "$dir/out.py.pt"
        print_row "convert --cast bf16, $size .pt, -j $j" $([ $j = 1 ] && echo 0.8 || echo 0.6) "cp $pt $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync --cast bf16 "$pt" "$dir/out.pt"
    done
    for_other_formats bench_conversion_of
    # the memory limit is 137 MiB, for two buffers
    tensors=131072 print_row 'dequantize q4_K to 4 GB of float32, in memory' 2 "$bin/dequantize copy 4" \
        "$bin/dequantize" q4_K 4
    bench_folders
}

# prepare_folder_write [THREADS] - as prepare_write, for a row whose yardstick `cp -r` writes $dir/copy
prepare_folder_write() { prepare_write "${1:-1}" && prepare="rm -rf $dir/out* $dir/copy*"; }

# bench_edits - stacks 44,544 experts of a set and cuts the stacks again, and transposes a matrix
bench_edits()
{
    experts=$dir/$bytes.experts stacks=$dir/$bytes.stacks matrix=$dir/$bytes.matrix.safetensors
    modules=$dir/$bytes.modules.safetensors
    make_file -n 174 -b $bytes "$modules"
    [ -d "$experts" ] || "$ckpt" edit -q --no-sync "$modules" -o "$experts" --max-shard-size 100MB \
        -D n=$(($(wc -c <"$modules") / 4 / 174 / 256 * 256)) -e 'slice * [:$n] ; reshape [256, -1]' \
        -e 'unstack * -> *.{e}'
    [ -d "$stacks" ] || "$ckpt" edit -q --no-sync "$experts" -o "$stacks" --max-shard-size 100MB \
        -e 'stack *.{e} -> *'
    # the memory limit is 64 MiB
    prepare_folder_write 2
    goal=$([ $bytes = 2G ] && echo 1.3 || echo -) # metadata take longer than the bytes of smaller ones
    tensors=55000 print_row "edit, 44,544 experts stacked, $size" "$goal" "cp -r $experts $dir/copy" \
        "$ckpt" edit -q -j 2 --no-sync "$experts" -o "$dir/out" --max-shard-size 100MB -e 'stack *.{e} -> *'
    prepare_folder_write 2
    tensors=55000 print_row "edit, $size unstacked to 44,544 experts" - "cp -r $stacks $dir/copy" \
        "$ckpt" edit -q -j 2 --no-sync "$stacks" -o "$dir/out" --max-shard-size 100MB -e 'unstack * -> *.{e}'
    make_file -n 1 -b $bytes "$dir/$bytes.one.safetensors"
    [ -s "$matrix" ] || "$ckpt" edit -q --no-sync "$dir/$bytes.one.safetensors" -o "$matrix" \
        -e 'reshape * [-1] ; reshape [8192, -1]'
    prepare_write 2
    tensors=55000 print_row "edit, $size transposed, float32" 3 "cp $matrix $dir/out.cp" \
        "$ckpt" edit -q -j 2 --no-sync "$matrix" -o "$dir/out.safetensors" -e 'transpose *'
}

# bench_averages - averages three files, which are read once
bench_averages()
{
    for n in 2 3; do [ -s "$dir/$bytes.$n.safetensors" ] || cp "$st" "$dir/$bytes.$n.safetensors"; done
    for n in 1 2 3; do
        half=$dir/$bytes.bf16.$n.safetensors
        [ -s "$half" ] || "$ckpt" convert -q --no-sync --cast bf16 "$st" "$half"
    done
    set -- "$st" "$dir/$bytes.2.safetensors" "$dir/$bytes.3.safetensors"
    prepare_write 2
    set_peer average "$@" "$dir/out.py.safetensors"
    print_row "average, three $size .safetensors, -j 2" 1.6 "cat $*" \
        "$ckpt" average -j 2 --no-sync "$@" -o "$dir/out.safetensors"
    set -- "$dir/$bytes.bf16.1.safetensors" "$dir/$bytes.bf16.2.safetensors" "$dir/$bytes.bf16.3.safetensors"
    prepare_write 2
    print_row "average, three bf16 .safetensors of half of $size, -j 2" - "cat $*" \
        "$ckpt" average -j 2 --no-sync "$@" -o "$dir/out.safetensors"
    prepare_write 2
    print_row "average --method ties of them, -j 2" - "cat $*" \
        "$ckpt" average -j 2 --no-sync --method ties --density 0.3 --base "$@" -o "$dir/out.safetensors"
}

# bench_lora - merges an adapter of rank 16 for all matrices of a model in bfloat16
bench_lora()
{
    half=$dir/$bytes.lora.safetensors adapter=$dir/$bytes.adapter
    has_command python3 || { echo 'lora skipped: no python3' >&2; return; }
    make_file -n 291 -b $([ $bytes = 2G ] && echo 4G || echo 512M) "$dir/$bytes.single.safetensors"
    [ -s "$half" ] || "$ckpt" edit -q --no-sync "$dir/$bytes.single.safetensors" -o "$half" \
        -D n=$(($(wc -c <"$dir/$bytes.single.safetensors") / 4 / 292 / 2048 * 2048)) \
        -e 'slice * [:$n] ; reshape [2048, -1] ; cast bf16'
    [ -s "$adapter/adapter_config.json" ] || python3 tests/bench/mkadapter.py "$half" "$adapter" 16
    cat "$half" "$adapter"/* >/dev/null
    # the memory limit is 300 MiB: the matrices of the weights that are written
    for j in 1 2; do
        prepare_write $j
        [ $j = 2 ] || set_peer lora "$half" "$adapter" "$dir/out.py.safetensors"
        tensors=300000 print_row "lora, rank 16, $size bfloat16, -j $j" $([ $j = 1 ] && echo - || echo 1.5) \
            "cp $half $dir/out.cp" "$ckpt" lora -q -j $j --no-sync "$half" "$adapter" -o "$dir/out.safetensors"
    done
}

# bench_plans - lists and plans a million tensors or chunks in 4,096 files; the memory limit is 400 MiB
bench_plans()
{
    for kind in safetensors dcp; do
        tensors=1000000
        [ $kind = safetensors ] || tensors=250000
        [ -e "$dir/plan.$kind" ] || "$bin/mkset" $kind $tensors 4096 "$dir/plan.$kind" >/dev/null
        tensors=400384 print_row "ls, 1000000 tensors or chunks in 4096 files, $kind" '6000 ms' - \
            "$ckpt" ls "$dir/plan.$kind"
        tensors=400384 print_row "convert --part 3/16 -n of them, $kind" '6000 ms' - \
            "$ckpt" convert -n --part 3/16 --max-shard-size=50GB "$dir/plan.$kind" "$dir/out.safetensors"
    done
}

bench_folders()
{
    prepare_folder_write
    prepare="$prepare && mkdir $dir/copy.set"
    # the memory limit is 32 MiB
    tensors=23552 print_row 'convert, 2000 shards to 2000 shards' - "cp -r $shards $dir/copy" \
        "$ckpt" convert --no-sync --max-shard-size 1KB "$shards" "$dir/copy.set/model.safetensors"
    rm -rf "$dir"/copy*
    [ "$python" ] || return 0
    # the memory limit is 32 MiB
    prepare_folder_write 2
    set_peer dcp "$dcp.ranks" "$dir/out.py.pt"
    tensors=22528 print_row "convert, $size Distributed Checkpoint of 8 ranks to .safetensors, -j 2" 1.3 \
        "cp -r $dcp.ranks $dir/copy" "$ckpt" convert -j 2 --no-sync "$dcp.ranks" "$dir/out.safetensors"
    # The output is /dev/null, because the kernel's time for the pages of a new file varies by more than the two
    # commands differ. The memory limit is 12 MiB.
    threads=2
    tensors=2048 print_row "convert, $size cut along the last dimension in 64" 2 \
        "$ckpt convert --to safetensors $dcp.first /dev/null" \
        "$ckpt" convert --to safetensors "$dcp.last" /dev/null
    prepare_folder_write
    # the memory limit is 12 MiB
    tensors=3072 print_row "convert, $size DeepSpeed ZeRO 3 of 8 ranks to .pt" 1.5 "cp -r $zero $dir/copy" \
        "$ckpt" convert --no-sync "$zero" "$dir/out.pt"
    rm -rf "$dir/copy"
}

# print_two_rows CASE GOAL-OF-1 GOAL-OF-2 YARDSTICK PEER COMMAND [ARG…] - prints a row for one thread and one for two
print_two_rows()
{
    title=$1 goal_of_1=$2 goal_of_2=$3 yardstick=$4 peer_args=$5 command=$6
    shift 6
    [ -z "$peer_args" ] || set_peer $peer_args
    print_row "$title, -j 1" "$goal_of_1" "$yardstick" "$ckpt" "$command" -j 1 "$@"
    threads=2 print_row "$title, -j 2" "$goal_of_2" "$yardstick" "$ckpt" "$command" -j 2 "$@"
}

bench_reading()
{
    tensors=582
    print_two_rows "diff, $size, nothing differs" 0.6 0.35 "cmp $pt $same" "diff $pt $same" diff "$pt" "$same"
    tensors=582 print_two_rows "diff, $size, one element differs" - - "cmp $pt $same" '' diff "$pt" "$changed"
    print_two_rows "hash --xxh3, $size .safetensors" 1.3 0.8 "xxhsum -H2 $st" '' hash --xxh3 "$st"
    runs=$write_runs
    print_two_rows "hash, $size .safetensors" 1.05 0.6 "openssl dgst -sha256 $st" "sha256 $st" hash "$st"
    print_two_rows "check of CRCs (hash --xxh3), $size .pt" 1.1 - "cksum $pt" '' hash --xxh3 "$pt"
    print_two_rows "stat, $size .safetensors" 2 1.2 "xxhsum -H2 $st" "stat $st" stat "$st"
}

make_files
printf '# What `make bench` measured\n\n'
print_machine
printf '\nThe times of ckpt and of the yardstick are medians of all runs, which alternate. The ratio is the time of
ckpt over that of the yardstick: the median of 5 batches, with the lowest and the highest. Files are in the page
cache, and nothing waits for the disk (`--no-sync`, as `cp`), except `--in-place`. Peer: the time of the same job in
Python (tests/bench/peer.py) over that of ckpt; in parentheses, the time and peak memory of Python. Peak memory of
ckpt: at most 8 MiB + 1 KiB per tensor + 1 MiB per thread.\n\n'
echo '| case | ckpt | yardstick | ratio | goal | peer | peak memory |'
echo '|---|---|---|---|---|---|---|'
bench_listing
bench_renaming
bench_conversion
bench_edits
bench_averages
bench_lora
bench_plans
bench_reading
exit $status
