# Weights, wrapper and its fix, optimizer, values, verdict of weights_only.
ckpt info data/train.pt
