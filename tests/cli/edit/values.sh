# `set` of a number, text, bool or None: in a dict, list, tuple, or attribute of an object, and of all elements of a
# tensor.
. "$TESTS/edit_input.sh"
make_layers
edit() { ckpt edit -f --no-sync -o out.pt "$@"; }
edit data/train.pt -e 'set epoch = 4 ; set arch = "a, b"' -e 'set best_acc1 = none' -e 'set optimizer.param_groups.*.lr = 1e-4' \
    -e 'set note = true' -e 'set scheduler.base_lrs.0 = $n' -e "set optimizer.extra = 'q\"'" -D n=7
ckpt edit -q -f --no-sync data/train.pt -o out.pt -e 'set epoch = 4' -e 'set arch = "a, b"' -e 'set best_acc1 = none' \
    -e 'set optimizer.param_groups.*.lr = 1e-4' -e 'set note = -inf' -e 'set scheduler.base_lrs.0 = $n' \
    -e "set optimizer.extra = 'q\"'" -e 'set optimizer.big = 18446744073709551615' -D n=7
ckpt diff data/train.pt out.pt
ckpt edit data/train.pt -n --json -e 'set epoch = 0.5' -e 'set new = none' -e 'set *.num_batches_tracked = 9' | tr '{' '\n' | tail -n +4
# two lists are one list, two tuples one tuple
printf '(dp0\nVa\np1\n(lp2\nI1\nasVb\np3\ng2\nsVt\np4\n(I1\nI2\ntp5\nsVu\np6\n(dp7\nVt\ng5\nss.' >shared.pkl
edit shared.pkl -e 'set a.0 = 2'
edit -q shared.pkl -e 'set "[ab].0" = 2' -e 'set t.0 = 5' -e 'set u.t.1 = 6' && ckpt show out.pt
# tensors: ties stay, a cast before has no effect, and without a fit nothing is written
ckpt edit -q -f --no-sync layers.safetensors -o out.safetensors -e 'keep cube, s' -e 'set cube = 65' -e 'set s = 66' && letters out.safetensors
edit -q data/train.pt -e 'cast *.fc.bias f16' -e 'set *.fc.bias = 0.1' -e 'set *.fc.weight = inf' && ckpt show out.pt 'state_dict.module.fc.bias[:2]'
while IFS= read -r rule; do
    echo "# $rule" >&2
    edit -q data/train.pt -e "$rule"
done <<'END'
set optimizer = 0
set optimzer.lr = 1
set optimizer.param_groups.0 = 1
set nothing.at.all = 1
set scheduler.base_lrs.1 = 1
set epoch = four
set epoch = [1]
set epoch = 18446744073709551616
set epoch = 1e999
set epoch = data/train.pt:state_dict.module.fc.bias
set no.*.such = 1
set *.num_batches_tracked = 0.5
set *.fc.bias = "0"
set *.fc.bias = 1e39
set state_dict.x = nothing.npy
transpose state_dict.module.fc.weight -> epoch
set
END
ckpt edit -n layers.safetensors -e 'set x = 1'
ckpt edit -n layers.safetensors -e 'set x = "one.safetensors"'
edit data/train.pt -e 'set? none = 1' -e 'set? *.such = 1' -e 'set? x = none.npy'
# what a new tensor would be called is a value already
ckpt edit -q -f --no-sync data/train.pt --root optimizer.state -o out.pt -e 'set 0.x = 1' -e 'transpose *.0.momentum_buffer dims 0 1 -> 0.x'
ckpt edit -q -f --no-sync data/train.pt --root optimizer.state -o out.pt -e 'set 0.x = 1' -e 'transpose 0.momentum_buffer dims 0 1 -> 0.x'
# an output that holds tensors only has no place for the value
for out in no.safetensors no.npz no.msgpack no.gguf 'shards/ --max-shard-size 1000' 'shards/ --max-shard-size 1000 --to torch-zip' \
    'no.safetensors -n'; do
    ckpt edit -q --no-sync data/train.pt --root auto -e 'set epoch = 4' -o $out || echo "exit $?"
done
ls | grep '^no\|^shards'
ckpt edit -q --no-sync data/train.pt -o no.safetensors -e 'set? nothing = 4' && ls no.safetensors
