# If an edit of one rank's file was interrupted, each command that reads the folder reports this and the command that
# undoes the edit; a journal that does not come from an edit of the file changes nothing.
. "$TESTS/interrupt_edit.sh"
mkdir good
cp corpus/torch/t215/dist/fsdp2_rank[01].pt good
chmod u+w good/*
one=set/fsdp2_rank0.pt two=set/fsdp2_rank1.pt
run() { echo "$*: $(ckpt "$@" 2>&1 | head -n 3 | sed "s|$PWD/||")"; }
begin_case() { rm -rf set; cp -r good set; echo "== $1"; }
# check_unused - prints what commands read from the folder, which must stay as it is
check_unused()
{
    cp -RP set before
    for command in ls\ -q verify doctor 'salvage -qfo o.pt' 'convert -qfo o.safetensors' 'hash -q'; do
        run $command set
    done
    diff -r before set && echo 'all as it was'
    rm -rf before
}
begin_case 'half changed'
interrupt_edit $one add a.
check_unused
run strip -iq --allow-none no.such.prefix. $one
run ls -q set
begin_case 'half changed, but others may write to the journal'
interrupt_edit $one add a.
chmod 602 $one.ckpt-undo
check_unused
begin_case 'intact, next to the journal of another file'
interrupt_edit $one add a.
cat good/fsdp2_rank0.pt >$one
mv $one.ckpt-undo $two.ckpt-undo
check_unused
begin_case 'intact, next to a journal that would change a tensor'
cp $two .was
printf '\001\002' | overwrite .was 1500
cp $two .new
printf '\377\376' | overwrite .new 2500
make_journal $two .was .new 1400:1200
check_unused
for make in mkdir mkfifo 'ln -s ../good/fsdp2_rank0.pt'; do
    begin_case "no regular file: ${make%% *}"
    $make $two.ckpt-undo
    ckpt ls set | wc -l
done
