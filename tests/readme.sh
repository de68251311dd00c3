#!/bin/sh
# readme.sh [--write] - runs the console blocks of README.md in a folder with train.pt and compares their output with
# the page. --write updates the page instead.
set -u
B=${B:-build}
top=$PWD
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/folder"
cp tests/data/examples/train.pt "$tmp/folder"
PATH=$top/$B:$PATH LC_ALL=C.UTF-8
export PATH LC_ALL

# Writes the page with the new output of its commands.
in_block=no
while IFS= read -r line; do
    case $in_block:$line in
    'no:```console') in_block=yes ;;
    'yes:```') in_block=no ;;
    'yes:$ '*)
        printf '%s\n' "$line"
        (cd "$tmp/folder" && eval "${line#??}" 2>&1 </dev/null)
        continue
        ;;
    yes:*) continue ;;
    esac
    printf '%s\n' "$line"
done <README.md >"$tmp/page"

if [ "${1:-}" = --write ]; then
    cp "$tmp/page" README.md
elif diff -u README.md "$tmp/page"; then
    echo 'readme: 1 passed, 0 failed'
else
    echo 'readme: 0 passed, 1 failed'
    exit 1
fi
