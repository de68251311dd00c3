#include "find.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files.h"
#include "guess.h"

/* ---------------------------------------------------------------- metadata */

static const char metadata_name[] = "__metadata__";

bool metadata_next(const ckpt_file *f, size_t *index, ckpt_leaf *out)
{
    static struct text name;
    static ckpt_path_elem path[2];
    const ckpt_value *key, *value;
    ckpt_pair m = {0};
    size_t at = *index;
    while (ckpt_metadata_at(f, at, &m) && ckpt_metadata_is_tie(f, at))
        at++;
    *index = at + 1;
    if ((ui.root && *ui.root) || !ckpt_value_item(ckpt_file_metadata(f), at, &key, &value))
        return false;
    text_clear(&name);
    text_add(&name, metadata_name);
    text_add(&name, ".");
    text_bytes(&name, m.key.ptr, m.key.len);
    path[0] = (ckpt_path_elem){.str = str_c(metadata_name)};
    path[1] = (ckpt_path_elem){.str = m.key};
    *out = (ckpt_leaf){.name = {name.ptr, name.len}, .path = path, .npath = 2, .value = value};
    return true;
}

bool next_value(const ckpt_file *f, size_t *index, ckpt_leaf *out)
{
    size_t nleaves = ckpt_leaf_count(f);
    if (*index < nleaves) {
        *out = *ckpt_leaf_at(f, (*index)++);
        return true;
    }
    size_t pair = *index - nleaves;
    bool found = metadata_next(f, &pair, out);
    *index = nleaves + pair;
    return found;
}

const ckpt_value *metadata_find(const ckpt_file *f, ckpt_str name)
{
    const size_t n = sizeof metadata_name - 1;
    const ckpt_value *all = ckpt_file_metadata(f), *key, *value;
    if (!all || (ui.root && *ui.root) || name.len < n || memcmp(name.ptr, metadata_name, n) != 0)
        return NULL;
    if (name.len == n)
        return all;
    for (size_t i = 0; name.ptr[n] == '.' && ckpt_value_item(all, i, &key, &value); i++) {
        if (str_is_equal(ckpt_value_str(key), (ckpt_str){name.ptr + n + 1, name.len - n - 1}))
            return value;
    }
    return NULL;
}

void metadata_json(json *parent, const ckpt_file *f)
{
    json *list = json_add_array(parent, "metadata");
    ckpt_pair m;
    for (size_t i = 0; ckpt_metadata_at(f, i, &m); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "key", m.key);
        json_str(item, "value", m.text);
        if (ckpt_metadata_is_tie(f, i))
            json_bool(item, "tie", true);
    }
}

/* -------------------------------------------------------------------- paths */

/* Limits of the search, because in a hostile graph a name can be split in very many ways. */
enum { MAX_DEPTH = 256, MAX_STEPS = 5000000 };

struct search {
    size_t steps; /* items that were compared */
    struct found *out;
};

static bool is_text(const ckpt_value *value)
{
    return ckpt_value_get_type(value) == CKPT_V_STR || ckpt_value_get_type(value) == CKPT_V_STR8;
}

void text_key(struct text *text, const ckpt_value *key)
{
    if (is_text(key))
        text_name(text, ckpt_value_str(key));
    else
        text_value(text, key, 20);
}

/* path_component - returns KEY, or index INDEX of a sequence if KEY is NULL, as it is written in a path. */
static ckpt_str path_component(struct text *text, const ckpt_value *key, size_t index)
{
    if (key && is_text(key))
        return ckpt_value_str(key);
    text_clear(text);
    if (key)
        text_value(text, key, 20);
    else
        text_addf(text, "%zu", index);
    return (ckpt_str){text->ptr, text->len};
}

/* find_below - finds the value whose path below VALUE is PATH. A key may hold dots, so each key that PATH
 * begins with is tried. */
static bool find_below(struct search *search, const ckpt_value *value, ckpt_str path, unsigned depth)
{
    struct text t = {0};
    const ckpt_value *key, *val;
    bool hit = false;
    for (size_t i = 0;
         !hit && depth < MAX_DEPTH && search->steps < MAX_STEPS && ckpt_value_item(value, i, &key, &val);
         i++) {
        ckpt_str word = path_component(&t, key, i);
        search->steps++;
        if (!str_begins(path, word))
            continue;
        if (path.len == word.len) {
            *search->out = (struct found){ckpt_value_tensor(val), val};
            hit = true;
        } else if (path.ptr[word.len] == '.') {
            hit = find_below(search, val, (ckpt_str){path.ptr + word.len + 1, path.len - word.len - 1},
                             depth + 1);
        }
    }
    text_free(&t);
    return hit;
}

static bool find_node(const ckpt_file *f, ckpt_str root, ckpt_str name, struct found *out)
{
    struct search s = {0, out};
    struct text full = {0};
    const ckpt_value *top = ckpt_file_root(f);
    text_bytes(&full, root.ptr, root.len);
    text_add(&full, root.len && name.len ? "." : "");
    text_bytes(&full, name.ptr, name.len);
    bool hit = top && full.len && find_below(&s, top, (ckpt_str){full.ptr, full.len}, 0);
    text_free(&full);
    return hit;
}

