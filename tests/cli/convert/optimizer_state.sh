# The optimizer's state of Keras, TensorFlow and Paddle is told from the weights by its names: convert leaves it out, --cast does
# not round it. All of a file that has nothing else is written.
for file in keras/k3/seq.keras keras/k3/seq.weights.h5 keras/tfk/seq.h5 tensorflow/v2/saver_momentum.index paddle/opt_p3.pdopt; do
    echo "== $file"
    ckpt convert -f --cast f16 corpus/$file out.safetensors 2>&1 | grep -v 'not a tensor'
    ckpt ls --tsv out.safetensors | cut -f 2 | sort | uniq -c
    ckpt convert -qf --root '' --cast f16 corpus/$file all.npz; ckpt ls --tsv all.npz | cut -f 2 | sort | uniq -c
done
# Keras may have the weights only as the variables that its optimizer trains.
header='{"model/optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
header=$header'"model/optimizer/_variables/2/.ATTRIBUTES/VARIABLE_VALUE":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},'
header=$header'"model/optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE":{"dtype":"F32","shape":[],"data_offsets":[8,12]},'
header=$header'"layer/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},'
header=$header'"my_optimizer/kernel":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}}'
{
    printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"
    head -c 20 /dev/zero
} >x.safetensors
ckpt convert -f x.safetensors out.npz; ckpt ls out.npz
ckpt mem x.safetensors 2>&1 | head -n 3
