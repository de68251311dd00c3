# --write-manifest lists the tensors; --manifest compares that list with a file of any format and names what differs.
ckpt verify -q --root auto --write-manifest m.txt data/train.pt
head -n 4 m.txt
ckpt convert -q --root state_dict data/train.pt s.safetensors
ckpt verify --manifest m.txt s.safetensors
ckpt verify -q --manifest m.txt --root state_dict data/train.pt
ckpt verify -q --write-manifest x.txt --xxh3 s.safetensors
ckpt verify --manifest x.txt s.safetensors
# a tensor has other bytes; another is renamed, too; one has a different dtype, and one is not in the manifest
printf X | dd of=s.safetensors bs=1 seek=22000 conv=notrunc 2>/dev/null
ckpt verify --manifest m.txt s.safetensors
ckpt rename -q -s 'fc.bias=>fc.b' s.safetensors -o r.safetensors
ckpt verify -q --manifest x.txt r.safetensors
sed '/conv1/s/float32/float16/; /fc.bias/d' m.txt >other.txt
ckpt verify --manifest other.txt --root state_dict data/train.pt
# names below a root are found
ckpt verify --manifest m.txt data/train.pt | tail -n 1
# ties that a conversion dropped are still found
ckpt verify -q --write-manifest tied.txt corpus/torch/t26/tied.pt
ckpt convert -q corpus/torch/t26/tied.pt tied.safetensors
ckpt verify --manifest tied.txt tied.safetensors
# "-" stands for a tensor without bytes, but the tensor in the file has bytes
printf -- '-  float32 [3]  a' >dash.txt
printf '\067\000\000\000\000\000\000\000{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}123412341234' >d.safetensors
ckpt verify --manifest dash.txt d.safetensors
