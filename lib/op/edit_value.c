/* edit_value.c - `set NAME = VALUE` of what is not a tensor: replaces a number, text, bool or None in the
 * graph of the file, or adds one to a dict. */
#include <inttypes.h>

#include "core/view.h"
#include "op/containers.h"
#include "op/edit.h"

/* ------------------------------------------------------------------------------- values */

/* make_value - sets *OUT to the value of the rule. */
static ckpt_status make_value(const struct editor *editor, ckpt_value **out, ckpt_error *err)
{
    const struct rule_value *value = &editor->rule->value;
    arena *a = editor->a;
    ckpt_str digits = value->text.text;
    uint64_t number = 0;
    bool is_negative = str_take(&digits, STR_LIT("-"));
    (void)str_uint(digits, &number); /* it is one if the value is an integer */
    switch (value->kind) {
    case RULE_VALUE_BOOL: *out = value_bool(a, value->is_true); break;
    case RULE_VALUE_INT:
        *out = is_negative ? value_int(a, (int64_t)(0 - number)) : value_uint(a, number);
        break;
    case RULE_VALUE_FLOAT: *out = value_float(a, value->number); break;
    case RULE_VALUE_TEXT: *out = value_str(a, arena_str(a, digits)); break;
    default: *out = value_new(a, CKPT_V_NONE, CKPT_NO_OFFSET); break;
    }
    CKPT_TRY_ALLOC(*out, err);
    (*out)->flags |= VALUE_BY_RULE;
    return CKPT_OK;
}

/* is_replaceable - returns true if VALUE is of a type that values in rules have. */
static bool is_replaceable(const ckpt_value *value)
{
    switch (value->type) {
    case CKPT_V_NONE:
    case CKPT_V_BOOL:
    case CKPT_V_INT:
    case CKPT_V_BIGINT:
    case CKPT_V_FLOAT:
    case CKPT_V_STR:
    case CKPT_V_STR8: return true;
    default: return false;
    }
}

/* fail_value - fails as rule_fail does, because of the value NAME, at the name in the rule. */
static ckpt_status fail_value(const struct editor *editor, ckpt_str name, const char *what, ckpt_error *err)
{
    return rule_fail(editor->rule->names[0].place, err, "\"%.*s\" %s", STR_ARG(name), what);
}

static ckpt_status fail_type(const struct editor *editor, ckpt_str name, const ckpt_value *value,
                             ckpt_error *err)
{
    char type[128];
    return rule_fail(editor->rule->names[0].place, err,
                     "\"%.*s\" is of type {%s}; {=numbers, texts, bools and None} can be set", STR_ARG(name),
                     ckpt_value_type_name(value, type, sizeof type));
}

/* note_value - adds VALUE, called NAME, to the report. */
static ckpt_status note_value(struct editor *editor, ckpt_str name, const ckpt_value *value, bool is_made,
                              ckpt_error *err)
{
    struct plan_report *report = &editor->p->report;
    const ckpt_edited note = {.step = (uint32_t)report->nedit_steps - 1,
                              .application = editor->napplied,
                              .is_made = is_made,
                              .name = name,
                              .value = value};
    return ARENA_PUSH(editor->p->a, report, edited, &note) ? CKPT_OK : fail_memory(err);
}

/* ---------------------------------------------------------------------------- replacing */

static bool is_key(const ckpt_value *key, const ckpt_path_elem *elem)
{
    ckpt_str text;
    int64_t number;
    if (value_text(key, &text))
        return !elem->is_int && !elem->is_other && str_eq(text, elem->str);
    return elem->is_int && value_integer(key, &number) && number == elem->num;
}

/* find_pair_slot - returns where the pair of MAPPING with the key ELEM keeps VALUE; NULL: there is none. The
 * graph is const for its readers, but its nodes are in the arena of the file. */
