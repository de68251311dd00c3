# diff --keys-only compares a checkpoint with a list of names, as Python or `ckpt ls` prints it, also from a pipe.
ckpt convert -q data/train.pt w.safetensors
ckpt ls --tsv w.safetensors | cut -f1 >keys.txt
ckpt diff --keys-only w.safetensors keys.txt; echo $?
ckpt ls w.safetensors >ls.txt
ckpt diff --keys-only ls.txt w.safetensors; echo $?
ckpt ls --tsv w.safetensors | ckpt diff --keys-only w.safetensors -; echo $?
{ printf 'extra.weight\r\n\r\n'; grep -v bn1 keys.txt; } >other.txt
ckpt diff --keys-only w.safetensors other.txt; echo $?
ckpt diff --keys-only --json --root=state_dict data/train.pt other.txt; echo $?
ckpt diff --keys-only keys.txt other.txt; echo $?
# a list of names is recognized even if it could be the beginning of a pickle
printf 'conv.weight\nconv.bias\n' >conv.txt
ckpt diff --keys-only conv.txt conv.txt; echo $?
# without --keys-only a list is refused; with it, text that is no list of names is
ckpt diff w.safetensors keys.txt; echo $?
printf '{"conv.weight": 1}\n' >keys.json
ckpt diff --keys-only w.safetensors keys.json; echo $?
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 0 >lfs.pt
ckpt diff --keys-only w.safetensors lfs.pt; echo $?
: >empty.txt
ckpt diff --keys-only w.safetensors empty.txt; echo $?
ckpt diff --keys-only w.safetensors missing.txt; echo $?
# two lists of names: there is no file whose names a command could change
printf 'a.x\nb.x\n' >plain.txt; printf 'module.a.x\nmodule.b.x\n' >wrapped.txt
ckpt diff --keys-only plain.txt wrapped.txt
