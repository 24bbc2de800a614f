/* The core alone: heads, chunked decoding and boundary search, by every vector set, beside floors (memcpy, memchr,
   memmem) and http_parser in the same run. `make bench-core` builds and runs it; the best of several rounds counts. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pl_chunk.h"
#include "pl_head.h"
#include "pl_mpart.h"
#include "pl_scan.h"
#include "pl_simd.h"

#ifdef HAVE_HTTP_PARSER
#include <http_parser.h>
#endif

enum { ROUNDS = 15, FIELDS = 128, MIXED = 512 };

static volatile size_t keep; /* so that no work is left out */

static double now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One thing to measure: how often, and what it works on. */
typedef struct work {
  const char *const *inputs;
  const size_t *sizes;
  size_t count, times;
  const pl_simd *set;
} work;

typedef size_t (*job) (const work *w, const char *p, size_t n);

/* Nanoseconds a call, the best round. */
static double measure (job f, const work *w) {
  double best = 1e18;
  for (int r = 0; r < ROUNDS; r++) {
    double start = now();
    for (size_t i = 0; i < w->times; i++) keep += f(w, w->inputs[i % w->count], w->sizes[i % w->count]);
    double t = (now() - start) / (double)w->times;
    if (t < best) best = t;
  }
  return best;
}

/* ---- heads ---- */

static pl_field fields[FIELDS];
static pl_head head;
static char sink[1 << 16];

static size_t our_head (const work *w, const char *p, size_t n) {
  head.simd = w->set;
  pl_head_reset(&head);
  if (pl_head_step(&head, p, n) != PL_END) abort();
  return head.nfields;
}

static size_t copy_head (const work *w, const char *p, size_t n) {
  (void)w;
  memcpy(sink, p, n);
  __asm__ volatile("" ::: "memory");
  return (size_t)sink[n / 2];
}

static size_t lines_head (const work *w, const char *p, size_t n) {
  size_t lines = 0;
  (void)w;
  for (const char *end = p + n; p < end; lines++) p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
  return lines;
}

#ifdef HAVE_HTTP_PARSER
static size_t seen;
static int on_data (http_parser *p, const char *at, size_t n) {
  (void)p;
  (void)at;
  seen += n;
  return 0;
}

static size_t peer_head (const work *w, const char *p, size_t n) {
  http_parser parser;
  http_parser_settings s;
  (void)w;
  http_parser_settings_init(&s);
  s.on_url = s.on_header_field = s.on_header_value = s.on_body = on_data;
  http_parser_init(&parser, HTTP_REQUEST);
  if (http_parser_execute(&parser, &s, p, n) != n) abort();
  return seen;
}
#endif

#ifdef HAVE_HTTPARSE
size_t httparse_request (const char *p, size_t n); /* bench/httparse.rs */

static size_t httparse_head (const work *w, const char *p, size_t n) {
  size_t found = httparse_request(p, n);
  (void)w;
  if (found == 0) abort();
  return found;
}
#endif

static const char browser[] =
    "GET /cookies HTTP/1.1\r\nHost: 127.0.0.1:8090\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "User-Agent: Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.17 (KHTML, like Gecko) Chrome/24.0.1312.56 "
    "Safari/537.17\r\nAccept-Encoding: gzip,deflate,sdch\r\nAccept-Language: en-US,en;q=0.8\r\n"
    "Accept-Charset: ISO-8859-1,utf-8;q=0.7,*;q=0.3\r\nCookie: name=wookie\r\n\r\n";
static const char small[] = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";

/* A copy that ends where its memory ends, as the last bytes of a buffer do. */
static const char *exact (const char *p, size_t n) {
  char *q = malloc(n);
  if (q == NULL) abort();
  memcpy(q, p, n);
  return q;
}

static size_t make_long (char *to) {
  size_t n = (size_t)sprintf(to, "GET /x HTTP/1.1\r\nHost: example.com\r\n");
  for (int i = 0; i < 59; i++)
    n += (size_t)sprintf(to + n, "X-Custom-Header-%02d: some value of a header, number %02d ..\r\n", i, i);
  return n + (size_t)sprintf(to + n, "\r\n");
}

/* Requests that differ in every length, so that branch predictors cannot learn one. */
static size_t make_mixed (char *to) {
  static const char text[] = "The quick brown fox jumps over the lazy dog and the quick brown fox jumps over the lazy dog";
  size_t n = (size_t)sprintf(to, "GET /%.*s HTTP/1.1\r\nHost: example.com\r\n", rand() % 60 + 1, "abcdefghijklmnopqrstuvwx"
                             "yzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
  for (int i = rand() % 12 + 4; i > 0; i--)
    n += (size_t)sprintf(to + n, "%.*s: %.*s\r\n", rand() % 20 + 2, "X-Aaa-Bbb-Ccc-Dddd-Eeee-Ffff", rand() % 80 + 1, text);
  return n + (size_t)sprintf(to + n, "\r\n");
}

#ifdef HAVE_HTTP_PARSER
#define PEER peer_head
#else
#define PEER lines_head
#endif

static double mean (const size_t *sizes, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)sizes[i];
  return sum / (double)n;
}

