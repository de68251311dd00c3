/* match_renames.c - see match.h: finds the rules that rename.
 *
 * 1. What a name ends in is searched for in the wanted names. Most names that are found so vote for one
 * prefix.
 * 2. The layers on both sides are compared by their shapes: layers.{i} is model.layers.{i} if all tensors in
 * it
 * have the shapes of those there, and those of no other list of layers.
 * 3. Of each pair of names that are left, what is between the components at which both begin and end is
 * replaced.
 * The replacement that explains most names is a rule, unless another explains as many of the same names.
 * 4. Numbers that differ by one amount are moved.
 *
 * After each rule the next one is searched for. Replacements that are not certain become comments. */
#include "op/match.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/regexp.h"

#define NUMBER "([0-9]+)"

/* ----------------------------------------------------------------------------- judging */

/* What a rule does to the groups that it renames. */
struct effect {
    uint64_t ngood, nbad, nneutral; /* groups: become wanted ones, must not be renamed, neither */
    uint64_t names, equal, resized; /* tensors of those that become wanted ones */
};

enum verdict { GOOD, BAD, NEUTRAL };

/* judge - returns what it would mean if GROUP of the checkpoint were called TEXT; adds it to SUM. */
static enum verdict judge(const ckpt_match *match, const struct match_group *group, ckpt_str text,
                          struct effect *sum)
{
    uint32_t at = map_get(match->wanted.group_of, text);
    bool was_good = group->partner != MATCH_NONE && match_fits(group, &match->wanted.groups[group->partner]);
    if (was_good || map_get(match->have.group_of, text) != MAP_NONE) {
        sum->nbad++;
        return BAD;
    }
    if (at == MAP_NONE) {
        sum->nneutral++;
        return NEUTRAL;
    }
    if (!match_fits(group, &match->wanted.groups[at])) {
        sum->nbad++;
        return BAD;
    }
    struct match_shapes shapes = match_compare_shapes(group, &match->wanted.groups[at]);
    sum->ngood++;
    sum->names += shapes.common;
    sum->equal += shapes.equal;
    sum->resized += shapes.common - shapes.equal - shapes.unknown;
    return GOOD;
}

/* ---------------------------------------------------------------------------- writing */

/* put_expression - adds the components of TEXT as a regular expression; *NGROUPS counts its groups. */
static void put_expression(buf *out, ckpt_str text, unsigned *ngroups)
{
    for (bool is_first = true; text.len; is_first = false) {
        ckpt_str component = str_take_until(&text, '.');
        buf_put_cstr(out, is_first ? "" : "\\.");
        if (str_is(component, "0")) {
            buf_put_cstr(out, NUMBER);
            (*ngroups)++;
            continue;
        }
        for (size_t i = 0; i < component.len; i++) {
            if (strchr("^$*+?()[]{}|\\", component.ptr[i]))
                buf_byte(out, '\\');
            buf_byte(out, (unsigned char)component.ptr[i]);
        }
    }
}

/* put_replacement - adds TEXT as a replacement, in which the numbers are the groups after *NGROUPS. */
static void put_replacement(buf *out, ckpt_str text, unsigned *ngroups)
{
    for (bool is_first = true; text.len; is_first = false) {
        ckpt_str component = str_take_until(&text, '.');
        buf_put_cstr(out, is_first ? "" : ".");
        if (str_is(component, "0")) {
            buf_printf(out, "\\%u", ++*ngroups);
            continue;
        }
        for (size_t i = 0; i < component.len; i++) {
            if (component.ptr[i] == '\\')
                buf_byte(out, '\\');
            buf_byte(out, (unsigned char)component.ptr[i]);
        }
    }
}

/* A replacement of a regular expression, which is written in two halves. */
struct replacing {
    buf from, to;
    unsigned nfrom, nto; /* groups in both */
};

static void begin_replacing(struct replacing *replacing)
{
    *replacing = (struct replacing){.nfrom = 0};
    buf_init(&replacing->from, REGEXP_MAX_PATTERN);
    buf_init(&replacing->to, REGEXP_MAX_PATTERN);
}

/* put_rename - adds the line of the rule REPLACING to LINES. Returns false if it cannot be written, or lacks
 * memory: then lines->no_memory is set. */
static bool put_rename(buf *lines, struct replacing *replacing)
{
    ckpt_str from = buf_view(&replacing->from), to = buf_view(&replacing->to);
    bool fits = buf_ok(&replacing->from) && buf_ok(&replacing->to) && match_can_be_word(from) &&
                replacing->nfrom < REGEXP_GROUPS && (!to.len || match_can_be_word(to));
    if (fits) {
        buf_put_cstr(lines, lines->len ? "\nrename " : "rename ");
        match_put_word(lines, from);
        buf_put_cstr(lines, to.len ? " => " : " =>");
        if (to.len)
            match_put_word(lines, to);
    }
    lines->no_memory |= replacing->from.no_memory || replacing->to.no_memory;
    lines->failed |= lines->no_memory;
    buf_free(&replacing->from);
    buf_free(&replacing->to);
    return fits && buf_ok(lines);
}

/* drop_lines - frees LINES, whose rule is not added, and returns STATUS, or that memory was lacking. */
static ckpt_status drop_lines(buf *lines, ckpt_status status, ckpt_error *err)
{
    if (status == CKPT_OK && lines->no_memory)
        status = fail_memory(err);
    buf_free(lines);
    return status;
}

/* add_rename - adds the rule in LINES, which has EFFECT, with WHY as evidence. Frees LINES. */
static ckpt_status add_rename(ckpt_match *match, buf *lines, const struct effect *effect, bool certain,
                              const char *why, ckpt_error *err)
{
    uint64_t unknown = effect->names - effect->equal - effect->resized;
    ckpt_match_rule rule = {.certain = certain, .names = effect->names, .equal_shapes = effect->equal};
    ckpt_str parts[5] = {str_c(why)};
    rule.text = arena_str(match->a, buf_view(lines));
    buf_free(lines);
    if (effect->names)
        parts[1] = arena_printf(match->a, "%sexplains %" PRIu64 " name%s, %" PRIu64 " of equal shape",
                                *why ? "; " : "", effect->names, effect->names == 1 ? "" : "s",
                                effect->equal);
    if (unknown)
        parts[2] = arena_printf(match->a, ", %" PRIu64 " of unknown shape", unknown);
    if (effect->resized)
        parts[3] = arena_printf(match->a, ", %" PRIu64 " of another shape", effect->resized);
    if (effect->nneutral && effect->names)
        parts[4] = arena_printf(match->a, "; also renames what is not wanted");
    rule.evidence = arena_join(match->a, parts, 5);
    return rule.text.ptr && rule.evidence.ptr ? match_add_rule(match, &rule, err) : fail_memory(err);
}

