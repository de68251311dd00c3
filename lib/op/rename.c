/* rename.c - `ckpt strip`, `add`, `rename` by a map: computes new names of keys; keys.c edits the plan. */
#include "base/checked.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "op/keys.h"

#define MODULE_PREFIX STR_LIT("module.")

/* The prefix that `strip` removes from keys, or that `add` puts before them. */
struct prefix_rule {
    ckpt_str prefix;
    bool anywhere;        /* strip: at the start of any component, not only of the key */
    struct prefixes seen; /* the first components of all keys, for a hint */
};

static ckpt_status check_prefix(const char *prefix, ckpt_error *err)
{
    if (!*prefix)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an empty prefix");
    if (!utf8_check(str_c(prefix), false, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the prefix \"%s\" is not UTF-8", prefix);
    return CKPT_OK;
}

/* ---- strip */

static ckpt_status strip_prefix(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    struct prefix_rule *given = rule->user;
    prefixes_add(&given->seen, key);
    *out = prefix_strip(rule->plan->a, key, given->prefix, given->anywhere);
    if (!out->ptr)
        return fail_memory(err);
    if (out->len < key.len && out->len > 1 && out->ptr[0] == '.' && key.ptr[0] != '.' &&
        given->prefix.ptr[given->prefix.len - 1] != '.')
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%.*s\" without \"%.*s\" would begin with a dot\n"
                    "did you mean the prefix \"%.*s.\", with the dot?",
                    STR_ARG(key), STR_ARG(given->prefix), STR_ARG(given->prefix));
    return CKPT_OK;
}

ckpt_status plan_no_key_matches(ckpt_plan *plan, const char *verb, ckpt_str pattern,
                                const struct prefixes *seen, ckpt_error *err)
{
    char prefixes[300], word[SHELL_WORD_MAX];
    (void)prefixes_text(seen, prefixes, sizeof prefixes);
    ckpt_status st = plan_no_match(plan, err, "no key %s \"%.*s\"%s%s", verb, STR_ARG(pattern),
                                   *prefixes ? "; keys begin with " : "", prefixes);
    ckpt_str where = {0};
    for (size_t i = 0; !where.len && i < plan->renames.nmappings; i++)
        where = plan->renames.mappings[i].name;
    if (st == CKPT_OK)
        return st;
    if (where.len && str_find(pattern, where, 0) != SIZE_MAX)
        error_add_hint(err, "names are relative to \"%.*s\"; --root=%s writes only what is in it",
                       STR_ARG(where), shell_word(where, "", "PATH", word));
    if (where.len)
        error_add_hint(err, "names are relative to \"%.*s\"; --allow-none goes on without it",
                       STR_ARG(where));
    error_add_hint(err, "--allow-none goes on without it"); /* no effect if there is a hint */
    return st;
}

ckpt_status ckpt_plan_strip(ckpt_plan *plan, const char *prefix, bool anywhere, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && prefix);
    CKPT_TRY(check_prefix(prefix, err));
    bool ends_with_dot = prefix[strlen(prefix) - 1] == '.';
    struct prefix_rule given = {.prefix = str_c(prefix), .anywhere = anywhere};
    struct rename_rule rule = {
        .plan = plan, .rename_key = strip_prefix, .stripped_prefix = given.prefix, .user = &given};
    if (!ends_with_dot) { /* PREFIX may be a whole component: the prefix with a dot is tried first */
        given.prefix = ARENA_CONCAT(plan->a, given.prefix, STR_LIT("."));
        if (!given.prefix.ptr)
            return fail_memory(err);
        rule.stripped_prefix = given.prefix;
        CKPT_TRY(keys_rename(&rule, err));
        if (rule.nchanged) {
            plan->prefix = given.prefix;
            plan_notice(plan, "\"%s\" is taken as the prefix \"%s.\"", prefix, prefix);
            return CKPT_OK;
        }
        given = (struct prefix_rule){.prefix = str_c(prefix), .anywhere = anywhere};
        rule.stripped_prefix = given.prefix;
    }
    CKPT_TRY(keys_rename(&rule, err));
    if (!rule.nchanged)
        return plan_no_key_matches(plan, anywhere ? "contains" : "begins with", str_c(prefix), &given.seen,
                                   err);
    if (!ends_with_dot)
        plan_notice(plan, "the prefix \"%s\" does not end with a dot", prefix);
    return CKPT_OK;
}

