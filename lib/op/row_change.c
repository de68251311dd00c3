/* row_change.c - see row_change.h. */
#include "op/row_change.h"

/* find_entry - returns where the entry that leads to ROW keeps its value, or NULL. The graph is const for its
 * readers, but its nodes are in the arena of the file. */
static ckpt_value **find_entry(const struct row *row)
{
    const struct step *step = row->steps && row->t.npath ? &row->steps[row->t.npath - 1] : NULL;
    uint32_t n = 0;
    const value_pair *pairs = step && step->node ? value_pairs(step->node, &n) : NULL;
    bool leads_there = pairs && step->index < n && pairs[step->index].val == row->t.value;
    return leads_there ? (ckpt_value **)(uintptr_t)&pairs[step->index].val : NULL;
}

/* is_shared - returns true if a row other than NUMBER has the node VALUE. */
static bool is_shared(const ckpt_file *f, uint32_t number, const ckpt_value *value)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (i != number && table_value_of(&f->table, i) == value)
            return true;
    return false;
}

/* replace_node - makes writers of graphs write ROW as the table has it, and not by the call that made it. The
 * node of that call may be the value of other entries, too, which stay. */
static ckpt_status replace_node(ckpt_file *f, uint32_t number, ckpt_error *err)
{
    struct row row = table_row(&f->table, number);
    const ckpt_value *value = row.t.value;
    ckpt_value **entry;
    if (!value || value->type == CKPT_V_TENSOR)
        return CKPT_OK;
    ckpt_value *node = value_new(f->a, CKPT_V_TENSOR, value_offset(value));
    CKPT_TRY_ALLOC(node, err);
    value_set_row(node, number);
    node->flags |= VALUE_ROW;
    entry = find_entry(&row);
    row.t.value = node;
    if (!entry && is_shared(f, number, value))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "\"%.*s\" is one object under several names, of which one cannot be changed alone",
                    STR_ARG(row.t.name));
    if (!entry)
        return file_set_replacement(f, value, node) ? CKPT_OK : fail_memory(err);
    *entry = node;
    return table_replace_row(&f->table, number, &row) ? CKPT_OK : fail_memory(err);
}

/* add_storage - adds the storage of NEW, which becomes the tensor OLD. */
static ckpt_status add_storage(ckpt_file *f, const ckpt_tensor *old, const struct new_tensor *new,
                               uint32_t *index, ckpt_error *err)
{
    struct storage storage = {.src = new->src,
                              .off = new->at,
                              .nbytes = new->nbytes,
                              .key = old->name,
                              .dtype = (uint8_t)new->dtype};
    if (table_set_location(&f->table, &storage, old->location))
        return table_add_storage(&f->table, &storage, index, err);
    source_unref(new->src);
    return fail_memory(err);
}

ckpt_status row_replace(ckpt_file *f, uint32_t row, const struct new_tensor *new, ckpt_error *err)
{
    struct row changed = table_row(&f->table, row);
    ckpt_tensor *t = &changed.t;
    f->rows_changed = true;
    CKPT_TRY(add_storage(f, t, new, &t->storage, err));
    t->dtype = (uint16_t)new->dtype;
    t->kind = CKPT_DENSE;
    t->has_data = 1;
    t->has_shape = 1;
    t->conj = t->neg = 0;
    t->klass = str_of("", 0);
    t->shape = new->shape;
    t->ndim = new->ndim;
    t->stride = new->stride;
    t->elements = new->elements;
    t->nbytes = new->nbytes;
    t->storage_offset = 0;
    t->file_offset = CKPT_NO_OFFSET;
    t->alias_of = CKPT_NO_TENSOR;
    t->note = str_of("", 0);
    return table_replace_row(&f->table, row, &changed) ? replace_node(f, row, err) : fail_memory(err);
}

ckpt_status row_share(ckpt_file *f, uint32_t row, uint32_t of, ckpt_error *err)
{
    struct row shared = table_row(&f->table, row);
    const ckpt_tensor own = shared.t;
    f->rows_changed = true;
    shared.t = table_tensor(&f->table, of);
    shared.t.name = own.name;
    shared.t.path = own.path;
    shared.t.npath = own.npath;
    shared.t.value = own.value;
    shared.t.alias_of = own.alias_of;
    return table_replace_row(&f->table, row, &shared) ? replace_node(f, row, err) : fail_memory(err);
}

/* put_entry - adds to MAPPING a tensor under KEY, which will be the row NUMBER. Returns its node; NULL: no
 * memory. */
static ckpt_value *put_entry(ckpt_file *f, const ckpt_value *mapping, ckpt_str key, uint32_t number)
{
    ckpt_value *node = value_new(f->a, CKPT_V_TENSOR, CKPT_NO_OFFSET), *name = value_str(f->a, key);
    /* the graph is const for its readers, but its nodes are in the arena of the file */
    bool ok = node && name && value_put(f->a, (ckpt_value *)(uintptr_t)mapping, name, node);
    if (!ok)
        return NULL;
    value_set_row(node, number);
    node->flags |= VALUE_ROW;
    return node;
}