static const ckpt_value **find_pair_slot(const ckpt_value *mapping, const ckpt_path_elem *elem,
                                         const ckpt_value *value)
{
    uint32_t n = 0;
    const value_pair *pairs = mapping ? value_pairs(mapping, &n) : NULL;
    for (uint32_t i = pairs ? n : 0; COUNT_DOWN(i);)
        if (pairs[i].val == value && is_key(pairs[i].key, elem))
            return (const ckpt_value **)(uintptr_t)&pairs[i].val;
    return NULL;
}

/* find_slot - returns where the element NUMBER of LEAF's path keeps VALUE: in a dict, a list, a tuple, or the
 * attributes of an object. NULL: elsewhere. */
static const ckpt_value **find_slot(const ckpt_leaf *leaf, uint32_t number, const ckpt_value *value)
{
    const ckpt_value *container = leaf->containers ? leaf->containers[number] : NULL;
    const ckpt_path_elem *elem = &leaf->path[number];
    if (!container)
        return NULL;
    const ckpt_value **slot = find_pair_slot(container, elem, value);
    if (!slot && container->type == CKPT_V_CALL)
        slot = find_pair_slot(value_state(container), elem, value);
    bool is_list = container->type == CKPT_V_LIST || container->type == CKPT_V_TUPLE;
    bool is_item = is_list && elem->is_int && elem->num >= 0 && elem->num < value_count(container) &&
                   value_item(container, (uint32_t)elem->num) == value;
    return is_item ? (const ckpt_value **)&container->u.seq.items[elem->num] : slot;
}

/* own_tuple - gives LEAF, whose value is in a tuple of such values, a tuple of its own: as one cannot be
 * changed in Python, objects that have the same one need not have the same afterwards. */
static ckpt_status own_tuple(const struct editor *editor, ckpt_leaf *leaf, ckpt_error *err)
{
    const ckpt_file *f = editor->p->file;
    uint32_t depth = leaf->npath - 1;
    const ckpt_value *tuple = leaf->containers ? leaf->containers[depth] : NULL;
    if (!tuple || tuple->type != CKPT_V_TUPLE || !depth)
        return CKPT_OK;
    const ckpt_value **slot = find_slot(leaf, depth - 1, tuple);
    for (uint32_t i = 0; i < value_count(tuple); i++)
        if (!slot || !is_replaceable(value_item(tuple, i)))
            return CKPT_OK;
    const ckpt_value *copy = value_tuple(editor->a, value_count(tuple), tuple->u.seq.items);
    CKPT_TRY_ALLOC(copy, err);
    *slot = copy;
    for (size_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *other = &f->leaves[i];
        if (other->containers && other->npath == depth + 1 &&
            path_begins(other->path, other->npath, leaf->path, depth))
            ((const ckpt_value **)(uintptr_t)other->containers)[depth] = copy;
    }
    return CKPT_OK;
}

/* is_same_place - returns true if two leaves are one entry of one container, which has several names. */
static bool is_same_place(const ckpt_leaf *left, const ckpt_leaf *right)
{
    if (!left->containers || !right->containers || !left->npath || !right->npath)
        return false;
    const ckpt_path_elem *a = &left->path[left->npath - 1], *b = &right->path[right->npath - 1];
    return right->containers[right->npath - 1] == left->containers[left->npath - 1] &&
           a->is_int == b->is_int && a->num == b->num && str_eq(a->str, b->str);
}

