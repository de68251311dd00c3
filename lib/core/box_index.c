/* box_index.c - see box_index.h.
 *
 * A search descends only into boxes that intersect the box searched for. For pieces that form a grid, even
 * or not, these are a few on each level. A hostile file can have boxes that are slow to search, such as long
 * thin ones in every direction: n searches could take n^2 visits. Therefore, box_find_overlap and
 * box_find_hole stop after a limited number of visits. */
#include "core/box_index.h"

#include <stdlib.h>

/* A check may visit VISITS_PER_BOX times the number of boxes, and VISITS_IN_ANY_CASE more. */
#define VISITS_PER_BOX     256u
#define VISITS_IN_ANY_CASE (1u << 24)
#define MAX_STACK          65536u /* regions not compared yet */

uint64_t box_volume(const uint64_t *box, uint32_t ndim)
{
    uint64_t volume = 1;
    for (uint32_t k = 0; k < ndim; k++)
        volume *= box[ndim + k] - box[k];
    return volume;
}

/* bound_children - makes TO the smallest box around the COUNT boxes at CHILD. */
static void bound_children(uint64_t *to, const uint64_t *child, size_t count, uint32_t ndim)
{
    memcpy(to, child, (size_t)2 * ndim * sizeof *to);
    for (size_t i = 1; i < count; i++) {
        child += 2 * ndim;
        for (uint32_t k = 0; k < ndim; k++) {
            to[k] = child[k] < to[k] ? child[k] : to[k];
            to[ndim + k] = child[ndim + k] > to[ndim + k] ? child[ndim + k] : to[ndim + k];
        }
    }
}

bool box_index_init(struct box_index *index, arena *a, uint32_t ndim, uint64_t *box, size_t count)
{
    *index = (struct box_index){.ndim = ndim, .levels = 1, .count = {count}, .box = {box}};
    while (index->count[index->levels - 1] > BOX_FANOUT) {
        size_t below = index->count[index->levels - 1], above = (below - 1) / BOX_FANOUT + 1,
               width = (size_t)2 * ndim;
        const uint64_t *children = index->box[index->levels - 1];
        uint64_t *bounds = arena_array(a, above, width * sizeof *bounds);
        if (!bounds)
            return false;
        for (size_t i = 0; i < above; i++) {
            size_t first = i * BOX_FANOUT, left = below - first;
            bound_children(bounds + i * width, children + first * width,
                           left < BOX_FANOUT ? left : BOX_FANOUT, ndim);
        }
        index->box[index->levels] = bounds;
        index->count[index->levels++] = above;
    }
    return true;
}

static bool boxes_intersect(const uint64_t *left, const uint64_t *right, uint32_t ndim)
{
    for (uint32_t k = 0; k < ndim; k++)
        if (left[k] >= right[ndim + k] || right[k] >= left[ndim + k])
            return false;
    return true;
}

void box_search_begin(struct box_search *search, const struct box_index *index, const uint64_t *box)
{
    uint32_t top = index->levels - 1;
    search->index = index;
    search->box = box;
    search->visited = 0;
    search->level = top;
    search->next[top] = 0;
    search->end[top] = index->count[top];
}

bool box_search_next(struct box_search *search, size_t *index)
{
    const struct box_index *x = search->index;
    for (uint32_t level = search->level;;) {
        if (search->next[level] == search->end[level]) {
            if (++level == x->levels)
                return false;
            continue;
        }
        size_t number = search->next[level]++;
        search->visited++;
        if (!boxes_intersect(x->box[level] + number * 2 * x->ndim, search->box, x->ndim))
            continue;
        if (level == 0) {
            search->level = 0;
            *index = number;
            return true;
        }
        level--;
        size_t first = number * BOX_FANOUT, left = x->count[level] - first;
        search->next[level] = first;
        search->end[level] = first + (left < BOX_FANOUT ? left : BOX_FANOUT);
    }
}

/* get_max_visits - returns how many boxes a check may compare. */
static uint64_t get_max_visits(const struct box_index *index)
{
    return (uint64_t)index->count[0] * VISITS_PER_BOX + VISITS_IN_ANY_CASE;
}

enum box_finding box_find_overlap(const struct box_index *index, size_t *left, size_t *right)
{
    uint64_t visits_left = get_max_visits(index);
    for (*left = 0; *left < index->count[0]; ++*left) {
        struct box_search s;
        box_search_begin(&s, index, box_at(index, *left));
        while (box_search_next(&s, right))
            if (*right > *left)
                return BOX_FOUND;
        if (s.visited > visits_left)
            return BOX_TOO_IRREGULAR;
        visits_left -= s.visited;
    }
    return BOX_NONE;
}

/* A stack of regions that still have to be searched for holes. */
struct regions {
    uint64_t *box;
    size_t n, cap;
    uint32_t ndim;
};

/* push_region - pushes BOX to the stack. BOX_NONE: no error. */
static enum box_finding push_region(struct regions *regions, const uint64_t *box)
{
    if (regions->n == MAX_STACK)
        return BOX_TOO_IRREGULAR;
    return arena_push(NULL, &regions->box, &regions->n, &regions->cap, box,
                      (size_t)2 * regions->ndim * sizeof *box)
               ? BOX_NONE
               : BOX_NO_MEMORY;
}

/* push_uncovered - divides REGION, which COVER intersects: pushes the boxes that are outside of COVER, and
 * makes REGION the box inside of it. */
static enum box_finding push_uncovered(struct regions *regions, uint64_t *region, const uint64_t *cover)
{
    enum box_finding found = BOX_NONE;
    for (uint32_t k = 0; k < regions->ndim && found == BOX_NONE; k++) {
        uint64_t *from = &region[k], *end = &region[regions->ndim + k], full_end = *end;
        if (cover[k] > *from) { /* the box before COVER in dimension K */
            *end = cover[k];
            found = push_region(regions, region);
            *from = *end;
            *end = full_end;
        }
        if (found == BOX_NONE && cover[regions->ndim + k] < *end) { /* the box after COVER */
            uint64_t covered_from = *from;
            *from = cover[regions->ndim + k];
            found = push_region(regions, region);
            *end = *from;
            *from = covered_from;
        }
    }
    return found;
}

static enum box_finding find_hole(const struct box_index *index, struct regions *regions, uint64_t *region)
{
    uint64_t visits_left = get_max_visits(index);
    while (regions->n) {
        struct box_search s;
        size_t i;
        regions->n--;
        memcpy(region, regions->box + regions->n * 2 * index->ndim, (size_t)2 * index->ndim * sizeof *region);
        box_search_begin(&s, index, region);
        if (!box_search_next(&s, &i))
            return BOX_FOUND;
        if (s.visited > visits_left)
            return BOX_TOO_IRREGULAR;
        visits_left -= s.visited;
        enum box_finding found = push_uncovered(regions, region, box_at(index, i));
        if (found != BOX_NONE)
            return found;
    }
    return BOX_NONE;
}

enum box_finding box_find_hole(const struct box_index *index, const uint64_t *whole, uint64_t *hole)
{
    struct regions r = {.ndim = index->ndim};
    enum box_finding found = push_region(&r, whole);
    if (found == BOX_NONE)
        found = find_hole(index, &r, hole);
    free(r.box);
    return found;
}
