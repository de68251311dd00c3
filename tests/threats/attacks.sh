#!/bin/sh
# attacks.sh - scans the files that attacks.c writes: files that make a loader call functions, and harmless ones that
# look similar. The scan of each must give the exit code and the finding that attacks.c prints for it. If python3 is
# installed, oracle.py compares the reports with what Python's unpicklers call.
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
    status=$?
    if [ $status -eq "$code" ] && { [ "$rule" = - ] || grep -q "^  $rule " "$work/out"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$technique, $name: exit $status, expected $code and $rule"
        sed 's/^/    /' "$work/out"
    fi
done <"$work/list"

# Fewer files or techniques mean that attacks.c failed to make some.
nfiles=$(cut -f1 "$work/list" | grep -cvx control)
ntechniques=$(cut -f1 "$work/list" | grep -vx control | sort -u | grep -c .)
if [ "$nfiles" -lt 60 ] || [ "$ntechniques" -lt 15 ]; then
    echo "only $nfiles files by $ntechniques techniques"
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
echo "attacks: $passed passed, $failed failed$skipped ($nfiles files by $ntechniques techniques)"
[ $failed -eq 0 ]
