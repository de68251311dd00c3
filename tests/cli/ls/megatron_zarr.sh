# Megatron-LM's distributed checkpoints of the back end zarr, on disk and in a .nemo
z=corpus/trainers/megatron_zarr
ckpt ls --values $z
ckpt info $z/iter_0000003 | head -n 2
ckpt show $z decoder.final_layernorm.weight
ckpt verify $z 2>/dev/null
ckpt convert -q --root '' $z -o out.pt
ckpt diff out.pt $z
mkdir model
cp -R $z/iter_0000003 model/model_weights
tar -cf model.nemo -C model ./model_weights
ckpt diff model.nemo $z
# Megatron writes every chunk: one that is missing is lost, and is no fill value
rm model/model_weights/embedding.word_embeddings.weight/1.0
ckpt ls model/model_weights
ckpt verify model/model_weights 2>/dev/null
tar -cf model.nemo -C model ./model_weights
ckpt salvage model.nemo -o saved.pt
# a value that was cut off
printf 'x' >model/model_weights/rng_state/shard_0.0_1.2.pt
ckpt ls model/model_weights
# an array without .zarray has chunks, which are no reason to leave it out; an empty .zarray says nothing either
rm -r model/model_weights
cp -R $z/iter_0000003 model/model_weights
rm model/model_weights/embedding.word_embeddings.weight/.zarray
ckpt ls model/model_weights
ckpt convert -q --root '' model/model_weights -o lost.pt; echo $?
ckpt verify model/model_weights 2>/dev/null
ckpt salvage model/model_weights -o saved2.pt
: >model/model_weights/embedding.word_embeddings.weight/.zarray
ckpt ls model/model_weights
cp $z/iter_0000003/embedding.word_embeddings.weight/.zarray model/model_weights/embedding.word_embeddings.weight
# common.pt is always written, but the tensors can be read without it
rm model/model_weights/common.pt
ckpt ls model/model_weights | wc -l
ckpt convert -q --strict --root '' model/model_weights -o lost.pt; echo $?
ckpt verify model/model_weights 2>/dev/null
