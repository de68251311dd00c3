#!/bin/sh
# python/run.sh [PYTHON] - tests the Python package with PYTHON, next to the library that was built. Default: the first
# of $ORACLE_PYTHON, the Python of `make oracle-env` and the system's that has NumPy. What needs NumPy, ml_dtypes or
# torch is skipped if they are not there. With INSTALLED set, it is the package that is installed in PYTHON.
set -u
B=${B:-build}

# find_python - prints the first Python of version 3.9 or later that has NumPy; if there is none, the first without
find_python()
{
    for modules in sys,numpy sys; do
        for python in "${ORACLE_PYTHON:-}" "$B/oracle-env/bin/python" python3 /usr/bin/python3; do
            if [ -n "$python" ] && "$python" -c "import $modules; sys.exit(sys.version_info < (3, 9))" 2>/dev/null; then
                echo "$python"
                return
            fi
        done
    done
}

python=${1:-$(find_python)}
if [ -z "$python" ]; then
    echo 'python skipped: no Python of version 3.9 or later'
    echo 'python: 0 passed, 0 failed, 1 skipped'
    exit
fi
export PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1 CORPUS="$PWD/tests/corpus" INCLUDE="$PWD/lib"
if [ "${INSTALLED:-}" ]; then
    unset CKPT_LIBRARY CKPT
else
    export PYTHONPATH="$PWD/python" CKPT_LIBRARY="$PWD/$B/libckpt.so" CKPT="$PWD/$B/ckpt"
fi
exec "$python" -W error::ResourceWarning tests/python/test_libckpt.py
