# bash completes names of tensors and values in the files on the line, containers after --root, and the words of each
# option; a hostile name of a tensor is never run as a command.
command -v bash >/dev/null || { echo 'no bash'; exit 77; }
ckpt completion bash >c.bash
cp data/train.pt 'my t.pt'
header='{"$(touch ran)":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"`touch ran`":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
. "$TESTS/safetensors.sh"
print_safetensors "$header" '' >evil.safetensors
cat >try.bash <<'END'
. ./c.bash
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ckpt; printf '%s -> ' "$*"; printf '[%s]' "${COMPREPLY[@]:0:4}"; echo " ${#COMPREPLY[@]}"; }
try ckpt show 'my\ t.pt' state_dict.module.fc
try ckpt show 'my\ t.pt' epo
try ckpt ls data/train.pt -g opt
try ckpt ls data/train.pt --glob = state_dict.module.b
try ckpt convert data/train.pt --root = st
try ckpt convert --to ''
try ckpt convert --cast b
try ckpt convert --ties =
try ckpt ls --order = s
try ckpt stat --fail-on n
try ckpt info my
try ckpt show my
try ckpt help f
try ckpt show evil.safetensors ''
try ckpt ls evil.safetensors -g '$'
END
bash try.bash
[ ! -e ran ] || echo 'it ran'
