/* plain.h - which nodes are tensors and plain data already, in words that
 * torch.load(weights_only=True) takes, and which have a plain value. */
#ifndef OP_PLAIN_H
#define OP_PLAIN_H

#include "core/file.h"

/* Answers given before. Zeroed but for known, which is map_new(), and file. */
struct plain {
    const ckpt_file *file;
    map *known; /* node -> how it was judged */
    struct plain_step *waiting;
    size_t n, cap;
    const ckpt_value **met; /* in the walk under way */
    size_t nmet, cap_met;
    uint64_t work;
};

/* plain_all - is V, with everything below it, constants, lists, tuples, dicts, sets
 * and calls that torch's own description of a tensor or of a size needs? *BAD is the
 * first node that is none; NULL: yes. */
ckpt_status plain_all(struct plain *p, const ckpt_value *v, const ckpt_value **bad, ckpt_error *err);
void plain_free(struct plain *p);

/* What a name stands for, as plain.def has it. */
enum plain_name { PLAIN_OTHER, PLAIN_DATUM, PLAIN_TENSOR, PLAIN_POSIX, PLAIN_WINDOWS, PLAIN_FIELDS };

enum plain_name plain_named(const ckpt_value *global);
/* plain_datum - does V call what makes a value that is no tensor: torch.Size, complex … ? */
bool plain_datum(const ckpt_value *v);
/* plain_word - is V the name of a dtype or of a way to quantise? */
bool plain_word(const ckpt_value *v);
/* plain_number - the Python number or text that numpy scalar V is, made in A; *OUT
 * NULL: V is none, or has no such twin. False: no memory. */
bool plain_number(arena *a, const ckpt_value *v, ckpt_value **out);
/* plain_path - the text of a pathlib path likewise. */
bool plain_path(arena *a, const ckpt_value *v, ckpt_value **out);

#endif
