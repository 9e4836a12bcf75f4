"""The tiny models of arch_oracle.py: one row per configuration, at least one per architecture.

Sizes are odd on purpose (head_dim is not n_embd / n_head, 2 key-value heads of 6, widths that are no multiple of 16),
every pattern of layers comes twice, and windows, chunks and original contexts are shorter than the prompt. Numbers that
the file holds as f32 are exact in f32.
"""
import copy
from dataclasses import dataclass

import numpy as np
import transformers

N_VOCAB = 93


@dataclass
class Case:
    arch: str  # general.architecture
    cls: str  # of transformers
    config: dict
    options: str  # what it exercises, for the report
    blocks: dict | None = None  # changes that make every row whole blocks of 32, for Q8_0 weights; None: not run
    n_tokens: int = 33
    n_prompt: int = 21
    mxfp4: bool = False  # the folder holds the experts as MXFP4 blocks, and so does the file
    golden: str = "f16"  # type of the matrices in the committed file
    llama: str = ""  # why llama.cpp does not agree

    def config_of(self, **changes):
        """The transformers configuration, changed."""
        cls = getattr(transformers, self.cls).config_class
        common = dict(vocab_size=N_VOCAB, pad_token_id=None, bos_token_id=None, eos_token_id=None)
        eps = [key for key in EPS_KEYS if key in cls.__dataclass_fields__]
        limit = "n_positions" if "n_positions" in cls.__dataclass_fields__ else "max_position_embeddings"
        return cls(**common | {key: EPS for key in eps} | {limit: 64} | copy.deepcopy(self.config) | changes)


EPS = float(np.float32(1e-5))
EPS_KEYS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")


def sizes(n_embd, n_head, n_head_kv, head_dim, n_ff, n_layer, tied, **more):
    head = {} if head_dim is None else dict(head_dim=head_dim)
    return head | dict(
        hidden_size=n_embd, num_attention_heads=n_head, num_key_value_heads=n_head_kv, intermediate_size=n_ff,
        num_hidden_layers=n_layer, tie_word_embeddings=tied, **more,
    )  # fmt: skip


def rope(theta, kind="default", **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more))


def part(theta, share, **more):
    return rope(theta, partial_rotary_factor=share, **more)


def gemma_rope(local, theta, factor=None):
    scaled = dict(rope_type="linear", factor=factor) if factor else dict(rope_type="default")
    return dict(
        rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=local),
            full_attention=dict(rope_theta=theta, **scaled),
        )
    )


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(factor=4.0, original_max_position_embeddings=16)
# a ramp over pairs 1 to 5 of 10; the default betas would give 0 to 3
YARN_BETAS = dict(factor=4.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.25)
LOCAL3 = ["sliding_attention", "sliding_attention", "full_attention"] * 2
LOCAL4 = (["sliding_attention"] * 3 + ["full_attention"]) * 2
LOCAL2 = ["sliding_attention", "full_attention"] * 2
FULL2 = ["full_attention"] * 2
WIDE = dict(hidden_size=96, head_dim=32, intermediate_size=96)
WIDE_BY_HEADS = dict(hidden_size=192, intermediate_size=96)  # 6 heads of 32

