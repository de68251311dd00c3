/* config.c - reads a config.json of transformers. */
#include "op/config.h"

#include "codec/json_scan.h"
#include "io/source.h"

/* add_entry - adds KEY with the value that begins with EVENT, and reads JSON to the end of that value. */
static ckpt_status add_entry(struct model_config *config, json_scan *json, arena *a, ckpt_str key,
                             enum json_event event)
{
    static const uint8_t types[] = {[JSON_STRING] = CONFIG_TEXT, [JSON_NUMBER] = CONFIG_NUMBER,
                                    [JSON_TRUE] = CONFIG_TRUE,   [JSON_FALSE] = CONFIG_FALSE,
                                    [JSON_NULL] = CONFIG_NULL,   [JSON_OBJECT] = CONFIG_OTHER,
                                    [JSON_ARRAY] = CONFIG_OTHER};
    struct model_config_entry entry = {.key = key, .text = json->str, .type = types[event]};
    for (size_t i = 0; i < config->n; i++)
        if (str_eq(config->list[i].key, key))
            return json_fail(json, "the key {%.*s} comes twice", STR_ARG(key));
    config->list = arena_grow(a, config->list, config->n, &config->cap, config->n + 1, sizeof *config->list);
    CKPT_TRY_ALLOC(config->list, json->err);
    config->list[config->n++] = entry;
    return json_skip(json, event);
}

static ckpt_status read_entries(struct model_config *config, json_scan *json, arena *a)
{
    enum json_event event = json_next(json);
    if (event != JSON_OBJECT)
        return json_unexpected(json, event, "a config", "an object");
    while ((event = json_next(json)) == JSON_KEY) {
        ckpt_str key = json->str;
        event = json_next(json);
        if (event == JSON_ERROR)
            return json_unexpected(json, event, "a value", "JSON");
        CKPT_TRY(add_entry(config, json, a, key, event));
    }
    if (event != JSON_OBJECT_END)
        return json_unexpected(json, event, "a key", "text");
    event = json_next(json);
    return event == JSON_END ? CKPT_OK : json_unexpected(json, event, "the config", "one object");
}

ckpt_status config_parse(struct model_config *config, ckpt_str text, const char *path, arena *a,
                         ckpt_error *err)
{
    json_scan json;
    json_init(&json, text, 0, a, err);
    config->path = path;
    return name_file_if_failed(read_entries(config, &json, a), path, err);
}

ckpt_status config_read(struct model_config *config, const char *path, arena *a, ckpt_error *err)
{
    ckpt_str text;
    CKPT_TRY(source_read_whole_file(path, CONFIG_MAX, a, &text, err));
    return config_parse(config, text, path, a, err);
}

const struct model_config_entry *config_find(const struct model_config *config, ckpt_str key)
{
    for (size_t i = 0; i < config->n; i++)
        if (str_eq(config->list[i].key, key) && config->list[i].type != CONFIG_NULL)
            return &config->list[i];
    return NULL;
}

const struct model_config_entry *config_get(const struct model_config *config, const char *keys)
{
    const struct model_config_entry *found = NULL;
    for (ckpt_str rest = str_c(keys); rest.len && !found;)
        found = config_find(config, str_take_until(&rest, '|'));
    return found;
}

bool config_is_zero(const struct model_config_entry *entry)
{
    if (entry->type != CONFIG_NUMBER)
        return false;
    for (size_t i = 0; i < entry->text.len && entry->text.ptr[i] != 'e' && entry->text.ptr[i] != 'E'; i++)
        if (entry->text.ptr[i] >= '1' && entry->text.ptr[i] <= '9')
            return false;
    return true;
}

bool word_is(const char *words, ckpt_str word)
{
    for (ckpt_str rest = str_c(words); rest.len;)
        if (str_eq(str_take_until(&rest, '|'), word))
            return true;
    return false;
}
