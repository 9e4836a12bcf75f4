#!/usr/bin/env python3
"""Every checkpoint class that `tokamak convert` reads, against transformers.

For each case a tiny model is saved by transformers, whose names and shapes go to tests/data/convert_classes/CASE.json
(with its config.json). The test fills the tensors with numbers that a formula makes from name and index. Here the same
numbers are loaded by the class itself, and each tensor of the GGUF is worked out from the class's own parameters; its
shape and a checksum that knows the order go to tests/golden/convert_classes/CASE.txt. Metadata keys in that file are
what the program wrote, to be read by a person.

  tools/convert_classes_oracle.py --bin build/release/bin             write both
  tools/convert_classes_oracle.py --bin build/release/bin --check     compare with the files
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA, GOLDEN = ROOT / "tests/data/convert_classes", ROOT / "tests/golden/convert_classes"

BASE = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)
WIDE = dict(head_dim=8)
MOE = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=20)
ROUTED = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, first_k_dense_replace=1,
              n_shared_experts=2)
LATENT = dict(ROUTED, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, num_key_value_heads=6)
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=4,
             linear_conv_kernel_dim=4, head_dim=8, num_hidden_layers=4)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=8)
TALL = {k: v for k, v in BASE.items() if k not in ("intermediate_size", "num_key_value_heads")}

# case: class, configuration
CASES = {
    "llama": ("LlamaForCausalLM", dict(attention_bias=True, mlp_bias=True)),
    "mistral": ("MistralForCausalLM", dict(WIDE, sliding_window=16)),
    "mixtral": ("MixtralForCausalLM", dict(num_local_experts=3, sliding_window=None)),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3ForCausalLM", WIDE),
    "smollm3": ("SmolLM3ForCausalLM", dict(num_hidden_layers=4)),
    "ministral3": ("Ministral3ForCausalLM", dict(WIDE, rope_parameters=dict(
        YARN, llama_4_scaling_beta=0.1, mscale=1.0, mscale_all_dim=1.0))),
    "granite": ("GraniteForCausalLM", dict(embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=2.0,
                                           attention_multiplier=0.25)),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "olmo3": ("Olmo3ForCausalLM", dict(num_hidden_layers=4, sliding_window=16, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=5000.0), full_attention=dict(YARN)))),
    "gemma": ("GemmaForCausalLM", WIDE),
    "gemma2": ("Gemma2ForCausalLM", dict(WIDE, query_pre_attn_scalar=4, sliding_window=16)),
    "gemma3": ("Gemma3ForCausalLM", dict(WIDE, sliding_window=16)),
    "phi3": ("Phi3ForCausalLM", dict(rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, long_factor=[2.0, 3.0], short_factor=[1.0, 1.5],
        original_max_position_embeddings=16), original_max_position_embeddings=16, max_position_embeddings=64)),
    "phi3_partial": ("Phi3ForCausalLM", dict(hidden_size=48, sliding_window=16, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "gpt2": ("GPT2LMHeadModel", dict(TALL, n_inner=None)),
    "starcoder": ("GPTBigCodeForCausalLM", dict(TALL, n_inner=None)),
    "gptneox": ("GPTNeoXForCausalLM", dict(TALL, intermediate_size=40, num_attention_heads=3)),
    "stablelm": ("StableLmForCausalLM", dict(hidden_size=48, qk_layernorm=True, use_qkv_bias=True)),
    "stablelm_parallel": ("StableLmForCausalLM", dict(hidden_size=48, use_parallel_residual=True)),
    "falcon_7b": ("FalconForCausalLM", dict(TALL, multi_query=True, new_decoder_architecture=False)),
    "falcon_40b": ("FalconForCausalLM", dict(TALL, num_kv_heads=2, new_decoder_architecture=True)),
    "starcoder2": ("Starcoder2ForCausalLM", {}),
    "qwen3moe": ("Qwen3MoeForCausalLM", dict(MOE, norm_topk_prob=True)),
    "gpt_oss": ("GptOssForCausalLM", dict(WIDE, num_local_experts=3, num_experts_per_tok=2, sliding_window=16)),
    "seed_oss": ("SeedOssForCausalLM", WIDE),
    "glm": ("GlmForCausalLM", WIDE),
    "glm4": ("Glm4ForCausalLM", WIDE),
    "cohere": ("CohereForCausalLM", {}),
    "cohere_plus": ("CohereForCausalLM", dict(use_qk_norm=True)),
    "phi": ("PhiForCausalLM", dict(hidden_size=48)),
    "arcee": ("ArceeForCausalLM", dict(head_dim=4)),
    "nemotron": ("NemotronForCausalLM", dict(head_dim=8)),
    "jais2": ("Jais2ForCausalLM", dict(head_dim=4)),
    "exaone4": ("Exaone4ForCausalLM", dict(num_hidden_layers=4, sliding_window=16, sliding_window_pattern=4)),
    "exaone4_full": ("Exaone4ForCausalLM", dict(sliding_window=None, layer_types=["full_attention"] * 2)),
    "ernie4_5": ("Ernie4_5ForCausalLM", dict(WIDE, use_bias=True)),
    "hunyuan_dense": ("HunYuanDenseV1ForCausalLM", dict(WIDE, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, alpha=1000.0, factor=1.0))),
    "olmoe": ("OlmoeForCausalLM", dict(num_experts=3, num_experts_per_tok=2)),
    "qwen2moe": ("Qwen2MoeForCausalLM", dict(MOE, shared_expert_intermediate_size=28)),
    "granitemoe": ("GraniteMoeForCausalLM", dict(num_local_experts=3)),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", dict(num_local_experts=3, shared_intermediate_size=28)),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", dict(moe_num_experts=3, moe_k=2, moe_intermediate_size=20,
                                                     moe_num_shared_experts=2)),
    "hunyuan_moe": ("HunYuanMoEV1ForCausalLM", dict(WIDE, num_experts=3, moe_topk=2)),
    "dots1": ("Dots1ForCausalLM", dict(ROUTED, norm_topk_prob=True)),
    "glm4moe": ("Glm4MoeForCausalLM", dict(ROUTED, head_dim=8, use_qk_norm=True, attention_bias=True)),
    "glm4moe_plain": ("Glm4MoeForCausalLM", dict(ROUTED, head_dim=8)),
    "hy_v3": ("HYV3ForCausalLM", dict(MOE, head_dim=8, num_hidden_layers=3)),
    "minimax_m2": ("MiniMaxM2ForCausalLM", dict(WIDE, num_local_experts=3, num_experts_per_tok=2, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "llama4": ("Llama4ForCausalLM", dict(WIDE, num_local_experts=3, num_hidden_layers=4, interleave_moe_layer_step=2,
                                         intermediate_size_mlp=44, attention_chunk_size=16)),
    "deepseek_v2": ("DeepseekV2ForCausalLM", dict(LATENT, q_lora_rank=14, n_group=2, topk_group=1,
                                                  topk_method="group_limited_greedy")),
    "deepseek_v2_lite": ("DeepseekV2ForCausalLM", dict(LATENT, q_lora_rank=None)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", dict(LATENT, q_lora_rank=14, n_group=2, topk_group=1,
                                                  rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "mistral4": ("Mistral4ForCausalLM", dict(LATENT, q_lora_rank=14, first_k_dense_replace=0)),
    "qwen3next": ("Qwen3NextForCausalLM", dict(MOE, **DELTA, shared_expert_intermediate_size=28)),
    "qwen35": ("Qwen3_5ForCausalLM", DELTA),
    "qwen35moe": ("Qwen3_5MoeForCausalLM", dict(MOE, **DELTA, shared_expert_intermediate_size=28)),
}


# --- the formula of the test ---

def fnv1a(text):
    h = 2166136261
    for byte in text.encode():
        h = (h ^ byte) * 16777619 % 2**32
    return h


def numbers(name, shape):
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    mixed = ((i * np.uint64(2654435761)) ^ np.uint64(fnv1a(name))) % np.uint64(2**32)
    mixed = mixed * np.uint64(2246822519) % np.uint64(2**32)
    return ((mixed >> np.uint64(12)).astype(np.float64) / 2**19 - 1).astype(np.float32).reshape(shape)


def checksum(values):
    flat = values.astype(np.float64).reshape(-1)
    i = np.arange(1, flat.size + 1, dtype=np.uint64)
    return float(np.sum(flat * ((i * np.uint64(40503) % np.uint64(65536)).astype(np.float64) / 65536)))


# --- a GGUF's tensors, from the class's own parameters ---

PAIRED = {"llama", "smollm3", "mistral3", "granite", "granitemoe", "arcee"}
PLUS_ONE = {"gemma", "gemma2", "gemma3", "nemotron", "qwen3next", "qwen35", "qwen35moe"}
PRE_FFN_AS_POST = {"seed_oss", "glm4moe", "gpt-oss", "qwen3next", "qwen35", "qwen35moe"}
POST_ONLY = {"olmo2", "exaone4"}

NAMES = [  # pattern of the class's parameter (in a layer, or whole) -> GGUF name; the first that matches decides
    (r"(model|gpt_neox|transformer)\.(embed_tokens|embed_in|wte|word_embeddings)", "token_embd"),
    (r"transformer\.wpe", "position_embd"),
    (r"model\.norm|.*\.(final_layer_norm|ln_f|final_layernorm)", "output_norm"),
    (r"lm_head|embed_out", "output"),
    (r"input_layernorm|ln_1|ln_mlp", "attn_norm"),
    (r"ln_attn", "attn_norm_2"),
    (r"post_self_attn_layernorm", "post_attention_norm"),
    (r"post_mlp_layernorm|post_feedforward_layernorm", "post_ffw_norm"),
    (r"pre_feedforward_layernorm|ln_2", "ffn_norm"),
    (r"post_attention_layernorm", "FFN_NORM"),
    (r"self_attn\.q_proj", "attn_q"), (r"self_attn\.k_proj", "attn_k"), (r"self_attn\.v_proj", "attn_v"),
    (r"self_attn\.(o_proj|dense)|attn\.c_proj|attention\.dense|self_attention\.dense", "attn_output"),
    (r"self_attn\.qkv_proj|attn\.c_attn|.*query_key_value", "attn_qkv"),
    (r"self_attn\.(q_norm|query_layernorm)", "attn_q_norm"), (r"self_attn\.(k_norm|key_layernorm)", "attn_k_norm"),
    (r"self_attn\.([qk])_layernorm\.norms\.(\d+)", r"attn_\1_norm#\2"),
    (r"self_attn\.sinks", "attn_sinks"),
    (r"self_attn\.q_a_proj", "attn_q_a"), (r"self_attn\.q_a_layernorm", "attn_q_a_norm"),
    (r"self_attn\.q_b_proj", "attn_q_b"), (r"self_attn\.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    (r"self_attn\.kv_a_layernorm", "attn_kv_a_norm"), (r"self_attn\.kv_b_proj", "KV_B"),
    (r"(mlp|feed_forward)\.gate_proj", "ffn_gate"), (r"(mlp|feed_forward)\.up_proj", "ffn_up"),
    (r"(mlp|feed_forward)\.down_proj", "ffn_down"),
    (r"mlp\.(gate_up_proj|c_fc|fc1|dense_h_to_4h)", "ffn_up"), (r"mlp\.(c_proj|fc2|dense_4h_to_h)", "ffn_down"),
    (r".*e_score_correction_bias", "exp_probs_b"),
    (r"mlp\.(gate|router|gate\.wg)|feed_forward\.router|block_sparse_moe\.router(\.layer)?", "ffn_gate_inp"),
    (r"(.*\.)?experts\.gate_up_proj", "GATE_UP_EXPS"), (r"(.*\.)?experts\.gate_up_proj_bias", "GATE_UP_EXPS_BIAS"),
    (r"(.*\.)?experts\.down_proj", "DOWN_EXPS"), (r"(.*\.)?experts\.down_proj_bias", "ffn_down_exps"),
    (r".*(shared_expert|shared_experts|shared_mlp)\.(gate|up|down)_proj", r"ffn_\2_shexp"),
    (r"mlp\.shared_expert_gate", "ffn_gate_inp_shexp"),
    (r"shared_mlp\.input_linear", "GATE_UP_SHEXP"), (r"shared_mlp\.output_linear", "ffn_down_shexp"),
    (r"linear_attn\.in_proj_qkvz", "QKVZ"), (r"linear_attn\.in_proj_ba", "ssm_ba"),
    (r"linear_attn\.in_proj_qkv", "attn_qkv"), (r"linear_attn\.in_proj_z", "attn_gate"),
    (r"linear_attn\.in_proj_b", "ssm_beta"), (r"linear_attn\.in_proj_a", "ssm_alpha"),
    (r"linear_attn\.conv1d", "ssm_conv1d"), (r"linear_attn\.dt_bias", "ssm_dt.bias"),
    (r"linear_attn\.A_log", "ssm_a"), (r"linear_attn\.norm", "ssm_norm"), (r"linear_attn\.out_proj", "ssm_out"),
]


def gguf_name(arch, stem):
    for pattern, name in NAMES:
        if match := re.fullmatch(pattern, stem):
            name = match.expand(name)
            if name == "FFN_NORM":
                named_post = PRE_FFN_AS_POST | POST_ONLY | {"gemma2", "gemma3"}
                return "post_attention_norm" if arch in named_post else "ffn_norm"
            return name
    raise SystemExit(f"{arch}: no name for {stem}")


def deal(values, cfg, axis, skip=0):
    """Value heads from grouped by key head to one of every key head in turn, behind the first `skip` rows."""
    values = np.moveaxis(values, axis, 0)
    head, rest = values[:skip], values[skip:]
    n_k, n_v = cfg.linear_num_key_heads, cfg.linear_num_value_heads
    rest = rest.reshape(n_k, n_v // n_k, -1, *rest.shape[1:]).swapaxes(0, 1).reshape(rest.shape)
    return np.moveaxis(np.concatenate([head, rest]), 0, axis)


def split_key_heads(values, cfg):
    n_k, r = cfg.linear_num_key_heads, cfg.linear_num_value_heads // cfg.linear_num_key_heads
    d_k, d_v = cfg.linear_key_head_dim, r * cfg.linear_value_head_dim
    parts = np.split(values.reshape(n_k, 2 * d_k + 2 * d_v, -1), [d_k, 2 * d_k, 2 * d_k + d_v], axis=1)
    q, k, v, z = (part.reshape(-1, values.shape[-1]) for part in parts)
    return np.concatenate([q, k, v]), z


def ungroup_qkv(values, cfg, arch):
    d = cfg.hidden_size // cfg.num_attention_heads
    n_kv = cfg.num_attention_heads
    if arch == "falcon":
        n_kv = cfg.num_kv_heads if cfg.new_decoder_architecture else 1
    parts = values.reshape(n_kv, cfg.num_attention_heads // n_kv + 2, d, *values.shape[1:])
    flat = lambda part: part.reshape(-1, *values.shape[1:])
    return np.concatenate([flat(parts[:, :-2]), flat(parts[:, -2]), flat(parts[:, -1])])


def add_tensors(out, arch, cfg, prefix, name, ending, values):
    """One parameter's tensors of the GGUF."""
    put = lambda n, v, e=ending: out.__setitem__(prefix + n + e, np.ascontiguousarray(v, np.float32))
    transposed = arch in ("llama4", "gpt-oss")
    if name in ("attn_q", "attn_k") and arch in PAIRED:
        heads = cfg.num_attention_heads if name == "attn_q" else cfg.num_key_value_heads
        return put(name, values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape))
    if arch in PLUS_ONE and ending == ".weight" and name.endswith("norm") and name != "ssm_norm":
        return put(name, values + np.float32(1))
    if arch == "gpt2" and values.ndim == 2 and prefix:
        return put(name, values.T)
    if name == "attn_qkv" and arch in ("gptneox", "falcon"):
        return put(name, ungroup_qkv(values, cfg, arch))
    if name == "KV_B":
        heads = values.reshape(cfg.num_attention_heads, -1, values.shape[1])
        put("attn_k_b", heads[:, :cfg.qk_nope_head_dim].transpose(0, 2, 1))
        return put("attn_v_b", heads[:, cfg.qk_nope_head_dim:])
    if name in ("GATE_UP_EXPS", "GATE_UP_EXPS_BIAS", "GATE_UP_SHEXP"):
        values = values.swapaxes(1, 2) if transposed and values.ndim == 3 else values
        axis = 0 if name == "GATE_UP_SHEXP" else 1
        gate, up = np.split(values, 2, axis)
        if arch == "gpt-oss":
            gate, up = values[:, ::2], values[:, 1::2]
        kind, end = ("shexp", ".weight") if axis == 0 else ("exps", ".bias" if "BIAS" in name else ".weight")
        put(f"ffn_gate_{kind}", gate, end)
        return put(f"ffn_up_{kind}", up, end)
    if name == "DOWN_EXPS":
        return put("ffn_down_exps", values.swapaxes(1, 2) if transposed else values, ".weight")
    if name in ("ffn_down_exps", "exp_probs_b"):
        end = "" if name == "exp_probs_b" and arch == "hy_v3" else ".bias"
        return put(name, values.reshape(-1) if name == "exp_probs_b" else values, end)
    if name == "ffn_gate_inp_shexp":
        return put(name, values.reshape(-1))
    if name == "QKVZ":
        qkv, z = split_key_heads(values, cfg)
        put("attn_qkv", qkv)
        return put("attn_gate", z)
    if name == "ssm_conv1d":
        values = values.squeeze(1)
    if arch in ("qwen35", "qwen35moe"):
        n_qk = 2 * cfg.linear_num_key_heads * getattr(cfg, "linear_key_head_dim", 0)
        if name in ("attn_gate", "ssm_beta", "ssm_alpha", "ssm_dt.bias", "ssm_a"):
            values = deal(values, cfg, 0)
        elif name == "ssm_conv1d" or (name == "attn_qkv"):
            values = deal(values, cfg, 0, n_qk)
        elif name == "ssm_out":
            values = deal(values, cfg, 1)
    if name == "ssm_a":
        return put(name, -np.exp(values.astype(np.float64)), "")
    return put(name, values, "" if name == "ssm_dt.bias" else ".weight" if name == "attn_sinks" else ending)


