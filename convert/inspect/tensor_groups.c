/* Groups tensors by name, see tensor_groups.h. */
#include <stdlib.h>
#include <string.h>

#include "convert/inspect/tensor_groups.h"

enum { MAX_DIGITS = 6 };

/* A tensor's name, split at its number: name[0..before), digits, name[after..). */
struct key {
    size_t tensor;
    const char *name;
    size_t before, after;
    uint32_t layer;
    bool has_layer;
};

/* Splits a name at its first component between dots that is a number. */
static struct key key_of(size_t tensor, const char *name)
{
    struct key key = {tensor, name, strlen(name), strlen(name), 0, false};
    for (const char *part = name; part; part = strchr(part, '.')) {
        part += *part == '.';
        size_t n = strspn(part, "0123456789");
        if (n == 0 || n > MAX_DIGITS || (part[n] != '.' && part[n] != '\0'))
            continue;
        key.before = (size_t)(part - name);
        key.after = key.before + n;
        key.layer = (uint32_t)strtoul(part, NULL, 10);
        key.has_layer = true;
        return key;
    }
    return key;
}

static int compare_groups(const struct key *a, const struct key *b)
{
    size_t n = a->before < b->before ? a->before : b->before;
    int order = memcmp(a->name, b->name, n);
    if (order == 0)
        order = a->before < b->before ? -1 : a->before > b->before;
    if (order == 0)
        order = strcmp(a->name + a->after, b->name + b->after);
    return order ? order : a->has_layer - b->has_layer;
}

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    int order = compare_groups(a, b);
    if (order == 0)
        order = a->layer < b->layer ? -1 : a->layer > b->layer;
    return order ? order : (a->tensor < b->tensor ? -1 : a->tensor > b->tensor);
}

/* --- groups from sorted keys --------------------------------------------------------------- */

static void begin_group(struct tensor_group *group, const struct key *key,
                        const struct model_tensor *tensor, const struct group_member *in)
{
    const char *rest = key->name + key->after;
    *group = (struct tensor_group){
        .name = key->name,
        .before = key->before,
        .after = key->after,
        .label = key->has_layer ? rest + (*rest == '.') : key->name,
        .part = smol_part_of(tensor),
        .has_role = tensor->has_role,
        .role = tensor->key.role,
        .in = in,
    };
}

static void gather(const struct subject *subject, const struct key *keys,
                   struct tensor_groups *groups)
{
    for (size_t i = 0; i < subject->n_tensors; i++) {
        const struct model_tensor *tensor = &subject->tensors[keys[i].tensor];
        if (i == 0 || compare_groups(&keys[i - 1], &keys[i]) != 0)
            begin_group(&groups->all[groups->n++], &keys[i], tensor, &groups->members[i]);
        struct tensor_group *group = &groups->all[groups->n - 1];
        groups->members[i] = (struct group_member){keys[i].tensor, keys[i].layer};
        group->n_parameters += tensor->is_alias ? 0 : tensor->n_elements;
        group->n++;
    }
}

static int compare_order(const void *left, const void *right)
{
    const struct tensor_group *a = left, *b = right;
    return a->in->tensor < b->in->tensor ? -1 : a->in->tensor > b->in->tensor;
}

static void sort_groups(struct tensor_groups *groups)
{
    if (groups->n > 0)
        qsort(groups->all, groups->n, sizeof *groups->all, compare_order);
    for (size_t g = 0; g < groups->n; g++)
        for (size_t i = 0; i < groups->all[g].n; i++)
            groups->of[groups->all[g].in[i].tensor] = (int)g;
}

smol_status smol_groups_make(const struct subject *subject, struct tensor_groups *groups,
                             smol_error *error)
{
    size_t n = subject->n_tensors;
    struct key *keys = calloc(n + 1, sizeof *keys);
    groups->all = calloc(n + 1, sizeof *groups->all);
    groups->members = calloc(n + 1, sizeof *groups->members);
    groups->of = calloc(n + 1, sizeof *groups->of);
    groups->names = calloc(n + 1, sizeof *groups->names);
    smol_status status = keys && groups->all && groups->members && groups->of && groups->names
                             ? SMOL_OK
                             : smol_fail_memory(error, "the tensor list");
    for (size_t i = 0; !status && i < n; i++) {
        const struct model_tensor *tensor = &subject->tensors[i];
        keys[i] = key_of(i, tensor->has_role ? smol_tensor_name(tensor->key, groups->names[i])
                                             : tensor->name);
    }
    if (!status && n > 0)
        qsort(keys, n, sizeof *keys, compare_keys);
    if (!status)
        gather(subject, keys, groups);
    if (!status)
        sort_groups(groups);
    free(keys);
    return status;
}

void smol_groups_free(struct tensor_groups *groups)
{
    free(groups->all);
    free(groups->members);
    free(groups->of);
    free(groups->names);
}
