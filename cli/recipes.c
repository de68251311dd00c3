#include "recipes.h"

#include <limits.h>
#include <string.h>

#include "guess.h"
#include "json.h"
#include "text.h"

bool find_recipe(const char *name, ckpt_recipe *out)
{
    const char *nearest = NULL;
    int least = INT_MAX;
    for (size_t i = 0; ckpt_recipe_at(i, out); i++) {
        int distance = strcmp(out->name, name) == 0 ? 0 : guess_distance(name, out->name);
        if (distance >= 0 && distance < least) {
            least = distance;
            nearest = out->name;
        }
        if (least == 0)
            return true;
    }
    const char *shown = escape_name(str_c(name));
    if (nearest)
        usage_error("edit", "there is no recipe '%.200s'; did you mean '%s'?", shown, nearest);
    else
        usage_error("edit", "there is no recipe '%.200s'; `ckpt edit --list-recipes` lists them", shown);
    return false;
}

static bool has_parameter(const ckpt_recipe *recipe, ckpt_str name)
{
    ckpt_recipe_parameter parameter;
    for (size_t i = 0; ckpt_recipe_parameter_at(recipe->text, i, &parameter); i++)
        if (parameter.name.len == name.len && memcmp(parameter.name.ptr, name.ptr, name.len) == 0)
            return true;
    return false;
}

bool check_parameter(const ckpt_recipe *recipe, ckpt_str name)
{
    ckpt_recipe_parameter parameter;
    struct text known = {0};
    if (has_parameter(recipe, name))
        return true;
    for (size_t i = 0; ckpt_recipe_parameter_at(recipe->text, i, &parameter); i++) {
        text_add(&known, i ? ", " : "");
        text_bytes(&known, parameter.name.ptr, parameter.name.len);
    }
    usage_error("edit", "the recipe %s has no parameter '%.200s'%s%s", recipe->name, escape_name(name),
                known.len ? ": it has " : "", known.len ? known.ptr : "");
    text_free(&known);
    return false;
}

static void recipe_json(const ckpt_recipe *recipe, json *list)
{
    ckpt_recipe_parameter parameter;
    json *item = json_add_object(list, NULL);
    json_text(item, "name", recipe->name);
    json_str(item, "title", recipe->title);
    json_str(item, "source", recipe->source);
    json_bool(item, "joins", recipe->joins);
    json *parameters = json_add_array(item, "parameters");
    for (size_t i = 0; ckpt_recipe_parameter_at(recipe->text, i, &parameter); i++) {
        json *one = json_add_object(parameters, NULL);
        json_str(one, "name", parameter.name);
        json_str(one, "definition", parameter.definition);
        json_str(one, "help", parameter.help);
    }
}

static void print_recipe(const ckpt_recipe *recipe)
{
    ckpt_recipe_parameter parameter;
    print_text(stdout, "%s   %.*s\n", recipe->name, (int)recipe->title.len, recipe->title.ptr);
    print_text(stdout, "    source: %.*s\n", (int)recipe->source.len, recipe->source.ptr);
    for (size_t i = 0; ckpt_recipe_parameter_at(recipe->text, i, &parameter); i++)
        print_text(stdout, "    %.*s = %.*s   %.*s\n", (int)parameter.name.len, parameter.name.ptr,
                   (int)parameter.definition.len, parameter.definition.ptr, (int)parameter.help.len,
                   parameter.help.ptr);
}

int list_recipes(void)
{
    ckpt_recipe recipe = CKPT_INIT(ckpt_recipe);
    json *object = ui.json ? json_schema("ckpt.recipes.v1") : NULL;
    json *list = object ? json_add_array(object, "recipes") : NULL;
    for (size_t i = 0; ckpt_recipe_at(i, &recipe); i++) {
        if (list)
            recipe_json(&recipe, list);
        else
            print_recipe(&recipe);
    }
    if (object)
        json_line(object, stdout);
    return EXIT_OK;
}

int show_recipe(const char *name)
{
    ckpt_recipe recipe = CKPT_INIT(ckpt_recipe);
    if (!find_recipe(name, &recipe))
        return EXIT_TROUBLE;
    print_text(stdout, "%.*s", (int)recipe.text.len, recipe.text.ptr);
    return EXIT_OK;
}

const char *recipe_words(void)
{
    static struct text words;
    ckpt_recipe recipe = CKPT_INIT(ckpt_recipe);
    text_clear(&words);
    for (size_t i = 0; ckpt_recipe_at(i, &recipe); i++) {
        text_add(&words, i ? "|" : "");
        text_add(&words, recipe.name);
    }
    return words.ptr ? words.ptr : "";
}