/* ---- add */

static ckpt_status prepend_prefix(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    const struct prefix_rule *given = rule->user;
    *out = ARENA_CONCAT(rule->plan->a, given->prefix, key);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_plan_add(ckpt_plan *plan, const char *prefix, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && prefix);
    CKPT_TRY(check_prefix(prefix, err));
    struct prefix_rule given = {.prefix = arena_str(plan->a, str_c(prefix))};
    struct rename_rule rule = {
        .plan = plan, .rename_key = prepend_prefix, .renames_root_module = true, .user = &given};
    if (!given.prefix.ptr)
        return fail_memory(err);
    CKPT_TRY(keys_rename(&rule, err));
    if (!rule.nchanged)
        return plan_no_match(plan, err, "no state dict to add \"%s\" to", prefix);
    if (given.prefix.ptr[given.prefix.len - 1] != '.')
        plan_notice(plan, "the prefix \"%s\" does not end with a dot", prefix);
    return CKPT_OK;
}

/* ---- strip --auto */

struct auto_strip {
    unsigned nmodules;      /* number of leading `module.` to remove from the keys of the current group */
    bool has_counter;       /* an AveragedModel's n_averaged was seen */
    size_t ninner;          /* keys that still contain `module.` … */
    ckpt_str first_inner;   /* … and the first of them */
    ckpt_str common;        /* what most keys of a group begin with, if that is no wrapper's name … */
    size_t ncommon, ngroup; /* … and how many of its keys, in the first such group */
};

/* strip_leading_modules - removes up to *COUNT leading `module.`, but never all of KEY. *COUNT: number
 * removed. */
static ckpt_str strip_leading_modules(ckpt_str key, unsigned *count)
{
    unsigned removed = 0;
    for (; removed < *count && str_starts(key, MODULE_PREFIX) && key.len > MODULE_PREFIX.len; removed++)
        key = str_skip(key, MODULE_PREFIX.len);
    *count = removed;
    return key;
}

/* count_shared_modules - counts the leading `module.` that all keys of GROUP except n_averaged have. */
static ckpt_status count_shared_modules(struct rename_rule *rule, const struct group *group, ckpt_error *err)
{
    struct auto_strip *strip = rule->user;
    unsigned shared = 1000; /* more than any model has */
    bool has_keys = false, has_counter = false;
    for (size_t i = 0; i < group->keys.n && shared; i++) {
        if (group->keys.list[i].keeps_name)
            continue;
        ckpt_str key = prefix_strip_certain(rule->plan->a, group->keys.list[i].old_name);
        if (!key.ptr)
            return fail_memory(err);
        if (str_is(key, "n_averaged")) {
            has_counter = true;
            continue;
        }
        has_keys = true;
        (void)strip_leading_modules(key, &shared);
    }
    strip->nmodules = has_keys ? shared : 0;
    strip->has_counter |= has_counter && strip->nmodules;
    return CKPT_OK;
}

static ckpt_status strip_wrappers(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    struct auto_strip *strip = rule->user;
    unsigned nstripped = strip->nmodules;
    ckpt_str bare = prefix_strip_certain(rule->plan->a, key);
    if (!bare.ptr)
        return fail_memory(err);
    /* if only "module." is left, KEY is the path of a wrapper in _metadata: no parameter is called so */
    *out = strip_leading_modules(bare, &nstripped);
    if (nstripped < strip->nmodules && str_eq(*out, MODULE_PREFIX))
        *out = STR_LIT("");
    return CKPT_OK;
}

