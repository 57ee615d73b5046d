"""config.json in the style of published checkpoints: which keys there are, those that count and some
that do not, and how they are spelled. Written by hand, without the files themselves."""

LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}

CONFIGS = {
    "SmolLM2 135M Instruct": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", attention_bias=False, attention_dropout=0.0, bos_token_id=1,
        eos_token_id=2, hidden_act="silu", hidden_size=576, initializer_range=0.041666666666666664, intermediate_size=1536,
        is_llama_config=True, max_position_embeddings=8192, mlp_bias=False, num_attention_heads=9, num_hidden_layers=30,
        num_key_value_heads=3, pad_token_id=2, pretraining_tp=1, rms_norm_eps=1e-5, rope_interleaved=False, rope_scaling=None,
        rope_theta=100000, tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True, vocab_size=49152,
    ),
    "TinyLlama 1.1B Chat": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", attention_bias=False, bos_token_id=1,
        eos_token_id=2, hidden_act="silu", hidden_size=2048, initializer_range=0.02,
        intermediate_size=5632, max_position_embeddings=2048, num_attention_heads=32,
        num_hidden_layers=22, num_key_value_heads=4, pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16",
        transformers_version="4.35.0", use_cache=True, vocab_size=32000,
    ),
    "Llama 2 7B": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", hidden_size=4096, intermediate_size=11008, max_position_embeddings=4096,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, pretraining_tp=1,
        rms_norm_eps=1e-5, rope_scaling=None, tie_word_embeddings=False, torch_dtype="float16",
        vocab_size=32000,
    ),
    "Llama 3.2 1B Instruct": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", attention_bias=False,
        bos_token_id=128000, eos_token_id=[128001, 128008, 128009], head_dim=64, hidden_act="silu",
        hidden_size=2048, intermediate_size=8192, max_position_embeddings=131072, mlp_bias=False,
        num_attention_heads=32, num_hidden_layers=16, num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_scaling=LLAMA3_ROPE, rope_theta=500000.0, tie_word_embeddings=True, vocab_size=128256,
    ),
    "SmolLM2 1.7B": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", hidden_size=2048, intermediate_size=8192, max_position_embeddings=8192,
        num_attention_heads=32, num_hidden_layers=24, num_key_value_heads=32, rms_norm_eps=1e-5,
        rope_interleaved=False, rope_scaling=None, rope_theta=130000, tie_word_embeddings=True,
        vocab_size=49152, is_llama_config=True, **{"transformers.js_config": {"dtype": "q4"}},
    ),
    "SmolLM3 3B": dict(
        architectures=["SmolLM3ForCausalLM"], model_type="smollm3", attention_bias=False,
        bos_token_id=128000, eos_token_id=128012, hidden_act="silu", hidden_size=2048,
        intermediate_size=11008, layer_types=["full_attention"] * 36, max_position_embeddings=65536,
        max_window_layers=28, mlp_bias=False, no_rope_layer_interval=4,
        no_rope_layers=[1, 1, 1, 0] * 9, num_attention_heads=16, num_hidden_layers=36,
        num_key_value_heads=4, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=5000000.0,
        sliding_window=None, use_sliding_window=False, vocab_size=128256,
    ),
    "Mistral 7B 0.1": dict(
        architectures=["MistralForCausalLM"], model_type="mistral", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=32768,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_theta=10000.0, sliding_window=4096, tie_word_embeddings=False, vocab_size=32000,
    ),
    "Mistral 7B 0.3": dict(
        architectures=["MistralForCausalLM"], model_type="mistral", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=32768,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False, vocab_size=32768,
    ),
    "Qwen 2.5 0.5B Instruct": dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", bos_token_id=151643,
        eos_token_id=151645, hidden_act="silu", hidden_size=896, intermediate_size=4864,
        max_position_embeddings=32768, max_window_layers=21, num_attention_heads=14,
        num_hidden_layers=24, num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1000000.0,
        sliding_window=32768, tie_word_embeddings=True, use_sliding_window=False, vocab_size=151936,
    ),
    "Qwen 2.5 Coder 1.5B Instruct": dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", bos_token_id=151643,
        eos_token_id=151645, hidden_act="silu", hidden_size=1536, intermediate_size=8960,
        max_position_embeddings=32768, max_window_layers=28, num_attention_heads=12,
        num_hidden_layers=28, num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1000000.0,
        sliding_window=32768, tie_word_embeddings=True, use_sliding_window=False, vocab_size=151936,
    ),
    "Qwen 3 0.6B": dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False,
        bos_token_id=151643, eos_token_id=151645, head_dim=128, hidden_act="silu", hidden_size=1024,
        intermediate_size=3072, max_position_embeddings=40960, max_window_layers=28,
        num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=1000000, sliding_window=None, tie_word_embeddings=True,
        use_sliding_window=False, vocab_size=151936,
    ),
    "Granite 3.1 2B": dict(
        architectures=["GraniteForCausalLM"], model_type="granite", attention_bias=False,
        attention_multiplier=0.015625, bos_token_id=0, embedding_multiplier=12.0, eos_token_id=0,
        hidden_act="silu", hidden_size=2048, intermediate_size=8192, logits_scaling=8.0,
        max_position_embeddings=131072, mlp_bias=False, num_attention_heads=32,
        num_hidden_layers=40, num_key_value_heads=8, residual_multiplier=0.22, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=5000000.0, tie_word_embeddings=True, vocab_size=49155,
    ),
    "Granite Swash 2B": dict(
        architectures=["GraniteSWAForCausalLM"], model_type="granite_swa", bos_token_id=100257, eos_token_id=100257,
        hidden_act="silu", hidden_size=2560, intermediate_size=8192, layer_types=["full_attention", *["sliding_attention"] * 3] * 6,
        max_position_embeddings=8192, num_attention_heads=20, num_hidden_layers=24, num_key_value_heads=4, rms_norm_eps=1e-5,
        sliding_window=128, tie_word_embeddings=True, vocab_size=100352,
    ),
    "OLMo 1B": dict(
        architectures=["OlmoForCausalLM"], model_type="olmo", attention_bias=False, attention_dropout=0.0, clip_qkv=None,
        eos_token_id=50279, hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=8192,
        max_position_embeddings=2048, num_attention_heads=16, num_hidden_layers=16, num_key_value_heads=16, pad_token_id=1,
        rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=True, use_cache=True, vocab_size=50304,
    ),
    "OLMo 2 1B": dict(
        architectures=["Olmo2ForCausalLM"], model_type="olmo2", attention_bias=False,
        eos_token_id=100257, hidden_act="silu", hidden_size=2048, intermediate_size=8192,
        max_position_embeddings=4096, num_attention_heads=16, num_hidden_layers=16,
        num_key_value_heads=16, pad_token_id=100277, rms_norm_eps=1e-6, rope_scaling=None,
        rope_theta=500000, tie_word_embeddings=False, vocab_size=100352,
    ),
    "OLMo 3 7B Instruct": dict(
        architectures=["Olmo3ForCausalLM"], model_type="olmo3", attention_bias=False,
        attention_dropout=0.0, eos_token_id=100257, hidden_act="silu", hidden_size=4096,
        initializer_range=0.02, intermediate_size=11008,
        layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8,
        max_position_embeddings=65536, num_attention_heads=32, num_hidden_layers=32,
        num_key_value_heads=32, pad_token_id=100277, rms_norm_eps=1e-6,
        rope_scaling={"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0,
                      "factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "yarn"},
        rope_theta=500000, sliding_window=4096, tie_word_embeddings=False, torch_dtype="bfloat16",
        use_cache=False, vocab_size=100278,
    ),
    "Ministral 3 3B Base, text": dict(
        architectures=["Ministral3ForCausalLM"], model_type="ministral3", attention_dropout=0.0,
        bos_token_id=1, eos_token_id=2, head_dim=128, hidden_act="silu", hidden_size=3072,
        initializer_range=0.02, intermediate_size=9216, max_position_embeddings=262144,
        num_attention_heads=32, num_hidden_layers=26, num_key_value_heads=8, pad_token_id=11,
        rms_norm_eps=1e-5,
        rope_parameters={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
                         "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": 16384, "rope_theta": 1000000.0,
                         "rope_type": "yarn", "type": "yarn"},
        sliding_window=None, tie_word_embeddings=True, use_cache=True, vocab_size=131072,
    ),
    "ERNIE 4.5 0.3B": dict(
        architectures=["Ernie4_5ForCausalLM"], model_type="ernie4_5", bos_token_id=1, eos_token_id=2,
        pad_token_id=0, head_dim=128, hidden_act="silu", hidden_size=1024, intermediate_size=3072,
        max_position_embeddings=131072, num_attention_heads=16, num_hidden_layers=18,
        num_key_value_heads=2, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=500000.0,
        tie_word_embeddings=True, torch_dtype="bfloat16", use_bias=False, use_cache=False,
        vocab_size=103424, compression_ratio=1.0,
    ),
    "EXAONE 4.0 1.2B": dict(
        architectures=["Exaone4ForCausalLM"], model_type="exaone4", attention_dropout=0.0,
        bos_token_id=1, eos_token_id=361, head_dim=64, hidden_act="silu", hidden_size=2048,
        initializer_range=0.02, intermediate_size=4096, layer_types=["full_attention"] * 30,
        max_position_embeddings=65536, num_attention_heads=32, num_hidden_layers=30,
        num_key_value_heads=8, pad_token_id=0, rms_norm_eps=1e-5,
        rope_scaling={"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                      "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        rope_theta=1000000, sliding_window=None, sliding_window_pattern=None,
        tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True, vocab_size=102400,
    ),
    "EXAONE 4.0 32B": dict(
        architectures=["Exaone4ForCausalLM"], model_type="exaone4", attention_dropout=0.0,
        bos_token_id=1, eos_token_id=361, head_dim=128, hidden_act="silu", hidden_size=5120,
        intermediate_size=27392, layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16,
        max_position_embeddings=131072, num_attention_heads=40, num_hidden_layers=64,
        num_key_value_heads=8, pad_token_id=0, rms_norm_eps=1e-5,
        rope_scaling={"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                      "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        rope_theta=1000000, sliding_window=4096, sliding_window_pattern="LLLG",
        tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, vocab_size=102400,
    ),
    "Hunyuan 0.5B Instruct": dict(
        architectures=["HunYuanDenseV1ForCausalLM"], model_type="hunyuan_v1_dense",
        add_classification_head=False, attention_bias=False, attention_dropout=0.0,
        attention_head_dim=128, bos_token_id=1, class_num=0, dense_list=[1024, 0], eod_token_id=3,
        eos_token_id=120020, head_dim=128, hidden_act="silu", hidden_size=1024,
        initializer_range=0.02, intermediate_size=3584, max_position_embeddings=262144,
        mlp_bias=False, norm_type="rms", num_attention_heads=8, num_hidden_layers=24,
        num_key_value_heads=4, org_vocab_size=120818, pad_id=120002, pool_type="last",
        pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling={"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                      "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"},
        rope_theta=10000.0, tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True,
        use_cla=False, use_qk_norm=True, use_rotary_pos_emb=True, vocab_size=120818,
    ),
    "LFM2 350M": dict(
        architectures=["Lfm2ForCausalLM"], model_type="lfm2", block_auto_adjust_ff_dim=True,
        block_dim=1024, block_ff_dim=6656, block_ffn_dim_multiplier=1.0, block_mlp_init_scale=1.0,
        block_multiple_of=256, block_norm_eps=1e-5, block_out_init_scale=1.0, block_use_swiglu=True,
        block_use_xavier_init=True, bos_token_id=1, conv_L_cache=3, conv_bias=False, conv_dim=1024,
        conv_dim_out=1024, conv_use_xavier_init=True, eos_token_id=7,
        full_attn_idxs=[2, 5, 8, 10, 12, 14], hidden_size=1024, initializer_range=0.02,
        max_position_embeddings=128000, norm_eps=1e-5, num_attention_heads=16, num_heads=16,
        num_hidden_layers=16, num_key_value_heads=8, pad_token_id=0, rope_theta=1000000.0,
        torch_dtype="bfloat16", transformers_version="4.54.0.dev0", use_cache=True, use_pos_enc=True,
        vocab_size=65536,
    ),
    "LFM2.5 1.2B Instruct": dict(
        architectures=["Lfm2ForCausalLM"], model_type="lfm2", block_auto_adjust_ff_dim=True,
        block_dim=2048, block_ff_dim=12288, block_ffn_dim_multiplier=1.0, block_mlp_init_scale=1.0,
        block_multiple_of=256, block_norm_eps=1e-5, block_out_init_scale=1.0, block_use_swiglu=True,
        block_use_xavier_init=True, bos_token_id=1, conv_L_cache=3, conv_bias=False, conv_dim=2048,
        conv_use_xavier_init=True, dtype="bfloat16", eos_token_id=7, hidden_size=2048,
        initializer_range=0.02, intermediate_size=12288,
        layer_types=["conv", "conv", "full_attention"] * 3
        + ["conv", "full_attention", "conv", "full_attention", "conv", "full_attention", "conv"],
        max_position_embeddings=128000, norm_eps=1e-5, num_attention_heads=32, num_heads=32,
        num_hidden_layers=16, num_key_value_heads=8, pad_token_id=0,
        rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"}, tie_embedding=True,
        use_cache=True, use_pos_enc=True, vocab_size=65536,
    ),
    "LFM2 8B A1B": dict(
        architectures=["Lfm2MoeForCausalLM"], model_type="lfm2_moe", bos_token_id=1, conv_L_cache=3,
        conv_bias=False, dtype="bfloat16", eos_token_id=7, hidden_size=2048, initializer_range=0.02,
        intermediate_size=7168,
        layer_types=["conv", "conv", "full_attention", "conv", "conv", "conv"] * 3
        + ["full_attention", "conv", "conv", "full_attention", "conv", "conv"],
        max_position_embeddings=128000, moe_intermediate_size=1792, norm_eps=1e-5, norm_topk_prob=True,
        num_attention_heads=32, num_dense_layers=2, num_experts=32, num_experts_per_tok=4,
        num_hidden_layers=24, num_key_value_heads=8, pad_token_id=0, rope_theta=1000000.0,
        routed_scaling_factor=1.0, use_cache=True, use_expert_bias=True, vocab_size=65536,
    ),
    "LFM3 1.7B": dict(
        architectures=["Lfm3ForCausalLM"], model_type="lfm3", attention_bias=False, attention_dropout=0.0, bos_token_id=124894,
        conv_L_cache=7, conv_bias=False, dtype="bfloat16", eos_token_id=124900, head_dim=128, hidden_size=2048,
        initializer_range=0.02, intermediate_size=7680,
        layer_types=["conv", "conv", "full_attention", "conv"] + ["sliding_attention", "conv", "full_attention", "conv"] * 5,
        max_position_embeddings=128000, norm_eps=1e-5, num_attention_heads=16, num_hidden_layers=24, num_key_value_heads=4,
        pad_token_id=124893,
        rope_parameters={
            "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        sliding_window=256, tie_word_embeddings=True, use_attention_gate=True, use_cache=True, use_sandwich_norm=True,
        vocab_size=128000,
    ),
    "OLMoE 1B 7B": dict(
        architectures=["OlmoeForCausalLM"], model_type="olmoe", attention_bias=False, attention_dropout=0.0, clip_qkv=None,
        eos_token_id=50279, hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=1024,
        max_position_embeddings=4096, norm_topk_prob=False, num_attention_heads=16, num_experts=64, num_experts_per_tok=8,
        num_hidden_layers=16, num_key_value_heads=16, output_router_logits=False, pad_token_id=1, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=10000.0, router_aux_loss_coef=0.01, tie_word_embeddings=False, torch_dtype="bfloat16",
        use_cache=True, vocab_size=50304,
    ),
    "Qwen 3 30B A3B": dict(
        architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", attention_bias=False, attention_dropout=0.0,
        bos_token_id=151643, decoder_sparse_step=1, eos_token_id=151645, head_dim=128, hidden_act="silu", hidden_size=2048,
        initializer_range=0.02, intermediate_size=6144, max_position_embeddings=40960, max_window_layers=48, mlp_only_layers=[],
        moe_intermediate_size=768, norm_topk_prob=True, num_attention_heads=32, num_experts=128, num_experts_per_tok=8,
        num_hidden_layers=48, num_key_value_heads=4, output_router_logits=False, rms_norm_eps=1e-6, rope_scaling=None,
        rope_theta=1000000.0, router_aux_loss_coef=0.001, sliding_window=None, tie_word_embeddings=False,
        torch_dtype="bfloat16", use_cache=True, use_sliding_window=False, vocab_size=151936,
    ),
    "Granite 4.0 H Tiny": dict(
        architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", attention_bias=False,
        attention_dropout=0.0, attention_multiplier=0.0078125, bos_token_id=100257, embedding_multiplier=12,
        eos_token_id=100257, hidden_act="silu", hidden_size=1536, initializer_range=0.1, intermediate_size=512,
        layer_types=["mamba"] * 5 + (["attention"] + ["mamba"] * 9) * 3 + ["attention"] + ["mamba"] * 4, logits_scaling=6,
        mamba_chunk_size=256, mamba_conv_bias=True, mamba_d_conv=4, mamba_d_head=64, mamba_d_state=128, mamba_expand=2,
        mamba_n_groups=1, mamba_n_heads=48, mamba_proj_bias=False, max_position_embeddings=131072,
        normalization_function="rmsnorm", num_attention_heads=12, num_experts_per_tok=6, num_hidden_layers=40,
        num_key_value_heads=4, num_local_experts=64, output_router_logits=False, pad_token_id=100256,
        position_embedding_type="nope", residual_multiplier=0.22, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000,
        router_aux_loss_coef=0.0, shared_intermediate_size=1024, tie_word_embeddings=True, torch_dtype="bfloat16",
        use_cache=True, vocab_size=100352,
    ),
    "Qwen3-Next 80B A3B": dict(
        architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", attention_dropout=0.0, bos_token_id=151643,
        decoder_sparse_step=1, eos_token_id=151645, full_attention_interval=4, head_dim=256, hidden_act="silu",
        hidden_size=2048, initializer_range=0.02, intermediate_size=5120, linear_conv_kernel_dim=4, linear_key_head_dim=128,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_value_head_dim=128, max_position_embeddings=262144,
        mlp_only_layers=[], moe_intermediate_size=512, norm_topk_prob=True, num_attention_heads=16, num_experts=512,
        num_experts_per_tok=10, num_hidden_layers=48, num_key_value_heads=2, output_router_logits=False,
        partial_rotary_factor=0.25, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000000, router_aux_loss_coef=0.001,
        shared_expert_intermediate_size=512, tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True,
        use_sliding_window=False, vocab_size=151936,
    ),
    "MiniCPM 2B": dict(
        architectures=["MiniCPMForCausalLM"], model_type="minicpm", bos_token_id=1, eos_token_id=2,
        dim_model_base=256, hidden_act="silu", hidden_size=2304, initializer_range=0.1,
        intermediate_size=5760, max_position_embeddings=4096, num_attention_heads=36,
        num_hidden_layers=40, num_key_value_heads=36, rms_norm_eps=1e-5, rope_scaling=None,
        scale_depth=1.4, scale_emb=12, torch_dtype="bfloat16", use_cache=True, vocab_size=122753,
        auto_map={"AutoConfig": "configuration_minicpm.MiniCPMConfig"},
    ),
    "MiniCPM 4 0.5B": dict(
        architectures=["MiniCPMForCausalLM"], model_type="minicpm", bos_token_id=1,
        eos_token_id=[2, 73440], dim_model_base=256, hidden_act="silu", hidden_size=1024,
        initializer_range=0.1, intermediate_size=4096, max_position_embeddings=32768,
        mup_denominator=32, num_attention_heads=16, num_hidden_layers=24, num_key_value_heads=2,
        pad_token_id=2, rms_norm_eps=1e-5,
        rope_scaling={"rope_type": "longrope", "long_factor": [1 + i / 8 for i in range(32)],
                      "short_factor": [1 + i / 8 for i in range(32)],
                      "original_max_position_embeddings": 32768},
        scale_depth=1.4, scale_emb=12, torch_dtype="bfloat16", use_cache=True, vocab_size=73448,
    ),
    "MiniCPM3 4B": dict(
        architectures=["MiniCPM3ForCausalLM"], model_type="minicpm3", attention_bias=False, attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_minicpm.MiniCPM3Config",
                  "AutoModelForCausalLM": "modeling_minicpm.MiniCPM3ForCausalLM"},
        bos_token_id=1, eos_token_id=[2, 73440], dim_model_base=256, hidden_act="silu", hidden_size=2560, initializer_range=0.1,
        intermediate_size=6400, kv_lora_rank=256, max_position_embeddings=32768, num_attention_heads=40, num_hidden_layers=62,
        num_key_value_heads=40, q_lora_rank=768, qk_nope_head_dim=64, qk_rope_head_dim=32, rms_norm_eps=1e-5,
        rope_scaling={"type": "longrope", "long_factor": [1 + i / 8 for i in range(16)],
                      "short_factor": [1 + i / 8 for i in range(16)], "original_max_position_embeddings": 32768},
        scale_depth=1.4, scale_emb=12, torch_dtype="bfloat16", use_cache=True, vocab_size=73448,
    ),
    "Youtu-LLM 2B": dict(
        architectures=["YoutuForCausalLM"], model_type="youtu", attention_bias=False, attention_dropout=0.0, bos_token_id=128000,
        eos_token_id=128001, hidden_act="silu", hidden_size=2048, intermediate_size=6144, kv_lora_rank=512,
        max_position_embeddings=131072, num_attention_heads=16, num_hidden_layers=32, num_key_value_heads=16, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-6, rope_interleave=True, rope_scaling=None,
        tie_word_embeddings=True, use_cache=True, v_head_dim=128, vocab_size=128256,
    ),
    "StableLM 2 1.6B": dict(
        architectures=["StableLmForCausalLM"], model_type="stablelm", bos_token_id=100257,
        eos_token_id=100257, hidden_act="silu", hidden_size=2048, initializer_range=0.02,
        intermediate_size=5632, layer_norm_eps=1e-5, max_position_embeddings=4096,
        num_attention_heads=32, num_hidden_layers=24, num_key_value_heads=32,
        partial_rotary_factor=0.25, rope_theta=10000, tie_word_embeddings=False,
        torch_dtype="float16", use_cache=True, use_qkv_bias=True, vocab_size=100352,
    ),
    "Pythia 160M": dict(
        architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", bos_token_id=0, eos_token_id=0,
        hidden_act="gelu", hidden_size=768, initializer_range=0.02, intermediate_size=3072,
        layer_norm_eps=1e-5, max_position_embeddings=2048, num_attention_heads=12,
        num_hidden_layers=12, rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False,
        torch_dtype="float16", use_cache=True, use_parallel_residual=True, vocab_size=50304,
    ),
    "GPT-NeoX 20B": dict(
        architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", attention_probs_dropout_prob=0,
        bos_token_id=0, eos_token_id=0, hidden_act="gelu_fast", hidden_dropout_prob=0,
        hidden_size=6144, initializer_range=0.02, intermediate_size=24576, layer_norm_eps=1e-5,
        max_position_embeddings=2048, num_attention_heads=64, num_hidden_layers=44,
        rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16",
        use_cache=True, vocab_size=50432,
    ),
    "GPT-2": dict(
        architectures=["GPT2LMHeadModel"], model_type="gpt2", activation_function="gelu_new",
        attn_pdrop=0.1, bos_token_id=50256, embd_pdrop=0.1, eos_token_id=50256,
        initializer_range=0.02, layer_norm_epsilon=1e-5, n_ctx=1024, n_embd=768, n_head=12,
        n_layer=12, n_positions=1024, resid_pdrop=0.1, summary_activation=None,
        summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index",
        summary_use_proj=True, vocab_size=50257,
        task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
    ),
    "Phi 2": dict(
        architectures=["PhiForCausalLM"], model_type="phi", attention_dropout=0.0,
        bos_token_id=50256, embd_pdrop=0.0, eos_token_id=50256, hidden_act="gelu_new",
        hidden_size=2560, initializer_range=0.02, intermediate_size=10240, layer_norm_eps=1e-5,
        max_position_embeddings=2048, num_attention_heads=32, num_hidden_layers=32,
        num_key_value_heads=32, partial_rotary_factor=0.4, qk_layernorm=False, resid_pdrop=0.1,
        rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="float16",
        use_cache=True, vocab_size=51200,
    ),
    "Phi 4 mini": dict(
        architectures=["Phi3ForCausalLM"], model_type="phi3", attention_bias=False,
        bos_token_id=199999, eos_token_id=199999, full_attn_mod=1, hidden_act="silu",
        hidden_size=3072, intermediate_size=8192, lm_head_bias=False,
        max_position_embeddings=131072, mlp_bias=False, num_attention_heads=24,
        num_hidden_layers=32, num_key_value_heads=8, original_max_position_embeddings=4096,
        pad_token_id=199999, partial_rotary_factor=0.75, rms_norm_eps=1e-5, rope_theta=10000.0,
        rope_scaling={"long_factor": [1 + i / 2 for i in range(48)], "short_factor": [1.0] * 48,
                      "type": "longrope"},
        sliding_window=262144, tie_word_embeddings=True, vocab_size=200064,
    ),
    "Phi 3 mini 4k": dict(
        architectures=["Phi3ForCausalLM"], model_type="phi3", attention_bias=False, bos_token_id=1,
        attention_dropout=0.0, embd_pdrop=0.0, eos_token_id=32000, hidden_act="silu",
        hidden_size=3072, intermediate_size=8192, max_position_embeddings=4096,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32,
        original_max_position_embeddings=4096, pad_token_id=32000, resid_pdrop=0.0,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0, sliding_window=2047,
        tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, vocab_size=32064,
        auto_map={"AutoConfig": "configuration_phi3.Phi3Config"},
    ),
    "Command R7B": dict(
        architectures=["Cohere2ForCausalLM"], model_type="cohere2", attention_bias=False, attention_dropout=0.0, bos_token_id=5,
        cache_implementation="hybrid", eos_token_id=255001, head_dim=128, hidden_act="silu", hidden_size=4096,
        initializer_range=0.02, intermediate_size=14336, layer_norm_eps=1e-5, layer_switch=4, logit_scale=0.25,
        max_position_embeddings=132096, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8,
        order_of_interleaved_layers="local_attn_first", pad_token_id=0, position_embedding_type="rope_gptj", rope_scaling=None,
        rope_theta=50000, rotary_pct=1.0, sliding_window=4096, sliding_window_pattern=4, torch_dtype="bfloat16", use_cache=True,
        use_embedding_sharing=True, use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=True,
        vocab_size=256000,
    ),
    "Helium 1 Preview 2B": dict(
        architectures=["HeliumForCausalLM"], model_type="helium", attention_bias=False, bos_token_id=1, eos_token_id=2,
        head_dim=128, hidden_act="silu", hidden_size=2560, intermediate_size=7040, max_position_embeddings=4096, mlp_bias=False,
        num_attention_heads=20, num_hidden_layers=24, num_key_value_heads=20, pad_token_id=3, rms_norm_eps=1e-8,
        rope_theta=100000.0, tie_word_embeddings=False, vocab_size=48000,
    ),
    "Seed-OSS 36B Instruct": dict(
        architectures=["SeedOssForCausalLM"], model_type="seed_oss", attention_bias=True, attention_dropout=0.1,
        attention_out_bias=False, bos_token_id=0, eos_token_id=2, head_dim=128, hidden_act="silu", hidden_size=5120,
        initializer_range=0.02, intermediate_size=27648, max_position_embeddings=524288, mlp_bias=False,
        num_attention_heads=80, num_hidden_layers=64, num_key_value_heads=8, pad_token_id=1, residual_dropout=0.1,
        rms_norm_eps=1e-6, rope_scaling={"rope_type": "default"}, rope_theta=10000000.0, tie_word_embeddings=False,
        torch_dtype="bfloat16", use_cache=True, vocab_size=155136,
    ),
    "GLM-4 9B Chat": dict(
        architectures=["GlmForCausalLM"], model_type="glm", attention_bias=True, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], head_dim=128, hidden_act="silu", hidden_size=4096, initializer_range=0.02,
        intermediate_size=13696, max_position_embeddings=131072, num_attention_heads=32, num_hidden_layers=40,
        num_key_value_heads=2, pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1.5625e-7, rope_theta=10000.0,
        tie_word_embeddings=False, use_cache=True, vocab_size=151552,
    ),
    "GLM-4 9B 0414": dict(
        architectures=["Glm4ForCausalLM"], model_type="glm4", attention_bias=True, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], head_dim=128, hidden_act="silu", hidden_size=4096, initializer_range=0.02,
        intermediate_size=13696, max_position_embeddings=32768, num_attention_heads=32, num_hidden_layers=40,
        num_key_value_heads=2, pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=False, use_cache=True, vocab_size=151552,
    ),
    "StarCoder2 3B": dict(
        architectures=["Starcoder2ForCausalLM"], model_type="starcoder2", activation_function="gelu", attention_dropout=0.1,
        attention_softmax_in_fp32=True, bos_token_id=0, embedding_dropout=0.1, eos_token_id=0, hidden_act="gelu_pytorch_tanh",
        hidden_size=3072, initializer_range=0.018042, intermediate_size=12288, layer_norm_epsilon=1e-5,
        max_position_embeddings=16384, mlp_type="default", norm_epsilon=1e-5, norm_type="layer_norm", num_attention_heads=24,
        num_hidden_layers=30, num_key_value_heads=2, residual_dropout=0.1, rope_theta=999999.4420358813, sliding_window=4096,
        use_bias=True, use_cache=True, vocab_size=49152,
    ),
    "Nemotron Mini 4B Instruct": dict(
        architectures=["NemotronForCausalLM"], model_type="nemotron", attention_bias=False, attention_dropout=0.0,
        bos_token_id=2, eos_token_id=3, head_dim=128, hidden_act="relu2", hidden_size=3072, initializer_range=0.0134,
        intermediate_size=9216, max_position_embeddings=4096, mlp_bias=False, norm_eps=1e-5, num_attention_heads=24,
        num_hidden_layers=32, num_key_value_heads=8, partial_rotary_factor=0.5, rope_theta=10000.0,
        tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, vocab_size=256000,
    ),
    "Gemma 1 2B": dict(
        architectures=["GemmaForCausalLM"], model_type="gemma", attention_bias=False, attention_dropout=0.0, bos_token_id=2,
        eos_token_id=1, head_dim=256, hidden_act="gelu", hidden_activation="gelu_pytorch_tanh", hidden_size=2048,
        initializer_range=0.02, intermediate_size=16384, max_position_embeddings=8192, num_attention_heads=8,
        num_hidden_layers=18, num_key_value_heads=1, pad_token_id=0, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0,
        torch_dtype="bfloat16", use_cache=True, vocab_size=256000,
    ),
    "Gemma 2 2B": dict(
        architectures=["Gemma2ForCausalLM"], model_type="gemma2", attention_bias=False,
        attn_logit_softcapping=50.0, bos_token_id=2, cache_implementation="hybrid",
        eos_token_id=[1, 107], final_logit_softcapping=30.0, head_dim=256,
        hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", hidden_size=2304,
        intermediate_size=9216, max_position_embeddings=8192, num_attention_heads=8,
        num_hidden_layers=26, num_key_value_heads=4, query_pre_attn_scalar=256, rms_norm_eps=1e-6,
        rope_theta=10000.0, sliding_window=4096, vocab_size=256000,
    ),
    "Granite 4.0 H 350M": dict(
        architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", attention_bias=False,
        attention_dropout=0.0, attention_multiplier=0.015625, bos_token_id=100257, dtype="bfloat16", embedding_multiplier=12,
        eos_token_id=100257, hidden_act="silu", hidden_size=768, init_method="mup", initializer_range=0.1,
        intermediate_size=2048,
        layer_types=["attention" if i in (10, 13, 17, 27) else "mamba" for i in range(32)],
        logits_scaling=3, mamba_chunk_size=256, mamba_conv_bias=True, mamba_d_conv=4, mamba_d_head=32, mamba_d_state=128,
        mamba_expand=2, mamba_n_groups=1, mamba_n_heads=48, mamba_proj_bias=False, max_position_embeddings=32768,
        normalization_function="rmsnorm", num_attention_heads=12, num_experts_per_tok=0, num_hidden_layers=32,
        num_key_value_heads=4, num_local_experts=0, output_router_logits=False, pad_token_id=100256,
        position_embedding_type="nope", residual_multiplier=0.246, rms_norm_eps=1e-5,
        rope_parameters={"rope_theta": 10000, "rope_type": "default"}, router_aux_loss_coef=0.01,
        shared_intermediate_size=2048, tie_word_embeddings=True, use_cache=True, vocab_size=100352,
    ),
    "Falcon-H1 0.5B Instruct": dict(
        architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", attention_bias=False, attention_dropout=0.0,
        attention_in_multiplier=1.0, attention_out_multiplier=0.9375, attn_layer_indices=None, bos_token_id=1,
        embedding_multiplier=5.656854249492381, eos_token_id=11, head_dim=64, hidden_act="silu", hidden_size=1024,
        initializer_range=0.02, intermediate_size=2048, key_multiplier=0.390625, lm_head_multiplier=0.0390625,
        mamba_chunk_size=128, mamba_conv_bias=True, mamba_d_conv=4, mamba_d_head=64, mamba_d_ssm=1536, mamba_d_state=128,
        mamba_expand=2, mamba_n_groups=1, mamba_n_heads=24, mamba_norm_before_gate=False, mamba_proj_bias=False,
        mamba_rms_norm=False, mamba_use_mlp=True, max_position_embeddings=16384, mlp_bias=False, mlp_expansion_factor=8,
        mlp_multipliers=[0.8838834764831844, 0.5859375], num_attention_heads=8, num_hidden_layers=36,
        num_key_value_heads=2, num_logits_to_keep=1, pad_token_id=0, projectors_bias=False, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=100000000000.0, ssm_in_multiplier=1.25,
        ssm_multipliers=[0.3535533905932738, 0.25, 0.3535533905932738, 0.5, 0.3535533905932738],
        ssm_out_multiplier=0.23570226039551587, tie_word_embeddings=False, torch_dtype="bfloat16", vocab_size=32784,
    ),
    "Nemotron Nano 9B v2": dict(
        architectures=["NemotronHForCausalLM"], model_type="nemotron_h", attention_bias=False, attention_dropout=0.0,
        bos_token_id=1, chunk_size=128, conv_kernel=4, eos_token_id=12, expand=2, head_dim=128, hidden_dropout=0.0,
        hidden_size=4480, hybrid_override_pattern="M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        initializer_range=0.02, intermediate_size=15680, layer_norm_epsilon=1e-5, mamba_head_dim=80,
        mamba_hidden_act="silu", mamba_num_heads=128, mamba_proj_bias=False, max_position_embeddings=131072,
        mlp_bias=False, mlp_hidden_act="relu2", n_groups=8, num_attention_heads=40, num_hidden_layers=56,
        num_key_value_heads=8, num_logits_to_keep=1, pad_token_id=0, rescale_prenorm_residual=True,
        residual_in_fp32=False, sliding_window=None, ssm_state_size=128, tie_word_embeddings=False,
        time_step_floor=0.0001, time_step_max=0.1, time_step_min=0.001, torch_dtype="bfloat16", use_bias=False,
        use_cache=True, use_conv_bias=True, use_mamba_kernels=True, vocab_size=131072,
    ),
    "Gemma 3 1B": dict(
        architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", attention_bias=False,
        attn_logit_softcapping=None, bos_token_id=2, cache_implementation="hybrid",
        eos_token_id=[1, 106], final_logit_softcapping=None, head_dim=256,
        hidden_activation="gelu_pytorch_tanh", hidden_size=1152, intermediate_size=6912,
        max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=26,
        num_key_value_heads=1, query_pre_attn_scalar=256, rms_norm_eps=1e-6,
        rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000, sliding_window=512,
        sliding_window_pattern=6, vocab_size=262144,
    ),
    "Gemma 3 270M": dict(
        architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", _sliding_window_pattern=6,
        attention_bias=False, attn_logit_softcapping=None, bos_token_id=2, eos_token_id=1,
        final_logit_softcapping=None, head_dim=256, hidden_activation="gelu_pytorch_tanh",
        hidden_size=640, intermediate_size=2048,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3,
        max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=18,
        num_key_value_heads=1, pad_token_id=0, query_pre_attn_scalar=256, rms_norm_eps=1e-6,
        rope_local_base_freq=10000.0, rope_scaling=None, rope_theta=1000000.0, sliding_window=512,
        torch_dtype="bfloat16", use_bidirectional_attention=False, use_cache=True, vocab_size=262144,
    ),
}  # fmt: skip

# Models that contain the language model, without the keys of their part for pictures.
NESTED = {
    "Qwen 3.5 0.8B": dict(
        architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5", image_token_id=248056,
        text_config=dict(
            attention_bias=False, attention_dropout=0.0, attn_output_gate=True, dtype="bfloat16", eos_token_id=248044,
            full_attention_interval=4, head_dim=256, hidden_act="silu", hidden_size=1024, initializer_range=0.02,
            intermediate_size=3584, layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 6,
            linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=16,
            linear_value_head_dim=128, max_position_embeddings=262144, mlp_only_layers=[], model_type="qwen3_5_text",
            mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, num_attention_heads=8, num_hidden_layers=24,
            num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, use_cache=True, vocab_size=248320,
            mamba_ssm_dtype="float32",
            rope_parameters={"mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default",
                             "rope_theta": 10000000, "partial_rotary_factor": 0.25},
        ),
        tie_word_embeddings=True, transformers_version="4.57.0.dev0", video_token_id=248057,
        vision_end_token_id=248054, vision_start_token_id=248053,
    ),
    "Gemma 3 4B": dict(
        architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3", boi_token_index=255999,
        eoi_token_index=256000, eos_token_id=[1, 106], image_token_index=262144, initializer_range=0.02,
        mm_tokens_per_image=256,
        text_config=dict(
            hidden_size=2560, intermediate_size=10240, model_type="gemma3_text", num_hidden_layers=34,
            rope_scaling={"factor": 8.0, "rope_type": "linear"}, sliding_window=1024,
        ),
        torch_dtype="bfloat16", transformers_version="4.50.0.dev0",
    ),
    "Ministral 3 3B Instruct BF16": dict(
        architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", dtype="bfloat16",
        image_token_index=10, multimodal_projector_bias=False, projector_hidden_act="gelu", spatial_merge_size=2,
        text_config={key: value for key, value in CONFIGS["Ministral 3 3B Base, text"].items()
                     if key != "architectures"},
        tie_word_embeddings=True, transformers_version="5.0.0.dev0", vision_feature_layer=-1,
    ),
    "Qwen3-VL 2B Instruct": dict(
        architectures=["Qwen3VLForConditionalGeneration"], image_token_id=151655, model_type="qwen3_vl",
        text_config=dict(
            attention_bias=False, attention_dropout=0.0, bos_token_id=151643, dtype="bfloat16", eos_token_id=151645, head_dim=128,
            hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=6144, max_position_embeddings=262144,
            model_type="qwen3_vl_text", num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, rms_norm_eps=1e-6,
            rope_scaling={"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}, rope_theta=5000000,
            tie_word_embeddings=True, use_cache=True, vocab_size=151936,
        ),
        tie_word_embeddings=True, transformers_version="4.57.0.dev0", video_token_id=151656, vision_end_token_id=151653,
        vision_start_token_id=151652,
    ),
    "Qwen2.5-VL 3B Instruct": dict(
        architectures=["Qwen2_5_VLForConditionalGeneration"], attention_dropout=0.0, bos_token_id=151643, eos_token_id=151645,
        hidden_act="silu", hidden_size=2048, image_token_id=151655, initializer_range=0.02, intermediate_size=11008,
        max_position_embeddings=128000, max_window_layers=70, model_type="qwen2_5_vl", num_attention_heads=16, num_hidden_layers=36,
        num_key_value_heads=2, rms_norm_eps=1e-6, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
        rope_theta=1000000.0, sliding_window=32768, tie_word_embeddings=True, torch_dtype="bfloat16",
        transformers_version="4.41.2", use_cache=True, use_sliding_window=False, video_token_id=151656, vision_end_token_id=151653,
        vision_start_token_id=151652, vision_token_id=151654, vocab_size=151936,
    ),
    "SmolVLM 256M Instruct": dict(
        architectures=["Idefics3ForConditionalGeneration"], image_token_id=49190, model_type="idefics3", scale_factor=4,
        text_config=dict(
            architectures=["VLlama3ForCausalLM"], bos_token_id=0, eos_token_id=0, head_dim=64, hidden_size=576, intermediate_size=1536,
            is_llama_config=True, max_position_embeddings=8192, model_type="llama", neftune_noise_alpha=0.0, num_attention_heads=9,
            num_hidden_layers=30, num_key_value_heads=3, pad_token_id=2, pixel_shuffle_factor=4, qk_layer_norms=False,
            rms_norm_eps=1e-5, rope_interleaved=False, rope_theta=100000, torch_dtype="bfloat16", use_resampler=False,
            vocab_size=49280,
        ),
        tie_word_embeddings=False, torch_dtype="bfloat16", transformers_version="4.46.0", use_cache=False, vocab_size=49280,
    ),
    "Mistral Small 3.1": dict(
        architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", image_token_index=10,
        multimodal_projector_bias=False, projector_hidden_act="gelu", spatial_merge_size=2,
        text_config=dict(
            attention_dropout=0.0, head_dim=128, hidden_act="silu", hidden_size=5120, initializer_range=0.02,
            intermediate_size=32768, max_position_embeddings=131072, model_type="mistral", num_attention_heads=32,
            num_hidden_layers=40, num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=1000000000.0,
            sliding_window=None, use_cache=True, vocab_size=131072,
        ),
        torch_dtype="bfloat16", transformers_version="4.50.0.dev0", vision_feature_layer=-1,
    ),
}  # fmt: skip

# not causal models, see test_encoder.py and test_encoder_families.py
ENCODERS = {
    "all-MiniLM-L6-v2": dict(
        architectures=["BertModel"], model_type="bert", attention_probs_dropout_prob=0.1, hidden_act="gelu", hidden_size=384,
        intermediate_size=1536, layer_norm_eps=1e-12, max_position_embeddings=512, num_attention_heads=12, num_hidden_layers=6,
        pad_token_id=0, position_embedding_type="absolute", type_vocab_size=2, vocab_size=30522,
    ),
    "EmbeddingGemma 300M": dict(
        architectures=["Gemma3TextModel"], model_type="gemma3_text", _sliding_window_pattern=6, attention_bias=False,
        attention_dropout=0.0, attn_logit_softcapping=None, bos_token_id=2, dtype="float32", eos_token_id=1,
        final_logit_softcapping=None, head_dim=256, hidden_activation="gelu_pytorch_tanh", hidden_size=768,
        initializer_range=0.02, intermediate_size=1152, layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 4,
        max_position_embeddings=2048, num_attention_heads=3, num_hidden_layers=24, num_key_value_heads=1, pad_token_id=0,
        query_pre_attn_scalar=256, rms_norm_eps=1e-6, rope_local_base_freq=10000.0, rope_scaling=None, rope_theta=1000000.0,
        sliding_window=512, use_bidirectional_attention=True, use_cache=True, vocab_size=262144,
    ),
    "ModernBERT base": dict(
        architectures=["ModernBertForMaskedLM"], model_type="modernbert", attention_bias=False, attention_dropout=0.0,
        bos_token_id=50281, classifier_activation="gelu", classifier_bias=False, classifier_dropout=0.0,
        classifier_pooling="mean", cls_token_id=50281, decoder_bias=True, deterministic_flash_attn=False,
        embedding_dropout=0.0, eos_token_id=50282, global_attn_every_n_layers=3, global_rope_theta=160000.0,
        gradient_checkpointing=False, hidden_activation="gelu", hidden_size=768, initializer_cutoff_factor=2.0,
        initializer_range=0.02, intermediate_size=1152, layer_norm_eps=1e-5, local_attention=128, local_rope_theta=10000.0,
        max_position_embeddings=8192, mlp_bias=False, mlp_dropout=0.0, norm_bias=False, norm_eps=1e-5,
        num_attention_heads=12, num_hidden_layers=22, pad_token_id=50283, position_embedding_type="absolute",
        reference_compile=True, sep_token_id=50282, sparse_pred_ignore_index=-100, sparse_prediction=False,
        torch_dtype="float32", vocab_size=50368,
    ),
}  # fmt: skip
ENCODERS["gte-reranker-modernbert-base"] = ENCODERS["ModernBERT base"] | dict(
    architectures=["ModernBertForSequenceClassification"], _name_or_path="gte-reranker-modernbert-base",
    id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
)  # fmt: skip

ENCODERS["bge-m3"] = dict(
    architectures=["XLMRobertaModel"], model_type="xlm-roberta", attention_probs_dropout_prob=0.1, bos_token_id=0,
    classifier_dropout=None, eos_token_id=2, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=1024,
    initializer_range=0.02, intermediate_size=4096, layer_norm_eps=1e-5, max_position_embeddings=8194,
    num_attention_heads=16, num_hidden_layers=24, output_past=True, pad_token_id=1, position_embedding_type="absolute",
    torch_dtype="float32", transformers_version="4.33.0", type_vocab_size=1, use_cache=True, vocab_size=250002,
)  # fmt: skip
ENCODERS["multilingual-e5-base"] = ENCODERS["bge-m3"] | dict(
    hidden_size=768, intermediate_size=3072, max_position_embeddings=514, num_attention_heads=12, num_hidden_layers=12,
)  # fmt: skip
ENCODERS["bge-reranker-v2-m3"] = ENCODERS["bge-m3"] | dict(
    architectures=["XLMRobertaForSequenceClassification"], _name_or_path="BAAI/bge-m3", id2label={"0": "LABEL_0"},
    label2id={"LABEL_0": 0}, transformers_version="4.38.1",
)  # fmt: skip
ENCODERS["all-distilroberta-v1"] = dict(
    architectures=["RobertaForMaskedLM"], model_type="roberta", attention_probs_dropout_prob=0.1, bos_token_id=0,
    classifier_dropout=None, eos_token_id=2, gradient_checkpointing=False, hidden_act="gelu", hidden_dropout_prob=0.1,
    hidden_size=768, initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-5, max_position_embeddings=514,
    num_attention_heads=12, num_hidden_layers=6, pad_token_id=1, position_embedding_type="absolute", type_vocab_size=1,
    use_cache=True, vocab_size=50265,
)  # fmt: skip
ENCODERS["multi-qa-distilbert-cos-v1"] = dict(
    architectures=["DistilBertModel"], model_type="distilbert", activation="gelu", attention_dropout=0.1, dim=768,
    dropout=0.1, hidden_dim=3072, initializer_range=0.02, max_position_embeddings=512, n_heads=12, n_layers=6,
    pad_token_id=0, qa_dropout=0.1, seq_classif_dropout=0.2, sinusoidal_pos_embds=False, tie_weights_=True,
    torch_dtype="float32", vocab_size=30522,
)  # fmt: skip
ENCODERS["all-mpnet-base-v2"] = dict(
    architectures=["MPNetForMaskedLM"], model_type="mpnet", _name_or_path="microsoft/mpnet-base", attention_probs_dropout_prob=0.1,
    bos_token_id=0, eos_token_id=2, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768, initializer_range=0.02,
    intermediate_size=3072, layer_norm_eps=1e-5, max_position_embeddings=514, num_attention_heads=12, num_hidden_layers=12,
    pad_token_id=1, relative_attention_num_buckets=32, transformers_version="4.8.2", vocab_size=30527,
)  # fmt: skip
ENCODERS["sentence-camembert-base"] = dict(
    architectures=["CamembertModel"], model_type="camembert", _name_or_path="camembert-base", attention_probs_dropout_prob=0.1,
    bos_token_id=5, eos_token_id=6, gradient_checkpointing=False, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768,
    initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-5, max_position_embeddings=514, num_attention_heads=12,
    num_hidden_layers=12, output_past=True, pad_token_id=1, position_embedding_type="absolute", type_vocab_size=1, use_cache=True,
    vocab_size=32005,
)  # fmt: skip

ENCODERS["nomic-embed-text-v1.5"] = dict(  # with the keys of its own code
    architectures=["NomicBertModel"], model_type="nomic_bert", activation_function="swiglu", attn_pdrop=0.0, bos_token_id=None,
    causal=False, dense_seq_output=True, embd_pdrop=0.0, eos_token_id=None, fused_bias_fc=True, fused_dropout_add_ln=True,
    initializer_range=0.02, layer_norm_epsilon=1e-12, max_trained_positions=2048, mlp_fc1_bias=False, mlp_fc2_bias=False,
    n_embd=768, n_head=12, n_inner=3072, n_layer=12, n_positions=8192, pad_vocab_size_multiple=64, parallel_block=False,
    parallel_block_tied_norm=False, prenorm=False, qkv_proj_bias=False, reorder_and_upcast_attn=False, resid_pdrop=0.0,
    rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
    rotary_scaling_factor=None, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True, summary_activation=None,
    summary_first_dropout=0.0, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
    torch_dtype="float32", transformers_version="4.37.2", type_vocab_size=2, use_cache=True, use_flash_attn=True,
    use_rms_norm=False, use_xentropy=True, vocab_size=30528,
)  # fmt: skip
ENCODERS["EuroBERT-210m"] = dict(  # the defaults of EuroBertConfig, which are its
    architectures=["EuroBertModel"], model_type="eurobert", attention_bias=False, attention_dropout=0.0, bos_token_id=128000,
    eos_token_id=128001, hidden_act="silu", hidden_size=768, initializer_range=0.02, intermediate_size=3072, mask_token_id=128002,
    max_position_embeddings=8192, mlp_bias=False, num_attention_heads=12, num_hidden_layers=12, num_key_value_heads=12,
    pad_token_id=128001, rms_norm_eps=1e-5, vocab_size=128256,
)  # fmt: skip

ENCODERS["gte-multilingual-base"] = dict(  # the defaults of GteConfig, which are its
    architectures=["GteModel"], model_type="gte", attention_probs_dropout_prob=0.0, classifier_dropout=None, hidden_act="gelu",
    hidden_dropout_prob=0.1, hidden_size=768, initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-12,
    max_position_embeddings=8192, num_attention_heads=12, num_hidden_layers=12, pad_token_id=1,
    rope_parameters=dict(rope_theta=160000.0, rope_type="default"), type_vocab_size=1, vocab_size=250048,
)  # fmt: skip

# the outputs of an encoder's Dense layers, which have no bias and no activation; a Normalize follows
DENSE = {"EmbeddingGemma 300M": (3072, 768)}


def family_of(config):
    return config["architectures"][0].removesuffix("ForCausalLM").removesuffix("LMHeadModel").lower()


def cut(config, vocab_size):
    """Returns the keys with small numbers: 8 layers, heads of 16 (or fewer elements that rotate), 16 small experts,
    windows shorter than a short text. The relations between keys stay."""
    heads, n_layers = 4, 8
    n_heads = config.get("num_attention_heads", heads)
    kv_heads = max(1, heads * config.get("num_key_value_heads", n_heads) // n_heads)
    small = dict(
        num_hidden_layers=n_layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=16,
        hidden_size=64 if "head_dim" not in config else 48, intermediate_size=96, vocab_size=vocab_size,
        bos_token_id=1, eos_token_id=2, sliding_window=32, max_window_layers=6, n_embd=64, n_head=heads,
        n_layer=n_layers, num_experts=16, num_local_experts=16, moe_intermediate_size=24, shared_intermediate_size=40,
        shared_expert_intermediate_size=40, mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16, mamba_d_state=16,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
        kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=24, qk_rope_head_dim=16, dim=64, n_heads=heads, n_layers=n_layers,
        hidden_dim=96, mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16,
    )  # fmt: skip
    small = config | {key: value for key, value in small.items() if config.get(key) is not None}
    small["pad_token_id"] = 0  # the reference has defaults beyond a small vocabulary
    if config["model_type"] == "youtu":
        small["pad_token_id"] = None  # the reference clears the embedding of this token while it loads
    for key in ("layer_types", "no_rope_layers"):
        if key in config:
            attends = next((i for i, kind in enumerate(config[key]) if "attention" in str(kind)), 0)
            start = max(0, attends + 1 - n_layers)  # one of them attends
            small[key] = config[key][start : start + n_layers]
    if pattern := config.get("hybrid_override_pattern"):
        end = max(n_layers, pattern.index("*") + 1)
        small["hybrid_override_pattern"] = pattern[end - n_layers : end]
    if "long_factor" in (config.get("rope_scaling") or {}):
        n = 16 * config.get("partial_rotary_factor", 1) / 2
        lists = {key: config["rope_scaling"][key][: int(n)] for key in ("long_factor", "short_factor")}
        small["rope_scaling"] = config["rope_scaling"] | lists
    if config.get("num_local_experts") == 0:
        small["num_local_experts"] = 0
    if "mamba_expand" in config and "mamba_d_ssm" not in config:
        small["mamba_n_heads"] = config["mamba_expand"] * small["hidden_size"] // small["mamba_d_head"]
    if config["model_type"] == "helium":
        small["hidden_size"] = 64  # its output matrix is square
    if config["model_type"] == "phi":
        small["partial_rotary_factor"] = 0.5  # of a head of 16, an even number
    return small
