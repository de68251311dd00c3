/* reference.h - a node as the name of an object that loading would import: a class, a function, a member of a
 * class. */
#pragma once

#include "core/value.h"

#define REFERENCE_PARTS 8u /* real names have at most four */

struct reference {
    ckpt_str module;                 /* by its name in Python 3 */
    ckpt_str parts[REFERENCE_PARTS]; /* the name in the module, which may have dots, and those of getattr() */
    unsigned n;
};

/* reference_of - sets *OUT to what VALUE names. VALUE is a GLOBAL, a persistent id of a class with its
 * source, or getattr(name, 'part'), as protocols below 4 write the nested names that are one GLOBAL in
 * protocol 4 (CPython, Lib/pickle.py, save_global). False: VALUE is something else. */
bool reference_of(const ckpt_value *value, struct reference *out);
bool reference_equal(const struct reference *left, const struct reference *right);
/* reference_is_member - returns true if REF is in a class, not directly in its module. */
bool reference_is_member(const struct reference *ref);
/* reference_is_memory_format - returns true if REF is a torch.memory_format. Torch pickles it by the
 * name "torch.channels_last", which pickle finds in whichever module imported torch; REF has it in
 * torch. */
bool reference_is_memory_format(const struct reference *ref);
/* reference_last - returns the last name in REF, without those of the classes that it is in. */
ckpt_str reference_last(const struct reference *ref);
