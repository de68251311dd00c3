#!/bin/sh
# format.sh [--fix] - checks that the sources are as clang-format writes them; --fix writes them so. Versions of
# clang-format differ, so this one is installed from the Python package index into $B, if it can be.
set -u
B=${B:-build}
version=23.1.5
folder=$B/clang-format-$version

install() { python3 -m venv "$folder" && "$folder/bin/pip" install -q --timeout 20 "clang-format==$version"; }

if [ ! -x "$folder/bin/clang-format" ] && ! install >"$B/clang-format.log" 2>&1; then
    echo "format skipped: clang-format $version cannot be installed, see $B/clang-format.log"
    echo 'format: 0 passed, 0 failed, 1 skipped'
    [ "${1:-}" != --fix ]
    exit
fi
if [ "${1:-}" = --fix ]; then set -- -i; else set -- --dry-run -Werror --ferror-limit=1; fi
if printf '%s\n' lib/*.[ch] lib/*/*.[ch] lib/*/*/*.[ch] cli/*.[ch] examples/*.c tests/*.[ch] tests/*/*.[ch] |
    xargs -P "$(nproc)" -n 64 "$folder/bin/clang-format" "$@"; then
    echo 'format: 1 passed, 0 failed'
else
    echo 'format: 0 passed, 1 failed'
    exit 1
fi
