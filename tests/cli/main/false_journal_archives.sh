# No command uses an undo journal next to an archive that is never edited in place (npz, tar, legacy streams, a zip
# around a checkpoint), or in an archive, and no hint suggests a command that would.
. "$TESTS/interrupt_edit.sh"
run() { echo "$*: $(ckpt "$@" 2>&1 | head -n 3 | sed "s|$PWD/||")"; }
# make_false_journal FILE OFFSET SIZE - writes a journal of FILE that would restore different bytes at OFFSET. By the
# journal, FILE is half changed: one sector of that range already has the bytes that the edit was to write.
make_false_journal()
{
    cp "$1" .was
    printf 'EVIL' | overwrite .was "$2"
    cp "$1" .new
    printf '\377\376' | overwrite .new $(($2 + $3 - 2))
    make_journal "$1" .was .new "$2:$3"
    rm -f .was .new
}
# check_unused FILE - prints what commands report about FILE, and whether its bytes stay
check_unused()
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
    make_false_journal $f 600 1400
    check_unused $f
done
# An archive holds a half changed checkpoint and its journal, which is not used there.
cp data/train.pt w.pt
chmod u+w w.pt
interrupt_edit w.pt
tar -cf both.tar w.pt w.pt.ckpt-undo
make_false_journal both.tar 1024 1000
check_unused both.tar
rm both.tar.ckpt-undo
run scan both.tar
