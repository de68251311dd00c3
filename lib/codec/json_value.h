/* json_value.h - reads a JSON document as nodes of the value graph. */
#ifndef CODEC_JSON_VALUE_H
#define CODEC_JSON_VALUE_H

#include "codec/json_scan.h"
#include "core/value.h"

/* json_value - sets *OUT to nodes in A for TEXT, which must live as long as A: dicts, lists, texts, numbers,
 * True, False, None. The offset of a node is BASE plus its position in TEXT. Equal keys of one object are all
 * kept. Refuses what json_scan refuses. */
ckpt_status json_value(ckpt_str text, uint64_t base, arena *a, ckpt_value **out, ckpt_error *err);

#endif
