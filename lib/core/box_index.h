/* box_index.h - finds boxes in several dimensions that intersect a given box or each other, and gaps between
 * boxes. It is a packed R-tree over the boxes in the order of the caller, which for the pieces of
 * a row-major tensor is the order of reading. */
#pragma once

#include "base/arena.h"

#define BOX_DIMS   64u /* at most */
#define BOX_FANOUT 8u
#define BOX_LEVELS 12u /* enough for more than 2^32 boxes: 8^11 = 2^33 */

/* A box is stored as NDIM lower bounds, followed by NDIM upper bounds, which are exclusive. */
struct box_index {
    uint32_t ndim, levels;
    size_t count[BOX_LEVELS];  /* number of boxes in each level */
    uint64_t *box[BOX_LEVELS]; /* level 0: the boxes; a box of level L+1 encloses 8 consecutive ones of L */
};

struct box_search {
    const struct box_index *index;
    const uint64_t *box;                      /* the box to intersect */
    size_t next[BOX_LEVELS], end[BOX_LEVELS]; /* by level: numbers of the boxes to compare, [next, end) */
    uint32_t level;
    uint64_t visited; /* number of boxes compared, of all levels */
};

enum box_finding { BOX_NONE, BOX_FOUND, BOX_TOO_IRREGULAR, BOX_NO_MEMORY };

static inline const uint64_t *box_at(const struct box_index *index, size_t number)
{
    return index->box[0] + number * 2 * index->ndim;
}
/* box_volume - returns the volume of BOX, which is below 2^64. */
uint64_t box_volume(const uint64_t *box, uint32_t ndim);
/* box_index_init - builds the index over COUNT boxes of NDIM dimensions at BOX, none of them empty. BOX
 * outlives the index. False: no memory. */
bool box_index_init(struct box_index *index, arena *a, uint32_t ndim, uint64_t *box, size_t count);
/* box_search_begin - begins a search for all boxes that intersect BOX, which outlives the search. */
void box_search_begin(struct box_search *search, const struct box_index *index, const uint64_t *box);
/* box_search_next - sets *INDEX to the number of the next box found, in rising order; false: no more. */
bool box_search_next(struct box_search *search, size_t *index);
/* box_find_overlap - looks for two boxes that intersect. BOX_FOUND: the boxes *LEFT < *RIGHT intersect.
 * BOX_TOO_IRREGULAR: comparing them all would take too long. */
enum box_finding box_find_overlap(const struct box_index *index, size_t *left, size_t *right);
/* box_find_hole - looks for a box inside of WHOLE that no box intersects. BOX_FOUND: HOLE is such a box. */
enum box_finding box_find_hole(const struct box_index *index, const uint64_t *whole, uint64_t *hole);
