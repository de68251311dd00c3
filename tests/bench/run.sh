#!/bin/sh
# bench/run.sh - measures time and memory on generated files, next to common tools (cp, cmp, cksum, xxhsum, openssl)
# and, if a Python with torch is found, next to the same job in Python.
#
#   make bench                256 MB files in build/bench (BENCH_DIR elsewhere)
#   make bench BENCH_BIG=1    2 GB files
#   make bench-results        2 GB files, and the table kept in tests/bench/RESULTS.md
#   make bench CASES=diff     only the cases whose name has "diff"
#
# The page cache is warm. A ratio is ckpt's time over the yardstick's, in alternating runs: the median of 5 batches,
# with the lowest and the highest. The exit status is 1 if a case fails, exceeds its memory limit, or exceeds its goal
# by more than half.
set -eu
export LC_ALL=C
B=${B:-build}
dir=${BENCH_DIR:-$B/bench}
ckpt=$B/ckpt
bin=$B/tests/bench
CASES=${CASES:-}
over=0

if [ "${BENCH_BIG:-}" ]; then
    bytes=2G size='2 GB' touch=3200000000 moved=1 scanned=3 times=1
else
    bytes=256M size='256 MB' touch=400000000 moved=3 scanned=5 times=3
fi
mkdir -p "$dir"

python=
for p in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    if [ -n "$p" ] && "$p" -c 'import torch, safetensors.torch' >/dev/null 2>&1; then
        python=$p
        break
    fi
done
[ "$python" ] ||
    echo 'peer column skipped: no Python with torch and safetensors (make oracle-env, or ORACLE_PYTHON=…)' >&2

# -------------------------------------------------------------- the machine

# version COMMAND… - prints the name of COMMAND and the number in its first line of output
version() { "$@" 2>&1 | sed -n '1{s/^[^0-9]* \([0-9][0-9.]*[0-9][a-z]*\).*/\1/p;}' | sed "s/^/${1##*/} /"; }
have() { command -v "$1" >/dev/null 2>&1; }

# reflink - prints whether this file system can clone files
reflink()
{
    echo x >"$dir/out.a"
    cp --reflink=always "$dir/out.a" "$dir/out.b" 2>/dev/null && echo 'clones files' || echo 'does not clone files'
    rm -f "$dir"/out*
}

machine()
{
    echo "- $("$ckpt" --version | head -n 1), $(version "${CC:-cc}" --version), files of $size"
    echo "- $(uname -sm) $(uname -r | sed 's/[^0-9.].*//'),$(
        sed -n 's/^model name[^:]*:/ /p' /proc/cpuinfo | head -n 1 |
        tr -s ' '), $(nproc) cores, $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
    echo "- $(df --output=fstype "$dir" | tail -n 1), $(reflink)"
    echo "- $(version cp --version)$(have xxhsum && echo ", $(version xxhsum --version)"), $(version openssl version)$(
        have zipinfo && echo ", $(version unzip -v)")"
    [ -z "$python" ] || echo "- $("$python" --version), torch $("$python" -c 'import torch; print(torch.__version__)')"
}

# -------------------------------------------------------------------- a row

# reset_row - sets what a case may change before its row: the command to run and the bytes to touch before each run, the
# runs in a batch, the tensors and threads that the memory limit counts, and the arguments of peer.py
reset_row() { prepare=true touched=0 runs=$scanned tensors=291 threads=1 peer=; }
reset_row

# set_peer ARGUMENT… - makes the next row run peer.py, too
set_peer() { peer=$*; }