ckpt_status row_add(ckpt_plan *p, uint32_t like, ckpt_str key, uint32_t *row, ckpt_error *err)
{
    ckpt_file *f = p->file;
    struct row added = table_row(&f->table, like);
    ckpt_path_elem *path;
    struct step *steps;
    uint32_t depth = added.t.npath, ignored;
    f->rows_changed = true;
    const ckpt_value *mapping = added.steps && depth ? added.steps[depth - 1].node : NULL;
    if (!mapping || !value_pairs(mapping, &ignored))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "\"%.*s\" is in no mapping that can be extended",
                    STR_ARG(added.t.name));
    bool ok = path_of_entry(f->a, mapping, added.t.path, added.steps, depth - 1, key, &path, &steps);
    ckpt_value *node = ok ? put_entry(f, mapping, key, (uint32_t)f->table.nrows) : NULL;
    CKPT_TRY_ALLOC(node, err);
    added.t.path = path;
    added.steps = steps;
    added.t.name = (ckpt_str){0};
    added.t.value = node;
    added.t.alias_of = CKPT_NO_TENSOR;
    added.t.part_of = CKPT_NO_TENSOR;
    CKPT_TRY(table_add_row(&f->table, &added, row, err));
    CKPT_TRY(plan_grow(p, err));
    p->keep[*row] = true;
    if (p->casts.to)
        p->casts.to[*row] = p->casts.to[like];
    if (p->renames.mapping_of)
        p->renames.mapping_of[*row] = UINT32_MAX;
    if (p->renames.old_names)
        p->renames.old_names[*row] = table_name(&f->table, *row);
    return CKPT_OK;
}

ckpt_str row_find_key(const ckpt_plan *p, uint32_t row)
{
    const struct row r = table_row(&p->file->table, row);
    const struct step *step = r.steps && r.t.npath ? &r.steps[r.t.npath - 1] : NULL;
    const struct edit *e = step && step->node ? plan_find_edit(p, step->node) : NULL;
    if (!step || !step->node || r.t.path[r.t.npath - 1].is_int)
        return str_of(NULL, 0);
    return e && step->index < e->n && e->names[step->index].ptr ? e->names[step->index]
                                                                : r.t.path[r.t.npath - 1].str;
}

bool row_find_mapping(const ckpt_plan *p, ckpt_str name, uint32_t *row, size_t *mapping_len)
{
    bool found = false;
    for (size_t i = 0; i < p->nentries; i++) {
        ckpt_str key = row_find_key(p, p->entries[i].row), own = p->entries[i].name;
        bool fits = key.ptr && str_starts(name, str_first(own, own.len - key.len));
        if (!fits || (found && own.len - key.len <= *mapping_len))
            continue;
        found = true;
        *row = p->entries[i].row;
        *mapping_len = own.len - key.len;
    }
    return found;
}

ckpt_status row_check_place(ckpt_plan *p, uint32_t row, ckpt_error *err)
{
    const uint32_t depth = table_npath_of(&p->file->table, row);
    CKPT_TRY(plan_index_entry_rows(p, err));
    const struct step *steps = table_steps_of(&p->file->table, row);
    if (!steps || !depth || !steps[depth - 1].node ||
        !plan_shares_entry(p, steps[depth - 1].node, steps[depth - 1].index))
        return CKPT_OK;
    return fail(
        err, CKPT_EUSAGE, CKPT_NO_OFFSET,
        "\"%.*s\" is in a mapping that the file has under several names\n--root NAME writes one of them",
        STR_ARG(table_name(&p->file->table, row)));
}

ckpt_status rows_find_ties(ckpt_file *f, ckpt_error *err)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        table_set_alias(&f->table, i, CKPT_NO_TENSOR);
    return table_finish(&f->table, err);
}

/* is_replaced - returns true if ROW of F was made by a change, and not by the call in the graph. */
static bool is_replaced(const ckpt_file *f, uint32_t row)
{
    const ckpt_value *value = table_value_of(&f->table, row);
    const ckpt_value *node = value ? file_replacement_of(f, value) : NULL;
    return node && node->type == CKPT_V_TENSOR && node->flags & VALUE_ROW;
}

/* find_owner - sets *ROW to the tensor of which LEAF is an attribute, or to CKPT_NO_TENSOR. */
static ckpt_status find_owner(ckpt_file *f, const ckpt_leaf *leaf, uint32_t *row, ckpt_error *err)
{
    ckpt_str name = leaf->name;
    *row = CKPT_NO_TENSOR;
    while (*row == CKPT_NO_TENSOR && str_after_last(name, '.').len < name.len) {
        name = str_first(name, name.len - str_after_last(name, '.').len - 1);
        *row = file_find_tensor(f, name);
        CKPT_TRY_ALLOC(f->names, err);
    }
    return CKPT_OK;
}

ckpt_status rows_note_lost_attributes(ckpt_plan *p, bool strict, ckpt_error *err)
{
    ckpt_file *f = p->file;
    for (size_t i = 0; f->rows_changed && i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        uint32_t row = CKPT_NO_TENSOR;
        if (plan_includes_leaf(p, leaf))
            CKPT_TRY(find_owner(f, leaf, &row, err));
        if (row == CKPT_NO_TENSOR || !p->keep[row] || !is_replaced(f, row))
            continue;
        if (strict)
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "\"%.*s\" is an attribute of a tensor that was changed\n"
                        "without --strict it is left out and listed",
                        STR_ARG(leaf->name));
        CKPT_TRY(plan_note_dropped(p, leaf, "attribute of a tensor that was changed", err));
    }
    return CKPT_OK;
}
