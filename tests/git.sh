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

# The command of README.md about git.
setup=$(awk '/^```/ {if (text ~ /^ckpt git/) {printf "%s", text; exit} text = ""; next}
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
git_lfs_attributes='*.pt filter=lfs diff=lfs merge=lfs -text'
echo "$git_lfs_attributes" >.gitattributes
# Git LFS, as far as it matters: what is committed is a pointer, what is checked out is the content if it is there
mkdir "$tmp/lfs"
cat >"$tmp/lfs-filter" <<END
#!/bin/sh
if [ "\$1" = clean ]; then
    cat >"$tmp/lfs/new"
    oid=\$(sha256sum <"$tmp/lfs/new" | cut -d ' ' -f 1)
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "\$oid" \
        "\$(wc -c <"$tmp/lfs/new" | tr -d ' ')"
    mv "$tmp/lfs/new" "$tmp/lfs/\$oid"
else
    pointer=\$(cat)
    oid=\$(echo "\$pointer" | sed -n 's/^oid sha256://p')
    cat "$tmp/lfs/\$oid" 2>/dev/null || echo "\$pointer"
fi
END
git config filter.lfs.clean "sh $tmp/lfs-filter clean"
git config filter.lfs.smudge "sh $tmp/lfs-filter smudge"
eval "$setup" || { echo 'FAIL the commands of README.md'; failed=1; }
cp "$examples/train.pt" model.pt
git add . && git commit -qm one
ckpt strip -q module. model.pt -o fixed.pt >/dev/null && mv fixed.pt model.pt
check 'textconv: the old name' git_prints '^-.*state_dict.module.fc.weight' diff --no-ext-diff
check 'textconv: the new name' git_prints '^+.*state_dict.fc.weight' diff --no-ext-diff
check 'textconv: git keeps the text' git_prints textconv for-each-ref
check 'driver: the change' git_prints 'module.fc.weight' diff
check 'driver: a new file' git_prints 'new file: torch zip, 22 tensors' log -p --ext-diff
echo 'not a checkpoint' >model.pt
check 'textconv: the error is in the diff' \
    git_prints '^+.*model.pt\|^+.*not a checkpoint\|^+.*unknown' diff --no-ext-diff
check 'driver: not a checkpoint' git_succeeds diff
git rm -qf model.pt
git checkout -qf HEAD
check 'the pointer is committed' git_prints '^version https://git-lfs' cat-file -p HEAD:model.pt
git rm -qf model.pt
check 'driver: a deleted file' git_prints 'deleted file: torch zip, 22 tensors' diff --cached
git checkout -qf HEAD
rm "$tmp/lfs"/*
git update-ref -d refs/notes/textconv/ckpt
ckpt strip -qf module. "$examples/train.pt" -o model.pt
check 'textconv: the other side is a pointer' git_prints '^-.*Git LFS pointer' diff --no-ext-diff
check 'driver: the other side is a pointer' git_prints 'Git LFS pointer' diff
git -c core.bigFileThreshold=1k diff --no-ext-diff >"$tmp/big" 2>&1
check 'textconv: a file above core.bigFileThreshold' grep -q '^+.*state_dict.fc.weight' "$tmp/big"
summary
