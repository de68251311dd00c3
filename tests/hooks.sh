#!/bin/sh
# hooks.sh - runs the hooks of .pre-commit-hooks.yaml by pre-commit in a real repository: each fails because of its bad
# file and names it, and prints nothing about good ones.
set -u
part=hooks
. tests/check.sh
top=$PWD
PATH=$PWD/${B:-build}:$PATH
pre_commit=${PRE_COMMIT:-$(command -v pre-commit || echo "$PWD/${B:-build}/oracle-env/bin/pre-commit")}
if ! command -v git >/dev/null 2>&1 || ! "$pre_commit" --version >/dev/null 2>&1; then
    skip 'git and pre-commit are not both there (make oracle-env, or PRE_COMMIT=…)'
    summary
    exit
fi
export HOME="$tmp" PRE_COMMIT_HOME="$tmp/cache" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org \
    GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org

# A repository with the hooks alone, because that of the sources may have changes that are not committed
mkdir "$tmp/hooks" "$tmp/user"
cp "$top/.pre-commit-hooks.yaml" "$tmp/hooks"
(cd "$tmp/hooks" && git init -q && git add . && git commit -qm hooks) || exit
cd "$tmp/user" && git init -q . || exit
ckpt strip -q --auto "$top/tests/data/examples/train.pt" -o good.pt
cp good.pt 'with blanks.pth'
echo text >notes.txt
git add .

# hook NAME - runs one hook on all files
hook() { "$pre_commit" try-repo "$tmp/hooks" "$1" --all-files --color never --verbose; }
# passes NAME - the hook passes, and its command prints nothing, which --verbose would show
passes()
{
    hook "$1" >"$tmp/out" 2>&1 || { cat "$tmp/out"; return 1; }
    grep -q 'Passed$' "$tmp/out" && ! grep 'ckpt: ' "$tmp/out"
}
# fails NAME PATTERN - the hook fails, and prints a line that matches, and no line about a good file
fails()
{
    ! hook "$1" >"$tmp/out" 2>&1 || return 1
    cat "$tmp/out"
    grep -q "$2" "$tmp/out" && ! grep -q 'good\|blanks' "$tmp/out"
}

for name in ckpt-verify ckpt-scan ckpt-no-wrapper-prefix ckpt-doctor; do
    check "$name: good files" passes "$name"
done
# bad FILE - makes the file the only bad one
bad()
{
    git rm -qf --ignore-unmatch bad.pt
    cat >bad.pt
    git add bad.pt
}
bad <"$top/tests/data/examples/train.pt"
check 'ckpt-no-wrapper-prefix: a prefix' fails ckpt-no-wrapper-prefix '^bad.pt: module\.'
sed 's/weight/wexght/' good.pt | bad
check 'ckpt-verify: changed bytes' fails ckpt-verify bad.pt
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 0 | bad
check 'ckpt-doctor: a pointer' fails ckpt-doctor 'git lfs pull --include bad.pt'
printf 'cos\nsystem\n(S"true"\ntR.' | bad
check 'ckpt-scan: a call' fails ckpt-scan bad.pt
summary
