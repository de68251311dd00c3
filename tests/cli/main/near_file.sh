# If a file does not exist, the error suggests the nearest name in its folder, if there is one.
mkdir sub many
cp data/train.pt model.pt
cp data/train.pt sub/model.safetensors
cp data/train.pt "sub/two words.pt"
for file in modle.pt model.pth mode.pt Model.pt m.pt x.pt sub/model.safetensor 'sub/two word.pt' missing/model.pt sub/; do
    ckpt ls "$file" 2>&1
done
ckpt ls --json modl.pt 2>&1
ckpt diff model.pt modell.pt 2>&1
ckpt strip --auto modl.pt -o out.pt 2>&1
# in a folder with too many names none is suggested
i=0
while [ $i -lt 300 ]; do : >many/step-$i.pt; i=$((i + 1)); done
ckpt info many/step-77.p 2>&1
# a glob is for -g, if the command has it
for command in 'ls model.pt' 'diff model.pt' info; do ckpt $command 'it*s' 2>&1 >/dev/null; done
for glob in 'model?pt' "it's [ab]"; do ckpt ls "$glob" 2>&1; done
: >'a*'; ckpt ls 'a*' 2>&1
# not a file: the name of a tensor, an address
ckpt ls data/train.pt fc.weight 2>&1 | tail -n 2
ckpt info fc.weight 2>&1
for url in 'ftp://example.org/a b.pt' gs://bucket/model.pt; do ckpt scan "$url" 2>&1; done
