# scan reports a file of a format that ckpt reads but does not scan as incomplete, and names the format.
ckpt scan corpus/mxnet/named.params
