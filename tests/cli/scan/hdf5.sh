# scan reads the attributes of HDF5 as a loader does, and finds a Lambda layer in any spelling, and links to other files.
ckpt scan corpus/keras/scan/lambda.h5
ckpt scan corpus/keras/k3/func.h5 corpus/keras/k3/bad/externallink.weights.h5
