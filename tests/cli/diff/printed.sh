# diff --keys-only takes what Python and torch print of a model's names and shapes, and the error of load_state_dict.
ckpt convert -q --root=state_dict data/train.pt w.safetensors
ckpt strip -q module. w.safetensors -o s.safetensors
ckpt add -q net. s.safetensors -o n.safetensors
section()
{
    sed -n "/^== $1\$/,/^== /{/^== /!p;}" data/printed.txt
}
sed -n 's/^== //p' data/printed.txt | grep -v '^error' >titles.txt
while read -r title; do
    section "$title" >keys.txt
    echo "$title: $(ckpt diff --keys-only w.safetensors keys.txt)"
    # each shape is read: a changed one differs
    sed 's/\[16, 3, 3, 3\]/[16, 3, 3, 4]/; s/(16, 3, 3, 3)/(16, 3, 3, 4)/' keys.txt >other.txt
    cmp -s keys.txt other.txt || ckpt diff --keys-only other.txt w.safetensors
done <titles.txt
# the hint of each error is the command that makes the file one that the network takes
section 'error: whole' >error.txt
ckpt diff --keys-only data/train.pt error.txt | tail -n 1
section 'error: prefix' >error.txt
ckpt diff --keys-only w.safetensors error.txt | tail -n 1
ckpt diff --keys-only --root=auto data/train.pt error.txt | tail -n 1
ckpt diff --keys-only --ignore-prefix=module. w.safetensors error.txt
section 'error: other' >error.txt
ckpt diff --keys-only n.safetensors error.txt; echo $?
section 'error: shape' >error.txt
ckpt diff --keys-only error.txt s.safetensors; echo $?
# another file than the one that was loaded is refused
ckpt diff --keys-only n.safetensors error.txt; echo $?
section 'error: prefix' | ckpt diff --keys-only - s.safetensors; echo $?
ckpt diff --keys-only error.txt error.txt; echo $?
section 'error: not strict' >error.txt
ckpt diff --keys-only w.safetensors error.txt; echo $?
printf "_IncompatibleKeys(missing_keys=[], unexpected_keys=['module.fc.bias'])" | ckpt diff --keys-only - w.safetensors; echo $?
# what may be another thing than a name is none: a number, a word before the name, a shape without a name
for text in '0 108' '0 True' 'param a.weight torch.Size([1])' 'torch.Size([1])' '0 a.weight\n2 a.bias' \
    '5 a.weight' '0 a.weight\na.bias' 'a.bias\n1 a.weight' "{'epoch': 3, 'state_dict': {'a': tensor([1.])}}" \
    "{'a': tensor([1., 2.}" 'a tensor([1.,\nb tensor([2.])' "[(0, 'a.weight')]" 'Parameter containing:\ntensor([1.])'; do
    printf "$text\n" | ckpt diff --keys-only - s.safetensors 2>/dev/null && echo "$text"
    echo $?
done
# a list that ends early, a dict that is no list of names, a shape that is none
for text in "['a.weight', 'b" "['a.weight'" "{'a.weight': 1}" "odict_keys(['a.weight'])]" "a.weight [1, 2" \
    "[[[[[[[[['a']]]]]]]]]" "['']" "['a\\x07']" '{"format": "pt", "a": [1]}' 'Missing key(s) in state_dict: ' \
    'size mismatch for a: copying a param with shape torch.Size([1]) from checkpoint.'; do
    printf '%s\n' "$text" | ckpt diff --keys-only - s.safetensors 2>/dev/null && echo "$text"
    echo $?
done
# names with escapes, and those that only quotes allow
printf '%s\n' '["it'"'"'s", "a b", '"'a\\\\b', 'c\\'d']" >odd.txt
printf 'name\nit'"'"'s\n' | ckpt diff --keys-only odd.txt -
