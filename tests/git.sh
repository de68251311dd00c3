#!/bin/sh
# git.sh - tests the README's git setup in a real repository. With textconv, `git diff` shows names, shapes and
# digests; with the diff driver, it shows the changes. Both also work for a file that is not a checkpoint.
set -u
part=git
. tests/check.sh
examples=$PWD/tests/data/examples

if ! command -v git >/dev/null 2>&1; then
    skip 'git is not installed'
    summary
    exit
fi

# The commands of README.md about .gitattributes.
setup=$(awk '/^```/ {if (text ~ /gitattributes/) {printf "%s", text; exit} text = ""; next}
    {text = text $0 "\n"}' README.md)
PATH=$PWD/${B:-build}:$PATH
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_PAGER=cat
mkdir "$tmp/repository"
cd "$tmp/repository" || exit 2

# git_prints PATTERN ARG… - succeeds if git ARG… prints a line that matches PATTERN
git_prints()
{
    pattern=$1
    shift
    git "$@" >"$tmp/out" 2>&1
    cat "$tmp/out"
    grep -q -e "$pattern" "$tmp/out"
}
# git_succeeds ARG… - succeeds if git ARG… does, without the word "fatal" in its output
git_succeeds() { git "$@" >"$tmp/out" 2>&1 && ! grep fatal "$tmp/out"; }

git init -q . && git config user.name t && git config user.email t@example.org
eval "$setup" || { echo 'FAIL the commands of README.md'; failed=1; }
cp "$examples/train.pt" model.pt
git add . && git commit -qm one
ckpt strip -q module. model.pt -o fixed.pt >/dev/null && mv fixed.pt model.pt
check 'textconv: the old name' git_prints '^-.*state_dict.module.fc.weight' diff --no-ext-diff
check 'textconv: the new name' git_prints '^+.*state_dict.fc.weight' diff --no-ext-diff
check 'driver: the change' git_prints 'module.fc.weight' diff
check 'driver: a new file' git_prints 'new file: torch zip, 22 tensors' log -p --ext-diff
echo 'not a checkpoint' >model.pt
check 'textconv: the error is in the diff' \
    git_prints '^+.*model.pt\|^+.*not a checkpoint\|^+.*unknown' diff --no-ext-diff
check 'driver: not a checkpoint' git_succeeds diff
git rm -qf model.pt
check 'driver: a deleted file' git_prints 'deleted file: torch zip, 22 tensors' diff --cached
summary
