# An undo journal that does not come from an edit in place is reported also if it is next to a file of a set. No command
# restores anything from it, and no hint suggests a command that would.
. "$TESTS/interrupt_edit.sh"
prefix=a.prefix.for.long.headers.
ckpt add $prefix -q data/train.pt -o long.pt
mkdir good
ckpt convert -q --root state_dict --max-shard-size 20KB long.pt -o good/model.safetensors
one=set/model-00001-of-00003.safetensors two=set/model-00002-of-00003.safetensors
begin_case() { rm -rf set; cp -r good set; echo "== $1"; }
run() { echo "$*: $(ckpt "$@" 2>&1 | head -n 3 | sed "s|$PWD/||")"; }
# check_unused FILE… - prints what commands report about the set and about each FILE, whose bytes must stay as they
# are
check_unused()
{
    cp -RP set before
    for command in ls\ -q verify doctor; do
        run $command set
    done
    run strip -iq $prefix set
    for file; do
        for command in ls\ -q 'salvage -fqo o.pt' 'hash --file-sha256' scan "strip -iq $prefix"; do
            run $command "$file"
        done
    done
    diff -r before set && echo 'all as it was'
    rm -rf before
}
# make_false_journal OLD FILE RANGE - writes a journal of FILE that would restore OLD. By the journal, FILE is half
# changed: the first sector that differs from OLD has the new bytes, and the last sector does not have them yet.
make_false_journal()
{
    cp "$2" .new
    printf '\377\376' | overwrite .new $((${3%:*} + ${3#*:} - 2))
    make_journal "$2" "$1" .new "$3"
    rm -f .new
}
header=$(number_at good/model-00002-of-00003.safetensors 0 8)
begin_case 'the length of the header of a shard'
cp $two .was
printf '\001\001' | overwrite .was 0
make_false_journal .was $two "0:$((header + 8))"
check_unused $two
begin_case 'the index'
cp set/model.safetensors.index.json .was
printf x | overwrite .was 1
make_false_journal .was set/model.safetensors.index.json 0:600
run ls -q set; run strip -iq $prefix set/model.safetensors.index.json
cmp good/model.safetensors.index.json set/model.safetensors.index.json
begin_case 'the journal of one shard next to another'
interrupt_edit $one strip $prefix
cat good/model-00001-of-00003.safetensors >$one
mv $one.ckpt-undo $two.ckpt-undo
check_unused $two
begin_case 'the shard was replaced, its journal was not'
interrupt_edit $two strip $prefix
ckpt add -q other. good/model-00002-of-00003.safetensors -o x
mv x $two
check_unused $two
begin_case 'half changed, and others may write to the journal'
interrupt_edit $two strip $prefix
chmod 620 $two.ckpt-undo
check_unused $two
begin_case 'the journals of two shards, swapped'
interrupt_edit $one strip $prefix
interrupt_edit $two strip $prefix
mv $one.ckpt-undo x
mv $two.ckpt-undo $one.ckpt-undo
mv x $two.ckpt-undo
check_unused
begin_case 'two at once: each is undone, then the set is read'
interrupt_edit $one strip $prefix
interrupt_edit $two strip $prefix
run ls -q set
ckpt strip -iq --allow-none no.such.prefix. $one
run ls -q set
ckpt strip -iq --allow-none no.such.prefix. $two
ckpt ls set | wc -l
diff -r good set
begin_case 'an old journal, put back after a complete edit'
interrupt_edit $two strip $prefix
cp $two.ckpt-undo kept
ckpt strip -iq --allow-none no.such.prefix. $two
mv set/model.safetensors.index.json . # with its index, a shard is not renamed alone
ckpt strip -iq $prefix $two
mv model.safetensors.index.json set
mv kept $two.ckpt-undo
run ls -q $two; run strip -iq --allow-none no.such.prefix. $two
ckpt ls -g '*bn2.bias' $two; ls set/*undo 2>/dev/null
begin_case 'a shard that is a link: the journal of the file is used, a journal of the link is not'
mkdir set/blobs
mv $two set/blobs/two
ln -s blobs/two $two
interrupt_edit set/blobs/two strip $prefix
run ls -q set; run strip -i --allow-none no.such.prefix. $two; run strip -i --follow-links --allow-none no.such.prefix. $two
interrupt_edit set/blobs/two strip $prefix
mv set/blobs/two.ckpt-undo $two.ckpt-undo
cat good/model-00002-of-00003.safetensors >set/blobs/two
ckpt ls set | wc -l
rm set/blobs/two $two $two.ckpt-undo
cp good/model-00002-of-00003.safetensors $two
ln $two set/other
make_false_journal $two $two "8:$header"
run ls -q set | head -n 2; run strip -iq --allow-none no.such.prefix. $two; ls set/*undo
begin_case 'no regular file'
for make in mkdir mkfifo 'ln -s ../good/model-00001-of-00003.safetensors'; do
    $make $two.ckpt-undo
    ckpt ls set | wc -l
    run strip -iq $prefix $two
    rm -rf $two.ckpt-undo
done
