#!/bin/sh
# run.sh - tests hostile bytes, numbers and names; prints one line for each of:
#   names      hostile names of tensors, values, files and options, printed by all commands (names.c)
#   limits     every truncation and four changes of each byte of small files, with 64 MiB of memory, 256 KiB of stack
#              and 8 file descriptors
#   extremes   with the same limits: extreme numbers of 2, 4 and 8 bytes at every offset of small files, and instead of
#              every decimal number in them
#   sanitized  every truncation and four changes of each byte of the smallest files under ASan and UBSan
set -u
each=${EACH:-1} # tests every EACH-th file; if negative, the others, and no names
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
passed=0 failed=0

# run_part NAME COMMAND… - runs COMMAND, whose last line is "…: N passed, N failed", and adds these counts; a
# COMMAND that fails without such a line counts as one failure
run_part()
{
    name=$1
    shift
    output=$("$@" 2>&1)
    code=$?
    set -- $(printf '%s\n' "$output" | sed -n 's/^[a-z]*: \([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p')
    part_passed=${1:-0} part_failed=${2:-0}
    [ $code -eq 0 ] && [ "${2:-1}" -eq 0 ] || printf '%s\n' "$output"
    [ $code -eq 0 ] || [ "$part_failed" -ne 0 ] || failed=$((failed + 1))
    passed=$((passed + part_passed))
    failed=$((failed + part_failed))
    remark=$(printf '%s\n' "$output" | sed -n '$s/^[^(]*/ /p') # the last line, from its "(" on
    printf '  %-10s %9d cases%s\n' "$name" $((part_passed + part_failed)) "$remark"
}

# The options of robust are described in tests/robust.c.
[ "$each" -lt 0 ] || run_part names "$B/tests/threats/names" "$CKPT"
run_part limits "$B/tests/robust" -e "$each" -l -f 4 -m 1500 tests/corpus
run_part extremes "$B/tests/robust" -e "$each" -l -x -m 400 tests/corpus
[ ! -x "$B/asan/tests/robust" ] || run_part sanitized "$B/asan/tests/robust" -e "$each" -f 4 -m 640 tests/corpus
echo "threats: $passed passed, $failed failed"
[ $failed -eq 0 ]
