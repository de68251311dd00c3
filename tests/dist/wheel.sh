#!/bin/sh
# dist/wheel.sh [ARCH] - checks the Python wheels of `make wheel`: their tags, contents and metadata, what their
# libraries need and export, and that an installed wheel works: its program without a Python, its package next to torch,
# and tests/python. WHEEL_PYTHONS are the Pythons that install it (default: those found here, one for each version).
set -u
B=${B:-build} VERSION=${VERSION:-0.1.0} part=wheel
arch=${1:-$(uname -m)}
top=$PWD
wheels=$top/$B/dist/wheels
gnu=$wheels/libckpt-$VERSION-py3-none-manylinux_2_17_$arch.whl
musl=$wheels/libckpt-$VERSION-py3-none-musllinux_1_2_$arch.whl
. tests/check.sh
for wheel in "$gnu" "$musl"; do
    [ -s "$wheel" ] || {
        skip "there is no $wheel: run make wheel"
        summary
        exit
    }
done

# What is in the wheels
for libc in gnu musl; do
    eval "wheel=\$$libc"
    python3 -m zipfile -e "$wheel" "$tmp/$libc" || exit 1
done
same_program()
{
    for libc in gnu musl; do
        cmp "$tmp/$libc/libckpt-$VERSION.data/scripts/ckpt" "$B/dist/$arch/out/ckpt" || return 1
    done
}
check 'their program is the static program' same_program
# needs_only LIBC LIBRARY… - succeeds if the library of LIBC needs no other shared library than these
needs_only()
{
    libc=$1
    shift
    readelf -dW "$tmp/$libc/libckpt/libckpt.so.0" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        sort >"$tmp/needed"
    printf '%s\n' "$@" | sort | comm -23 "$tmp/needed" - | tee "$tmp/more"
    [ -s "$tmp/needed" ] && [ ! -s "$tmp/more" ]
}
check 'the library needs only the C library, glibc' needs_only gnu libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0
check 'the library needs only the C library, musl' needs_only musl libc.so
exports_no_more()
{
    for libc in gnu musl; do
        nm -D --defined-only "$tmp/$libc/libckpt/libckpt.so.0" |
            awk '$2 != "A" && $3 !~ /^ckpt_[a-z0-9_]*@@CKPT_0$/' >"$tmp/more"
        cat "$tmp/more"
        [ ! -s "$tmp/more" ] || return 1
        nm -D --defined-only "$tmp/$libc/libckpt/libckpt.so.0" | awk '$2 != "A" {print $3}' |
            sort >"$tmp/exported.$libc"
    done
    nm -D --defined-only "$B/libckpt.so" | awk '$2 != "A" {print $3}' | sort | diff - "$tmp/exported.gnu" &&
        diff "$tmp/exported.gnu" "$tmp/exported.musl"
}
check 'the library exports the names of libckpt.map, as this build does' exports_no_more
uses_old_glibc()
{
    objdump -T "$tmp/gnu/libckpt/libckpt.so.0" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1 |
        tee "$tmp/newest"
    printf '%s\n2.17\n' "$(cat "$tmp/newest")" | sort -V | tail -n 1 | grep -qx 2.17
}
check 'no symbol of a glibc after 2.17' uses_old_glibc
# What no glibc of this age has is a symbol without a version.
has_all_versions()
{
    objdump -T "$tmp/gnu/libckpt/libckpt.so.0" | awk '/\*UND\*/ && !/GLIBC_/ && $2 != "w"' | tee "$tmp/more"
    [ ! -s "$tmp/more" ]
}
check 'no symbol that glibc 2.17 lacks' has_all_versions
has_no_path() { ! strings "$tmp/$1/libckpt/libckpt.so.0" | grep -F -e "$top" -e /tmp/tmp.; }
has_no_writable_code()
{
    readelf -lW "$tmp/$1/libckpt/libckpt.so.0" >"$tmp/elf" && grep -q GNU_RELRO "$tmp/elf" && ! grep 'RWE' "$tmp/elf"
}
for libc in gnu musl; do
    check "no path of the build is in the library, $libc" has_no_path "$libc"
    check "the library is hardened, $libc" has_no_writable_code "$libc"
