/* collect.c - collects the parameters and buffers of a file, which are the rows of its weights, and sums up
 * the states of the optimizer that is saved with them. */
#include "mem/model.h"
#include "op/root.h"
#include "op/weights.h"

static bool is_buffer_name(ckpt_str name)
{
    static const ckpt_str globs[] = {
#define BUFFER(glob) {glob, sizeof(glob) - 1},
#include "mem/buffers.def"
#undef BUFFER
    };
    for (size_t i = 0; i < sizeof globs / sizeof *globs; i++)
        if (ckpt_glob_match(globs[i], name))
            return true;
    return false;
}

/* is_trainable_dtype - returns true if DTYPE is a real or complex floating-point type of at least 16 bits. */
static bool is_trainable_dtype(uint16_t dtype)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)dtype);
    return (d->klass == 'f' || d->klass == 'c') && !d->is_small;
}

/* refuse_row - fails because TENSOR is of a dtype that cannot be trained. */
static ckpt_status refuse_row(const ckpt_tensor *tensor, ckpt_error *err)
{
    const char *dtype = ckpt_tensor_dtype_name(tensor), *kind = ckpt_kind_name((ckpt_kind)tensor->kind);
    bool dense = tensor->kind == CKPT_DENSE;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "%.*s is {%s}%s%s: not trained as it is\n"
                "give the model before it was quantized, or --root of its weights",
                STR_ARG(tensor->name), dense ? dtype : kind, dense ? "" : " of ", dense ? "" : dtype);
}

/* add_row - adds TENSOR as the tensor NAME. Ignores rows that are not tensors of numbers. */
static ckpt_status add_row(ckpt_mem *mem, const ckpt_tensor *tensor, ckpt_str name, ckpt_error *err)
{
    unsigned bits = ckpt_dtype_bits((ckpt_dtype)tensor->dtype);
    struct mem_tensor *t = &mem->tensors[mem->ntensors];
    bool is_unknown = tensor->dtype == CKPT_DT_NAMED || tensor->dtype == CKPT_DT_NONE;
    bool is_wide = dtype_is_number((ckpt_dtype)tensor->dtype) &&
                   !dtype_info((ckpt_dtype)tensor->dtype)->is_small;
    if (tensor->kind == CKPT_QUANTIZED || !(is_wide || is_unknown))
        return refuse_row(tensor, err);
    if (!tensor->has_shape || bits < 8)
        return CKPT_OK; /* uninitialized, nested, not numbers: never a parameter */
    uint64_t *shape = arena_array(mem->a, tensor->ndim, sizeof *shape);
    *t = (struct mem_tensor){.name = arena_str(mem->a, name),
                             .shape = shape,
                             .ndim = tensor->ndim,
                             .item_bytes = bits / 8,
                             .elements = tensor->elements};
    CKPT_TRY_ALLOC(t->name.ptr && shape, err);
    memcpy(shape, tensor->shape, tensor->ndim * sizeof *shape);
    t->is_integer = !is_trainable_dtype(tensor->dtype);
    if (t->is_integer && str_ends(name, STR_LIT(".weight")))
        return refuse_row(tensor, err);
    t->is_buffer = t->is_integer || is_buffer_name(name);
    mem->ntensors++;
    return CKPT_OK;
}

/* add_state - adds the bytes of state TENSOR to the group of its parameter, whose number is the key
 * TENSOR->path[COUNT]. */
static void add_state(struct mem_own_optimizer *own, const map *group_of, const ckpt_tensor *tensor,
                      uint32_t count)
{
    const ckpt_path_elem *key = &tensor->path[count];
    uint32_t g = key->is_int ? map_get_num(group_of, (uint64_t)key->num) : MAP_NONE;
    own->bytes = size_add(own->bytes, tensor->nbytes);
    if (g != MAP_NONE)
        own->groups[g].bytes = size_add(own->groups[g].bytes, tensor->nbytes);
}

/* index_parameters - adds the numbers in PARAMS, the parameters of group GROUP, to GROUP_OF; a number that is
 * in several groups belongs to the first. */
