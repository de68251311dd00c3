/* value_leaf.h - shows single values as text, for value_text.c and value_type.c. */
#ifndef CORE_VALUE_LEAF_H
#define CORE_VALUE_LEAF_H

#include "base/text.h"
#include "core/value.h"

#define ELLIPSIS "\xe2\x80\xa6"

/* leaf_text - writes V as text. False: V is no single value, and its children have to be shown. */
bool leaf_text(struct text_sink *out, const ckpt_value *v);
/* leaf_global - writes "module.name" of a GLOBAL, without the module of a builtin name. */
void leaf_global(struct text_sink *out, const ckpt_value *global);
/* leaf_class - writes the last component of the name of the class that the CALL V creates. */
void leaf_class(struct text_sink *out, const ckpt_value *v);

#endif
