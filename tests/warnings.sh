#!/bin/sh
# warnings.sh - compiles every source file with the Makefile's warnings, by gcc and by clang; none may appear.
set -u
passed=0 failed=0 skipped=0
# Without mpicc, which names the folder of mpi.h, the one file that includes it is left out.
mpi=$(mpicc -show 2>/dev/null | tr ' ' '\n' | grep '^-I')
left_out=
[ "$mpi" ] || left_out=cli/comm_mpi.c
flags='-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Ilib -D_GNU_SOURCE -fsyntax-only'

for compiler in gcc clang; do
    if ! command -v $compiler >/dev/null 2>&1; then
        echo "warnings skipped: $compiler is not installed"
        skipped=$((skipped + 1))
    # shellcheck disable=SC2046,SC2086
    elif printf '%s\n' lib/*.c lib/*/*.c lib/*/*/*.c cli/*.c examples/*.c tests/*.c tests/*/*.c |
        grep -vx "$left_out" | xargs -P "$(nproc)" -n 8 $compiler $flags $mpi; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "warnings: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
