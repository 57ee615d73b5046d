/* Text streaming, see stream.h. Bytes are assembled into characters (`unfinished` holds an
 * incomplete one). Each byte of a character then passes through a Knuth-Morris-Pratt matcher for
 * each stop string. The stream holds back the longest prefix of a stop string that the text ends
 * with. */
#include "runtime/tokenizer/stream.h"

#include <string.h>

#include "common/buffer.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/tokenizer/tokenizer.h"

struct stop_string {
    char *text;
    size_t size;
    size_t *fallback; /* (size): the longest proper suffix of text[0..i] that `text` starts with */
    size_t matched;   /* bytes of `text` that end the stream; less than `size` between calls */
};

/* The state of a decoder between tokens. */
struct decoding {
    bool begun;          /* a token was decoded */
    uint32_t strip;      /* the character to omit at the start ... */
    uint32_t n_strip;    /* ... at most this many more times */
    struct buffer bytes; /* of a run of byte tokens */
};

struct stream {
    struct stop_string *stop; /* (n_stop) */
    size_t n_stop;
    size_t found; /* number of the stop string that has ended it, from 1, or 0 */
    struct decoding decoding;
    uint8_t unfinished[UTF8_MAX];
    size_t n_unfinished;
    char *text; /* (capacity): [0, shown) was returned, [shown, size) is held back */
    size_t size, capacity, shown;
};

/* --- stop strings ------------------------------------------------------------------------- */

static size_t advance(const struct stop_string *stop, size_t matched, char byte)
{
    while (matched > 0 && stop->text[matched] != byte)
        matched = stop->fallback[matched - 1];
    return stop->text[matched] == byte ? matched + 1 : 0;
}

static smol_status init_stop(struct stop_string *stop, const char *text, smol_error *error)
{
    stop->size = strlen(text);
    if (stop->size == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "a stop string is empty");
    if (smol_utf8_well_formed((const uint8_t *)text, stop->size) < stop->size)
        return smol_fail(error, SMOL_ERROR_USAGE, "a stop string is not valid UTF-8");
    stop->text = smol_strdup(text);
    stop->fallback = smol_calloc(stop->size, sizeof *stop->fallback);
    if (!stop->text || !stop->fallback)
        return smol_fail_memory(error, "a stop string");
    for (size_t i = 1; i < stop->size; i++)
        stop->fallback[i] = advance(stop, stop->fallback[i - 1], text[i]);
    return SMOL_OK;
}

/* Matches the next byte of the text. Returns the number of the longest stop string that it
 * completes, from 1, or 0. */
static size_t match(struct stream *stream, char byte)
{
    size_t longest = 0, found = 0;
    for (size_t i = 0; i < stream->n_stop; i++) {
        struct stop_string *stop = &stream->stop[i];
        stop->matched = advance(stop, stop->matched, byte);
        if (stop->matched == stop->size && stop->size > longest) {
            longest = stop->size;
            found = i + 1;
        }
    }
    return found;
}

static size_t held_back(const struct stream *stream)
{
    size_t held = 0;
    for (size_t i = 0; i < stream->n_stop; i++)
        if (stream->stop[i].matched > held)
            held = stream->stop[i].matched;
    return held;
}

/* --- creation ----------------------------------------------------------------------------- */

smol_status smol_stream_create(const char *const *stop, size_t n_stop, struct stream **out,
                               smol_error *error)
{
    *out = NULL;
    struct stream *stream = smol_calloc(1, sizeof *stream);
    if (!stream)
        return smol_fail_memory(error, "a text stream");
    smol_status status = SMOL_OK;
    if (n_stop > 0 && !(stream->stop = smol_calloc(n_stop, sizeof *stream->stop)))
        status = smol_fail_memory(error, "stop strings");
    for (size_t i = 0; !status && i < n_stop; i++) {
        stream->n_stop = i + 1;
        status = init_stop(&stream->stop[i], stop[i], error);
    }
    if (status) {
        smol_stream_free(stream);
        return status;
    }
    *out = stream;
    return SMOL_OK;
}

void smol_stream_free(struct stream *stream)
{
    if (!stream)
        return;
    for (size_t i = 0; stream->stop && i < stream->n_stop; i++) {
        smol_free(stream->stop[i].text);
        smol_free(stream->stop[i].fallback);
    }
    smol_free(stream->stop);
    smol_free(stream->decoding.bytes.text);
    smol_free(stream->text);
    smol_free(stream);
}

/* --- streaming ---------------------------------------------------------------------------- */

/* Drops the text already shown and makes room for `n_bytes` more bytes. Each may become U+FFFD,
 * which takes three bytes. */
static smol_status make_room(struct stream *stream, size_t n_bytes, smol_error *error)
{
    if (stream->shown > 0)
        memmove(stream->text, stream->text + stream->shown, stream->size - stream->shown);
    stream->size -= stream->shown;
    stream->shown = 0;
    size_t held = stream->size + 3 * UTF8_MAX;
    if (n_bytes > (SIZE_MAX / 2 - held) / 3)
        return smol_fail_memory(error, "text");
    size_t wanted = held + 3 * n_bytes;
    if (wanted <= stream->capacity)
        return SMOL_OK;
    if (!RESIZE(stream->text, wanted))
        return smol_fail_memory(error, "text");
    stream->capacity = wanted;
    return SMOL_OK;
}

/* Returns whether the character is omitted at the start of the text. */
static bool is_stripped(struct decoding *decoding, uint32_t code_point)
{
    bool stripped = decoding->n_strip > 0 && code_point == decoding->strip;
    decoding->n_strip = stripped ? decoding->n_strip - 1 : 0;
    return stripped;
}