bool find_path(const ckpt_file *f, ckpt_str root, ckpt_str name, struct found *out)
{
    (void)ckpt_file_root(f); /* reads the graph, from which ckpt_tensor_at() takes t.value */
    uint32_t row = ckpt_tensor_find(f, name);
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    if (ckpt_tensor_at(f, row, &t)) {
        *out = (struct found){row, t.value};
        return true;
    }
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(f, i)); i++) {
        if (str_is_equal(leaf->name, name)) {
            *out = (struct found){CKPT_NO_TENSOR, leaf->value};
            return true;
        }
    }
    if (find_node(f, root, name, out))
        return true;
    *out = (struct found){CKPT_NO_TENSOR, metadata_find(f, name)};
    return out->value != NULL;
}

/* last_components - returns the last DOTS + 1 components of NAME. */
static const char *last_components(ckpt_str name, size_t dots)
{
    size_t i = name.len;
    for (; i > 0; i--)
        if (name.ptr[i - 1] == '.' && dots-- == 0)
            break;
    return name.ptr + i;
}

/* The nearest full name so far. */
struct nearest_name {
    const char *typed;
    size_t dots; /* in typed */
    int distance;
    ckpt_str name;
};

/* consider_name - makes FULL the nearest name if its last components, as many as were typed, are nearer. */
static void consider_name(struct nearest_name *best, ckpt_str full)
{
    if (memchr(full.ptr, 0, full.len))
        return;
    const char *tail = last_components(full, best->dots);
    int d = strcmp(best->typed, tail) == 0 ? 0 : guess_distance(best->typed, tail);
    if (d < 0 || d >= best->distance)
        return;
    best->distance = d;
    best->name = full;
}

ckpt_str find_similar_name(const ckpt_file *f, const char *name)
{
    struct nearest_name best = {.typed = name, .distance = INT_MAX};
    const ckpt_leaf *leaf;
    for (const char *p = name; *p; p++)
        best.dots += *p == '.';
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        consider_name(&best, ckpt_tensor_name(f, i));
    for (size_t i = 0; (leaf = ckpt_leaf_at(f, i)); i++)
        consider_name(&best, leaf->name);
    return best.name;
}

/* ------------------------------------------------- globs that match nothing */

enum { MAX_NEAR_NAMES = 3, MAX_NEAR_ROWS = 20000 }; /* names in a notice; rows that are compared for it */

/* contains_word - returns true if WORD is in NAME, upper and lower case being alike. */
static bool contains_word(ckpt_str name, ckpt_str word)
{
    for (size_t at = 0; word.len && at + word.len <= name.len; at++)
        if (strncasecmp(name.ptr + at, word.ptr, word.len) == 0)
            return true;
    return false;
}

/* any_name_passes - returns true if the name of a tensor of F or, with VALUES, of another value passes the
 * globs. */
static bool any_name_passes(const ckpt_file *f, const char *const *globs, size_t nglobs, bool values)
{
    ckpt_leaf value;
    for (uint32_t row = 0; row < ckpt_tensor_count(f); row++)
        if (globs_pass(ckpt_tensor_name(f, row), globs, nglobs))
            return true;
    for (size_t i = 0; values && next_value(f, &i, &value);)
        if (globs_pass(value.name, globs, nglobs))
            return true;
    return false;
}

/* longest_word - returns the longest run of GLOB without wildcards, and without dots at its ends. */
static ckpt_str longest_word(const char *glob)
{
    ckpt_str best = {glob, 0};
    for (const char *p = glob; *p;) {
        p += strspn(p, "*?[]\\!.");
        size_t n = strcspn(p, "*?[]\\!");
        size_t end = n;
        while (end && p[end - 1] == '.')
            end--;
        if (end > best.len)
            best = (ckpt_str){p, end};
        p += n;
    }
    return best;
}

/* nearest_component - returns the component of any tensor's name that is nearest to WORD, or empty. */
static ckpt_str nearest_component(const ckpt_file *f, ckpt_str word)
{
    ckpt_str best = {0};
    char typed[64], component[64];
    int least_distance = INT_MAX;
    snprintf(typed, sizeof typed, "%.*s", (int)(word.len < 63 ? word.len : 63), word.ptr);
    for (uint32_t row = 0; row < ckpt_tensor_count(f) && row < MAX_NEAR_ROWS; row++) {
        ckpt_str name = ckpt_tensor_name(f, row);
        for (size_t at = 0, n; at < name.len; at += n + 1) {
            const char *dot = memchr(name.ptr + at, '.', name.len - at);
            n = dot ? (size_t)(dot - name.ptr) - at : name.len - at;
            if (n >= sizeof component)
                continue;
            snprintf(component, sizeof component, "%.*s", (int)n, name.ptr + at);
            int d = guess_distance(typed, component);
            if (d < 0 || d >= least_distance)
                continue;
            least_distance = d;
            best = (ckpt_str){name.ptr + at, n};
        }
    }
    return best;
}

