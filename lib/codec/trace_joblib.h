/* trace_joblib.h - skips the arrays that joblib writes into a pickle's stream after the BUILD of their
 * wrapper. Private to pickle_trace.c. */
#ifndef CODEC_TRACE_JOBLIB_H
#define CODEC_TRACE_JOBLIB_H

#include "codec/tracer.h"

/* joblib_skip_array - after BUILD of TARGET with STATE, skips the bytes that joblib.load reads as an array.
 * If they are a pickle of objects, follows it. */
bool joblib_skip_array(struct tracer *t, trace_ref target, trace_ref state);

#endif
