/* The masks of the end of an input, by loads that end with it, so that nothing behind it is touched: for the vector
   sets that can do no better. Each defines before it PL_ISA and block_masks(p). */

static inline PL_ISA masks tail_masks (const char *p, size_t n, size_t whole) {
  masks m;
  if (whole >= 64) {
    unsigned by = (unsigned)(64 - n);
    m = block_masks(p + n - 64);
    masks out = {m.lf >> by, m.odd >> by, m.nontoken >> by};
    return out;
  }
  char copy[64] = {0};
  memcpy(copy, p, n);
  m = block_masks(copy);
  m.odd &= (UINT64_C(1) << n) - 1;
  return m;
}
