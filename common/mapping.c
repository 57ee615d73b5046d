/* The list of mappings and the guard, see mapping.h.
 *
 * The handler may run at any moment on any thread, so it cannot take a lock. It walks a list whose
 * places are never freed, only reused, and reads each place as with a sequence lock: if the state
 * is the same before and after, the place did not change meanwhile. The place that it looks for
 * cannot change, because the faulting thread is reading that mapping. */
#include "common/mapping.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/threads.h"

/* The states of a place, modulo 4; each change adds to the state. */
enum { FREE, CHANGING, LISTED, STATES = 4 };

#define NOT_LOST SIZE_MAX

struct mapping {
    struct mapping *next; /* never changes */
    atomic_uint state;
    atomic_uintptr_t start;
    atomic_size_t size;
    atomic_size_t lost; /* the offset that could not be read, or NOT_LOST */
};

/* Places are never freed, so they do not use the caller's memory (memory.h). Most programs need
 * only one; each further place takes a page from the system. */
static struct mapping first;
static _Atomic(struct mapping *) list = &first;

/* --- the list ------------------------------------------------------------------------------- */

/* Returns a free or a new place in state CHANGING, so that no other thread takes it, or NULL. */
static struct mapping *take_place(void)
{
    for (struct mapping *place = atomic_load(&list); place; place = place->next) {
        unsigned state = atomic_load(&place->state);
        if (state % STATES == FREE &&
            atomic_compare_exchange_strong(&place->state, &state, state + CHANGING))
            return place;
    }
    struct mapping *place =
        mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return NULL;
    atomic_init(&place->state, CHANGING);
    place->next = atomic_load(&list);
    while (!atomic_compare_exchange_weak(&list, &place->next, place))
        continue;
    return place;
}

struct mapping *smol_mapping_add(const void *start, size_t size)
{
    struct mapping *place = take_place();
    if (!place)
        return NULL;
    atomic_store(&place->start, (uintptr_t)start);
    atomic_store(&place->size, size);
    atomic_store(&place->lost, NOT_LOST);
    atomic_fetch_add(&place->state, LISTED - CHANGING);
    return place;
}

void smol_mapping_remove(struct mapping *mapping)
{
    if (mapping)
        atomic_fetch_add(&mapping->state, STATES - LISTED);
}

bool smol_mapping_is_lost(const struct mapping *mapping, size_t *offset)
{
    *offset = atomic_load(&mapping->lost);
    return *offset != NOT_LOST;
}

/* --- the handler ---------------------------------------------------------------------------- */

static struct sigaction before; /* the previous action for SIGBUS */
static atomic_bool guarded;

/* Returns whether `place` contains `address`. Sets *start and *size to those of the mapping. */
static bool holds(const struct mapping *place, uintptr_t address, uintptr_t *start, size_t *size)
{
    unsigned state = atomic_load(&place->state);
    *start = atomic_load(&place->start);
    *size = atomic_load(&place->size);
    return state % STATES == LISTED && state == atomic_load(&place->state) &&
           address - *start < *size;
}

/* Replaces the mapping that contains `address` with zeros. Records the loss first, so that every
 * thread that sees zeros also sees the record. */
static bool replace(uintptr_t address)
{
    uintptr_t start;
    size_t size, not_lost = NOT_LOST;
    struct mapping *place = atomic_load(&list);
    while (place && !holds(place, address, &start, &size))
        place = place->next;
    if (!place)
        return false;
    atomic_compare_exchange_strong(&place->lost, &not_lost, address - start);
    return mmap((void *)start, size, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

/* Does what would happen without the guard. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0; /* by a process, not raised by a fault */
    if (before.sa_handler == SIG_IGN && sent)
        return;
    if (before.sa_handler == SIG_IGN || before.sa_handler == SIG_DFL) {
        sigaction(signal, &before, NULL);
        raise(signal); /* ends the process on return; otherwise the repeated fault does */
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else {
        before.sa_handler(signal);
    }
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    bool unreadable = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
    if (!unreadable || !replace((uintptr_t)info->si_addr))
        pass_on(signal, info, context);
    errno = saved;
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &before); /* set before the handler may need it */
    sigaction(SIGBUS, &action, NULL);
    atomic_store(&guarded, true);
}

void smol_mapping_guard(void)
{
    static thread_once once = THREAD_ONCE;
    threads_once(&once, install);
}

bool smol_mapping_is_guarded(void)
{
    return atomic_load(&guarded);
}
