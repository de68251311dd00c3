/* recipes.h - the recipes of `ckpt edit`, for the options that list and show them. */
#pragma once

#include "cmd.h"

/* find_recipe - sets *OUT to the recipe NAME; prints what was probably meant and returns false if there is
 * none. */
bool find_recipe(const char *name, ckpt_recipe *out);
/* check_parameter - prints an error and returns false if RECIPE has no parameter NAME. */
bool check_parameter(const ckpt_recipe *recipe, ckpt_str name);
/* list_recipes - prints all recipes, with their parameters. show_recipe - prints the rules of NAME. Both
 * return an exit code. */
int list_recipes(void);
int show_recipe(const char *name);
/* recipe_words - returns the names of all recipes, separated by '|'. */
const char *recipe_words(void);
