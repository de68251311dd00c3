# A page, not a book: edges of each dimension; --full shows all; --json is never cut.
ckpt show data/train.pt state_dict.module.conv2.weight
ckpt show --full data/train.pt "state_dict.module.conv2.weight[0]" | wc -l
ckpt show --json data/train.pt state_dict.module.conv2.weight | tr , "\n" | wc -l