# measure_peer CKPT-MS - sets $peer_ratio to the time of peer.py over that of ckpt, $peer_text to a cell of the table
measure_peer()
{
    peer_text=- peer_ratio=0
    [ "$python" ] && [ "$peer" ] || return 0
    rm -f "$dir"/out*
    # shellcheck disable=SC2086
    set -- "$1" $("$bin/runner" -n "$times" "$python" tests/bench/peer.py $peer)
    [ "$4" -eq 0 ] || { echo "peer: $peer: exit status $4" >&2; return 0; }
    peer_ratio=$(awk -v a="$1" -v b="$2" 'BEGIN {print a / b}')
    peer_text=$(awk -v a="$1" -v b="$2" -v m="$3" 'BEGIN {
        printf "%s× (%.1f s, %.0f MiB)", b / a < 10 ? sprintf("%.1f", b / a) : sprintf("%.0f", b / a), \
            b / 1e3, m / 1024}')
}

# row CASE GOAL YARDSTICK COMMAND… - measures COMMAND and prints a row of the table. GOAL is a ratio, "N ms",
# "1/N peer" or "-"; YARDSTICK is a command in one word, or "-".
row()
{
    name=$1 goal=$2 yard=$3
    shift 3
    case $name in *"$CASES"*) ;; *) reset_row; return 0 ;; esac
    if [ "$yard" != - ] && ! have "${yard%% *}"; then
        echo "$name: no ${yard%% *} here" >&2
        yard=-
    fi
    rm -f "$dir"/out*
    # shellcheck disable=SC2046,SC2086
    if [ "$yard" = - ]; then
        set -- $("$bin/runner" -b 5 -n "$runs" -p "$prepare" -t "$touched" -o "$dir/messages" "$@") - - - -
    else
        set -- $("$bin/runner" -b 5 -n "$runs" -p "$prepare" -t "$touched" -o "$dir/messages" "$@" -- $yard)
    fi
    [ "$3" -le 1 ] || head -n 2 "$dir/messages" >&2
    measure_peer "$1"
    echo "$*" | awk -v name="$name" -v goal="$goal" -v yard="$(basename "${yard%% *}")" -v peer="$peer_text" \
        -v pr="$peer_ratio" \
        -v room=$((8192 + tensors + 1024 * threads)) '
    function ms(v) { return v < 10 ? sprintf("%.1f ms", v)  : \
        v < 1000 ? sprintf("%.0f ms", v) : sprintf("%.2f s", v / 1e3) }
    function two(v) { return v < 10 ? sprintf("%.2f", v) : sprintf("%.0f", v) }
    {
        split(goal, g, "[ /]")
        got = goal ~ /ms$/ ? $1 / g[1] : goal ~ /peer$/ ? pr * g[2] : (goal == "-" || $5 == "-") ? 0 : $5 / goal
        mark = $3 > 1 ? " **failed**" : got > 1 ? " **missed**" : ""
        beside = yard == "-" ? "" : yard " " ms($4)
        ratio = $5 == "-" ? "" : two($5) " (" two($6) "-" two($7) ")"
        over = ($2 > room) ? " **over**" : ""
        printf("| %s | %s | %s | %s | %s%s | %s | %.1f MiB%s |\n", name, ms($1), beside, ratio, \
            goal == "-" ? "" : "≤ " goal, mark, peer == "-" ? "" : peer, $2 / 1024, over)
        exit ($3 > 1 || over || got > 1.5)
    }' || over=1
    rm -f "$dir"/out*
    reset_row
}

# writes [THREADS] - sets up a row that writes: before each run its output is removed and memory touched
writes() { prepare="rm -f $dir/out*" touched=$touch runs=$moved threads=${1:-1}; }

# on_disk FILE - for a row that edits FILE in place: makes FILE anew and flushes it to disk before each run, so that the
# edit does not wait for other bytes
on_disk() { prepare="rm -f $dir/out* && $mk -n 1000 -b 100G --sparse -p module. $1 >/dev/null && sync $1"; }

# --------------------------------------------------------------------- files

pt=$dir/$bytes.pt st=$dir/$bytes.safetensors same=$dir/$bytes.same.pt one=$dir/$bytes.changed.pt many=$dir/many
huge=$dir/huge long=$dir/long zero=$dir/zero3.$bytes dcp=$dir/dcp.$bytes set=$dir/set mk=$bin/mkckpt
tf=$dir/$bytes.tf gguf=$dir/$bytes.gguf npz=$dir/$bytes.npz h5=$dir/$bytes.h5
make_file() { eval "[ -s \"\${$#}\" ]" || "$mk" "$@" >/dev/null; }

