# Each command names the format of a model that ckpt does not read, and suggests how to go on.
printf '\010\001\022\002\012\000' >saved_model.pb
printf '\010\004\022\002\012\000\242\037\001x' >m.mlmodel
sed -n '/^base64/,/^X/p' "$TESTS/scan/joblib.sh" >genuine.sh
. ./genuine.sh
# a joblib file whose first array is far from its beginning
{ printf '\200\002]('; i=0; while [ $i -lt 5000 ]; do printf 'NN'; i=$((i + 1)); done
  printf 'cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\201\001\002\003'; } >far.joblib
for f in saved_model.pb m.mlmodel genuine.joblib far.joblib; do
    ckpt ls $f
    ckpt doctor $f
done
ckpt convert m.mlmodel -o x.safetensors
ckpt scan m.mlmodel saved_model.pb
