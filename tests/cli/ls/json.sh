# The schema, with ties, storages and parts; every line is one object.
ckpt ls --json corpus/torch/t26/tied.pt corpus/torch/t26/quant_per_channel.pt
ckpt ls --json --values corpus/torch/t26/keys_nonstring.pt
