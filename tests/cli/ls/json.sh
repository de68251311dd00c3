# ls --json prints an object on each line, with ties, storages and components, as its schema describes.
ckpt ls --json corpus/torch/t26/tied.pt corpus/torch/t26/quant_per_channel.pt
ckpt ls --json --values corpus/torch/t26/keys_nonstring.pt
