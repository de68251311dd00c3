/* python2.c - see python2.h. */
#include "core/python2.h"

static const struct {
    const char *module, *name, *to_module, *to_name;
} renamed_names[] = {
#define MODULE(old, new)
#define NAME(module, name, to_module, to_name) {module, name, to_module, to_name},
#include "core/python2.def"
#undef NAME
#undef MODULE
};

static const struct {
    const char *module, *to;
} renamed_modules[] = {
#define MODULE(old, new) {old, new},
#define NAME(module, name, to_module, to_name)
#include "core/python2.def"
#undef NAME
#undef MODULE
};

bool python2_translate(ckpt_str *module, ckpt_str *name)
{
    for (size_t i = 0; i < sizeof renamed_names / sizeof *renamed_names; i++)
        if (str_is(*name, renamed_names[i].name) && str_is(*module, renamed_names[i].module)) {
            *module = str_c(renamed_names[i].to_module);
            *name = str_c(renamed_names[i].to_name);
            return true;
        }
    for (size_t i = 0; i < sizeof renamed_modules / sizeof *renamed_modules; i++)
        if (str_is(*module, renamed_modules[i].module)) {
            *module = str_c(renamed_modules[i].to);
            return true;
        }
    return false;
}
