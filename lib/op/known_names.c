/* known_names.c - see known_names.h. */
#include "op/known_names.h"

#include "op/digest.h"
#include "op/weights_only.h"

/* listed - 1: harmless, 2: known to run code, 0: neither. */
static int listed(ckpt_str module, ckpt_str name)
{
    static const struct {
        const char *module, *name;
        int answer;
    } known[] = {
#define HARMLESS(module, name) {module, name, 1},
#define EXEC(module, name)     {module, name, 2},
#include "op/known_names.def"
#undef EXEC
#undef HARMLESS
    };
    int answer = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_is(module, known[i].module) &&
            (str_is(name, known[i].name) || str_is(STR_LIT("*"), known[i].name)))
            answer = answer == 1 ? 1 : known[i].answer;
    return answer;
}

static bool dotted(ckpt_str name) { return memchr(name.ptr, '.', name.len) != NULL; }

ckpt_scan_verdict name_verdict(ckpt_str module, ckpt_str name)
{
    if (!dotted(name) && name.len && module.len &&
        (weights_only_lists(module, name) || listed(module, name) == 1))
        return CKPT_SCAN_ALLOW_LISTED;
    ckpt_str first = name;
    for (size_t i = 0; i < first.len; i++)
        if (first.ptr[i] == '.')
            first.len = i;
    return listed(module, first) == 2 ? CKPT_SCAN_KNOWN_EXEC : CKPT_SCAN_UNKNOWN_CALLABLE;
}

ckpt_status names_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    static const char *const ours[] = {
#define HARMLESS(module, name) module "." name "\n",
#define EXEC(module, name)
#include "op/known_names.def"
#undef EXEC
#undef HARMLESS
    };
    struct hash h;
    const char *name;
    ckpt_status st = hash_begin(&h, CKPT_SHA256, err);
    for (size_t i = 0; st == CKPT_OK && (name = weights_only_name(i)); i++) {
        hash_put(&h, name, strlen(name));
        hash_put(&h, "\n", 1);
    }
    for (size_t i = 0; st == CKPT_OK && i < sizeof ours / sizeof *ours; i++)
        hash_put(&h, ours[i], strlen(ours[i]));
    return st == CKPT_OK ? hash_end(&h, st, out, err) : st;
}
