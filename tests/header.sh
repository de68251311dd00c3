#!/bin/sh
# header.sh - checks that a file with nothing but two includes of ckpt.h compiles without a warning as C11, C23 and C++.
# Checks also that a C++ program links against the C library.
set -u
CC=${CC:-cc}
part=header
. tests/check.sh

printf '#include "ckpt.h"\n#include "ckpt.h"\nint main(void) { return ckpt_version() == 0; }\n' >"$tmp/use.c"
cp "$tmp/use.c" "$tmp/use.cpp"

# check_compiler NAME COMPILER ARG… - checks that COMPILER ARG… succeeds without a warning
check_compiler()
{
    name=$1
    shift
    if command -v "${1%% *}" >/dev/null 2>&1; then
        check "$name" "$@" -Wall -Wextra -Wpedantic -Werror -Ilib
    else
        skip "$name: $1 is not installed"
    fi
}

# shellcheck disable=SC2086 # CC may have arguments
check_compiler C11 $CC -std=c11 -fsyntax-only "$tmp/use.c"
# shellcheck disable=SC2086 # CC may have arguments
check_compiler C23 $CC -std=c2x -fsyntax-only "$tmp/use.c"
check_compiler 'clang, C11' clang -std=c11 -fsyntax-only "$tmp/use.c"
check_compiler C++11 c++ -std=c++11 -fsyntax-only "$tmp/use.cpp"
check_compiler 'C++20, linked' c++ -std=c++20 "$tmp/use.cpp" -o "$tmp/use" "${B:-build}/libckpt.so"
summary
