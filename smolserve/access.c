/* Host headers, see access.h. */
#include "smolserve/access.h"

#include <arpa/inet.h>
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