DENSE = {
    "llama_gqa": Case("llama", "LlamaForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **rope(10000.0)),
                      "2 of 6 heads, untied", WIDE),
    "llama_bias_mqa": Case("llama", "LlamaForCausalLM", sizes(40, 5, 1, 8, 60, 2, True, attention_bias=True,
                           mlp_bias=True, **rope(500000.0)), "all biases, 1 of 5 heads, tied"),
    "llama_llama3": Case("llama", "LlamaForCausalLM", sizes(48, 4, 2, 16, 52, 2, True,
                         **rope(10000.0, "llama3", **LLAMA3)), "llama3 factors"),
    "llama_linear": Case("llama", "LlamaForCausalLM", sizes(40, 4, 4, 10, 44, 2, False,
                         **rope(10000.0, "linear", factor=2.5)), "linear scaling"),
    "llama_yarn": Case("llama", "LlamaForCausalLM", sizes(36, 6, 2, 20, 44, 2, True, **rope(10000.0, "yarn", **YARN)),
                       "yarn"),
    "llama_q8": Case("llama", "LlamaForCausalLM", sizes(96, 6, 2, 32, 96, 1, True, **rope(10000.0)), "Q8_0 in the tests",
                     golden="q8_0"),
    "mistral": Case("llama", "MistralForCausalLM", sizes(40, 4, 2, 14, 44, 2, False, sliding_window=None, **rope(1e6)),
                    "no window"),
    "mixtral": Case("llama", "MixtralForCausalLM", sizes(36, 6, 2, 10, 28, 2, False, sliding_window=None,
                    num_local_experts=6, num_experts_per_tok=3, **rope(1e6)), "3 of 6 experts, renormalised", WIDE),
    "qwen2_tied": Case("qwen2", "Qwen2ForCausalLM", sizes(48, 6, 2, None, 76, 2, True, **rope(1e6)), "q, k, v biases, tied",
                       WIDE_BY_HEADS),
    "qwen2_yarn": Case("qwen2", "Qwen2ForCausalLM", sizes(100, 5, 1, None, 44, 2, False,
                       **rope(10000.0, "yarn", **YARN_BETAS)), "yarn with its own ramp, untied",
                       llama="does not read the ramp's keys here"),
    "qwen3": Case("qwen3", "Qwen3ForCausalLM", sizes(40, 6, 2, 12, 60, 2, False, **rope(1e6)), "q and k norms, untied", WIDE),
    "qwen3_yarn_q8": Case("qwen3", "Qwen3ForCausalLM", sizes(64, 4, 4, 32, 96, 2, True, **rope(10000.0, "yarn", **YARN)),
                          "yarn, tied, Q8_0 in the tests", golden="q8_0"),
    "smollm3": Case("smollm3", "SmolLM3ForCausalLM", sizes(48, 6, 2, None, 44, 8, True, **rope(5e6)),
                    "layers 4 and 8 without rope, tied", WIDE_BY_HEADS),
    "smollm3_bias": Case("smollm3", "SmolLM3ForCausalLM", sizes(40, 5, 1, None, 44, 4, False, attention_bias=True,
                         **rope(5e6)), "q, k, v, o biases, untied", llama="does not load these biases"),
    "mistral3": Case("mistral3", "Ministral3ForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, sliding_window=None,
                     **rope(10000.0, "yarn", mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.125, **YARN)),
                     "yarn with equal mscales, temperature past 16 and 32 tokens", WIDE, n_tokens=37),
    "mistral3_mscale": Case("mistral3", "Ministral3ForCausalLM", sizes(42, 6, 2, 20, 60, 2, True, sliding_window=None,
                            **rope(10000.0, "yarn", mscale=1.0, mscale_all_dim=0.5, llama_4_scaling_beta=0.25,
                                   beta_fast=4.0, beta_slow=0.25, **YARN)), "yarn with unequal mscales, tied"),
    "granite": Case("granite", "GraniteForCausalLM", sizes(48, 6, 2, None, 60, 2, True, attention_bias=True,
                    embedding_multiplier=6.0, residual_multiplier=0.21875, attention_multiplier=0.15625,
                    logits_scaling=3.5, **rope(10000.0)), "four scales, attention biases, tied", WIDE_BY_HEADS),
    "granite_untied": Case("granite", "GraniteForCausalLM", sizes(48, 6, 2, None, 60, 2, False, mlp_bias=True,
                           embedding_multiplier=0.5, residual_multiplier=1.25, attention_multiplier=0.375,
                           logits_scaling=0.25, **rope(10000.0)), "MLP biases, untied"),
    "olmo2": Case("olmo2", "Olmo2ForCausalLM", sizes(48, 6, 2, None, 60, 2, False, **rope(500000.0)),
                  "norms after the sub-blocks, q and k norms over the projection", WIDE_BY_HEADS),
    "olmo3": Case("olmo2", "Olmo3ForCausalLM", sizes(36, 6, 2, None, 44, 8, False, sliding_window=6, layer_types=LOCAL4,
                  rope_parameters=dict(
                      sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                      full_attention=dict(rope_type="yarn", rope_theta=10000.0, **YARN))),
                  "Olmo 3: window 6 on 3 of 4 layers, yarn on the others"),
    "gemma": Case("gemma", "GemmaForCausalLM", sizes(40, 4, 1, 12, 60, 2, True, **rope(10000.0)),
                  "1 of 4 heads, 1+w norms", WIDE | dict(hidden_size=128)),
    "gemma2": Case("gemma2", "Gemma2ForCausalLM", sizes(42, 6, 2, 10, 60, 4, True, sliding_window=5, layer_types=LOCAL2,
                   query_pre_attn_scalar=10, final_logit_softcapping=6.0, attn_logit_softcapping=4.0, **rope(10000.0)),
                   "window 5 on even layers, both softcaps", WIDE | dict(query_pre_attn_scalar=32)),
    "gemma3": Case("gemma3", "Gemma3ForCausalLM", sizes(32, 4, 1, 12, 44, 12, True, sliding_window=5,
                   query_pre_attn_scalar=12, **gemma_rope(10000.0, 1000000.0, 8.0)),
                   "window 5 on 5 of 6 layers, two rope bases, linear scaling on global layers",
                   WIDE | dict(hidden_size=128, query_pre_attn_scalar=32)),
    "gemma3_pattern": Case("gemma3", "Gemma3ForCausalLM", sizes(36, 6, 2, 10, 44, 6, True, sliding_window=7,
                           layer_types=LOCAL3, query_pre_attn_scalar=10, final_logit_softcapping=20.0,
                           **gemma_rope(5000.0, 100000.0)), "pattern and local base from keys, logit softcap"),
    "phi3": Case("phi3", "Phi3ForCausalLM", sizes(48, 6, 2, None, 60, 2, False, **part(10000.0, 0.75)),
                 "fused qkv and gate-up, 6 of 8 values rotated", WIDE_BY_HEADS),
    "phi3_window": Case("phi3", "Phi3ForCausalLM", sizes(48, 4, 4, None, 60, 2, True, sliding_window=7, **part(10000.0, 1.0)),
                        "window 7 on all layers, tied", llama="has no window here"),
    "phi3_long": Case("phi3", "Phi3ForCausalLM", sizes(48, 4, 2, None, 60, 2, True, original_max_position_embeddings=16,
                      **part(10000.0, 0.5, kind="longrope", short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 3.0, 5.0],
                             original_max_position_embeddings=16)), "longrope past its border"),
    "phi3_short": Case("phi3", "Phi3ForCausalLM", sizes(48, 4, 2, None, 60, 2, True, original_max_position_embeddings=256,
                       max_position_embeddings=512,
                       **part(10000.0, 0.5, kind="longrope", short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 3.0, 5.0],
                              original_max_position_embeddings=256)), "longrope before its border"),
    "gpt2": Case("gpt2", "GPT2LMHeadModel", dict(n_embd=40, n_head=5, n_layer=2, n_inner=68),
                 "learned positions, biases, tied", dict(n_embd=160, n_inner=96)),
    "starcoder": Case("starcoder", "GPTBigCodeForCausalLM", dict(n_embd=40, n_head=5, n_layer=2, n_inner=68),
                      "one key-value head, learned positions, biases, tied", dict(n_embd=160, n_inner=96)),
    "gptneox_parallel": Case("gptneox", "GPTNeoXForCausalLM", dict(hidden_size=48, num_attention_heads=4,
                             num_hidden_layers=2, intermediate_size=60, use_parallel_residual=True, **part(10000.0, 0.5)),
                             "parallel residual, half rotation, erf GELU", dict(hidden_size=128, intermediate_size=96)),
    "gptneox_sequential": Case("gptneox", "GPTNeoXForCausalLM", dict(hidden_size=48, num_attention_heads=4,
                               num_hidden_layers=2, intermediate_size=60, use_parallel_residual=False,
                               **part(10000.0, 1.0)), "sequential residual, full rotation"),
    "stablelm": Case("stablelm", "StableLmForCausalLM", sizes(72, 6, 2, None, 60, 2, False, use_qkv_bias=True,
                     **part(10000.0, 0.5)), "sequential, q, k, v biases", WIDE_BY_HEADS),
    "stablelm_parallel": Case("stablelm", "StableLmForCausalLM", sizes(72, 6, 2, None, 60, 2, False, qk_layernorm=True,
                              use_parallel_residual=True, **part(10000.0, 0.5)),
                              "parallel, q and k LayerNorms per head"),
    "stablelm_qk_norm": Case("stablelm", "StableLmForCausalLM", sizes(48, 4, 2, None, 44, 2, False, qk_layernorm=True,
                             use_qkv_bias=True, **part(10000.0, 0.5)), "sequential, q and k LayerNorms and biases"),
    "falcon_7b": Case("falcon", "FalconForCausalLM", dict(hidden_size=60, num_attention_heads=5, num_hidden_layers=2,
                      multi_query=True, **rope(10000.0)), "7B: one norm, 1 of 5 heads, tied", dict(hidden_size=160)),
    "falcon_40b": Case("falcon", "FalconForCausalLM", dict(hidden_size=48, num_attention_heads=6, num_kv_heads=2,
                       num_hidden_layers=2, new_decoder_architecture=True, tie_word_embeddings=False, **rope(10000.0)),
                       "40B: two norms, 2 of 6 heads, untied"),
    "falcon_11b": Case("falcon", "FalconForCausalLM", dict(hidden_size=48, num_attention_heads=6, num_kv_heads=2,
                       num_hidden_layers=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, **rope(10000.0)),
                       "11B: one norm, 2 of 6 heads"),
    "starcoder2": Case("starcoder2", "Starcoder2ForCausalLM", sizes(48, 6, 2, None, 60, 2, True, use_bias=True,
                       sliding_window=None, **rope(100000.0)), "all biases, tied", WIDE_BY_HEADS),
    # wave 2
    "seed_oss": Case("seed_oss", "SeedOssForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **rope(1e6)),
                     "q, k, v biases, untied", WIDE),
    "glm4": Case("glm4", "Glm4ForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **part(10000.0, 0.5)),
                 "post norms, q, k, v biases, half rotation of adjacent pairs", WIDE),
    "glm": Case("chatglm", "GlmForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **part(10000.0, 0.5)),
                "q, k, v biases, half rotation of adjacent pairs", WIDE, llama="wants head_dim = n_embd / n_head"),
    "glm_tied": Case("chatglm", "GlmForCausalLM", sizes(32, 4, 1, 8, 44, 2, True, attention_bias=False,
                     **part(10000.0, 0.5)), "no biases, tied"),
    "cohere": Case("command-r", "CohereForCausalLM", sizes(48, 6, 2, None, 60, 2, True, logit_scale=0.375, **rope(1e6)),
                   "one norm for both, logit scale, tied", WIDE_BY_HEADS),
    "cohere_qk_norm": Case("command-r", "CohereForCausalLM", sizes(48, 6, 2, None, 60, 2, True, logit_scale=1.75,
                           use_qk_norm=True, **rope(1e6)), "q and k LayerNorms per head",
                           llama="reads these norms of 64 layers only"),
    "phi2": Case("phi2", "PhiForCausalLM", sizes(48, 4, 4, None, 60, 2, False, **part(10000.0, 0.5)),
                 "all biases and the head's, half rotation", dict(hidden_size=128, intermediate_size=96)),
    "arcee": Case("arcee", "ArceeForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **rope(10000.0)), "squared ReLU", WIDE),
    "arcee_yarn": Case("arcee", "ArceeForCausalLM", sizes(36, 6, 2, 20, 44, 2, True, **rope(10000.0, "yarn", **YARN)),
                       "yarn, tied"),
    "nemotron": Case("nemotron", "NemotronForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, **part(10000.0, 0.5)),
                     "1+w LayerNorms, half rotation", WIDE, llama="wants head_dim = n_embd / n_head"),
    "nemotron_bias": Case("nemotron", "NemotronForCausalLM", sizes(48, 6, 2, 8, 44, 2, False, attention_bias=True,
                          mlp_bias=True, **part(10000.0, 0.5)), "all biases"),
    "jais2": Case("jais2", "Jais2ForCausalLM", sizes(48, 6, 2, None, 60, 2, False, **rope(500000.0)),
                  "all biases, squared ReLU", WIDE_BY_HEADS),
    "exaone4": Case("exaone4", "Exaone4ForCausalLM", sizes(40, 4, 2, 10, 44, 8, False, sliding_window=6,
                    sliding_window_pattern=4, layer_types=LOCAL4, **rope(10000.0, "llama3", **LLAMA3)),
                    "window 6 on 3 of 4 layers, the others without rope, llama3 factors", WIDE | dict(hidden_size=128),
                    llama="has windows with 64 layers only"),
    "exaone4_dense": Case("exaone4", "Exaone4ForCausalLM", sizes(48, 6, 2, 8, 44, 2, True, sliding_window=None,
                          layer_types=FULL2, **rope(10000.0)), "no window, rope everywhere, tied"),
    "ernie4_5": Case("ernie4_5", "Ernie4_5ForCausalLM", sizes(42, 6, 2, 12, 60, 2, True, **rope(500000.0)), "tied", WIDE),
    "ernie4_5_bias": Case("ernie4_5", "Ernie4_5ForCausalLM", sizes(40, 4, 2, 8, 44, 2, False, use_bias=True,
                          **rope(500000.0)), "biases, untied", llama="does not load these biases"),
    "hunyuan_dense": Case("hunyuan-dense", "HunYuanDenseV1ForCausalLM", sizes(42, 6, 2, 12, 60, 2, True,
                          **rope(10000.0, "dynamic", factor=1.0, alpha=50.0)), "NTK alpha, norms after rope, tied", WIDE),
    "hunyuan_dense_untied": Case("hunyuan-dense", "HunYuanDenseV1ForCausalLM", sizes(40, 4, 2, 8, 44, 2, False,
                                 **rope(10000.0)), "no scaling, untied"),
}  # fmt: skip

