#!/bin/sh
# run.sh - runs the fuzz targets.
#   run.sh          for `make check`: every target replays its kept inputs; open, scan_file and write also mutate them
#                   for a few seconds. Needs no libFuzzer
#   run.sh --long   for `make fuzz`: runs every target for its share of FUZZ_SECONDS, as many at a time as there are
#                   processors. Uses libFuzzer if $B/fuzz was built with it. Adds a line of totals to LEDGER.
#                   FUZZ_TARGETS='ranks 2 zarr 1' runs only these targets, with these shares
#   run.sh --keep   after --long: adds to tests/fuzz/corpus those new inputs that reach more code, smallest first
# Inputs that fail are saved in tests/fuzz/found (build/fuzz/found by `make check`). To run one again:
#   FUZZ_TARGET=TARGET build/asan/tests/fuzz/parts FILE
# Once the bug is fixed, move FILE to tests/fuzz/corpus as TARGET-what-was-wrong.
set -u
B=${B:-build}
seconds=${FUZZ_SECONDS:-10}
corpus=tests/fuzz/corpus

# TARGET SHARE…: each target of parts.c and each format, with its share of the time. Slow or complex targets have
# larger shares. Targets with small shares come last, so that all processors end at about the same time.
targets='scan 12 scan_zip 12 any 10 torch_legacy 9 torch_zip 9 trace 9 pickle 9 round_trip 9 pickle_back 8 names 8
         safetensors 8 zip 8 json 7 salvage 8 packed 8 hdf5 7 in_place 6 sanitize 6 scan_tar 6 scan_gguf 6
         torch_tar 6 torch_mobile 4 dcp 6 ranks 8 doctor 5 verify 5 scan_npy 5 index 5 manifest 5 map 4
         foreign 3 text 4 journal 4 zip_patch 4 sstable 5 tf_bundle 5 keras 4 mxnet 3 onnx 4 npy 4 npz 4 gguf 5 flax 5
         snappy 2 ocdbt 4 zarr 4 paddle 3 paddle_pickle 4 scan_msgpack 4 mem 4 cast 4 dequantize 6 number 3 yaml 4
         expression 2 container 4 tar 2 zip_write 2 mindspore 3 xml 3 openvino 2 tensorizer 3 tensordict 3 thinc 3
         regexp 2 printed 2 rules 4 lora 3 match 4'
targets=$(echo ${FUZZ_TARGETS:-$targets})

# make_rank_tars - makes a tar of each folder of the corpus that several ranks wrote, and of each pair of rank files;
# prints the paths of the tars below 64 KiB
make_rank_tars()
{
    mkdir -p "$work/ranks.tars"
    for folder in tests/corpus/deepspeed/* tests/corpus/deepspeed/bad/* tests/corpus/deepspeed/emulated/* \
        tests/corpus/megatron/* tests/corpus/trainers/* tests/corpus/zarr/* tests/corpus/tfjs/* \
        tests/corpus/openvino/* tests/corpus/torchsnapshot/* \
        tests/corpus/torch/*/dist/dcp_* tests/corpus/torch/dist*/dcp_*; do
        case $folder in */bad | */emulated | *.pt) continue ;; esac
        tar -C "$folder" --format=ustar -b 1 -cf "$work/ranks.tars/$(echo "$folder" | tr / -)" .
    done
    for first in tests/corpus/torch/*/dist/*_rank0.pt tests/corpus/torch/dist*/*_rank0.pt; do
        stem=${first##*/}
        tar -C "${first%/*}" --format=ustar -b 1 -cf "$work/ranks.tars/$(echo "$first" | tr / -)" "$stem" \
            "${stem%0.pt}1.pt"
    done
    find "$work/ranks.tars" -type f -size -128
}

