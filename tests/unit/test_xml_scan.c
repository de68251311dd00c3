/* The tags and attributes of XML, and what is refused. */
#include "codec/xml_scan.h"

#include <stdio.h>

#include "unit.h"

/* describe_events - writes the events of TEXT to OUT: "<a" for an element, " b=[value]" for an attribute,
 * "/a" for the end of an element, "!offset" for a failure. */
static void describe_events(const char *text, char out[512])
{
    xml_scan x;
    ckpt_error err;
    enum xml_event e;
    size_t n = 0;
    arena *a = arena_new(1 << 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    xml_init(&x, str_c(text), a, &err);
    out[0] = '\0';
    do {
        e = xml_next(&x);
        int name = (int)x.name.len;
        if (e == XML_ERROR)
            n += (size_t)snprintf(out + n, 512 - n, "!%d", (int)err.offset);
        else if (e == XML_ATTRIBUTE)
            n += (size_t)snprintf(out + n, 512 - n, " %.*s=[%.*s]", name, x.name.ptr, (int)x.value.len,
                                  x.value.ptr);
        else if (e != XML_END)
            n += (size_t)snprintf(out + n, 512 - n, "%s%.*s", e == XML_OPEN ? "<" : "/", name, x.name.ptr);
    } while (e != XML_ERROR && e != XML_END && n < 400);
    CU_ASSERT(e != XML_ERROR || xml_next(&x) == XML_ERROR);
    arena_free(a);
}

static void check_events(const char *text, const char *expected, int line)
{
    char out[512];
    describe_events(text, out);
    if (strcmp(out, expected) != 0)
        printf("    line %d: %s\n", line, out);
    CU_ASSERT_STRING_EQUAL(out, expected);
}
#define CHECK_EVENTS(text, expected) check_events(text, expected, __LINE__)

static void tags_and_attributes_are_read(void)
{
    CHECK_EVENTS("<a/>", "<a/a");
    CHECK_EVENTS(
        "<?xml version=\"1.0\"?>\n<!-- <b> --><a x='1' y = \"2\" >text<b></b><c /></a >\n<!-- end -->\n",
        "<a x=[1] y=[2]<b/b<c/c/a");
    CHECK_EVENTS("\xef\xbb\xbf<a:b-c.d _e='\xc3\xa9'/>", "<a:b-c.d _e=[\xc3\xa9]/a:b-c.d");
    CHECK_EVENTS("<a><![CDATA[<b> ]] ]]><?p <c> ?>&nbsp;</a>", "<a/a");
    CHECK_EVENTS("<a x='>' x=\"'\"/>", "<a x=[>] x=[']/a");
}

static void references_are_replaced(void)
{
    CHECK_EVENTS("<a x='&lt;&gt;&amp;&quot;&apos;'/>", "<a x=[<>&\"']/a");
    CHECK_EVENTS("<a x='&#65;&#x42;&#x1F600;&#10;'/>", "<a x=[AB\xf0\x9f\x98\x80\n]/a");
    CHECK_EVENTS("<a x='1\n2\t3\r\n4\r5'/>", "<a x=[1 2 3 4 5]/a");
    CHECK_EVENTS("<a x='&amp;lt;'/>", "<a x=[&lt;]/a");
    CHECK_EVENTS("<a x='&nbsp;'/>", "<a!6");
    CHECK_EVENTS("<a x='&'/>", "<a!6");
    CHECK_EVENTS("<a x='&#;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#x;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#xg;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#0;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#xd800;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#1114112;'/>", "<a!6");
    CHECK_EVENTS("<a x='&#99999999999999999999;'/>", "<a!6");
}

static void other_texts_are_refused(void)
{
    CHECK_EVENTS("", "!0");
    CHECK_EVENTS("  ", "!2");
    CHECK_EVENTS("text<a/>", "!0");
    CHECK_EVENTS("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "!1");
    CHECK_EVENTS("<a/>text", "<a/a!4");
    CHECK_EVENTS("<a/><b/>", "<a/a!4");
    CHECK_EVENTS("<a></b>", "<a!5");
    CHECK_EVENTS("</a>", "!2");
    CHECK_EVENTS("<a><b></a>", "<a<b!8");
    CHECK_EVENTS("<a", "<a!2");
    CHECK_EVENTS("<a>", "<a!3");
    CHECK_EVENTS("<a></a", "<a!6");
    CHECK_EVENTS("<a x>", "<a!4");
    CHECK_EVENTS("<a x=1>", "<a!5");
    CHECK_EVENTS("<a x='1>", "<a!8");
    CHECK_EVENTS("<a x='<'/>", "<a!6");
    CHECK_EVENTS("<a x='1'y='2'/>", "<a x=[1]!8");
    CHECK_EVENTS("<a / >", "<a!3");
    CHECK_EVENTS("<1/>", "!1");
    CHECK_EVENTS("< a/>", "!1");
    CHECK_EVENTS("<a><!-- </a>", "<a!12");
    CHECK_EVENTS("<?xml ", "!6");
    CHECK_EVENTS("<a x='\x01'/>", "!6");
    CHECK_EVENTS("<a x='\xff'/>", "!6");
}

static void depth_is_limited(void)
{
    char text[3 * (XML_DEPTH + 1) + 1], out[512];
    for (size_t i = 0; i <= XML_DEPTH; i++)
        memcpy(text + 3 * i, "<a>", 4);
    describe_events(text, out);
    CU_ASSERT_STRING_EQUAL(strchr(out, '!'), "!192");
}

void suite_xml_scan(void)
{
    UNIT(tags_and_attributes_are_read);
    UNIT(references_are_replaced);
    UNIT(other_texts_are_refused);
    UNIT(depth_is_limited);
}
