/* Encoders, most of them of BERT's architecture. */
#include "convert/families/tables.h"

/* clang-format off */
/* BERT's, of which RoBERTa's begin differently. */
#define BERT(prefix) prefix "encoder.layer.%u."
#define BERT_TENSORS(before)                                                                       \
    .prefix = (before),                                                                            \
    .embedding_norm = BOTH(before "embeddings.LayerNorm"),                                         \
    .layer_norm = BOTH(BERT(before) "output.LayerNorm"),                                           \
    .types = (before "embeddings.token_type_embeddings.weight"),                                   \
    .names = {[ROLE_EMBED] = (before "embeddings.word_embeddings.weight"),                         \
              [ROLE_POSITIONS] = (before "embeddings.position_embeddings.weight"),                 \
              PAIR(ATTN_NORM, BERT(before) "norm"),                                                \
              PAIR(ATTN_Q, BERT(before) "attention.self.query"),                                   \
              PAIR(ATTN_K, BERT(before) "attention.self.key"),                                     \
              PAIR(ATTN_V, BERT(before) "attention.self.value"),                                   \
              PAIR(ATTN_O, BERT(before) "attention.output.dense"),                                 \
              PAIR(MLP_NORM, BERT(before) "attention.output.LayerNorm"),                           \
              PAIR(MLP_UP, BERT(before) "intermediate.dense"),                                     \
              PAIR(MLP_DOWN, BERT(before) "output.dense"),                                         \
              PAIR(FINAL_NORM, before "encoder.norm")}
#define DISTILBERT "distilbert.transformer.layer.%u."
#define MPNET "mpnet.encoder.layer.%u."
#define NOMIC "nomic_bert.encoder.layers.%u."
#define GTE "gte.encoder.layer.%u."
#define GTE_TENSORS                                                                                \
    .heads = {"lm_head.", "classifier."},                                                          \
    .score_layers = {"gte.pooler.dense", "classifier"},                                            \
    .prefix = "gte.",                                                                              \
    .old_prefix = "new.",                                                                          \
    .embedding_norm = BOTH("gte.embeddings.LayerNorm"),                                            \
    .layer_norm = BOTH(GTE "mlp_ln"),                                                              \
    .types = "gte.embeddings.token_type_embeddings.weight",                                        \
    .may_lack_types = true,                                                                        \
    .names = {[ROLE_EMBED] = "gte.embeddings.word_embeddings.weight",                              \
              PAIR(ATTN_NORM, GTE "norm"),                                                         \
              PAIR(ATTN_Q, GTE "attention.q_proj"),                                                \
              PAIR(ATTN_K, GTE "attention.k_proj"),                                                \
              PAIR(ATTN_V, GTE "attention.v_proj"),                                                \
              PAIR(ATTN_O, GTE "attention.o_proj"),                                                \
              PAIR(MLP_NORM, GTE "attn_ln"),                                                       \
              PAIR(MLP_GATE, GTE "mlp.gate_proj"),                                                 \
              PAIR(MLP_UP, GTE "mlp.up_proj"),                                                     \
              PAIR(MLP_DOWN, GTE "mlp.down_proj"),                                                 \
              PAIR(FINAL_NORM, "gte.encoder.norm")},                                               \
    .fused = {FUSED(GTE "attention.qkv_proj.weight", FUSION_STACKED, 3, QKV),                      \
              FUSED(GTE "attention.qkv_proj.bias", FUSION_STACKED, 3, QKV_BIASES),                 \
              FUSED(GTE "mlp.up_gate_proj.weight", FUSION_STACKED, 2, ROLE_MLP_UP, ROLE_MLP_GATE)}
/* clang-format on */

/* Encoders with learned positions, whose norms are after what they add to. */
#define ENCODER_BLOCKS(more)                                                                       \
    .norm_eps = 1e-12, .bos_id = NO_TOKEN, .eos_id = NO_TOKEN, .tied_embeddings = 1,               \
    .activation = ACTIVATION_GELU, .attention_bias = BIAS_QKVO, .attention_biased = {NULL, true},  \
    .mlp_biased = {NULL, true}, .encodes = true,                                                   \
    .blocks = BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_POSITIONS | BLOCK_NORM_STREAM | (more),     \
    .demands = {{"is_decoder", false, "a decoder of this family is not supported"},                \
                {"add_cross_attention", false, "cross-attention is not supported"}}
