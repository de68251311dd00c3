/* trace_joblib.h - arrays that joblib keeps inside a pickle's stream, behind the BUILD of their wrapper.
 * Private to pickle_trace.c. */
#ifndef CODEC_TRACE_JOBLIB_H
#define CODEC_TRACE_JOBLIB_H

#include "codec/tracer.h"

/* joblib_pass - goes over what joblib.load reads behind the BUILD that gave TARGET its STATE: nothing, the
 * bytes of an array, or a pickle of objects, which is followed. */
bool joblib_pass(struct tracer *t, trace_ref target, trace_ref state);

#endif
