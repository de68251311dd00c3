/* rule_params.c - see rule_params.h. */
#include "op/rule_params.h"

#include <inttypes.h>

#include "base/checked.h"

bool rule_params_find(const struct rule_params *params, ckpt_str name, int64_t *out)
{
    for (size_t i = params->nlist; COUNT_DOWN(i);)
        if (str_eq(params->list[i].name, name)) {
            *out = params->list[i].value;
            return true;
        }
    for (size_t i = params->ngiven; COUNT_DOWN(i);) /* the last one counts */
        if (str_eq(params->given[i].name, name)) {
            *out = params->given[i].value;
            return true;
        }
    return false;
}

/* find_entry - sets *OUT to the entry KEY of the config, which is read first; NULL: there is none. */
static ckpt_status find_entry(struct rule_params *params, ckpt_str key, const struct model_config_entry **out,
                              ckpt_error *err)
{
    if (!params->has_searched)
        CKPT_TRY(params->find_config(params->user, &params->config, err));
    params->has_searched = true;
    *out = config_find(&params->config, key);
    return CKPT_OK;
}

static ckpt_status compute_condition(struct rule_params *params, ckpt_str key, struct rule_place place,
                                     bool *out, ckpt_error *err)
{
    const struct model_config_entry *entry;
    CKPT_TRY(find_entry(params, key, &entry, err));
    *out = entry && entry->type == CONFIG_TRUE;
    if (!entry || entry->type == CONFIG_TRUE || entry->type == CONFIG_FALSE)
        return CKPT_OK;
    return rule_fail(place, err, "\"%.*s\" in %s is not {=true or false}", STR_ARG(key), params->config.path);
}

/* read_entry - sets *OUT to the number that KEY of the config has. */
static ckpt_status read_entry(struct rule_params *params, ckpt_str key, struct rule_place place, int64_t *out,
                              bool *found, ckpt_error *err)
{
    const struct model_config_entry *entry;
    uint64_t number = 0;
    CKPT_TRY(find_entry(params, key, &entry, err));
    *found = entry != NULL;
    if (!entry)
        return CKPT_OK;
    if (entry->type != CONFIG_NUMBER || !str_uint(entry->text, &number) || !number || number > INT32_MAX)
        return rule_fail(place, err, "\"%.*s\" in %s is {%.*s}, not {=a whole number from 1 to %d}",
                         STR_ARG(key), params->config.path,
                         STR_ARG(entry->type == CONFIG_NUMBER ? entry->text : STR_LIT("no number")),
                         INT32_MAX);
    *out = (int64_t)number;
    return CKPT_OK;
}

/* read_value - sets *OUT to what TEXT, a part of TERM, is; sets *KEY if it is a key of the config. */
static ckpt_status read_value(struct rule_params *params, const struct rule_term *term, ckpt_str text,
                              int64_t *out, ckpt_str *key, bool *found, ckpt_error *err)
{
    ckpt_str name = text;
    uint64_t number;
    *found = true;
    if (str_take(&name, STR_LIT("$")))
        return rule_params_find(params, name, out)
                   ? CKPT_OK
                   : rule_fail(term->place, err, "the parameter $%.*s is not defined before", STR_ARG(name));
    if (str_uint(text, &number) && number <= INT32_MAX) {
        *out = (int64_t)number;
        return CKPT_OK;
    }
    *key = text;
    return read_entry(params, text, term->place, out, found, err);
}

ckpt_status rule_param_compute(struct rule_params *params, const struct rule_term *term,
                               struct rule_param *param, bool *found, ckpt_error *err)
{
    int64_t left = 0, right = 1;
    ckpt_str other;
    *found = true;
    param->key = str_of("", 0);
    if (term->condition.len)
        CKPT_TRY(compute_condition(params, term->condition, term->place, found, err));
    if (*found)
        CKPT_TRY(read_value(params, term, term->left, &left, &param->key, found, err));
    if (*found && term->operator)
        CKPT_TRY(read_value(params, term, term->right, &right, &other, found, err));
    param->value = left;
    if (!*found || !term->operator)
        return CKPT_OK;
    param->key = str_of("", 0);
    if (left < 1 || left > INT32_MAX || right < 1 || right > INT32_MAX ||
        (term->operator == '/' && left % right != 0))
        return rule_fail(term->place, err, "{%" PRId64 " %c %" PRId64 "} is not {=a whole number}", left,
                         term->operator, right);
    param->value = term->operator == '/' ? left / right : left * right;
    return CKPT_OK;
}
