/* config.h - a config.json of transformers: top-level scalars with their values, other entries by key. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum model_config_type { CONFIG_NULL, CONFIG_NUMBER, CONFIG_TEXT, CONFIG_TRUE, CONFIG_FALSE, CONFIG_OTHER };

struct model_config_entry {
    ckpt_str key, text; /* text of the number or string */
    uint8_t type;       /* enum model_config_type */
};

struct model_config {
    const char *path; /* NULL: there is none */
    struct model_config_entry *list;
    size_t n, cap;
};

#define CONFIG_MAX (UINT64_C(16) << 20) /* bytes */
/* config_parse - reads TEXT, that of the file PATH; both live as long as CONFIG. */
ckpt_status config_parse(struct model_config *config, ckpt_str text, const char *path, arena *a,
                         ckpt_error *err);
/* config_read - reads the file at PATH, of at most CONFIG_MAX bytes. */
ckpt_status config_read(struct model_config *config, const char *path, arena *a, ckpt_error *err);
/* config_get - returns the first of KEYS ("n_embd|hidden_size") that exists and is not null, or NULL. */
const struct model_config_entry *config_get(const struct model_config *config, const char *keys);
/* config_find - returns the entry KEY, unless it is null; NULL: there is none. */
const struct model_config_entry *config_find(const struct model_config *config, ckpt_str key);
bool config_is_zero(const struct model_config_entry *entry);
/* word_is - returns true if WORD is one of WORDS, which are separated by '|'. */
bool word_is(const char *words, ckpt_str word);
