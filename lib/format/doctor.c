/* doctor.c - what a file is that cannot be read as a checkpoint, and how far one goes that
 * was cut off. */
#include "format/doctor.h"

#include <sys/stat.h>

#include "base/cursor.h"
#include "format/recognize.h"
#include "format/safetensors/safetensors.h"
#include "io/reader.h"

/* ------------------------------------------------------------- no checkpoint */

/* What holds no bytes at all is none of a file's problems: it cannot be read. */
static const char *const unread[] = {"a device, ", "directory without a recognized checkpoint"};

/* name_of - what a file with this signature is called here. */
static const char *name_of(const struct signature *s)
{
    if (s->kind == SIGN_PACKED || s->kind == SIGN_ZLIB)
        return "compressed";
    return s->id ? s->id : "foreign";
}

ckpt_status doctor_foreign(struct doctor *d, source *src, const ckpt_error *e, ckpt_error *err)
{
    struct probe p = {.size = 0};
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (str_starts(str_c(e->what), str_c(unread[i]))) {
            *err = *e;
            return err->status;
        }
    if (str_starts(str_c(e->what), STR_LIT("PyTorch Distributed Checkpoint (DCP) directory, which")))
        return doctor_tell(d, "dcp-folder", true,
                           "python -m torch.distributed.checkpoint.format_utils dcp_to_torch FILE OUT", ".pt",
                           err, "%s; torch's own tool does, and runs what its .metadata names", e->what);
    bool read = src && recognize_fill(&p, d->path, src, NULL) == CKPT_OK;
    const struct signature *s = read ? recognize(&p) : NULL;
    return doctor_says(d, s ? name_of(s) : "foreign", s ? s->fix : NULL, e, err);
}

/* ------------------------------------------------------------------- cut off */

#define LOCAL 30u

/* Data descriptor (APPNOTE 4.3.9): 50 4B 07 08, CRC, and two sizes of 4 or 8 bytes each. */
#define DESCRIPTOR 24u

static bool is_header(uint32_t signature) { return signature == 0x04034B50 || signature == 0x02014B50; }

/* describes - is the descriptor at P one of LENGTH bytes? Returns its own length, or 0. */
static unsigned describes(const unsigned char *p, uint64_t length)
{
    if (load_u32le(p) != 0x08074B50)
        return 0;
    if (load_u32le(p + 8) == length && is_header(load_u32le(p + 16)))
        return 16;
    return load_u64le(p + 8) == length ? DESCRIPTOR : 0;
}

/* described_end - *END is behind the descriptor that tells how many bytes lie between DATA and
 * it; 0: there is none. */
static ckpt_status described_end(source *src, uint64_t data, uint64_t *out, ckpt_error *err)
{
    reader r;
    uint64_t end = 0;
    *out = 0;
    if (data >= src->size)
        return CKPT_OK;
    CKPT_TRY(reader_init(&r, src, data, src->size, err));
    while (!end && reader_left(&r) >= DESCRIPTOR) {
        size_t n = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *p = reader_peek(&r, n);
        if (!p)
            break;
        /* bounded: i + DESCRIPTOR <= n, inside the source */
        for (size_t i = 0; !end && i + DESCRIPTOR <= n; i++)
            if (p[i] == 'P' && describes(p + i, r.pos + i - data))
                end = r.pos + i + describes(p + i, r.pos + i - data);
        (void)reader_skip(&r, n - (DESCRIPTOR - 1));
    }
    reader_free(&r);
    *out = end;
    return CKPT_OK;
}

/* next_record - *AT moves from a local header behind its record; 0: the record does not
 * end. *NAME (of CAP bytes) is what the header calls it. */
