/* match_layout.c - see match.h: finds the rules that change elements, by shapes: transposed matrices, sizes
 * of 1, parts that are joined or apart, tensors that are stacked, and what has no place in the model. */
#include "op/match.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/regexp.h"

#define MAX_PARTS 3u /* of a joined tensor */

/* ------------------------------------------------------------------------------- names */

/* variable_name - returns the name in braces of number NUMBER of a name, of COUNT. */
static char variable_name(unsigned number) { return (char)('i' + number); }

/* fits_pattern - returns true if NAME has the components of TEXT, but for those that are numbers there. */
static bool fits_pattern(ckpt_str text, ckpt_str name)
{
    while (text.len && name.len) {
        ckpt_str pattern = str_take_until(&text, '.'), component = str_take_until(&name, '.');
        if (!str_is(pattern, "0") && !str_eq(pattern, component))
            return false;
    }
    return !text.len && !name.len;
}

/* is_only_fit - returns true if no other group of the checkpoint has names that the pattern for TEXT
 * matches. */
static bool is_only_fit(const ckpt_match *match, ckpt_str text)
{
    for (size_t i = 0; i < match->have.ngroups; i++)
        if (!str_eq(match->have.groups[i].text, text) && fits_pattern(text, match->have.groups[i].text))
            return false;
    return true;
}

void match_put_pattern(buf *out, ckpt_str text, const char *ending)
{
    buf word;
    unsigned nnumbers = 0;
    buf_init(&word, 4 * REGEXP_MAX_PATTERN);
    for (bool is_first = true; text.len; is_first = false) {
        ckpt_str component = str_take_until(&text, '.');
        buf_put_cstr(&word, is_first ? "" : ".");
        if (str_is(component, "0")) {
            buf_printf(&word, "{%c}", variable_name(nnumbers++));
            continue;
        }
        for (size_t i = 0; i < component.len; i++) {
            if (strchr("*?[]{}\\", component.ptr[i]))
                buf_byte(&word, '\\');
            buf_byte(&word, (unsigned char)component.ptr[i]);
        }
    }
    buf_put_cstr(&word, ending);
    if (buf_ok(&word) && word.len)
        match_put_word(out, buf_view(&word));
    out->failed |= word.no_memory;
    out->no_memory |= word.no_memory;
    buf_free(&word);
}

static void put_name(buf *out, ckpt_str text) { match_put_pattern(out, text, ""); }

/* add_layout - adds the rule in LINES about GROUP. Frees LINES. */
static ckpt_status add_layout(ckpt_match *match, buf *lines, ckpt_match_rule *rule, ckpt_error *err)
{
    bool ok = buf_ok(lines);
    rule->text = arena_str(match->a, buf_view(lines));
    buf_free(lines);
    return ok && rule->text.ptr && rule->evidence.ptr ? match_add_rule(match, rule, err) : fail_memory(err);
}

static bool has_room(ckpt_match *match)
{
    match->is_cut |= match->nrules >= MATCH_MAX_LAYOUT;
    return match->nrules < MATCH_MAX_LAYOUT;
}

/* are_equal_shapes - returns true if all tensors of GROUP have one shape. */
static bool are_equal_shapes(const struct match_group *group)
{
    const struct match_tensor *first = group->tensors;
    for (size_t i = 0; i < group->ntensors; i++) {
        const struct match_tensor *t = &group->tensors[i];
        if (!t->has_shape || t->ndim != first->ndim ||
            (t->ndim && memcmp(t->shape, first->shape, t->ndim * sizeof *t->shape) != 0))
            return false;
    }
    return true;
}

/* count_elements - returns the number of elements of TENSOR, modulo 2^64: to compare. */
MODULO static uint64_t count_elements(const struct match_tensor *tensor)
{
    uint64_t product = 1;
    for (uint32_t d = 0; d < tensor->ndim; d++)
        product *= tensor->shape[d];
    return product;
}

static bool can_move_all(const struct match_group *group)
{
    for (size_t i = 0; i < group->ntensors; i++)
        if (!group->tensors[i].can_move)
            return false;
    return group->is_plain;
}

/* ------------------------------------------------------------------------ same names */

static ckpt_status add_transpose(ckpt_match *match, const struct match_group *have,
                                 const struct match_shapes *shapes, ckpt_error *err)
{
    buf lines;
    ckpt_match_rule rule = {.certain = shapes->transposed == have->ntensors && is_only_fit(match, have->text),
                            .names = shapes->transposed,
                            .equal_shapes = shapes->transposed};
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, "transpose ");
    put_name(&lines, have->text);
    rule.evidence = arena_printf(match->a, "the shapes of %" PRIu64 " name%s are exchanged%s",
                                 shapes->transposed, shapes->transposed == 1 ? "" : "s",
                                 rule.certain ? "" : "; those of other names it matches are not");
    return add_layout(match, &lines, &rule, err);
}

