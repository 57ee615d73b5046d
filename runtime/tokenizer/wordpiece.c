/* WordPiece, see words.h. */
#include "common/utf8.h"
#include "runtime/tokenizer/words.h"

/* Returns the bytes of the longest name that text[0..size) starts with, or 0. The names continue
 * the string of node `from`. Sets *id to its token, and *work to the steps taken. */
static size_t longest_name(const struct name_trie *trie, uint32_t from, const uint8_t *text,
                           size_t size, uint32_t *id, size_t *work)
{
    uint32_t node = from;
    size_t longest = 0, i = 0;
    while (i < size && (node = name_step(trie, node, text[i]))) {
        i++;
        if (trie->nodes[node].id != NO_TOKEN) {
            longest = i;
            *id = trie->nodes[node].id;
        }
    }
    *work = i + 1;
    return longest;
}

void smol_wordpiece(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                    uint32_t *ids, size_t *n, struct encode_watch *watch)
{
    const struct text_tables *rules = &tables->rules;
    const struct blob_text *header = &rules->header;
    bool continues = rules->continuation || header->n_prefix == 0;
    size_t at = 0, work, length = 1;
    *n = 0;
    if (utf8_count(word, size) > header->max_word)
        length = 0;
    for (; length > 0 && at < size; at += length) {
        if (at > 0 && !continues)
            break;
        length = longest_name(&rules->trie, at > 0 ? rules->continuation : 0, word + at, size - at,
                              &ids[*n], &work);
        *n += length > 0;
        if (watch_cancels(watch, work))
            return;
    }
    if (length == 0 || at < size) {
        ids[0] = header->unknown_id;
        *n = 1;
    }
}
