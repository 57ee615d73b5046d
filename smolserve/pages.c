/* Pages, see http.h. */
#include "smolserve/http.h"

#include <string.h>

#include "smolserve/server.h"

static const char models_path[] = "/v1/models";

/* Puts a file into the program, and its size. */
#define EMBED(name, path)                                                                          \
    extern const char smol_page_##name[] __attribute__((visibility("hidden")));                    \
    extern const uint32_t smol_page_##name##_size __attribute__((visibility("hidden")));           \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global smol_page_" #name ", smol_page_" #name "_size\n"                              \
            "smol_page_" #name ": .incbin \"smolserve/" path "\"\n"                                \
            "0: .balign 4\n"                                                                       \
            "smol_page_" #name "_size: .long 0b - smol_page_" #name "\n"                           \
            ".popsection");

EMBED(html, "page/page.html")
EMBED(css, "page/page.css")
EMBED(icon, "page/icon.svg")
EMBED(theme, "page/theme.js")
EMBED(script, "page/page.js")
EMBED(answer, "page/answer.js")
EMBED(api, "page/api.js")
EMBED(openapi, "openapi.json")

static unsigned write_health(struct server *server, const char *url, FILE *out,
                             struct refusal *refusal)
{
    static const char *const words[] = {"loading", "ok", "draining"};
    int state = atomic_load(&server->state);
    bool readable = smol_models_are_readable(&server->models);
    struct json_out json = {.file = out};
    (void)url, (void)refusal;
    smol_json_open(&json, '{');
    smol_json_member_text(&json, "status",
                          state == SERVER_READY && !readable ? "unreadable" : words[state]);
    smol_json_close(&json, '}');
    fputc('\n', out);
    return state == SERVER_READY && readable ? 200 : 503;
}

static unsigned write_metrics(struct server *server, const char *url, FILE *out,
                              struct refusal *refusal)
{
    (void)url, (void)refusal;
    smol_metrics_write(server, out);
    return 200;
}

static void write_model(struct json_out *json, const struct generator *generator)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", generator->name);
    smol_json_member_text(json, "object", "model");
    smol_json_member_whole(json, "created", (uint64_t)generator->loaded);
    smol_json_member_text(json, "owned_by", "smol");
    smol_json_member_text(json, "dtype", generator->info.dtype);
    smol_json_member_whole(json, "context_length", generator->capacity);
    smol_json_close(json, '}');
}

static unsigned write_models(struct server *server, const char *url, FILE *out,
                             struct refusal *refusal)
{
    struct json_out json = {.file = out};
    const char *name = url + sizeof models_path - 1;
    if (atomic_load(&server->state) == SERVER_LOADING) {
        smol_refuse(refusal, 503, "loading", "the models are being loaded: try again");
        return 0;
    }
    if (*name == '/') {
        struct generator *generator = smol_models_find(&server->models, name + 1);
        if (!generator) {
            smol_refuse(refusal, 404, "model_not_found", "\"%.100s\" is not served", name + 1);
            smol_refusal_param(refusal, "model");
            return 0;
        }
        write_model(&json, generator);
        smol_generator_release(generator);
    } else {
        smol_json_open(&json, '{');
        smol_json_member_text(&json, "object", "list");
        smol_json_member_open(&json, "data", '[');
        pthread_mutex_lock(&server->models.lock);
        for (size_t i = 0; i < server->models.n; i++)
            write_model(&json, server->models.items[i]);
        pthread_mutex_unlock(&server->models.lock);
        smol_json_close(&json, ']');
        smol_json_close(&json, '}');
    }
    fputc('\n', out);
    return 200;
}

#define JAVASCRIPT "text/javascript; charset=utf-8"
#define FILE_OF(name) smol_page_##name, &smol_page_##name##_size, NULL

static const struct page pages[] = {
    {"/", "text/html; charset=utf-8", true, FILE_OF(html)},
    {"/page.css", "text/css; charset=utf-8", true, FILE_OF(css)},
    {"/icon.svg", "image/svg+xml", true, FILE_OF(icon)},
    {"/theme.js", JAVASCRIPT, true, FILE_OF(theme)},
    {"/page.js", JAVASCRIPT, true, FILE_OF(script)},
    {"/answer.js", JAVASCRIPT, true, FILE_OF(answer)},
    {"/api.js", JAVASCRIPT, true, FILE_OF(api)},
    {"/openapi.json", "application/json", true, FILE_OF(openapi)},
    {"/health", "application/json", true, NULL, NULL, write_health},
    {"/metrics", "text/plain; version=0.0.4", false, NULL, NULL, write_metrics},
    {models_path, "application/json", false, NULL, NULL, write_models},
};

const struct page *smol_page_find(const char *url)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        size_t size = strlen(pages[i].path);
        if (strncmp(url, pages[i].path, size) != 0)
            continue;
        if (!url[size] || (url[size] == '/' && pages[i].write == write_models))
            return &pages[i];
    }
    return NULL;
}
