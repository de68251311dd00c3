# The state of an optimizer that only its names tell from the weights is not counted as weights. Those of obj/fit.index are
# only in the optimizer, as tf.train.Checkpoint writes a model of Keras after fit.
for f in keras/k3/opt_adamw.keras keras/k212/seq.h5 keras/k3/dtype_float16.weights.h5 tensorflow/v2/saver_adam.index \
    tensorflow/obj/write.index tensorflow/obj/fit.index paddle/opt_p4.pdopt paddle/nested.pdparams tfjs/trained; do
    echo "-- $f"
    ckpt info "corpus/$f" | grep -E '^(weights|all|optimizer) '
done
ckpt info --json corpus/keras/k3/opt_adamw.keras | sed 's/.*\("weights":{[^}]*}\).*\("optimizer":{[^}]*}\).*/\1 \2/'
ckpt convert -q corpus/tensorflow/obj/fit.index fit.safetensors 2>/dev/null; ckpt ls fit.safetensors
