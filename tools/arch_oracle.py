#!/usr/bin/env python3
"""Tiny random models of every family row against transformers in float64, and the golden files of the C++ tests.

    arch_oracle.py [--check] [--bin build/release/bin] [--only NAME]

Writes tests/golden/arch/NAME.gguf and NAME.logits for every case (--check: compares with the committed files instead),
then runs the engine over each case with F32, F16 and Q8_0 weights. Exit status 1 when a bar is missed or a file differs.
NAME.logits: u32 n_tokens, u32 n_vocab, i32 ids [n_tokens], f32 logits [n_tokens, n_vocab]; little-endian.
Needs: the packages of tools/requirements.txt and the built logits_tool.
"""
import argparse
import math
import pathlib
import sys
import tempfile
import zlib
from dataclasses import dataclass, field, replace

import gguf
import numpy as np
import torch
import transformers

import hf_reference as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/arch"
N_VOCAB, N_TOKENS, N_PROMPT = 93, 33, 21
F32, F16, Q8_0 = (gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "Q8_0"))


@dataclass
class Case:
    arch: str
    config: dict  # of the transformers class
    keys: dict = field(default_factory=dict)  # metadata beyond the sizes; None removes a key
    golden: gguf.GGMLQuantizationType = F32  # type of the matrices in the committed file
    family: str = ""  # row of CLASSES when it is not the architecture's name

    @property
    def classes(self):
        return CLASSES[self.family or self.arch]


CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "smollm3": (transformers.SmolLM3Config, transformers.SmolLM3ForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
}


def sizes(n_embd, n_head, n_head_kv, head_dim, n_ff, n_layer, tied, **more):
    return dict(
        hidden_size=n_embd, num_attention_heads=n_head, num_key_value_heads=n_head_kv, head_dim=head_dim,
        intermediate_size=n_ff, num_hidden_layers=n_layer, tie_word_embeddings=tied, **more,
    )  # fmt: skip


def rope(theta, kind="default", **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more))


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
YARN_KEYS = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
LOCAL3 = ["sliding_attention", "sliding_attention", "full_attention"] * 2

