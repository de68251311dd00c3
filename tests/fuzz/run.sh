#!/bin/sh
# fuzz/run.sh - each target over the small files of the corpus and what earlier findings left in tests/fuzz/corpus,
# then over mutations of them for FUZZ_SECONDS. Findings are kept in build/fuzz; put them in tests/fuzz/corpus.
set -u
B=${B:-build}
passed=0 failed=0
for target in open scan write; do
    out=$B/fuzz/$target
    mkdir -p "$out"
    more=
    [ -d tests/fuzz/corpus ] && more=tests/fuzz/corpus
    if "$B/asan/tests/fuzz/$target" -t "${FUZZ_SECONDS:-60}" -s "${FUZZ_SEED:-1}" -o "$out" tests/corpus/torch \
        tests/corpus/vectors tests/data $more; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