/* guess_square - adds the comment that the square matrices in HAVE may have to be transposed as others
 * are. */
static ckpt_status guess_square(ckpt_match *match, const struct match_group *have, ckpt_error *err)
{
    buf lines;
    ckpt_match_rule rule = {.names = 0};
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, "transpose ");
    put_name(&lines, have->text);
    rule.evidence = arena_str(match->a,
                              STR_LIT("square: its shape cannot show whether it is transposed as others "
                                      "are"));
    return add_layout(match, &lines, &rule, err);
}

/* add_reshape - adds the rule that removes or adds sizes of 1. */
static ckpt_status add_reshape(ckpt_match *match, const struct match_group *have,
                               const struct match_group *wanted, ckpt_error *err)
{
    buf lines;
    const struct match_tensor *to = wanted->tensors;
    ckpt_match_rule rule = {
        .certain = is_only_fit(match, have->text), .names = have->ntensors, .equal_shapes = have->ntensors};
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, "reshape ");
    put_name(&lines, have->text);
    for (uint32_t d = 0; d < to->ndim; d++)
        buf_printf(&lines, "%s%" PRIu64, d ? ", " : " [", to->shape[d]);
    buf_put_cstr(&lines, to->ndim ? "]" : " []");
    rule.evidence = arena_str(match->a, STR_LIT("only sizes of 1 differ"));
    return add_layout(match, &lines, &rule, err);
}

/* guess_resize - adds the comment that cuts or pads HAVE, which changes what the model computes. */
static ckpt_status guess_resize(ckpt_match *match, const struct match_group *have,
                                const struct match_group *wanted, ckpt_error *err)
{
    buf lines;
    const struct match_tensor *from = have->tensors, *to = wanted->tensors;
    ckpt_match_rule rule = {.names = have->ntensors};
    uint32_t d = 0;
    while (d + 1 < from->ndim && from->shape[d] == to->shape[d])
        d++;
    bool is_cut = from->shape[d] > to->shape[d];
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, is_cut ? "slice " : "pad ");
    put_name(&lines, have->text);
    for (uint32_t k = 0; is_cut && k <= d; k++)
        buf_put_cstr(&lines, k ? ", :" : " [:");
    if (is_cut)
        buf_printf(&lines, "%" PRIu64 "]", to->shape[d]);
    else
        buf_printf(&lines, " dim %" PRIu32 " to %" PRIu64, d, to->shape[d]);
    rule.evidence = arena_printf(match->a,
                                 "changes values: dimension %" PRIu32 " is %" PRIu64 ", wanted is %" PRIu64,
                                 d, from->shape[d], to->shape[d]);
    return add_layout(match, &lines, &rule, err);
}

