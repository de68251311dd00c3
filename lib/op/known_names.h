/* known_names.h - names that a pickle may import: harmless by torch's list or ours, or known to run code. */
#ifndef OP_KNOWN_NAMES_H
#define OP_KNOWN_NAMES_H

#include "base/str.h"
#include "ckpt.h"

/* name_verdict - of importing MODULE.NAME, as Python 3 spells them. A name with a dot is on no list: it is
 * followed attribute by attribute. */
ckpt_scan_verdict name_verdict(ckpt_str module, ckpt_str name);
/* names_sha256 - of the harmless names, one a line, torch's and then ours as "MODULE.NAME": two reports with
 * the same sum were made with the same lists. */
ckpt_status names_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);

#endif
