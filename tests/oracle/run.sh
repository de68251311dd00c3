#!/bin/sh
# oracle/run.sh [--sample] [NAME]... - runs the checks against Python libraries, or only those called so. Each check is
# run with the first of these Pythons that has the modules it needs: $ORACLE_PYTHON, the Python of `make oracle-env`,
# python3. If none of them has the modules, the check is skipped. oracle-recipes needs transformers in two versions:
# $ORACLE_PYTHON4 has version 4.
# --sample is passed to oracle.py.
set -u
B=${B:-build} sample=
[ "${1:-}" != --sample ] || { sample=$1; shift; }
chosen=$*
export PYTHONDONTWRITEBYTECODE=1 KERAS_BACKEND=numpy # which needs nothing but numpy

# check NAME MODULES SCRIPT [ARG]... - runs SCRIPT, which needs MODULES. If no Python has them, prints that NAME
# is skipped. If NAME is oracle, it then also prints the line of totals that oracle.py would have printed last.
check()
{
    name=$1 modules=$2 script=tests/oracle/$3
    shift 3
    case " ${chosen:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
        if [ -n "$python" ] && "$python" -c "import $modules" >/dev/null 2>&1; then
            "$python" "$script" "$@"
            return
        fi
    done
    echo "$name skipped: no Python with $modules (make oracle-env, or ORACLE_PYTHON=…)"
    [ "$name" != oracle ] || echo 'oracle: 0 passed, 0 failed, 1 skipped'
}

check oracle-gguf gguf gguf_files.py "$B/ckpt" tests/corpus || exit 1
check oracle-flax msgpack flax_files.py "$B/ckpt" || exit 1
check oracle-hdf5 h5py hdf5_files.py "$B/ckpt" || exit 1
check oracle-keras keras keras_files.py "$B/ckpt" || exit 1
check oracle-zarr 'numpy, zarr, numcodecs' zarr_files.py "$B/ckpt" || exit 1
check oracle-array 'numpy, safetensors.numpy' array_files.py "$B/ckpt" tests/corpus || exit 1
check oracle-kubernetes kubernetes_validate kubernetes_jobs.py || exit 1
check oracle-ci check_jsonschema ci_files.py || exit 1
check oracle-ray ray ray_recipe.py "$B/ckpt" "$B/tests/bench/mkckpt" || exit 1
case " ${chosen:-python} " in *' python '*) sh tests/python/run.sh || exit 1 ;; esac
check oracle-edit 'torch.distributed.checkpoint, safetensors.torch' edits.py "$B/ckpt" || exit 1
check oracle-set torch set_values.py "$B/ckpt" || exit 1
check oracle-average-torch 'torch.distributed.checkpoint, safetensors.torch' averages.py "$B/ckpt" torch || exit 1
check oracle-average-mergekit 'torch.distributed.checkpoint, mergekit' averages.py "$B/ckpt" mergekit || exit 1
check oracle-lora 'torch, safetensors.torch, transformers, peft' loras.py "$B/ckpt" || exit 1
if "$B/ckpt" lora --extract /dev/null /dev/null --rank 1 -n 2>&1 | grep -q 'cannot be loaded'; then
    echo 'oracle-extract skipped: no LAPACK (apt install liblapack3)'
else
    check oracle-extract 'torch, safetensors.torch, transformers, peft' extracts.py "$B/ckpt" || exit 1
fi
check oracle-recipes 'torch, safetensors.torch' recipes.py "$B/ckpt" "${ORACLE_PYTHON4:-}" "$B/oracle-env4/bin/python" \
    "$B/oracle-env5/bin/python" || exit 1
check oracle-quantized 'torch, safetensors.torch' quantized_files.py "$B/ckpt" || exit 1
check oracle-export torch exported_programs.py "$B/ckpt" || exit 1
check oracle 'torch, safetensors.torch' oracle.py $sample "$B/ckpt" tests/corpus "$B/tests/oracle/create"
