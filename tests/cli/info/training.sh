# info shows weights, wrapper prefix and its fix, optimizer, values, and whether weights_only loads the file.
ckpt info data/train.pt
