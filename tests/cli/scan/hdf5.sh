# The attributes of HDF5 are read as a loader has them: a Lambda layer by any spelling; links to other files.
ckpt scan corpus/keras/scan/lambda.h5
ckpt scan corpus/keras/k3/func.h5 corpus/keras/k3/bad/externallink.weights.h5
