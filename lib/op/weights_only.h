/* weights_only.h - predicts whether torch.load(weights_only=True) loads a file. Also judges the names that a
 * pickle imports: allow-listed by torch, allow-listed by ckpt, or known to run code. */
#pragma once

#include "core/file.h"

struct weights_only {
    int verdict;    /* 1: torch 2.15 would load it; 0: would refuse it; -1: it is not a file of torch.load */
    ckpt_str why;   /* the first reason for a refusal */
    bool is_opcode; /* that reason is an opcode that torch does not support */
};
/* weights_only_check - predicts whether torch loads F. out->why is in A or a field of F. */
ckpt_status weights_only_check(ckpt_file *f, arena *a, struct weights_only *out, ckpt_error *err);
/* weights_only_allows - returns true if torch 2.15 allows the import MODULE.NAME, as spelled in a pickle. */
bool weights_only_allows(ckpt_str module, ckpt_str name);
/* weights_only_allowed_name - returns the I-th allowed name, or NULL. */
const char *weights_only_allowed_name(size_t index);
/* name_verdict - returns the verdict on importing MODULE.NAME, in the spelling of Python 3. A NAME with a dot
 * is not allowed, since Python resolves it attribute by attribute; KNOWN_EXEC if its first part is. */
ckpt_scan_verdict name_verdict(ckpt_str module, ckpt_str name);
/* name_path_runs_code - returns true if PATH, a module and attributes of it with dots between them, leads to
 * a name for which name_verdict is KNOWN_EXEC, also through modules that import it: "torch.os.system". Unless
 * IS_CERTAIN, PATH may be something else: then a module whose name is a common word, as in "code.x", does not
 * count. */
bool name_path_runs_code(ckpt_str path, bool is_certain);
/* How an allow-listed name may be used. */
enum name_use {
    NAME_ANY,
    NAME_CONSTANT, /* called with one constant */
    NAME_NEW,      /* made by NEWOBJ, without arguments */
    NAME_VALUE     /* not called */
};
/* name_use - returns how MODULE.NAME, for which name_verdict is CKPT_SCAN_ALLOW_LISTED, may be used. */
enum name_use name_use(ckpt_str module, ckpt_str name);
/* names_sha256 - computes the SHA-256 of the allow-listed names, torch's and then ours, "MODULE.NAME" or
 * "MODULE.NAME NAME …" a line. Reports with the same sum were made with the same lists. */
ckpt_status names_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