static ckpt_status index_parameters(map *group_of, const ckpt_value *params, uint32_t group, ckpt_error *err)
{
    const ckpt_value *val, *unused_key;
    for (uint32_t i = 0; params && ckpt_value_item(params, i, &unused_key, &val); i++) {
        bool is_number = ckpt_value_get_type(val) == CKPT_V_INT;
        uint64_t number = is_number ? (uint64_t)ckpt_value_int(val) : 0;
        if (is_number && map_get_num(group_of, number) == MAP_NONE &&
            !map_put_num(group_of, number, group, NULL))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* make_groups - makes the groups of the optimizer NODE, and sets GROUP_OF by the number of each parameter;
 * add_state adds their bytes. */
static ckpt_status make_groups(ckpt_mem *mem, const ckpt_value *node, map *group_of, ckpt_error *err)
{
    const ckpt_value *list = mapping_get(node, "param_groups");
    size_t n = list ? ckpt_value_count(list) : 0;
    mem->file_optimizer.groups = arena_array(mem->a, n, sizeof *mem->file_optimizer.groups);
    CKPT_TRY_ALLOC(mem->file_optimizer.groups, err);
    for (mem->file_optimizer.ngroups = 0; mem->file_optimizer.ngroups < n; mem->file_optimizer.ngroups++) {
        const ckpt_value *params = mapping_get(value_item(list, (uint32_t)mem->file_optimizer.ngroups),
                                               "params");
        ckpt_mem_group *g = &mem->file_optimizer.groups[mem->file_optimizer.ngroups];
        g->parameters = params ? ckpt_value_count(params) : 0;
        CKPT_TRY(index_parameters(group_of, params, (uint32_t)mem->file_optimizer.ngroups, err));
    }
    return CKPT_OK;
}

/* collect_optimizer - sets MEM->file_optimizer from the first optimizer of FILE, if INFO names one. */
static ckpt_status collect_optimizer(ckpt_mem *mem, ckpt_file *file, const ckpt_info *info, ckpt_error *err)
{
    struct containers tree;
    uint32_t npath = 0, at = 0;
    if (!info->optimizer.len || !file->root)
        return CKPT_OK;
    mem->file_optimizer.title = arena_str(mem->a, info->optimizer);
    map *group_of = map_new(0);
    ckpt_status st = containers_find(&tree, file, file->root, mem->a, err);
    if (st == CKPT_OK && !group_of)
        st = fail_memory(err);
    while (st == CKPT_OK && at < tree.n && !tree.list[at].is_optimizer)
        at++;
    const ckpt_path_elem *path = st == CKPT_OK && at < tree.n ? container_path(&tree, at, &npath) : NULL;
    if (st == CKPT_OK && path)
        st = make_groups(mem, tree.list[at].node, group_of, err);
    for (size_t i = 0; st == CKPT_OK && path && i < file->table.nrows; i++) {
        const ckpt_tensor r = table_tensor(&file->table, i);
        if (r.alias_of == CKPT_NO_TENSOR && r.part_of == CKPT_NO_TENSOR && r.npath > npath + 1 &&
            path_begins(r.path, r.npath, path, npath) && !r.path[npath].is_int &&
            str_is(r.path[npath].str, "state"))
            add_state(&mem->file_optimizer, group_of, &r, npath + 1);
    }
    map_free(group_of);
    containers_free(&tree);
    return st;
}

ckpt_status mem_collect(ckpt_mem *mem, ckpt_file *file, const char *root, ckpt_error *err)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    struct root weights;
    CKPT_TRY(ckpt_inspect(file, &info, err));
    if (!root && !file->narrowed && info.has_weights)
        root = "auto";
    CKPT_TRY(root_find(file, root, &weights, err));
    size_t nrows = file->table.nrows;
    mem->tensors = arena_array(mem->a, nrows, sizeof *mem->tensors);
    /* [i]: the first tensor that has the bytes of row i */
    struct mem_tensor **first_tensor = arena_array(mem->a, nrows, sizeof *first_tensor);
    CKPT_TRY_ALLOC(mem->tensors && first_tensor, err);
    for (size_t i = 0; i < nrows; i++) {
        const ckpt_tensor r = table_tensor(&file->table, i);
        struct mem_tensor *t = &mem->tensors[mem->ntensors];
        size_t first_row = r.alias_of != CKPT_NO_TENSOR ? r.alias_of : i;
        if (r.part_of != CKPT_NO_TENSOR || name_state(r.name) != CKPT_STATE_NONE ||
            !root_contains(&weights, r.name, r.path, r.npath))
            continue;
        CKPT_TRY(add_row(mem, &r, weights.name.len ? str_skip(r.name, weights.name.len + 1) : r.name, err));
        t->tied_to = first_tensor[first_row];
        bool was_added = t < &mem->tensors[mem->ntensors];
        if (!first_tensor[first_row] && was_added)
            first_tensor[first_row] = t;
    }
    mem->in_parameter_order = !file->dots_are_literal;
    return collect_optimizer(mem, file, &info, err);
}