def expected_tensors(arch, cfg, model):
    out, stacks = {}, {}
    tied = cfg.tie_word_embeddings
    state = {k: v.detach().float().numpy() for k, v in model.state_dict().items()}
    for whole, values in state.items():
        ending = "." + whole.rsplit(".", 1)[1] if whole.endswith((".weight", ".bias")) else ""
        stem = whole.removesuffix(ending) if ending else whole
        if stem in ("lm_head", "embed_out") and tied:
            continue
        prefix = ""
        if match := re.fullmatch(r".*?\.(?:layers|h)\.(\d+)\.(.*)", stem):
            prefix, stem = f"blk.{match[1]}.", match[2]
        name = gguf_name(arch, stem)
        if "#" in name:
            name, index = name.split("#")
            stacks.setdefault(prefix + name + ending, {})[int(index)] = values
            continue
        add_tensors(out, arch, cfg, prefix, name, ending, values)
    for name, parts in stacks.items():
        out[name] = np.stack([parts[i] for i in sorted(parts)])
    return out


def rope_factors(cfg):
    rope = cfg.rope_parameters or {}
    if rope.get("rope_type") != "longrope":
        return {}
    return {f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32) for kind in ("long", "short")}


# --- cases ---

DROPPED = {"transformers_version", "dtype", "initializer_range", "use_cache", "attention_dropout", "architectures"}