/* Appends one character, or removes a stop string and ends the stream. Both are well-formed UTF-8,
 * so a stop string never ends within a character. */
static void append(struct stream *stream, uint32_t code_point)
{
    uint8_t bytes[UTF8_MAX];
    size_t n = is_stripped(&stream->decoding, code_point) ? 0 : smol_utf8_encode(code_point, bytes);
    for (size_t i = 0; i < n; i++) {
        stream->text[stream->size++] = (char)bytes[i];
        stream->found = match(stream, (char)bytes[i]);
    }
    if (stream->found > 0)
        stream->size -= stream->stop[stream->found - 1].size;
}

static void decode_one(struct stream *stream)
{
    uint32_t code_point;
    size_t used = smol_utf8_decode(stream->unfinished, stream->n_unfinished, &code_point);
    stream->n_unfinished -= used;
    memmove(stream->unfinished, stream->unfinished + used, stream->n_unfinished);
    append(stream, code_point);
}

static void push_byte(struct stream *stream, uint8_t byte)
{
    if (stream->found)
        return;
    stream->unfinished[stream->n_unfinished++] = byte;
    while (!stream->found &&
           smol_utf8_unfinished(stream->unfinished, stream->n_unfinished) < stream->n_unfinished)
        decode_one(stream);
}

/* Returns all but the last `held` bytes in *out. */
static void show(struct stream *stream, size_t held, struct stream_text *out)
{
    stream->shown = stream->size - held;
    *out = (struct stream_text){stream->text, stream->shown, stream->found};
}

smol_status smol_stream_push(struct stream *stream, const void *bytes, size_t size,
                             struct stream_text *out, smol_error *error)
{
    smol_status status = make_room(stream, size, error);
    if (status)
        return status;
    for (size_t i = 0; i < size; i++)
        push_byte(stream, ((const uint8_t *)bytes)[i]);
    show(stream, stream->found ? 0 : held_back(stream), out);
    return SMOL_OK;
}

/* --- tokens --------------------------------------------------------------------------------- */

/* Ends a run of byte tokens: appends it as text if the whole run is UTF-8, else as one U+FFFD for
 * each byte. The caller has made room. */
static void end_run(struct stream *stream)
{
    struct buffer *bytes = &stream->decoding.bytes;
    const uint8_t *run = (const uint8_t *)bytes->text;
    bool is_text = smol_utf8_well_formed(run, bytes->size) == bytes->size;
    for (size_t i = 0; i < bytes->size && !stream->found; i++) {
        if (is_text)
            push_byte(stream, run[i]);
        else
            append(stream, UTF8_REPLACEMENT);
    }
    bytes->size = 0;
}

static smol_status keep_byte(struct stream *stream, uint8_t byte, smol_error *error)
{
    struct buffer *bytes = &stream->decoding.bytes;
    smol_buffer_add(bytes, (const char *)&byte, 1);
    return bytes->failed ? smol_fail_memory(error, "text") : SMOL_OK;
}

/* Appends a token after `prefix`, which may be empty; if `bare`, without spaces. */
static smol_status push_token(struct stream *stream, const struct token_text *token,
                              struct token_text prefix, bool bare, smol_error *error)
{
    size_t size = stream->decoding.bytes.size + prefix.length + token->length;
    smol_status status = make_room(stream, size, error);
    if (status)
        return status;
    end_run(stream);
    for (size_t i = 0; i < prefix.length; i++)
        push_byte(stream, prefix.bytes[i]);
    for (size_t i = 0; i < token->length; i++)
        if (!bare || token->bytes[i] != ' ')
            push_byte(stream, token->bytes[i]);
    return SMOL_OK;
}

smol_status smol_stream_token(struct stream *stream, const struct tokenizer_tables *tables,
                              uint32_t id, bool show_special, struct stream_text *out,
                              smol_error *error)
{
    struct decoding *decoding = &stream->decoding;
    const struct blob_text *rules = &tables->rules.header;
    struct token_text token = smol_tokenizer_text(tables, id);
    if (!token.exists || (token.special && !show_special))
        return smol_stream_push(stream, NULL, 0, out, error);
    bool bare = !decoding->begun && rules->flags & TEXT_FIRST_BARE && !token.plain;
    struct token_text prefix = {0};
    if (!decoding->begun && token.continues)
        prefix = (struct token_text){.bytes = tables->rules.pool + rules->prefix,
                                     .length = rules->n_prefix};
    if (!decoding->begun) {
        decoding->strip = rules->strip;
        decoding->n_strip = rules->n_strip;
    }
    decoding->begun = true;
    bool in_run = rules->flags & TEXT_BYTE_RUNS && token.byte && token.length == 1;
    smol_status status = in_run ? keep_byte(stream, token.bytes[0], error)
                                : push_token(stream, &token, prefix, bare, error);
    return status ? status : smol_stream_push(stream, NULL, 0, out, error);
}

void smol_stream_continue(struct stream *stream)
{
    stream->decoding.begun = true;
}

smol_status smol_stream_finish(struct stream *stream, struct stream_text *out, smol_error *error)
{
    smol_status status = make_room(stream, stream->decoding.bytes.size, error);
    if (status)
        return status;
    end_run(stream);
    while (stream->n_unfinished > 0 && !stream->found)
        decode_one(stream);
    show(stream, 0, out);
    return SMOL_OK;
}