#define BERT_BLOCKS(more)                                                                          \
    ENCODER_BLOCKS(more), .size_keys = {[FAMILY_KV_HEADS] = "", [FAMILY_HEAD_DIM] = ""},           \
                          .norm_eps_key = "layer_norm_eps", .activation_key = "hidden_act",        \
                          .score_activation = DENSE_TANH
#define ROBERTA                                                                                    \
    BERT_BLOCKS(0), .pad_id = {"pad_token_id", 1}, .heads = {"lm_head."},                          \
                    .score_layers = {"classifier.dense", "classifier.out_proj"},                   \
                    BERT_TENSORS("roberta.")

/* Encoders like these, whose positions rotate queries and keys, and whose MLP has a gate. */
#define ROTATING_ENCODER                                                                           \
    .size_keys = {[FAMILY_KV_HEADS] = ""}, .norm_eps_key = "layer_norm_eps", .tied_embeddings = 1, \
    .encodes = true, .blocks = BLOCK_LAYER_NORM | BLOCK_NORM_STREAM,                               \
    .score_activation = DENSE_TANH

#define GTE_BLOCKS                                                                                 \
    ROTATING_ENCODER,                                                                              \
        .activation_key = "hidden_act", .activation = ACTIVATION_GELU,                             \
        .attention_bias = BIAS_QKVO, .attention_biased = {NULL, true}, .mlp_biased = {NULL, true}, \
        .lacks_input_biases = true,                                                                \
        .texts = {{"layer_norm_type", "layer_norm"}, {"position_embedding_type", "rope"}}

