# git setup is idempotent, replaces diff=lfs, keeps other drivers, and is undone by --remove.
command -v git >/dev/null || { echo 'no git'; exit 77; }
export GIT_CONFIG_NOSYSTEM=1 HOME="$PWD"
git init -q repository && cd repository || exit
folder=$(git rev-parse --show-toplevel)
setup() { ckpt git setup "$@" 2>&1 | sed "s|$folder|TOP|g; s|$HOME|HOME|g"; }
printf '*.pt filter=lfs diff=lfs merge=lfs -text\n*.h5 -diff\n# diff=ckpt\n*.gguf text\r\n"a b" diff=ckpt\nlast' >.gitattributes
cp .gitattributes before
ckpt git setup --check >/dev/null 2>&1
echo "check: $?"
cmp .gitattributes before
setup
cat .gitattributes
git config --local --get-regexp '^diff'
printf '\n# again\n'
setup -q '*.pt'
setup '*.pt' '*.x'
setup --json '*.x'
ckpt git setup --check -q '*.x'
echo "check: $?"
mkdir -p sub/folder && cd sub/folder && setup --check '*.x' && cd ../..
git check-attr diff -- a/b.pt a.h5 b.gguf c.x d.txt
printf '\n# without\n'
setup --remove
setup --remove
cat .gitattributes
git config --local --get-regexp '^diff'
printf '\n# all repositories\n'
setup --global '*.pt'
cat ../.config/git/attributes
git config --global core.attributesFile '~/mine' && ln -s real ../mine && : >../real && chmod 600 ../real
setup --global -q '*.npz'
cat ../real
ls -l ../real ../mine | cut -c 1-10