# make_folders - makes the folders of many ranks by torch, unless their last files exist
make_folders()
{
    [ -s "$zero/latest" ] || {
        rm -rf "$zero"
        "$python" tests/bench/mkzero.py "$zero" $bytes
    }
    for kind in ranks first last chunks; do
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
    make_file -n 291 -b $bytes -p module. --changed "$one"
    [ -s "$same" ] || cp --reflink=auto "$pt" "$same"
    for kind in pt safetensors; do
        make_file -n 20000 -b 80M -p module. "$many.$kind"
        make_file -n 1000 -b 100G --sparse -p module. "$huge.$kind"
    done
    make_file -n 893000 -b 4M -p module. "$long.safetensors"
    # a header of the maximum of 100,000,000 bytes
    [ -s "$long.text.safetensors" ] || {
        printf '\000\341\365\005\000\000\000\000{"__metadata__":{"note":"'
        head -c 99999919 /dev/zero | tr '\000' a
        printf '"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000'
    } >"$long.text.safetensors"
    # eight opcodes in 42 bytes, 375,000 times
    record='(U\031layer.weight.of.the.modelK\001K\002M\001\002J\001\002\003\004Nl'
    # shellcheck disable=SC2059
    printf "$record%.0s" $(seq 1 1000) >"$dir/records"
    { printf '\200\002]('; for _ in $(seq 1 375); do cat "$dir/records"; done; printf 'e.'; } >"$dir/many.pkl"
    [ -s "$set/model.safetensors.index.json" ] || {
        make_file -n 2000 -b 200M "$many.set.safetensors"
        mkdir -p "$set"
        "$ckpt" convert -q --max-shard-size 1KB "$many.set.safetensors" "$set/model.safetensors"
    }
    [ -s "$gguf" ] || "$ckpt" convert -q --architecture bench "$st" "$gguf"
    [ -s "$npz" ] || "$ckpt" convert -q "$st" "$npz"
    ! have python3 || [ -s "$tf.index" ] || python3 tests/bench/mkother.py tf "$tf" $bytes
    [ ! "$python" ] || [ -s "$h5" ] || "$python" tests/bench/mkother.py h5 "$h5" $bytes
    [ ! "$python" ] || make_folders
    cat "$pt" "$st" "$same" "$one" "$many.pt" "$many.safetensors" >/dev/null
}

# --------------------------------------------------------------------- cases

# for_other_formats FUNCTION - calls FUNCTION TITLE FILE for each format of another framework of which a file was made
for_other_formats()
{
    for format in TensorFlow:$tf.index GGUF:$gguf npz:$npz HDF5:$h5; do
        [ ! -s "${format#*:}" ] || "$1" "${format%%:*}" "${format#*:}"
    done
}
list_other() { row "ls, $size $1" '15 ms' - "$ckpt" ls "$2"; }
convert_other()
{
    data=$2
    [ "$1" != TensorFlow ] || data=${2%index}data-00000-of-00001
    writes 2
    row "convert, $size $1 to .safetensors, -j 2" 1.3 "cp $data $dir/out.cp" \
        "$ckpt" convert -j 2 --no-sync "$2" "$dir/out.safetensors"
}

