/* Rules of a format that tests break, one at a time. */
#ifndef SMOL_TESTS_UNIT_RULES_H
#define SMOL_TESTS_UNIT_RULES_H

#include <stdlib.h>

enum { MAX_RULES = 96 };

struct rules {
    struct {
        const char *name;
        void (*spoil)(void *subject);
    } items[MAX_RULES];
    size_t n;
};

/* Adds a function to a list, in the order of the file. */
#define ADD_RULE(list, function)                                                                   \
    __attribute__((constructor)) static void add_##function##_to_##list(void)                      \
    {                                                                                              \
        if ((list).n == MAX_RULES)                                                                 \
            abort();                                                                               \
        (list).items[(list).n].name = #function;                                                   \
        (list).items[(list).n++].spoil = function;                                                 \
    }

#endif
