/* config.c - reads a config.json of transformers. */
#include "op/mem/config.h"

#include "codec/json_scan.h"
#include "io/source.h"

#define CONFIG_MAX (16u << 20)

/* add_entry - adds KEY with the value that begins with event E, and reads J to the end of that value. */
static ckpt_status add_entry(struct mem_config *c, json_scan *j, arena *a, ckpt_str key, enum json_event e)
{
    static const uint8_t types[] = {
        [JSON_STRING] = CONFIG_TEXT, [JSON_NUMBER] = CONFIG_NUMBER, [JSON_TRUE] = CONFIG_TRUE,
        [JSON_FALSE] = CONFIG_FALSE, [JSON_NULL] = CONFIG_NULL,     [JSON_OBJECT] = CONFIG_OTHER,
        [JSON_ARRAY] = CONFIG_OTHER};
    struct mem_config_entry made = {.key = key, .text = j->str, .type = types[e]};
    for (size_t i = 0; i < c->n; i++)
        if (str_eq(c->list[i].key, key))
            return json_fail(j, "the key {%.*s} comes twice", STR_ARG(key));
    c->list = arena_grow(a, c->list, c->n, &c->cap, c->n + 1, sizeof *c->list);
    if (!c->list)
        return fail_memory(j->err);
    c->list[c->n++] = made;
    return json_skip(j, e);
}

static ckpt_status read_entries(struct mem_config *c, json_scan *j, arena *a)
{
    enum json_event e = json_next(j);
    if (e != JSON_OBJECT)
        return json_unexpected(j, e, "a config", "an object");
    while ((e = json_next(j)) == JSON_KEY) {
        ckpt_str key = j->str;
        e = json_next(j);
        if (e == JSON_ERROR)
            return json_unexpected(j, e, "a value", "JSON");
        CKPT_TRY(add_entry(c, j, a, key, e));
    }
    if (e != JSON_OBJECT_END)
        return json_unexpected(j, e, "a key", "text");
    e = json_next(j);
    return e == JSON_END ? CKPT_OK : json_unexpected(j, e, "the config", "one object");
}

ckpt_status config_read(struct mem_config *c, const char *path, arena *a, ckpt_error *err)
{
    ckpt_str text;
    json_scan j;
    CKPT_TRY(source_file_text(path, CONFIG_MAX, a, &text, err));
    json_init(&j, text, 0, a, err);
    c->path = path;
    return fail_name_file(read_entries(c, &j, a), path, err);
}

const struct mem_config_entry *config_get(const struct mem_config *c, const char *keys)
{
    for (const char *at = keys; *at;) {
        size_t len = strcspn(at, "|");
        for (size_t i = 0; i < c->n; i++)
            if (str_eq(c->list[i].key, str_of(at, len)) && c->list[i].type != CONFIG_NULL)
                return &c->list[i];
        at += len + (at[len] == '|');
    }
    return NULL;
}

bool config_is_zero(const struct mem_config_entry *e)
{
    if (e->type != CONFIG_NUMBER)
        return false;
    for (size_t i = 0; i < e->text.len && e->text.ptr[i] != 'e' && e->text.ptr[i] != 'E'; i++)
        if (e->text.ptr[i] >= '1' && e->text.ptr[i] <= '9')
            return false;
    return true;
}

bool word_is(const char *words, ckpt_str word)
{
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, "|");
        if (str_eq(str_of(at, len), word))
            return true;
        at += len + (at[len] == '|');
    }
    return false;
}
