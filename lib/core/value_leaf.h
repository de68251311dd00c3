/* value_leaf.h - for value_text.c and value_type.c: nodes shown as one word. */
#ifndef CORE_VALUE_LEAF_H
#define CORE_VALUE_LEAF_H

#include "base/text.h"
#include "core/value.h"

#define ELLIPSIS "\xe2\x80\xa6"

/* leaf_text - V, unless it is shown by way of its children: false. */
bool leaf_text(struct text_sink *out, const ckpt_value *v);
/* leaf_global - "module.name" of a GLOBAL, without the module of built-in names. */
void leaf_global(struct text_sink *out, const ckpt_value *global);
/* leaf_class - the last part of the name of the class that CALL V makes. */
void leaf_class(struct text_sink *out, const ckpt_value *v);

#endif
