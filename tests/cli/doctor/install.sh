# --install: which program `ckpt` is in PATH. Others are named, and never run.
real=$(readlink -f "$CKPT") here=$PWD
mkdir other first none
for folder in other first; do
    printf '#!/bin/sh\ntouch "%s/it-was-run"\n' "$here" >$folder/ckpt
    chmod +x $folder/ckpt
done
touch none/ckpt # no program
ln -s "$real" linked
mkdir -p link && ln -s "$real" link/ckpt
examine() { PATH=$1 "$real" doctor --install ${2:-} 2>&1 | sed "s|$real|THIS|g; s|${real%/*}|FOLDER|g; s|$here|HERE|g"; }
examine "$here/none:$here/link:/nowhere"
examine "$here/link:$here/other:$here/first"
examine "$here/link:$here/other" -q
examine "$here/first:$here/link:$here/other"
examine "$here/first:$here/link" -q
examine "$here/none"
examine "$here/link:$here/other" --json
examine "$here/first" --json
(cd first && PATH=: "$real" doctor --install -q | sed "s|$real|THIS|; s|${real%/*}|FOLDER|g")
PATH=$here/first "$real" doctor --install >/dev/null
echo "exit $?"
PATH=$here/link "$real" doctor --install >/dev/null
echo "exit $?"
ckpt doctor --install linked
ls it-was-run 2>/dev/null
exit 0
