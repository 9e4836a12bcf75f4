#!/usr/bin/env python3
"""Hugging Face folders of every family row, converted, against transformers in float64; and the C++ tests' fixtures.

    convert_oracle.py [--check] [--bin build/release/bin] [--only NAME] [--model MODEL.gguf]

For every case: a tiny random model and a small tokenizer saved by transformers (single file or shards), then
`tokamak convert --outtype f32`, then token ids and logits of the reference backend beside transformers'.
Writes tests/data/convert/NAME/ and tests/golden/convert/NAME.json + NAME.logits for the cases that are fixtures
(--check: compares the expectations with the committed files instead). --model: a real model too: a folder made from
that GGUF, converted and compared.
Exit status 1 when a bar is missed or a file differs. Needs: the packages of tools/requirements.txt, `tokamak` and
`logits_tool`.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field

import gguf
import numpy as np
import safetensors.torch
import tokenizers as tk
import torch
import transformers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

import arch_cases as arch
import hf_reference as hf
import logits_oracle
import tokenizer_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA, GOLDEN = ROOT / "tests/data/convert", ROOT / "tests/golden/convert"
BAR = 1e-9  # NMSE of all logits, F32 weights, reference backend
N_TOKENS = 33

TEXTS = [
    "Hello, world! It's 2024 and HE'S here.", "  two  spaces\n\nand\tTabs\r\n ", "naïve Zürich Привет, мир! 你好世界 🦔",
    "x = arr[i] != 0x7F; // 12345 67 8", "don't WE'LL 'tis o'clock", "", " ", "a", "<|im_start|>user\nHi<|im_end|>",
    "\u00e9 e\u0301 \u212b 가", "한국어 العالم नमस्ते", "trailing space ", "\n\n\n", "1 22 333 4444 55555",
]  # fmt: skip
CORPUS = TEXTS * 3 + __doc__.split("\n") + (ROOT / "README.md").read_text().split("\n")[:40]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")  # fmt: skip
LLAMA3 = QWEN2.replace(r"|\p{N}| ", r"|\p{N}{1,3}| ")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


# --- tokenizers -------------------------------------------------------------------------------------------------------


def byte_level(n_vocab, split=None, digits=False, nfc=False, bos=None, ignore_merges=False):
    tokenizer = tk.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if split:
        steps.append(pre_tokenizers.Split(Regex(split), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    specials = SPECIALS + ([bos] if bos else [])
    trainer = trainers.BpeTrainer(vocab_size=n_vocab, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos or "<|endoftext|>", eos_token="<|im_end|>", pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
    )  # fmt: skip


def sentencepiece_like(n_vocab, prefix):
    """BPE over pieces, as tokenizers made from SentencePiece models are written."""
    tokenizer = tk.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"] if not prefix else ["<unk>", "<s>", "</s>"]
    bos, eos = ("<s>", "</s>") if prefix else ("<bos>", "<eos>")
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=n_vocab, special_tokens=specials + byte_tokens, show_progress=False,
                                  max_token_length=12)  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    # Byte tokens are no added tokens in such files; <start_of_turn> is one.
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] not in byte_tokens]
    tokenizer = tk.Tokenizer.from_str(json.dumps(content))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, unk_token="<unk>", chat_template=TEMPLATE
    )


# --- cases ------------------------------------------------------------------------------------------------------------


CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "smollm3": "SmolLM3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "gemma3": "Gemma3ForCausalLM",
}  # fmt: skip


@dataclass
class Case:
    family: str  # row of CLASSES
    config: dict
    tokenizer: object  # () -> PreTrainedTokenizerFast
    shards: bool = False
    fixture: bool = False
    pre: str = ""  # expected tokenizer.ggml.pre
    old_config: bool = False  # rewritten to the form of transformers 4
    dtype: torch.dtype = torch.float32
    n_vocab: int = 400


def smollm():
    return byte_level(380, digits=True)


CASES = {
    "llama_smollm": Case("llama", arch.sizes(48, 6, 2, 8, 60, 2, True, **arch.rope(10000.0)), smollm, fixture=True,
                         pre="smollm"),
    "llama_spm": Case("llama", arch.sizes(48, 4, 4, 12, 60, 2, False, attention_bias=True, mlp_bias=True,
                                          **arch.rope(500000.0)), lambda: sentencepiece_like(480, True), shards=True,
                      fixture=True, pre="default", n_vocab=500),
    "llama_llama3": Case("llama", arch.sizes(48, 4, 2, 16, 52, 2, True, **arch.rope(10000.0, "llama3", **arch.LLAMA3)),
                         lambda: byte_level(390, LLAMA3, bos="<|begin_of_text|>", ignore_merges=True), pre="llama-bpe"),
    "llama_linear_old": Case("llama", arch.sizes(40, 4, 4, 10, 44, 2, False, **arch.rope(10000.0, "linear", factor=2.5)),
                             smollm, old_config=True, pre="smollm"),
    "llama_yarn": Case("llama", arch.sizes(36, 6, 2, 20, 44, 2, True, **arch.rope(10000.0, "yarn", **arch.YARN)), smollm,
                       shards=True, pre="smollm"),
    "llama_yarn_factor": Case("llama", arch.sizes(36, 6, 2, 20, 44, 2, True, **arch.rope(
        10000.0, "yarn", attention_factor=0.75, **arch.YARN)), smollm, pre="smollm"),
    "mistral": Case("mistral", arch.sizes(40, 4, 2, 14, 44, 2, False, sliding_window=None, **arch.rope(1e6)),
                    lambda: sentencepiece_like(390, True), pre="default"),
    "mistral_window": Case("mistral", arch.sizes(40, 4, 2, 14, 44, 2, False, sliding_window=7, **arch.rope(1e6)),
                           lambda: sentencepiece_like(390, True), fixture=True, pre="default"),
    "smollm3": Case("smollm3", arch.sizes(36, 6, 2, 8, 44, 8, True, attention_bias=True, **arch.rope(5000000.0)),
                    lambda: byte_level(390, LLAMA3), fixture=True, pre="smaug-bpe"),
    "qwen2": Case("qwen2", arch.sizes(42, 6, 2, 8, 76, 2, True, **arch.rope(1000000.0)),
                  lambda: byte_level(390, QWEN2, nfc=True), fixture=True, pre="qwen2"),
    "qwen2_window": Case("qwen2", arch.sizes(42, 6, 2, 8, 76, 4, False, use_sliding_window=True, sliding_window=6,
                                             max_window_layers=2, **arch.rope(1000000.0)),
                         lambda: byte_level(390, QWEN2, nfc=True), pre="qwen2"),
    "qwen2_yarn": Case("qwen2", arch.sizes(40, 5, 1, 20, 44, 2, False, **arch.rope(
        10000.0, "yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.25)),
        lambda: byte_level(390, QWEN2, nfc=True), pre="qwen2"),
    "qwen3": Case("qwen3", arch.sizes(40, 6, 2, 12, 60, 2, False, **arch.rope(1000000.0)),
                  lambda: byte_level(390, QWEN2, nfc=True), shards=True, fixture=True, pre="qwen2",
                  dtype=torch.bfloat16),
    "gemma3": Case("gemma3", arch.sizes(32, 4, 1, 12, 44, 12, True, sliding_window=5, query_pre_attn_scalar=12,
                                        **arch.gemma_rope(10000.0, 1000000.0, 8.0)),
                   lambda: sentencepiece_like(480, False), fixture=True, pre="default", n_vocab=500),
    "gemma3_pattern": Case("gemma3", arch.sizes(36, 6, 2, 10, 44, 6, True, sliding_window=7, layer_types=arch.LOCAL3,
                                                query_pre_attn_scalar=24, final_logit_softcapping=20.0,
                                                **arch.gemma_rope(5000.0, 100000.0)),
                           lambda: sentencepiece_like(480, False), pre="default", n_vocab=500),
}  # fmt: skip


def to_old_form(config: dict) -> dict:
    """config.json as transformers 4 wrote it."""
    parameters = config.pop("rope_parameters")
    config["rope_theta"] = parameters.pop("rope_theta")
    kind = parameters.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **parameters}
    config["torch_dtype"] = config.pop("dtype", "float32")
    return config


def random_tensor(name: str, shape: tuple[int, ...], rng) -> np.ndarray:
    """Nothing is left at a value that hides its absence."""
    if name.endswith("norm.weight"):
        return 1 + 0.2 * rng.standard_normal(shape)
    if name.endswith("bias"):
        return 0.3 * rng.standard_normal(shape)
    return rng.standard_normal(shape) / math.sqrt(shape[-1])


def save_folder(folder: pathlib.Path, name: str, case: Case):
    torch.manual_seed(zlib.crc32(name.encode()))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    model_class = hf.model_class(CLASSES[case.family])
    config = model_class.config_class(
        vocab_size=case.n_vocab, max_position_embeddings=64, rms_norm_eps=1e-5, pad_token_id=None, bos_token_id=None,
        eos_token_id=None, **case.config,
    )  # fmt: skip
    model = model_class(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            values = random_tensor(parameter_name, tuple(parameter.shape), rng)
            if "norm" in parameter_name and case.family == "gemma3":
                values = values - 1
            if "embed_tokens" in parameter_name:
                values = values / 2
            parameter.copy_(torch.from_numpy(np.asarray(values)))
    model = model.to(case.dtype)
    model.generation_config.eos_token_id = [2, 1]
    model.save_pretrained(folder, max_shard_size="40KB" if case.shards else "5GB")
    case.tokenizer().save_pretrained(folder)
    if case.old_config:
        path = folder / "config.json"
        path.write_text(json.dumps(to_old_form(json.loads(path.read_text())), indent=2))
    assert (folder / "model.safetensors.index.json").exists() == case.shards, f"{name}: shards"


def expected_logits(folder: pathlib.Path, family: str, ids: list[int]) -> np.ndarray:
    model_class = hf.model_class(CLASSES[family])
    config = model_class.config_class.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = model_class.from_pretrained(folder, config=config, dtype=torch.float64)
    for name, buffer in list(model.named_buffers()):  # computed in float64, not rounded
        assert buffer.dtype == torch.float64 or not buffer.is_floating_point(), name
    return hf.logits_of(model.eval(), ids)


def token_ids(n_vocab: int, name: str, n_tokens: int = N_TOKENS) -> list[int]:
    return np.random.default_rng(zlib.crc32(name.encode()) + 1).integers(0, n_vocab, n_tokens).tolist()


# --- the program ------------------------------------------------------------------------------------------------------


def run(tool, *arguments) -> str:
    done = subprocess.run([str(tool), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{tool} {arguments}: {done.stderr}")
    return done.stdout


def compare_texts(tokamak, gguf_path, tokenizer, name, texts=TEXTS) -> list[str]:
    failures = []
    for text in texts:
        if not text:
            continue
        want = tokenizer(text)["input_ids"]
        got = json.loads(run(tokamak, "tokenize", gguf_path, text, "--json"))["tokens"]
        got = [token["id"] for token in got]
        if want != got:
            failures.append(f"{name}: ids of {text!r}: {got} instead of {want}")
    return failures


def metadata(gguf_path) -> dict:
    reader = gguf.GGUFReader(gguf_path)
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def check_case(name, case, folder, bin_folder, work) -> list[str]:
    tokamak, out = bin_folder / "tokamak", work / f"{name}.gguf"
    run(tokamak, "convert", folder, out, "--outtype", "f32")
    ids = token_ids(case.n_vocab, name)
    want = expected_logits(folder, case.family, ids)
    got = hf.run_engine(bin_folder / "logits_tool", out, "reference", ids, work, threads=1)
    difference = hf.compare(want, got)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    failures = compare_texts(tokamak, out, tokenizer, name)
    keys = metadata(out)
    for key, value in {
        "tokenizer.ggml.pre": case.pre, "tokenizer.chat_template": TEMPLATE,
        "tokenizer.ggml.bos_token_id": tokenizer.bos_token_id, "tokenizer.ggml.eos_token_id": tokenizer.eos_token_id,
    }.items():  # fmt: skip
        if keys.get(key) != value:
            failures.append(f"{name}: {key} is {keys.get(key)!r}, not {value!r}")
    ok = difference.nmse <= BAR
    print(f"{name:18} {'shards' if case.shards else 'file':6} NMSE {difference.nmse:.1e} max {difference.max_abs:.1e} "
          f"top-1 {difference.top1:6.1%} texts {len(TEXTS) - 1 - len([f for f in failures if 'ids of' in f])} of "
          f"{len(TEXTS) - 1} pre {keys.get('tokenizer.ggml.pre')} {'ok' if ok else 'MISSED'}", flush=True)  # fmt: skip
    if not ok:
        failures.append(f"{name}: NMSE {difference.nmse:.2e} > {BAR:.0e}")
    return failures


# --- fixtures ---------------------------------------------------------------------------------------------------------


def expectations(name: str, case: Case, folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    ids = token_ids(case.n_vocab, name)
    logits = expected_logits(folder, case.family, ids)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    facts = {
        "pre": case.pre,
        "bos": tokenizer.bos_token_id,
        "eos": tokenizer.eos_token_id,
        "chat_template": TEMPLATE,
        "texts": [{"text": text, "ids": tokenizer(text)["input_ids"]} for text in TEXTS],
    }
    head = np.array([len(ids), case.n_vocab, *ids], "<i4").tobytes()
    return {
        GOLDEN / f"{name}.json": (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode(),
        GOLDEN / f"{name}.logits": head + logits.astype("<f4").tobytes(),
    }


def same(committed: bytes, fresh: bytes, path: pathlib.Path) -> bool:
    if path.suffix != ".logits":
        return committed == fresh
    n = 8 + 4 * N_TOKENS
    if len(committed) != len(fresh) or committed[:n] != fresh[:n]:
        return False
    return np.allclose(np.frombuffer(committed[n:], "<f4"), np.frombuffer(fresh[n:], "<f4"), rtol=1e-6, atol=1e-6)


def write_fixtures(names: list[str], check: bool) -> list[str]:
    failures = []
    for name in names:
        if not CASES[name].fixture:
            continue
        if not check:
            shutil.rmtree(DATA / name, ignore_errors=True)
            save_folder(DATA / name, name, CASES[name])
        for path, content in expectations(name, CASES[name], DATA / name).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not check:
                path.write_bytes(content)
            elif not path.exists() or not same(path.read_bytes(), content, path):
                failures.append(f"{path.relative_to(ROOT)} is not what convert_oracle.py makes")
    return failures


# --- quantized layouts ------------------------------------------------------------------------------------------------


def dequantized(path, name) -> np.ndarray:
    """A tensor as the gguf package decodes it, times its .scale."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    values = gguf.dequantize(tensors[name + ".weight"].data, tensors[name + ".weight"].tensor_type).astype(np.float32)
    scale = tensors.get(name + ".scale")
    return values if scale is None else values * np.float32(scale.data[0])


