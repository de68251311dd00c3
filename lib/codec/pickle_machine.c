/* pickle_machine.c - see pickle_machine.h. Stack, marks and memo are allocated with malloc, because they are
 * not needed once the pickle was read; above 64 MiB they grow only in proportion to the bytes read so far. */
#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "codec/pickle_ops.h"

#define FIRST_WINDOW 4096u
#define FIRST_SLAB   1024u
#define LAST_SLAB    16384u
#define FREE_SCRATCH ((uint64_t)64 << 20) /* bytes that the stack, the marks or the memo may always have */
#define BYTES_A_PUT  16u                  /* a pickle has about one PUT for so many bytes */
#define BYTES_A_CALL 64u
#define FEW          4u
#define MAX_LIKELY   ((size_t)1 << 19)
#define DENSE_MEMO   1024u /* below this, or below twice the PUTs so far, indexes are in the array */

bool machine_fail(struct machine *m, ckpt_status status, const char *fmt, ...)
{
    const struct pickle_op *op = pickle_op(m->op);
    va_list args;
    va_start(args, fmt);
    m->status = fail_v(m->err, status, source_pos(m->r.src, m->at), fmt, args);
    va_end(args);
    if (op)
        fail_prefix(m->err, op->name);
    return false;
}

bool machine_fail_memory(struct machine *m)
{
    if (!arena_full(m->a)) {
        m->status = fail_memory(m->err);
        return false;
    }
    machine_fail(m, CKPT_ELIMIT,
                 "goes {beyond the memory} that metadata may take ({=%" PRIu64 " bytes} are taken)",
                 arena_used(m->a));
    fail_hint(m->err, "a program that trusts this file can raise max_metadata, see libckpt(3)");
    return false;
}

bool machine_fail_underflow(struct machine *m, size_t n)
{
    size_t have = m->top - m->fence;
    return machine_fail(m, CKPT_EFORMAT, "takes {=%zu value%s} from the stack, where {%zu %s}%s", n,
                        n == 1 ? "" : "s", have, have == 1 ? "is" : "are",
                        m->nmarks ? " above the last MARK" : "");
}

bool machine_fill(struct machine *m, size_t n)
{
    uint64_t pos = machine_offset(m), left = m->r.end - pos;
    if (n > left)
        return machine_fail(m, CKPT_ETRUNCATED, "needs {=%zu more bytes}, {%" PRIu64 "} are left", n, left);
    size_t size = m->want > n ? m->want : n;
    if (size > left)
        size = (size_t)left;
    const unsigned char *at = reader_skip(&m->r, pos - m->r.pos) ? reader_peek(&m->r, size) : NULL;
    if (!at) {
        m->status = m->r.status;
        return false;
    }
    m->want = m->want < READER_WINDOW / 2 ? m->want * 2 : READER_WINDOW;
    m->p = at;
    m->lim = at + size;      /* bounded: size bytes are in the window … */
    m->lim_pos = pos + size; /* bounded: … and before the reader's end */
    return true;
}

bool machine_skip(struct machine *m, uint64_t n)
{
    uint64_t left = machine_bytes_left(m);
    if (n > left)
        return machine_fail(m, CKPT_ETRUNCATED, "needs {=%" PRIu64 " more bytes}, {%" PRIu64 "} are left", n,
                            left);
    if (n <= (size_t)(m->lim - m->p)) {
        m->p += n;
        return true;
    }
    m->lim_pos = machine_offset(m) + n;
    m->p = m->lim;
    return true;
}

void *machine_alloc_slow(struct machine *m, size_t n)
{
    void *own = NULL;
    if (n > FIRST_SLAB && !(own = arena_alloc(m->a, n)))
        machine_fail_memory(m);
    if (n > FIRST_SLAB)
        return own;
    m->slab = arena_alloc(m->a, m->slab_size);
    m->slab_left = m->slab ? m->slab_size : 0;
    if (m->slab && m->slab_size < LAST_SLAB)
        m->slab_size *= 2;
    if (m->slab)
        return machine_alloc(m, n);
    machine_fail_memory(m);
    return NULL;
}

char *machine_alloc_text(struct machine *m, size_t n)
{
    size_t size = n + 1;
    char *at = NULL;
    if (size > m->chars_left && size <= FIRST_SLAB) {
        m->chars = arena_alloc(m->a, m->chars_size);
        m->chars_left = m->chars ? m->chars_size : 0;
        if (m->chars && m->chars_size < LAST_SLAB)
            m->chars_size *= 2;
    }
    if (size <= m->chars_left) {
        at = m->chars;
        m->chars += size; /* bounded: size <= chars_left */
        m->chars_left -= size;
    } else if (size > FIRST_SLAB && n < SIZE_MAX) {
        at = arena_alloc(m->a, size);
    }
    if (!at)
        machine_fail_memory(m);
    return at;
}

