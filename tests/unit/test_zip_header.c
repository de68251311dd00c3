/* Zip headers: each field is read from and written to bytes as APPNOTE.TXT defines them. */
#include "codec/zip_header.h"
#include "unit.h"

/* Headers whose fields all have different values: signature; made by (central only) and version needed; flags
 * and method; time and date; CRC-32; both sizes; lengths of name and extra field; in the central header, also
 * the length of the comment, disk, internal and external attributes and the offset of the local header. */
#define LOCAL                                                                                                \
    "PK\3\4\x2d\0\x08\x08\x08\0\x01\x02\x21\x54\xaa\xbb\xcc\xdd\x11\x22\x33\x44\x55\x66\x77\x88\3\0\x0c\1"
#define CENTRAL                                                                                              \
    "PK\1\2\x3f\3\x2d\0\x08\x08\x08\0\x01\x02\x21\x54\xaa\xbb\xcc\xdd\x11\x22\x33\x44\x55\x66\x77\x88"       \
    "\3\0\x0c\1\x05\0\x07\0\xff\xff\x01\0\0\xa0\x78\x56\x34\x12"

static const unsigned char *bytes_of(const char *text) { return (const unsigned char *)text; }

static void check_shared_fields(const struct zip_header *h)
{
    CU_ASSERT(h->needed == 45 && h->flags == 0x0808 && h->method == ZIP_DEFLATED && h->time == 0x54210201);
    CU_ASSERT(h->crc == 0xddccbbaa && h->csize == 0x44332211 && h->usize == 0x88776655);
    CU_ASSERT(h->name_len == 3 && h->extra_len == 0x010c);
}

static void headers_are_read(void)
{
    struct zip_header local = zip_parse_local(bytes_of(LOCAL)),
                      central = zip_parse_central(bytes_of(CENTRAL));
    CU_ASSERT(sizeof LOCAL - 1 == ZIP_LOCAL_SIZE && sizeof CENTRAL - 1 == ZIP_CENTRAL_SIZE);
    CU_ASSERT(local.signature == ZIP_LOCAL && central.signature == ZIP_CENTRAL);
    check_shared_fields(&local);
    check_shared_fields(&central);
    CU_ASSERT(local.made_by == 0 && local.comment_len == 0 && local.disk == 0 && local.attributes == 0 &&
              local.offset == 0);
    CU_ASSERT(central.made_by == 0x033f && central.comment_len == 5 && central.disk == 7 &&
              central.attributes == 0xa0000001);
    CU_ASSERT(central.offset == 0x12345678);
    CU_ASSERT(zip_local_length(&local) == 30 + 3 + 0x010c &&
              zip_central_length(&central) == 46 + 3 + 0x010c + 5);
}

static void headers_are_read_from_a_source(void)
{
    source *src = source_mem("..." LOCAL, 3 + ZIP_LOCAL_SIZE, 0);
    struct zip_header h;
    CU_ASSERT(zip_read_local(src, 3, &h, NULL) == CKPT_OK && h.signature == ZIP_LOCAL);
    CU_ASSERT(zip_read_local(src, 2, &h, NULL) == CKPT_OK && h.signature != ZIP_LOCAL);
    CU_ASSERT_EQUAL(zip_read_local(src, 4, &h, NULL), CKPT_ETRUNCATED);
    CU_ASSERT(zip_has_signature(src, 3, ZIP_LOCAL) && !zip_has_signature(src, 3, ZIP_CENTRAL));
    CU_ASSERT(!zip_has_signature(src, 30, ZIP_LOCAL) && !zip_has_signature(src, UINT64_MAX, ZIP_LOCAL));
    source_unref(src);
}

/* resolve_zip64 - calls zip64_resolve() with the N bytes EXTRA of extra fields. */
static bool resolve_zip64(const char *extra, size_t n, struct zip_header *h, size_t *unused)
{
    *unused = 0;
    return zip64_resolve(h, cursor_of(extra, n, 0), unused);
}

