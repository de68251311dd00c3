/* rule_recipes.h - the recipes of `ckpt edit`: the files share/ckpt/rules/NAME.rules, which are built into
 * the library. The first line of each is a comment with its title; "# Source: " begins a line that says which
 * library and version it was checked against. A `param` has a line of its own, with a comment that says what
 * it is. */
#pragma once

#include "base/error.h"

struct rule_recipe {
    const char *name;
    const unsigned char *text;
    size_t len;
};

/* In the order of their names. share/ckpt/embed.sh makes the file that defines them. */
extern const struct rule_recipe rule_recipes[];
extern const size_t rule_recipe_count;

/* rule_recipe_text - returns the text of the recipe NAME; .ptr NULL: there is none. */
ckpt_str rule_recipe_text(const char *name);
/* rule_recipe_describe - sets *OUT, but its struct_size, to recipe INDEX. False: there are fewer. */
bool rule_recipe_describe(size_t index, ckpt_recipe *out);
/* rule_recipe_parameter - sets *OUT to `param` number INDEX of TEXT. False: there are fewer. */
bool rule_recipe_parameter(ckpt_str text, size_t index, ckpt_recipe_parameter *out);
