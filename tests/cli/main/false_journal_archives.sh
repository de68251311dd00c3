# No command uses an undo journal next to an archive that is never edited in place (npz, tar, legacy streams, a zip
# around a checkpoint), or in an archive, and no hint suggests one that would.
. "$TESTS/torn.sh"
run() { echo "$*: $(ckpt "$@" 2>&1 | head -n 3 | sed "s|$PWD/||")"; }
# half FILE AT N - a journal of FILE that would change N bytes at AT; of its sectors, one is as the edit was to make it
half()
{
    cp "$1" .was
    printf 'EVIL' | put .was "$2"
    cp "$1" .new
    printf '\377\376' | put .new $(($2 + $3 - 2))
    journal "$1" .was .new "$2:$3"
    rm -f .was .new
}
# try FILE - what is said of it, and whether its bytes stay
try()
{
    echo "== $1"
    cp "$1" .good
    run ls -q "$1"
    run verify "$1"
    run doctor "$1"
    run scan "$1"
    run strip -iq --auto "$1"
    cmp .good "$1"
    [ -e "$1.ckpt-undo" ] || echo 'the journal is gone'
}
ckpt convert -q --root state_dict data/train.pt -o a.npz
cp corpus/torch/t10/state_dict.pt legacy.pt
cp corpus/torch/legexp/t_tar.pt tar.pt
chmod u+w legacy.pt tar.pt
for f in a.npz legacy.pt tar.pt; do
    half $f 600 1400
    try $f
done
# An archive holds a half changed checkpoint and its journal, which is not used there.
cp data/train.pt w.pt
chmod u+w w.pt
torn w.pt
tar -cf both.tar w.pt w.pt.ckpt-undo
half both.tar 1024 1000
try both.tar
rm both.tar.ckpt-undo
run scan both.tar
