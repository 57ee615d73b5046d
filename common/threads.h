/* The thread functions used outside pool.h. With `make THREADS=no` (SMOL_NO_THREADS) they do not
 * use pthread. */
#ifndef SMOL_COMMON_THREADS_H
#define SMOL_COMMON_THREADS_H

#include <signal.h>

#ifndef SMOL_NO_THREADS
#include <pthread.h>

typedef pthread_once_t thread_once;
#define THREAD_ONCE PTHREAD_ONCE_INIT

/* Calls `work` the first time. Every caller returns after it is done. */
static inline void threads_once(thread_once *once, void (*work)(void))
{
    pthread_once(once, work);
}

/* Changes this thread's signal mask, as sigprocmask does. */
static inline void threads_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    pthread_sigmask(how, set, old);
}

typedef pthread_mutex_t thread_mutex;

static inline void threads_mutex_init(thread_mutex *mutex)
{
    pthread_mutex_init(mutex, NULL);
}

static inline void threads_mutex_destroy(thread_mutex *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline void threads_mutex_lock(thread_mutex *mutex)
{
    pthread_mutex_lock(mutex);
}

static inline void threads_mutex_unlock(thread_mutex *mutex)
{
    pthread_mutex_unlock(mutex);
}
#else
typedef int thread_once;
#define THREAD_ONCE 0

static inline void threads_once(thread_once *once, void (*work)(void))
{
    if (!*once)
        work();
    *once = 1;
}

static inline void threads_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigprocmask(how, set, old);
}

typedef int thread_mutex;

static inline void threads_mutex_init(thread_mutex *mutex)
{
    *mutex = 0;
}

static inline void threads_mutex_destroy(thread_mutex *mutex)
{
    (void)mutex;
}

static inline void threads_mutex_lock(thread_mutex *mutex)
{
    (void)mutex;
}

static inline void threads_mutex_unlock(thread_mutex *mutex)
{
    (void)mutex;
}
#endif

#endif