/* ns, GB/s, and the time beside the peer's (http_parser, or memchr where that is not installed) in each column */
static void head_row (const char *name, job f, const pl_simd *set, const char *const *inputs, const size_t *sizes) {
  static const char *mixed[MIXED];
  static size_t mixed_sizes[MIXED];
  static double peer[4];
  if (mixed[0] == NULL)
    for (size_t i = 0; i < MIXED; i++) {
      char text[4096];
      mixed_sizes[i] = make_mixed(text);
      mixed[i] = exact(text, mixed_sizes[i]);
    }
  printf("%-24s", name);
  for (size_t i = 0; i < 4; i++) {
    work w = i < 3 ? (work){inputs + i, sizes + i, 1, i == 2 ? 5000 : 30000, set} : (work){mixed, mixed_sizes, MIXED, 60 * MIXED, set};
    double ns = measure(f, &w), bytes = i < 3 ? (double)sizes[i] : mean(mixed_sizes, MIXED);
    if (f == PEER) peer[i] = ns;
    printf("%9.1f %4.1f %5.2f", ns, bytes / ns, peer[i] > 0 ? ns / peer[i] : 0);
  }
  printf("\n");
}

static void heads (const pl_simd *const *sets, size_t count) {
  static char text[8192];
  size_t n = make_long(text);
  const char *inputs[] = {exact(browser, sizeof browser - 1), exact(small, sizeof small - 1), exact(text, n)};
  size_t sizes[] = {sizeof browser - 1, sizeof small - 1, n};
  pl_head_init(&head, PL_REQUEST, (pl_head_limits){16 * 1024, FIELDS, 8 * 1024}, fields);
  printf("heads: ns, GB/s, ratio  %17zu B %17zu B %17zu B         512 mixed\n", sizes[0], sizes[1], sizes[2]);
#ifdef HAVE_HTTP_PARSER
  head_row("http_parser", peer_head, NULL, inputs, sizes);
#endif
#ifdef HAVE_HTTPARSE
  head_row("httparse", httparse_head, NULL, inputs, sizes);
#endif
  head_row("memchr for each line", lines_head, NULL, inputs, sizes);
  head_row("memcpy", copy_head, NULL, inputs, sizes);
  for (size_t i = 0; i < count; i++) head_row(sets[i]->name, our_head, sets[i], inputs, sizes);
}

/* ---- chunked ---- */

static size_t chunked_spans (const work *w, const char *p, size_t n) {
  static pl_field f[8];
  static pl_head trailer;
  pl_chunk c;
  size_t total = 0, used;
  pl_slice data;
  pl_got got;
  (void)w;
  pl_head_init(&trailer, PL_TRAILER, (pl_head_limits){1024, 8, 0}, f);
  pl_chunk_init(&c, (pl_chunk_limits){4096, 16384}, false, &trailer);
  while ((got = pl_chunk_step(&c, p, n, &used, &data)) == PL_DATA) {
    total += data.n;
    p += used;
    n -= used;
  }
  if (got != PL_END) abort();
  return total;
}

static size_t chunked_copy (const work *w, const char *p, size_t n) {
  static char out[1 << 20];
  static pl_field f[8];
  static pl_head trailer;
  pl_chunk c;
  size_t total = 0, used;
  pl_slice data;
  (void)w;
  pl_head_init(&trailer, PL_TRAILER, (pl_head_limits){1024, 8, 0}, f);
  pl_chunk_init(&c, (pl_chunk_limits){4096, 16384}, false, &trailer);
  while (pl_chunk_step(&c, p, n, &used, &data) == PL_DATA) {
    memcpy(out + total, data.p, data.n);
    total += data.n;
    p += used;
    n -= used;
  }
  return total;
}

static size_t plain_copy (const work *w, const char *p, size_t n) {
  static char out[2 << 20];
  (void)w;
  memcpy(out, p, n);
  __asm__ volatile("" ::: "memory");
  return (size_t)out[n / 2];
}

