#include "metadata.h"

#include <string.h>

#include "out.h"

static const char top[] = "__metadata__";

bool metadata_next(const ckpt_file *f, size_t *i, ckpt_leaf *out)
{
    static struct text name;
    static ckpt_path_elem path[2];
    const ckpt_value *key, *value;
    ckpt_pair m = {0};
    size_t at = *i;
    while (ckpt_metadata_at(f, at, &m) && ckpt_metadata_is_tie(f, at))
        at++;
    *i = at + 1; /* bounded: by the number of pairs */
    if ((ui.root && *ui.root) || !ckpt_value_item(ckpt_file_metadata(f), at, &key, &value))
        return false;
    text_clear(&name);
    text_add(&name, top);
    text_add(&name, ".");
    text_bytes(&name, m.key.ptr, m.key.len);
    path[0] = (ckpt_path_elem){.str = str_of(top)};
    path[1] = (ckpt_path_elem){.str = m.key};
    *out = (ckpt_leaf){.name = {name.ptr, name.len}, .path = path, .npath = 2, .value = value};
    return true;
}

const ckpt_value *metadata_find(const ckpt_file *f, ckpt_str name)
{
    const size_t n = sizeof top - 1;
    const ckpt_value *all = ckpt_file_metadata(f), *key, *value;
    if (!all || (ui.root && *ui.root) || name.len < n || memcmp(name.ptr, top, n) != 0)
        return NULL;
    if (name.len == n)
        return all;
    for (size_t i = 0; name.ptr[n] == '.' && ckpt_value_item(all, i, &key, &value); i++) {
        ckpt_str k = ckpt_value_str(key);
        if (k.len == name.len - n - 1 && memcmp(k.ptr, name.ptr + n + 1, k.len) == 0)
            return value;
    }
    return NULL;
}

void metadata_json(json *to, const ckpt_file *f)
{
    json *list = json_add_array(to, "metadata");
    ckpt_pair m;
    for (size_t i = 0; ckpt_metadata_at(f, i, &m); i++) {
        json *one = json_add_object(list, NULL);
        json_str(one, "key", m.key);
        json_str(one, "value", m.text);
        if (ckpt_metadata_is_tie(f, i))
            json_bool(one, "tie", true);
    }
}
