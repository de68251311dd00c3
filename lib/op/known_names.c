/* known_names.c - the lists of names for `ckpt scan`. */
#include "op/digest.h"
#include "op/weights_only.h"

enum listed { NOT_LISTED, LISTED_HARMLESS, LISTED_CONSTANT, LISTED_NEW, LISTED_VALUE, LISTED_EXEC };

static const struct known_name {
    const char *module, *names;
    enum listed answer;
} known[] = {
#define HARMLESS(module, name)  {module, name, LISTED_HARMLESS},
#define CONSTANT(module, names) {module, names, LISTED_CONSTANT},
#define NEW(module, names)      {module, names, LISTED_NEW},
#define VALUES(module, names)   {module, names, LISTED_VALUE},
#define EXEC(module, name)      {module, name, LISTED_EXEC},
#include "op/known_names.def"
#undef EXEC
#undef VALUES
#undef NEW
#undef CONSTANT
#undef HARMLESS
};

static bool has_name(const struct known_name *known_name, ckpt_str name)
{
    return str_matches_word(name, known_name->names, str_eq) || str_is(STR_LIT("*"), known_name->names);
}

/* find_listed - returns the list that MODULE.NAME is in; the first of enum listed if it is in several. */
static enum listed find_listed(ckpt_str module, ckpt_str name)
{
    enum listed answer = NOT_LISTED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_is(module, known[i].module) && (answer == NOT_LISTED || known[i].answer < answer) &&
            has_name(&known[i], name))
            answer = known[i].answer;
    return answer;
}

enum name_use name_use(ckpt_str module, ckpt_str name)
{
    switch (weights_only_allows(module, name) ? LISTED_HARMLESS : find_listed(module, name)) {
    case LISTED_CONSTANT: return NAME_CONSTANT;
    case LISTED_NEW: return NAME_NEW;
    case LISTED_VALUE: return NAME_VALUE;
    default: return NAME_ANY;
    }
}

ckpt_scan_verdict name_verdict(ckpt_str module, ckpt_str name)
{
    ckpt_str first = str_before(name, '.');
    enum listed listed = find_listed(module, first);
    if (first.len == name.len && name.len && module.len &&
        (weights_only_allows(module, name) || (listed != NOT_LISTED && listed != LISTED_EXEC)))
        return CKPT_SCAN_ALLOW_LISTED;
    return listed == LISTED_EXEC ? CKPT_SCAN_KNOWN_EXEC : CKPT_SCAN_UNKNOWN_CALLABLE;
}

/* Modules of Python whose names packages give to modules of their own: they count only at the beginning of
 * what is certain to be a path. */
static const char ambiguous_modules[] =
    "code commands logging new platform profile signal site test this trace unittest";

bool name_path_runs_code(ckpt_str path, bool is_certain)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ckpt_str module = str_c(known[i].module);
        bool is_ambiguous = str_matches_word(module, ambiguous_modules, str_eq);
        for (size_t at = 0; known[i].answer == LISTED_EXEC && at < path.len;) {
            at = str_find(path, module, at);
            ckpt_str rest = at == SIZE_MAX ? STR_LIT("") : str_skip(path, at + module.len);
            if (!rest.len || (is_ambiguous && (at > 0 || !is_certain)))
                break;
            size_t dot = str_find(rest, STR_LIT("."), 1);
            ckpt_str name = str_skip(str_first(rest, dot), 1);
            bool is_component = (at == 0 || path.ptr[at - 1] == '.') && *rest.ptr == '.';
            if (is_component && name.len && has_name(&known[i], name))
                return true;
            at++;
        }
    }
    return false;
}

ckpt_status names_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    static const char *const ours[] = {
#define HARMLESS(module, name)  module "." name "\n",
#define CONSTANT(module, names) module "." names "\n",
#define NEW(module, names)      module "." names "\n",
#define VALUES(module, names)   module "." names "\n",
#define EXEC(module, name)
#include "op/known_names.def"
#undef EXEC
#undef VALUES
#undef NEW
#undef CONSTANT
#undef HARMLESS
    };
    struct hash h;
    const char *name;
    ckpt_status st = hash_begin(&h, CKPT_SHA256, err);
    for (size_t i = 0; st == CKPT_OK && (name = weights_only_allowed_name(i)); i++) {
        hash_put(&h, name, strlen(name));
        hash_put(&h, "\n", 1);
    }
    for (size_t i = 0; st == CKPT_OK && i < sizeof ours / sizeof *ours; i++)
        hash_put(&h, ours[i], strlen(ours[i]));
    return st == CKPT_OK ? hash_end(&h, st, out, err) : st;
}
