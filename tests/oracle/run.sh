#!/bin/sh
# oracle/run.sh [--sample] - runs each check with the first Python that has its modules: gguf_files.py gguf,
# flax_files.py msgpack, array_files.py numpy and safetensors, oracle.py torch and safetensors. It tries
# ORACLE_PYTHON, the one of `make oracle-env` and python3; without any, the check is skipped with a message.
set -u
B=${B:-build}

# files_of NAME MODULE - runs NAME_files.py with the first Python that has MODULE
files_of()
{
    for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
        if [ -n "$python" ] && "$python" -c "import $2" >/dev/null 2>&1; then
            PYTHONDONTWRITEBYTECODE=1 "$python" "tests/oracle/$1_files.py" "$B/ckpt" tests/corpus
            return
        fi
    done
    echo "oracle-$1 skipped: no Python with $2 (make oracle-env, or ORACLE_PYTHON=…)"
}

files_of gguf gguf || exit 1
files_of flax msgpack || exit 1
files_of array safetensors.numpy || exit 1
for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    [ -n "$python" ] || continue
    if "$python" -c 'import torch, safetensors.torch' >/dev/null 2>&1; then
        exec env PYTHONDONTWRITEBYTECODE=1 "$python" tests/oracle/oracle.py "$@" "$B/ckpt" tests/corpus \
            "$B/tests/oracle/create"
    fi
done
echo 'oracle skipped: no Python with torch and safetensors (make oracle-env, or ORACLE_PYTHON=…)'
echo 'oracle: 0 passed, 0 failed, 1 skipped'
