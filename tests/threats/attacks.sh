#!/bin/sh
# attacks.sh - scans files that make a loader call functions, and harmless ones that look similar, from attacks.c: each
# must get the exit code and the finding of its line. If python3 is installed, oracle.py compares its unpicklers.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0
tab=$(printf '\t')

mkdir "$work/files"
"$B/tests/threats/attacks" "$work/files" >"$work/list" || { echo 'attacks: 0 passed, 1 failed'; exit 1; }
while IFS=$tab read -r technique name code rule _; do
    "$CKPT" scan -a "$work/files/$name" >"$work/out" 2>&1
    got=$?
    if [ $got -eq "$code" ] && { [ "$rule" = - ] || grep -q "^  $rule " "$work/out"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$technique, $name: exit $got, expected $code and $rule"
        sed 's/^/    /' "$work/out"
    fi
done <"$work/list"

# Fewer files or techniques would mean that attacks.c has lost some.
files_made=$(cut -f1 "$work/list" | grep -cvx control)
kinds=$(cut -f1 "$work/list" | grep -vx control | sort -u | grep -c .)
if [ "$files_made" -lt 60 ] || [ "$kinds" -lt 15 ]; then
    echo "only $files_made files by $kinds techniques"
    failed=$((failed + 1))
fi

skipped=
if command -v python3 >/dev/null 2>&1; then
    PYTHONDONTWRITEBYTECODE=1 python3 tests/threats/oracle.py "$CKPT" "$B/tests/threats/attacks" --changed 20 \
        >"$work/oracle" 2>&1 || { failed=$((failed + 1)) && cat "$work/oracle"; }
    passed=$((passed + $(sed -n 's/^attacks-oracle: \([0-9]*\) passed.*/\1/p' "$work/oracle")))
else
    echo 'attacks skipped: no python3 to compare its unpicklers with scan'
    skipped=', 1 skipped'
fi
echo "attacks: $passed passed, $failed failed$skipped ($files_made files by $kinds techniques)"
[ $failed -eq 0 ]
