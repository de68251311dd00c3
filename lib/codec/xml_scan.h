/* xml_scan.h - a strict pull scanner for untrusted XML (1.0, UTF-8): returns the tags and attributes, skips
 * text, comments and processing instructions. It builds no tree and does not recurse. Document type
 * declarations, and so entities of their own, are refused. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum xml_event {
    XML_ERROR,
    XML_END,       /* the document is complete */
    XML_OPEN,      /* a tag begins: NAME; its attributes follow */
    XML_ATTRIBUTE, /* NAME and VALUE, of the tag that began last */
    XML_CLOSE      /* an element ends: NAME */
};

#define XML_DEPTH 64u /* most elements within each other */

typedef struct {
    ckpt_str text;
    size_t pos;
    arena *a;                 /* for values with references */
    ckpt_str open[XML_DEPTH]; /* the names of the elements that are open, the outermost first */
    unsigned depth;
    uint8_t state;
    ckpt_str name, value; /* of the last event; a value has no references any more */
    size_t event_at;      /* offset of the event in TEXT */
    ckpt_error *err;
} xml_scan;

/* xml_init - starts to scan TEXT, which begins at offset 0 of its file and must live as long as the names and
 * values of the events. */
void xml_init(xml_scan *scan, ckpt_str text, arena *a, ckpt_error *err);
/* xml_next - returns the next event; after XML_ERROR (err is set) always XML_ERROR. */
enum xml_event xml_next(xml_scan *scan);
