/* Lines of standard input. An input is pieces of a stream, each of which is written to a pipe and
 * read from there, by itself or together with the next ones. What comes out are the lines of the
 * stream, without a carriage return at the end, whatever the pieces; of those that are longer than
 * MAX_LINE nothing but that. */
#include <fcntl.h>
#include <unistd.h>

#include "smolrun/lines.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_STREAM = 3 << 20, MAX_PIECES = 1024 };
enum { PIECE_RUN = 1, PIECE_NEAR_LIMIT = 2, PIECE_WITH_NEXT = 4 };

/* A piece of an input: so many bytes that follow it, or, a run, so many that are all the same. */
struct piece {
    uint8_t flags, byte;
    uint16_t size; /* of a run near the limit: counted from MAX_LINE - 2^15 */
};

static struct {
    char bytes[MAX_STREAM];
    size_t size;
    size_t ends[MAX_PIECES]; /* of pieces that are read before the next one is written */
    size_t n_ends;
    size_t written, at; /* at: of the next line */
} stream;

static void add_piece(struct fuzz_input *in)
{
    struct piece piece;
    fuzz_take(in, &piece, sizeof piece);
    size_t size = piece.size, room = MAX_STREAM - stream.size;
    char *to = stream.bytes + stream.size;
    if (piece.flags & PIECE_RUN) {
        size += piece.flags & PIECE_NEAR_LIMIT ? MAX_LINE - (1 << 15) : 0;
        size = size < room ? size : room;
        memset(to, piece.byte, size);
    } else {
        size = size < in->size ? size : in->size;
        size = size < room ? size : room;
        fuzz_take(in, to, size);
    }
    stream.size += size;
    if (!(piece.flags & PIECE_WITH_NEXT))
        stream.ends[stream.n_ends++] = stream.size;
}

/* The next line is this one, which a plain search finds in the stream. */
static void check_line(const struct line *line)
{
    const char *start = stream.bytes + stream.at;
    const char *newline = memchr(start, '\n', stream.size - stream.at);
    size_t size = newline ? (size_t)(newline - start) : stream.size - stream.at;
    CLAIM(stream.at < stream.size);
    CLAIM((line->kind == LINE_TEXT) == (size <= MAX_LINE));
    size_t n_text = size - (size > 0 && start[size - 1] == '\r');
    if (line->kind == LINE_TEXT)
        CLAIM(line->size == n_text && memcmp(line->text, start, n_text) == 0);
    else
        CLAIM(line->size == 0);
    stream.at += size + (newline != NULL);
}

/* There was a reason to give none: nothing that has come is kept back. */
static void check_end(const struct line *line)
{
    const char *start = stream.bytes + stream.at;
    size_t size = stream.written > stream.at ? stream.written - stream.at : 0;
    if (line->kind == LINE_END)
        CLAIM(stream.at == stream.size);
    else
        CLAIM(size <= MAX_LINE && !memchr(start, '\n', size));
}

/* Reads up to a line that is not there; without `wait` up to one that is not there yet. */
static void read_lines(struct lines *lines, bool wait)
{
    struct line line = {.size = 1}; /* nothing of it may stay */
    smol_error error;
    do {
        CLAIM(!smol_lines_next(lines, wait, &line, &error));
        CLAIM(lines->at <= lines->looked && lines->looked <= lines->size);
        CLAIM(lines->size <= MAX_LINE + 1);
        if (line.kind == LINE_TEXT || line.kind == LINE_TOO_LONG)
            check_line(&line);
    } while (line.kind == LINE_TEXT || line.kind == LINE_TOO_LONG);
    check_end(&line);
    CLAIM(line.kind == (wait ? LINE_END : LINE_LATER));
}

static void write_up_to(int fd, size_t end, struct lines *lines)
{
    while (stream.written < end) {
        ssize_t n = write(fd, stream.bytes + stream.written, end - stream.written);
        CLAIM(n > 0);
        stream.written += (size_t)n;
        read_lines(lines, false);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct lines lines = {0};
    int ends[2];
    stream.size = stream.n_ends = stream.written = stream.at = 0;
    if (pipe2(ends, O_NONBLOCK) || dup2(ends[0], STDIN_FILENO) < 0)
        abort();
    close(ends[0]);
    for (int i = 0; i < MAX_PIECES && in.size > 0; i++)
        add_piece(&in);
    for (size_t i = 0; i < stream.n_ends; i++)
        write_up_to(ends[1], stream.ends[i], &lines);
    write_up_to(ends[1], stream.size, &lines);
    close(ends[1]);
    read_lines(&lines, true);
    read_lines(&lines, true); /* the end stays the end */
    free(lines.buffer);
    return 0;
}