/* ----------------------------------------------------------------------------- prefixes */

/* What follows a prefix in names. */
struct next_component {
    ckpt_str text;
    bool is_good, is_bad, ends_name;
};

struct prefix_rule {
    ckpt_str from, to;
    struct next_component *nexts;
    size_t nnexts, cap_nexts;
    bool *verdicts; /* by group: it is renamed */
    bool is_general;
    struct effect effect;
};

/* begins_with - returns true if TEXT begins with the components PREFIX, which may be empty, and more; *REST
 * is what follows. */
static bool begins_with(ckpt_str text, ckpt_str prefix, ckpt_str *rest)
{
    size_t cut = prefix.len ? prefix.len + 1 : 0;
    *rest = str_skip(text, cut);
    return text.len > cut && str_starts(text, prefix) && (!cut || text.ptr[prefix.len] == '.');
}

/* join_prefix - returns PREFIX, which may be empty, a dot and REST. */
static ckpt_str join_prefix(arena *a, ckpt_str prefix, ckpt_str rest)
{
    return prefix.len ? ARENA_CONCAT(a, prefix, STR_LIT("."), rest) : rest;
}

static ckpt_status judge_prefix(ckpt_match *match, struct prefix_rule *rule, map *next_of, buf *scratch,
                                ckpt_error *err)
{
    ckpt_str rest;
    for (size_t i = 0; i < match->have.ngroups; i++) {
        const struct match_group *group = &match->have.groups[i];
        if (!begins_with(group->text, rule->from, &rest))
            continue;
        struct next_component next = {.text = str_before(rest, '.')};
        uint32_t at = map_get(next_of, next.text);
        if (at == MAP_NONE) {
            at = (uint32_t)rule->nnexts;
            CKPT_TRY_ALLOC(ARENA_PUSH(match->a, rule, nexts, &next), err);
            CKPT_TRY_ALLOC(map_put(next_of, next.text, at, NULL), err);
        }
        scratch->len = 0;
        buf_put_str(scratch, rule->to);
        buf_put_cstr(scratch, rule->to.len ? "." : "");
        buf_put_str(scratch, rest);
        CKPT_TRY_ALLOC(buf_ok(scratch), err);
        enum verdict verdict = judge(match, group, buf_view(scratch), &rule->effect);
        rule->nexts[at].is_good |= verdict == GOOD;
        rule->nexts[at].is_bad |= verdict == BAD;
        rule->nexts[at].ends_name |= next.text.len == rest.len;
    }
    return CKPT_OK;
}

/* is_renamed - returns true if a rule that is not general is about NEXT. */
static bool is_renamed(const struct next_component *next) { return next->is_good && !next->is_bad; }

/* apply_prefix - renames the groups that RULE is about, and counts them again. */
static ckpt_status apply_prefix(ckpt_match *match, struct prefix_rule *rule, const map *next_of,
                                ckpt_error *err)
{
    ckpt_str rest;
    rule->effect = (struct effect){0};
    for (size_t i = 0; i < match->have.ngroups; i++) {
        struct match_group *group = &match->have.groups[i];
        if (!begins_with(group->text, rule->from, &rest))
            continue;
        if (!rule->is_general && !is_renamed(&rule->nexts[map_get(next_of, str_before(rest, '.'))]))
            continue;
        ckpt_str text = join_prefix(match->a, rule->to, rest);
        CKPT_TRY_ALLOC(text.ptr, err);
        (void)judge(match, group, text, &rule->effect);
        group->text = text;
    }
    return match_pair_groups(match, err);
}

/* write_prefix - writes RULE to LINES. Returns false if there is no such rule. */
static bool write_prefix(const struct prefix_rule *rule, buf *lines)
{
    struct replacing r;
    bool ends_name = false;
    size_t nlisted = 0;
    begin_replacing(&r);
    buf_byte(&r.from, '^');
    put_expression(&r.from, rule->from, &r.nfrom);
    buf_put_cstr(&r.from, rule->from.len ? "\\." : "");
    put_replacement(&r.to, rule->to, &r.nto);
    buf_put_cstr(&r.to, rule->to.len ? "." : "");
    for (size_t i = 0; !rule->is_general && i < rule->nnexts; i++) {
        const struct next_component *next = &rule->nexts[i];
        unsigned ignored_groups = 0;
        if (!is_renamed(next))
            continue;
        ends_name |= next->ends_name;
        buf_byte(&r.from, nlisted++ ? '|' : '(');
        if (str_is(next->text, "0"))
            buf_put_cstr(&r.from, "[0-9]+");
        else
            put_expression(&r.from, next->text, &ignored_groups);
    }
    if (!rule->is_general) {
        buf_put_cstr(&r.from, ends_name ? ")(\\.|$)" : ")\\.");
        buf_printf(&r.to, ends_name ? "\\%u\\%u" : "\\%u.", r.nfrom + 1, r.nfrom + 2);
        r.nfrom += 1 + ends_name;
    }
    bool fits = put_rename(lines, &r);
    return fits && (rule->is_general || nlisted);
}

/* lengthen_prefix - if only names with one component after the prefix are renamed, makes that a part of
 * it. */
static ckpt_status lengthen_prefix(ckpt_match *match, struct prefix_rule *rule, ckpt_error *err)
{
    const struct next_component *only = NULL;
    size_t nrenamed = 0;
    for (size_t i = 0; i < rule->nnexts; i++) {
        nrenamed += is_renamed(&rule->nexts[i]);
        only = is_renamed(&rule->nexts[i]) ? &rule->nexts[i] : only;
    }
    if (rule->is_general || nrenamed != 1 || only->ends_name)
        return CKPT_OK;
    rule->from = join_prefix(match->a, rule->from, only->text);
    rule->to = join_prefix(match->a, rule->to, only->text);
    rule->is_general = true;
    return rule->from.ptr && rule->to.ptr ? CKPT_OK : fail_memory(err);
}

/* try_prefix - if FROM can become TO in names, adds the rule and sets *ADDED. BY_SHAPES: that no name becomes
 * a wanted one does not matter. */
