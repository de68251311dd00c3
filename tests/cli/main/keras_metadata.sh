# A Keras model whose metadata.json is not JSON is read without its version.
mkdir model
cp corpus/keras/tfk/func.weights.h5 model/model.weights.h5
printf '{}' >model/config.json
printf 'not JSON' >model/metadata.json
ckpt ls model | wc -l
ckpt info model | head -n 1
