#!/bin/sh
# example.sh - the worked example builds against ckpt.h alone, runs on a real checkpoint, and is the one that libckpt.3
# shows, line for line.
set -u
B=${B:-build} CC=${CC:-cc}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

check()
{
    what=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        cat "$tmp/log"
    fi
}

build()
{
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -Ilib -o "$tmp/example" tests/example.c "$B/libckpt.a" \
        -lzip -lz -lcrypto -lm -ldl -pthread
}
run() { "$tmp/example" "$@"; }
lists() { run tests/data/examples/train.pt | grep -q 'module.fc.weight'; }
refuses() { run tests/demo.sh 2>/dev/null; [ $? -ne 0 ]; }

# The page's text between .Bd -literal and .Ed, its escapes undone.
shown()
{
    awk '/^\.Bd -literal/ {on = 1; n = 0; text = ""; next}
         /^\.Ed/ {if (on && text ~ /int main/) {printf "%s", text; exit} on = 0}
         on {text = text $0 "\n"}' man/libckpt.3 | sed 's/\\&//g; s/\\e/\\/g; s/\\-/-/g; s/\\(dq/"/g'
}
same_as_shown()
{
    shown >"$tmp/shown"
    grep -v '^/\*.*\*/$' tests/example.c >"$tmp/example.c"
    diff -B "$tmp/shown" "$tmp/example.c"
}

check 'builds' build
check 'lists the tensors of a checkpoint' lists
check 'refuses what is none' refuses
check 'is what libckpt.3 shows' same_as_shown
echo "example: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
