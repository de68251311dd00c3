#!/bin/sh
# oracle/run.sh [--sample] - runs gguf_files.py with the first Python that has gguf, and oracle.py with the first that
# has torch and safetensors: ORACLE_PYTHON, the one that `make oracle-env` made, python3. Says so when there is none.
set -u
B=${B:-build}
gguf=
for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    if [ -n "$python" ] && "$python" -c 'import gguf' >/dev/null 2>&1; then
        gguf=yes
        PYTHONDONTWRITEBYTECODE=1 "$python" tests/oracle/gguf_files.py "$B/ckpt" tests/corpus || exit 1
        break
    fi
done
[ "$gguf" ] || echo 'oracle-gguf skipped: no Python with gguf (make oracle-env, or ORACLE_PYTHON=…)'
for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    [ -n "$python" ] || continue
    if "$python" -c 'import torch, safetensors.torch' >/dev/null 2>&1; then
        exec env PYTHONDONTWRITEBYTECODE=1 "$python" tests/oracle/oracle.py "$@" "$B/ckpt" tests/corpus \
            "$B/tests/oracle/create"
    fi
done
echo 'oracle skipped: no Python with torch and safetensors (make oracle-env, or ORACLE_PYTHON=…)'
echo 'oracle: 0 passed, 0 failed, 1 skipped'
