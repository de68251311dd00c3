/* The texts of errors are safe to print, whatever the file contains, and never too long. */
#include <errno.h>

#include "base/error.h"
#include "base/str.h"
#include "unit.h"

static const struct {
    ckpt_status status;
    const char *name, *text;
} statuses[] = {
#define ERROR(id, name, text) {CKPT_##id, name, text},
#include "base/errors.def"
#undef ERROR
};

static void the_table_and_the_header_agree(void)
{
    size_t n = sizeof statuses / sizeof *statuses;
    CU_ASSERT_EQUAL(n, (size_t)CKPT_ECANCELLED + 1);
    for (size_t i = 0; i < n; i++) {
        CU_ASSERT_EQUAL((size_t)statuses[i].status, i);
        CU_ASSERT_STRING_EQUAL(ckpt_status_name(statuses[i].status), statuses[i].name);
        CU_ASSERT_NOT_EQUAL(statuses[i].text[0], '\0');
        for (size_t k = 0; k < i; k++)
            CU_ASSERT_STRING_NOT_EQUAL(statuses[i].name, statuses[k].name);
    }
    CU_ASSERT_STRING_EQUAL(ckpt_status_name((ckpt_status)999), "unknown-status");
    CU_ASSERT_STRING_EQUAL(ckpt_status_name((ckpt_status)-1), "unknown-status");
}

static void texts_have_file_byte_place_and_reason(void)
{
    ckpt_error e;
    char text[sizeof e];
    memset(&e, 'x', sizeof e);
    CU_ASSERT_EQUAL(fail(&e, CKPT_EFORMAT, 0x1f, "shape needs %d bytes, record has %d", 4096, 4000),
                    CKPT_EFORMAT);
    CU_ASSERT_EQUAL(e.status, CKPT_EFORMAT);
    CU_ASSERT_EQUAL(e.sys_errno, 0);
    CU_ASSERT_STRING_EQUAL(e.hint, "");
    CU_ASSERT_STRING_EQUAL(ckpt_error_text(&e, text, sizeof text),
                           "byte 0x1f: shape needs 4096 bytes, record has 4000");
    error_add_where(&e, "fc.weight");
    CU_ASSERT_EQUAL(e.innermost, 0);
    error_add_where(&e, "%s", "archive/data.pkl");
    CU_ASSERT_STRING_EQUAL(e.where + e.innermost, "fc.weight");
    error_add_file(&e, "m.pt");
    error_add_file(&e, "outer.pt");
    error_add_hint(&e, "download it again");
    error_add_hint(&e, "something vaguer");
    CU_ASSERT_STRING_EQUAL(
        ckpt_error_text(&e, text, sizeof text),
        "m.pt: byte 0x1f: archive/data.pkl: fc.weight: shape needs 4096 bytes, record has 4000");
    CU_ASSERT_STRING_EQUAL(e.hint, "download it again");
    fail(&e, CKPT_ENOMEM, CKPT_NO_OFFSET, "new");
    CU_ASSERT_STRING_EQUAL(ckpt_error_text(&e, text, sizeof text), "new");
    CU_ASSERT_STRING_EQUAL(ckpt_error_text(&e, text, 3), "ne");
}

/* {…} in a format encloses the found value, {=…} the allowed one; braces in arguments have no meaning. */
static void braces_enclose_found_and_allowed_values(void)
{
    ckpt_error e;
    char word[2048];
    fail(&e, CKPT_EFORMAT, 3, "{%s} has {%d} of type %s, {=at most %zu} may be", "a{=b}", -7, "{x",
         (size_t)9);
    CU_ASSERT_STRING_EQUAL(e.what, "a{=b} has -7 of type {x, at most 9 may be");
    CU_ASSERT_STRING_EQUAL(e.found, "-7"); /* the last of the found values is used */
    CU_ASSERT_STRING_EQUAL(e.allowed, "at most 9");
    fail(&e, CKPT_EFORMAT, 3, "{=%d} bytes, {%d}", 5, 50);
    CU_ASSERT_STRING_EQUAL(e.what, "5 bytes, 50");
    CU_ASSERT_STRING_EQUAL(e.found, "50");
    CU_ASSERT_STRING_EQUAL(e.allowed, "5");
    error_add_prefix(&e, "TUPLE1");
    CU_ASSERT_STRING_EQUAL(e.what, "TUPLE1 5 bytes, 50");
    fail(&e, CKPT_EFORMAT, 3, "%s", "{1} {=2}");
    CU_ASSERT_STRING_EQUAL(e.what, "{1} {=2}");
    CU_ASSERT(!e.found[0] && !e.allowed[0]);
    memset(word, 0x1b, sizeof word - 1);
    word[sizeof word - 1] = 0;
    fail(&e, CKPT_EFORMAT, 3, "{%s}, {=%d}", word, 1); /* too long, and full of control characters */
    CU_ASSERT(strlen(e.what) < sizeof e.what && !strchr(e.what, 0x1b));
    CU_ASSERT(strlen(e.found) > 60 && strlen(e.found) < sizeof e.found && !strchr(e.found, 0x1b));
    CU_ASSERT_STRING_EQUAL(e.allowed, "");
    CU_ASSERT_EQUAL(fail(NULL, CKPT_EFORMAT, 3, "{%d}", 1), CKPT_EFORMAT);
    error_add_prefix(NULL, "x");
}

