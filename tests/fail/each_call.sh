#!/bin/sh
# each_call.sh PROGRAM UNIT [INPUT_STEP [FILE_STEP]] - runs PROGRAM, which is each_call.c, on inputs: in each run of an
# input another call fails. UNIT is the program of the unit tests. The inputs are:
#   - the corpus of the fuzz targets, tests/fuzz/corpus. Each call fails in some run;
#   - the files in $torch_files; the files that UNIT scans or makes; every FILE_STEP-th (1) small file of tests/corpus
#     and tests/data. Only every INPUT_STEP-th (1) of these is used. Of the calls with the same stack of callers, only
#     one fails (-w);
#   - sets of shards that are written from $sets or read from there (-s), with -w. For one set, each call fails.
set -u
program=$1 unit=$2 input_step=${3:-1} file_step=${4:-1}
packs=tests/fuzz/corpus
torch=tests/corpus/torch
torch_files="$torch/t10/torchscript_trace.pt $torch/t113/numpy_p5.pt $torch/t113/state_dict_p0.pt $torch/t14/quant.pt
    $torch/t215/export_f8.pt2 $torch/t26/compiled.pt $torch/t26/exported_program.pt2 $torch/t26/meta.pt
    $torch/t26/nested.pt $torch/t26/nested_jagged.pt $torch/t26/numpy.pt $torch/t26/plain_pickle_p2.pkl
    $torch/t26/quant_per_channel.pt $torch/t26/sparse_coo.pt $torch/t26/sparse_csr.pt $torch/t26/tied_legacy.pt
    $torch/t26/torch_package.pt $torch/t26/torchscript_containers.pt $torch/t26/torchscript_frozen_constants.pt
    $torch/t26/whole_model_custom.pt $torch/t26/wrapper_subclass_twotensor.pt $torch/dist26/dtensor_rank0.pt
    $torch/dist26/fsdp_sharded_rank0.pt $torch/legexp/h_view_metadata.pt $torch/legexp/t_tar_view.pt"
sets="$torch/t26/tied.pt $torch/t26/empty.pt $torch/t26/extra_state.pt $torch/t26/state_dict.pt $torch/t26/nested.pt
    $torch/t215/dist/dcp_hf_sharded/shard-00001-model-00001-of-00002.safetensors
    $torch/t215/eco/hub_bin_sharded $torch/t215/eco/hub_safetensors_sharded"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# every N - sorts the NUL-terminated names in its input and prints every N-th
every() { sort -z | sed -nz "0~$1p"; }

# suites PREFIX - prints those suites of the unit tests whose own names begin with PREFIX
suites() { sed -n "s/^SUITE(\($1[a-z_]*\)).*/\1/p" tests/unit/suites.def; }

mkdir "$work/scanned" "$work/made"
# The unit tests write a copy of each file that they scan to the folder KEEP_SCANNED, and of each that they make to the
# folder KEEP_MADE.
KEEP_SCANNED=$work/scanned "$unit" $(suites scan) >/dev/null
KEEP_MADE=$work/made "$unit" $(suites torch) >/dev/null
{
    printf '%s\0' $torch_files
    find "$work/made" -type f -print0
    find tests/corpus tests/data -type f -size -128 ! -name '*.pack' -print0 | every "$file_step"
} | every "$input_step" >"$work/inputs"

{
    for pack in "$packs"/*.pack; do
        target=${pack##*/}
        FUZZ_TARGET=${target%.pack} "$program" "$pack"
    done
    "$program" -e "$packs"/any.pack "$packs"/torch_*.pack "$packs"/safetensors.pack
    find "$work/scanned" -type f -print0 | every "$input_step" | FUZZ_TARGET=scan xargs -0 "$program" -w -m 8000
    for target in cast doctor in_place round_trip salvage sanitize scan zip_patch; do
        FUZZ_TARGET=$target xargs -0 "$program" -w -m 100000 <"$work/inputs"
    done
    xargs -0 "$program" -w -e -m 400000 <"$work/inputs"
    "$program" -w -s $sets
    case $program in
    */asan/*) ;; # too slow for all calls
    *) "$program" -s $torch/t26/tied.pt ;;
    esac
} >"$work/log" 2>&1
grep -v '^each call: .* 0 failed$' "$work/log" | head -n 40
awk '/^each call: [0-9]* passed, [0-9]* failed$/ {passed += $3; failed += $5; runs++}
     END {printf "each call: %d passed, %d failed\n", passed, failed + !runs; exit failed || !runs}' "$work/log"
