# The recipes: listed, shown, and what a mistyped name is answered.
ckpt edit --list-recipes
ckpt edit --list-recipes --json
ckpt edit --show-recipe gpt2-conv1d-to-linear
for name in gpt2-conv1d-to-liner nothing ''; do
    ckpt edit data/train.pt -o out.pt --recipe "$name"
    echo "exit $?"
done
ckpt edit --show-recipe neox-qkv-slpit
echo "exit $?"
# a word for each of them
ckpt completion bash | grep -c 'neox-qkv-split'
