# show prints the edges of each dimension of a large tensor; --full prints all of it, and --json always does.
ckpt show data/train.pt state_dict.module.conv2.weight
ckpt show --full data/train.pt "state_dict.module.conv2.weight[0]" | wc -l
ckpt show --json data/train.pt state_dict.module.conv2.weight | tr , "\n" | wc -l