/* The numbers 0x100000001, 0x200000002 and 0x300000003, each in 8 bytes. */
#define BYTES_100000001 "\1\0\0\0\1\0\0\0"
#define BYTES_200000002 "\2\0\0\0\2\0\0\0"
#define BYTES_300000003 "\3\0\0\0\3\0\0\0"
#define SATURATED       UINT32_MAX /* the number is in the zip64 field */

static void zip64_fields_replace_saturated_numbers(void)
{
    static const struct {
        const char *extra;
        size_t n;
        uint64_t usize, csize, offset; /* numbers of the header before zip64_resolve() */
        bool ok;
        uint64_t resolved_usize, resolved_csize, resolved_offset; /* numbers after it */
        size_t unused;
    } cases[] = {
        /* an extra field is its id (1: zip64; "FB": another), the length of its bytes, and these bytes */
        {"\1\0\x18\0" BYTES_100000001 BYTES_200000002 BYTES_300000003, 28, SATURATED, SATURATED, SATURATED,
         true, 0x100000001, 0x200000002, 0x300000003, 0},
        {"\1\0\x08\0" BYTES_100000001, 12, 5, SATURATED, 6, true, 5, 0x100000001, 6, 0},
        {"\1\0\x08\0" BYTES_100000001, 12, 5, 7, SATURATED, true, 5, 7, 0x100000001, 0},
        {"\1\0\x0c\0" BYTES_100000001 "disk", 16, SATURATED, 7, 6, true, 0x100000001, 7, 6, 4},
        {"\1\0\x10\0" BYTES_100000001 BYTES_200000002, 20, 5, 7, 6, true, 5, 7, 6, 16},
        {"FB\2\0ZZ\1\0\x08\0" BYTES_100000001 "\1\0\x08\0" BYTES_200000002, 30, SATURATED, 7, 6, true,
         0x100000001, 7, 6, 0},
        {"FB\2\0ZZ", 6, SATURATED, SATURATED, 6, true, SATURATED, SATURATED, 6,
         0}, /* no zip64 field: values are kept */
        {"\1\0\x08\0" BYTES_100000001, 12, SATURATED, SATURATED, 6, false, 0x100000001, 0, 6,
         0}, /* too short for both */
        {"\1\0\x10\0" BYTES_100000001, 12, SATURATED, 7, 6, false, SATURATED, 7, 6,
         0}, /* longer than the extra fields */
        {"FB\x0e\0ZZ\1\0\x08\0" BYTES_100000001, 18, SATURATED, 7, 6, true, SATURATED, 7, 6,
         0},                                          /* only bytes of field "FB" look like zip64 */
        {"FB\x70\0ZZ", 6, 5, 7, 6, true, 5, 7, 6, 0}, /* a truncated field, but no number is saturated */
        {"FB\x70\0ZZ", 6, 5, 7, SATURATED, false, 5, 7, SATURATED, 0},
        {"\1\0\x08", 3, SATURATED, 7, 6, true, SATURATED, 7, 6, 0},
        {"", 0, SATURATED, 7, 6, true, SATURATED, 7, 6, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zip_header h = {.usize = cases[i].usize, .csize = cases[i].csize, .offset = cases[i].offset};
        size_t unused;
        CU_ASSERT_EQUAL(resolve_zip64(cases[i].extra, cases[i].n, &h, &unused), cases[i].ok);
        CU_ASSERT(h.usize == cases[i].resolved_usize && h.csize == cases[i].resolved_csize &&
                  h.offset == cases[i].resolved_offset);
        CU_ASSERT_EQUAL(unused, cases[i].unused);
    }
}

/* Numbers of at least 0xffffffff are written to a zip64 field. */
static void headers_are_written_and_read_back(void)
{
    static const uint64_t numbers[] = {0, 70, SATURATED - 1, SATURATED, UINT64_C(1) << 40};
    for (size_t i = 0; i < 25; i++) {
        uint64_t size = numbers[i % 5], offset = numbers[i / 5];
        const struct zip_header in = {.made_by = 45,
                                      .flags = 0x0800,
                                      .time = ZIP_1980,
                                      .crc = 0xdeadbeef,
                                      .csize = size,
                                      .usize = size,
                                      .offset = offset};
        buf b;
        buf_init(&b, 1000);
        enum { PADDING = 5 }; /* bytes in an "FB" field */
        zip_put_local(&b, &in, STR_LIT("a/name"), PADDING);
        size_t local_len = b.len;
        CU_ASSERT_EQUAL(zip_output_local_size(&in, strlen("a/name")) + PADDING, local_len);
        zip_put_central(&b, &in, STR_LIT("a/name"));
        CU_ASSERT_FATAL(buf_ok(&b));
        struct zip_header local = zip_parse_local(b.data), central = zip_parse_central(b.data + local_len);
        /* Bytes of the zip64 field: 4 for id and length, 16 for both sizes if they are saturated, and 8 for
         * the offset if that is saturated. */
        uint32_t sizes64 = size >= SATURATED ? 20 : 0, offset64 = offset < SATURATED ? 0 : sizes64 ? 8 : 12;
        CU_ASSERT(zip_local_length(&local) == local_len &&
                  local.extra_len == sizes64 + ZIP_PAD_FIELD + PADDING);
        CU_ASSERT(zip_central_length(&central) == b.len - local_len &&
                  central.extra_len == sizes64 + offset64);
        CU_ASSERT(local.needed == (sizes64 ? ZIP_VERSION_ZIP64 : ZIP_VERSION));
        CU_ASSERT(central.needed == (sizes64 || offset64 ? ZIP_VERSION_ZIP64 : ZIP_VERSION) &&
                  central.made_by == 45);
        CU_ASSERT(zip64_length(&in) == central.extra_len &&
                  memcmp(b.data + local_len - 9, "FB\5\0ZZZZZ", 9) == 0);
        CU_ASSERT(zip64_resolve(&local, cursor_of(b.data + ZIP_LOCAL_SIZE + 6, local.extra_len, 0), NULL));
        CU_ASSERT(zip64_resolve(
            &central, cursor_of(b.data + local_len + ZIP_CENTRAL_SIZE + 6, central.extra_len, 0), NULL));
        CU_ASSERT(local.csize == size && local.usize == size && central.csize == size &&
                  central.usize == size && central.offset == offset);
        CU_ASSERT(local.crc == in.crc && central.crc == in.crc && local.flags == in.flags &&
                  central.time == in.time);
        buf_free(&b);
    }
}

static void descriptors_have_four_forms(void)
{
    /* descriptors: a signature, a CRC-32, the compressed and the uncompressed size, in 4 or 8 bytes each */
    static const char descriptor32[] = "PK\7\x08\1\2\3\4\x10\0\0\0\x20\0\0\0",
                      descriptor64[] = "PK\7\x08\1\2\3\4" BYTES_100000001 BYTES_200000002;
    struct zip_descriptor d;
    CU_ASSERT(zip_parse_descriptor(bytes_of(descriptor32), 16, ZIP_SIGNED, &d) && d.length == 16);
    CU_ASSERT(d.crc == 0x04030201 && d.csize == 16 && d.usize == 32);
    CU_ASSERT(zip_parse_descriptor(bytes_of(descriptor32) + 4, 12, 0, &d) && d.length == 12 && d.usize == 32);
    CU_ASSERT(zip_parse_descriptor(bytes_of(descriptor64), 24, ZIP_SIGNED | ZIP_WIDE, &d) && d.length == 24);
    CU_ASSERT(d.crc == 0x04030201 && d.csize == 0x100000001 && d.usize == 0x200000002);
    CU_ASSERT(zip_parse_descriptor(bytes_of(descriptor64) + 4, 20, ZIP_WIDE, &d) && d.length == 20);
    CU_ASSERT(!zip_parse_descriptor(bytes_of(descriptor32), 15, ZIP_SIGNED, &d));
    CU_ASSERT(!zip_parse_descriptor(bytes_of(descriptor64), 23, ZIP_SIGNED | ZIP_WIDE, &d));
    CU_ASSERT(!zip_parse_descriptor(bytes_of(descriptor64) + 4, 20, ZIP_SIGNED, &d));
    CU_ASSERT(!zip_parse_descriptor(bytes_of(descriptor32), 0, 0, &d));
    buf b;
    buf_init(&b, 100);
    zip_put_descriptor(&b, 0x04030201, 16, 32);
    CU_ASSERT(b.len == 16 && memcmp(b.data, descriptor32, 16) == 0);
    buf_free(&b);
}

/* A number that does not fit into the end record is saturated there. Before the end record are the zip64 end
 * record (56 bytes), which has the true numbers, and its locator (20 bytes). */
static void end_records_are_saturated(void)
{
    static const uint64_t two_to_32 = UINT64_C(1) << 32;
    for (int is_large = 0; is_large < 2; is_large++) {
        const struct zip_end_record in = {.entries = is_large ? 65535 : 65534,
                                          .size = is_large ? two_to_32 - 1 : 7,
                                          .offset = is_large ? two_to_32 : two_to_32 - 2};
        buf b;
        buf_init(&b, 200);
        zip_put_ends(&b, &in, two_to_32);
        CU_ASSERT_EQUAL_FATAL(b.len, ZIP_ENDS_SIZE);
        struct zip_end_record zip64_end = zip64_parse_end(b.data),
                              end = zip_parse_end(b.data + ZIP64_END_SIZE + ZIP64_LOCATOR_SIZE);
        struct zip64_locator locator = zip64_parse_locator(b.data + ZIP64_END_SIZE);
        /* 44 bytes of the record come after the field "follows" */
        CU_ASSERT(zip64_end.signature == ZIP64_END && zip64_end.follows == 44 && !zip64_end.disk &&
                  !zip64_end.directory_disk);
        CU_ASSERT(zip64_end.entries == in.entries && zip64_end.disk_entries == in.entries);
        CU_ASSERT(zip64_end.size == in.size && zip64_end.offset == in.offset);
        CU_ASSERT(locator.signature == ZIP64_LOCATOR && locator.offset == two_to_32 && !locator.disk &&
                  locator.disks == 1);
        CU_ASSERT(end.signature == ZIP_END && !end.disk && !end.directory_disk && !end.comment_len);
        CU_ASSERT(end.entries == (is_large ? 0xffff : 65534) && end.disk_entries == end.entries);
        CU_ASSERT(end.size == (is_large ? SATURATED : 7) &&
                  end.offset == (is_large ? SATURATED : SATURATED - 1));
        buf_free(&b);
    }
}

/* The bytes of the record are 1, 2, 3 and so on, so that each field has a value of its own. */
static void end_records_are_read(void)
{
    unsigned char b[ZIP64_END_SIZE];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)(i + 1);
    struct zip_end_record end = zip_parse_end(b), zip64_end = zip64_parse_end(b);
    struct zip64_locator locator = zip64_parse_locator(b);
    CU_ASSERT(end.signature == 0x04030201 && end.disk == 0x0605 && end.directory_disk == 0x0807);
    CU_ASSERT(end.disk_entries == 0x0a09 && end.entries == 0x0c0b && end.size == 0x100f0e0d);
    CU_ASSERT(end.offset == 0x14131211 && end.comment_len == 0x1615 && end.follows == 0);
    CU_ASSERT(zip64_end.signature == 0x04030201 && zip64_end.follows == 0x0c0b0a0908070605 &&
              zip64_end.disk == 0x14131211);
    CU_ASSERT(zip64_end.directory_disk == 0x18171615 && zip64_end.disk_entries == 0x201f1e1d1c1b1a19);
    CU_ASSERT(zip64_end.entries == 0x2827262524232221 && zip64_end.size == 0x302f2e2d2c2b2a29);
    CU_ASSERT(zip64_end.offset == 0x3837363534333231 && zip64_end.comment_len == 0);
    CU_ASSERT(locator.signature == 0x04030201 && locator.disk == 0x08070605 &&
              locator.offset == 0x100f0e0d0c0b0a09);
    CU_ASSERT(locator.disks == 0x14131211);
}

void suite_zip_header(void)
{
    UNIT(headers_are_read);
    UNIT(headers_are_read_from_a_source);
    UNIT(zip64_fields_replace_saturated_numbers);
    UNIT(headers_are_written_and_read_back);
    UNIT(descriptors_have_four_forms);
    UNIT(end_records_are_saturated);
    UNIT(end_records_are_read);
}
