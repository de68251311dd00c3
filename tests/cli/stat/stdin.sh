# Standard input, and a file that cannot be read among others.
cat corpus/torch/t215/zero_dim.pt | ckpt stat -
ckpt stat nowhere.pt corpus/torch/t215/zero_dim.pt; echo $?
