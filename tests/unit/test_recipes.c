/* The recipes of `ckpt edit`: each is valid, describes itself, and has one that reverses it. */
#include "base/checked.h"
#include "op/rule_recipes.h"
#include "op/rules.h"
#include "unit.h"

static ckpt_status find_no_config(void *user, struct model_config *out, ckpt_error *err)
{
    (void)user, (void)out, (void)err;
    return CKPT_OK;
}

/* parse - parses TEXT with 1 for each of its parameters, and returns how many it has. */
static size_t parse(ckpt_str text)
{
    ckpt_parameter given[16];
    ckpt_recipe_parameter parameter;
    ckpt_error err = {0};
    struct rules rules = {0};
    struct rule_params params = {.given = given, .find_config = find_no_config};
    arena *a = arena_new(UINT64_MAX);
    while (params.ngiven < 16 && ckpt_recipe_parameter_at(text, params.ngiven, &parameter)) {
        CU_ASSERT(parameter.name.len && parameter.definition.len && parameter.help.len);
        given[params.ngiven++] = (ckpt_parameter){.name = parameter.name, .value = 1};
    }
    CU_ASSERT_EQUAL(rules_parse(text, &params, a, &rules, &err), CKPT_OK);
    CU_ASSERT(rules.nrules != 0);
    CU_ASSERT_EQUAL(params.nlist, params.ngiven);
    arena_free(a);
    return params.nlist;
}

/* find_reverse - returns the name after "# Reverse: " in TEXT. */
static ckpt_str find_reverse(ckpt_str text)
{
    while (text.len) {
        ckpt_str line = str_take_until(&text, '\n');
        if (str_take(&line, STR_LIT("# Reverse: ")))
            return line;
    }
    return text;
}

static void recipes_are_valid(void)
{
    ckpt_recipe recipe = {.struct_size = sizeof recipe};
    size_t count = 0;
    for (; ckpt_recipe_at(count, &recipe); count++) {
        CU_ASSERT(recipe.title.len && recipe.title.len <= 110 && recipe.source.len);
        (void)parse(recipe.text);
        CU_ASSERT(!count || strcmp(rule_recipes[count - 1].name, recipe.name) < 0);
    }
    CU_ASSERT_EQUAL(count, rule_recipe_count);
    CU_ASSERT(count >= 16);
}

static void recipes_have_a_reverse(void)
{
    ckpt_recipe recipe = {.struct_size = sizeof recipe};
    char name[64];
    for (size_t i = 0; ckpt_recipe_at(i, &recipe); i++) {
        ckpt_str reverse = find_reverse(recipe.text);
        (void)snprintf(name, sizeof name, "%.*s", (int)reverse.len, reverse.ptr);
        CU_ASSERT(str_is(find_reverse(rule_recipe_text(name)), recipe.name));
    }
    CU_ASSERT_PTR_NULL(rule_recipe_text("no such recipe").ptr);
}

void suite_recipes(void)
{
    UNIT(recipes_are_valid);
    UNIT(recipes_have_a_reverse);
}
