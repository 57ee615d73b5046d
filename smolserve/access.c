/* Headers, see access.h. */
#include "smolserve/access.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Copies the name without its port, and without the brackets of an IPv6 address. Returns whether
 * the header has the form NAME, NAME:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static bool copy_name(const char *host, char *name, size_t room)
{
    bool bracket = host[0] == '[';
    size_t size = bracket ? strcspn(++host, "]") : strcspn(host, ":");
    const char *rest = host + size;
    if (size == 0 || size >= room || (bracket && *rest++ != ']'))
        return false;
    memcpy(name, host, size);
    name[size] = '\0';
    if (*rest == ':')
        rest += 1 + strspn(rest + 1, "0123456789");
    return *rest == '\0';
}

bool smol_access_host(const struct serve_settings *settings, const char *host)
{
    char name[256];
    if (!copy_name(host, name, sizeof name))
        return false;
    if (is_address(name) || strcasecmp(name, "localhost") == 0)
        return true;
    for (size_t i = 0; i < settings->server_names.n; i++)
        if (strcasecmp(name, settings->server_names.items[i]) == 0)
            return true;
    return false;
}

/* --- where a request ends --------------------------------------------------------------------- */

struct seen {
    unsigned n_hosts, n_lengths, n_codings;
    bool chunked, malformed;
};

static bool is_name(const char *name, const char *header, size_t size)
{
    return strlen(name) == size && strncasecmp(name, header, size) == 0;
}

static enum MHD_Result look(void *user, enum MHD_ValueKind kind, const char *name, size_t name_size,
                            const char *value, size_t value_size)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct seen *seen = user;
    (void)kind, (void)value_size;
    seen->malformed |= name_size == 0 || strspn(name, allowed) != name_size;
    seen->n_hosts += is_name("Host", name, name_size);
    seen->n_lengths += is_name("Content-Length", name, name_size);
    if (is_name("Transfer-Encoding", name, name_size)) {
        seen->n_codings++;
        seen->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

const char *smol_access_ambiguity(struct MHD_Connection *connection, const char *version)
{
    struct seen seen = {0};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look, &seen);
    if (seen.malformed)
        return "the name of a header has characters that are not allowed";
    if (seen.n_hosts > 1 || seen.n_lengths > 1 || seen.n_codings > 1)
        return "Host, Content-Length and Transfer-Encoding may appear once only";
    if (seen.n_codings && seen.n_lengths)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (seen.n_codings && (!seen.chunked || strcmp(version, "HTTP/1.1") != 0))
        return "Transfer-Encoding: only chunked is supported, with HTTP/1.1";
    return NULL;
}
