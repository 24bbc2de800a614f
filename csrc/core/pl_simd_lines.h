/* Reading head lines over bit masks, one bit a byte, 64 bytes a block: included once by each vector set, which defines
   before it
     PL_ISA               the target attribute of all functions here
     name_valid(p, n, room)  are these n bytes tchars? `room` bytes can be read. Or NONTOKEN_TELLS: names need no look
     low_bit(x), popcount(x)  the number of the lowest bit (64 for 0), the number of bits
     block_masks(p)       masks of 64 readable bytes
     tail_masks(p, n, whole)  the same of the n < 64 bytes at p, the last of an input of `whole` bytes; bits from n on are
                          clear in lf and odd
   lf: LF. odd: all other bytes that a line may not just pass over: below 0x20, and DEL. nontoken: not a tchar.

   First the masks of a stretch are made, up to the empty line, an odd byte that no LF follows, or the end; then its lines
   are walked. Two loops, since what varies from one head to the next would be mispredicted in one. A line is taken when
   it is whole, ends in CRLF and has no other odd byte; the name ends at the first bit of nontoken, so the search for the
   colon has validated it. All else is left to pl_head_step. */
#include "pl_head.h"
#include "pl_head_state.h"

#if defined(NONTOKEN_TELLS)
static inline PL_ISA bool name_valid (const char *p, size_t n, size_t room) {
  (void)p, (void)n, (void)room;
  return true;
}
#endif

enum { BLOCKS_MAX = 64 }; /* of a stretch: 4 KiB */

typedef struct stretch {
  uint64_t nontoken[BLOCKS_MAX + 2];
  uint16_t lf[64 * BLOCKS_MAX + 4]; /* offsets of the LFs */
} stretch;

/* What goes on from block to block. */
typedef struct carry {
  uint64_t odd, lf; /* of the block before */
  size_t lines;
} carry;

static inline PL_ISA uint64_t up_to (uint64_t bit) { return bit ^ (bit - 1); } /* that bit and all below it */

/* Appends the offsets of the bits: four at once, which is what most blocks hold at most. */
static inline PL_ISA size_t append (uint16_t *to, uint64_t bits, uint32_t off) {
  size_t n = popcount(bits);
  to[0] = (uint16_t)(off + low_bit(bits));
  bits &= bits - 1;
  to[1] = (uint16_t)(off + low_bit(bits));
  bits &= bits - 1;
  to[2] = (uint16_t)(off + low_bit(bits));
  bits &= bits - 1;
  to[3] = (uint16_t)(off + low_bit(bits));
  bits &= bits - 1;
  if (__builtin_expect(bits != 0, 0))
    for (size_t i = 4; i < n; i++, bits &= bits - 1) to[i] = (uint16_t)(off + low_bit(bits));
  return n;
}

/* One block; false when no line can be read behind it. */
static inline PL_ISA bool add_block (stretch *s, carry *c, masks m, size_t k) {
  uint64_t empty = m.lf & (m.lf << 2 | c->lf >> 62); /* two LFs with one byte between them */
  uint64_t stray = (m.odd << 1 | c->odd >> 63) & ~m.lf; /* no LF where one had to follow */
  uint64_t last = empty | stray;
  s->nontoken[k] = m.nontoken;
  if (__builtin_expect(last != 0, 0)) m.lf &= up_to(last & -last);
  c->lines += append(s->lf + c->lines, m.lf, (uint32_t)(64 * k));
  c->odd = m.odd;
  c->lf = m.lf;
  return last == 0;
}

/* The masks of b[0..len), len > 0, as far as lines can be read; returns how many whole ones there are. */
static inline PL_ISA size_t scan_lines (const char *b, size_t len, stretch *s) {
  size_t whole = len / 64 < BLOCKS_MAX ? len / 64 : BLOCKS_MAX, k = 0;
  carry c = {0, 0, 0};
  while (k < whole && add_block(s, &c, block_masks(b + 64 * k), k)) k++;
  if (k == whole && k < BLOCKS_MAX && len % 64 > 0) add_block(s, &c, tail_masks(b + 64 * k, len % 64, len), k);
  s->nontoken[k + 1] = ~UINT64_C(0);
  return c.lines;
}