bool machine_grow(struct machine *m, void *array, size_t *cap, size_t size)
{
    void *old;
    uint64_t more = *cap ? 2 * (uint64_t)*cap : 64, bytes;
    size_t n;
    memcpy(&old, array, sizeof old);
    bool fits = checked_mul(more, size, &bytes) && checked_size(bytes, &n);
    if (fits && bytes > FREE_SCRATCH && bytes / 16 > machine_offset(m) - m->start)
        return machine_fail(m, CKPT_ELIMIT,
                            "needs {more} than {=16 bytes of memory for each one} that was read");
    void *at = fits ? realloc(old, n) : NULL;
    if (!at)
        return machine_fail_memory(m);
    memcpy(array, &at, sizeof at);
    *cap = (size_t)more;
    return true;
}

/* estimate_count - returns how many items of EACH bytes could still follow in the pickle. A list is allocated
 * for so many at once, because one that grows is copied, while unused memory costs nothing. */
static size_t estimate_count(const struct machine *m, unsigned each)
{
    uint64_t n = machine_bytes_left(m) / each + FEW;
    return n < MAX_LIKELY ? (size_t)n : MAX_LIKELY;
}

bool machine_push_mark(struct machine *m)
{
    if (m->nmarks == m->cap_marks && !machine_grow(m, &m->marks, &m->cap_marks, sizeof *m->marks))
        return false;
    m->marks[m->nmarks++] = m->top;
    m->fence = m->top;
    return true;
}

bool machine_pop_mark(struct machine *m, size_t *from)
{
    if (m->nmarks == 0)
        return machine_fail(m, CKPT_EFORMAT,
                            "goes back to {=a MARK}, and {none} is among the %zu values on the stack",
                            m->top);
    *from = m->marks[--m->nmarks];
    m->fence = m->nmarks ? m->marks[m->nmarks - 1] : 0;
    return true;
}

/* ------------------------------------------------------------------- memo */

static ckpt_value *memo_find(const struct machine *m, uint64_t index)
{
    if (index < m->memo_len && m->memo[index])
        return m->memo[index];
    uint32_t far = m->sparse ? map_get_num(m->sparse, index) : MAP_NONE;
    return far == MAP_NONE ? NULL : m->far[far];
}

/* memo_extend - extends the array up to INDEX, unless most of it would be empty. */
static bool memo_extend(struct machine *m, uint64_t index)
{
    uint64_t dense = m->memo_count < DENSE_MEMO / 2 ? DENSE_MEMO : 2 * m->memo_count;
    if (index >= dense)
        return true;
    if (!m->memo) {
        size_t n = estimate_count(m, BYTES_A_PUT);
        m->memo = malloc(n * sizeof *m->memo); /* bounded: by MAX_LIKELY */
        m->memo_cap = m->memo ? n : 0;
    }
    while (index >= m->memo_cap)
        if (!machine_grow(m, &m->memo, &m->memo_cap, sizeof *m->memo))
            return false;
    while (m->memo_len <= index)
        m->memo[m->memo_len++] = NULL;
    return true;
}

static bool memo_put_sparse(struct machine *m, uint64_t index, ckpt_value *v)
{
    if (!m->sparse && !(m->sparse = map_new(64)))
        return machine_fail_memory(m);
    if (m->nfar >= MAP_NONE)
        return machine_fail(m, CKPT_ELIMIT, "is one memo entry too many");
    if (m->nfar == m->cap_far && !machine_grow(m, &m->far, &m->cap_far, sizeof(ckpt_value *)))
        return false;
    m->far[m->nfar] = v;
    return map_set_num(m->sparse, index, (uint32_t)m->nfar++) || machine_fail_memory(m);
}

bool machine_put(struct machine *m, uint64_t index)
{
    if (!machine_need(m, 1))
        return false;
    bool known = memo_find(m, index) != NULL;
    if (index >= m->memo_len && !memo_extend(m, index))
        return false;
    ckpt_value *v = m->stack[m->top - 1];
    if (index < m->memo_len)
        m->memo[index] = v;
    else if (!memo_put_sparse(m, index, v))
        return false;
    m->memo_count += !known;
    return true;
}

