/* The index of a blob's tensors, see network.h. */
#include "runtime/engine/network.h"

#include "common/memory.h"
#include "format/model.h"
#include "runtime/engine/fpenv.h"

/* Copies the model's parameters and computes the default ones, such as the attention scale, in our
 * floating-point state because they affect every result. */
static void fill_model(struct network *network)
{
    fenv_t saved;
    network->model = *network->blob->model;
    fpenv_enter(&saved);
    smol_model_fill(&network->model);
    fpenv_leave(&saved);
}

smol_status smol_network_init(struct network *network, const struct blob *blob, smol_error *error)
{
    network->blob = blob;
    fill_model(network);
    network->layers = smol_calloc(blob->model->n_layers, sizeof *network->layers);
    if (!network->layers)
        return smol_fail_memory(error, "the layer table");
    for (uint32_t i = 0; blob->layers && i < blob->model->n_layers; i++)
        network->layers[i].bits = blob->layers[i];
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        struct layer *layer = smol_role_is_per_layer(tensor->role) ? &network->layers[tensor->layer]
                                                                   : &network->outer;
        if (tensor->expert == 0)
            layer->tensor[tensor->role] = tensor;
    }
    return SMOL_OK;
}

void smol_network_free(struct network *network)
{
    smol_free(network->layers);
}