static ckpt_status next_record(source *src, uint64_t *at, char *name, size_t cap, ckpt_error *err)
{
    unsigned char h[LOCAL];
    uint64_t data, end = 0;
    uint64_t from = *at;
    *at = 0;
    if (src->size - from < sizeof h) /* bounded: FROM is inside the source */
        return CKPT_OK;
    CKPT_TRY(source_read(src, from, h, sizeof h, err));
    size_t n = load_u16le(h + 26) < cap - 1 ? load_u16le(h + 26) : cap - 1;
    /* bounded: the header was just read there */
    if (source_read(src, from + LOCAL, name, n, NULL) != CKPT_OK)
        n = 0;
    name[n] = 0;
    /* bounded: as above, and two lengths of 16 bits */
    data = from + LOCAL + load_u16le(h + 26) + load_u16le(h + 28);
    if (load_u16le(h + 6) & 8)
        CKPT_TRY(described_end(src, data, &end, err));
    else
        end = data + load_u32le(h + 18); /* bounded: as above, and 32 bits */
    *at = end <= src->size ? end : 0;
    return CKPT_OK;
}

/* cut_archive - how many records of it are whole, and which is not. */
static ckpt_status cut_archive(struct doctor *d, source *src, ckpt_error *err)
{
    char name[256] = "";
    unsigned char sig[4];
    uint64_t at = 0, begin = 0;
    unsigned long long whole = 0;
    while (source_read(src, at, sig, 4, NULL) == CKPT_OK && load_u32le(sig) == 0x04034B50) {
        begin = at;
        CKPT_TRY(next_record(src, &at, name, sizeof name, err));
        if (!at)
            return doctor_tell(
                d, "truncated", true, "ckpt salvage FILE -o OUT", NULL, err,
                "cut off inside record %s, which begins at byte %llu; the %llu before it are intact", name,
                (unsigned long long)begin, whole);
        whole++;
    }
    return doctor_tell(d, "truncated", true, "ckpt salvage FILE -o OUT", NULL, err,
                       "cut off at byte %llu, after its last intact record, number %llu (%s)",
                       (unsigned long long)src->size, whole, name);
}

ckpt_status doctor_truncated(struct doctor *d, source *src, const ckpt_file *f, ckpt_error *err)
{
    unsigned char head[8] = {0};
    const struct symptom *s = &d->symptoms[CHECK_TRUNCATED];
    bool archive = src && source_read(src, 0, head, 4, NULL) == CKPT_OK && load_u32le(head) == 0x04034B50;
    d->hint = s->first.hint;
    if (!f && archive && s->first.offset != CKPT_NO_OFFSET)
        return cut_archive(d, src, err);
    if (f && f->flat && f->src)
        return doctor_tell(d, "truncated", true, "ckpt salvage FILE -o OUT", NULL, err,
                           "cut off: %llu of %llu tensors are lost; %s", (unsigned long long)s->n,
                           (unsigned long long)(s->n + f->table.nrows), s->first.what);
    return doctor_says(d, "truncated", "ckpt salvage FILE -o OUT", &s->first, err);
}

/* ---------------------------------------------------------------- safetensors */

bool doctor_big_header(source *src, uint64_t *length)
{
    struct probe p = {.size = 0};
    bool is = src && recognize_fill(&p, "", src, NULL) == CKPT_OK && recognize_safetensors(&p);
    *length = is ? load_u64le(p.head) : 0;
    return *length > SAFETENSORS_MAX_HEADER;
}

/* ----------------------------------------------------------------- extensions */

ckpt_status doctor_name(struct doctor *d, const char *path, const ckpt_file *f, ckpt_error *err)
{
    bool safe = strcmp(f->format->name, "safetensors") == 0;
    bool torch = f->torch_load;
    struct stat st;
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return CKPT_OK;
    if (str_ends(str_c(path), STR_LIT(".safetensors")) && torch)
        return doctor_tell(d, "wrong-extension", true, "ckpt convert FILE OUT", ".safetensors", err,
                           "named .safetensors, but it is a %s: loaders that go by the name refuse it",
                           f->format->title);
    const struct format *named = format_by_suffix(path);
    if (safe && named && strcmp(named->name, "torch-zip") == 0)
        return doctor_tell(d, "wrong-extension", true, "ckpt convert --to torch-zip FILE OUT", NULL, err,
                           "named like a torch file, but it is safetensors: torch.load refuses it");
    return CKPT_OK;
}