def make_case(name, folder):
    """Saves the case's model with the formula's numbers; (configuration, {name: shape}, expected tensors)."""
    class_name, options = CASES[name]
    cls = getattr(transformers, class_name)
    options = {**({} if "vocab_size" in options else BASE), **options}
    model = cls(cls.config_class(**options))
    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as saved:
        shapes = {key: list(saved.get_slice(key).get_shape()) for key in sorted(saved.keys())}
    save_file({key: numbers(key, shape) for key, shape in shapes.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    model = cls.from_pretrained(folder, dtype=torch.float32)
    arch = ARCHS.get(name, name.replace("_", "-"))
    expected = {**rope_factors(model.config), **expected_tensors(arch, model.config, model)} \
        if hasattr(model.config, "rope_parameters") else expected_tensors(arch, model.config, model)
    kept = {key: value for key, value in config.items() if key not in DROPPED or key == "architectures"}
    return kept, shapes, expected


ARCHS = {"mistral": "llama", "mixtral": "llama", "ministral3": "mistral3", "olmo3": "olmo2", "phi3_partial": "phi3",
         "stablelm_parallel": "stablelm", "falcon_7b": "falcon", "falcon_40b": "falcon", "seed_oss": "seed_oss",
         "glm": "chatglm", "cohere": "command-r", "cohere_plus": "command-r", "phi": "phi2", "exaone4_full": "exaone4",
         "ernie4_5": "ernie4_5", "granitemoeshared": "granitemoe", "ernie4_5_moe": "ernie4_5-moe",
         "glm4moe_plain": "glm4moe", "hy_v3": "hy_v3", "deepseek_v2": "deepseek2", "deepseek_v2_lite": "deepseek2",
         "deepseek_v3": "deepseek2"}


def tensor_lines(expected):
    return [f"tensor {name} {list(values.shape)} {checksum(values):.7g}" for name, values in sorted(expected.items())]


def key_lines(tokamak, folder):
    text = subprocess.run([tokamak, "convert", folder, "--dry-run", "--no-tokenizer", "--outtype", "f32"], check=True,
                          capture_output=True, text=True).stdout
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.split("\n\n")[0].splitlines()]
    return ["key " + line for line in lines if not line.startswith("tokenizer.")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="the folder of the program")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    failed = []
    for name in args.cases or CASES:
        with tempfile.TemporaryDirectory() as temp:
            folder = pathlib.Path(temp)
            config, shapes, expected = make_case(name, folder)
            lines = key_lines(args.bin / "tokamak", folder) + tensor_lines(expected)
            golden, data = GOLDEN / f"{name}.txt", {"config": config, "tensors": shapes}
            if args.check:
                if golden.read_text().splitlines() != lines or json.loads((DATA / f"{name}.json").read_text()) != data:
                    failed.append(name)
                continue
            DATA.mkdir(parents=True, exist_ok=True)
            GOLDEN.mkdir(parents=True, exist_ok=True)
            (DATA / f"{name}.json").write_text(json.dumps(data) + "\n")
            golden.write_text("\n".join(lines) + "\n")
    print("differ: " + ", ".join(failed) if failed else f"{len(args.cases or CASES)} cases")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