static void the_hint_comes_after_a_newline(void)
{
    ckpt_error e;
    fail(&e, CKPT_EFORMAT, 3, "{%d bytes}, {=%d}: \"%s\"\nread %s again", 4, 5, "a\nb", "x.pt");
    CU_ASSERT_STRING_EQUAL(e.what, "4 bytes, 5: \"a\\u{a}b\"");
    CU_ASSERT_STRING_EQUAL(e.found, "4 bytes");
    CU_ASSERT_STRING_EQUAL(e.allowed, "5");
    CU_ASSERT_STRING_EQUAL(e.hint, "read x.pt again");
    errno = EACCES;
    fail_errno(&e, CKPT_NO_OFFSET, "cannot open\nuse %s", "sudo");
    CU_ASSERT_STRING_EQUAL(e.what, "cannot open: Permission denied");
    CU_ASSERT_STRING_EQUAL(e.hint, "use sudo");
    char name[401];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    fail(&e, CKPT_EFORMAT, 0, "%s%s\nrename it", name, name);
    CU_ASSERT_STRING_EQUAL(e.hint, "rename it");
}

static void errors_may_be_null(void)
{
    CU_ASSERT_EQUAL(fail(NULL, CKPT_ELIMIT, 1, "%s", "x"), CKPT_ELIMIT);
    CU_ASSERT_EQUAL(fail_memory(NULL), CKPT_ENOMEM);
    errno = EACCES;
    CU_ASSERT_EQUAL(fail_errno(NULL, 0, "x"), CKPT_EIO);
    error_add_where(NULL, "x");
    error_add_hint(NULL, "x");
    error_add_file(NULL, "x");
}

static void system_errors_keep_their_number(void)
{
    ckpt_error e;
    errno = ENOENT;
    CU_ASSERT_EQUAL(fail_errno(&e, CKPT_NO_OFFSET, "open %s", "a\nb"), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(e.sys_errno, ENOENT);
    CU_ASSERT_STRING_EQUAL(e.what, "open a\\u{a}b: No such file or directory");
    errno = ENOMEM;
    CU_ASSERT_EQUAL(fail_errno(&e, CKPT_NO_OFFSET, "map"), CKPT_ENOMEM);
    errno = ENOSPC;
    CU_ASSERT_EQUAL(fail_errno(&e, CKPT_NO_OFFSET, "write"), CKPT_EIO);
}

static void text_from_a_file_is_escaped(void)
{
    ckpt_error e;
    ckpt_str name = STR_LIT("a\x1b[31m\xe2\x80\xae\xff\\");
    fail(&e, CKPT_EFORMAT, 0, "tensor \"%.*s\"", STR_ARG(name));
    CU_ASSERT_STRING_EQUAL(e.what, "tensor \"a\\u{1b}[31m\\u{202e}\\xff\\\"");
    /* already escaped: the backslash is not doubled */
    fail(&e, CKPT_EFORMAT, 0, "tensor %s", "a\\u{1b}");
    CU_ASSERT_STRING_EQUAL(e.what, "tensor a\\u{1b}");
    error_add_where(&e, "\r\x07");
    error_add_hint(&e, "\xc2\x9b");
    error_add_file(&e, "\xe2\x80\xa8");
    CU_ASSERT_STRING_EQUAL(e.where, "\\u{d}\\u{7}");
    CU_ASSERT_STRING_EQUAL(e.hint, "\\u{9b}");
    CU_ASSERT_STRING_EQUAL(e.file, "\\u{2028}");
}

static void long_text_is_cut_between_characters(void)
{
    ckpt_error e;
    char long_text[2001];
    for (size_t i = 0; i < 2000; i += 2)
        memcpy(long_text + i, "\xc3\xa4", 2);
    long_text[2000] = '\0';
    for (int shift = 0; shift < 4; shift++) {
        fail(&e, CKPT_EFORMAT, 0, "%.*s%s", shift, "abc", long_text);
        size_t n = strlen(e.what);
        CU_ASSERT(n < sizeof e.what && n > sizeof e.what - 8);
        CU_ASSERT_STRING_EQUAL(e.what + n - 3, "\xe2\x80\xa6");
        CU_ASSERT_PTR_NULL(strchr(e.what, '\\'));
    }
    for (int i = 0; i < 100; i++)
        error_add_where(&e, "level %d", i);
    CU_ASSERT(strlen(e.where) < sizeof e.where);
    CU_ASSERT_NSTRING_EQUAL(e.where, "level 99: level 98: ", 20);
    CU_ASSERT_EQUAL(e.innermost, strlen(e.where));
    memset(long_text, 0x1b, 2000);
    error_add_file(&e, long_text);
    CU_ASSERT(strlen(e.file) < sizeof e.file);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.file, "}\xe2\x80\xa6"));
}

void suite_error(void)
{
    UNIT(the_table_and_the_header_agree);
    UNIT(texts_have_file_byte_place_and_reason);
    UNIT(braces_enclose_found_and_allowed_values);
    UNIT(the_hint_comes_after_a_newline);
    UNIT(errors_may_be_null);
    UNIT(system_errors_keep_their_number);
    UNIT(text_from_a_file_is_escaped);
    UNIT(long_text_is_cut_between_characters);
}