/* add_names_with_word - adds the first names that contain WORD, and how many more there are. Returns false if
 * there is none. */
static bool add_names_with_word(struct text *out, const ckpt_file *f, ckpt_str word)
{
    size_t n = 0, nmore = 0;
    for (uint32_t row = 0; row < ckpt_tensor_count(f); row++) {
        ckpt_str name = ckpt_tensor_name(f, row);
        if (!contains_word(name, word))
            continue;
        if (n == MAX_NEAR_NAMES) {
            nmore++;
            continue;
        }
        text_add(out, n++ ? ", " : "");
        text_name(out, name);
    }
    if (nmore)
        text_addf(out, " and %zu more", nmore);
    return n != 0;
}

/* add_suggestion - adds the pattern that was probably meant by GLOB, with its '!' if it has one, and the
 * names that it matches. */
static void add_suggestion(struct text *out, const ckpt_file *f, const char *glob)
{
    struct text names = {0}, pattern = {0}, typed = {0};
    ckpt_str word = longest_word(glob);
    bool found = add_names_with_word(&names, f, word);
    if (!found && word.len) {
        word = nearest_component(f, word);
        found = add_names_with_word(&names, f, word);
    }
    if (found) {
        text_addf(&pattern, "*%.*s*", (int)word.len, word.ptr);
        bool other_case = !any_name_passes(f, (const char *const *)&pattern.ptr, 1, false);
        text_add(out, other_case ? "; did you mean -i -g " : "; did you mean -g ");
        text_addf(&typed, "%s%s", glob[0] == '!' ? "!" : "", pattern.ptr);
        text_shell(out, typed.ptr);
        text_addf(out, " (%s)?", names.ptr);
    }
    text_free(&names);
    text_free(&pattern);
    text_free(&typed);
}

/* The globs that check_globs() has found to match nothing so far. */
static struct {
    const char *const *globs;
    size_t n;
    bool *matched;   /* by glob; NULL: check_globs() was not called */
    bool any_passed; /* something in an input passed all globs */
} unmatched;

/* any_name_matches - returns true if GLOB, with or without '!', matches a name of F. */
static bool any_name_matches(const ckpt_file *f, const char *glob, bool values)
{
    glob += glob[0] == '!';
    return any_name_passes(f, &glob, 1, values);
}

/* find_unmatched - returns the first glob that has matched nothing: in F, or in any input if F is NULL.
 * Returns NULL if there is none. */
static const char *find_unmatched(const ckpt_file *f, bool values)
{
    for (size_t i = 0; i < unmatched.n; i++) {
        const char *glob = unmatched.globs[i];
        if (f ? !any_name_matches(f, glob, values) : !unmatched.matched[i])
            return glob;
    }
    return NULL;
}

static void match_globs(const ckpt_file *f, const char *const *globs, size_t nglobs, bool values)
{
    if (!unmatched.matched || unmatched.globs != globs) {
        free(unmatched.matched);
        unmatched.matched = mem_new(nglobs, sizeof *unmatched.matched);
        unmatched.globs = globs;
        unmatched.n = nglobs;
    }
    for (size_t i = 0; i < nglobs; i++)
        unmatched.matched[i] = unmatched.matched[i] || any_name_matches(f, globs[i], values);
}

bool check_globs(const ckpt_file *f, const char *const *globs, size_t nglobs, bool values)
{
    struct text t = {0};
    if (!nglobs)
        return true;
    match_globs(f, globs, nglobs, values);
    bool any_passes = any_name_passes(f, globs, nglobs, values);
    unmatched.any_passed = unmatched.any_passed || any_passes;
    const char *glob = any_passes && files.several ? NULL : find_unmatched(f, values);
    if (glob) {
        text_addf(&t, "no tensor matches '%s'", escape_name(str_c(glob + (glob[0] == '!'))));
        add_suggestion(&t, f, glob);
    } else if (!any_passes) {
        text_add(&t, "no tensor matches: patterns that begin with ! exclude all that is left");
    }
    if (t.len && ui.allow_none)
        print_notice(ckpt_file_path(f), "%s", t.ptr);
    else if (t.len)
        report_failure(CKPT_ENOTFOUND, ckpt_file_path(f), NULL, "%s", t.ptr);
    bool ok = !t.len || ui.allow_none;
    text_free(&t);
    return ok;
}

bool check_globs_of_all(void)
{
    const char *glob = find_unmatched(NULL, false);
    if (!files.several || !glob || !unmatched.any_passed || ui.allow_none) /* or each input had an error */
        return true;
    report_failure(CKPT_ENOTFOUND, NULL, NULL, "no tensor of any file matches '%s'",
                   escape_name(str_c(glob + (glob[0] == '!'))));
    return false;
}
