#!/bin/bash
# ci.sh - runs examples/ci/review.sh in a real repository with Git LFS, with files that are good, changed, damaged,
# hostile or removed; and the examples for make and DVC.
set -u
part=ci
. tests/check.sh
top=$PWD
PATH=$PWD/${B:-build}:$PATH
if ! git lfs version >/dev/null 2>&1; then
    skip 'git and git-lfs are not both there'
    summary
    exit
fi
export HOME="$tmp/home" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t \
    GIT_COMMITTER_EMAIL=t@example.org GIT_LFS_SKIP_SMUDGE=1
mkdir "$HOME" "$tmp/user"
git config --global init.defaultBranch main
git config --global protocol.file.allow always
git lfs install >/dev/null || exit 2
git init -q --bare "$tmp/server.git"

# A repository whose checkpoints are in Git LFS, and a branch that changes them
cd "$tmp/user" && git init -q . && git lfs track '*.pt' >/dev/null || exit 2
ckpt strip -q --auto "$top/tests/data/examples/train.pt" -o good.pt
cp good.pt old.pt
cp good.pt 'with blanks.pt'
ckpt convert -q good.pt plain.safetensors
git add . && git commit -qm start && git remote add origin "file://$tmp/server.git" && git push -q origin main 2>&1
git checkout -q -b change
ckpt edit -q --in-place good.pt -e 'set state_dict.fc.bias = 1' 2>/dev/null ||
    ckpt edit -q good.pt -o good2.pt -e 'set state_dict.fc.bias = 1' && mv good2.pt good.pt
ckpt rename -q plain.safetensors -o other.safetensors -s '^fc=>a`|<img src=x>@everyone' &&
    mv other.safetensors plain.safetensors
ckpt add -q x. 'with blanks.pt' -o w.pt && mv w.pt 'with blanks.pt'
git rm -q old.pt
head -c 30000 good.pt >damaged.pt
printf 'cos\nsystem\n(S"id"\ntR.' >evil.pt
cp plain.safetensors './-`|<b>
@all.safetensors'
ln -s /etc/hostname out.npy
git add . && git commit -qm change && git push -q origin change 2>&1

# A clone of CI has pointers in place of the files
git clone -q -b change "file://$tmp/server.git" "$tmp/clone" 2>&1 && cd "$tmp/clone" || exit 2

review() { bash "$top/examples/ci/review.sh" origin/main "$tmp/out" >"$tmp/printed" 2>&1; code=$?; cat "$tmp/printed"; }
has() { grep -q -F -e "$1" "$tmp/out/comment.md" || { cat "$tmp/out/comment.md"; false; }; }
has_no() { ! grep -n -e "$1" "$tmp/out/comment.md"; }
exits() { review; [ "$code" = "$1" ] || { echo "exit $code"; false; }; }

check 'the clone has pointers' grep -q '^version https://git-lfs' good.pt
check 'damage and code are found' exits 1
check 'what changed is a table' has '| ~ | `state_dict.fc.bias` | float32 | [10] |'
check 'a path with blanks' has '### `with blanks.pt`'
check 'what is removed is listed' has '- `old.pt`'
check 'what is damaged is named' has 'damaged.pt'
check 'what would run is named' has "os.system"
check 'markup stays code' has_no '^[^`]*<img\|^[^`]*@everyone\|^[^`]*@all'
check 'a link out of the repository is not read' has 'a link that leads out'
no_sarif_of_link() { ! grep -q 'out.npy' "$tmp/out/scan.sarif"; }
check 'SARIF has nothing of it' no_sarif_of_link
check 'SARIF names the files' grep -q '"uri":"evil.pt"' "$tmp/out/scan.sarif"
cp damaged.pt "$tmp"
git rm -q --cached damaged.pt evil.pt out.npy && rm -f damaged.pt evil.pt out.npy && git commit -qm mended
check 'good files pass' exits 0
check 'nothing is printed about good files' test ! -s "$tmp/printed"
mkdir "$tmp/base"
reviews_below() { TMPDIR=$1 review && has '| ~ | `state_dict.fc.bias` | float32 | [10] |'; }
check 'the folder for temporary files may be called base' reviews_below "$tmp/base"
git checkout -q -b moved origin/main && git lfs pull --include good.pt &&
    ckpt edit -q good.pt -o new.pt -e 'set state_dict.fc.weight = 2' &&
    mv new.pt good.pt && git add good.pt && git commit -qm moved && git checkout -q change
ignores_moves() { bash "$top/examples/ci/review.sh" moved "$tmp/out" >/dev/null && has_no '^| ~ |.*fc.weight'; }
check 'what changed in the base since then is not reported' ignores_moves
git checkout -q origin/main
check 'nothing changed' exits 0
check 'nothing changed: it is written' has 'No checkpoint changed.'
refuses_unknown() { ! bash "$top/examples/ci/review.sh" no "$tmp/out" 2>"$tmp/err" && grep 'no commit' "$tmp/err"; }
check 'an unknown commit' refuses_unknown

# make: the second run does nothing, the third replaces what is older
mkdir "$tmp/make" && cd "$tmp/make" || exit 2
cp "$top/examples/ci/rules.mk" Makefile
cp "$top/tests/data/examples/train.pt" model.pt
makes() { make -s model.safetensors checked/model.safetensors >"$tmp/made" 2>&1; }
check 'make converts and checks' makes
check 'make has nothing to do' make -q model.safetensors checked/model.safetensors
touch -d '+1 minute' model.pt
check 'make replaces what is older' makes
cp "$tmp/damaged.pt" model.pt && touch -d '+2 minutes' model.pt
keeps_output() { ! make -s model.safetensors 2>/dev/null && ckpt verify -q model.safetensors; }
check 'make fails, and the output stays' keeps_output

dvc=${DVC:-$(command -v dvc || echo "$top/${B:-build}/oracle-env/bin/dvc")}
if "$dvc" --version >/dev/null 2>&1; then
    mkdir "$tmp/dvc" && cd "$tmp/dvc" || exit 2
    cp "$top/examples/ci/dvc.yaml" . && cp "$top/tests/data/examples/train.pt" model.pt
    dvc_runs() { "$dvc" repro -q && ckpt ls -q model.safetensors >/dev/null; }
    git init -q . && "$dvc" init -q && "$dvc" config core.analytics false
    check 'DVC runs the stages' dvc_runs
    ckpt strip -q --auto model.pt -o other.pt && mv other.pt model.pt
    check 'DVC runs them again' dvc_runs
else
    skip 'no dvc (make oracle-env, or DVC=…)'
fi
summary
