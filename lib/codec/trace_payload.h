/* trace_payload.h - texts and bytes of a pickle that may be files or pickles of their own. Private to
 * pickle_trace.c. */
#ifndef CODEC_TRACE_PAYLOAD_H
#define CODEC_TRACE_PAYLOAD_H

#include "codec/tracer.h"

/* payload_counted - tells of the N bytes that come next, if they may be one. */
bool payload_counted(struct tracer *t, uint64_t n);
/* payload_line - goes past the line of UNICODE or STRING, and tells of it likewise. */
bool payload_line(struct tracer *t);

#endif