MOE_WIDE = WIDE | dict(moe_intermediate_size=32)

MOE = {
    "qwen3moe": Case("qwen3moe", "Qwen3MoeForCausalLM", sizes(42, 6, 2, 12, 60, 2, False, num_experts=8,
                     num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True, **rope(1e6)),
                     "3 of 8 experts, renormalised", MOE_WIDE),
    "qwen3moe_tied": Case("qwen3moe", "Qwen3MoeForCausalLM", sizes(36, 4, 1, 8, 60, 2, True, num_experts=5,
                          num_experts_per_tok=2, moe_intermediate_size=12, norm_topk_prob=True,
                          **rope(10000.0, "yarn", **YARN)), "2 of 5 experts, yarn, tied"),
    "qwen3moe_q8": Case("qwen3moe", "Qwen3MoeForCausalLM", sizes(64, 4, 2, 32, 64, 1, True, num_experts=4,
                        num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True, **rope(10000.0)),
                        "Q8_0 in the tests", golden="q8_0"),
    "gpt_oss": Case("gpt-oss", "GptOssForCausalLM", sizes(42, 6, 2, 12, 20, 4, False, sliding_window=5,
                    num_local_experts=6, num_experts_per_tok=3, **rope(10000.0, "yarn", truncate=False, factor=4.0,
                    original_max_position_embeddings=64)),
                    "sinks, window 5 on even layers, 3 of 6 experts, biases, yarn without rounded ramp",
                    WIDE | dict(intermediate_size=64), llama="rounds the ramp of yarn"),
    "gpt_oss_no_yarn": Case("gpt-oss", "GptOssForCausalLM", sizes(36, 4, 2, 10, 20, 4, False, sliding_window=6,
                            num_local_experts=4, num_experts_per_tok=2, **rope(10000.0)), "2 of 4 experts, no scaling"),
    "gpt_oss_mxfp4": Case("gpt-oss", "GptOssForCausalLM", sizes(32, 4, 2, 16, 32, 2, False, sliding_window=7,
                          num_local_experts=4, num_experts_per_tok=2, **rope(150000.0, "yarn", truncate=False, **YARN)),
                          "experts as MXFP4 blocks", mxfp4=True, golden="auto"),
    "olmoe": Case("olmoe", "OlmoeForCausalLM", sizes(48, 6, 6, None, 20, 2, False, num_experts=8, num_experts_per_tok=3,
                  norm_topk_prob=False, **rope(10000.0)), "3 of 8 experts, not renormalised, norms over the projection",
                  WIDE_BY_HEADS | dict(intermediate_size=32)),
    "olmoe_clip": Case("olmoe", "OlmoeForCausalLM", sizes(48, 4, 4, None, 16, 2, False, num_experts=4, num_experts_per_tok=2,
                       norm_topk_prob=False, clip_qkv=0.75, **rope(10000.0)), "projections cut to +-0.75"),
    "qwen2moe": Case("qwen2moe", "Qwen2MoeForCausalLM", sizes(48, 6, 2, None, 60, 2, False, num_experts=8,
                     num_experts_per_tok=3, moe_intermediate_size=20, shared_expert_intermediate_size=28,
                     norm_topk_prob=False, **rope(1e6)), "3 of 8 experts, not renormalised, gated shared expert",
                     WIDE_BY_HEADS | dict(moe_intermediate_size=32, shared_expert_intermediate_size=64)),
    "granitemoe": Case("granitemoe", "GraniteMoeForCausalLM", sizes(48, 6, 2, None, 20, 2, True, num_local_experts=6,
                       num_experts_per_tok=3, embedding_multiplier=6.0, residual_multiplier=0.21875,
                       attention_multiplier=0.15625, logits_scaling=3.5, **rope(10000.0)),
                       "softmax over 3 of 6, four scales, tied", WIDE_BY_HEADS | dict(intermediate_size=32)),
    "granitemoe_shared": Case("granitemoe", "GraniteMoeSharedForCausalLM", sizes(48, 6, 2, None, 20, 2, False,
                              num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=28,
                              embedding_multiplier=2.0, residual_multiplier=0.5, attention_multiplier=0.25,
                              logits_scaling=2.0, **rope(10000.0)), "shared expert, untied"),
    "ernie4_5_moe": Case("ernie4_5-moe", "Ernie4_5_MoeForCausalLM", sizes(48, 6, 2, None, 44, 3, True, moe_num_experts=6,
                         moe_k=3, moe_intermediate_size=20, moe_num_shared_experts=2, moe_layer_start_index=1,
                         moe_layer_interval=1, **rope(500000.0)),
                         "dense first layer, 3 of 6 by softmax with bias, two shared experts, tied",
                         WIDE_BY_HEADS | dict(moe_intermediate_size=32)),
    "ernie4_5_moe_step": Case("ernie4_5-moe", "Ernie4_5_MoeForCausalLM", sizes(40, 4, 2, None, 44, 4, False,
                              moe_num_experts=4, moe_k=2, moe_intermediate_size=20, moe_num_shared_experts=1,
                              moe_layer_start_index=1, moe_layer_interval=2, **rope(500000.0)),
                              "every second layer MoE, untied", llama="wants all MoE"),
    "hunyuan_moe": Case("hunyuan-moe", "HunYuanMoEV1ForCausalLM", sizes(42, 6, 2, 12, 20, 2, True, num_experts=6,
                        moe_topk=3, **rope(10000.0, "dynamic", factor=1.0, alpha=50.0)),
                        "3 of 6 experts, renormalised, shared expert, NTK alpha, tied", WIDE | dict(intermediate_size=32)),
    "dots1": Case("dots1", "Dots1ForCausalLM", sizes(48, 6, 6, None, 44, 3, False, n_routed_experts=8,
                  num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=20, first_k_dense_replace=1,
                  norm_topk_prob=True, routed_scaling_factor=2.5, n_group=1, topk_group=1, sliding_window=None,
                  layer_types=["full_attention"] * 3, **rope(10000.0)),
                  "sigmoid with bias, renormalised, scaled, shared experts, dense first layer",
                  WIDE_BY_HEADS | dict(moe_intermediate_size=32)),
    "glm4moe": Case("glm4moe", "Glm4MoeForCausalLM", sizes(42, 6, 2, 12, 44, 3, False, n_routed_experts=8,
                    num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=20, first_k_dense_replace=1,
                    routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True, num_mtp_layers=0,
                    **part(10000.0, 0.5)), "q and k norms, biases, half rotation, sigmoid with bias, shared expert",
                    MOE_WIDE),
    "glm4moe_plain": Case("glm4moe", "Glm4MoeForCausalLM", sizes(40, 4, 2, 8, 44, 3, False, n_routed_experts=4,
                          num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=20, first_k_dense_replace=2,
                          use_qk_norm=False, attention_bias=True, num_mtp_layers=0, **part(10000.0, 0.5)),
                          "no q and k norms, two dense layers"),
    "hy_v3": Case("hy_v3", "HYV3ForCausalLM", sizes(42, 6, 2, 12, 44, 3, False, num_experts=8, num_experts_per_tok=3,
                  num_shared_experts=1, moe_intermediate_size=20, router_scaling_factor=2.75,
                  mlp_layer_types=["dense", "sparse", "sparse"], **rope(10000.0)),
                  "sigmoid with bias, scaled, shared expert, dense first layer", MOE_WIDE),
    "minimax_m2": Case("minimax-m2", "MiniMaxM2ForCausalLM", sizes(42, 6, 2, 12, 20, 2, False, num_local_experts=8,
                       num_experts_per_tok=3, **part(10000.0, 0.5)),
                       "norms over the projection, half rotation, sigmoid with bias", WIDE | dict(intermediate_size=32)),
    "llama4": Case("llama4", "Llama4ForCausalLM", sizes(36, 6, 2, 10, 20, 8, False, intermediate_size_mlp=44,
                   num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, use_qk_norm=True,
                   attention_chunk_size=8, floor_scale=4, attn_scale=0.125, attn_temperature_tuning=True, **rope(10000.0)),
                   "chunks of 8, layers 4 and 8 without rope, temperature, q and k norms, every second layer MoE",
                   WIDE | dict(intermediate_size=32, intermediate_size_mlp=64), llama="has chunks of 8192 only"),
    "llama4_all_moe": Case("llama4", "Llama4ForCausalLM", sizes(14, 4, 2, 8, 3, 4, False, intermediate_size_mlp=44,
                           num_local_experts=128, num_experts_per_tok=1, interleave_moe_layer_step=1, use_qk_norm=False,
                           attention_chunk_size=12, floor_scale=8, **rope(10000.0, "llama3", **LLAMA3)),
                           "128 experts (so no q and k norms) in every layer, llama3 factors",
                           llama="has chunks of 8192 only"),
    "llama4_long_chunk": Case("llama4", "Llama4ForCausalLM", sizes(36, 6, 2, 10, 20, 4, False, intermediate_size_mlp=44,
                              num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=1, use_qk_norm=True,
                              **rope(500000.0)), "the released chunk and temperature lengths"),
}  # fmt: skip

