"""MiniCPM 1, 2 and 4 as transformers would compute it. transformers has no class for it: the published
checkpoints bring code of their own, which is GraniteForCausalLM's with scales that follow from the depth
and the width (Hu et al., 2024, "MiniCPM", table 7)."""

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, AutoModelForCausalLM, GraniteConfig, GraniteForCausalLM


@strict
class MiniCPMConfig(GraniteConfig):
    model_type = "minicpm"
    scale_emb: int | float = 1
    scale_depth: int | float = 1
    dim_model_base: int = 1
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.embedding_multiplier = float(self.scale_emb)
        self.residual_multiplier = self.scale_depth / self.num_hidden_layers**0.5
        self.attention_multiplier = (self.hidden_size // self.num_attention_heads) ** -0.5
        self.logits_scaling = self.hidden_size / self.dim_model_base


class MiniCPMForCausalLM(GraniteForCausalLM):
    config_class = MiniCPMConfig


AutoConfig.register("minicpm", MiniCPMConfig)
AutoModelForCausalLM.register(MiniCPMConfig, MiniCPMForCausalLM)