/* find_same_names - adds the rules for names that are in both, with other shapes. */
static ckpt_status find_same_names(ckpt_match *match, ckpt_error *err)
{
    bool transposes = false;
    for (size_t i = 0; i < match->have.ngroups && has_room(match); i++) {
        const struct match_group *have = &match->have.groups[i];
        if (have->partner == MATCH_NONE || !can_move_all(have))
            continue;
        const struct match_group *wanted = &match->wanted.groups[have->partner];
        const struct match_shapes shapes = match_compare_shapes(have, wanted);
        bool is_uniform = have->nindex == wanted->nindex && are_equal_shapes(have) &&
                          are_equal_shapes(wanted);
        transposes |= shapes.transposed != 0;
        if (have->nindex == wanted->nindex && shapes.transposed)
            CKPT_TRY(add_transpose(match, have, &shapes, err));
        else if (is_uniform && shapes.squeezed)
            CKPT_TRY(add_reshape(match, have, wanted, err));
        else if (is_uniform && shapes.resized)
            CKPT_TRY(guess_resize(match, have, wanted, err));
    }
    for (size_t i = 0; transposes && i < match->have.ngroups && has_room(match); i++) {
        const struct match_group *have = &match->have.groups[i];
        const struct match_tensor *first = have->tensors;
        if (have->partner != MATCH_NONE && can_move_all(have) && are_equal_shapes(have) && first->ndim == 2 &&
            first->shape[0] == first->shape[1] && first->shape[0] > 1)
            CKPT_TRY(guess_square(match, have, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------- parts */

/* Parts of a joined tensor, in the order in which they are usually joined. */
static const char *const part_words[][MAX_PARTS] = {
    {"q query q_proj wq q_lin query_proj to_q", "k key k_proj wk k_lin key_proj to_k",
     "v value v_proj wv v_lin value_proj to_v"},
    {"gate_proj w1 gate", "up_proj w3", NULL},
};

/* rank_part - returns which part of list KIND the module NAME is; MAX_PARTS: none. */
static unsigned rank_part(size_t kind, ckpt_str name)
{
    for (unsigned i = 0; i < MAX_PARTS && part_words[kind][i]; i++)
        if (str_matches_word(name, part_words[kind][i], str_eq))
            return i;
    return MAX_PARTS;
}

/* Unpaired tensors of one parent that have the same last component, in the order of the file. */
struct family {
    uint32_t members[2][MAX_PARTS]; /* groups: of the checkpoint, and wanted */
    uint32_t count[2];              /* more than MAX_PARTS: not all are listed */
};

struct families {
    struct family *list;
    size_t nlist, cap_list;
};

/* split_leaf - sets *MODULE to the last component before the leaf, and *KEY to the parent, a NUL and the
 * leaf. */
static bool split_leaf(arena *a, ckpt_str text, ckpt_str *module, ckpt_str *key)
{
    ckpt_str leaf = str_after_last(text, '.');
    ckpt_str path = str_first(text, text.len > leaf.len ? text.len - leaf.len - 1 : 0);
    if (str_starts(leaf, STR_LIT("in_proj_"))) { /* of torch.nn.MultiheadAttention */
        *module = str_first(leaf, strlen("in_proj"));
        leaf = str_skip(leaf, strlen("in_proj_"));
    } else {
        *module = str_after_last(path, '.');
        path = str_first(path, path.len - module->len);
        path.len -= path.len != 0;
    }
    *key = ARENA_CONCAT(a, path, str_of("", 1), leaf);
    return module->len && !str_is(*module, "0");
}

static ckpt_status list_families(ckpt_match *match, unsigned side, map *family_of, struct families *out,
                                 ckpt_error *err)
{
    const struct match_side *from = side ? &match->wanted : &match->have;
    for (uint32_t i = 0; i < from->ngroups; i++) {
        const struct match_group *group = &from->groups[i];
        const struct family empty = {.count = {0, 0}};
        ckpt_str module, key;
        bool is_left = group->partner == MATCH_NONE && !group->is_used && group->is_plain &&
                       group->has_shapes;
        if (!is_left || !are_equal_shapes(group) || (!side && !can_move_all(group)))
            continue;
        if (!split_leaf(match->a, group->text, &module, &key))
            continue;
        CKPT_TRY_ALLOC(key.ptr, err);
        uint32_t at = map_get(family_of, key);
        if (at == MAP_NONE) {
            at = (uint32_t)out->nlist;
            CKPT_TRY_ALLOC(ARENA_PUSH(match->a, out, list, &empty), err);
            CKPT_TRY_ALLOC(map_put(family_of, key, at, NULL), err);
        }
        struct family *family = &out->list[at];
        if (family->count[side] < MAX_PARTS)
            family->members[side][family->count[side]] = i;
        family->count[side]++;
    }
    return CKPT_OK;
}

/* A tensor that is joined on one side, and in parts on the other. */
struct joining {
    const struct match_group *whole, *parts[MAX_PARTS];
    uint32_t nparts;
    uint32_t dim;
    bool is_known; /* the order of the parts is the usual one of their words */
};

/* sort_parts - sorts the parts by the words in their names. */
static void sort_parts(ckpt_match *match, struct joining *joining)
{
    for (size_t kind = 0; kind < sizeof part_words / sizeof *part_words && !joining->is_known; kind++) {
        const struct match_group *sorted[MAX_PARTS] = {NULL};
        uint32_t nfound = 0;
        for (uint32_t i = 0; i < joining->nparts; i++) {
            ckpt_str module = {NULL, 0}, ignored_key;
            (void)split_leaf(match->a, joining->parts[i]->text, &module, &ignored_key);
            unsigned rank = rank_part(kind, module);
            if (rank >= joining->nparts || sorted[rank])
                break;
            sorted[rank] = joining->parts[i];
            nfound++;
        }
        joining->is_known = nfound == joining->nparts && (nfound == MAX_PARTS || !part_words[kind][nfound]);
        if (joining->is_known)
            memcpy(joining->parts, sorted, sizeof sorted);
    }
}

/* find_join_dim - finds the dimension along which the parts make up the whole. */
static bool find_join_dim(struct joining *joining)
{
    const struct match_tensor *whole = joining->whole->tensors;
    unsigned nfound = 0;
    for (uint32_t d = 0; d < whole->ndim && d < 2; d++) {
        uint64_t sum = 0;
        bool fits = true;
        for (uint32_t i = 0; fits && i < joining->nparts; i++) {
            const struct match_tensor *part = joining->parts[i]->tensors;
            fits = part->ndim == whole->ndim && part->shape[d] <= whole->shape[d] - sum;
            for (uint32_t k = 0; fits && k < whole->ndim; k++)
                fits = k == d || part->shape[k] == whole->shape[k];
            sum += fits ? part->shape[d] : 0;
        }
        if (!fits || sum != whole->shape[d])
            continue;
        joining->dim = d;
        nfound++;
    }
    return nfound == 1;
}

static ckpt_status add_joining(ckpt_match *match, const struct joining *joining, bool is_split,
                               ckpt_error *err)
{
    buf lines;
    uint64_t nmade = joining->whole->ntensors * (is_split ? joining->nparts : 1u);
    const struct match_tensor *part = joining->parts[0]->tensors;
    bool may_be_transposed = joining->dim && part->ndim == 2 && part->shape[0] == part->shape[1];
    ckpt_match_rule rule = {
        .certain = joining->is_known && !may_be_transposed &&
                   is_only_fit(match, is_split ? joining->whole->text : joining->parts[0]->text),
        .names = nmade,
        .equal_shapes = nmade};
    buf_init(&lines, 16 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, is_split ? "split " : "concat ");
    for (uint32_t i = 0; !is_split && i < joining->nparts; i++) {
        buf_put_cstr(&lines, i ? ", " : "");
        put_name(&lines, joining->parts[i]->text);
    }
    if (is_split)
        put_name(&lines, joining->whole->text);
    buf_printf(&lines, " dim %" PRIu32, joining->dim);
    bool is_equal = true;
    for (uint32_t i = 1; i < joining->nparts; i++)
        is_equal &= joining->parts[i]->tensors->shape[joining->dim] ==
                    joining->parts[0]->tensors->shape[joining->dim];
    for (uint32_t i = 0; is_split && !is_equal && i < joining->nparts; i++)
        buf_printf(&lines, "%s%" PRIu64, i ? " " : " sizes ",
                   joining->parts[i]->tensors->shape[joining->dim]);
    buf_put_cstr(&lines, " -> ");
    for (uint32_t i = 0; is_split && i < joining->nparts; i++) {
        buf_put_cstr(&lines, i ? ", " : "");
        put_name(&lines, joining->parts[i]->text);
    }
    if (!is_split)
        put_name(&lines, joining->whole->text);
    rule.evidence = arena_printf(
        match->a,
        "%" PRIu32
        " parts make up the size; %s, and they may be interleaved by heads%s: shapes cannot show it",
        joining->nparts,
        joining->is_known ? "their order is the usual one" : "their order is that of the file",
        may_be_transposed ? ", or transposed" : "");
    return add_layout(match, &lines, &rule, err);
}

/* join_family - adds the rule for FAMILY if SIDE has the parts, and the other the joined tensor. */
static ckpt_status join_family(ckpt_match *match, const struct family *family, unsigned side, ckpt_error *err)
{
    struct match_side *sides[2] = {&match->have, &match->wanted};
    struct joining joining = {.nparts = family->count[side]};
    if (joining.nparts < 2 || joining.nparts > MAX_PARTS || family->count[!side] != 1 || !has_room(match))
        return CKPT_OK;
    joining.whole = &sides[!side]->groups[family->members[!side][0]];
    for (uint32_t i = 0; i < joining.nparts; i++) {
        joining.parts[i] = &sides[side]->groups[family->members[side][i]];
        if (joining.parts[i]->ntensors != joining.whole->ntensors ||
            match_compare_shapes(joining.parts[i], joining.whole).is_moved ||
            joining.parts[i]->places != joining.whole->places)
            return CKPT_OK;
    }
    sort_parts(match, &joining);
    if (!find_join_dim(&joining))
        return CKPT_OK;
    sides[!side]->groups[family->members[!side][0]].is_used = true;
    for (uint32_t i = 0; i < joining.nparts; i++)
        sides[side]->groups[family->members[side][i]].is_used = true;
    return add_joining(match, &joining, side == 1, err);
}

static ckpt_status join_families(ckpt_match *match, map *family_of, ckpt_error *err)
{
    struct families families = {.nlist = 0};
    CKPT_TRY(list_families(match, 0, family_of, &families, err));
    CKPT_TRY(list_families(match, 1, family_of, &families, err));
    for (size_t i = 0; i < families.nlist; i++)
        for (unsigned side = 0; side < 2; side++)
            CKPT_TRY(join_family(match, &families.list[i], side, err));
    return CKPT_OK;
}

static ckpt_status find_parts(ckpt_match *match, ckpt_error *err)
{
    map *family_of = map_new(0);
    ckpt_status st = family_of ? join_families(match, family_of, err) : fail_memory(err);
    map_free(family_of);
    return st;
}

/* ------------------------------------------------------------------------------- stacks */

/* A group with one number more than its stack, whose name lacks that. */
struct stacking {
    struct match_group *layers, *stack;
    bool is_known; /* their names agree */
};

/* is_stack - returns true if the tensors of LAYERS, whose last number counts from 0, stack to those of
 * STACK, after NPARTS tensors of their shape were joined. */
static bool is_stack(const struct match_group *layers, const struct match_group *stack, uint64_t nparts)
{
    const struct match_tensor *one = layers->tensors, *all = stack->tensors;
    if (layers->nindex != stack->nindex + 1 || (nparts > 1 && !one->ndim) || !layers->has_shapes ||
        !stack->has_shapes || !are_equal_shapes(layers) || !are_equal_shapes(stack) ||
        all->ndim != one->ndim + 1 || !all->shape[0] || layers->ntensors / all->shape[0] != stack->ntensors ||
        layers->ntensors % all->shape[0])
        return false;
    for (uint32_t d = 0; d < one->ndim; d++)
        if (all->shape[d + 1] % (d ? 1 : nparts) || one->shape[d] != all->shape[d + 1] / (d ? 1 : nparts))
            return false;
    for (size_t i = 0; i < layers->ntensors; i++) {
        const struct match_tensor *place = &stack->tensors[i / all->shape[0]];
        for (uint32_t k = 0; k < stack->nindex; k++)
            if (layers->tensors[i].index[k] != place->index[k])
                return false;
        if (layers->tensors[i].index[stack->nindex] != i % all->shape[0])
            return false;
    }
    return true;
}

/* split_last_number - sets *BEFORE to what is before the last number in TEXT, and *AFTER to what is after
 * it. */
static bool split_last_number(ckpt_str text, ckpt_str *before, ckpt_str *after)
{
    bool found = false;
    for (ckpt_str rest = text; rest.len;) {
        const char *begin = rest.ptr;
        if (!str_is(str_take_until(&rest, '.'), "0") || !rest.len)
            continue;
        *before = str_first(text, begin > text.ptr ? (size_t)(begin - text.ptr) - 1 : 0);
        *after = rest;
        found = before->len != 0;
    }
    return found;
}

/* are_same_stack - returns true if AFTER, the end of the names of layers, and TAIL, that of the stack, are
 * the same but for ".weight". */
static bool are_same_stack(ckpt_str after, ckpt_str tail)
{
    return str_eq(after, tail) || (str_starts(after, tail) && str_is(str_skip(after, tail.len), ".weight"));
}

static ckpt_status add_stacking(ckpt_match *match, const struct stacking *stacking, bool is_unstack,
                                ckpt_error *err)
{
    buf lines;
    uint64_t nmade = is_unstack ? stacking->layers->ntensors : stacking->stack->ntensors;
    ckpt_str from = is_unstack ? stacking->stack->text : stacking->layers->text,
             to = is_unstack ? stacking->layers->text : stacking->stack->text;
    ckpt_match_rule rule = {
        .certain = stacking->is_known && is_only_fit(match, from), .names = nmade, .equal_shapes = nmade};
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, is_unstack ? "unstack " : "stack ");
    put_name(&lines, from);
    buf_put_cstr(&lines, " -> ");
    put_name(&lines, to);
    rule.evidence = arena_printf(match->a, "%" PRIu64 " tensors of equal shape make up the first dimension%s",
                                 stacking->stack->tensors->shape[0],
                                 stacking->is_known ? "" : "; their names do not agree");
    stacking->layers->is_used = stacking->stack->is_used = true;
    return add_layout(match, &lines, &rule, err);
}

static bool is_left(const struct match_group *group)
{
    return group->partner == MATCH_NONE && !group->is_used && group->is_plain;
}

/* Wanted stacks of one parent, and the groups of layers below it. */
struct stack_search {
    struct match_side *layers, *stacks;
    uint64_t nparts; /* of one tensor of a stack */
};

/* count_fits - returns how many stacks below BEFORE the group LAYERS may be, and sets *FOUND to the last;
 * BY_NAME: of those whose names agree. */
static size_t count_fits(const struct stack_search *search, const struct match_group *layers, ckpt_str before,
                         ckpt_str after, bool by_name, struct match_group **found)
{
    size_t count = 0;
    for (size_t i = 0; i < search->stacks->ngroups; i++) {
        struct match_group *stack = &search->stacks->groups[i];
        if (!is_left(stack) || !str_starts(stack->text, before) || stack->text.len <= before.len + 1 ||
            stack->text.ptr[before.len] != '.')
            continue;
        ckpt_str tail = str_skip(stack->text, before.len + 1);
        if ((by_name && !are_same_stack(after, tail)) || !is_stack(layers, stack, search->nparts))
            continue;
        *found = stack;
        count++;
    }
    return count;
}

/* count_rivals - returns how many groups of layers below BEFORE may be STACK. */
static size_t count_rivals(const struct stack_search *search, const struct match_group *stack,
                           ckpt_str before)
{
    size_t count = 0;
    for (size_t i = 0; i < search->layers->ngroups; i++) {
        ckpt_str other_before, after;
        const struct match_group *layers = &search->layers->groups[i];
        if (is_left(layers) && split_last_number(layers->text, &other_before, &after) &&
            str_eq(other_before, before) && is_stack(layers, stack, search->nparts))
            count++;
    }
    return count;
}

/* find_stacks - adds the rules for groups of layers that are stacks on the other side, of the same name or,
 * under the same parent, the only ones that can be it. */
static ckpt_status find_stacks(ckpt_match *match, bool is_unstack, ckpt_error *err)
{
    const struct stack_search search = {.layers = is_unstack ? &match->wanted : &match->have,
                                        .stacks = is_unstack ? &match->have : &match->wanted,
                                        .nparts = 1};
    for (size_t i = 0; i < search.layers->ngroups && has_room(match); i++) {
        struct stacking stacking = {.layers = &search.layers->groups[i]};
        ckpt_str before, after;
        if (!is_left(stacking.layers) || !split_last_number(stacking.layers->text, &before, &after) ||
            !match_spend(match, search.stacks->ngroups + search.layers->ngroups))
            continue;
        stacking.is_known = count_fits(&search, stacking.layers, before, after, true, &stacking.stack) == 1;
        bool fits = stacking.is_known ||
                    (count_fits(&search, stacking.layers, before, after, false, &stacking.stack) == 1 &&
                     count_rivals(&search, stacking.stack, before) == 1);
        if (fits && !stacking.is_known) {
            ckpt_str tail = str_skip(stacking.stack->text, before.len + 1);
            after.len -= str_ends(after, STR_LIT(".weight")) ? strlen(".weight") : 0;
            stacking.is_known = match_are_same_words(after, tail);
        }
        if (fits && can_move_all(is_unstack ? stacking.stack : stacking.layers))
            CKPT_TRY(add_stacking(match, &stacking, is_unstack, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------- experts of two parts */

/* find_other_part - returns the group that is the part after PART, a gate, in the same layers; NULL: there is
 * none. */
static struct match_group *find_other_part(ckpt_match *match, const struct match_side *side,
                                           const struct match_group *part)
{
    ckpt_str module, key, other_key;
    if (!split_leaf(match->a, part->text, &module, &key) || rank_part(1, module) != 0)
        return NULL;
    for (size_t i = 0; i < side->ngroups; i++) {
        struct match_group *other = &side->groups[i];
        if (other != part && is_left(other) && other->places == part->places &&
            other->shapes == part->shapes && split_leaf(match->a, other->text, &module, &other_key) &&
            str_eq(key, other_key) && rank_part(1, module) == 1)
            return other;
    }
    return NULL;
}

/* Gates and what they are joined with, which are stacked after that. */
struct gates {
    struct match_group *gate, *up, *stack;
    ckpt_str joined; /* the name of one joined pair */
};

/* put_gates - adds the rule for GATES to LINES: both steps, or their reverse. */
static void put_gates(buf *lines, const struct gates *gates, bool is_unstack)
{
    buf_put_cstr(lines, is_unstack ? "unstack " : "concat ");
    put_name(lines, is_unstack ? gates->stack->text : gates->gate->text);
    buf_put_cstr(lines, is_unstack ? "" : ", ");
    if (!is_unstack)
        put_name(lines, gates->up->text);
    buf_put_cstr(lines, is_unstack ? " -> " : " dim 0 -> ");
    put_name(lines, gates->joined);
    buf_put_cstr(lines, is_unstack ? "\nsplit " : "\nstack ");
    put_name(lines, gates->joined);
    buf_put_cstr(lines, is_unstack ? " dim 0 -> " : " -> ");
    put_name(lines, is_unstack ? gates->gate->text : gates->stack->text);
    buf_put_cstr(lines, is_unstack ? ", " : "");
    if (is_unstack)
        put_name(lines, gates->up->text);
}

static ckpt_status add_gates(ckpt_match *match, struct gates *gates, ckpt_str before, bool is_unstack,
                             ckpt_error *err)
{
    buf lines;
    const struct match_group *first = is_unstack ? gates->stack : gates->gate;
    uint64_t nmade = is_unstack ? 2 * (uint64_t)gates->gate->ntensors : gates->stack->ntensors;
    gates->joined = ARENA_CONCAT(match->a, before, STR_LIT(".0."),
                                 str_skip(gates->stack->text, before.len + 1));
    CKPT_TRY_ALLOC(gates->joined.ptr, err);
    ckpt_match_rule rule = {.certain = is_only_fit(match, first->text) &&
                                       map_get(match->have.group_of, gates->joined) == MAP_NONE,
                            .names = nmade,
                            .equal_shapes = nmade};
    buf_init(&lines, 32 * REGEXP_MAX_PATTERN);
    put_gates(&lines, gates, is_unstack);
    rule.evidence = arena_printf(match->a,
                                 "%" PRIu64
                                 " pairs of equal shape make up the size; gates come first, as is usual, and "
                                 "may be interleaved: shapes cannot show it",
                                 gates->stack->tensors->shape[0]);
    gates->gate->is_used = gates->up->is_used = gates->stack->is_used = true;
    return add_layout(match, &lines, &rule, err);
}

/* find_gates - adds the rules for gates that are joined with the tensors after them, and stacked. */
static ckpt_status find_gates(ckpt_match *match, bool is_unstack, ckpt_error *err)
{
    const struct stack_search search = {.layers = is_unstack ? &match->wanted : &match->have,
                                        .stacks = is_unstack ? &match->have : &match->wanted,
                                        .nparts = 2};
    for (size_t i = 0; i < search.layers->ngroups && has_room(match); i++) {
        struct gates gates = {.gate = &search.layers->groups[i]};
        ckpt_str before, after;
        if (!is_left(gates.gate) || !split_last_number(gates.gate->text, &before, &after) ||
            !match_spend(match, search.stacks->ngroups + search.layers->ngroups))
            continue;
        gates.up = find_other_part(match, search.layers, gates.gate);
        bool fits = gates.up && count_fits(&search, gates.gate, before, after, false, &gates.stack) == 1;
        if (fits && can_move_all(is_unstack ? gates.stack : gates.gate) &&
            (is_unstack || can_move_all(gates.up)))
            CKPT_TRY(add_gates(match, &gates, before, is_unstack, err));
    }
    return CKPT_OK;
}

ckpt_status match_find_layout(ckpt_match *match, ckpt_error *err)
{
    CKPT_TRY(find_same_names(match, err));
    CKPT_TRY(find_parts(match, err));
    for (int is_unstack = 0; is_unstack < 2; is_unstack++) {
        CKPT_TRY(find_gates(match, is_unstack, err));
        CKPT_TRY(find_stacks(match, is_unstack, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ surplus */

/* Groups of the checkpoint whose names have the first component TEXT. */
struct first_component {
    ckpt_str text;
    bool is_kept; /* one of them is wanted, or a guess is about it */
    bool is_dropped;
    bool is_doubtful; /* one of them may be what is missing */
};

struct first_components {
    struct first_component *list;
    size_t nlist, cap_list;
};

static ckpt_status list_first_components(ckpt_match *match, map *number_of, struct first_components *out,
                                         ckpt_error *err)
{
    for (size_t i = 0; i < match->have.ngroups; i++) {
        const struct match_group *group = &match->have.groups[i];
        const struct first_component first = {.text = str_before(group->text, '.')};
        uint32_t at = map_get(number_of, first.text);
        if (at == MAP_NONE) {
            at = (uint32_t)out->nlist;
            CKPT_TRY_ALLOC(ARENA_PUSH(match->a, out, list, &first), err);
            CKPT_TRY_ALLOC(map_put(number_of, first.text, at, NULL), err);
        }
        out->list[at].is_kept |= !is_left(group) || first.text.len == group->text.len ||
                                 str_is(first.text, "0");
    }
    return CKPT_OK;
}

/* add_drop - adds the rule that leaves out COUNT tensors: those of the group NAME or, if IS_ALL, below
 * NAME. */
static ckpt_status add_drop(ckpt_match *match, ckpt_str name, bool is_all, bool is_doubtful, size_t count,
                            ckpt_error *err)
{
    buf lines;
    ckpt_match_rule rule = {.certain = !match->is_incomplete && !is_doubtful &&
                                       (is_all || is_only_fit(match, name))};
    buf_init(&lines, 8 * REGEXP_MAX_PATTERN);
    buf_put_cstr(&lines, "drop? ");
    match_put_pattern(&lines, name, is_all ? ".*" : "");
    rule.evidence = arena_printf(match->a, "%s: %zu name%s",
                                 match->is_incomplete ? "not shown, but the model may have it"
                                 : is_doubtful ? "not wanted by this name, but it may be what is missing"
                                               : "not wanted",
                                 count, count == 1 ? "" : "s");
    return add_layout(match, &lines, &rule, err);
}

/* note_sizes - adds the sizes of the tensors of GROUP, and of so many parts, to SIZES. */
MODULO static bool note_sizes(const struct match_group *group, map *sizes, bool *is_unknown)
{
    bool ok = true;
    for (size_t i = 0; ok && i < group->ntensors; i++) {
        *is_unknown |= !group->tensors[i].has_shape;
        for (uint64_t n = 1; ok && n <= MAX_PARTS; n++)
            ok = map_put_num(sizes, count_elements(&group->tensors[i]) * n, 0, NULL);
    }
    return ok;
}

/* list_missing - adds the sizes of what is still missing to SIZES; *IS_UNKNOWN: of some the shape is not
 * known. */
static ckpt_status list_missing(const ckpt_match *match, map *sizes, bool *is_unknown, ckpt_error *err)
{
    for (size_t i = 0; i < match->wanted.ngroups; i++) {
        const struct match_group *group = &match->wanted.groups[i];
        bool is_there = group->is_used;
        if (group->partner != MATCH_NONE) {
            const struct match_group *have = &match->have.groups[group->partner];
            is_there = have->nindex == group->nindex &&
                       match_compare_shapes(have, group).common == group->ntensors;
        }
        CKPT_TRY_ALLOC(is_there || note_sizes(group, sizes, is_unknown), err);
    }
    return CKPT_OK;
}

/* may_be_missing - returns true if a tensor of GROUP has the size of one that is missing, or of parts of
 * it. */
MODULO static bool may_be_missing(const struct match_group *group, const map *sizes, bool is_unknown)
{
    for (size_t i = 0; i < group->ntensors; i++)
        for (uint64_t n = 1; n <= MAX_PARTS; n++)
            if (is_unknown || !group->tensors[i].has_shape ||
                map_get_num(sizes, count_elements(&group->tensors[i]) * n) != MAP_NONE)
                return true;
    return false;
}

/* find_doubts - sets in FIRSTS which of those that can be left out may be what is missing. */
static ckpt_status find_doubts(ckpt_match *match, map *number_of, struct first_components *firsts, map *sizes,
                               ckpt_error *err)
{
    bool is_unknown = false;
    CKPT_TRY(list_missing(match, sizes, &is_unknown, err));
    for (size_t i = 0; i < match->have.ngroups; i++) {
        struct match_group *group = &match->have.groups[i];
        if (!is_left(group))
            continue;
        group->is_doubtful = may_be_missing(group, sizes, is_unknown);
        firsts->list[map_get(number_of, str_before(group->text, '.'))].is_doubtful |= group->is_doubtful;
    }
    return CKPT_OK;
}

static ckpt_status drop_groups(ckpt_match *match, map *number_of, map *sizes, ckpt_error *err)
{
    struct first_components firsts = {.nlist = 0};
    CKPT_TRY(list_first_components(match, number_of, &firsts, err));
    CKPT_TRY(find_doubts(match, number_of, &firsts, sizes, err));
    for (size_t i = 0; i < match->have.ngroups && has_room(match); i++) {
        const struct match_group *group = &match->have.groups[i];
        struct first_component *first = &firsts.list[map_get(number_of, str_before(group->text, '.'))];
        size_t count = 0;
        if (!is_left(group) || first->is_dropped)
            continue;
        first->is_dropped = !first->is_kept;
        for (size_t k = i; first->is_dropped && k < match->have.ngroups; k++)
            if (str_eq(str_before(match->have.groups[k].text, '.'), first->text))
                count += match->have.groups[k].ntensors;
        CKPT_TRY(add_drop(match, first->is_dropped ? first->text : group->text, first->is_dropped,
                          first->is_dropped ? first->is_doubtful : group->is_doubtful,
                          first->is_dropped ? count : group->ntensors, err));
    }
    return CKPT_OK;
}

ckpt_status match_find_surplus(ckpt_match *match, ckpt_error *err)
{
    uint64_t nfound = 0;
    for (size_t i = 0; i < match->wanted.ngroups; i++)
        if (match->wanted.groups[i].partner != MATCH_NONE || match->wanted.groups[i].is_used)
            nfound += match->wanted.groups[i].ntensors;
    if (nfound * 2 < match->wanted.ntensors || !nfound)
        return CKPT_OK; /* it may be the checkpoint of another model */
    map *number_of = map_new(0), *sizes = map_new(0);
    ckpt_status st = number_of && sizes ? drop_groups(match, number_of, sizes, err) : fail_memory(err);
    map_free(number_of);
    map_free(sizes);
    return st;
}
