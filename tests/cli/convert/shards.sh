# Hugging Face names and an index; read back as one.
ckpt convert --max-shard-size 10kB data/train.pt model.safetensors
ls
ckpt diff --root auto data/train.pt model.safetensors.index.json
for s in 5G 0 10XB -1 1.5GB; do ckpt convert --max-shard-size $s data/train.pt x.safetensors; echo $?; done
# Several files do not go through one pipe.
ckpt convert --max-shard-size 1MB data/train.pt - --to safetensors; echo $?
# A set in the place of another: what only the old one had is gone, a stranger's file is not.
touch model-00001-of-00099.safetensors
ckpt convert -f -q --max-shard-size 20kB data/train.pt model.safetensors
ls
ckpt diff --root auto data/train.pt model.safetensors.index.json
