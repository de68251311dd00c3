#!/bin/sh
# git.sh - tests the README's git setup in a real repository: `git diff` shows names, shapes and digests by
# textconv, and the changes by the diff driver; it also works for a file that is no checkpoint.
set -u
B=${B:-build}
ckpt=$PWD/$B/ckpt
examples=$PWD/tests/data/examples
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

if ! command -v git >/dev/null 2>&1; then
    echo 'git skipped: no git'
    echo 'git: 0 passed, 0 failed, 1 skipped'
    exit 0
fi

# The block of README.md about .gitattributes
recipe=$(awk '/^```/ {if (text ~ /gitattributes/) {printf "%s", text; exit} text = ""; next}
    {text = text $0 "\n"}' README.md)
PATH=$(dirname "$ckpt"):$PATH
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_PAGER=cat
cd "$tmp" || exit 2

expect() # expect WHAT PATTERN - checks that the output of the last git command has PATTERN
{
    if grep -q -e "$2" "$tmp/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: no \"$2\" in"
        sed 's/^/    /' "$tmp/out"
    fi
}

git_diff() { git "$@" >"$tmp/out" 2>&1 || echo "git exits $?" >>"$tmp/out"; }

git init -q . && git config user.name t && git config user.email t@example.org
eval "$recipe" || { echo 'FAIL the recipe of README.md does not run'; failed=1; }
cp "$examples/train.pt" model.pt
git add . && git commit -qm one
ckpt strip -q module. model.pt -o fixed.pt >/dev/null && mv fixed.pt model.pt

git_diff diff --no-ext-diff
expect 'textconv: the old name' '^-.*state_dict.module.fc.weight'
expect 'textconv: the new name' '^+.*state_dict.fc.weight'
git_diff diff
expect 'driver: what changed' 'module.fc.weight'
git_diff log -p --ext-diff
expect 'driver: a new file' 'new file: torch zip, 22 tensors'
echo 'no checkpoint at all' >model.pt
git_diff diff --no-ext-diff
expect 'textconv: the reason stands in the diff' '^+.*model.pt\|^+.*not a checkpoint\|^+.*unknown'
git_diff diff
if grep -q 'git exits\|fatal' "$tmp/out"; then
    failed=$((failed + 1))
    echo 'FAIL driver: git gave up'
    cat "$tmp/out"
else
    passed=$((passed + 1))
fi
git rm -qf model.pt
git_diff diff --cached
expect 'driver: a deleted file' 'deleted file: torch zip, 22 tensors'
echo "git: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
