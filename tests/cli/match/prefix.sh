# A prefix is added or removed for all names, or for those that it fits; a head that the model has in addition stays
# missing, and what may be it by its shape is only a comment.
. "$TESTS/match_input.sh"
print_bert()
{
    printf '%s\n' "$1embeddings.word.weight 30 8" "$1embeddings.LayerNorm.weight 8" "$1embeddings.LayerNorm.bias 8"
    for layer in 0 1 2; do
        for name in attention.self.query attention.self.key attention.output.dense; do
            printf '%s\n' "$1encoder.layer.$layer.$name.weight 8 8" "$1encoder.layer.$layer.$name.bias 8"
        done
    done
    printf '%s\n' "$1pooler.dense.weight 8 8" "$1pooler.dense.bias 8"
}
print_bert '' | write_model bare.safetensors
print_bert bert. | write_model bert.safetensors
{ print_bert bert. && printf '%s\n' 'classifier.weight 3 8' 'classifier.bias 3'; } | write_model head.safetensors
print_bert '' | sed 's/^pooler/mlm.transform/' | write_model mlm.safetensors
{ print_bert bert. | grep -v pooler && echo 'pooler.dense.weight 8 8' && echo 'pooler.dense.bias 8'; } |
    write_model part.safetensors
ckpt match bare.safetensors bare.safetensors
ckpt match bert.safetensors bare.safetensors
mend bert.safetensors bare.safetensors
mend bare.safetensors bert.safetensors
ckpt match head.safetensors bare.safetensors | tail -n 7
ckpt match --rules mlm.safetensors bare.safetensors
ckpt match --rules -q part.safetensors bare.safetensors
mend part.safetensors bare.safetensors
echo '--- in a training checkpoint, whose weights have a name'
ckpt convert -q --root state_dict.module data/train.pt fixed.safetensors
ckpt match fixed.safetensors data/train.pt | tail -n 5
ckpt match --all fixed.safetensors data/train.pt | grep -c bn1
ckpt match -q fixed.safetensors data/train.pt
ckpt match --json fixed.safetensors data/train.pt | grep -o '"root":.*"differences"\|"cut".*'
