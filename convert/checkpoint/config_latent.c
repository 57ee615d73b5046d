/* Attention to latent vectors, see config_model.h: keys of MiniCPM3 and Youtu. */
#include <math.h>

#include "convert/checkpoint/config_model.h"

/* The reference's classes of these norms have an epsilon of their own. */
#define LATENT_NORM_EPS 1e-6f

/* Reads the ranks of queries and of latent vectors, and the channels of heads. Without a rank
 * queries have one matrix. */
static smol_status read_sizes(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    struct blob_latent *latent = &model->latent;
    const struct family_latent *defaults = &result->family->latent;
    latent->kv_rank = defaults->kv_rank;
    latent->q_rank = smol_setting_is_null(config, "q_lora_rank") ? 0 : defaults->q_rank;
    latent->query_dim = defaults->query_dim;
    latent->value_dim =
        defaults->value_dim ? defaults->value_dim : model->hidden_size / model->n_heads;
    if (defaults->value_dim && smol_setting_is_null(config, "v_head_dim"))
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, "v_head_dim",
                                 "this family needs a number");
    smol_status status =
        smol_setting_integer(config, "kv_lora_rank", 1, MAX_HEAD_DIM, &latent->kv_rank);
    if (!status)
        status = smol_setting_integer(config, "q_lora_rank", 1, MODEL_MAX_HIDDEN, &latent->q_rank);
    if (!status)
        status =
            smol_setting_integer(config, "qk_nope_head_dim", 1, MAX_HEAD_DIM, &latent->query_dim);
    return status ? status
                  : smol_setting_integer(config, "v_head_dim", 1, MAX_HEAD_DIM, &latent->value_dim);
}

static smol_status check_sizes(const struct json_settings *config, const struct blob_model *model)
{
    const struct blob_latent *latent = &model->latent;
    if (model->n_kv_heads != model->n_heads)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: num_key_value_heads %u must be num_attention_heads %u in this family",
                         config->path, model->n_kv_heads, model->n_heads);
    if (model->hidden_size % model->n_heads)
        return smol_config_fail_multiple(config, "hidden_size", model->hidden_size,
                                         "num_attention_heads", model->n_heads);
    if (latent->kv_rank % TILE_ROWS || latent->value_dim % TILE_ROWS || latent->value_dim == 0)
        return smol_fail(
            config->error, SMOL_ERROR_UNSUPPORTED,
            "%s: kv_lora_rank %u and v_head_dim %u: only multiples of %d are supported",
            config->path, latent->kv_rank, latent->value_dim, TILE_ROWS);
    if (latent->kv_rank + model->rotary_dim > MAX_HEAD_DIM || latent->value_dim > MAX_HEAD_DIM)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: kv_lora_rank %u with qk_rope_head_dim %u, and v_head_dim %u: at most "
                         "%d is supported",
                         config->path, latent->kv_rank, model->rotary_dim, latent->value_dim,
                         MAX_HEAD_DIM);
    return SMOL_OK;
}

/* Checks a factor of scores, which the reference takes from a rotary embedding of any type. */
static smol_status check_rope(const struct json_settings *config, const char *key,
                              const char *within)
{
    struct json_settings inside = *config;
    inside.within = within;
    inside.object = smol_setting(config, key);
    const json_t *value = inside.object ? smol_setting(&inside, "mscale_all_dim") : NULL;
    return value ? smol_setting_fail(&inside, SMOL_ERROR_UNSUPPORTED, "mscale_all_dim",
                                     "not supported in this family")
                 : SMOL_OK;
}

smol_status smol_config_read_latent(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    struct blob_latent *latent = &model->latent;
    if (result->family->latent.kv_rank == 0)
        return SMOL_OK;
    smol_status status = read_sizes(config, result);
    if (!status)
        status = check_sizes(config, model);
    if (!status)
        status = check_rope(config, "rope_parameters", "rope_parameters.");
    if (!status)
        status = check_rope(config, "rope_scaling", "rope_scaling.");
    if (status)
        return status;
    latent->norm_eps = LATENT_NORM_EPS;
    model->attention_scale = (float)pow(latent->query_dim + model->rotary_dim, -0.5);
    model->n_kv_heads = 1;
    model->head_dim = latent->kv_rank + model->rotary_dim;
    return SMOL_OK;
}
