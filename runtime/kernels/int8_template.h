/* matmul_int8 in terms of int8_tokens, which multiplies one row block by n_tokens tokens, starting
 * at `first`. Each set's file includes it once, after defining
 *
 *   INT8_TOKENS        most tokens that share a pass over a tile
 *   int8_tokens(block, n_groups, x, first, out, out_stride, n_tokens) */

static ALWAYS_INLINE void int8_block(const uint8_t *block, size_t n_groups,
                                     const struct quantized *x, float *out, size_t out_stride)
{
    size_t t = 0;
    for (; t + INT8_TOKENS <= x->n; t += INT8_TOKENS)
        int8_tokens(block, n_groups, x, t, out, out_stride, INT8_TOKENS);
    for (; INT8_TOKENS > 4 && t + 4 <= x->n; t += 4)
        int8_tokens(block, n_groups, x, t, out, out_stride, 4);
    for (; t + 2 <= x->n; t += 2) /* the output layer's pairs of rows */
        int8_tokens(block, n_groups, x, t, out, out_stride, 2);
    if (t < x->n)
        int8_tokens(block, n_groups, x, t, out, out_stride, 1);
}

static void matmul_int8(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                        const int8_t *levels, const struct quantized *x, float *out, size_t out_stride)
{
    (void)levels;
    for (size_t i = 0; i < n_blocks; i++)
        int8_block(blocks + i * grouped_block_bytes(DTYPE_INT8, n_groups), n_groups, x, out + i * TILE_ROWS,
                   out_stride);
}
