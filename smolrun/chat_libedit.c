/* libedit, see chat_libedit.h. */
#include "smolrun/chat_libedit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library; /* stays: nobody unloads it while the program runs */

/* dlsym's result as a function, which ISO C has no conversion for. */
static bool find(const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool smol_libedit_open(struct libedit *edit)
{
    void *(*start)(const char *, FILE *, FILE *, FILE *), *(*new_history)(void);
    library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library || !find("el_init", &start) || !find("el_gets", &edit->gets) ||
        !find("el_set", &edit->set) || !find("el_wset", &edit->set_wide) ||
        !find("el_wline", &edit->line) || !find("el_resize", &edit->resize) ||
        !find("el_winsertstr", &edit->insert) || !find("el_cursor", &edit->move) ||
        !find("el_wpush", &edit->push) || !find("el_end", &edit->end) ||
        !find("history_init", &new_history) || !find("history", &edit->remember) ||
        !find("history_end", &edit->forget))
        return false;
    edit->history = new_history();
    edit->editor = edit->history ? start("smolrun", stdin, stdout, stderr) : NULL;
    return edit->editor != NULL;
}

void smol_libedit_close(struct libedit *edit)
{
    if (edit->editor)
        edit->end(edit->editor);
    if (edit->history)
        edit->forget(edit->history);
    *edit = (struct libedit){0};
}
