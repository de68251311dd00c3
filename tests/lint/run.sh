#!/bin/sh
# lint/run.sh [NAME…] - runs the lints NAME…, or else all lints and their self-test. A lint prints "file:line: what"
# for each violation, and nothing if there is none.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
LINT=${LINT:-$PWD/tests/lint}
export B CKPT LINT LC_ALL=C
passed=0 failed=0

all='floors format_names third_party symbols banned prints parameters braces message_text text listed_files make_help
    commands comments options manual mdoc errors'
for name in ${*:-$all}; do
    found=$(sh "$LINT/$name.sh" 2>&1)
    if [ -z "$found" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$found" | sed "s/^/$name: /"
    fi
done
[ $# -gt 0 ] || { sh "$LINT/selftest.sh" && passed=$((passed + 1)) || failed=$((failed + 1)); }
echo "lint: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
