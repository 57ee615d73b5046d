/* Keys, see keys.h. */
#include "smolrun/chat/keys.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/text.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/signals.h"

/* --- the text of a paste ------------------------------------------------------------------ */

enum { END_SIZE = sizeof PASTE_END - 1 };

bool smol_paste_add(struct paste *paste, char byte)
{
    bool continues = byte == PASTE_END[paste->matched];
    paste->matched = continues ? paste->matched + 1 : byte == PASTE_END[0];
    if (paste->size++ < MAX_MESSAGE + END_SIZE)
        smol_buffer_add(&paste->bytes, &byte, 1);
    if (paste->matched < END_SIZE)
        return false;
    paste->size -= END_SIZE;
    paste->too_long = paste->size > MAX_MESSAGE;
    if (!paste->too_long && !paste->bytes.failed)
        paste->bytes.size = paste->size;
    return true;
}

static bool is_break(uint8_t byte)
{
    return byte == '\r' || byte == '\n';
}

wchar_t *smol_paste_text(const struct paste *paste)
{
    const uint8_t *bytes = (const uint8_t *)paste->bytes.text;
    size_t size = paste->bytes.size, n = 0;
    wchar_t *text = paste->bytes.failed ? NULL : calloc(size + 1, sizeof *text);
    if (!text)
        return NULL;
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = smol_utf8_decode(bytes + i, size - i, &character);
        if (is_break(bytes[i])) {
            /* a pair is one break: CR LF, or LF CR if the terminal exchanges them */
            length += i + 1 < size && is_break(bytes[i + 1]) && bytes[i + 1] != bytes[i];
            text[n++] = L'\n';
        } else if (character == '\t' || !utf8_is_control(character)) {
            text[n++] = (wchar_t)character;
        }
        i += length;
    }
    text[n] = L'\0';
    return text;
}

/* --- bytes -------------------------------------------------------------------------------- */

enum {
    PIECE = 4096,    /* bytes of a paste to read at once; a terminal's queue holds as many */
    AHEAD = 1 << 16, /* bytes that can be read ahead */
};

static struct {
    char bytes[AHEAD + sizeof PASTE_BEGIN]; /* [at, n) were read or put back, but not used yet */
    size_t at, n;
    bool escaped; /* the last byte returned was an escape */
} input;

static struct paste paste; /* the last paste */
static bool (*wait_for_input)(void);

static cc_t interrupt_key = _POSIX_VDISABLE; /* Ctrl-C, or the key that the user set */

void smol_keys_take(void)
{
    struct termios mode;
    if (tcgetattr(STDIN_FILENO, &mode))
        return;
    if (mode.c_cc[VINTR] != _POSIX_VDISABLE)
        interrupt_key = mode.c_cc[VINTR];
    mode.c_cc[VINTR] = _POSIX_VDISABLE;
    mode.c_iflag &= ~(tcflag_t)IXON;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

void smol_keys_make_room(void)
{
    int waiting;
    input.n -= input.at;
    memmove(input.bytes, input.bytes + input.at, input.n);
    input.at = 0;
    while (input.n + PIECE <= AHEAD && ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 &&
           waiting >= PIECE / 2) {
        ssize_t n = read(STDIN_FILENO, input.bytes + input.n, PIECE);
        if (n <= 0)
            return;
        input.n += (size_t)n;
    }
}

/* Reads the next byte. Returns 1, or 0 at the end of the input, or -1 after Ctrl-C. Reads at most
 * `most` bytes at once and leaves the rest to the terminal, which may treat them differently while
 * no line is read. */
static int read_byte(char *byte, size_t most)
{
    if (smol_chat_interrupted())
        return -1;
    if (input.at == input.n) {
        if (!wait_for_input())
            return -1;
        ssize_t n = read(STDIN_FILENO, input.bytes, most);
        if (n <= 0)
            return 0;
        input.at = 0;
        input.n = (size_t)n;
    }
    *byte = input.bytes[input.at++];
    return 1;
}

static bool is_interrupt(char byte)
{
    return interrupt_key != _POSIX_VDISABLE && (cc_t)byte == interrupt_key;
}

/* --- pastes ------------------------------------------------------------------------------- */

/* Skips the rest of a paste that Ctrl-C ended, so that it is not read as keys. If its end never
 * comes, the paste is over when no input comes for a while. */
static void skip_paste(void)
{
    enum { PATIENCE = 300 }; /* milliseconds */
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        while (input.at < input.n)
            if (smol_paste_add(&paste, input.bytes[input.at++]))
                return;
        ssize_t n = poll(&in, 1, PATIENCE) == 1 ? read(STDIN_FILENO, input.bytes, PIECE) : 0;
        if (n <= 0)
            return;
        input.at = 0;
        input.n = (size_t)n;
    }
}

static int read_paste(void)
{
    char byte = 0;
    int n;
    while ((n = read_byte(&byte, PIECE)) > 0 && !is_interrupt(byte))
        if (smol_paste_add(&paste, byte))
            return 1;
    if (n > 0)
        smol_chat_interrupt();
    if (n != 0)
        skip_paste();
    return n == 0 ? 0 : -1;
}

/* Reads the bytes after an escape and a bracket, as long as they match PASTE_BEGIN. The escape was
 * already returned, because it may have a meaning by itself; the bracket after it has none. */
static int read_sequence(char *byte)
{
    enum { FIRST = 2, SIZE = sizeof PASTE_BEGIN - 1 };
    char next = 0;
    size_t matched = FIRST;
    int n;
    while ((n = read_byte(&next, 1)) > 0 && next == PASTE_BEGIN[matched])
        if (++matched == SIZE) {
            *byte = PASTE_KEY;
            return read_paste();
        }
    if (n > 0) { /* no match: the bytes are put back after the bracket */
        size_t others = matched - FIRST;
        memmove(input.bytes + others + 1, input.bytes + input.at, input.n - input.at);
        memcpy(input.bytes, &PASTE_BEGIN[FIRST], others);
        input.bytes[others] = next;
        input.n += others + 1 - input.at;
        input.at = 0;
    }
    return n;
}

/* --- keys --------------------------------------------------------------------------------- */

int smol_keys_read(char *byte, bool (*wait)(void))
{
    wait_for_input = wait;
    int n = read_byte(byte, 1);
    if (n > 0 && is_interrupt(*byte)) {
        smol_chat_interrupt();
        n = -1;
    } else if (n > 0 && input.escaped && *byte == '[') {
        n = read_sequence(byte);
    }
    input.escaped = n > 0 && *byte == '\033';
    return n;
}

const struct paste *smol_keys_pasted(void)
{
    return &paste;
}

void smol_keys_drop_paste(void)
{
    smol_free(paste.bytes.text);
    paste = (struct paste){0};
}