static ckpt_status try_prefix(ckpt_match *match, ckpt_str from, ckpt_str to, const char *by_shapes,
                              bool *added, ckpt_error *err)
{
    struct prefix_rule rule = {.from = from, .to = to};
    buf lines, scratch;
    buf_init(&lines, 4 * REGEXP_MAX_PATTERN);
    buf_init(&scratch, SIZE_MAX / 2);
    map *next_of = map_new(0);
    ckpt_status st = next_of ? judge_prefix(match, &rule, next_of, &scratch, err) : fail_memory(err);
    buf_free(&scratch);
    rule.is_general = !rule.effect.nbad;
    bool is_useful = by_shapes ? rule.is_general && rule.effect.nneutral + rule.effect.ngood
                               : rule.effect.ngood != 0;
    CKPT_THEN(st, lengthen_prefix(match, &rule, err));
    *added = st == CKPT_OK && is_useful && write_prefix(&rule, &lines);
    if (*added) {
        CKPT_THEN(st, apply_prefix(match, &rule, next_of, err));
        CKPT_THEN(st, add_rename(match, &lines, &rule.effect, true, by_shapes ? by_shapes : "", err));
    } else {
        st = drop_lines(&lines, st, err);
    }
    map_free(next_of);
    return st;
}

/* A group that would be a wanted one if FROM in its name were TO. */
struct vote {
    ckpt_str from, to;
    uint32_t have, wanted;
    bool keeps_module; /* what replaces FROM is in a repeated block, and before the module's own name */
};

struct votes {
    struct vote *list;
    size_t nlist, cap_list;
};

static int compare_votes(const void *left, const void *right)
{
    const struct vote *a = left, *b = right;
    int c = str_compare(a->from, b->from);
    c = c ? c : str_compare(a->to, b->to);
    return c ? c : (a->have > b->have) - (a->have < b->have);
}

/* Votes for one replacement. */
struct candidate {
    const struct vote *votes;
    size_t nvotes;
    size_t nmodules;   /* in how many modules their tensors are */
    size_t most;       /* the most votes of any other candidate for one of the same groups */
    size_t most_known; /* the same of those whose words are known */
    bool is_known, keeps_module, has_shapes;
};

struct candidates {
    struct candidate *list;
    size_t nlist, cap_list;
};

static ckpt_str module_of(ckpt_str name) { return str_first(name, name.len - str_after_last(name, '.').len); }

bool match_are_same_words(ckpt_str from, ckpt_str to)
{
    static const char *const words[] = {
#define MATCH_WORDS(line) line,
#include "op/match_words.def"
#undef MATCH_WORDS
    };
    ckpt_str left = str_after_last(from, '.'), right = str_after_last(to, '.');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_matches_word(left, words[i], str_eq) && str_matches_word(right, words[i], str_eq))
            return true;
    return false;
}

static int compare_modules(const void *left, const void *right)
{
    return str_compare(*(const ckpt_str *)left, *(const ckpt_str *)right);
}

/* count_modules - sets nmodules of CANDIDATE. */
static ckpt_status count_modules(ckpt_match *match, struct candidate *candidate, ckpt_error *err)
{
    ckpt_str *modules = calloc(candidate->nvotes + 1, sizeof *modules);
    CKPT_TRY_ALLOC(modules, err);
    for (size_t i = 0; i < candidate->nvotes; i++)
        modules[i] = module_of(match->have.groups[candidate->votes[i].have].text);
    qsort(modules, candidate->nvotes, sizeof *modules, compare_modules);
    candidate->nmodules = 0;
    for (size_t i = 0; i < candidate->nvotes; i++)
        candidate->nmodules += !i || !str_eq(modules[i], modules[i - 1]);
    free(modules);
    return CKPT_OK;
}

/* The two candidates with most votes that explain one group. */
struct top {
    size_t first, nfirst, nsecond; /* index of the candidate, and the votes of both */
};

static void note_top(struct top *top, size_t candidate, size_t nvotes)
{
    if (nvotes > top->nfirst) {
        top->nsecond = top->nfirst;
        top->nfirst = nvotes;
        top->first = candidate;
    } else if (nvotes > top->nsecond) {
        top->nsecond = nvotes;
    }
}

static size_t votes_of_others(const struct top *top, size_t candidate)
{
    return top->first == candidate && top->nfirst ? top->nsecond : top->nfirst;
}

/* find_rivals - sets how many votes those have that explain one of the same groups otherwise; KNOWN: of those
 * candidates whose words are known. TOPS has room for all groups of both sides. */
static void find_rivals(ckpt_match *match, struct candidates *candidates, struct top *tops, bool known)
{
    memset(tops, 0, (match->have.ngroups + match->wanted.ngroups) * sizeof *tops);
    for (size_t i = 0; i < candidates->nlist; i++) {
        const struct candidate *c = &candidates->list[i];
        for (size_t k = 0; k < c->nvotes && (!known || c->is_known); k++) {
            note_top(&tops[c->votes[k].have], i, c->nvotes);
            note_top(&tops[match->have.ngroups + c->votes[k].wanted], i, c->nvotes);
        }
    }
    for (size_t i = 0; i < candidates->nlist; i++) {
        struct candidate *c = &candidates->list[i];
        size_t *most = known ? &c->most_known : &c->most;
        for (size_t k = 0; k < c->nvotes; k++) {
            size_t have = votes_of_others(&tops[c->votes[k].have], i),
                   wanted = votes_of_others(&tops[match->have.ngroups + c->votes[k].wanted], i);
            *most = have > *most ? have : *most;
            *most = wanted > *most ? wanted : *most;
        }
    }
}

static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->nvotes != b->nvotes)
        return a->nvotes > b->nvotes ? -1 : 1;
    return compare_votes(a->votes, b->votes);
}

