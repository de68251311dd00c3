/* match_layers.c - see match.h: finds the layers that a checkpoint has, but the model does not, of the lists
 * of layers that both have, as if a model of 24 layers is cut to 12. */
#include "op/match.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/regexp.h"

#define MAX_LAYERS 256u /* that are left out by one rule */

/* A list of layers: groups whose names begin alike, up to the first component that is a number. */
struct layer_list {
    ckpt_str before; /* what comes before the number, without the dot */
    bool is_moved;   /* its numbers differ from those that are wanted, by an amount */
};

/* A tensor of a layer. */
struct layer_place {
    uint32_t list;
    bool is_wanted; /* it is one of the model, not of the checkpoint */
    uint64_t number;
};

struct layer_lists {
    ckpt_match *match;
    map *number_of; /* text before the number -> index in LIST */
    struct layer_list *list;
    size_t nlist, cap_list;
    struct layer_place *places;
    size_t nplaces;
};

/* find_list - sets *OUT to the list that the names of GROUP are in; MATCH_NONE: they have no number. */
static ckpt_status find_list(struct layer_lists *lists, const struct match_group *group, uint32_t *out,
                             ckpt_error *err)
{
    ckpt_str rest = group->text;
    struct layer_list new = {.before = str_of(group->text.ptr, 0)};
    *out = MATCH_NONE;
    while (rest.len) {
        ckpt_str component = str_take_until(&rest, '.');
        if (!str_is(component, "0")) {
            new.before.len = (size_t)(component.ptr + component.len - group->text.ptr);
            continue;
        }
        if (!rest.len)
            return CKPT_OK; /* a tensor is in the list, no layer */
        *out = map_get(lists->number_of, new.before);
        if (*out != MAP_NONE)
            return CKPT_OK;
        *out = (uint32_t)lists->nlist;
        CKPT_TRY_ALLOC(ARENA_PUSH(lists->match->a, lists, list, &new), err);
        CKPT_TRY_ALLOC(map_put(lists->number_of, new.before, *out, NULL), err);
        return CKPT_OK;
    }
    return CKPT_OK;
}

/* add_side - adds the tensors of SIDE to the places. */
static ckpt_status add_side(struct layer_lists *lists, const struct match_side *side, bool is_wanted,
                            ckpt_error *err)
{
    for (size_t i = 0; i < side->ngroups; i++) {
        const struct match_group *group = &side->groups[i];
        uint32_t list;
        CKPT_TRY(find_list(lists, group, &list, err));
        if (list == MATCH_NONE)
            continue;
        if (!is_wanted && group->partner != MATCH_NONE)
            lists->list[list].is_moved |=
                match_compare_shapes(group, &lists->match->wanted.groups[group->partner]).is_moved;
        lists->list[list].is_moved |= !group->is_plain; /* nor can it be named in a rule */
        for (size_t k = 0; k < group->ntensors; k++)
            lists->places[lists->nplaces++] = (struct layer_place){list, is_wanted,
                                                                   group->tensors[k].index[0]};
    }
    return CKPT_OK;
}

static int order(uint64_t left, uint64_t right) { return (left > right) - (left < right); }

static int compare_places(const void *left, const void *right)
{
    const struct layer_place *a = left, *b = right;
    int by_list = order(a->list, b->list), by_number = order(a->number, b->number);
    return by_list ? by_list : by_number ? by_number : order(a->is_wanted, b->is_wanted);
}

/* is_complete - returns true if all that is wanted is there, or made by rules. */
static bool is_complete(const ckpt_match *match)
{
    for (size_t i = 0; i < match->wanted.ngroups; i++) {
        const struct match_group *group = &match->wanted.groups[i];
        const struct match_group *have = group->partner == MATCH_NONE ? NULL
                                                                      : &match->have.groups[group->partner];
        bool is_there = have && have->nindex == group->nindex &&
                        match_compare_shapes(have, group).common == group->ntensors;
        if (!is_there && !group->is_used)
            return false;
    }
    return !match->is_incomplete;
}

