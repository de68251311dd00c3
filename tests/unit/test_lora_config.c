/* The patterns of adapter_config.json match as in peft: re.match(rf"(.*\.)?({key})$", name). */
#include "op/lora_config.h"
#include "unit.h"

static struct lora_config config;
static arena *memory;

static ckpt_status read_text(const char *text)
{
    ckpt_error err;
    lora_config_free(&config);
    arena_free(memory);
    memory = arena_new(UINT64_C(1) << 30);
    CU_ASSERT_FATAL(memory != NULL);
    return lora_config_read(str_c(text), str_of("", 0), memory, &config, &err);
}

/* scale_of - returns the scale of MODULE; -1: there is none. */
static double scale_of(const char *module)
{
    struct lora_setting setting;
    ckpt_error err;
    return lora_config_find(&config, str_c(module), &setting, &err) == CKPT_OK ? setting.scale : -1;
}

static void the_first_pattern_that_matches_counts(void)
{
    CU_ASSERT_FATAL(
        read_text("{\"r\":2,\"lora_alpha\":2,\"alpha_pattern\":{\"a.b\":4,\"^x.y\":6,\"l\\\\.[01]\\\\.q\":8,"
                  "\".*z\":10,\"b\":12}}") == CKPT_OK);
    CU_ASSERT(scale_of("a.b") == 2 && scale_of("m.a.b") == 2 && scale_of("aXb") == 2 &&
              scale_of("ma.b") == 6);
    CU_ASSERT(scale_of("x.y") == 3 && scale_of("m.x.y") == 1 && scale_of("x.yy") == 1);
    CU_ASSERT(scale_of("m.l.0.q") == 4 && scale_of("l.2.q") == 1 && scale_of("l.0.qq") == 1);
    CU_ASSERT(scale_of("anything.z") == 5 && scale_of("m.b") == 6 && scale_of("") == 1);
}

static void ranks_and_rslora_divide_alpha(void)
{
    CU_ASSERT_FATAL(read_text("{\"r\":4,\"lora_alpha\":8,\"use_rslora\":true,\"rank_pattern\":{\"q\":16}}") ==
                    CKPT_OK);
    CU_ASSERT(scale_of("k") == 4 && scale_of("h.q") == 2);
    CU_ASSERT_FATAL(read_text("{\"r\":4}") == CKPT_OK);
    CU_ASSERT(scale_of("k") == -1);
}

static void modules_to_save_are_found_by_components(void)
{
    CU_ASSERT_FATAL(read_text("{\"modules_to_save\":[\"head\",\"a.b\"]}") == CKPT_OK);
    CU_ASSERT(lora_config_saves(&config, str_c("head")) && lora_config_saves(&config, str_c("m.head.dense")));
    CU_ASSERT(lora_config_saves(&config, str_c("m.a.b.c")) && !lora_config_saves(&config, str_c("ahead")));
    CU_ASSERT(!lora_config_saves(&config, str_c("b")) && !lora_config_saves(&config, str_c("")));
}

static void many_patterns_are_refused(void)
{
    static char text[200 * 1000];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"rank_pattern\":{");
    for (int i = 0; i < 10001; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"m%d\":1", i ? "," : "", i);
    (void)snprintf(text + n, sizeof text - n, "}}");
    CU_ASSERT(read_text(text) == CKPT_EFORMAT);
    lora_config_free(&config);
    arena_free(memory);
}

void suite_lora_config(void)
{
    UNIT(the_first_pattern_that_matches_counts);
    UNIT(ranks_and_rslora_divide_alpha);
    UNIT(modules_to_save_are_found_by_components);
    UNIT(many_patterns_are_refused);
}