def check_layouts(bin_folder: pathlib.Path, work: pathlib.Path) -> list[str]:
    """Codes of each published layout against transformers' own decoders (NVFP4, which transformers cannot load on a
    CPU: against the definition), both decoded by `convert` and kept in the file."""
    from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    folder, n_embd, n_ff = work / "layouts", 256, 384
    case = Case("llama", arch.sizes(n_embd, 4, 2, 64, n_ff, 1, True, **arch.rope(10000.0)), smollm)
    save_folder(folder, "layouts", case)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    g = torch.Generator().manual_seed(7)
    byte = lambda *shape, low=0, high=256: torch.randint(low, high, shape, generator=g, dtype=torch.int64).to(torch.uint8)  # noqa: E731
    layer, want = "model.layers.0.", {}

    codes = byte(n_ff, n_embd, high=0x7F).view(torch.float8_e4m3fn)  # no NaN; the sign by the scale
    scale = torch.randn(3, 2, generator=g, dtype=torch.float32)
    tensors |= {layer + "mlp.gate_proj.weight": codes, layer + "mlp.gate_proj.weight_scale_inv": scale}
    want["blk.0.ffn_gate"] = _dequantize_fp8_weight(codes, scale, [128, 128], torch.float32)

    blocks, scales = byte(n_ff, n_embd // 32, 16), byte(n_ff, n_embd // 32, low=100, high=140)
    del tensors[layer + "mlp.up_proj.weight"]
    tensors |= {layer + "mlp.up_proj.weight_blocks": blocks, layer + "mlp.up_proj.weight_scales": scales}
    want["blk.0.ffn_up"] = convert_moe_packed_tensors(blocks[None], scales[None], dtype=torch.float32)[0].T

    codes, scales = byte(n_embd, n_ff // 2), byte(n_embd, n_ff // 16, high=0x7F).view(torch.float8_e4m3fn)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float32)
    unpacked = values[torch.stack([codes & 15, codes >> 4], -1).long()].reshape(n_embd, n_ff)
    unscaled = unpacked * scales.to(torch.float32).repeat_interleave(16, -1)
    tensors |= {layer + "mlp.down_proj.weight": codes, layer + "mlp.down_proj.weight_scale": scales,
                layer + "mlp.down_proj.weight_scale_2": torch.tensor(0.0123, dtype=torch.float32)}  # fmt: skip
    want["blk.0.ffn_down"] = unscaled * torch.tensor(0.0123, dtype=torch.float32)

    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")
    failures = []
    for out_type in ("f32", "auto"):
        out = work / f"layouts_{out_type}.gguf"
        run(bin_folder / "tokamak", "convert", folder, out, "--outtype", out_type)
        kinds = {t.name: t.tensor_type.name for t in gguf.GGUFReader(out).tensors}
        for name, expected in want.items():
            kind, got = kinds[name + ".weight"], dequantized(out, name)
            exact = expected.to(torch.bfloat16).to(torch.float32) if kind == "BF16" else expected
            wrong = int((got != exact.numpy()).sum())
            print(f"layouts            {name:15} as {kind:6} {got.size - wrong} of {got.size} values equal", flush=True)
            if wrong:
                failures.append(f"{name} as {kind}: {wrong} of {got.size} values differ")
    return failures


# --- a real model -----------------------------------------------------------------------------------------------------


def check_real(model_path: pathlib.Path, bin_folder: pathlib.Path, work: pathlib.Path) -> list[str]:
    """A folder made from a GGUF (weights decoded by the gguf package), converted back."""
    folder, out = work / "real", work / "real.gguf"
    file = hf.GgufModel(gguf.GGUFReader(model_path))
    model = logits_oracle.BUILDERS[file.arch](file)
    backend, _ = tokenizer_oracle.hf_tokenizer(model_path)
    fields = {k: f.contents() for k, f in file.reader.fields.items() if k.startswith("tokenizer.")}
    text_of = lambda role: fields["tokenizer.ggml.tokens"][fields[f"tokenizer.ggml.{role}_token_id"]]  # noqa: E731
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=text_of("bos"), eos_token=text_of("eos"),
        chat_template=fields.get("tokenizer.chat_template"),
    )  # fmt: skip
    family = "gemma3" if file.arch == "gemma3" else "llama"
    model.to(torch.float32).save_pretrained(folder, max_shard_size="200MB")
    tokenizer.save_pretrained(folder)
    del model
    run(bin_folder / "tokamak", "convert", folder, out, "--outtype", "f32")
    ids = tokenizer(" ".join(CORPUS))["input_ids"][:48]
    want = expected_logits(folder, family, ids)
    got = hf.run_engine(bin_folder / "logits_tool", out, "reference", ids, work)
    difference = hf.compare(want, got)
    failures = compare_texts(bin_folder / "tokamak", out, tokenizer, model_path.name)
    pre = metadata(out).get("tokenizer.ggml.pre")
    print(f"{model_path.name}: NMSE {difference.nmse:.1e} max {difference.max_abs:.1e} top-1 {difference.top1:.1%}, "
          f"{len(TEXTS) - 1 - len(failures)} of {len(TEXTS) - 1} texts, pre {pre}")  # fmt: skip
    if difference.nmse > BAR:
        failures.append(f"{model_path.name}: NMSE {difference.nmse:.2e} > {BAR:.0e}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--model", type=pathlib.Path)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    hf.use_float64()
    torch.set_num_threads(1)
    names = [args.only] if args.only else list(CASES)
    failures = write_fixtures(names, args.check)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        for name in names:
            folder = DATA / name if CASES[name].fixture else work / name
            if not CASES[name].fixture:
                save_folder(folder, name, CASES[name])
            failures += check_case(name, CASES[name], folder, args.bin, work)
        if not args.only:
            failures += check_layouts(args.bin, work)
        if args.model:
            failures += check_real(args.model, args.bin, work)
    for failure in failures:
        print("FAILED:", failure)
    print(f"convert_oracle: {len(names)} folders, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
