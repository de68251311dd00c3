# several files: each fix has an output of its own; and a set of shards without an index, with a note
cp data/train.pt a.pt; cp data/train.pt b.pt; : >fixed.pt
ckpt doctor a.pt b.pt | grep 'fix:'
ckpt info a.pt b.pt | grep 'fix:'
mkdir bare; cp corpus/torch/t215/eco/hub_safetensors_sharded/*-of-* bare
ckpt doctor bare; ckpt doctor corpus/torch/t215/eco/hub_safetensors_sharded