/* count_votes - makes the candidates of VOTES, those with most votes first. */
static ckpt_status count_votes(ckpt_match *match, struct votes *votes, struct candidates *out,
                               ckpt_error *err)
{
    *out = (struct candidates){.nlist = 0};
    if (!votes->nlist)
        return CKPT_OK;
    qsort(votes->list, votes->nlist, sizeof *votes->list, compare_votes);
    for (size_t i = 0, end; i < votes->nlist; i = end) {
        const struct vote *first = &votes->list[i];
        struct candidate c = {
            .votes = first, .has_shapes = true, .is_known = match_are_same_words(first->from, first->to)};
        for (end = i; end < votes->nlist && str_eq(votes->list[end].from, first->from) &&
                      str_eq(votes->list[end].to, first->to);
             end++) {
            c.keeps_module |= votes->list[end].keeps_module;
            c.has_shapes = c.has_shapes && match->have.groups[votes->list[end].have].has_shapes &&
                           match->wanted.groups[votes->list[end].wanted].has_shapes;
        }
        c.nvotes = end - i;
        CKPT_TRY(count_modules(match, &c, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(match->a, out, list, &c), err);
    }
    qsort(out->list, out->nlist, sizeof *out->list, compare_candidates);
    struct top *tops = calloc(match->have.ngroups + match->wanted.ngroups + 1, sizeof *tops);
    CKPT_TRY_ALLOC(tops, err);
    find_rivals(match, out, tops, false);
    find_rivals(match, out, tops, true);
    free(tops);
    return CKPT_OK;
}

/* What wanted names end in: the groups that do, of which two are kept. */
struct ending {
    uint32_t groups[2];
    uint32_t ngroups;
};

struct endings {
    struct ending *list;
    size_t nlist, cap_list;
};

static ckpt_status list_endings(ckpt_match *match, struct endings *endings, map *ending_of, ckpt_error *err)
{
    for (uint32_t i = 0; i < match->wanted.ngroups; i++) {
        const struct match_group *group = &match->wanted.groups[i];
        unsigned nlevels = 0;
        for (ckpt_str rest = group->text;
             group->partner == MATCH_NONE && group->is_plain && rest.len && nlevels < 64;
             nlevels++, (void)str_take_until(&rest, '.')) {
            uint32_t at = map_get(ending_of, rest);
            const struct ending added = {.ngroups = 0};
            if (at == MAP_NONE) {
                at = (uint32_t)endings->nlist;
                CKPT_TRY_ALLOC(ARENA_PUSH(match->a, endings, list, &added), err);
                CKPT_TRY_ALLOC(map_put(ending_of, rest, at, NULL), err);
            }
            if (endings->list[at].ngroups < 2)
                endings->list[at].groups[endings->list[at].ngroups] = i;
            endings->list[at].ngroups++;
        }
    }
    return CKPT_OK;
}

/* prefix_before - returns what is before REST, the end of TEXT, without the dot. */
static ckpt_str prefix_before(ckpt_str text, ckpt_str rest)
{
    return str_first(text, text.len > rest.len ? text.len - rest.len - 1 : 0);
}

/* vote_for_prefixes - adds the votes of group NUMBER of the checkpoint: for the prefixes of the one or two
 * wanted names that share the longest end with it. */
static ckpt_status vote_for_prefixes(ckpt_match *match, uint32_t number, const struct endings *endings,
                                     const map *ending_of, struct votes *votes, ckpt_error *err)
{
    const struct match_group *group = &match->have.groups[number];
    ckpt_str rest = group->text;
    uint32_t at = MAP_NONE;
    for (unsigned nlevels = 0; rest.len && nlevels < 64 && at == MAP_NONE; nlevels++) {
        at = map_get(ending_of, rest);
        if (at == MAP_NONE)
            (void)str_take_until(&rest, '.');
    }
    if (at == MAP_NONE || endings->list[at].ngroups > 2)
        return CKPT_OK;
    for (uint32_t i = 0; i < endings->list[at].ngroups; i++) {
        const struct match_group *wanted = &match->wanted.groups[endings->list[at].groups[i]];
        struct vote vote = {.from = prefix_before(group->text, rest),
                            .to = prefix_before(wanted->text, rest),
                            .have = number,
                            .wanted = endings->list[at].groups[i]};
        bool is_one_word = !memchr(rest.ptr, '.', rest.len);
        if ((is_one_word && vote.from.len && vote.to.len) || !match_fits(group, wanted))
            continue;
        CKPT_TRY_ALLOC(ARENA_PUSH(match->a, votes, list, &vote), err);
    }
    return CKPT_OK;
}

static ckpt_status collect_prefixes(ckpt_match *match, map *ending_of, struct candidates *out,
                                    ckpt_error *err)
{
    struct endings endings = {.nlist = 0};
    struct votes votes = {.nlist = 0};
    CKPT_TRY(list_endings(match, &endings, ending_of, err));
    if (match->nrules && !match_spend(match, endings.nlist))
        return CKPT_OK;
    for (uint32_t i = 0; i < match->have.ngroups; i++)
        if (match->have.groups[i].partner == MATCH_NONE && match->have.groups[i].is_plain)
            CKPT_TRY(vote_for_prefixes(match, i, &endings, ending_of, &votes, err));
    return count_votes(match, &votes, out, err);
}

/* count_unpaired - returns how many groups of SIDE have no partner. */
static size_t count_unpaired(const struct match_side *side)
{
    size_t count = 0;
    for (size_t i = 0; i < side->ngroups; i++)
        count += side->groups[i].partner == MATCH_NONE;
    return count;
}

/* find_prefix - adds the rule for the prefix with most votes. */
static ckpt_status find_prefix(ckpt_match *match, bool *added, ckpt_error *err)
{
    struct candidates candidates = {.nlist = 0};
    map *ending_of = map_new(match->wanted.ngroups);
    ckpt_status st = ending_of ? collect_prefixes(match, ending_of, &candidates, err) : fail_memory(err);
    size_t nhave = count_unpaired(&match->have), nwanted = count_unpaired(&match->wanted);
    for (size_t i = 0; st == CKPT_OK && !*added && i < candidates.nlist && i < MATCH_MAX_RULES; i++) {
        const struct candidate *c = &candidates.list[i];
        bool is_all = (!c->votes->from.len || !c->votes->to.len) &&
                      (c->nvotes == nhave || c->nvotes == nwanted);
        if (c->nvotes > c->most && (c->nmodules > 1 || is_all) && match_spend(match, match->have.ngroups))
            st = try_prefix(match, c->votes->from, c->votes->to, NULL, added, err);
    }
    map_free(ending_of);
    return st;
}

/* ------------------------------------------------------------------------------ layers */

/* The groups below one list of layers: those whose names are equal up to the first number. */
struct layers {
    ckpt_str stem;
    uint64_t digest; /* of the shapes and numbers of all, in any order */
    size_t ngroups;
    bool has_shapes;
};

struct layer_list {
    struct layers *list;
    size_t nlist, cap_list;
};

/* stem_of - sets *STEM to what is before the first number in TEXT. */
static bool stem_of(ckpt_str text, ckpt_str *stem)
{
    for (ckpt_str rest = text; rest.len;) {
        const char *begin = rest.ptr;
        if (str_is(str_take_until(&rest, '.'), "0")) {
            *stem = str_first(text, begin > text.ptr ? (size_t)(begin - text.ptr) - 1 : 0);
            return true;
        }
    }
    return false;
}

MODULO static ckpt_status list_layers(ckpt_match *match, const struct match_side *side, map *number_of,
                                      struct layer_list *out, ckpt_error *err)
{
    for (size_t i = 0; i < side->ngroups; i++) {
        const struct match_group *group = &side->groups[i];
        struct layers layers = {.has_shapes = true};
        if (group->partner != MATCH_NONE || !group->is_plain || !stem_of(group->text, &layers.stem))
            continue;
        uint32_t at = map_get(number_of, layers.stem);
        if (at == MAP_NONE) {
            at = (uint32_t)out->nlist;
            CKPT_TRY_ALLOC(ARENA_PUSH(match->a, out, list, &layers), err);
            CKPT_TRY_ALLOC(map_put(number_of, layers.stem, at, NULL), err);
        }
        out->list[at].ngroups++;
        out->list[at].has_shapes = out->list[at].has_shapes && group->has_shapes;
        out->list[at].digest += (group->places ^ group->sizes * 31) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return CKPT_OK;
}

/* Fewer kinds of tensors may have the shapes of others by accident. */
#define MIN_LAYER_GROUPS 4

/* find_equal - returns the layers of LIST that are like LAYERS; NULL: there are none, or several. */
static const struct layers *find_equal(const struct layer_list *list, const struct layers *layers)
{
    const struct layers *found = NULL;
    for (size_t i = 0; i < list->nlist; i++) {
        if (list->list[i].digest != layers->digest || list->list[i].ngroups != layers->ngroups)
            continue;
        if (found)
            return NULL;
        found = &list->list[i];
    }
    return found;
}

static ckpt_status find_layers_in(ckpt_match *match, map *numbers[2], bool *added, ckpt_error *err)
{
    struct layer_list have = {.nlist = 0}, wanted = {.nlist = 0};
    CKPT_TRY(list_layers(match, &match->have, numbers[0], &have, err));
    CKPT_TRY(list_layers(match, &match->wanted, numbers[1], &wanted, err));
    for (size_t i = 0; i < have.nlist && have.nlist <= MATCH_MAX_RULES && wanted.nlist <= MATCH_MAX_RULES;
         i++) {
        const struct layers *from = &have.list[i], *to = find_equal(&wanted, from);
        if (!to || find_equal(&have, from) != from || from->ngroups < MIN_LAYER_GROUPS || !from->has_shapes ||
            !to->has_shapes || str_eq(from->stem, to->stem))
            continue;
        CKPT_TRY(try_prefix(match, from->stem, to->stem, "all shapes below agree, and with no other layers",
                            added, err));
        if (*added)
            return CKPT_OK;
    }
    return CKPT_OK;
}

/* find_layers - adds the rule for layers that have the shapes of other layers, and are called otherwise. */
static ckpt_status find_layers(ckpt_match *match, bool *added, ckpt_error *err)
{
    map *numbers[2] = {map_new(0), map_new(0)};
    ckpt_status st = numbers[0] && numbers[1] ? find_layers_in(match, numbers, added, err) : fail_memory(err);
    map_free(numbers[0]);
    map_free(numbers[1]);
    return st;
}

/* ------------------------------------------------------------------------ replacements */

/* skip_common - removes the components at which both texts begin, and counts their bytes. */
static size_t skip_common(ckpt_str *left, ckpt_str *right)
{
    size_t nbytes = 0;
    for (;;) {
        ckpt_str a = str_before(*left, '.'), b = str_before(*right, '.');
        if (!str_eq(a, b) || a.len == left->len || b.len == right->len)
            return nbytes;
        *left = str_skip(*left, a.len + 1);
        *right = str_skip(*right, b.len + 1);
        nbytes += a.len + 1;
    }
}

/* cut_common - removes the components in which both texts end; one may become empty. */
static void cut_common(ckpt_str *left, ckpt_str *right)
{
    while (left->len && right->len) {
        ckpt_str a = str_after_last(*left, '.'), b = str_after_last(*right, '.');
        if (!str_eq(a, b))
            return;
        left->len -= a.len + (a.len < left->len);
        right->len -= b.len + (b.len < right->len);
    }
}

/* has_number - returns true if one of the components of TEXT is a number. */
static bool has_number(ckpt_str text)
{
    while (text.len)
        if (str_is(str_take_until(&text, '.'), "0"))
            return true;
    return false;
}

/* set_difference - sets VOTE to what HAVE and WANTED differ in. If one has only more components, the one
 * before or after them is included. */
static void set_difference(struct vote *vote, ckpt_str have, ckpt_str wanted)
{
    ckpt_str from = have, to = wanted;
    size_t before = skip_common(&from, &to);
    cut_common(&from, &to);
    if (!from.len || !to.len) {
        ckpt_str lead = str_first(have, before ? before - 1 : 0);
        size_t back = before ? str_after_last(lead, '.').len + 1 : 0;
        if (back) {
            before -= back;
            from = str_of(have.ptr + before, from.len ? from.len + back : back - 1);
            to = str_of(wanted.ptr + before, to.len ? to.len + back : back - 1);
        } else {
            ckpt_str next = str_before(str_skip(have, from.len ? from.len + 1 : 0), '.');
            from = str_of(have.ptr, from.len ? from.len + 1 + next.len : next.len);
            to = str_of(wanted.ptr, to.len ? to.len + 1 + next.len : next.len);
        }
    }
    vote->from = from;
    vote->to = to;
    ckpt_str after = str_skip(have, before + from.len + 1);
    vote->keeps_module = has_number(str_first(have, before ? before - 1 : 0)) &&
                         memchr(after.ptr, '.', after.len);
}

/* could_become - returns true if the tensors of HAVE may be those of WANTED under another name. */
static bool could_become(const struct match_group *have, const struct match_group *wanted)
{
    if (have->nindex != wanted->nindex || !wanted->is_plain || wanted->partner != MATCH_NONE ||
        wanted->is_used)
        return false;
    if (have->ntensors == wanted->ntensors && have->has_shapes && wanted->has_shapes &&
        have->sizes != wanted->sizes)
        return false;
    struct match_shapes shapes = match_compare_shapes(have, wanted);
    return match_fits(have, wanted) && !shapes.resized && !shapes.squeezed;
}

static ckpt_status collect_replacements(ckpt_match *match, struct candidates *out, ckpt_error *err)
{
    struct votes votes = {.nlist = 0};
    uint64_t npairs = (uint64_t)count_unpaired(&match->have) * count_unpaired(&match->wanted);
    *out = (struct candidates){.nlist = 0};
    if (!match_spend(match, npairs))
        return CKPT_OK;
    for (uint32_t i = 0; i < match->have.ngroups; i++) {
        const struct match_group *have = &match->have.groups[i];
        for (uint32_t k = 0;
             have->partner == MATCH_NONE && have->is_plain && !have->is_used && k < match->wanted.ngroups;
             k++) {
            struct vote vote = {.have = i, .wanted = k};
            if (!could_become(have, &match->wanted.groups[k]))
                continue;
            set_difference(&vote, have->text, match->wanted.groups[k].text);
            CKPT_TRY_ALLOC(ARENA_PUSH(match->a, &votes, list, &vote), err);
        }
    }
    return count_votes(match, &votes, out, err);
}

/* find_components - returns how often TEXT has the components PART, and sets *AT to the last place. */
static size_t find_components(ckpt_str text, ckpt_str part, size_t *at)
{
    size_t count = 0;
    for (size_t from = 0; from < text.len; from++) {
        from = str_find(text, part, from);
        if (from == SIZE_MAX)
            break;
        size_t end = from + part.len;
        if ((from && text.ptr[from - 1] != '.') || (end < text.len && text.ptr[end] != '.'))
            continue;
        *at = from;
        count++;
    }
    return count;
}

/* A replacement of components, wherever they are, or only after LEAD. */
struct component_rule {
    ckpt_str from, to, lead;
    bool is_anchored;
    bool at_begin, after_dot, before_dot, at_end; /* where FROM was found */
    struct effect effect;
    ckpt_str *texts; /* by group: its new text; .ptr NULL: it stays */
};

/* judge_replacement - sets the effect of RULE; false: it is no rule. */
static ckpt_status judge_replacement(ckpt_match *match, struct component_rule *rule, bool *is_rule,
                                     ckpt_error *err)
{
    map *made = map_new(0);
    CKPT_TRY_ALLOC(made, err);
    bool ok = true;
    *is_rule = true;
    rule->effect = (struct effect){0};
    for (size_t i = 0; ok && *is_rule && i < match->have.ngroups; i++) {
        const struct match_group *group = &match->have.groups[i];
        size_t at, count = find_components(group->text, rule->from, &at);
        uint32_t old = MAP_NONE;
        rule->texts[i] = str_of(NULL, 0);
        if (!count || (rule->is_anchored && !str_eq(str_first(group->text, at), rule->lead)))
            continue;
        size_t end = at + rule->from.len;
        rule->texts[i] = ARENA_CONCAT(match->a, str_first(group->text, at), rule->to,
                                      str_skip(group->text, end));
        ok = rule->texts[i].ptr && map_put(made, rule->texts[i], 0, &old);
        (void)judge(match, group, ok ? rule->texts[i] : group->text, &rule->effect);
        rule->at_begin |= !at;
        rule->after_dot |= at != 0;
        rule->at_end |= end == group->text.len;
        rule->before_dot |= end < group->text.len;
        *is_rule = count == 1 && old == MAP_NONE && !rule->effect.nbad;
    }
    map_free(made);
    *is_rule = *is_rule && rule->effect.ngood;
    return ok ? CKPT_OK : fail_memory(err);
}

/* write_replacement - writes RULE to LINES; false: it cannot be written. */
static bool write_replacement(const struct component_rule *rule, buf *lines)
{
    struct replacing out;
    bool either_begin = !rule->is_anchored && rule->at_begin && rule->after_dot,
         either_end = rule->at_end && rule->before_dot;
    begin_replacing(&out);
    if (rule->is_anchored) {
        buf_byte(&out.from, '^');
        put_expression(&out.from, str_first(rule->lead, rule->lead.len ? rule->lead.len - 1 : 0), &out.nfrom);
        buf_put_cstr(&out.from, rule->lead.len ? "\\." : "");
        put_replacement(&out.to, str_first(rule->lead, rule->lead.len ? rule->lead.len - 1 : 0), &out.nto);
        buf_put_cstr(&out.to, rule->lead.len ? "." : "");
    } else {
        buf_put_cstr(&out.from, either_begin ? "(^|\\.)" : rule->at_begin ? "^" : "\\.");
        buf_put_cstr(&out.to, either_begin ? "\\1" : rule->at_begin ? "" : ".");
        out.nfrom = out.nto = either_begin;
    }
    put_expression(&out.from, rule->from, &out.nfrom);
    put_replacement(&out.to, rule->to, &out.nto);
    buf_put_cstr(&out.from, either_end ? "(\\.|$)" : rule->at_end ? "$" : "\\.");
    if (either_end)
        buf_printf(&out.to, "\\%u", ++out.nfrom);
    else
        buf_put_cstr(&out.to, rule->at_end ? "" : ".");
    return put_rename(lines, &out);
}

/* set_lead - makes RULE apply only after what is before FROM in the names that CANDIDATE explains, if that is
 * the same in all. Returns false if it is not. */
static bool set_lead(const ckpt_match *match, const struct candidate *candidate, struct component_rule *rule)
{
    rule->is_anchored = true;
    rule->at_begin = rule->after_dot = rule->before_dot = rule->at_end = false;
    for (size_t i = 0; i < candidate->nvotes; i++) {
        ckpt_str text = match->have.groups[candidate->votes[i].have].text;
        size_t at;
        if (find_components(text, rule->from, &at) != 1 || (i && !str_eq(str_first(text, at), rule->lead)))
            return false;
        rule->lead = str_first(text, at);
    }
    return true;
}

/* find_form - sets RULE to the most general rule for CANDIDATE, and writes it to LINES. */
static ckpt_status find_form(ckpt_match *match, const struct candidate *candidate,
                             struct component_rule *rule, buf *lines, bool *found, ckpt_error *err)
{
    *rule = (struct component_rule){.from = candidate->votes->from, .to = candidate->votes->to};
    rule->texts = arena_array(match->a, match->have.ngroups, sizeof *rule->texts);
    CKPT_TRY_ALLOC(rule->texts, err);
    CKPT_TRY(judge_replacement(match, rule, found, err));
    if (!*found && set_lead(match, candidate, rule))
        CKPT_TRY(judge_replacement(match, rule, found, err));
    *found = *found && write_replacement(rule, lines);
    return CKPT_OK;
}

/* is_certain - returns true if CANDIDATE may be a rule. It must explain more than any other explanation of
 * one of its names. And one module that is left on each side proves nothing, because it may be new there and
 * gone here; unless its own name is the same, and only what it is in has another one. */
static bool is_certain(const struct candidate *candidate)
{
    bool is_strong = candidate->nmodules > 1 || (candidate->keeps_module && candidate->has_shapes);
    return (candidate->nvotes > candidate->most && is_strong) ||
           (candidate->is_known && candidate->nvotes > candidate->most_known &&
            candidate->nvotes >= candidate->most);
}

/* is_rotary - returns true if one is Meta's name of a query or key, and the other that of transformers,
 * which has the rows of its matrix in another order. */
static bool is_rotary(ckpt_str from, ckpt_str to)
{
    from = str_after_last(from, '.');
    to = str_after_last(to, '.');
    return (str_matches_word(from, "wq wk", str_eq) && str_matches_word(to, "q_proj k_proj", str_eq)) ||
           (str_matches_word(to, "wq wk", str_eq) && str_matches_word(from, "q_proj k_proj", str_eq));
}

static ckpt_status add_replacement(ckpt_match *match, const struct candidate *candidate, bool *added,
                                   ckpt_error *err)
{
    struct component_rule r;
    buf lines;
    buf_init(&lines, 4 * REGEXP_MAX_PATTERN);
    ckpt_status st = find_form(match, candidate, &r, &lines, added, err);
    if (st != CKPT_OK || !*added)
        return drop_lines(&lines, st, err);
    for (size_t i = 0; i < match->have.ngroups; i++)
        if (r.texts[i].ptr)
            match->have.groups[i].text = r.texts[i];
    const char *why = is_rotary(r.from, r.to)
                          ? "both are usual words; heads may be permuted for rotary embeddings, "
                            "which shapes cannot show"
                      : candidate->is_known ? "both are usual words for it"
                                            : "";
    CKPT_TRY(add_rename(match, &lines, &r.effect, true, why, err));
    return match_pair_groups(match, err);
}

static ckpt_status find_replacement(ckpt_match *match, bool *added, ckpt_error *err)
{
    struct candidates candidates;
    CKPT_TRY(collect_replacements(match, &candidates, err));
    for (size_t i = 0; !*added && i < candidates.nlist; i++)
        if (is_certain(&candidates.list[i]) && match_spend(match, 2 * match->have.ngroups))
            CKPT_TRY(add_replacement(match, &candidates.list[i], added, err));
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ numbers */

/* Numbers that have to be moved: component LEVEL of those below STEM. */
struct moving {
    ckpt_str stem; /* with the number, which is its last component */
    uint32_t level;
    uint64_t amount;
    bool is_down;
};

/* find_moving - sets *OUT to how the numbers of HAVE have to be moved. False: not by one amount. */
static bool find_moving(const struct match_group *have, const struct match_group *wanted, struct moving *out)
{
    size_t ndiffer = 0;
    for (uint32_t i = 0; i < have->nindex; i++) {
        uint64_t from = have->tensors->index[i], to = wanted->tensors->index[i];
        if (from == to)
            continue;
        ndiffer++;
        *out = (struct moving){.level = i, .is_down = to < from, .amount = to < from ? from - to : to - from};
    }
    uint32_t level = 0;
    for (ckpt_str rest = have->text; rest.len;)
        if (str_is(str_take_until(&rest, '.'), "0") && level++ == out->level)
            out->stem = str_first(have->text, rest.len ? have->text.len - rest.len - 1 : have->text.len);
    return ndiffer == 1;
}

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* is_moved_by - returns true if GROUP is below the stem of MOVING; *AGREES: its numbers have to be moved
 * so. */
static bool is_moved_by(const ckpt_match *match, const struct match_group *group, const struct moving *moving,
                        bool *agrees)
{
    struct moving other = {.amount = 0};
    ckpt_str rest;
    if (!str_eq(group->text, moving->stem) && !begins_with(group->text, moving->stem, &rest))
        return false;
    if (group->partner != MATCH_NONE)
        *agrees = match_compare_shapes(group, &match->wanted.groups[group->partner]).is_moved &&
                  find_moving(group, &match->wanted.groups[group->partner], &other) &&
                  other.level == moving->level && other.amount == moving->amount &&
                  other.is_down == moving->is_down;
    return true;
}

/* list_numbers - sets NUMBERS to those of all groups below the stem, sorted; *COUNT is at most
 * MATCH_MAX_RULES. False: they cannot be moved. */
static bool list_numbers(const ckpt_match *match, const struct moving *moving, uint64_t *numbers,
                         size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < match->have.ngroups; i++) {
        const struct match_group *group = &match->have.groups[i];
        bool agrees = true;
        if (!is_moved_by(match, group, moving, &agrees))
            continue;
        for (size_t k = 0; agrees && k < group->ntensors; k++) {
            uint64_t number = group->tensors[k].index[moving->level];
            size_t at = 0;
            if (moving->is_down ? number < moving->amount : number + moving->amount < number)
                return false;
            while (at < *count && numbers[at] != number)
                at++;
            if (at < *count)
                continue;
            if (*count == MATCH_MAX_RULES)
                return false;
            numbers[(*count)++] = number;
        }
        if (!agrees)
            return false;
    }
    qsort(numbers, *count, sizeof *numbers, compare_numbers);
    return *count > 0;
}

/* write_moving - writes a rule for each of the COUNT NUMBERS, in an order in which none takes the place of
 * another. */
static bool write_moving(const struct moving *moving, const uint64_t *numbers, size_t count, bool at_end,
                         buf *lines)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        uint64_t number = moving->is_down ? numbers[i] : numbers[count - 1 - i];
        uint64_t to = moving->is_down ? number - moving->amount : number + moving->amount;
        ckpt_str before = prefix_before(moving->stem, STR_LIT("0"));
        struct replacing r;
        begin_replacing(&r);
        buf_byte(&r.from, '^');
        put_expression(&r.from, before, &r.nfrom);
        buf_printf(&r.from, "%s%" PRIu64 "%s", before.len ? "\\." : "", number, at_end ? "(\\.|$)" : "\\.");
        put_replacement(&r.to, before, &r.nto);
        buf_printf(&r.to, "%s%" PRIu64, before.len ? "." : "", to);
        if (at_end)
            buf_printf(&r.to, "\\%u", ++r.nfrom);
        else
            buf_byte(&r.to, '.');
        ok = put_rename(lines, &r);
    }
    return ok;
}

