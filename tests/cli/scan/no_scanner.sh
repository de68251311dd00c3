# a format that is read and not scanned is called by its name
ckpt scan corpus/mxnet/named.params
