/* cli/text.h formats sizes, integers and shapes for tables. */
#include <stdio.h>

#include "../../cli/text.h"
#include "unit.h"

/* remote_is_without_query - is of cli/remote.c, which is not linked: no URL was cut here. */
bool remote_is_without_query(const char *path);
bool remote_is_without_query(const char *path)
{
    (void)path;
    return false;
}

/* format_by_printf - writes to OUT the text that text_size must give for NBYTES. */
static void format_by_printf(uint64_t nbytes, char *out, size_t cap)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)nbytes / 1024;
    size_t unit = 0;
    for (; v >= 1024 - 0.05 && unit < 5; unit++)
        v /= 1024;
    if (nbytes < 1024)
        snprintf(out, cap, "%u B", (unsigned)nbytes);
    else
        snprintf(out, cap, "%.1f %s", v, units[unit]);
}

static unsigned nwrong;

static void check_size(struct text *t, uint64_t nbytes)
{
    char want[64];
    format_by_printf(nbytes, want, sizeof want);
    text_clear(t);
    text_size(t, nbytes);
    if (strcmp(t->ptr, want) == 0 && t->len == strlen(want))
        return;
    if (nwrong++ < 5)
        printf("\n    %llu bytes are formatted as \"%s\", not \"%s\"", (unsigned long long)nbytes, t->ptr,
               want);
}

static void sizes_are_formatted_as_by_printf(void)
{
    struct text t = {0};
    uint64_t random = 88172645463325252u;
    nwrong = 0;
    for (uint64_t n = 0; n < 1u << 18; n++)
        check_size(&t, n);
    /* sizes around K/20 * 2^SHIFT: where rounding goes to the next tenth, and where the next unit begins */
    for (unsigned shift = 10; shift < 64; shift++)
        for (uint64_t k = 0; k < 20500 && k << shift >> shift == k; k += 3)
            for (uint64_t delta = 0; delta < 5; delta++)
                check_size(&t, (k << shift) / 20 + delta - 2);
    for (int i = 0; i < 100000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        check_size(&t, random >> (random & 63));
    }
    for (uint64_t n = 0; n < 3000; n++)
        check_size(&t, UINT64_MAX - n);
    CU_ASSERT_EQUAL(nwrong, 0);
    text_free(&t);
}

static void halves_round_to_the_even_tenth(void)
{
    static const struct {
        uint64_t n;
        const char *text;
    } cases[] = {
        {0, "0 B"},        {1023, "1023 B"},        {1024, "1.0 KiB"},    {1280, "1.2 KiB"},
        {1792, "1.8 KiB"}, {1048524, "1023.9 KiB"}, {1048525, "1.0 MiB"}, {UINT64_MAX, "16.0 EiB"},
    };
    struct text t = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_clear(&t);
        text_size(&t, cases[i].n);
        CU_ASSERT_STRING_EQUAL(t.ptr, cases[i].text);
    }
    text_free(&t);
}

static void integers_and_shapes_are_formatted(void)
{
    struct text t = {0};
    char want[32];
    for (uint64_t n = 1;; n *= 7) {
        for (uint64_t delta = 0; delta < 3; delta++) {
            text_clear(&t);
            text_uint(&t, n + delta - 1);
            snprintf(want, sizeof want, "%llu", (unsigned long long)(n + delta - 1));
            CU_ASSERT_STRING_EQUAL(t.ptr, want);
        }
        if (n > UINT64_MAX / 7)
            break;
    }
    text_clear(&t);
    text_uint(&t, UINT64_MAX);
    CU_ASSERT_STRING_EQUAL(t.ptr, "18446744073709551615");
    text_clear(&t);
    text_dims(&t, (uint64_t[]){0, 10, UINT64_MAX}, 3, ", ");
    CU_ASSERT_STRING_EQUAL(t.ptr, "[0, 10, 18446744073709551615]");
    text_clear(&t);
    text_dims(&t, NULL, 0, ", ");
    CU_ASSERT_STRING_EQUAL(t.ptr, "[]");
    text_free(&t);
}

/* Long words are checked in parts, which do not divide a character. */
static void long_words_are_printable(void)
{
    char word[301] = "";
    for (int i = 0; i < 100; i++)
        memcpy(word + 3 * i, "\xe8\xaa\x9e", 3);
    CU_ASSERT(text_is_printable(word));
    word[299] = '\0';
    CU_ASSERT(!text_is_printable(word)); /* the last character is cut */
    word[298] = '\x1b';
    CU_ASSERT(!text_is_printable(word));
}

void suite_cli_text(void)
{
    UNIT(sizes_are_formatted_as_by_printf);
    UNIT(halves_round_to_the_even_tenth);
    UNIT(integers_and_shapes_are_formatted);
    UNIT(long_words_are_printable);
}