/* apply_moving - moves the numbers of the groups, and counts in EFFECT what that explains. */
static void apply_moving(const ckpt_match *match, const struct moving *moving, struct effect *effect)
{
    for (size_t i = 0; i < match->have.ngroups; i++) {
        struct match_group *group = &match->have.groups[i];
        bool ignored_agreement;
        if (!is_moved_by(match, group, moving, &ignored_agreement))
            continue;
        for (size_t k = 0; k < group->ntensors; k++) {
            uint64_t *number = &group->tensors[k].index[moving->level];
            *number = moving->is_down ? *number - moving->amount : *number + moving->amount;
        }
        if (group->partner == MATCH_NONE)
            continue;
        struct match_shapes shapes = match_compare_shapes(group, &match->wanted.groups[group->partner]);
        effect->names += shapes.common;
        effect->equal += shapes.equal;
        effect->resized += shapes.common - shapes.equal - shapes.unknown;
    }
}

static ckpt_status move_numbers(ckpt_match *match, const struct moving *moving, ckpt_error *err)
{
    uint64_t numbers[MATCH_MAX_RULES];
    size_t count;
    struct effect effect = {0};
    bool at_end = false;
    buf lines;
    if (!list_numbers(match, moving, numbers, &count))
        return CKPT_OK;
    for (size_t i = 0; i < match->have.ngroups; i++)
        at_end |= str_eq(match->have.groups[i].text, moving->stem);
    buf_init(&lines, MATCH_MAX_RULES * 2 * REGEXP_MAX_PATTERN);
    if (!write_moving(moving, numbers, count, at_end, &lines))
        return drop_lines(&lines, CKPT_OK, err);
    apply_moving(match, moving, &effect);
    return add_rename(match, &lines, &effect, true, "all numbers differ by one amount", err);
}