static void count_inner_modules(struct rename_rule *rule, const struct group *group)
{
    struct auto_strip *strip = rule->user;
    for (size_t i = 0; !group->is_optimizer && i < group->keys.n; i++)
        if (!group->keys.list[i].keeps_name && contains_prefix(group->keys.list[i].new_name, MODULE_PREFIX) &&
            !strip->ninner++)
            strip->first_inner = group->keys.list[i].new_name;
}

/* count_nested - returns how many keys of GROUP begin with PREFIX and have two components or more after
 * it. */
static size_t count_nested(const struct group *group, ckpt_str prefix)
{
    size_t n = 0;
    for (size_t i = 0; i < group->keys.n; i++) {
        ckpt_str name = group->keys.list[i].new_name;
        n += str_starts(name, prefix) && str_find(name, STR_LIT("."), prefix.len) != SIZE_MAX;
    }
    return n;
}

/* is_name_taken - returns true if a key of GROUP without PREFIX is the name of another key, or without
 * memory. */
static bool is_name_taken(const struct group *group, ckpt_str prefix)
{
    map *names = map_new(group->keys.n);
    bool is_taken = !names;
    for (size_t i = 0; i < group->keys.n && !is_taken; i++)
        is_taken = !map_put(names, group->keys.list[i].new_name, 0, NULL);
    for (size_t i = 0; i < group->keys.n && !is_taken; i++) {
        ckpt_str name = group->keys.list[i].new_name;
        is_taken = str_starts(name, prefix) && map_get(names, str_skip(name, prefix.len)) != MAP_NONE;
    }
    map_free(names);
    return is_taken;
}

/* find_common_prefix - finds what at least 3/4 of the keys of GROUP begin with, more than half of these with
 * two components after it: a network, not a layer. `ckpt info` shows such a prefix, too. */
static void find_common_prefix(struct auto_strip *strip, const struct group *group)
{
    struct prefixes seen = {.n = 0};
    if (strip->ncommon || group->is_optimizer)
        return;
    for (size_t i = 0; i < group->keys.n; i++)
        prefixes_add(&seen, group->keys.list[i].new_name);
    for (size_t i = 0; i < seen.n; i++) {
        bool is_common = seen.count[i] > 1 && seen.count[i] >= group->keys.n - group->keys.n / 4;
        if (!is_common || find_wrapper(seen.component[i]) ||
            count_nested(group, seen.component[i]) <= seen.count[i] / 2 ||
            is_name_taken(group, seen.component[i]))
            continue;
        strip->common = seen.component[i];
        strip->ncommon = (size_t)seen.count[i];
        strip->ngroup = group->keys.n;
    }
}

static void inspect_stripped(struct rename_rule *rule, const struct group *group)
{
    count_inner_modules(rule, group);
    find_common_prefix(rule->user, group);
}

ckpt_status ckpt_plan_strip_auto(ckpt_plan *plan, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct auto_strip strip = {0};
    char word[SHELL_WORD_MAX], prefix[SHELL_WORD_MAX];
    struct rename_rule rule = {.plan = plan,
                               .rename_key = strip_wrappers,
                               .begin_group = count_shared_modules,
                               .end_group = inspect_stripped,
                               .user = &strip};
    CKPT_REQUIRE(err, plan);
    CKPT_TRY(keys_rename(&rule, err));
    bool is_dashed = str_starts(strip.common, STR_LIT("-")); /* without -- it would be an option */
    if (!rule.nchanged)
        plan_notice(plan, "no wrapper prefix found (module., _orig_mod., …); nothing renamed");
    if (!rule.nchanged && strip.ncommon)
        plan_notice(plan,
                    "%zu of %zu keys begin with \"%.*s\", which is often a real module; to remove it: "
                    "ckpt strip %s%s %s%s",
                    strip.ncommon, strip.ngroup, STR_ARG(strip.common), is_dashed ? "-o OUT -- " : "",
                    shell_word(strip.common, "", "PREFIX", prefix), shell_path(plan->file->path, word),
                    is_dashed ? "" : " -o OUT");
    if (strip.has_counter)
        plan_notice(plan, "\"n_averaged\", the counter of an AveragedModel, is kept");
    if (strip.ninner)
        plan_notice(
            plan,
            "%zu key%s still contain%s \"module.\" (%.*s), which may be a real submodule; if it is not: "
            "ckpt strip --anywhere module. %s -o OUT",
            strip.ninner, strip.ninner == 1 ? "" : "s", strip.ninner == 1 ? "s" : "",
            STR_ARG(strip.first_inner), shell_path(plan->file->path, word));
    return CKPT_OK;
}

