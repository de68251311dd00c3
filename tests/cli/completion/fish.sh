# fish completes names of tensors and values, containers, words of options and names of commands.
command -v fish >/dev/null || { echo 'no fish'; exit 77; }
HOME=$PWD XDG_CONFIG_HOME=$PWD XDG_DATA_HOME=$PWD XDG_RUNTIME_DIR=$PWD
export HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR
ckpt completion fish >c.fish
cp data/train.pt t.pt
for line in 'ckpt show t.pt state_dict.module.fc' 'ckpt ls t.pt -g epo' 'ckpt convert t.pt --root=sch' 'ckpt convert --to ' 'ckpt ls --order=' 'ckpt help f'; do
    echo "$line"
    fish --no-config -c "source c.fish; complete -C '$line'" 2>&1 | cut -f1
done
