# --root means the same in ls, hash, stat, diff, verify, convert and strip; -g then matches the names below the root.
root=state_dict.module.fc
ckpt ls --root $root data/train.pt
ckpt ls --root state_dict -g 'module.fc*' data/train.pt
ckpt ls --root auto --values -g '*fc*' data/train.pt
ckpt ls --json --root $root -g weight data/train.pt | grep -o '"name":"weight","path":\["weight"\]'
ckpt stat --tsv --root $root data/train.pt | cut -f 1
ckpt hash --root $root data/train.pt | cut -d ' ' -f 2-
ckpt convert -q --root $root data/train.pt fc.safetensors
[ "$(ckpt hash -t --root $root data/train.pt | cut -c 1-64)" = "$(ckpt hash -t fc.safetensors | cut -c 1-64)" ] && echo same
ckpt diff --root $root data/train.pt fc.safetensors
ckpt hash -g '*fc.bias' data/train.pt | cut -d ' ' -f 2-
ckpt hash -g nothing data/train.pt; echo $?
ckpt verify --root $root --write-manifest m.txt data/train.pt; cut -d ' ' -f 3- m.txt | tail -n 2
ckpt verify --manifest m.txt fc.safetensors
ckpt verify --finite -g '*fc*' data/train.pt
for command in ls hash stat verify; do ckpt $command --root nowhere data/train.pt; echo $?; done
echo -- containers and a common prefix of the same name: the containers
. "$TESTS/legacy.sh"
write_legacy both.pt "}Va
}Vx
$(print_tensor 0)ssVa.y
$(print_tensor 1)sVa.lr
I3
sVb
}sVb.z
$(print_tensor 2)s"
ckpt ls both.pt
for root in a b; do
    ckpt ls --values --root $root both.pt
    ckpt stat --tsv --root $root both.pt | cut -f 1
    ckpt convert -q --root $root both.pt $root.safetensors; ckpt ls $root.safetensors
    ckpt diff --root $root both.pt $root.safetensors
    ckpt strip -q --allow-none none --root $root both.pt -o $root.pt; ckpt ls $root.pt
done