#ifdef HAVE_HTTP_PARSER
static size_t peer_chunked (const work *w, const char *p, size_t n) {
  static const char post[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  http_parser parser;
  http_parser_settings s;
  (void)w;
  http_parser_settings_init(&s);
  s.on_body = on_data;
  http_parser_init(&parser, HTTP_REQUEST);
  http_parser_execute(&parser, &s, post, sizeof post - 1);
  if (http_parser_execute(&parser, &s, p, n) != n) abort();
  return seen;
}
#endif

static void chunked (void) {
  static const size_t sizes[] = {1024, 16};
  for (int i = 0; i < 2; i++) {
    size_t chunk = sizes[i], body = 1 << 20, n = 0;
    char *text = malloc(3 * body);
    for (size_t done = 0; done < body; done += chunk) {
      n += pl_chunk_line(chunk, text + n);
      memset(text + n, 'x', chunk);
      n += chunk;
      n += (size_t)sprintf(text + n, "\r\n");
    }
    n += (size_t)sprintf(text + n, "0\r\n\r\n");
    const char *in = text;
    work w = {&in, &n, 1, 40, NULL};
    double spans = measure(chunked_spans, &w), copied = measure(chunked_copy, &w), floor = measure(plain_copy, &w);
    printf("chunked, %4zu-byte chunks: spans %7.1f GB/s, copied out %5.1f, memcpy %5.1f", chunk, (double)body / spans,
           (double)body / copied, (double)body / floor);
#ifdef HAVE_HTTP_PARSER
    printf(", http_parser %5.1f", (double)body / measure(peer_chunked, &w));
#endif
    printf("\n");
    free(text);
  }
}

/* ---- boundary search: 64 MiB in 64 KiB pieces ---- */

enum { PIECE = 64 * 1024, PIECES = 1024 };
static const char boundary[] = "----WebKitFormBoundaryA1B2C3D4E5F6G7H8I"; /* a delimiter of 43 bytes */
static const char delimiter[] = "\r\n------WebKitFormBoundaryA1B2C3D4E5F6G7H8I";

static void fill (char *p, size_t n, int kind) {
  static const char words[] = "the quick brown fox jumps over the lazy dog, again and again; ";
  size_t d = sizeof delimiter - 1, q = 2;
  while ((d - 1) % q == 0) q++; /* the shortest period at which both probes match */
  for (size_t i = 0; i < n; i++) switch (kind) {
    case 0: p[i] = (char)(rand() >> 7); break;
    case 1: p[i] = i % 72 == 70 ? '\r' : i % 72 == 71 ? '\n' : words[i % (sizeof words - 1)]; break;
    case 2: p[i] = '\r'; break;
    case 3: p[i] = '\n'; break;
    case 4: p[i] = '-'; break;
    case 5: p[i] = i % d == d - 1 ? '#' : delimiter[i % d]; break;         /* all but the last byte */
    case 6: p[i] = i % d == d / 2 ? '#' : delimiter[i % d]; break;         /* all but one in the middle */
    default: p[i] = i % q == 0 ? '\r' : i % q == (d - 1) % q ? delimiter[d - 1] : '-'; break;
    }
}

static size_t scan_pieces (const work *w, const char *p, size_t n) {
  static pl_field f[16];
  static char memory[128];
  static pl_head h;
  pl_mpart m;
  size_t used, total = 0, left;
  pl_slice data;
  static char start[128];
  pl_head_init(&h, PL_PART_HEAD, (pl_head_limits){4096, 16, 0}, f);
  pl_mpart_init(&m, (pl_slice){boundary, sizeof boundary - 1}, false, (pl_mpart_limits){10}, memory, &h);
  m.simd = w->set;
  size_t k = (size_t)sprintf(start, "--%s\r\n\r\n", boundary);
  if (pl_mpart_step(&m, start, k, false, &used, &data) != PL_PART) abort();
  for (size_t i = 0; i < PIECES; i++)
    for (left = n; left > 0; left -= used) {
      if (pl_mpart_step(&m, p + n - left, left, false, &used, &data) != PL_DATA) break; /* the carry: a few bytes */
      total += data.n;
    }
  return total;
}

static size_t memmem_pieces (const work *w, const char *p, size_t n) {
  size_t total = 0;
  (void)w;
  for (size_t i = 0; i < PIECES; i++) {
    total += memmem(p, n, delimiter, sizeof delimiter - 1) == NULL;
    __asm__ volatile("" ::: "memory");
  }
  return total;
}

static void boundaries (const pl_simd *const *sets, size_t count) {
  static const char *const kinds[] = {"random", "text", "all CR", "all LF", "dashes", "near, last", "near, middle", "probes"};
  static char piece[PIECE];
  const char *in = piece;
  size_t n = PIECE;
  printf("boundary search, GB/s   ");
  for (int k = 0; k < 8; k++) printf("%13s", kinds[k]);
  for (size_t i = 0; i <= count; i++) {
    printf("\n%-24s", i == 0 ? "memmem" : sets[i - 1]->name);
    for (int k = 0; k < 8; k++) {
      fill(piece, n, k);
      work w = {&in, &n, 1, 1, i ? sets[i - 1] : NULL};
      printf("%13.1f", (double)PIECE * PIECES / measure(i ? scan_pieces : memmem_pieces, &w));
      fflush(stdout);
    }
  }
  printf("\n");
}

int main (void) {
  const pl_simd *sets[PL_SIMD_MAX];
  size_t count = pl_simd_all(sets);
  heads(sets, count);
  chunked();
  boundaries(sets, count);
  return 0;
}