# seeds_of TARGET - prints the files whose inputs the target runs first: samples of the format, and those in
# tests/fuzz/corpus
seeds_of()
{
    case $1 in
    cast | doctor | in_place | round_trip | sanitize | verify | salvage) echo "$corpus/any.pack" ;;
    dequantize)
        find tests/corpus/quantized -name model.safetensors -size -8k
        find tests/corpus/torch -name 'torchao_*' -o -name 'quant*.pt' -size -8k
        ;;
    hdf5) find tests/corpus/keras/hdf5 -name '*.h5' -size -32k ;;
    scan_tar) echo "$corpus/tar.pack $corpus/torch_tar.pack" ;;
    scan_zip | zip_patch) echo "$corpus/zip.pack" ;;
    container) find tests/corpus/containers -type f -size -8k ;;
    npy) find tests/corpus/numpy -name '*.npy' -size -3k ;;
    npz) find tests/corpus/numpy -name '*.npz' -size -3k ;;
    paddle_pickle) find tests/corpus/paddle -name '*.pd[po]*' -size -8k ;;
    ranks) make_rank_tars ;;
    xml) find tests/corpus/openvino -name '*.xml' -size -8k ;;
    snappy | sstable) echo tests/corpus/tensorflow/v1/*.ckpt tests/corpus/tensorflow/bad/*.ckpt ;;
    tf_bundle) echo tests/corpus/tensorflow/*/*.index ;;
    zip_write) echo "$corpus/text.pack" ;;
    *) [ ! -d "tests/corpus/$1" ] || find "tests/corpus/$1" -type f -size -8k ;; # TARGET is a format
    esac
    for file in "$corpus/$1.pack" "$corpus/$1"-*; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# run_by_main TARGET SECONDS - runs the target by main.c, without libFuzzer
run_by_main()
{
    case $1 in
    open | write | scan_file)
        program=${1%_file}
        seeds="tests/corpus/torch tests/corpus/vectors tests/data $corpus"
        ;;
    *) program=parts seeds=$(seeds_of "$1") ;;
    esac
    # shellcheck disable=SC2086
    FUZZ_TARGET=$1 "$B/asan/tests/fuzz/$program" -t "$2" -s "${FUZZ_SEED:-1}" -o "$found" $seeds
}

# max_length TARGET - prints the maximum length of libFuzzer's inputs
max_length()
{
    case $1 in
    ranks) echo 65536 ;;
    hdf5) echo 32768 ;;
    *) echo 2048 ;;
    esac
}

# run_by_libfuzzer TARGET SECONDS - runs the target with libFuzzer
run_by_libfuzzer()
{
    mkdir -p "$B/fuzz/corpus/$1" "$work/$1"
    # shellcheck disable=SC2046
    "$B/asan/tests/fuzz/parts" -u "$work/$1" $(seeds_of "$1") &&
        FUZZ_TARGET=$1 "$B/fuzz/tests/fuzz/parts" -max_total_time="$2" -max_len="$(max_length "$1")" -len_control=100 \
            -entropic=0 -timeout=20 -rss_limit_mb=1024 -dict=tests/fuzz/ckpt.dict \
            -artifact_prefix="$found/$1-" -print_final_stats=1 -verbosity=0 "$B/fuzz/corpus/$1" "$work/$1"
}

# run_target NAME SECONDS - runs the target and writes "NAME EXECUTIONS STATUS" to $work/NAME.result
run_target()
{
    runner=run_by_main
    case $1 in open | write | scan_file) ;; *) [ -n "$fuzzer" ] && runner=run_by_libfuzzer ;; esac
    $runner "$1" "$2" >"$work/$1.log" 2>&1
    code=$?
    runs=$(sed -n 's/.*number_of_executed_units: *//p; s/.* files, \([0-9]*\) runs.*/\1/p' "$work/$1.log" | tail -n 1)
    echo "$1 ${runs:-0} $code" >"$work/$1.result"
    [ $code -eq 0 ] || tail -n 40 "$work/$1.log"
}

# print_seconds - prints a line "NAME SECONDS" for each target, with its share of the time of all processors
print_seconds()
{
    # shellcheck disable=SC2086
    printf '%s %s\n' $targets |
        awk -v total_seconds=$((seconds * jobs)) '{name[NR] = $1; share[NR] = $2; sum += $2}
            END {for (i = 1; i <= NR; i++) printf "%s %d\n", name[i], total_seconds * share[i] / sum + 0.5}'
}

# run_long - runs all targets, as many at a time as there are processors
run_long()
{
    jobs=$(nproc 2>/dev/null || echo 2)
    print_seconds >"$work/shares"
    xargs -P "$jobs" -n 2 sh "$0" --one "$work" "${fuzzer:--}" <"$work/shares"
}

