/* notice.c - see notice.h. */
#include "base/notice.h"

#include <stdio.h>

#include "base/text.h"

#define MAX_NOTICES 1000 /* notices of one file; later ones are dropped */

static void add_unique(struct notices *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->text[i], text) == 0)
            return;
    const char *copy = arena_str(list->a, str_c(text)).ptr;
    if (copy)
        (void)arena_push(list->a, &list->text, &list->n, &list->cap, &copy, sizeof copy);
}

void notices_add_v(struct notices *list, const char *fmt, va_list ap)
{
    char raw[512], safe[1024];
    if (list->n >= MAX_NOTICES)
        return;
    (void)vsnprintf(raw, sizeof raw, fmt, ap);
    text_fit(str_c(raw), safe, sizeof safe); /* escapes control characters */
    add_unique(list, safe);
}

void notices_add(void *list, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    notices_add_v(list, fmt, ap);
    va_end(ap);
}

const char *notices_at(const struct notices *list, size_t index)
{
    return index < list->n ? list->text[index] : NULL;
}