/* edit_key - sets *OUT to element NUMBER of LEAF's path, as text, after the edits of the plan. */
static ckpt_status edit_key(const struct editor *editor, const ckpt_leaf *leaf, uint32_t number,
                            ckpt_str *out, ckpt_error *err)
{
    const ckpt_value *container = leaf->containers ? leaf->containers[number] : NULL;
    const ckpt_value *value = number + 1 == leaf->npath ? leaf->value
                              : container               ? leaf->containers[number + 1]
                                                        : NULL;
    uint32_t n = 0;
    const value_pair *pairs = container && plan_find_edit(editor->p, container) ? value_pairs(container, &n)
                                                                                : NULL;
    const ckpt_value **slot = pairs ? find_pair_slot(container, &leaf->path[number], value) : NULL;
    *out = str_of(NULL, 0);
    for (uint32_t i = 0; slot && i < n; i++)
        if (slot == (const ckpt_value **)(uintptr_t)&pairs[i].val)
            (void)plan_edit_entry(editor->p, container, i, out);
    if (!out->ptr)
        *out = path_join(editor->a, &leaf->path[number], 1);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

/* get_leaf_name - sets *OUT to the name of LEAF below the root of the plan, after its edits. */
static ckpt_status get_leaf_name(const struct editor *editor, const ckpt_leaf *leaf, ckpt_str *out,
                                 ckpt_error *err)
{
    uint32_t first = editor->p->root_depth;
    *out = leaf->name;
    if (!first && !editor->p->edits.n)
        return CKPT_OK;
    *out = STR_LIT("");
    for (uint32_t i = first; i < leaf->npath; i++) {
        ckpt_str key;
        CKPT_TRY(edit_key(editor, leaf, i, &key, err));
        *out = ARENA_CONCAT(editor->a, *out, str_c(i > first ? "." : ""), key);
        CKPT_TRY_ALLOC(out->ptr, err);
    }
    return CKPT_OK;
}

/* check_places - refuses if LEAF is in an object that has several names, one of which the rule does not
 * match. */
static ckpt_status check_places(const struct editor *editor, const ckpt_leaf *leaf, ckpt_error *err)
{
    const ckpt_file *f = editor->p->file;
    struct name_span bound[NAME_VARIABLES];
    bool matches;
    for (size_t i = 0; i < f->nleaves; i++) {
        ckpt_str name;
        if (&f->leaves[i] == leaf || !is_same_place(leaf, &f->leaves[i]))
            continue;
        CKPT_TRY(get_leaf_name(editor, &f->leaves[i], &name, err));
        CKPT_TRY(name_pattern_match(editor->pattern, name, bound, &matches, err));
        if (!matches)
            return rule_fail(editor->rule->names[0].place, err,
                             "\"%.*s\" is in an object that has several names: it is \"%.*s\", too\n"
                             "a pattern that matches them all sets it",
                             STR_ARG(leaf->name), STR_ARG(name));
    }
    return CKPT_OK;
}

static ckpt_status replace_leaf(struct editor *editor, ckpt_leaf *leaf, ckpt_str name, ckpt_error *err)
{
    const ckpt_file *f = editor->p->file;
    ckpt_value *value;
    if (!is_replaceable(leaf->value))
        return fail_type(editor, name, leaf->value, err);
    CKPT_TRY(own_tuple(editor, leaf, err));
    CKPT_TRY(check_places(editor, leaf, err));
    const ckpt_value **slot = leaf->npath ? find_slot(leaf, leaf->npath - 1, leaf->value) : NULL;
    if (!slot)
        return fail_value(editor, name, "is in no dict, list or attribute of an object", err);
    CKPT_TRY(make_value(editor, &value, err));
    CKPT_TRY(note_value(editor, name, leaf->value, false, err));
    CKPT_TRY(note_value(editor, name, value, true, err));
    editor->napplied++;
    editor->nvalues++;
    *slot = value;
    for (size_t i = 0; i < f->nleaves; i++)
        if (is_same_place(leaf, &f->leaves[i]))
            f->leaves[i].value = value;
    leaf->value = value;
    return CKPT_OK;
}

static ckpt_status add_taken(struct editor *editor, ckpt_str name, ckpt_error *err)
{
    return name.ptr && map_put(editor->taken, name, 0, NULL) ? CKPT_OK : fail_memory(err);
}

ckpt_status edit_index_taken(struct editor *editor, ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    const ckpt_file *f = p->file;
    struct containers tree;
    editor->taken = map_new(f->nleaves);
    CKPT_TRY_ALLOC(editor->taken, err);
    for (size_t i = 0; i < f->nleaves; i++) {
        ckpt_str name;
        if (!plan_includes_leaf(p, &f->leaves[i]))
            continue;
        CKPT_TRY(get_leaf_name(editor, &f->leaves[i], &name, err));
        CKPT_TRY(add_taken(editor, name, err));
    }
    if (!p->root)
        return CKPT_OK;
    ckpt_status st = containers_find(&tree, f, p->root, editor->scratch, err);
    for (uint32_t i = 1; st == CKPT_OK && i < tree.n; i++)
        st = add_taken(editor, container_name(&tree, i), err);
    containers_free(&tree);
    return st;
}

ckpt_status edit_replace_values(struct editor *editor, ckpt_error *err)
{
    const ckpt_file *f = editor->p->file;
    struct name_span bound[NAME_VARIABLES];
    bool matches;
    for (size_t i = 0; i < f->nleaves; i++) {
        ckpt_str name;
        if (!plan_includes_leaf(editor->p, &f->leaves[i]))
            continue;
        CKPT_TRY(get_leaf_name(editor, &f->leaves[i], &name, err));
        CKPT_TRY(name_pattern_match(editor->pattern, name, bound, &matches, err));
        if (matches)
            CKPT_TRY(replace_leaf(editor, &editor->p->file->leaves[i], name, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------- adding */

/* find_container - sets *OUT to the container called NAME, empty for the root; NO_CONTAINER: there is
 * none, or several. */
static ckpt_status find_container(const struct containers *tree, ckpt_str name, uint32_t *out,
                                  ckpt_error *err)
{
    size_t found = 0;
    *out = NO_CONTAINER;
    for (size_t i = 0; i < tree->n; i++) {
        ckpt_str own = container_name(tree, (uint32_t)i);
        CKPT_TRY_ALLOC(own.ptr, err);
        if (str_eq(own, name) && (i == 0 || name.len)) {
            *out = (uint32_t)i;
            found++;
        }
    }
    *out = found == 1 ? *out : NO_CONTAINER;
    return CKPT_OK;
}

/* is_shared - returns true if the file has container INDEX, or one around it, under several names. */
static bool is_shared(const struct containers *tree, uint32_t index)
{
    bool shared = false;
    for (; index != NO_CONTAINER && !shared; index = tree->list[index].parent)
        shared = tree->list[index].parent != NO_CONTAINER && tree->list[index].node->flags & VALUE_SHARED;
    return shared;
}

/* make_leaf_path - sets *PATH to that of KEY in container INDEX, from the root of the file, and
 * *CONTAINERS to the containers on it; those above the root of the plan are that root. */
static ckpt_status make_leaf_path(const struct editor *editor, const struct containers *tree, uint32_t index,
                                  ckpt_str key, ckpt_leaf *out, ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    uint32_t n = 0;
    const ckpt_path_elem *below = container_path(tree, index, &n);
    CKPT_TRY_ALLOC(below, err);
    out->npath = p->root_depth + n + 1;
    ckpt_path_elem *path = arena_array(editor->a, out->npath, sizeof *path);
    const ckpt_value **containers = arena_array(editor->a, out->npath, sizeof *containers);
    CKPT_TRY_ALLOC(path && containers, err);
    if (p->root_depth)
        memcpy(path, p->root_path, p->root_depth * sizeof *path);
    if (n)
        memcpy(path + p->root_depth, below, n * sizeof *path);
    path[out->npath - 1] = (ckpt_path_elem){.str = key};
    for (uint32_t i = out->npath; COUNT_DOWN(i);) {
        containers[i] = tree->list[index].node;
        index = tree->list[index].parent != NO_CONTAINER ? tree->list[index].parent : index;
    }
    out->path = path;
    out->containers = containers;
    return CKPT_OK;
}

/* put_value - adds the value of the rule to container INDEX of TREE under KEY; its name is NAME. */
static ckpt_status put_value(struct editor *editor, const struct containers *tree, uint32_t index,
                             ckpt_str key, ckpt_str name, ckpt_error *err)
{
    ckpt_file *f = editor->p->file;
    ckpt_value *value, *key_node = value_str(editor->a, key);
    /* the graph is const for its readers, but its nodes are in the arena of the file */
    ckpt_value *mapping = (ckpt_value *)(uintptr_t)tree->list[index].node;
    ckpt_leaf leaf = {.npath = 0};
    CKPT_TRY_ALLOC(key_node, err);
    CKPT_TRY(make_value(editor, &value, err));
    CKPT_TRY(make_leaf_path(editor, tree, index, key, &leaf, err));
    CKPT_TRY(file_add_leaf(f, leaf.path, leaf.npath, value, err));
    f->leaves[f->nleaves - 1].containers = leaf.containers;
    CKPT_TRY_ALLOC(value_put(editor->a, mapping, key_node, value), err);
    editor->nvalues++;
    CKPT_TRY_ALLOC(!editor->taken || map_put(editor->taken, name, 0, NULL), err);
    return note_value(editor, name, value, true, err);
}

/* add_to - adds the value of the rule as NAME, the text KEY in the container PARENT. */
static ckpt_status add_to(struct editor *editor, const struct containers *tree, ckpt_str parent, ckpt_str key,
                          ckpt_str name, ckpt_error *err)
{
    uint32_t index;
    char type[128];
    ckpt_str shown = parent.len ? parent : STR_LIT("the root");
    CKPT_TRY(find_container(tree, parent, &index, err));
    if (index == NO_CONTAINER)
        return rule_fail(editor->rule->names[0].place, err,
                         "there is no \"%.*s\", and no dict \"%.*s\" to which it could be added\n"
                         "`ckpt show` and `ckpt ls` list the names that there are",
                         STR_ARG(name), STR_ARG(shown));
    const ckpt_value *node = tree->list[index].node;
    const ckpt_value *old = mapping_get(node, arena_str(editor->scratch, key).ptr);
    if (old)
        return fail_type(editor, name, old, err);
    if (!tree->list[index].is_mapping || view_of(node).kind != VIEW_PAIRS || view_ordered_dict_argument(node))
        return rule_fail(editor->rule->names[0].place, err,
                         "there is no \"%.*s\", and \"%.*s\" is of type {%s}; values are added to {=a dict}",
                         STR_ARG(name), STR_ARG(shown), ckpt_value_type_name(node, type, sizeof type));
    if (is_shared(tree, index))
        return fail_value(editor, name, "would be added to a dict that the file has under several names",
                          err);
    return put_value(editor, tree, index, key, name, err);
}

/* fail_without_values - fails because there is no tensor NAME, and there can be no value. */
static ckpt_status fail_without_values(const struct editor *editor, ckpt_str name, ckpt_error *err)
{
    ckpt_status st = rule_fail(editor->rule->names[0].place, err,
                               "there is no tensor \"%.*s\", and %s has tensors only", STR_ARG(name),
                               editor->p->omits_values ? "the output" : "the file");
    error_add_hint(err, editor->rule->value.kind == RULE_VALUE_TEXT
                            ? "a FILE in quotes is followed by a colon: set a = \"my file.pt\":NAME"
                            : "`ckpt meta` changes the metadata of safetensors and GGUF");
    return st;
}

ckpt_status edit_add_value(struct editor *editor, ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    struct containers tree;
    ckpt_str name = arena_str(editor->a, editor->rule->names[0].text);
    CKPT_TRY_ALLOC(name.ptr, err);
    ckpt_str key = str_after_last(name, '.');
    ckpt_str parent = str_first(name, name.len - key.len - (key.len < name.len));
    if (p->omits_values || p->file->dots_are_literal || !p->root)
        return fail_without_values(editor, name, err);
    if (!key.len)
        return fail_value(editor, name, "ends in a dot", err);
    ckpt_status st = containers_find(&tree, p->file, p->root, editor->scratch, err);
    CKPT_THEN(st, add_to(editor, &tree, parent, key, name, err));
    containers_free(&tree);
    return st;
}
