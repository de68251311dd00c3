/* known_names.c - the lists of names for `ckpt scan`. */
#include "op/digest.h"
#include "op/weights_only.h"

enum listed { NOT_LISTED, LISTED_HARMLESS, LISTED_CONSTANT, LISTED_NEW, LISTED_VALUE, LISTED_EXEC };

/* find_listed - returns the list that MODULE.NAME is in; the first of enum listed if it is in several. */
static enum listed find_listed(ckpt_str module, ckpt_str name)
{
    static const struct {
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
    enum listed answer = NOT_LISTED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_is(module, known[i].module) && (answer == NOT_LISTED || known[i].answer < answer) &&
            (str_matches_word(name, known[i].names, str_eq) || str_is(STR_LIT("*"), known[i].names)))
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
    size_t dot = str_find(name, STR_LIT("."), 0);
    enum listed listed = dot == SIZE_MAX && name.len && module.len ? find_listed(module, name) : NOT_LISTED;
    if (dot == SIZE_MAX && name.len && module.len &&
        (weights_only_allows(module, name) || (listed != NOT_LISTED && listed != LISTED_EXEC)))
        return CKPT_SCAN_ALLOW_LISTED;
    ckpt_str first = str_of(name.ptr, dot == SIZE_MAX ? name.len : dot);
    return find_listed(module, first) == LISTED_EXEC ? CKPT_SCAN_KNOWN_EXEC : CKPT_SCAN_UNKNOWN_CALLABLE;
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