static const struct family families[] = {
    {
        .architecture = "BertForMaskedLM",
        .body = "BertModel",
        .pretrained = "BertForPreTraining",
        .scorer = "BertForSequenceClassification",
        .model_type = "bert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        BERT_BLOCKS(0),
        .heads = {"cls."},
        .score_layers = {"bert.pooler.dense", "classifier"},
        .types_pairs = true,
        BERT_TENSORS("bert."),
    },
    {
        .architecture = "XLMRobertaForMaskedLM",
        .body = "XLMRobertaModel",
        .scorer = "XLMRobertaForSequenceClassification",
        .model_type = "xlm-roberta",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        ROBERTA,
    },
    {
        .architecture = "RobertaForMaskedLM",
        .body = "RobertaModel",
        .scorer = "RobertaForSequenceClassification",
        .model_type = "roberta",
        .sizes = {768, 3072, 12, 12, 0, 0, 50265, 512},
        ROBERTA,
    },
    {
        .architecture = "CamembertForMaskedLM",
        .body = "CamembertModel",
        .scorer = "CamembertForSequenceClassification",
        .model_type = "camembert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        ROBERTA,
    },
    {
        /* sinusoidal_pos_embds only says how positions began that the checkpoint contains */
        .architecture = "DistilBertForMaskedLM",
        .body = "DistilBertModel",
        .scorer = "DistilBertForSequenceClassification",
        .model_type = "distilbert",
        .sizes = {768, 3072, 6, 12, 0, 0, 30522, 512},
        .size_keys = {"dim", "hidden_dim", "n_layers", "n_heads", "", "", NULL, NULL},
        ENCODER_BLOCKS(0),
        .norm_eps_key = "",
        .activation_key = "activation",
        .heads = {"vocab_"},
        .score_layers = {"pre_classifier", "classifier"},
        .score_activation = DENSE_RELU,
        .prefix = "distilbert.",
        .embedding_norm = BOTH("distilbert.embeddings.LayerNorm"),
        .layer_norm = BOTH(DISTILBERT "output_layer_norm"),
        .names = {[ROLE_EMBED] = "distilbert.embeddings.word_embeddings.weight",
                  [ROLE_POSITIONS] = "distilbert.embeddings.position_embeddings.weight",
                  PAIR(ATTN_NORM, DISTILBERT "norm"),
                  PAIR(ATTN_Q, DISTILBERT "attention.q_lin"),
                  PAIR(ATTN_K, DISTILBERT "attention.k_lin"),
                  PAIR(ATTN_V, DISTILBERT "attention.v_lin"),
                  PAIR(ATTN_O, DISTILBERT "attention.out_lin"),
                  PAIR(MLP_NORM, DISTILBERT "sa_layer_norm"),
                  PAIR(MLP_UP, DISTILBERT "ffn.lin1"),
                  PAIR(MLP_DOWN, DISTILBERT "ffn.lin2"),
                  PAIR(FINAL_NORM, "distilbert.transformer.norm")},
    },
    {
        .architecture = "MPNetForMaskedLM",
        .body = "MPNetModel",
        .scorer = "MPNetForSequenceClassification",
        .model_type = "mpnet",
        .sizes = {768, 3072, 12, 12, 0, 0, 30527, 512},
        BERT_BLOCKS(BLOCK_RELATIVE),
        .pad_id = {"", 1},
        .heads = {"lm_head."},
        .score_layers = {"classifier.dense", "classifier.out_proj"},
        .prefix = "mpnet.",
        .embedding_norm = BOTH("mpnet.embeddings.LayerNorm"),
        .layer_norm = BOTH(MPNET "output.LayerNorm"),
        .names = {[ROLE_EMBED] = "mpnet.embeddings.word_embeddings.weight",
                  [ROLE_POSITIONS] = "mpnet.embeddings.position_embeddings.weight",
                  [ROLE_RELATIVE] = "mpnet.encoder.relative_attention_bias.weight",
                  PAIR(ATTN_NORM, MPNET "norm"),
                  PAIR(ATTN_Q, MPNET "attention.attn.q"),
                  PAIR(ATTN_K, MPNET "attention.attn.k"),
                  PAIR(ATTN_V, MPNET "attention.attn.v"),
                  PAIR(ATTN_O, MPNET "attention.attn.o"),
                  PAIR(MLP_NORM, MPNET "attention.LayerNorm"),
                  PAIR(MLP_UP, MPNET "intermediate.dense"),
                  PAIR(MLP_DOWN, MPNET "output.dense"),
                  PAIR(FINAL_NORM, "mpnet.encoder.norm")},
    },
    {
        .architecture = "ModernBertForMaskedLM",
        .body = "ModernBertModel",
        .scorer = "ModernBertForSequenceClassification",
        .norms_score = true,
        .score_layers = {"head.dense", "classifier"},
        .score_activation = DENSE_GELU_NORM,
        .model_type = "modernbert",
        .sizes = {768, 1152, 22, 12, 0, 0, 50368, 8192},
        .size_keys = {[FAMILY_KV_HEADS] = "", [FAMILY_HEAD_DIM] = ""},
        BASICS(1e-5, 160000, NO_TOKEN, NO_TOKEN),
        .norm_eps_key = "norm_eps",
        .theta_key = "global_rope_theta",
        .local_theta = {"local_rope_theta", 10000},
        .tied_embeddings = 1,
        .activation_key = "hidden_activation",
        .activation = ACTIVATION_GELU,
        ATTENTION_BIASES,
        MLP_BIASES,
        .norm_biased = {"norm_bias", false},
        .blocks = BLOCK_LAYER_NORM,
        .windows = WINDOWS_AFTER_EACH_N,
        .sliding_window = 128,
        .window_key = "local_attention",
        .windows_n = {"global_attn_every_n_layers", 3},
        .refused_key = "rope_scaling",
        .prefix = "model.",
        .encodes = true,
        .embedding_norm = BOTH("model.embeddings.norm"),
        .heads = {"head.", "decoder."},
        .names = {[ROLE_EMBED] = "model.embeddings.tok_embeddings.weight",
                  PAIR(ATTN_NORM, LAYERS "attn_norm"),
                  PAIR(ATTN_Q, LAYERS "attn.q"),
                  PAIR(ATTN_K, LAYERS "attn.k"),
                  PAIR(ATTN_V, LAYERS "attn.v"),
                  PAIR(ATTN_O, LAYERS "attn.Wo"),
                  PAIR(MLP_NORM, LAYERS "mlp_norm"),
                  PAIR(MLP_GATE, LAYERS "mlp.gate"),
                  PAIR(MLP_UP, LAYERS "mlp.up"),
                  PAIR(MLP_DOWN, LAYERS "mlp.Wo"),
                  PAIR(FINAL_NORM, "model.final_norm")},
        .fused = {FUSED(LAYER("attn.Wqkv.weight"), FUSION_STACKED, 3, QKV),
                  FUSED(LAYER("attn.Wqkv.bias"), FUSION_STACKED, 3, QKV_BIASES),
                  FUSED(LAYER("mlp.Wi.weight"), FUSION_STACKED, 2, GATE_UP),
                  FUSED(LAYER("mlp.Wi.bias"), FUSION_STACKED, 2, ROLE_MLP_GATE_BIAS,
                        ROLE_MLP_UP_BIAS)},
    },
    {
        .architecture = "NomicBertForMaskedLM",
        .body = "NomicBertModel",
        .scorer = "NomicBertForSequenceClassification",
        .model_type = "nomic_bert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30528, 2048},
        ROTATING_ENCODER,
        .has_old_keys = true,
        .texts = {{"activation_function", "swiglu"}},
        BASICS(1e-12, 1000, NO_TOKEN, NO_TOKEN),
        SILU,
        .heads = {"cls."},
        .score_layers = {"nomic_bert.pooler.dense", "classifier"},
        .types_pairs = true,
        .prefix = "nomic_bert.",
        .embedding_norm = BOTH("nomic_bert.emb_ln"),
        .layer_norm = BOTH(NOMIC "norm2"),
        .types = "nomic_bert.embeddings.token_type_embeddings.weight",
        .names = {[ROLE_EMBED] = "nomic_bert.embeddings.word_embeddings.weight",
                  PAIR(ATTN_NORM, NOMIC "norm"),
                  [ROLE_ATTN_Q] = (NOMIC "attn.q.weight"),
                  [ROLE_ATTN_K] = (NOMIC "attn.k.weight"),
                  [ROLE_ATTN_V] = (NOMIC "attn.v.weight"),
                  [ROLE_ATTN_O] = (NOMIC "attn.out_proj.weight"),
                  PAIR(MLP_NORM, NOMIC "norm1"),
                  [ROLE_MLP_GATE] = (NOMIC "mlp.fc12.weight"),
                  [ROLE_MLP_UP] = (NOMIC "mlp.fc11.weight"),
                  [ROLE_MLP_DOWN] = (NOMIC "mlp.fc2.weight"),
                  PAIR(FINAL_NORM, "nomic_bert.encoder.norm")},
        .fused = {FUSED(NOMIC "attn.Wqkv.weight", FUSION_STACKED, 3, QKV)},
    },
    {
        .architecture = "GteForMaskedLM",
        .body = "GteModel",
        .scorer = "GteForSequenceClassification",
        .model_type = "gte",
        .sizes = {768, 3072, 12, 12, 0, 0, 250048, 8192},
        BASICS(1e-12, 160000, NO_TOKEN, NO_TOKEN),
        GTE_BLOCKS,
        .demands = {{"logn_attention_scale", false, "this scale is not supported"}},
        GTE_TENSORS,
    },
    {
        /* GTE's own code, which is not in transformers */
        .architecture = "NewForMaskedLM",
        .body = "NewModel",
        .pretrained = "NewForTokenClassification",
        .scorer = "NewForSequenceClassification",
        .model_type = "new",
        .sizes = {768, 3072, 12, 12, 0, 0, 30528, 2048},
        BASICS(1e-12, 10000, NO_TOKEN, NO_TOKEN),
        GTE_BLOCKS,
        .ropes = ROPES_NTK,
        .demands = {{"logn_attention_scale", false, "this scale is not supported"},
                    {"pack_qkv", true, "queries, keys and values apart are not supported"}},
        GTE_TENSORS,
    },
    {
        .architecture = "EuroBertForMaskedLM",
        .body = "EuroBertModel",
        .model_type = "eurobert",
        .sizes = {768, 3072, 12, 12, 0, 0, 128256, 8192},
        BASICS(1e-5, 10000, 128000, 128001),
        SILU,
        ATTENTION_BIASES,
        MLP_BIASES,
        .prefix = "model.",
        .encodes = true,
        .heads = {"lm_head."},
        .names = {ATTENTION_NAMES, [ROLE_EMBED] = "model.embed_tokens.weight",
                  [ROLE_FINAL_NORM] = "model.norm.weight", MLP_NAMES, LLAMA_NORM_NAMES},
    },
};

const struct family_table smol_encoder_families = FAMILY_TABLE(families);