done
# The licence of each library and its line in the bill of materials
lists_all()
{
    info=$tmp/$1/libckpt-$VERSION.dist-info
    [ -s "$info/licenses/LICENSE" ] && [ -e "$tmp/$1/libckpt/py.typed" ] || return 1
    sed -n 's/^\([a-z0-9]*\) .*/\1/p' packaging/sources.txt | while read -r source; do
        [ -s "$info/licenses/licences/$source" ] || { echo "no licence of $source"; return 1; }
        grep -q "\"name\": \"$source\"" "$info/sboms/libckpt.spdx.json" || { echo "no $source"; return 1; }
    done
}
check 'each library has a licence and is in the bill of materials' lists_all gnu
# is_written_again - succeeds if wheels that are written again have the same bytes
is_written_again()
{
    mkdir "$tmp/again"
    for libc in gnu musl; do
        eval "wheel=\$$libc"
        platform=${wheel##*-none-}
        SOURCE_DATE_EPOCH=$(python3 -c 'import calendar, sys, zipfile
print(calendar.timegm(zipfile.ZipFile(sys.argv[1]).infolist()[0].date_time))' "$wheel") \
            python3 packaging/wheel.py "${platform%.whl}" "$tmp/$libc/libckpt/libckpt.so.0" "$B/dist/$arch/out/ckpt" \
            "$B/dist/$arch/licences" "$B/dist/$arch/sbom.spdx.json" "$tmp/again" &&
            cmp "$wheel" "$tmp/again/${wheel##*/}" || return 1
    done
}
check 'two runs write the same bytes' is_written_again

# The library for musl, by a program in C, because Debian has no Python for musl
lists_with_musl()
{
    musl-gcc -o "$tmp/list" examples/list.c -Ilib "$tmp/musl/libckpt/libckpt.so.0" -Wl,-rpath,"$tmp/musl/libckpt" &&
        "$tmp/list" tests/data/examples/train.pt
}
if [ "$arch" = "$(uname -m)" ] && command -v musl-gcc >/dev/null; then
    check 'a program lists a file with the library for musl' lists_with_musl
else
    skip 'no musl-gcc'
fi

# The checks of those who know the format, in an environment of their own
tools=$B/dist/wheel-tools
install_tools()
{
    python3 -m venv "$tools" &&
        "$tools/bin/pip" install -q auditwheel==6.8.2 check-wheel-contents==0.6.3 twine==7.0.0
}
if [ -x "$tools/bin/twine" ] || install_tools >"$tmp/log" 2>&1; then
    audits()
    {
        "$tools/bin/auditwheel" show "$gnu" | tee "$tmp/audit"
        tr '\n' ' ' <"$tmp/audit" | grep -q "\"manylinux_2_17_$arch\""
    }
    check 'auditwheel: manylinux_2_17' audits
    check 'check-wheel-contents' "$tools/bin/check-wheel-contents" "$gnu" "$musl"
    check 'twine check' "$tools/bin/twine" check --strict "$wheels"/*
else
    skip 'auditwheel, check-wheel-contents and twine cannot be installed'
fi
[ "$arch" = "$(uname -m)" ] || {
    skip "a wheel for $arch cannot be installed here"
    summary
    exit
}

# find_pythons - prints the Pythons of version 3.9 or later, one for each version
find_pythons()
{
    for python in python3 /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
        "$python" -c 'import os, sys, sysconfig, venv
if sys.version_info >= (3, 9):
    print("%d.%d%s" % (*sys.version_info[:2], sysconfig.get_config_var("ABIFLAGS") or ""), sys.executable)' 2>/dev/null
    done | sort -s -V -k 1,1 | awk '!seen[$1]++ {print $2}'
}

# installs PYTHON DIR - installs the wheel into a new environment, without an index
installs() { "$1" -m venv "$2" && "$2/bin/pip" install -q --no-index --no-deps --force-reinstall "$gnu"; }
# run_env DIR COMMAND… - runs COMMAND of the environment with nothing of this one, in the folder $tmp
run_env()
{
    dir=$1
    shift
    (cd "$tmp" && env -i HOME="$tmp" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$dir/bin/$@")
}
is_this_one()
{
    run_env "$1" python -c 'import libckpt, os, sys
from libckpt import _library
assert os.path.dirname(_library.path) == os.path.dirname(libckpt.__file__), _library.path
assert libckpt.binary() == os.path.join(os.path.dirname(sys.executable), "ckpt"), libckpt.binary()
assert libckpt.__version__ == libckpt.doctor(install=True)["version"] == sys.argv[1]' "$VERSION"
}
program_runs()
{
    env -i "$1/bin/ckpt" --version && [ "$(run_env "$1" python -m libckpt --version)" = "ckpt $VERSION" ] &&
        [ "$(run_env "$1" python -m libckpt no-such-command >/dev/null 2>&1; echo $?)" = 2 ]
}
# tests_pass COMMAND… - runs tests/python with the package that is installed for COMMAND, a Python
tests_pass()
{
    INSTALLED=1 sh tests/python/run.sh "$@" >"$tmp/python" 2>&1
    code=$?
    cat "$tmp/python"
    grep -q '^python: [1-9].* passed, 0 failed' "$tmp/python" && return $code
}
for python in ${WHEEL_PYTHONS:-$(find_pythons)}; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.abiflags, sep="")')
    env=$tmp/env$version
    check "Python $version installs it without an index" installs "$python" "$env"
    check "Python $version finds its library and its program" is_this_one "$env"
    check "Python $version: the program runs, also by python -m libckpt" program_runs "$env"
    "$env/bin/pip" install -q numpy ml_dtypes >"$tmp/log" 2>&1 || skip "no NumPy or ml_dtypes for Python $version"
    check "Python $version: tests/python" tests_pass "$env/bin/python"
done

# Where pip puts it with other options; none of these folders is outside of $tmp
is_found_in()
{
    rm -rf "$tmp/in"
    PIP_BREAK_SYSTEM_PACKAGES=1 PYTHONUSERBASE=$tmp/in \
        python3 -m pip install -q --no-index --no-deps --ignore-installed "$@" "$gnu" || return 1
    site=$(dirname "$(find "$tmp/in" -name libckpt -type d)")
    program=$(PYTHONUSERBASE=$tmp/in PYTHONPATH=$site python3 -c 'import libckpt; print(libckpt.binary())')
    echo "$program"
    case $program in "$tmp/in/"*) [ -x "$program" ] ;; *) false ;; esac
}
if python3 -m pip --version >"$tmp/log" 2>&1; then
    check 'its program is found with --target' is_found_in --target "$tmp/in"
    check 'its program is found with --prefix' is_found_in --prefix "$tmp/in"
    check 'its program is found with --user' is_found_in --user
else
    skip 'python3 has no pip, to install the wheel in other folders'
fi

# Next to torch, which has libraries of its own
oracle=${ORACLE_PYTHON:-$B/oracle-env/bin/python}
imports()
{
    PYTHONPATH=$tmp/site "$oracle" -c "import $1
from libckpt.torch import load_file
state = load_file('tests/data/examples/train.pt')
assert state and all(isinstance(tensor, torch.Tensor) for tensor in state.values())
assert libckpt.__file__.startswith('$tmp/site') and libckpt.binary() == '$tmp/site/bin/ckpt', libckpt.binary()
torch.save(state, '$tmp/saved.pt')
assert libckpt.diff('$tmp/saved.pt', 'tests/data/examples/train.pt', root='auto')['equal']
assert torch.randn(64, 64).matmul(torch.eye(64)).shape == (64, 64)"
}
if "$oracle" -c 'import torch' 2>/dev/null; then
    check 'it installs in a folder' "$oracle" -m pip install -q --no-index --no-deps --target "$tmp/site" "$gnu"
    check 'torch, then libckpt' imports 'torch, libckpt'
    check 'libckpt, then torch' imports 'libckpt, torch'
    export PYTHONPATH="$tmp/site"
    check 'tests/python with torch' tests_pass "$oracle"
    check 'URLs are read' sh -c '! grep "skipped: test_url" "$1"' sh "$tmp/python"
else
    skip 'no torch: see make oracle-env'
fi
summary
