/* Standard output as a terminal, see terminal.h. */
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/character_width.h"

/* Returns the size of the control character (C0, DEL or C1) at the start of the text, or 0 if there
 * is none. Line feeds and tabs do not count. */
static size_t control_size(const char *text, size_t size)
{
    unsigned char first = (unsigned char)text[0];
    if (first == '\n' || first == '\t')
        return 0;
    if (first < 0x20 || first == 0x7f)
        return 1;
    return first == 0xc2 && size > 1 && ((unsigned char)text[1] & 0xe0) == 0x80 ? 2 : 0;
}

void smol_terminal_print(const char *text, size_t size)
{
    static int terminal = -1; /* -1: not known yet */
    if (terminal < 0)
        terminal = isatty(STDOUT_FILENO);
    for (size_t start = 0, i = 0; i < size;) {
        size_t control = terminal ? control_size(text + i, size - i) : 0;
        i += control ? 0 : 1;
        if (control || i == size)
            fwrite(text + start, 1, i - start, stdout);
        if (control)
            fputs("\xef\xbf\xbd", stdout);
        i += control;
        start = control ? i : start;
    }
}

bool smol_terminal_colors(void)
{
    const char *wish = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wish && wish[0])
        return false;
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

size_t smol_terminal_columns(int fd)
{
    struct winsize size = {0};
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : SIZE_MAX;
}

size_t smol_terminal_width(uint32_t code_point)
{
    const size_t n_without = sizeof without_width / sizeof without_width[0];
    if (code_ranges_have(without_width, n_without, code_point))
        return 0;
    return code_ranges_have(wide, sizeof wide / sizeof wide[0], code_point) ? 2 : 1;
}
