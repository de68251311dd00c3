# scan reads the attributes of HDF5 as a loader does, and finds a Lambda layer in any spelling, and links to other files.
ckpt scan corpus/keras/scan/lambda.h5
ckpt scan corpus/keras/k3/func.h5 corpus/keras/k3/bad/externallink.weights.h5
# Any 512 bytes may precede it: zeros, or a pickle.
moved() { head -c 24 corpus/keras/scan/lambda.h5; printf '\0\2\0\0\0\0\0\0'; tail -c +33 corpus/keras/scan/lambda.h5; }
{ head -c 512 /dev/zero; moved; } >zeros.h5
{ printf '\200\002N.'; head -c 508 /dev/zero; moved; } >pickle.h5
ckpt scan zeros.h5 pickle.h5
ckpt scan -q corpus/keras/k3/bad/external_storage.weights.h5 corpus/keras/k3/bad/virtual.weights.h5
escape=$(printf '\033')
sed "s/kernel/k${escape}rnel/g" corpus/keras/scan/lambda.h5 >name.h5
ckpt scan -q name.h5
