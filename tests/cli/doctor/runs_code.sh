# A pickle that runs a command is never reported as healthy, whatever else it holds.
printf 'cos\nsystem\n(S"id"\ntR.' >evil.pkl
printf 'cposix\nsystem\n(S"id"\ntR0}.' >hidden.pkl
ckpt doctor evil.pkl hidden.pkl
ckpt doctor corpus/torch/t215/numpy.pt corpus/torch/t215/state_dict.pt
