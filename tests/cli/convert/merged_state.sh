# The _metadata of a state dict comes after its last tensor, as torch writes it, also if the tensors are of several files:
# what is added to a mapping after BUILD could be anything, and scan reports it.
ckpt convert -q --root state_dict data/train.pt -o a.bin
ckpt add -q other. a.bin -o b.bin
ckpt convert -q --max-shard-size 8kB a.bin set/; ls set
ckpt convert -q set joined.pt
ckpt rename -q -s 'fc=>head' set -o renamed.pt
ckpt convert -q a.bin b.bin -o merged.pt
ckpt scan joined.pt renamed.pt merged.pt
ckpt diff a.bin joined.pt
for f in joined renamed merged; do ckpt show $f.pt | head -n 1; done