# print_ledger_line SECONDS - prints a line for LEDGER: date; commit, with "+" if files are changed; tool; seconds;
# total of executions; findings; executions of each target
print_ledger_line()
{
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo '-')
    [ -z "$(git status --porcelain --untracked-files=no -- lib cli Makefile 2>/dev/null)" ] || commit=$commit+
    printf '%s  %s  %s  %d s  %d executions  %d findings:' "$(date -u +%Y-%m-%d)" "$commit" \
        "${fuzzer:-main.c}" "$1" "$total" "$failed"
    awk '{printf " %s %d", $1, $2} END {print ""}' "$work/all"
}

print_findings()
{
    echo "inputs that fail, in $found:"
    find "$found" -type f | sed 's/^/  /'
    echo "to run one again: FUZZ_TARGET=$(awk '$3 {print $1; exit}' "$work/all") $B/asan/tests/fuzz/parts FILE"
    echo "once the bug is fixed: move FILE to $corpus/TARGET-what-was-wrong, which make check runs again"
}

# add_inputs TARGET - adds to the pack of the target those inputs that reach new code, smallest first, at most
# FUZZ_KEEP bytes (25,000) in all
add_inputs()
{
    mkdir -p "$work/$1/old" "$work/$1/pack" "$B/fuzz/corpus/$1"
    # shellcheck disable=SC2046
    "$B/asan/tests/fuzz/parts" -u "$work/$1/old" $(seeds_of "$1") || return
    [ ! -f "$corpus/$1.pack" ] || "$B/asan/tests/fuzz/parts" -u "$work/$1/pack" "$corpus/$1.pack"
    cp -r "$work/$1/old" "$work/$1/all"
    FUZZ_TARGET=$1 "$B/fuzz/tests/fuzz/parts" -merge=1 -max_len="$(max_length "$1")" -verbosity=0 "$work/$1/all" \
        "$B/fuzz/corpus/$1" >"$work/$1.log" 2>&1 || return
    for f in "$work/$1/all"/*; do
        [ -f "$work/$1/old/${f##*/}" ] || echo "$(wc -c <"$f") $f"
    done | sort -n | awk -v left="${FUZZ_KEEP:-25000}" '(left -= $1 + 4) >= 0 {print $2}' |
        while read -r f; do cp "$f" "$work/$1/pack/z${f##*/}"; done
    [ -z "$(ls "$work/$1/pack")" ] || "$B/asan/tests/fuzz/parts" -p "$corpus/$1.pack" "$work/$1/pack"
}

ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=4:max_malloc_fill_size=0:malloc_context_size=4
export ASAN_OPTIONS FUZZ_TARGET FUZZ_FOLDER
found=tests/fuzz/found
if [ "${1:-}" = --one ]; then
    work=$2 fuzzer=$3
    [ "$fuzzer" != - ] || fuzzer=
    FUZZ_FOLDER=$work
    run_target "$4" "$5"
    exit 0
fi

parent=/dev/shm
[ -w $parent ] || parent=${TMPDIR:-/tmp}
work=$(mktemp -d "$parent/ckpt-fuzz-XXXXXX") || exit 2
FUZZ_FOLDER=$work
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export B
fuzzer=
[ ! -x "$B/fuzz/tests/fuzz/parts" ] || [ -z "${1:-}" ] || fuzzer=libFuzzer
begin=$(date +%s)
case ${1:-} in
--keep)
    for target in $(echo "$targets" | sed 's/ [0-9][0-9]*//g'); do add_inputs "$target"; done
    du -bc $corpus/*.pack | tail -n 1
    exit
    ;;
--long)
    mkdir -p "$found"
    run_long
    ;;
*)
    found=$B/fuzz/found
    mkdir -p "$found"
    for target in open scan_file write; do run_target "$target" "$seconds"; done
    for target in $(echo "$targets" | sed 's/ [0-9][0-9]*//g'); do run_target "$target" 0; done
    ;;
esac
cat "$work"/*.result >"$work/all"
awk '{printf "  %-14s %12d%s\n", $1, $2, $3 ? "  FAILED" : ""}' "$work/all"
total=$(awk '{n += $2} END {printf "%d", n}' "$work/all")
failed=$(awk '$3' "$work/all" | wc -l)
echo "$total executions in $(($(date +%s) - begin)) s"
if [ "${1:-}" = --long ]; then
    print_ledger_line $(($(date +%s) - begin)) >>tests/fuzz/LEDGER
    [ "$failed" -eq 0 ] || print_findings
    rmdir "$found" 2>/dev/null
fi
echo "fuzz: $(($(wc -l <"$work/all") - failed)) passed, $((failed)) failed"
[ "$failed" -eq 0 ]
