# A format that ckpt reads but does not scan is reported as incomplete, with its name.
ckpt scan corpus/mxnet/named.params
