/* python2.c - see python2.h. */
#include "core/python2.h"

static const struct {
    const char *module, *name, *to_module, *to_name;
} names[] = {
#define MODULE(old, new)
#define NAME(module, name, to_module, to_name) {module, name, to_module, to_name},
#include "core/python2.def"
#undef NAME
#undef MODULE
};

static const struct {
    const char *module, *to;
} modules[] = {
#define MODULE(old, new) {old, new},
#define NAME(module, name, to_module, to_name)
#include "core/python2.def"
#undef NAME
#undef MODULE
};

bool python2_translate(ckpt_str *module, ckpt_str *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(*name, names[i].name) && str_is(*module, names[i].module)) {
            *module = str_c(names[i].to_module);
            *name = str_c(names[i].to_name);
            return true;
        }
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (str_is(*module, modules[i].module)) {
            *module = str_c(modules[i].to);
            return true;
        }
    return false;
}