/* ---- rename by a map */

struct rename_map {
    map *pair_of; /* old name -> index of its pair */
    ckpt_pair *pairs;
    bool *used;     /* [i]: the old name of pair i is that of a key */
    ckpt_str where; /* the name of the current mapping */
    map *mappings;  /* node of a mapping -> index in first_names */
    /* The first name of each mapping. A shared mapping has more names, but keys are looked up by this one. */
    ckpt_str *first_names;
    size_t nfirst_names, cap_first_names;
};

static ckpt_status begin_map_group(struct rename_rule *rule, const struct group *group, ckpt_error *err)
{
    struct rename_map *renames = rule->user;
    renames->where = group->where;
    if (!rule->dry_run || map_get_num(renames->mappings, ptr_key(group->node)) != MAP_NONE)
        return CKPT_OK;
    bool ok = map_put_num(renames->mappings, ptr_key(group->node), (uint32_t)renames->nfirst_names, NULL) &&
              arena_push(rule->plan->a, &renames->first_names, &renames->nfirst_names,
                         &renames->cap_first_names, &group->where, sizeof group->where);
    return ok ? CKPT_OK : fail_memory(err);
}

/* fail_outside_mapping - fails because the new name of NAME is not below WHERE, its mapping. */
static ckpt_status fail_outside_mapping(ckpt_str name, ckpt_str where, ckpt_error *err)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "\"%.*s\" would leave its mapping: the new name must begin with \"%.*s\"", STR_ARG(name),
                STR_ARG(where));
}

static ckpt_status rename_key_by_map(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    struct rename_map *renames = rule->user;
    ckpt_str where = renames->where;
    uint32_t i = map_get(renames->pair_of, key);
    *out = key;
    if (i != MAP_NONE) {
        *out = renames->pairs[i].text;
        renames->used[i] = true;
        return CKPT_OK;
    }
    if (!where.len)
        return CKPT_OK;
    where = ARENA_CONCAT(rule->plan->a, where, STR_LIT("."));
    ckpt_str full = where.ptr ? ARENA_CONCAT(rule->plan->a, where, key) : where;
    if (!full.ptr)
        return fail_memory(err);
    i = map_get(renames->pair_of, full);
    if (i == MAP_NONE)
        return CKPT_OK;
    ckpt_str new = renames->pairs[i].text;
    if (!str_starts(new, where) || new.len == where.len)
        return fail_outside_mapping(full, where, err);
    *out = str_skip(new, where.len);
    renames->used[i] = true;
    return CKPT_OK;
}

/* index_other_names - adds to OTHERS each beginning of a row's name that is the name of a mapping, with the
 * index of this mapping in first_names. */
static ckpt_status index_other_names(const ckpt_plan *p, const struct rename_map *renames, map *others,
                                     ckpt_error *err)
{
    for (size_t i = 0; i < p->file->table.nrows; i++) {
        const struct row r = table_row(&p->file->table, i);
        size_t from = p->root_depth ? p->root_name.len + 1 : 0, end = 0;
        if (!r.steps || !plan_is_below_root(p, r.t.path, r.t.npath))
            continue;
        for (uint32_t k = 0; k + 1 < r.t.npath; k++) {
            end += (k != 0) + path_elem_len(&r.t.path[k]);
            const ckpt_value *node = r.steps[k + 1].node;
            uint32_t mapping = node && k + 1 > p->root_depth ? map_get_num(renames->mappings, ptr_key(node))
                                                             : MAP_NONE;
            if (mapping != MAP_NONE &&
                !map_put(others, str_of(r.t.name.ptr + from, end - from), mapping, NULL))
                return fail_memory(err);
        }
    }
    return CKPT_OK;
}