MLA_SIZES = dict(q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14)
MLA_WIDE = dict(hidden_size=96, intermediate_size=96, moe_intermediate_size=32, q_lora_rank=32, kv_lora_rank=32,
                qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32)  # fmt: skip
DELTA = dict(linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=6,
             linear_conv_kernel_dim=4)  # fmt: skip
DELTA_WIDE = WIDE | dict(linear_key_head_dim=32, linear_value_head_dim=32)


def mla(**more):
    """eps 1e-6: the classes give the norms of the latents no other, and the file has one for all."""
    return dict(hidden_size=42, num_attention_heads=6, num_key_value_heads=6, intermediate_size=44, num_hidden_layers=3,
                moe_intermediate_size=20, n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1,
                rms_norm_eps=float(np.float32(1e-6))) | MLA_SIZES | more  # fmt: skip


HYBRID = {
    "deepseek2_lite": Case("deepseek2", "DeepseekV2ForCausalLM", mla(q_lora_rank=None, n_shared_experts=2, num_hidden_layers=2,
                           topk_method="greedy", **rope(10000.0)), "V2 Lite: q not factorised, softmax, shared experts",
                           llama="wants 27 layers for it"),
    "deepseek2_v2": Case("deepseek2", "DeepseekV2ForCausalLM", mla(n_shared_experts=1, topk_method="group_limited_greedy",
                         n_group=4, topk_group=2, routed_scaling_factor=2.5, **rope(10000.0)),
                         "V2: softmax, 2 of 4 groups by their best, scaled", MLA_WIDE,
                         llama="takes the groups by their two best"),
    "deepseek2_v3": Case("deepseek2", "DeepseekV3ForCausalLM", mla(n_shared_experts=1, n_group=4, topk_group=2,
                         routed_scaling_factor=2.5, num_mtp_layers=0, **rope(10000.0)),
                         "V3: sigmoid with bias, 2 of 4 groups by their two best, renormalised, scaled", MLA_WIDE),
    "deepseek2_yarn": Case("deepseek2", "DeepseekV3ForCausalLM", mla(n_shared_experts=1, n_group=1, topk_group=1,
                           first_k_dense_replace=2, num_mtp_layers=0, qk_rope_head_dim=10, routed_scaling_factor=1.5,
                           **rope(10000.0, "yarn", mscale=1.0, mscale_all_dim=1.0, **YARN)), "V3 with yarn: mscale in the score scale, no groups"),
    "mistral4": Case("mistral4", "Mistral4ForCausalLM", mla(n_shared_experts=1, first_k_dense_replace=0, n_group=1,
                     topk_group=1, **rope(10000.0, "yarn", mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.125,
                                          **YARN)), "softmax, renormalised, yarn, temperature past 16 and 32 tokens",
                     MLA_WIDE, n_tokens=37),
    "qwen3next": Case("qwen3next", "Qwen3NextForCausalLM", sizes(34, 4, 2, 16, 44, 8, False, num_experts=4,
                      num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=20,
                      norm_topk_prob=True, **DELTA, **part(10000.0, 0.25)),
                      "6 delta-net layers (6 value heads on 2 key heads), 2 gated attention layers, 2 of 4 experts",
                      DELTA_WIDE | dict(moe_intermediate_size=32, shared_expert_intermediate_size=32)),
    "qwen35": Case("qwen35", "Qwen3_5ForCausalLM", sizes(36, 4, 2, 24, 44, 8, False, **DELTA, **part(
                   10000.0, 0.25, mrope_section=[1, 1, 1], mrope_interleaved=True)),
                   "6 delta-net layers with reordered value heads, 2 gated attention layers, untied", DELTA_WIDE),
    "qwen35_tied": Case("qwen35", "Qwen3_5ForCausalLM", sizes(36, 4, 1, 16, 44, 4, True, linear_key_head_dim=8,
                        linear_value_head_dim=12, linear_num_key_heads=3, linear_num_value_heads=3,
                        linear_conv_kernel_dim=3, **part(10000.0, 0.25, mrope_section=[1, 1, 0], mrope_interleaved=True)),
                        "as many key as value heads, kernel 3, tied", llama="wants equal widths"),
    "qwen35moe": Case("qwen35moe", "Qwen3_5MoeForCausalLM", dict(hidden_size=34, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=16, num_hidden_layers=8, tie_word_embeddings=False, num_experts=4,
                      num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=20, **DELTA,
                      **part(10000.0, 0.25, mrope_section=[1, 1, 0], mrope_interleaved=True)),
                      "as qwen35 with 2 of 4 experts and a gated shared expert",
                      {k: v for k, v in DELTA_WIDE.items() if k != "intermediate_size"}
                      | dict(moe_intermediate_size=32, shared_expert_intermediate_size=32)),
}  # fmt: skip

CASES = DENSE | MOE | HYBRID
