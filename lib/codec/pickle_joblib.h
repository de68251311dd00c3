/* pickle_joblib.h - arrays that joblib.dump writes into a pickle's stream. Private to pickle_read.c. */
#ifndef CODEC_PICKLE_JOBLIB_H
#define CODEC_PICKLE_JOBLIB_H

#include "codec/pickle_machine.h"

/* joblib_take_array - V, which was just built, becomes the array of numpy that joblib.load makes of it, with
 * what follows in the stream, if it is joblib's wrapper. Any other V stays as it is. */
bool joblib_take_array(struct machine *m, ckpt_value *v);

#endif
