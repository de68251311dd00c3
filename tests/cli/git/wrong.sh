# What git setup refuses, without changing anything.
command -v git >/dev/null || { echo 'no git'; exit 77; }
export GIT_CONFIG_NOSYSTEM=1 HOME="$PWD" GIT_CEILING_DIRECTORIES="$PWD"
ckpt git
ckpt git set-up
ckpt git setup --local --global
ckpt git setup --check --remove
ckpt git setup --remove '*.pt'
ckpt git setup 'a b'
mkdir none && cd none && ckpt git setup 2>&1 | grep -v '^fatal'
cd ..
git init -q repository && cd repository || exit
mkdir .gitattributes && ckpt git setup 2>&1 | sed "s|$PWD|TOP|g"
rmdir .gitattributes && head -c 2000000 /dev/zero | tr '\0' a >.gitattributes
ckpt git setup 2>&1 | sed "s|$PWD|TOP|g"
rm .gitattributes && printf '[diff "ckpt"\n' >>.git/config
ckpt git setup 2>/dev/null
echo "exit code $?"
ls -A
env -u HOME -u XDG_CONFIG_HOME "$(command -v ckpt)" git setup --global
PATH=$(dirname "$(command -v ckpt)") && ckpt git setup
