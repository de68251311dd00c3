/* rule_recipes.c - see rule_recipes.h. */
#include "op/rule_recipes.h"

#include <string.h>

#include "base/checked.h"
#include "base/str.h"

static ckpt_str text_of(const struct rule_recipe *recipe)
{
    return str_of((const char *)recipe->text, recipe->len);
}

ckpt_str rule_recipe_text(const char *name)
{
    for (size_t i = 0; i < rule_recipe_count; i++)
        if (strcmp(rule_recipes[i].name, name) == 0)
            return text_of(&rule_recipes[i]);
    return str_of(NULL, 0);
}

static ckpt_str trim(ckpt_str text) { return str_trim_end(str_trim_start(text, " "), " "); }

/* find_line - returns the rest of line number INDEX of those that begin with PREFIX; .ptr NULL: there are
 * fewer. */
static ckpt_str find_line(ckpt_str text, ckpt_str prefix, size_t index)
{
    while (text.len) {
        ckpt_str line = str_take_until(&text, '\n');
        if (str_take(&line, prefix) && !COUNT_DOWN(index))
            return trim(line);
    }
    return str_of(NULL, 0);
}

bool rule_recipe_describe(size_t index, ckpt_recipe *out)
{
    if (index >= rule_recipe_count)
        return false;
    ckpt_str text = text_of(&rule_recipes[index]);
    *out = (ckpt_recipe){.name = rule_recipes[index].name,
                         .title = find_line(text, STR_LIT("# "), 0),
                         .source = find_line(text, STR_LIT("# Source: "), 0),
                         .joins = find_line(text, STR_LIT("join "), 0).ptr != NULL,
                         .text = text};
    return true;
}

bool rule_recipe_parameter(ckpt_str text, size_t index, ckpt_recipe_parameter *out)
{
    ckpt_str line = find_line(text, STR_LIT("param "), index);
    if (!line.ptr)
        return false;
    out->name = trim(str_take_until(&line, '='));
    out->definition = trim(str_take_until(&line, '#'));
    out->help = trim(line);
    return true;
}