listing()
{
    runs=7 row 'start-up: --version' '2.5 ms' true "$ckpt" --version
    set_peer ls "$pt"
    runs=7 row "ls, $size .pt" '10 ms' "zipinfo -1 $pt" "$ckpt" ls "$pt"
    runs=7 row "ls, $size .safetensors" '10 ms' - "$ckpt" ls "$st"
    set_peer ls "$many.pt"
    tensors=20000 row 'ls, 20000 tensors .pt' '1/40 peer' "zipinfo -1 $many.pt" "$ckpt" ls "$many.pt"
    tensors=20000 row 'ls, 20000 tensors .safetensors' - - "$ckpt" ls "$many.safetensors"
    tensors=144384 row 'ls, 100 MB safetensors header, one text' '1000 ms' "cat $long.text.safetensors" \
        "$ckpt" ls "$long.text.safetensors"
    tensors=893000 row 'ls, 100 MB safetensors header, 893000 tensors' '1500 ms' "cat $long.safetensors" \
        "$ckpt" ls "$long.safetensors"
    tensors=1000 row 'ls, 100 GB .pt (sparse)' '10 ms' - "$ckpt" ls "$huge.pt"
    tensors=1000 row 'ls, 100 GB .safetensors (sparse)' '10 ms' - "$ckpt" ls "$huge.safetensors"
    for_other_formats list_other
    row "info, $size .pt" '10 ms' - "$ckpt" info "$pt"
    # there are no tensors, and scan has a limit of its own: 64 MiB
    runs=7 tensors=56320 row 'scan, 3 million opcodes of a pickle (15.7 MB)' '200 ms' "cat $dir/many.pkl" \
        "$ckpt" scan "$dir/many.pkl"
    row "show, 8 values of $size .pt" '10 ms' - "$ckpt" show "$pt" 'module.model.layers.0.mlp.up_proj.weight[0:8]'
}

prefixes()
{
    writes
    set_peer strip "$pt" "$dir/out.py.pt"
    row "strip, $size .pt" 1.15 "cp $pt $dir/out.cp" "$ckpt" strip --no-sync module. "$pt" -o "$dir/out.pt"
    writes
    row "add, $size .pt" - "cp $pt $dir/out.cp" "$ckpt" add --no-sync x. "$pt" -o "$dir/out.pt"
    writes
    row "rename, $size .safetensors" - "cp $st $dir/out.cp" \
        "$ckpt" rename --no-sync -s '^module=>m' "$st" -o "$dir/out.safetensors"
    writes
    tensors=20000 row 'strip, 20000 tensors .pt' - "cp $many.pt $dir/out.cp" \
        "$ckpt" strip --no-sync module. "$many.pt" -o "$dir/out.pt"
    for kind in pt safetensors; do
        on_disk "$dir/out.$kind"
        tensors=1000 row "strip --in-place, 100 GB .$kind (sparse)" '10 ms' - \
            "$ckpt" strip --in-place module. "$dir/out.$kind"
    done
    on_disk "$dir/out.pt"
    tensors=1000 row 'add --in-place, 100 GB .pt (sparse)' - - "$ckpt" add --in-place x. "$dir/out.pt"
}

conversions()
{
    for j in 1 2; do
        writes $j
        [ $j = 2 ] || set_peer convert "$pt" "$dir/out.py.safetensors"
        row "convert, $size .pt to .safetensors, -j $j" 1.2 "cp $pt $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync "$pt" "$dir/out.safetensors"
        writes $j
        [ $j = 2 ] || set_peer convert "$st" "$dir/out.py.pt"
        row "convert, $size .safetensors to .pt, -j $j" 1.3 "cp $st $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync "$st" "$dir/out.pt"
        writes $j
        [ $j = 2 ] || set_peer cast "$pt" "$dir/out.py.pt"
        row "convert --cast bf16, $size .pt, -j $j" $([ $j = 1 ] && echo 0.8 || echo 0.6) "cp $pt $dir/out.cp" \
            "$ckpt" convert -j $j --no-sync --cast bf16 "$pt" "$dir/out.pt"
    done
    for_other_formats convert_other
    # there are no tensors: the limit is that of two buffers
    tensors=131072 row 'dequantize q4_K to 4 GB of float32, in memory' 2 "$bin/dequantize copy 4" \
        "$bin/dequantize" q4_K 4
    folders
}

# writes_folder [THREADS] - as writes, for a row whose yardstick `cp -r` writes $dir/copy
writes_folder() { writes "${1:-1}" && prepare="rm -rf $dir/out* $dir/copy*"; }