/* replace_start - replaces the first COUNT bytes of *NAME by WHERE: both are names of one mapping. */
static bool replace_start(arena *a, ckpt_str where, size_t count, ckpt_str *name)
{
    *name = ARENA_CONCAT(a, where, str_skip(*name, count));
    return name->ptr != NULL;
}

/* use_first_name - if the old name of pair INDEX is below a mapping's name in OTHERS, replaces that name by
 * the mapping's first name, in both names of the pair. Refuses a new name that is not below it. */
static ckpt_status use_first_name(ckpt_plan *p, struct rename_map *renames, const map *others, uint32_t index,
                                  ckpt_error *err)
{
    ckpt_pair *pair = &renames->pairs[index];
    uint32_t mapping = MAP_NONE, earlier_pair;
    size_t len = pair->key.len; /* of the name of the mapping */
    while (mapping == MAP_NONE && COUNT_DOWN(len))
        if (pair->key.ptr[len] == '.')
            mapping = map_get(others, str_of(pair->key.ptr, len));
    if (mapping == MAP_NONE)
        return CKPT_OK;
    ckpt_str name_and_dot = str_of(pair->key.ptr, len + 1), given = pair->key;
    if (!str_starts(pair->text, name_and_dot) || pair->text.len == name_and_dot.len)
        return fail_outside_mapping(given, name_and_dot, err);
    ckpt_str first_name = renames->first_names[mapping];
    if (!replace_start(p->a, first_name, len, &pair->key) ||
        !replace_start(p->a, first_name, len, &pair->text) ||
        !map_put(renames->pair_of, pair->key, index, &earlier_pair))
        return fail_memory(err);
    if (earlier_pair == MAP_NONE || earlier_pair == index)
        return CKPT_OK;
    if (!str_eq(renames->pairs[earlier_pair].text, pair->text))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%.*s\" and \"%.*s\" are one key of a shared mapping, with two new names in the map",
                    STR_ARG(renames->pairs[earlier_pair].key), STR_ARG(given));
    renames->used[index] = renames->used[earlier_pair];
    return CKPT_OK;
}

/* use_first_names - calls use_first_name() for each pair that is not used yet. */
static ckpt_status use_first_names(ckpt_plan *p, size_t count, struct rename_map *renames, ckpt_error *err)
{
    map *other_names = map_new(0);
    ckpt_status st = other_names ? index_other_names(p, renames, other_names, err) : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < count; i++)
        if (!renames->used[i])
            st = use_first_name(p, renames, other_names, i, err);
    map_free(other_names);
    return st;
}

/* find_unused - returns the index of the first of the COUNT pairs that is not used, or COUNT. */
static size_t find_unused(const struct rename_map *renames, size_t count)
{
    size_t i = 0;
    while (i < count && renames->used[i])
        i++;
    return i;
}

/* rename_by_map - renames by the COUNT pairs of GIVEN, which are copied to RENAMES. */
static ckpt_status rename_by_map(ckpt_plan *p, const ckpt_pair *given, size_t count,
                                 struct rename_map *renames, ckpt_error *err)
{
    uint32_t earlier_pair;
    if (!renames->pair_of || !renames->used || !renames->pairs || !renames->mappings)
        return fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        ckpt_str from = given[i].key;
        renames->pairs[i] = given[i];
        if (!map_put(renames->pair_of, from, i, &earlier_pair))
            return fail_memory(err);
        if (earlier_pair != MAP_NONE)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the map names \"%.*s\" twice", STR_ARG(from));
    }
    struct rename_rule by_map = {.plan = p,
                                 .rename_key = rename_key_by_map,
                                 .begin_group = begin_map_group,
                                 .modules_follow_keys = true,
                                 .dry_run = true,
                                 .user = renames};
    CKPT_TRY(keys_rename(&by_map, err));
    if (find_unused(renames, count) < count) {
        CKPT_TRY(use_first_names(p, count, renames, err));
        CKPT_TRY(keys_rename(&by_map, err));
    }
    size_t unused = find_unused(renames, count);
    if (unused < count)
        CKPT_TRY(plan_no_match(p, err,
                               "no key is called \"%.*s\"\n"
                               "`ckpt ls` lists the names; the path of the state dict may be left out; "
                               "--allow-none goes on without it",
                               STR_ARG(given[unused].key)));
    by_map.dry_run = false;
    CKPT_TRY(keys_rename(&by_map, err));
    if (!by_map.nchanged)
        plan_notice(p, "the map renames nothing");
    return CKPT_OK;
}