static ckpt_status find_numbers(ckpt_match *match, ckpt_error *err)
{
    for (size_t i = 0; i < match->have.ngroups && match->nrules < 4 * MATCH_MAX_RULES; i++) {
        const struct match_group *group = &match->have.groups[i];
        struct moving moving = {.amount = 0};
        if (group->partner == MATCH_NONE || group->nindex == 0)
            continue;
        const struct match_group *wanted = &match->wanted.groups[group->partner];
        if (group->nindex == wanted->nindex && match_compare_shapes(group, wanted).is_moved &&
            find_moving(group, wanted, &moving) && match_spend(match, match->have.ngroups))
            CKPT_TRY(move_numbers(match, &moving, err));
    }
    return CKPT_OK;
}

ckpt_status match_find_renames(ckpt_match *match, ckpt_error *err)
{
    bool added = true;
    CKPT_TRY(match_pair_groups(match, err));
    for (size_t n = 0; added && n < MATCH_MAX_RULES; n++) {
        added = false;
        CKPT_TRY(find_prefix(match, &added, err));
        if (!added)
            CKPT_TRY(find_layers(match, &added, err));
        if (!added)
            CKPT_TRY(find_replacement(match, &added, err));
    }
    CKPT_TRY(find_numbers(match, err));
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ guesses */

static bool shares_from(const struct candidate *left, const struct candidate *right)
{
    return str_eq(left->votes->from, right->votes->from);
}

/* Candidates for the same names, of which at most some are shown. */
#define MAX_ALTERNATIVES 4u

/* add_guess - adds CANDIDATE as a comment, with the other replacements of the same components. */
static ckpt_status add_guess(ckpt_match *match, const struct candidates *candidates,
                             const struct candidate *guess, bool by_order, ckpt_error *err)
{
    struct component_rule r;
    buf lines, why;
    bool found;
    size_t nothers = 0;
    buf_init(&lines, 4 * REGEXP_MAX_PATTERN);
    buf_init(&why, 4 * REGEXP_MAX_PATTERN);
    ckpt_status st = find_form(match, guess, &r, &lines, &found, err);
    if (st != CKPT_OK || !found)
        return drop_lines(&lines, st, err);
    buf_put_cstr(&why, by_order ? "a guess by the order in the files"
                                : "a guess: the only ones left of their shapes");
    for (size_t i = 0; i < candidates->nlist; i++) {
        const struct candidate *other = &candidates->list[i];
        if (other == guess || !shares_from(other, guess) || other->nvotes < guess->nvotes ||
            ++nothers > MAX_ALTERNATIVES)
            continue;
        buf_put_cstr(&why, nothers == 1 ? "; as good: " : ", ");
        buf_put_str(&why, other->votes->to);
    }
    if (nothers > MAX_ALTERNATIVES)
        buf_printf(&why, " and %zu more", nothers - MAX_ALTERNATIVES);
    buf_byte(&why, '\0');
    st = buf_ok(&why) ? add_rename(match, &lines, &r.effect, false, (const char *)why.data, err)
                      : fail_memory(err);
    buf_free(&why);
    for (size_t i = 0; st == CKPT_OK && i < guess->nvotes; i++)
        match->have.groups[guess->votes[i].have].is_used =
            match->wanted.groups[guess->votes[i].wanted].is_used = true;
    return st;
}

/* is_free - returns true if no guess is about a name that CANDIDATE explains. */
static bool is_free(const ckpt_match *match, const struct candidate *candidate)
{
    for (size_t i = 0; i < candidate->nvotes; i++)
        if (match->have.groups[candidate->votes[i].have].is_used ||
            match->wanted.groups[candidate->votes[i].wanted].is_used)
            return false;
    return true;
}

/* compare_guesses - sorts by votes and then by the order of both files. */
static int compare_guesses(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->nvotes != b->nvotes)
        return a->nvotes > b->nvotes ? -1 : 1;
    if (a->votes->have != b->votes->have)
        return a->votes->have < b->votes->have ? -1 : 1;
    return (a->votes->wanted > b->votes->wanted) - (a->votes->wanted < b->votes->wanted);
}

/* Each name of the checkpoint is paired, in their order, with the first wanted one that fits. */
ckpt_status match_find_guesses(ckpt_match *match, ckpt_error *err)
{
    struct candidates candidates;
    size_t nguesses = 0;
    CKPT_TRY(collect_replacements(match, &candidates, err));
    if (candidates.nlist)
        qsort(candidates.list, candidates.nlist, sizeof *candidates.list, compare_guesses);
    for (size_t i = 0; i < candidates.nlist && nguesses < MATCH_MAX_GUESSES; i++) {
        const struct candidate *c = &candidates.list[i];
        bool is_empty = !c->has_shapes && c->nmodules == 1 && !c->is_known; /* nothing speaks for it */
        if (is_empty || !is_free(match, c) || !match_spend(match, 2 * match->have.ngroups))
            continue;
        CKPT_TRY(add_guess(match, &candidates, c, c->most >= c->nvotes, err));
        nguesses++;
    }
    return CKPT_OK;
}