bool machine_get(struct machine *m, uint64_t index)
{
    ckpt_value *v = memo_find(m, index);
    if (!v)
        return machine_fail(m, CKPT_EFORMAT,
                            "reads {memo entry %" PRIu64 "}, which is not among {=those put before}", index);
    v->flags |= VALUE_SHARED;
    return machine_push(m, v);
}

/* ------------------------------------------------------------------ nodes */

void *machine_reserve(struct machine *m, void *old, uint32_t n, uint32_t *cap, size_t add, size_t size)
{
    size_t want, more, room = *cap;
    if (add <= *cap - n)
        return old;
    if (add > UINT32_MAX - n) {
        machine_fail(m, CKPT_ELIMIT, "makes a container {of more} than {=%" PRIu32 " items}", UINT32_MAX);
        return NULL;
    }
    want = n + add;
    more = *cap > want / 2 ? 2 * (size_t)*cap : want;
    if (more > FIRST_SLAB / size) { /* many: grow in place if possible */
        void *at = arena_grow(m->a, old, n, &room, want, size);
        *cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
        if (!at)
            machine_fail_memory(m);
        return at;
    }
    void *at = machine_alloc(m, more * size); /* bounded: few */
    if (at && n)
        memcpy(at, old, n * size); /* bounded: n < more, which was allocated */
    *cap = at ? (uint32_t)more : *cap;
    return at;
}

ckpt_value *machine_int(struct machine *m, int64_t i)
{
    ckpt_value **slot = i >= 0 && i < (int64_t)MACHINE_INTS
                            ? &m->small[i]
                            : &m->ints[(uint64_t)i * 0x9e3779b97f4a7c15u >> 56];
    if (*slot && (*slot)->u.i == i)
        return *slot;
    ckpt_value *v = machine_new_node(m, CKPT_V_INT);
    if (v) {
        v->u.i = i;
        *slot = v;
    }
    return v;
}

static bool copy_text(struct machine *m, ckpt_str s, ckpt_str *out)
{
    char *at = machine_alloc_text(m, s.len);
    if (!at)
        return false;
    if (s.len)
        memcpy(at, s.ptr, s.len);
    *out = str_of(at, s.len);
    return true;
}

ckpt_value *machine_global(struct machine *m, ckpt_str module, ckpt_str name)
{
    if (module.len == 0 || name.len == 0) {
        machine_fail(m, CKPT_EFORMAT,
                     "empty module or name in GLOBAL: {module '%.*s', name '%.*s'}, expected {=both}",
                     STR_ARG(module), STR_ARG(name));
        return NULL;
    }
    const unsigned char *c = (const unsigned char *)name.ptr;
    size_t hash = module.len * 7 + name.len * 31; /* bounded: a hash may wrap */
    hash += c[0] * 5u + c[name.len / 2] * 3u + c[name.len - 1];
    uint16_t flags = m->protocol >= 4 && memchr(name.ptr, '.', name.len) ? VALUE_DOTTED : 0;
    flags |= m->protocol >= 3 ? VALUE_LITERAL : 0;
    ckpt_value **slot = &m->globals[hash % MACHINE_GLOBALS], *v = *slot;
    if (v && str_eq(value_module(v), module) && str_eq(value_name(v), name) &&
        (v->flags & (VALUE_DOTTED | VALUE_LITERAL)) == flags)
        return v;
    /* Python 2, which accepted any bytes, writes at most protocol 2. */
    if (m->protocol > 2 && !(utf8_check(module, false, NULL) && utf8_check(name, false, NULL))) {
        machine_fail(m, CKPT_EFORMAT, "has a name that is not {=UTF-8}: {module '%.*s', name '%.*s'}",
                     STR_ARG(module), STR_ARG(name));
        return NULL;
    }
    ckpt_str *both = machine_alloc(m, 2 * sizeof *both);
    if (!both || !copy_text(m, module, &both[0]) || !copy_text(m, name, &both[1]))
        return NULL;
    if (!(v = *slot = machine_new_node(m, CKPT_V_GLOBAL)))
        return NULL;
    v->u.global.module_name = both;
    v->flags = flags;
    struct pickle_facts *f = m->facts;
    return machine_add_fact(m, &f->globals, &f->nglobals, &f->cap_globals, v) ? v : NULL;
}

/* get_tuple_slot - returns the slot of m->sizes for a tuple of these N items; NULL: not a short tuple of
 * integers. */
static ckpt_value **get_tuple_slot(struct machine *m, ckpt_value *const *items, size_t n)
{
    uint64_t hash = n;
    if (n > 4)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->type != CKPT_V_INT)
            return NULL;
        hash = (hash ^ (uint64_t)items[i]->u.i) * 0x9e3779b97f4a7c15u;
    }
    return &m->sizes[hash / (UINT64_MAX / MACHINE_SIZES + 1)];
}

