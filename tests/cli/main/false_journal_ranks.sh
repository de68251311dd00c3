# If an edit of one rank's file was interrupted, each command that reads the folder reports it with the command that
# undoes it; a journal that no edit of the file left changes nothing.
. "$TESTS/torn.sh"
mkdir good
cp corpus/torch/t215/dist/fsdp2_rank[01].pt good
chmod u+w good/*
one=set/fsdp2_rank0.pt two=set/fsdp2_rank1.pt
run() { echo "$*: $(ckpt "$@" 2>&1 | head -n 3 | sed "s|$PWD/||")"; }
fresh() { rm -rf set; cp -r good set; echo "== $1"; }
# try - what is read out of the folder, which stays as it is
try()
{
    cp -RP set before
    for command in ls\ -q verify doctor 'salvage -qfo o.pt' 'convert -qfo o.safetensors' 'hash -q'; do
        run $command set
    done
    diff -r before set && echo 'all as it was'
    rm -rf before
}
fresh 'half changed'
torn $one add a.
try
run strip -iq no.such.prefix. $one
run ls -q set
fresh 'half changed, but others may write to the journal'
torn $one add a.
chmod 602 $one.ckpt-undo
try
fresh 'intact, next to the journal of another file'
torn $one add a.
cat good/fsdp2_rank0.pt >$one
mv $one.ckpt-undo $two.ckpt-undo
try
fresh 'intact, next to a journal that would change a tensor'
cp $two .was
printf '\001\002' | put .was 1500
cp $two .new
printf '\377\376' | put .new 2500
journal $two .was .new 1400:1200
try
for make in mkdir mkfifo 'ln -s ../good/fsdp2_rank0.pt'; do
    fresh "no regular file: ${make%% *}"
    $make $two.ckpt-undo
    ckpt ls set | wc -l
done
