/* adapters.c - see adapters.h. */
#include "op/adapters.h"

#include "base/buf.h"

enum order { RANK_FIRST, EITHER };

static const struct {
    const char *down, *up;
    enum order order;
} pairs[] = {
#define ADAPTER(down, up, order) {down, up, order},
#include "op/adapters.def"
#undef ADAPTER
};

/* find_components - returns where WORD is in NAME: complete components, or the end of one after a '_', as in
 * "to_q_lora.down.weight". SIZE_MAX: nowhere. */
static size_t find_components(ckpt_str name, ckpt_str word)
{
    size_t at = str_find(name, word, 0);
    for (; at != SIZE_MAX; at = str_find(name, word, at + 1)) {
        size_t end = at + word.len;
        bool begins = !at || name.ptr[at - 1] == '.' || name.ptr[at - 1] == '_';
        if (begins && (end == name.len || name.ptr[end] == '.'))
            break;
    }
    return at;
}

/* get_rank - returns the rank of the matrices DOWN and UP, the dimension that both have; 0: there is none. In
 * torch, DOWN has it first and UP second; in mlx, the other way round. */
static uint64_t get_rank(const ckpt_tensor *down, const ckpt_tensor *up, enum order order)
{
    if (down->ndim < 2 || up->ndim < 2)
        return 0;
    uint64_t first = down->shape[0] == up->shape[1] ? down->shape[0] : 0,
             second = order == EITHER && down->shape[1] == up->shape[0] ? down->shape[1] : 0;
    if (first && second) /* the weight is square */
        return first < second ? first : second;
    return first ? first : second;
}

/* has_adapter_word - returns true if ADAPTER_WORD is in NAME. For so few bytes, memmem is slower. */
static bool has_adapter_word(ckpt_str name)
{
    const size_t length = sizeof ADAPTER_WORD - 1;
    for (const char *p = name.ptr; name.len >= length && p <= name.ptr + name.len - length; p++)
        if (memcmp(p, ADAPTER_WORD, length) == 0)
            return true;
    return false;
}

/* add_pair - counts DOWN in OUT if it is the first tensor of a pair. NAME is for the name of the other. */
static void add_pair(ckpt_file *file, const ckpt_tensor *down, buf *name, ckpt_adapter *out)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t at = find_components(down->name, str_c(pairs[i].down));
        if (at == SIZE_MAX)
            continue;
        name->len = 0;
        buf_put_str(name, str_of(down->name.ptr, at));
        buf_put_str(name, str_c(pairs[i].up));
        buf_put_str(name, str_skip(down->name, at + strlen(pairs[i].down)));
        uint32_t row = buf_ok(name) ? file_find_tensor(file, buf_view(name)) : CKPT_NO_TENSOR;
        const ckpt_tensor up = row != CKPT_NO_TENSOR ? table_tensor(&file->table, row) : (ckpt_tensor){0};
        uint64_t rank = row != CKPT_NO_TENSOR ? get_rank(down, &up, pairs[i].order) : 0;
        if (!rank)
            continue;
        out->rank_min = !out->modules || rank < out->rank_min ? rank : out->rank_min;
        out->rank_max = rank > out->rank_max ? rank : out->rank_max;
        out->modules++;
        return;
    }
}

ckpt_status adapters_find(ckpt_file *file, ckpt_adapter *out, ckpt_error *err)
{
    buf name;
    bool ok = true;
    buf_init(&name, SIZE_MAX / 2);
    *out = (ckpt_adapter){0};
    for (size_t i = 0; i < file->table.nrows && ok; i++) {
        if (table_part_of(&file->table, i) != CKPT_NO_TENSOR ||
            !has_adapter_word(table_name(&file->table, i)))
            continue;
        const ckpt_tensor t = table_tensor(&file->table, i);
        if ((ok = file_index_names(file)))
            add_pair(file, &t, &name, out);
    }
    ok = ok && buf_ok(&name);
    buf_free(&name);
    return ok ? CKPT_OK : fail_memory(err);
}