ckpt_value *machine_tuple(struct machine *m, size_t n)
{
    ckpt_value **from = n ? m->stack + (m->top - n) : NULL, *v;
    if (n == 0) {
        if (!m->unit)
            m->unit = machine_new_node(m, CKPT_V_TUPLE);
        return m->unit;
    }
    if (n >= UINT32_MAX) {
        machine_fail(m, CKPT_ELIMIT, "makes a tuple {of more} than {=%" PRIu32 " items}", UINT32_MAX);
        return NULL;
    }
    ckpt_value **slot = get_tuple_slot(m, from, n);
    if (slot && *slot && (*slot)->u.seq.n == n && memcmp((*slot)->u.seq.items, from, n * sizeof *from) == 0)
        return *slot;
    v = machine_new_node_sized(m, CKPT_V_TUPLE, n * sizeof *from);
    if (!v)
        return NULL;
    if (slot)
        *slot = v;
    v->u.seq.items = (ckpt_value **)(v + 1);
    v->u.seq.n = v->u.seq.cap = (uint32_t)n;
    memcpy(v->u.seq.items, from, n * sizeof *from);
    return v;
}

ckpt_value *machine_call(struct machine *m, enum value_call_kind how, ckpt_value *callable, ckpt_value *args)
{
    ckpt_value *v = machine_new_node_sized(m, CKPT_V_CALL, sizeof(struct value_object) - sizeof *v);
    if (!v)
        return NULL;
    v->call = (uint8_t)how;
    v->u.call = (struct value_call){callable, args};
    ((struct value_object *)(void *)v)->more = &value_nothing;
    struct pickle_facts *f = m->facts;
    return machine_add_fact(m, &f->calls, &f->ncalls, &f->cap_calls, v) ? v : NULL;
}

/* ------------------------------------------------------------------ facts */

bool machine_grow_facts(struct machine *m, ckpt_value ***list, size_t n, size_t *cap)
{
    bool few = n || list == &m->facts->globals;
    size_t want = few ? n + FEW : estimate_count(m, BYTES_A_CALL); /* bounded: n is in memory */
    ckpt_value **grown = arena_grow(m->a, *list, n, cap, want, sizeof *grown);
    if (grown)
        *list = grown;
    else
        machine_fail_memory(m);
    return grown != NULL;
}

bool machine_add_mutation(struct machine *m, const ckpt_value *target)
{
    struct pickle_facts *f = m->facts;
    bool is_builtin = target->type == CKPT_V_LIST || target->type == CKPT_V_DICT ||
                      target->type == CKPT_V_SET;
    if (!m->wants_facts || (is_builtin && m->op != PICKLE_BUILD))
        return true;
    struct pickle_mutation *grown = arena_grow(m->a, f->mutations, f->nmutations, &f->cap_mutations,
                                               f->nmutations + FEW, sizeof *grown);
    if (!grown)
        return machine_fail_memory(m);
    f->mutations = grown;
    f->mutations[f->nmutations++] = (struct pickle_mutation){m->at, m->op, target};
    return true;
}

ckpt_status machine_init(struct machine *m, arena *a, source *src, uint64_t pos, uint64_t end,
                         struct pickle_facts *facts, ckpt_error *err)
{
    *m = (struct machine){.a = a, .err = err, .lim_pos = pos, .start = pos, .at = pos, .op = PICKLE_STOP};
    m->want = FIRST_WINDOW;
    m->slab_size = m->chars_size = FIRST_SLAB;
    m->frame_end = UINT64_MAX;
    m->wants_facts = facts != NULL;
    m->facts = facts ? facts : &m->unwanted;
    ckpt_str record = facts ? facts->record : str_of("", 0);
    *m->facts = (struct pickle_facts){.record = record, .protocol = -1};
    memset(m->facts->first_use, 0xff, sizeof m->facts->first_use);
    m->status = reader_init(&m->r, src, pos, end, err);
    m->p = m->lim = m->r.win;
    return m->status;
}

void machine_free(struct machine *m)
{
    struct pickle_facts *f = m->facts;
    arena_shrink(m->a, f->calls, f->ncalls * sizeof *f->calls);       /* bounded: they are … */
    arena_shrink(m->a, f->persids, f->npersids * sizeof *f->persids); /* … in memory */
    reader_free(&m->r);
    map_free(m->sparse);
    free(m->far);
    free(m->memo);
    free(m->marks);
    free(m->stack);
}