CASES = {
    # head_dim 12 is not 48 / 6; no width is a multiple of 16 or 32
    "llama_gqa": Case("llama", sizes(42, 6, 2, 12, 60, 2, False, **rope(10000.0))),
    # head_dim and n_rot from the defaults, one key-value head, all biases
    "llama_bias_mqa": Case(
        "llama",
        sizes(40, 5, 1, 8, 60, 2, True, attention_bias=True, mlp_bias=True, **rope(500000.0)),
        {"attention.key_length": None, "attention.value_length": None, "rope.dimension_count": None},
    ),
    "llama_llama3": Case("llama", sizes(48, 4, 2, 16, 52, 2, True, **rope(10000.0, "llama3", **LLAMA3))),
    "llama_linear": Case(
        "llama",
        sizes(40, 4, 4, 10, 44, 2, False, **rope(10000.0, "linear", factor=2.5)),
        {"rope.scaling.type": "linear", "rope.scaling.factor": 2.5},
    ),
    "llama_yarn": Case(
        "llama",
        sizes(36, 6, 2, 20, 44, 2, True, **rope(10000.0, "yarn", **YARN)),
        YARN_KEYS,
        F16,
    ),
    "llama_q8": Case("llama", sizes(96, 6, 2, 32, 96, 1, True, **rope(10000.0)), golden=Q8_0),
    # files hold no window, so the class must have none
    "mistral": Case("llama", sizes(40, 4, 2, 14, 44, 2, False, sliding_window=None, **rope(1e6)), family="mistral"),
    # layers 4 and 8 without rope; bias on q, k, v, o
    "smollm3": Case("smollm3", sizes(36, 6, 2, 8, 44, 8, True, attention_bias=True, **rope(5000000.0)), golden=F16),
    "qwen2_tied": Case("qwen2", sizes(42, 6, 2, 8, 76, 2, True, **rope(1000000.0))),
    # a ramp from pair 1 to pair 5; the default betas would give 0 to 3
    "qwen2_yarn": Case(
        "qwen2",
        sizes(40, 5, 1, 20, 44, 2, False, **rope(10000.0, "yarn", factor=4.0, original_max_position_embeddings=64,
                                                beta_fast=4.0, beta_slow=0.25)),
        YARN_KEYS | {
            "rope.scaling.original_context_length": 64,
            "rope.scaling.yarn_beta_fast": 4.0,
            "rope.scaling.yarn_beta_slow": 0.25,
        },
    ),
    "qwen3": Case("qwen3", sizes(40, 6, 2, 12, 60, 2, False, **rope(1000000.0))),
    "qwen3_yarn_q8": Case("qwen3", sizes(64, 4, 4, 32, 96, 2, True, **rope(10000.0, "yarn", **YARN)), YARN_KEYS, Q8_0),
    # two periods of five local layers and a global one, window 5 of 33 tokens, scaled global rope
    "gemma3": Case(
        "gemma3",
        sizes(32, 4, 1, 12, 44, 12, True, sliding_window=5, query_pre_attn_scalar=12,
              **gemma_rope(10000.0, 1000000.0, 8.0)),
        {"attention.sliding_window": 5, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
        F16,
    ),  # fmt: skip
    # pattern, local base and both softcaps from keys
    "gemma3_pattern": Case(
        "gemma3",
        sizes(36, 6, 2, 10, 44, 6, True, sliding_window=7, layer_types=LOCAL3, query_pre_attn_scalar=10,
              final_logit_softcapping=20.0, attn_logit_softcapping=4.0, **gemma_rope(5000.0, 100000.0)),
        {
            "attention.sliding_window": 7,
            "attention.sliding_window_pattern": [True, True, False] * 2,
            "rope.freq_base_swa": 5000.0,
            "final_logit_softcapping": 20.0,
            "attn_logit_softcapping": 4.0,
        },
        F16,
    ),
}  # fmt: skip


def in_whole_blocks(case: Case) -> Case:
    """The same case with rows of whole blocks of 32, for the quantized types."""
    c = case.config
    n_embd = c["num_attention_heads"] * (32 if c["num_attention_heads"] % 2 else 16)
    wide = dict(hidden_size=n_embd, intermediate_size=96, head_dim=32)
    if "query_pre_attn_scalar" in c:
        wide["query_pre_attn_scalar"] = wide["head_dim"]
    return replace(case, config=c | wide)


def config_of(case: Case):
    common = dict(vocab_size=N_VOCAB, max_position_embeddings=64, rms_norm_eps=float(np.float32(1e-5)),
                  pad_token_id=None, bos_token_id=None, eos_token_id=None)  # fmt: skip
    return case.classes[0](**common, **case.config)


def llama3_factors(config) -> np.ndarray:
    """Divisors of the angles, as the file holds them (Llama 3.1: low frequencies / factor, high ones as they are)."""
    p = config.rope_parameters
    frequencies = p["rope_theta"] ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    wavelength, n_ctx = 2 * math.pi / frequencies, p["original_max_position_embeddings"]
    keep = (n_ctx / wavelength - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
    keep = np.clip(keep, 0, 1)
    return (1 / ((1 - keep) / p["factor"] + keep)).astype(np.float32)


def random_tensor(name: str, shape: tuple[int, ...], rng) -> np.ndarray:
    """As the file holds it. Nothing is left at a value that hides its absence."""
    if name.endswith("norm.weight"):
        return 1 + 0.2 * rng.standard_normal(shape)
    if name.endswith("bias"):
        return 0.3 * rng.standard_normal(shape)
    if name == "token_embd.weight":
        return 0.5 * rng.standard_normal(shape)
    sharper = 1.7 if "attn_q" in name or "attn_k" in name else 1.0  # attention far from uniform
    return sharper * rng.standard_normal(shape) / math.sqrt(shape[-1])


def add_metadata(writer: gguf.GGUFWriter, case: Case, config):
    theta = config.rope_parameters.get("rope_theta") or config.rope_parameters["full_attention"]["rope_theta"]
    keys = {
        "vocab_size": config.vocab_size,
        "context_length": config.max_position_embeddings,
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.dimension_count": config.head_dim,
        "rope.freq_base": theta,
    } | case.keys
    for key, value in keys.items():
        name = f"{case.arch}.{key}"
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif value is not None:
            writer.add_uint32(name, value)
    writer.add_string("tokenizer.ggml.model", "no_vocab")


def write_gguf(path: pathlib.Path, name: str, case: Case, kind: gguf.GGMLQuantizationType):
    config, rng = config_of(case), np.random.default_rng(zlib.crc32(name.encode()))
    writer = gguf.GGUFWriter(path, case.arch)
    add_metadata(writer, case, config)
    with torch.device("meta"):
        parameters = {n: tuple(p.shape) for n, p in case.classes[1](config).named_parameters()}
    for tensor, shape in ((hf.gguf_name(case.arch, n), s) for n, s in parameters.items()):
        data = random_tensor(tensor, shape, rng).astype(np.float32)
        if kind != F32 and len(shape) > 1:
            writer.add_tensor(tensor, gguf.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor, data)
    if config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def token_ids(name: str) -> list[int]:
    return np.random.default_rng(zlib.crc32(name.encode()) + 1).integers(0, N_VOCAB, N_TOKENS).tolist()


def load(path: pathlib.Path, case: Case):
    file = hf.GgufModel(gguf.GGUFReader(path))
    return file, hf.load_model(case.classes[1], config_of(case), file.state_dict())


def expected_logits(path: pathlib.Path, case: Case, ids: list[int]) -> np.ndarray:
    _, model = load(path, case)
    logits = hf.logits_of(model, ids)
    stepwise = hf.compare(logits, hf.logits_of(model, ids, N_PROMPT))
    assert stepwise.nmse < 1e-20, f"transformers disagrees with itself: {stepwise}"
    return logits


def golden_files(name: str, case: Case) -> dict[pathlib.Path, bytes]:
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "model.gguf"
        write_gguf(path, name, case, case.golden)
        ids = token_ids(name)
        logits = expected_logits(path, case, ids)
        head = np.array([len(ids), N_VOCAB, *ids], "<i4").tobytes()
        return {
            GOLDEN / f"{name}.gguf": path.read_bytes(),
            GOLDEN / f"{name}.logits": head + logits.astype("<f4").tobytes(),
        }


def same_content(committed: bytes, fresh: bytes, is_logits: bool) -> bool:
    if not is_logits or len(committed) != len(fresh):
        return committed == fresh
    n = 8 + 4 * N_TOKENS
    # The last bit of an f32 may depend on the BLAS in use.
    want, got = (np.frombuffer(data[n:], "<f4") for data in (committed, fresh))
    return committed[:n] == fresh[:n] and np.allclose(want, got, rtol=1e-6, atol=1e-6)


def write_goldens(names: list[str], check: bool) -> list[str]:
    failures = []
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in names:
        for path, content in golden_files(name, CASES[name]).items():
            if not check:
                path.write_bytes(content)
            elif not path.exists() or not same_content(path.read_bytes(), content, path.suffix == ".logits"):
                failures.append(f"{path.relative_to(ROOT)} is not what arch_oracle.py makes")
    return failures


@dataclass
class Row:
    """One way to run a model, and the NMSE it must stay below for each type of weights."""

    backend: str
    kv: str
    bars: dict
    activations: str = "int16"


# With Q8_0 weights the cpu backend rounds activations to integer codes. int8 with an f32 cache is compared with
# transformers doing the same (a code on the edge between two integers may still fall either way).
ROWS = [
    Row("reference", "f32", {F32: 1e-9, F16: 1e-9, Q8_0: 1e-9}),
    Row("cpu", "f32", {F32: 1e-9, F16: 1e-9, Q8_0: 1e-6}),
    Row("cpu", "f16", {F32: 1e-5, F16: 1e-5, Q8_0: 1e-5}),
    Row("cpu", "f32", {Q8_0: 1e-4}, activations="int8"),
]


def run_rows(name: str, kind, path: pathlib.Path, ids, exact: np.ndarray, rounded: np.ndarray, tool, work) -> list[str]:
    failures = []
    floor = hf.compare(exact, rounded).nmse
    for row in ROWS:
        if kind not in row.bars:
            continue
        for n_prompt in (None, N_PROMPT):
            actual = hf.run_engine(tool, path, row.backend, ids, work, kv=row.kv, n_prompt=n_prompt, threads=1,
                                   activations=row.activations)  # fmt: skip
            d, to_exact = hf.compare(rounded if row.activations == "int8" else exact, actual), hf.compare(exact, actual)
            mode = "prefill" if n_prompt is None else "one by one"
            ok = d.nmse <= row.bars[kind]
            note = f" (to the exact one {to_exact.nmse:.1e}, int8 rounding alone {floor:.1e})"
            note = note if row.activations == "int8" else ""
            print(f"{name:15} {kind.name:4} {row.backend:9} {row.activations:5} kv {row.kv} {mode:10} NMSE {d.nmse:.1e} max {d.max_abs:.1e} "
                  f"top-1 {d.top1:6.1%} {'ok' if ok else 'MISSED'}{note}", flush=True)  # fmt: skip
            if not ok:
                failures.append(f"{name}, {kind.name}, {row.backend}: NMSE {d.nmse:.2e} > {row.bars[kind]:.0e}")
    return failures


def run_case(name: str, case: Case, tool: pathlib.Path, work: pathlib.Path) -> list[str]:
    failures = []
    for kind, shaped in [(F32, case), (F16, case), (Q8_0, in_whole_blocks(case))]:
        path, ids = work / f"{name}.gguf", token_ids(name)
        write_gguf(path, name, shaped, kind)
        file, model = load(path, shaped)
        exact = rounded = hf.logits_of(model, ids)
        if kind == Q8_0:
            with hf.int8_activations(model, file.integer_layers()):
                rounded = hf.logits_of(model, ids)
        failures += run_rows(name, kind, path, ids, exact, rounded, tool, work)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--only", choices=CASES)
    args = parser.parse_args()
    hf.use_float64()
    torch.set_num_threads(1)
    names = [args.only] if args.only else list(CASES)
    failures = write_goldens(names, args.check)
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            failures += run_case(name, CASES[name], args.bin / "logits_tool", pathlib.Path(work))
    for failure in failures:
        print("FAILED:", failure)
    print(f"arch_oracle: {len(names)} models, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
