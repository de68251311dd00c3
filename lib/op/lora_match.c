/* lora_match.c - see lora_match.h. */
#include "op/lora_match.h"

#include <stdlib.h>

#include "base/buf.h"

#define WEIGHT STR_LIT(".weight")

/* skip_component - returns NAME after its first dot; .ptr NULL: it has none. */
static ckpt_str skip_component(ckpt_str name)
{
    size_t dot = str_find(name, STR_LIT("."), 0);
    return dot == SIZE_MAX ? str_of(NULL, 0) : str_skip(name, dot + 1);
}

/* put_suffix - adds ENTRY under KEY, or notes that several have it. */
static bool put_suffix(map *suffixes, ckpt_str key, uint32_t entry, map *several)
{
    uint32_t old;
    return map_put(suffixes, key, entry, &old) &&
           (old == MAP_NONE || old == entry || map_put(several, key, entry, NULL));
}

ckpt_status lora_index_init(struct lora_index *index, ckpt_plan *p, ckpt_error *err)
{
    uint32_t old;
    *index = (struct lora_index){.p = p};
    CKPT_TRY(plan_update_entries(p, err));
    index->names = map_new(p->nentries);
    index->suffixes = map_new(p->nentries);
    index->several = map_new(0);
    CKPT_TRY_ALLOC(index->names && index->suffixes && index->several, err);
    for (uint32_t i = 0; i < p->nentries; i++) {
        ckpt_str name = p->entries[i].name;
        CKPT_TRY_ALLOC(map_put(index->names, name, i, &old), err);
        if (old != MAP_NONE)
            return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors are called \"%.*s\"", STR_ARG(name));
        for (ckpt_str end = skip_component(name); end.ptr; end = skip_component(end))
            CKPT_TRY_ALLOC(put_suffix(index->suffixes, end, i, index->several), err);
    }
    return CKPT_OK;
}

void lora_index_free(struct lora_index *index)
{
    map_free(index->names);
    map_free(index->suffixes);
    map_free(index->several);
    map_free(index->underscored);
}

/* underscore - returns a copy of TEXT with underscores in place of dots; .ptr NULL: no memory. */
static ckpt_str underscore(arena *a, ckpt_str text)
{
    char *copy = arena_alloc_text(a, text.len + 1);
    for (size_t i = 0; copy && i < text.len; i++)
        copy[i] = (char)(text.ptr[i] == '.' ? '_' : text.ptr[i]);
    return str_of(copy, text.len);
}

/* index_underscored - makes INDEX->underscored. */
static ckpt_status index_underscored(struct lora_index *index, ckpt_error *err)
{
    ckpt_plan *p = index->p;
    index->underscored = map_new(p->nentries);
    CKPT_TRY_ALLOC(index->underscored, err);
    for (uint32_t i = 0; i < p->nentries; i++) {
        ckpt_str name = p->entries[i].name, text;
        if (!str_ends(name, WEIGHT))
            continue;
        name.len -= WEIGHT.len;
        text = underscore(p->a, name);
        CKPT_TRY_ALLOC(text.ptr, err);
        for (ckpt_str end = name; end.ptr; end = skip_component(end))
            CKPT_TRY_ALLOC(
                put_suffix(index->underscored, str_skip(text, name.len - end.len), i, index->several), err);
    }
    return CKPT_OK;
}

/* get - returns the entry whose name is KEY or, in MAP, ends in KEY. */
static uint32_t get(const struct lora_index *index, const map *suffixes, ckpt_str key)
{
    uint32_t entry = suffixes == index->suffixes ? map_get(index->names, key) : MAP_NONE;
    if (entry == MAP_NONE)
        entry = map_get(suffixes, key);
    else
        return entry;
    return entry != MAP_NONE && map_get(index->several, key) != MAP_NONE ? LORA_SEVERAL : entry;
}

/* set_found - sets *OUT to ENTRY, of whose name TAIL bytes are common; of the adapter's MODULE, STRIP
 * bytes come before them. */
static void set_found(const struct lora_index *index, uint32_t entry, ckpt_str module, size_t strip,
                      size_t tail, struct lora_found *out)
{
    *out = (struct lora_found){.entry = entry};
    if (entry == MAP_NONE || entry == LORA_SEVERAL)
        return;
    ckpt_str name = index->p->entries[entry].name;
    out->strip = str_first(module, strip);
    out->add = str_first(name, name.len - tail);
}

/* find_underscored - finds NAME, whose module has underscores in place of dots. */
static ckpt_status find_underscored(struct lora_index *index, const struct lora_name *name,
                                    struct lora_found *out, ckpt_error *err)
{
    ckpt_str key = str_skip(name->module, name->component.len);
    if (!index->underscored)
        CKPT_TRY(index_underscored(index, err));
    set_found(index, get(index, index->underscored, key), name->module, name->component.len,
              key.len + WEIGHT.len, out);
    return CKPT_OK;
}

ckpt_status lora_find(struct lora_index *index, const struct lora_name *name, const char *suffix,
                      struct lora_found *out, ckpt_error *err)
{
    buf text;
    const size_t suffix_len = strlen(suffix);
    uint32_t entry = MAP_NONE;
    size_t tail = 0;
    if (name->is_underscored)
        return find_underscored(index, name, out, err);
    buf_init(&text, SIZE_MAX / 2);
    buf_put_str(&text, name->module);
    buf_put_str(&text, str_c(suffix));
    const bool ok = buf_ok(&text);
    const ckpt_str all = ok ? buf_view(&text) : str_of(NULL, 0);
    for (ckpt_str end = all; end.ptr && entry == MAP_NONE && end.len > suffix_len;
         end = skip_component(end)) {
        if (!suffix_len && end.len < all.len && !str_has(end, STR_LIT(".")))
            break; /* "weight" alone is no name of a module */
        entry = get(index, index->suffixes, end);
        tail = end.len;
    }
    set_found(index, entry, name->module, all.len - tail, tail, out);
    buf_free(&text);
    return ok ? CKPT_OK : fail_memory(err);
}
