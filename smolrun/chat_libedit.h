/* libedit, which is found at run time: smolrun neither needs it nor pays for it. */
#ifndef SMOL_SMOLRUN_CHAT_LIBEDIT_H
#define SMOL_SMOLRUN_CHAT_LIBEDIT_H

#include <stdbool.h>
#include <wchar.h>

/* What histedit.h declares; it has not changed since libedit's version 3. */
struct history_event {
    int number;
    const char *text;
};

struct line_info {
    const wchar_t *buffer, *cursor, *end;
};

enum {
    EL_EDITOR = 2,
    EL_BIND = 4,
    EL_SETTY = 8,
    EL_ADDFN = 9,
    EL_HIST = 10,
    EL_GETCFN = 13,
    EL_PREP_TERM = 16,
    EL_REFRESH = 20,
    EL_PROMPT_ESC = 21,
};
enum { H_SETSIZE = 1, H_GETSIZE = 2, H_ENTER = 10 };
enum { CC_NORM = 0, CC_REFRESH = 4, CC_CURSOR = 5, CC_ERROR = 6 }; /* what a key's function says */

/* An editor of lines, its history, and what can be done with them: el_gets, el_set, el_wset,
 * el_wline, el_resize, el_end, el_winsertstr, el_cursor, el_wpush, history, history_end. */
struct libedit {
    void *editor, *history;
    const char *(*gets)(void *, int *);
    int (*set)(void *, int, ...), (*set_wide)(void *, int, ...);
    const struct line_info *(*line)(void *);
    void (*resize)(void *), (*end)(void *);
    int (*insert)(void *, const wchar_t *), (*move)(void *, int);
    void (*push)(void *, const wchar_t *);
    int (*remember)(void *, struct history_event *, int, ...);
    void (*forget)(void *);
};

/* Loads libedit and starts an editor at the terminal. False: there is none. What smol_libedit_close
 * frees is in *edit even then; zeroed, there is nothing. */
bool smol_libedit_open(struct libedit *edit);
void smol_libedit_close(struct libedit *edit);

#endif
