#include "find.h"

#include <string.h>

#include "opt.h"

/* Looking is bounded: a hostile graph may offer very many ways to spell a name. */
enum { MAX_DEPTH = 256, MAX_STEPS = 5000000 };

struct search {
    size_t steps;
    struct found *out;
};

void key_text(struct text *t, const ckpt_value *key)
{
    ckpt_value_type type = ckpt_value_get_type(key);
    if (type == CKPT_V_STR || type == CKPT_V_STR8)
        text_name(t, ckpt_value_str(key));
    else
        text_value(t, key, 20);
}

/* The bytes that a path spells KEY with, or the place I in a sequence. */
static ckpt_str spelled(struct text *t, const ckpt_value *key, size_t i)
{
    if (key && ckpt_value_get_type(key) <= CKPT_V_STR8) {
        ckpt_value_type type = ckpt_value_get_type(key);
        if (type == CKPT_V_STR || type == CKPT_V_STR8)
            return ckpt_value_str(key);
    }
    text_clear(t);
    if (key)
        text_value(t, key, 20);
    else
        text_addf(t, "%zu", i);
    return (ckpt_str){t->ptr, t->len};
}

static bool starts(ckpt_str s, ckpt_str with)
{
    return s.len >= with.len && memcmp(s.ptr, with.ptr, with.len) == 0;
}

static bool descend(struct search *s, const ckpt_value *v, ckpt_str rest, unsigned depth)
{
    struct text t = {0};
    const ckpt_value *key, *val;
    bool hit = false;
    for (size_t i = 0; !hit && depth < MAX_DEPTH && s->steps < MAX_STEPS && ckpt_value_item(v, i, &key, &val);
         i++) {
        ckpt_str word = spelled(&t, key, i);
        s->steps++;
        if (!starts(rest, word))
            continue;
        if (rest.len == word.len) {
            *s->out = (struct found){ckpt_value_tensor(val), val};
            hit = true;
        } else if (rest.ptr[word.len] == '.') {
            hit = descend(s, val, (ckpt_str){rest.ptr + word.len + 1, rest.len - word.len - 1}, depth + 1);
        }
    }
    text_free(&t);
    return hit;
}

bool find_path(const ckpt_file *f, ckpt_str name, struct found *out)
{
    struct search s = {0, out};
    const ckpt_value *root = ckpt_file_root(f); /* first: rows have no nodes before */
    uint32_t row = ckpt_tensor_find(f, name);
    ckpt_tensor t;
    if (ckpt_tensor_at(f, row, &t)) {
        *out = (struct found){row, t.value};
        return true;
    }
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(f, i)); i++) {
        if (leaf->name.len == name.len && memcmp(leaf->name.ptr, name.ptr, name.len) == 0) {
            *out = (struct found){CKPT_NO_TENSOR, leaf->value};
            return true;
        }
    }
    return root && descend(&s, root, name, 0);
}

/* The end of NAME that has as many words as there are DOTS and one. */
static const char *last_words(ckpt_str name, size_t dots)
{
    size_t i = name.len;
    for (; i > 0; i--)
        if (name.ptr[i - 1] == '.' && dots-- == 0)
            break;
    return name.ptr + i;
}

ckpt_str find_guess(const ckpt_file *f, const char *name)
{
    ckpt_str best = {0};
    size_t dots = 0;
    int least = INT_MAX;
    for (const char *p = name; *p; p++)
        dots += *p == '.';
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        ckpt_str full = ckpt_tensor_name(f, i);
        if (memchr(full.ptr, 0, full.len))
            continue;
        const char *tail = last_words(full, dots);
        int d = strcmp(name, tail) == 0 ? 0 : opt_guess(name, tail);
        if (d >= 0 && d < least) {
            least = d;
            best = full;
        }
    }
    return best;
}
