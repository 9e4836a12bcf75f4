"""Hugging Face transformers as a float64 reference for GGUF files: shared by logits_oracle.py and arch_oracle.py.

The classes compute norms, softmax and rope angles in float32 whatever the model's dtype is. use_float64() makes them
compute in float64: Tensor.float() is Tensor.double(), the default dtype is float64, and in the modelling module of every
class that model_class() gives, `torch.float32` and `torch.float` read as torch.float64. Nothing else of transformers is
changed.
"""
import contextlib
import importlib
import subprocess
import sys
import types
from dataclasses import dataclass

import gguf
import numpy as np
import torch
import transformers


class DoubleTorch(types.ModuleType):
    """The torch module as the modelling code sees it."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def use_float64():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    importlib.import_module("transformers.modeling_rope_utils").torch = DoubleTorch("torch")


def model_class(name: str):
    """The class of transformers, its module made to compute in float64 (after use_float64())."""
    cls = getattr(transformers, name)
    sys.modules[cls.__module__].torch = DoubleTorch("torch")
    return cls


# --- names: GGUF -> transformers --------------------------------------------------------------------------------------

GLOBAL_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
GEMMA_NAMES = BLOCK_NAMES | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
PERMUTED = {"llama", "smollm3"}  # q and k rows are reordered in the file


def hf_name(arch: str, name: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("blk."):
        return f"{GLOBAL_NAMES[stem]}.{kind}"
    _, block, stem = stem.split(".", 2)
    return f"model.layers.{block}.{(GEMMA_NAMES if arch == 'gemma3' else BLOCK_NAMES)[stem]}.{kind}"


# --- GGUF -> transformers ---------------------------------------------------------------------------------------------


FLOAT_TYPES = {gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16")}


@dataclass
class GgufModel:
    reader: gguf.GGUFReader

    @property
    def arch(self) -> str:
        return self.reader.fields["general.architecture"].contents()

    def get(self, key: str, fallback=None):
        field = self.reader.fields.get(f"{self.arch}.{key}")
        return fallback if field is None else field.contents()

    def has(self, tensor: str) -> bool:
        return any(t.name == tensor for t in self.reader.tensors)

    @property
    def n_vocab(self) -> int:
        return next(int(t.shape[1]) for t in self.reader.tensors if t.name == "token_embd.weight")

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Every weight as float64, in transformers' order of rows."""
        n_head = self.get("attention.head_count")
        heads = {"attn_q": n_head, "attn_k": self.get("attention.head_count_kv", n_head)}
        out = {}
        for tensor in self.reader.tensors:
            if tensor.name == "rope_freqs.weight":
                continue  # a function of the configuration there
            data = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
            data = data.reshape([int(n) for n in reversed(tensor.shape)])
            stem = tensor.name.split(".")[-2]
            if self.arch in PERMUTED and stem in heads:  # [x0, y0, x1, y1, ...] -> [x..., y...] in every head
                n = heads[stem]
                pairs = data.reshape(n, data.shape[0] // n // 2, 2, -1)
                data = pairs.swapaxes(1, 2).reshape(data.shape)
            if self.arch == "gemma3" and stem.endswith("norm"):
                data = data - 1.0  # the file holds 1 + w; exact in float64
            out[hf_name(self.arch, tensor.name)] = torch.from_numpy(np.ascontiguousarray(data))
        return out


    def integer_layers(self) -> set[str]:
        """The linear layers whose inputs the cpu backend rounds to integer codes."""
        names = {
            hf_name(self.arch, tensor.name).removesuffix(".weight")
            for tensor in self.reader.tensors
            if tensor.tensor_type not in FLOAT_TYPES
        }
        if "model.embed_tokens" in names:
            names.remove("model.embed_tokens")
            if not self.has("output.weight"):
                names.add("lm_head")
        return names


def load_model(cls, config, state: dict[str, torch.Tensor]):
    cls = model_class(cls.__name__)
    config._attn_implementation = "eager"
    with transformers.initialization.no_init_weights():
        model = cls(config)
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    if unexpected or set(missing) - {"lm_head.weight"} or (missing and not config.tie_word_embeddings):
        raise SystemExit(f"weights do not fit {cls.__name__}: missing {missing}, unexpected {unexpected}")
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise SystemExit(f"{name} is {tensor.dtype}, not float64")
    return model.eval()


@torch.no_grad()
def logits_of(model, ids: list[int], n_prompt: int | None = None) -> np.ndarray:
    """[n_tokens, n_vocab]. With n_prompt: that many tokens at once, the others one by one through the cache."""
    if n_prompt is None:
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    rows, cache = [], None
    for begin, end in [(0, n_prompt)] + [(i, i + 1) for i in range(n_prompt, len(ids))]:
        out = model(torch.tensor([ids[begin:end]]), cache=cache, use_cache=True)
        cache = out.cache
        rows.append(out.logits[0].numpy())
    return np.concatenate(rows)


@contextlib.contextmanager
def smallest_gap():
    """Yields a list; every top-k of the models run inside appends the smallest distance between the last chosen value
    and the first left out (of probabilities: relative, so that it is about the distance of their logits). What is
    rounded by less cannot choose otherwise."""
    gaps, originals = [], (torch.topk, torch.Tensor.topk)

    def topk(values, k, *args, **kwargs):
        ordered = values.sort(-1, descending=True).values
        if k < values.shape[-1]:
            last, first_out = ordered[..., k - 1], ordered[..., k]
            probabilities = ordered[..., -1].min() >= 0 and values.sum(-1).max() < 1 + 1e-9
            gaps.append(float(((last - first_out) / (last if probabilities else 1)).min()))
        return originals[0](values, k, *args, **kwargs)

    torch.topk = torch.Tensor.topk = topk
    try:
        yield gaps
    finally:
        torch.topk, torch.Tensor.topk = originals


@contextlib.contextmanager
def int8_activations(model, layers: set[str]):
    """The inputs of these linear layers rounded to int8 codes times max/127 of each group of 32, as an exact int8
    engine sees them: what is left of the difference is the engine's own."""

    def hook(_, inputs):
        x = inputs[0]
        blocks = x.reshape(-1, 32)
        step = blocks.abs().amax(-1, keepdim=True) / 127
        return ((blocks / step.clamp_min(1e-300)).round() * step).reshape(x.shape)

    handles = [model.get_submodule(name).register_forward_pre_hook(hook) for name in sorted(layers)]
    yield
    for handle in handles:
        handle.remove()


# --- the engine, and the comparison -----------------------------------------------------------------------------------


def run_engine(tool, model, backend, ids, work, *, isa="auto", n_prompt=None, kv="f32", fusion=True, threads=0,
               activations="int16"):  # fmt: skip
    ids_file, out_file = work / "ids.txt", work / "logits.bin"
    ids_file.write_text(" ".join(map(str, ids)))
    command = [tool, model, backend, isa, ids_file, out_file, "--kv", kv, "--threads", threads, "--activations", activations]
    command += [] if n_prompt is None else ["--prompt", n_prompt, "--chunk", 1]
    command += [] if fusion else ["--no-fusion"]
    subprocess.run([str(part) for part in command], check=True)
    return np.memmap(out_file, dtype="<f4", mode="r").reshape(len(ids), -1)


@dataclass
class Difference:
    nmse: float  # sum of squared differences over sum of squares, all positions together
    worst_nmse: float  # of one position
    top1: float  # share of positions whose largest logit is the same token
    lost_margin: float  # where it is another token: the most by which that one was behind in `expected`
    max_abs: float


def compare(expected: np.ndarray, actual: np.ndarray) -> Difference:
    if expected.shape != actual.shape:
        raise SystemExit(f"shapes differ: {expected.shape}, {actual.shape}")
    squares, energies, same, margin, largest = [], [], 0, 0.0, 0.0
    for want, got in zip(expected, actual):
        want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
        error = got - want
        squares.append(float(error @ error))
        energies.append(float(want @ want))
        same += int(want.argmax() == got.argmax())
        margin = max(margin, float(want.max() - want[got.argmax()]))
        largest = max(largest, float(np.abs(error).max()))
    rows = np.array(squares) / np.array(energies)
    return Difference(sum(squares) / sum(energies), float(rows.max()), same / len(expected), margin, largest)
