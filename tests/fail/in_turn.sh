#!/bin/sh
# in_turn.sh PROGRAM UNIT [EACH [FILES]] - runs PROGRAM (in_turn.c), in which calls fail in turn, on
#   - all kept inputs of the fuzzer: each call fails
#   - every EACH-th (1) input of the unit tests (UNIT) and file of $kinds, and every FILES-th (1) file of the corpus:
#     of the calls with the same stack of callers one fails (-w)
#   - sets of shards (-s): the same, and for one set each call fails
set -u
program=$1 unit=$2 each=${3:-1} files=${4:-1}
packs=tests/fuzz/corpus
kinds='t10/torchscript_trace.pt t113/numpy_p5.pt t113/state_dict_p0.pt t14/quant.pt t215/export_f8.pt2
    t26/compiled.pt t26/exported_program.pt2 t26/meta.pt t26/nested.pt t26/nested_jagged.pt t26/numpy.pt
    t26/plain_pickle_p2.pkl t26/quant_per_channel.pt t26/sparse_coo.pt t26/sparse_csr.pt t26/tied_legacy.pt
    t26/torch_package.pt t26/torchscript_containers.pt t26/torchscript_frozen_constants.pt
    t26/whole_model_custom.pt t26/wrapper_subclass_twotensor.pt dist26/dtensor_rank0.pt
    dist26/fsdp_sharded_rank0.pt legexp/h_view_metadata.pt legexp/t_tar_view.pt'
sets='t26/tied.pt t26/empty.pt t26/extra_state.pt t26/state_dict.pt t26/nested.pt
    t215/dist/dcp_hf_sharded/shard-00001-model-00001-of-00002.safetensors
    t215/eco/hub_bin_sharded t215/eco/hub_safetensors_sharded'
work=$(mktemp) || exit 2
trap 'rm -rf "$work"*' EXIT

# every N - prints every N-th line of its input, sorted
every() { sort | awk -v n="$1" 'NR % n == 0'; }

for pack in "$packs"/*.pack; do
    target=${pack##*/}
    FUZZ_TARGET=${target%.pack} "$program" "$pack"
done >"$work" 2>&1
"$program" -e "$packs"/any.pack "$packs"/torch_*.pack "$packs"/safetensors.pack >>"$work" 2>&1
mkdir "$work.scanned"
KEEP_SCANNED=$work.scanned "$unit" $(sed -n 's/^SUITE(\(scan[a-z_]*\))$/\1/p' tests/unit/suites.def) >/dev/null
find "$work.scanned" -type f | every "$each" | FUZZ_TARGET=scan xargs "$program" -w -m 8000 >>"$work" 2>&1
for kind in $kinds; do
    echo "tests/corpus/torch/$kind"
done >"$work.files"
mkdir "$work.made"
KEEP_MADE=$work.made "$unit" $(sed -n 's/^SUITE(\(torch[a-z_]*\))$/\1/p' tests/unit/suites.def) >/dev/null
find "$work.made" -type f >>"$work.files"
find tests/corpus tests/data -type f -size -128 ! -name '*.pack' | every "$files" >>"$work.files"
every "$each" <"$work.files" >"$work.some"
for target in cast doctor in_place round salvage sanitize scan zip_patch; do
    FUZZ_TARGET=$target xargs "$program" -w -m 100000 <"$work.some" >>"$work" 2>&1
done
xargs "$program" -w -e -m 400000 <"$work.some" >>"$work" 2>&1
for set in $sets; do
    echo "tests/corpus/torch/$set"
done | xargs "$program" -w -s >>"$work" 2>&1
case $program in
*/asan/*) ;; # too slow for all calls
*) "$program" -s tests/corpus/torch/t26/tied.pt >>"$work" 2>&1 ;;
esac
grep -v '^in turn: .* 0 failed$' "$work" | head -n 40
awk '/^in turn: [0-9]* passed, [0-9]* failed$/ {p += $3; f += $5; n++}
     END {printf "in turn: %d passed, %d failed\n", p, f + !n; exit f || !n}' "$work"
