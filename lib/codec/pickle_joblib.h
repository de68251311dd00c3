/* pickle_joblib.h - reads arrays that joblib.dump writes between the opcodes of a pickle. Private to
 * pickle_read.c. */
#ifndef CODEC_PICKLE_JOBLIB_H
#define CODEC_PICKLE_JOBLIB_H

#include "codec/pickle_machine.h"

/* joblib_take_array - if V, to which BUILD was just applied, is a NumpyArrayWrapper of joblib, reads the
 * bytes of the array that follow and turns V into the numpy array that joblib.load would return. */
bool joblib_take_array(struct machine *m, ckpt_value *v);

#endif
