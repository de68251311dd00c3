# --to=dcp writes a folder for torch.distributed.checkpoint, with the same tensors and values, in --shards files.
dist=corpus/torch/t215/dist
ckpt convert data/train.pt --to=dcp train
ls -A train
ckpt diff data/train.pt train
ckpt convert --json --shards 3 --to=dcp data/train.pt -o three
ckpt diff -q train three && echo the same
ckpt convert --cast bf16 --root state_dict data/train.pt weights.dcp
ckpt ls weights.dcp | head -3
ckpt convert three three.safetensors
ckpt convert three.safetensors --to dcp flat
ckpt diff --root-b '' three.safetensors flat
# Tensors that ranks wrote in several chunks become one chunk each, in one file.
ckpt convert $dist/dcp_dtensor --to=dcp --shards 1 merged
ckpt diff $dist/dcp_dtensor merged
# A dry run prints the same report as the conversion, and writes nothing.
ckpt convert -n data/train.pt --to=dcp nothing
test -e nothing || echo nothing written
