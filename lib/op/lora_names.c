/* lora_names.c - see lora_names.h. */
#include "op/lora_names.h"

static const struct {
    const char *suffix;
    enum lora_role role;
} suffixes[] = {
#define LORA_NAME(suffix, role) {suffix, LORA_##role},
#define LORA_OTHER(component, kind)
#define LORA_UNDERSCORED(prefix)
#include "op/lora_names.def"
#undef LORA_NAME
#undef LORA_OTHER
};

static const struct {
    const char *component, *kind;
} others[] = {
#define LORA_NAME(suffix, role)
#define LORA_OTHER(component, kind) {component, kind},
#include "op/lora_names.def"
#undef LORA_NAME
#undef LORA_OTHER
#undef LORA_UNDERSCORED
};

static const char *const underscored[] = {
#define LORA_NAME(suffix, role)
#define LORA_OTHER(component, kind)
#define LORA_UNDERSCORED(prefix) prefix,
#include "op/lora_names.def"
#undef LORA_NAME
#undef LORA_OTHER
#undef LORA_UNDERSCORED
};

/* The parts of a pipeline of diffusers, in names with dots. */
static const char components[] = "unet. text_encoder. text_encoder_2. text_encoder_3. transformer. "
                                 "base_model.model. diffusion_model.";

static void find_component(struct lora_name *name)
{
    const ckpt_str module = name->module;
    name->component = str_of("", 0);
    for (size_t i = 0; i < sizeof underscored / sizeof *underscored; i++)
        if (str_starts(module, str_c(underscored[i])) && !str_has(module, STR_LIT("."))) {
            name->component = str_first(module, strlen(underscored[i]));
            name->is_underscored = true;
            return;
        }
    for (ckpt_str rest = str_c(components); rest.len;) {
        ckpt_str component = str_take_until(&rest, ' ');
        if (str_starts(module, component))
            name->component = str_first(module, component.len);
    }
}

/* take_processor - removes ".processor" from MODULE, the name of a layer of an attention processor of
 * diffusers: "attn1.processor.to_q" is the layer attn1.to_q, and to_out the layer to_out.0. */
static bool take_processor(arena *a, ckpt_str *module)
{
    const ckpt_str word = STR_LIT(".processor.");
    size_t at = str_find(*module, word, 0);
    if (at == SIZE_MAX)
        return true;
    ckpt_str layer = str_skip(*module, at + word.len);
    *module = ARENA_CONCAT(a, str_first(*module, at), STR_LIT("."), layer,
                           str_is(layer, "to_out") ? STR_LIT(".0") : STR_LIT(""));
    return module->ptr != NULL;
}

bool lora_parse_name(ckpt_str name, arena *a, struct lora_name *out)
{
    *out = (struct lora_name){.role = LORA_OTHER, .module = name};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        ckpt_str suffix = str_c(suffixes[i].suffix);
        if (!str_ends(name, suffix) || name.len == suffix.len)
            continue;
        out->role = suffixes[i].role;
        out->module = str_first(name, name.len - suffix.len);
        if (*suffix.ptr == '_' && !take_processor(a, &out->module))
            return false;
        break;
    }
    find_component(out);
    return true;
}

const char *lora_other_kind(ckpt_str name)
{
    while (name.len) {
        ckpt_str component = str_take_until(&name, '.');
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (str_is(component, others[i].component))
                return others[i].kind;
    }
    return NULL;
}
