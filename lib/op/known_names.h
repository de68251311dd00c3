/* known_names.h - which names a pickle may import: allow-listed by torch or by us, or known to run code. */
#ifndef OP_KNOWN_NAMES_H
#define OP_KNOWN_NAMES_H

#include "base/str.h"
#include "ckpt.h"

/* name_verdict - returns the verdict on importing MODULE.NAME, in the spelling of Python 3. A name with a dot
 * is on no list, since Python resolves it attribute by attribute. */
ckpt_scan_verdict name_verdict(ckpt_str module, ckpt_str name);
/* names_sha256 - computes the SHA-256 of the allow-listed names, torch's and then ours, one "MODULE.NAME" a
 * line. Reports with the same sum were made with the same lists. */
ckpt_status names_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);

#endif