/* add_rule - adds the rule, whose LINES it frees, that leaves out NLAYERS layers with NTENSORS tensors. */
static ckpt_status add_rule(ckpt_match *match, buf *lines, size_t nlayers, size_t ntensors, ckpt_error *err)
{
    const ckpt_match_rule rule = {
        .certain = is_complete(match),
        .text = arena_str(match->a, buf_view(lines)),
        .evidence = arena_printf(match->a, "%zu layer%s of which no tensor is wanted: %zu name%s", nlayers,
                                 nlayers == 1 ? "" : "s", ntensors, ntensors == 1 ? "" : "s")};
    bool ok = buf_ok(lines) && rule.text.ptr && rule.evidence.ptr;
    buf_free(lines);
    return ok ? match_add_rule(match, &rule, err) : fail_memory(err);
}

/* put_layer - adds the pattern for all of layer NUMBER of LIST to LINES. */
static void put_layer(buf *lines, const struct layer_list *list, uint64_t number, bool is_first)
{
    char ending[32];
    (void)snprintf(ending, sizeof ending, "%s%" PRIu64 ".*", list->before.len ? "." : "", number);
    buf_put_cstr(lines, is_first ? "drop? " : ", ");
    match_put_pattern(lines, list->before, ending);
}

/* drop_layers - adds the rule that leaves out those layers of the list that PLACES, COUNT of them and sorted,
 * are in of which nothing is wanted, if all that are wanted are there. */
static ckpt_status drop_layers(const struct layer_lists *lists, const struct layer_place *places,
                               size_t count, ckpt_error *err)
{
    const struct layer_list *list = &lists->list[places->list];
    size_t nlayers = 0, ntensors = 0, nwanted = 0, end;
    bool is_missing = list->is_moved;
    buf lines;
    buf_init(&lines, MAX_LAYERS * 2 * REGEXP_MAX_PATTERN);
    for (size_t begin = 0; begin < count && !is_missing && nlayers <= MAX_LAYERS; begin = end) {
        for (end = begin + 1; end < count && places[end].number == places[begin].number;)
            end++;
        is_missing = places[begin].is_wanted; /* those of the checkpoint come first */
        nwanted += places[end - 1].is_wanted;
        if (places[end - 1].is_wanted)
            continue;
        put_layer(&lines, list, places[begin].number, nlayers++ == 0);
        ntensors += end - begin;
    }
    bool has_rule = !is_missing && nwanted && nlayers && nlayers <= MAX_LAYERS;
    if (has_rule)
        return add_rule(lists->match, &lines, nlayers, ntensors, err);
    bool no_memory = lines.no_memory;
    buf_free(&lines);
    return no_memory ? fail_memory(err) : CKPT_OK;
}

static ckpt_status drop_all(struct layer_lists *lists, ckpt_error *err)
{
    size_t end;
    CKPT_TRY(add_side(lists, &lists->match->have, false, err));
    CKPT_TRY(add_side(lists, &lists->match->wanted, true, err));
    qsort(lists->places, lists->nplaces, sizeof *lists->places, compare_places);
    for (size_t begin = 0; begin < lists->nplaces; begin = end) {
        for (end = begin + 1; end < lists->nplaces && lists->places[end].list == lists->places[begin].list;)
            end++;
        if (lists->match->nrules < MATCH_MAX_LAYOUT)
            CKPT_TRY(drop_layers(lists, lists->places + begin, end - begin, err));
    }
    return CKPT_OK;
}

ckpt_status match_find_surplus_layers(ckpt_match *match, ckpt_error *err)
{
    struct layer_lists lists = {.match = match, .number_of = map_new(0)};
    lists.places = calloc(match->have.ntensors + match->wanted.ntensors + 1, sizeof *lists.places);
    ckpt_status st = lists.number_of && lists.places ? drop_all(&lists, err) : fail_memory(err);
    map_free(lists.number_of);
    free(lists.places);
    return st;
}
