/* json_value.h - a whole JSON document as nodes of the value graph. */
#ifndef CODEC_JSON_VALUE_H
#define CODEC_JSON_VALUE_H

#include "codec/json_scan.h"
#include "core/value.h"

/* json_value - *OUT: TEXT, which must live as long as A, as nodes of A: dicts, lists, texts, numbers, True,
 * False, None. The offset of a node is BASE plus where it begins in TEXT. Of equal keys each has its pair.
 * Refuses what json_scan refuses. */
ckpt_status json_value(ckpt_str text, uint64_t base, arena *a, ckpt_value **out, ckpt_error *err);

#endif