folders()
{
    writes_folder
    prepare="$prepare && mkdir $dir/copy.set"
    # 32 MiB
    tensors=23552 row 'convert, 2000 shards to 2000 shards' - "cp -r $set $dir/copy" \
        "$ckpt" convert --no-sync --max-shard-size 1KB "$set" "$dir/copy.set/model.safetensors"
    rm -rf "$dir"/copy*
    [ "$python" ] || return 0
    # 32 MiB, at two threads
    writes_folder 2
    set_peer dcp "$dcp.ranks" "$dir/out.py.pt"
    tensors=22528 row "convert, $size Distributed Checkpoint of 8 ranks to .safetensors, -j 2" 1.3 \
        "cp -r $dcp.ranks $dir/copy" "$ckpt" convert -j 2 --no-sync "$dcp.ranks" "$dir/out.safetensors"
    # to /dev/null, because the kernel's time for the pages of a new file varies by more than the two commands differ;
    # each chunk counts as a tensor: 256 here, 3072 below
    threads=2
    tensors=2048 row "convert, $size cut along the last dimension in 64" 2 \
        "$ckpt convert --to safetensors $dcp.first /dev/null" \
        "$ckpt" convert --to safetensors "$dcp.last" /dev/null
    # 400 MiB
    tensors=400384 row 'ls, Distributed Checkpoint of 1000000 chunks in 4096 files' '6000 ms' - \
        "$ckpt" ls "$dcp.chunks"
    writes_folder
    tensors=3072 row "convert, $size DeepSpeed ZeRO 3 of 8 ranks to .pt" 1.5 "cp -r $zero $dir/copy" \
        "$ckpt" convert --no-sync "$zero" "$dir/out.pt"
    rm -rf "$dir/copy"
}

# two_rows CASE GOAL-OF-1 GOAL-OF-2 YARDSTICK PEER COMMAND [ARG…] - prints a row with one thread and a row with two
two_rows()
{
    what=$1 goal_of_1=$2 goal_of_2=$3 yardstick=$4 peer_args=$5 command=$6
    shift 6
    [ -z "$peer_args" ] || set_peer $peer_args
    row "$what, -j 1" "$goal_of_1" "$yardstick" "$ckpt" "$command" -j 1 "$@"
    threads=2 row "$what, -j 2" "$goal_of_2" "$yardstick" "$ckpt" "$command" -j 2 "$@"
}

scans()
{
    tensors=582
    two_rows "diff, $size, nothing differs" 0.6 0.35 "cmp $pt $same" "diff $pt $same" diff "$pt" "$same"
    tensors=582 two_rows "diff, $size, one element differs" - - "cmp $pt $same" '' diff "$pt" "$one"
    two_rows "hash --xxh3, $size .safetensors" 1.3 0.8 "xxhsum -H2 $st" '' hash --xxh3 "$st"
    runs=$moved
    two_rows "hash, $size .safetensors" 1.05 0.6 "openssl dgst -sha256 $st" "sha256 $st" hash "$st"
    two_rows "check of CRCs (hash --xxh3), $size .pt" 1.1 - "cksum $pt" '' hash --xxh3 "$pt"
    two_rows "stat, $size .safetensors" 2 1.2 "xxhsum -H2 $st" "stat $st" stat "$st"
}

make_files
printf '# What `make bench` measured\n\n'
machine
printf '\nTimes of ckpt and of the yardstick and their ratio are medians of 5 batches run in turn, with the lowest and
the highest ratio. Files are in the page cache, and nothing waits for the disk (`--no-sync`, as `cp`), except
`--in-place`. Peer: the time of the same job in Python (tests/bench/peer.py) over that of ckpt, with its time
and peak memory. Peak memory of ckpt: at most 8 MiB + 1 KiB per tensor + 1 MiB per thread.\n\n'
echo '| case | ckpt | yardstick | ratio | goal | peer | peak memory |'
echo '|---|---|---|---|---|---|---|'
listing
prefixes
conversions
scans
exit $over
