# No command reads a file that an interrupted edit in place left half changed.
. "$TESTS/interrupt_edit.sh"
each() # each FILE
{
    for command in 'ls -q' 'ls --json' info show hash 'hash --file-sha256' 'hash --hub-name' stat "diff $1" verify doctor 'doctor --json' \
        'salvage -o o.pt' 'sanitize -o o.pt' 'convert -o o.pt' 'rename -s a=>b -o o.pt' 'strip --auto -o o.pt' \
        'add x. -o o.pt'; do
        said=$(ckpt $command "$1" 2>&1)
        echo "$command: $? $said"
    done
}
cp data/train.pt w.pt
interrupt_edit w.pt
each w.pt
ls o.pt 2>/dev/null
# scan still reports what loading the file as it is would run, and that this may not be all
ckpt convert -q --root state_dict data/train.pt -o w.safetensors
interrupt_edit w.safetensors
ckpt scan w.safetensors; echo $?
{ ckpt scan --json --sandbox=off w.safetensors; echo $?; } | sed 's/"lists":"[0-9a-f]*"/"lists":""/' # scan/json.sh has it
# a shard
ckpt add a.prefix.for.long.headers. -q data/train.pt -o long.pt
mkdir set
ckpt convert -q --root state_dict --max-shard-size 20KB long.pt -o set/model.safetensors
interrupt_edit set/model-00002-of-00003.safetensors strip a.prefix.for.long.headers.
for command in ls verify doctor 'convert -o o.pt'; do
    said=$(ckpt $command set 2>&1)
    echo "$command: $? $said"
done
# the edit is undone, and nothing else happens
ckpt strip -i no.such.prefix. w.pt; echo $?
ckpt scan -q w.pt; echo $?
ckpt salvage w.pt -o o.pt; echo $?
