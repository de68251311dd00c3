#!/bin/sh
# oracle/run.sh [--sample] - runs oracle.py with the first Python that has torch and safetensors: ORACLE_PYTHON, the one
# that `make oracle-env` made, python3. Says so when there is none.
set -u
B=${B:-build}
for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3; do
    [ -n "$python" ] || continue
    if "$python" -c 'import torch, safetensors.torch' >/dev/null 2>&1; then
        exec env PYTHONDONTWRITEBYTECODE=1 "$python" tests/oracle/oracle.py "$@" "$B/ckpt" tests/corpus \
            "$B/tests/oracle/create"
    fi
done
echo 'oracle skipped: no Python with torch and safetensors (make oracle-env, or ORACLE_PYTHON=…)'
echo 'oracle: 0 passed, 0 failed, 1 skipped'
