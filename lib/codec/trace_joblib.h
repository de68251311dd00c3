/* trace_joblib.h - skips the arrays that joblib writes into a pickle's stream after the BUILD of their
 * wrapper. Private to pickle_trace.c. */
#ifndef CODEC_TRACE_JOBLIB_H
#define CODEC_TRACE_JOBLIB_H

#include "codec/tracer.h"

/* joblib_skip_array - skips what joblib.load reads after the BUILD of TARGET with STATE: nothing, the
 * bytes of an array, or a pickle of objects, which is followed. */
bool joblib_skip_array(struct tracer *t, trace_ref target, trace_ref state);

#endif
