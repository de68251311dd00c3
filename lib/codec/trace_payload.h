/* trace_payload.h - finds texts and bytes of a pickle that may be files or pickles themselves. Private
 * to pickle_trace.c. */
#ifndef CODEC_TRACE_PAYLOAD_H
#define CODEC_TRACE_PAYLOAD_H

#include "codec/tracer.h"

/* payload_report_counted - reports the next N bytes if they may be a file or pickle. */
bool payload_report_counted(struct tracer *t, uint64_t n);
/* payload_report_line - skips the line of UNICODE or STRING, and reports it if it may encode a file or
 * pickle. */
bool payload_report_line(struct tracer *t);

#endif
