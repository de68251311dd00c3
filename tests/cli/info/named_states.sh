# The state of optimizers, metrics and tf.train.Checkpoint itself that only its names tell from the weights is not counted as
# weights. Those of obj/fit.index are only in the optimizer, as tf.train.Checkpoint writes a model of Keras after fit.
for f in keras/k3/opt_adamw.keras keras/k212/seq.h5 keras/k3/dtype_float16.weights.h5 tensorflow/v2/saver_adam.index \
    tensorflow/obj/write.index tensorflow/obj/fit.index paddle/opt_p4.pdopt paddle/nested.pdparams tfjs/trained \
    keras/tfk/opt_sgd.keras keras/k212/seq.weights.h5 tensorflow/obj/tables.index tensorflow/savedmodel_empty; do
    echo "-- $f"
    ckpt info "corpus/$f" | grep -E '^(weights|all|optimizer|metrics|checkpoint|dtypes) '
done
ckpt info --json corpus/keras/k3/opt_adamw.keras | sed 's/.*\("weights":{[^}]*}\).*\("optimizer":{[^}]*}\).*/\1 \2/'
ckpt info --json corpus/tensorflow/obj/write.index corpus/keras/tfk/opt_sgd.keras | grep -o '"\(metrics\|checkpoint\)":[0-9]*'
ckpt info --tsv corpus/tensorflow/obj/tables.index | cut -f 11
ckpt convert -q corpus/tensorflow/obj/fit.index fit.safetensors 2>/dev/null; ckpt ls fit.safetensors
echo "-- a conversion leaves out metrics, a cast leaves them as they are, mem does not count them, add keeps them"
ckpt convert corpus/keras/k212/seq.weights.h5 seq.safetensors; ckpt ls seq.safetensors | grep -c metrics
ckpt convert -q --root '' --cast fp16 corpus/keras/k212/seq.weights.h5 seq.pt 2>/dev/null; ckpt ls -g '*metrics*' seq.pt
ckpt mem corpus/keras/tfk/opt_sgd.keras | head -n 3
ckpt add -q x. seq.pt -o prefixed.pt 2>/dev/null; ckpt ls -g '*metrics*' prefixed.pt
echo "-- --root '' takes them"
ckpt convert -q --root '' --keep '*metrics*' corpus/keras/k212/seq.weights.h5 metrics.safetensors; ckpt ls metrics.safetensors
