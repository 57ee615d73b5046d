/* Tables of levels for instruction sets whose byte shuffle takes indices of four bits. The file
 * that includes this one first defines B, and
 *
 *   b_spread(levels)  16 levels in every 128 bits
 *   b_xor(a, b)
 *   b_minus_16(b)     each byte minus 16
 *   b_shuffle(t, b)   for each byte of b the byte of t, within the same 128 bits, that its lower
 *                     four bits select; 0 for negative bytes */

/* The first 16 levels, and for each further 16 how their bits differ from the 16 before. */
struct table {
    B first, differences[3];
};

static ALWAYS_INLINE struct table b_table(const int8_t *levels, const size_t n)
{
    struct table table;
    B before = table.first = b_spread(levels);
    UNROLLED_UPTO (i, n / 16 - 1, 3) {
        B part = b_spread(levels + 16 * (i + 1));
        table.differences[i] = b_xor(part, before);
        before = part;
    }
    return table;
}

static ALWAYS_INLINE B b_lookup(const struct table *table, B codes, const size_t n)
{
    B levels = b_shuffle(table->first, codes);
    UNROLLED_UPTO (i, n / 16 - 1, 3) {
        codes = b_minus_16(codes);
        levels = b_xor(levels, b_shuffle(table->differences[i], codes));
    }
    return levels;
}
