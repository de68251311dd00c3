# What is no tensor is compared, too: text, Markdown, JSON, exit 1; --tensors-only leaves it out.
printf "(dS'epoch'\nI3\nsS'lr'\nF0.1\nsS'arch'\nS'a|b'\nsS'old'\nNsS'e'\nI1\ns." >a.pkl
printf "(dS'epoch'\nI4\nsS'lr'\nF0.1\nsS'arch'\nVa|b\nsS'new'\n(lsS'e'\nF1\ns." >b.pkl
ckpt diff a.pkl b.pkl; echo $?
ckpt diff --md a.pkl b.pkl
ckpt diff --json a.pkl b.pkl; echo $?
ckpt diff -g lr -g arch a.pkl b.pkl; echo $?
ckpt diff -q a.pkl b.pkl; echo $?
ckpt diff --tensors-only a.pkl b.pkl; echo $?
ckpt diff --tensors-only -g epoch a.pkl b.pkl; echo $?
# looks the same
printf "(dS'o'\nccollections\nOrderedDict\n(tRsS'd'\nccollections\ndeque\n((lI5\ntRs." >c.pkl
printf "(dS'o'\n(dsS'd'\nccollections\ndeque\n((lI6\ntRs." >d.pkl
ckpt diff c.pkl d.pkl
# one side holds none
ckpt convert -q data/train.pt w.safetensors
ckpt diff -g '*fc*' --root-a state_dict data/train.pt w.safetensors; echo $?
ckpt diff -g '*nothing' --root auto data/train.pt w.safetensors; echo $?
ckpt diff data/train.pt w.safetensors | tail -n 1
ckpt diff --tensors-only data/train.pt w.safetensors | tail -n 1
ckpt diff --json data/train.pt w.safetensors | grep -o '"values":null}$'