/* At least 57 bits from position `at` of the bits in w, then zeros. */
static inline PL_ISA uint64_t window (const uint64_t *w, size_t at) {
  uint64_t bits;
  memcpy(&bits, (const char *)w + at / 8, sizeof bits);
  return bits >> at % 8;
}

static inline PL_ISA bool has_space (const char *p, size_t n) {
#if PL_X86
  const __m128i space = _mm_set1_epi8(' ');
  if (n >= 16) {
    for (size_t i = 0; i + 16 <= n; i += 16)
      if (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + i)), space))) return true;
    return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + n - 16)), space)) != 0;
  }
#endif
  for (size_t i = 0; i < n; i++)
    if (p[i] == ' ') return true;
  return false;
}

/* field-name ":" OWS field-value OWS at b[start..end), with CRLF behind it, which ends every name; room: bytes that
   can be read at start */
static inline PL_ISA bool take_field (pl_field *f, const char *b, uint32_t base, size_t start, size_t end,
                                      const uint64_t *nontoken, size_t room) {
  size_t n = low_bit(window(nontoken, start)), colon = start + n;
  if (n - 1 > 62 || b[colon] != ':' || !name_valid(b + start, n, room)) return false;
  size_t v = colon + 1, e = end;
  if (__builtin_expect(b[v] == ' ', 1)) v++;
  while (__builtin_expect(b[v] == ' ', 0)) v++; /* the CR stops it */
  if (__builtin_expect(b[e - 1] == ' ', 0))
    while (e > v && b[e - 1] == ' ') e--;
  f->name = base + (uint32_t)start;
  f->name_len = (uint32_t)n;
  f->value = base + (uint32_t)v;
  f->value_len = (uint32_t)(e - v);
  f->id = (uint8_t)(room >= 8 ? pl_field_id_of(b + start, n) : pl_field_known((pl_slice){b + start, n}));
  f->folded = false;
  return true;
}

/* method SP target SP HTTP/1.d at b[0..end) */
static inline PL_ISA bool take_request_line (pl_head *h, const char *b, uint32_t base, size_t end, uint64_t nontoken) {
  if (end < 14 || nontoken == 0) return false;
  size_t m = (size_t)__builtin_ctzll(nontoken), t = m + 1, t_end = end - 9;
  uint64_t v;
  memcpy(&v, b + end - 8, 8);
  unsigned minor = (unsigned char)b[end - 1] - '0';
  if (m == 0 || b[m] != ' ' || b[t_end] != ' ' || (v & PL_VERSION_MASK) != PL_VERSION_1 || minor > 9 || t >= t_end)
    return false;
  if (!name_valid(b, m, end) || has_space(b + t, t_end - t) || t_end - t > h->max.target) return false;
  h->method = base;
  h->method_len = (uint32_t)m;
  h->target = base + (uint32_t)t;
  h->target_len = (uint32_t)(t_end - t);
  h->major = 1;
  h->minor = (uint8_t)minor;
  h->state = PL_HEAD_FIELDS;
  return true;
}

static PL_ISA void read_lines (pl_head *h, const char *p, size_t n) {
  const char *b = p + h->line;
  size_t len = n - h->line, start = 0, i = 0;
  stretch s;
  if (len == 0 || (h->state == PL_HEAD_START && h->kind != PL_REQUEST)) return;
  size_t lines = scan_lines(b, len, &s);
  if (h->state == PL_HEAD_START && lines > 0) {
    size_t end = (size_t)s.lf[0] - 1;
    if (s.lf[0] == 0 || b[end] != '\r' || !take_request_line(h, b, h->line, end, s.nontoken[0])) return;
    start = s.lf[0] + 1u;
    i = 1;
  }
  pl_field *f = h->field + h->nfields, *const full = h->field + h->max.fields;
  for (; i < lines; i++) {
    size_t lf = s.lf[i], end = lf - 1;
    if (lf == start || b[end] != '\r') break;
    if (end == start) {
      start += 2;
      h->state = PL_HEAD_DONE;
      break;
    }
    if (f == full || !take_field(f, b, h->line, start, end, s.nontoken, len - start)) break;
    f++;
    start = lf + 1;
  }
  h->nfields = (uint32_t)(f - h->field);
  h->line += (uint32_t)start;
}