/* rename_pairs - renames by COUNT PAIRS, whose texts live as long as P. */
static ckpt_status rename_pairs(ckpt_plan *p, const ckpt_pair *pairs, size_t count, ckpt_error *err)
{
    if (count >= MAP_NONE)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a rename map of %zu entries", count);
    struct rename_map renames = {.pair_of = map_new(count),
                                 .pairs = arena_array(p->a, count, sizeof *renames.pairs),
                                 .used = arena_array(p->a, count, sizeof *renames.used),
                                 .mappings = map_new(0)};
    ckpt_status st = rename_by_map(p, pairs, count, &renames, err);
    map_free(renames.pair_of);
    map_free(renames.mappings);
    return st;
}

/* copy_name - checks GIVEN, a text of the caller, and sets *OUT to a copy that lives as long as P. */
static ckpt_status copy_name(ckpt_plan *p, ckpt_str given, ckpt_str *out, ckpt_error *err)
{
    CKPT_REQUIRE(err, given.ptr || !given.len);
    if (!utf8_check(given, false, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the name \"%.*s\" is not UTF-8", STR_ARG(given));
    *out = arena_str(p->a, given);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_plan_rename_pairs(ckpt_plan *plan, const ckpt_pair *pairs, size_t count, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && (pairs || !count));
    ckpt_pair *copies = arena_array(plan->a, count, sizeof *copies);
    if (!copies)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        CKPT_TRY(copy_name(plan, pairs[i].key, &copies[i].key, err));
        CKPT_TRY(copy_name(plan, pairs[i].text, &copies[i].text, err));
    }
    return rename_pairs(plan, copies, count, err);
}

/* read_pairs - appends the pairs of {"old": "new", …} to PAIRS, which grows in A. */
static ckpt_status read_pairs(json_scan *json, arena *a, ckpt_pair **pairs, size_t *count, ckpt_error *err)
{
    size_t cap = 0;
    enum json_event event = json_next(json);
    if (event == JSON_ERROR)
        error_add_hint(err, "a rename map is a JSON object {\"old\": \"new\"}");
    if (event != JSON_OBJECT)
        return event == JSON_ERROR
                   ? err->status
                   : json_fail(json, "a rename map is {=a JSON object %s}", "{\"old\": \"new\"}");
    while ((event = json_next(json)) == JSON_KEY) {
        ckpt_str key = json->str;
        event = json_next(json);
        if (event != JSON_STRING)
            break;
        if (!arena_push(a, pairs, count, &cap, &(ckpt_pair){.key = key, .text = json->str}, sizeof **pairs))
            return fail_memory(err);
    }
    if (event != JSON_OBJECT_END)
        return event == JSON_ERROR ? err->status
                                   : json_fail(json, "each value of a rename map has to be a string");
    event = json_next(json);
    return json_check_end(json, event, JSON_END);
}

ckpt_status ckpt_plan_rename_map(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_pair *pairs = NULL;
    size_t n = 0;
    json_scan json;
    ckpt_str text;
    CKPT_REQUIRE(err, plan && path);
    CKPT_TRY(source_read_whole_file(path, plan->file->limits.max_header, plan->a, &text, err));
    json_init(&json, text, 0, plan->a, err);
    CKPT_TRY(name_file_if_failed(read_pairs(&json, plan->a, &pairs, &n, err), path, err));
    return rename_pairs(plan, pairs, n, err);
}
