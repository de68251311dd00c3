/* config.h - a config.json of transformers: top-level scalars with their values, other entries by key. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum mem_config_type { CONFIG_NULL, CONFIG_NUMBER, CONFIG_TEXT, CONFIG_TRUE, CONFIG_FALSE, CONFIG_OTHER };

struct mem_config_entry {
    ckpt_str key, text; /* text of the number or string */
    uint8_t type;       /* enum mem_config_type */
};

struct mem_config {
    const char *path; /* NULL: there is none */
    struct mem_config_entry *list;
    size_t n, cap;
};

/* config_read - reads the file at PATH, at most 16 MiB. */
ckpt_status config_read(struct mem_config *config, const char *path, arena *a, ckpt_error *err);
/* config_get - returns the first of KEYS ("n_embd|hidden_size") that exists and is not null, or NULL. */
const struct mem_config_entry *config_get(const struct mem_config *config, const char *keys);
bool config_is_zero(const struct mem_config_entry *entry);
/* word_is - returns true if WORD is one of WORDS, which are separated by '|'. */
bool word_is(const char *words, ckpt_str word);
