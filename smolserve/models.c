/* Models, see models.h. */
#include "smolserve/models.h"

#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "smolserve/server.h"

void smol_models_init(struct models *models, struct server *server)
{
    *models = (struct models){.server = server};
    pthread_mutex_init(&models->lock, NULL);
}

/* With the lock held, or where only this thread changes the models. */
static struct generator *find(struct models *models, const char *name)
{
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(models->items[i]->name, name) == 0)
            return models->items[i];
    return NULL;
}

/* A verification, which may take long. Meanwhile the main thread sweeps connections. */
struct verification {
    struct server *server;
    double swept; /* clock_seconds */
};

/* Closes connections whose time is over, and cancels the verification if a signal waits. */
static int on_progress(void *user, uint64_t done, uint64_t total)
{
    struct verification *verification = user;
    sigset_t signals;
    double now = clock_seconds();
    (void)done, (void)total;
    if (now > verification->swept + 0.5) {
        smol_connections_sweep(&verification->server->connections);
        verification->swept = now;
    }
    sigpending(&signals);
    return sigismember(&signals, SIGTERM) == 1 || sigismember(&signals, SIGINT) == 1;
}

static smol_status start(struct server *server, smol_verify verify, int fd, const char *path,
                         struct generator **generator, smol_error *error)
{
    struct verification verification = {.server = server, .swept = clock_seconds()};
    smol_model_params params = server->settings->open;
    params.verify = verify;
    params.on_progress = on_progress;
    params.user = &verification;
    return smol_generator_start(server, &params, fd, path, generator, error);
}

smol_status smol_models_load(struct models *models, const int *fds, smol_error *error)
{
    const struct serve_settings *settings = models->server->settings;
    for (size_t i = 0; i < settings->files.n; i++) {
        const char *path = settings->files.items[i];
        struct generator *generator;
        smol_status status =
            start(models->server, settings->open.verify, fds[i], path, &generator, error);
        if (status)
            return status;
        if (find(models, generator->name)) {
            smol_generator_stop(generator);
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "%.300s: another file has the same name: rename one of them", path);
        }
        pthread_mutex_lock(&models->lock);
        models->items[models->n++] = generator;
        pthread_mutex_unlock(&models->lock);
    }
    return SMOL_OK;
}

struct generator *smol_models_find(struct models *models, const char *name)
{
    pthread_mutex_lock(&models->lock);
    struct generator *generator = find(models, name);
    if (generator)
        smol_generator_hold(generator);
    pthread_mutex_unlock(&models->lock);
    return generator;
}

static void refuse(struct models *models, struct generator *old, const struct stat *file,
                   const smol_error *error)
{
    const struct serve_settings *settings = models->server->settings;
    bool is_mapped = file->st_dev == old->file.st_dev && file->st_ino == old->file.st_ino &&
                     !settings->open.no_mmap;
    if (is_mapped) /* it was not replaced, but overwritten */
        atomic_store(&old->unreadable, true);
    smol_server_log(models->server, "the replacement is refused: %s", error->message);
    pthread_mutex_lock(&models->lock);
    models->n_refused++;
    pthread_mutex_unlock(&models->lock);
}

void smol_models_replace(struct models *models, size_t index, int fd)
{
    const struct serve_settings *settings = models->server->settings;
    struct generator *old = models->items[index], *new;
    smol_verify verify = settings->open.verify;
    struct stat file = {0};
    smol_error error;
    fstat(fd, &file);
    if (verify == SMOL_VERIFY_FIRST)
        verify = SMOL_VERIFY_OPEN; /* later, the old model would be gone */
    if (start(models->server, verify, fd, settings->files.items[index], &new, &error)) {
        if (error.status != SMOL_ERROR_CANCELLED)
            refuse(models, old, &file, &error);
        return;
    }
    pthread_mutex_lock(&models->lock);
    models->items[index] = new;
    old->next_retired = models->retired;
    models->retired = old;
    models->n_replaced++;
    if (old->cache)
        models->n_evicted += smol_prefix_cache_get_info(old->cache).n_evicted;
    pthread_mutex_unlock(&models->lock);
    smol_server_log(models->server, "%s: replaced", settings->files.items[index]);
}

void smol_models_sweep(struct models *models)
{
    struct generator *unused = NULL;
    pthread_mutex_lock(&models->lock);
    for (struct generator **at = &models->retired; *at;) {
        struct generator *generator = *at;
        if (smol_generator_is_used(generator)) {
            at = &generator->next_retired;
            continue;
        }
        *at = generator->next_retired;
        generator->next_retired = unused;
        unused = generator;
    }
    pthread_mutex_unlock(&models->lock);
    for (struct generator *next; unused; unused = next) {
        next = unused->next_retired;
        smol_generator_stop(unused);
    }
}

bool smol_models_are_readable(struct models *models)
{
    bool readable = true;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++)
        readable &= !atomic_load(&models->items[i]->unreadable);
    pthread_mutex_unlock(&models->lock);
    return readable;
}

void smol_models_stop(struct models *models)
{
    smol_models_sweep(models);
    for (size_t i = 0; i < models->n; i++)
        smol_generator_stop(models->items[i]);
    models->n = 0;
    pthread_mutex_destroy(&models->lock);
}
