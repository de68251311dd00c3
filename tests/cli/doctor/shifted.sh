# If a file has bytes too many and no checksums, its data may be shifted: doctor prints that before any command.
ckpt convert -q --root auto data/train.pt whole.safetensors
size=$(wc -c <whole.safetensors)
# a download that was resumed 100 bytes too early
head -c 9000 whole.safetensors >resumed.safetensors
tail -c $((size - 8900)) whole.safetensors >>resumed.safetensors
ckpt doctor resumed.safetensors
ckpt doctor --json resumed.safetensors
ckpt doctor corpus/torch/legexp/d_trailing_junk.pt
echo '# a checksum proves that nothing is shifted'
ckpt doctor corpus/torch/exp/28_trailing_junk.pt
echo '# and nothing can be salvaged'
ckpt doctor corpus/vectors/safetensors/overlap.st
