# A BERT whose file holds the bias of the decoder under both of its names has one such parameter.
add_tensor()
{
    next=$((offset + 4 * $3))
    printf '%s"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}' "$comma" "$1" "$2" "$offset" "$next" >>header
    offset=$next comma=,
}
# make_bert FILE [NAME] - writes a BERT of one block, 8 wide, with 20 words; NAME is another tensor of 20 numbers
make_bert()
{
    offset=0 comma=
    printf '{' >header
    add_tensor bert.embeddings.word_embeddings.weight 20,8 160
    add_tensor bert.embeddings.position_embeddings.weight 16,8 128
    add_tensor bert.embeddings.token_type_embeddings.weight 2,8 16
    layer=bert.encoder.layer.0
    for linear in attention.self.query attention.self.key attention.self.value attention.output.dense; do
        add_tensor $layer.$linear.weight 8,8 64
        add_tensor $layer.$linear.bias 8 8
    done
    add_tensor $layer.intermediate.dense.weight 32,8 256
    add_tensor $layer.intermediate.dense.bias 32 32
    add_tensor $layer.output.dense.weight 8,32 256
    add_tensor $layer.output.dense.bias 8 8
    add_tensor cls.predictions.transform.dense.weight 8,8 64
    add_tensor cls.predictions.transform.dense.bias 8 8
    for norm in bert.embeddings $layer.attention.output $layer.output cls.predictions.transform; do
        add_tensor $norm.LayerNorm.weight 8 8
        add_tensor $norm.LayerNorm.bias 8 8
    done
    add_tensor cls.predictions.bias 20 20
    [ -z "${2:-}" ] || add_tensor "$2" 20 20
    [ -z "${3:-}" ] || add_tensor "$3" 20,8 160
    printf '}' >>header
    length=$(wc -c <header)
    { printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0"
      cat header; head -c $offset /dev/zero; } >"$1"
}
make_bert one.safetensors
make_bert both.safetensors cls.predictions.decoder.bias
ckpt mem -q -b 1 -s 4 --heads 2 one.safetensors 2>&1
ckpt mem -q -b 1 -s 4 --heads 2 both.safetensors 2>&1
# The weight of the decoder is the embedding by the config next to it, too, which has no tie_word_embeddings: the default.
mkdir tied
make_bert tied/model.safetensors cls.predictions.decoder.bias cls.predictions.decoder.weight
cp tied/model.safetensors untied.safetensors
printf '{"model_type": "bert", "num_attention_heads": 2}' >tied/config.json
for file in tied/model.safetensors untied.safetensors; do
    ckpt mem -q $file 2>&1 | sed -n '2p;/the head/p'
done
printf '{"model_type": "bert", "num_attention_heads": 2, "tie_word_embeddings": false}' >tied/config.json
ckpt mem -q tied/model.safetensors 2>&1 | sed -n 2p
# An encoder with a decoder is refused for that reason, whatever network its encoder resembles.
make_bert seq2seq.safetensors decoder.bert.encoder.layer.0.crossattention.self.key.bias
ckpt mem -q -b 1 -s 4 --heads 2 seq2seq.safetensors 2>&1 | grep ^ckpt
ckpt mem -q seq2seq.safetensors 2>&1 | head -n 1
make_bert nn.safetensors decoder.layers.0.multihead_attn.in_proj_bias
ckpt mem -q nn.safetensors 2>&1 | head -n 1
printf '{"model_type": "t5", "is_encoder_decoder": true}' >t5.json
ckpt mem t5.json 2>&1
# Muon has one state for a matrix; what is no matrix is trained by AdamW next to it.
ckpt mem -q --optimizer muon one.safetensors 2>&1
