# No command reads a file that an interrupted edit in place left half changed.
. "$TESTS/interrupt_edit.sh"
# run_all FILE - prints the exit code and the messages of each command that reads FILE
run_all()
{
    for command in 'ls -q' 'ls --json' info show hash 'hash --file-sha256' 'hash --hub-name' stat "diff $1" verify doctor 'doctor --json' \
        'salvage -o o.pt' 'sanitize -o o.pt' 'convert -o o.pt' 'rename -s a=>b -o o.pt' 'strip --auto -o o.pt' \
        'add x. -o o.pt'; do
        messages=$(ckpt $command "$1" 2>&1)
        echo "$command: $? $messages"
    done
}
cp data/train.pt w.pt
interrupt_edit w.pt
run_all w.pt
ls o.pt 2>/dev/null
# scan still reports what loading the file as it is would run, and that this may not be all
ckpt convert -q --root state_dict data/train.pt -o w.safetensors
interrupt_edit w.safetensors
ckpt scan w.safetensors; echo $?
{ ckpt scan --json --sandbox=off w.safetensors; echo $?; } | sed 's/"lists":"[0-9a-f]*"/"lists":""/' # scan/json.sh checks it
# An edit of one shard was interrupted.
ckpt add a.prefix.for.long.headers. -q data/train.pt -o long.pt
mkdir set
ckpt convert -q --root state_dict --max-shard-size 20KB long.pt -o set/model.safetensors
interrupt_edit set/model-00002-of-00003.safetensors strip a.prefix.for.long.headers.
for command in ls verify doctor 'convert -o o.pt'; do
    messages=$(ckpt $command set 2>&1)
    echo "$command: $? $messages"
done
# strip undoes the interrupted edit, and then finds no key with this prefix to remove.
ckpt strip -i --allow-none no.such.prefix. w.pt; echo $?
ckpt scan -q w.pt; echo $?
ckpt salvage w.pt -o o.pt; echo $?
