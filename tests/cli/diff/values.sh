# diff also compares values that are no tensors, in text, Markdown and JSON, and exits 1; --tensors-only ignores them.
printf "(dS'epoch'\nI3\nsS'lr'\nF0.1\nsS'arch'\nS'a|b'\nsS'old'\nNsS'e'\nI1\ns." >a.pkl
printf "(dS'epoch'\nI4\nsS'lr'\nF0.1\nsS'arch'\nVa|b\nsS'new'\n(lsS'e'\nF1\ns." >b.pkl
ckpt diff a.pkl b.pkl; echo $?
ckpt diff --md a.pkl b.pkl
ckpt diff --json a.pkl b.pkl; echo $?
ckpt diff -g lr -g arch a.pkl b.pkl; echo $?
ckpt diff -q a.pkl b.pkl; echo $?
ckpt diff --tensors-only a.pkl b.pkl; echo $?
ckpt diff --tensors-only -g epoch a.pkl b.pkl; echo $?
# values of different types that print alike differ
printf "(dS'o'\nccollections\nOrderedDict\n(tRsS'd'\nccollections\ndeque\n((lI5\ntRs." >c.pkl
printf "(dS'o'\n(dsS'd'\nccollections\ndeque\n((lI6\ntRs." >d.pkl
ckpt diff c.pkl d.pkl
# one file is of a format that cannot hold values
ckpt convert -q data/train.pt w.safetensors
ckpt diff -g '*fc*' --root-a state_dict data/train.pt w.safetensors; echo $?
ckpt diff -g '*nothing' --root auto data/train.pt w.safetensors; echo $?
ckpt diff data/train.pt w.safetensors | tail -n 1
ckpt diff --tensors-only data/train.pt w.safetensors | tail -n 1
ckpt diff --json data/train.pt w.safetensors | grep -o '"values":null}$'
# the same with a file of no tensors: the values are not compared, and a notice reports it
printf '\002\000\000\000\000\000\000\000{}' >none.safetensors
ckpt diff none.safetensors a.pkl; echo $?
# containers of different types differ
printf '(dS"a"\n(lI1\nasS"b"\n(I1\nts.' >lt.pkl
printf '(dS"a"\n(I1\ntsS"b"\n(I1\nts.' >tt.pkl
ckpt diff lt.pkl tt.pkl; echo $?
ckpt diff --json lt.pkl tt.pkl | grep -o '"values":{"only_a".*'
# a class with its source text, which legacy files hold, equals the same class without it
ckpt convert -q corpus/torch/legexp/k_module_pid.pt m.pt 2>/dev/null
ckpt diff corpus/torch/legexp/k_module_pid.pt m.pt; echo $?
ckpt ls --values corpus/torch/legexp/k_module_pid.pt
# bytearrays of protocols 5 and 2 are equal
ckpt convert -q corpus/torch/t26/python_objs_p5.pt p2.pt
ckpt diff corpus/torch/t26/python_objs_p5.pt p2.pt; echo $?
# an array of text is compared as a whole
array()
{
    printf "(dS'a'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\nt"
    printf "cnumpy\ndtype\n(S'U1'\nI0\nI1\ntR(I3\nS'<'\nNNNI4\nI4\nI8\ntbI00\nS'%s\\\\0\\\\0\\\\0'\ntbs." "$1"
}
array a >ta.pkl
array b >tb.pkl
ckpt diff ta.pkl tb.pkl
ckpt diff --json ta.pkl tb.pkl | grep -o '"changed":[^}]*}'
