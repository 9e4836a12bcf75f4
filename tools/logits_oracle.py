#!/usr/bin/env python3
"""Logits of real GGUF models against transformers in float64 holding the same dequantized weights.

    logits_oracle.py MODEL.gguf... [--check] [--bin build/release/bin] [--threads N] [--backends reference,cpu]

Two tests per model: a 64-token prompt and then 64 tokens one by one, and 512 positions at once. Prints one row per run.
The reference backend must be exact, the cpu backend within CPU_NMSE and CPU_TOP1 with its default 15-bit activations. With
8-bit ones (--activations int8) the rounding itself costs more than that: transformers with nothing but that rounding gives
the floor, and the backend may not be clearly worse (ABOVE_FLOOR). Exit status 1 when one of these fails.
--check changes nothing, there is no file to compare with.
Needs: the packages of tools/requirements.txt and the built logits_tool and tokenize_tool.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import gguf
import torch
import transformers

import hf_reference as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
N_PROMPT, N_DECODE, N_LONG = 64, 64, 512
REFERENCE_NMSE = 1e-9
CPU_NMSE, CPU_TOP1 = 1e-5, 0.98  # with int16 activations; the project asks for 1e-3
ABOVE_FLOOR = 1.5  # two sums of independent rounding errors of the same size, over few hundred positions
RUNS = [("reference", "f32", "int16"), ("cpu", "f32", "int16"), ("cpu", "f16", "int16"), ("cpu", "f16", "int8")]

TEXT = """The lighthouse at the end of the bay had been dark for eleven years when Mara came back to the island. She walked
up from the ferry with one bag and a key that no longer fitted any door in the village, and the first thing she did was
count the windows of the tower: nine on the seaward side, seven towards the land, all of them blind with salt.

"You'll want the generator," said the man at the harbour office. He did not look up from his newspaper. "Diesel comes on
Thursdays. If the weather holds, that is. In February it didn't hold for three weeks."

She thanked him and wrote it down. Her list for the first day was short: water, light, a place to sleep, and a way to
tell the mainland that she had arrived. By evening she had managed two of the four. The cistern was clean, and the old
stove still drew well enough to boil a kettle. The radio, however, gave nothing but a steady hiss on every channel
between 2 and 30 MHz, and the bulb in the lamp room was the size of a melon and broken in half.

How does a lighthouse lens work? A Fresnel lens is a stack of glass prisms. Each ring bends the light of the lamp by a
different angle, so that all of it leaves the tower as one flat beam. A lens of the first order has a focal length of
920 millimetres and weighs more than two tonnes; it floats in a bath of mercury and can be turned with one finger. The
number of flashes per minute tells a sailor which tower he is looking at: two flashes every ten seconds here, one every
five seconds on the northern point.

On the second day she wrote a small program to keep the timing:

def flashes(period_s, on_s, count):
    for i in range(count):
        start = i * (on_s + 0.5)
        yield start, start + on_s
    # the rest of the period is dark
    assert count * (on_s + 0.5) <= period_s

print(list(flashes(10.0, 0.3, 2)))  # [(0.0, 0.3), (0.8, 1.1)]

It was more than the old clockwork had ever needed, but the clockwork had been sold in 1998 to a museum in Lisbon, or so
the newspaper said. Er hat es nie bestätigt, und niemand auf der Insel fragte nach. On the third night the fog came in,
and for the first time in eleven years something moved on the water: a white beam, thin at first, then steady, crossing
the bay from left to right like the hand of a patient clock. In the village, one after another, the lights went on. The
man from the harbour office stood in his doorway for a long while. Then he folded his newspaper, put on his coat, and
began to walk up the hill, because somebody, he thought, would have to show her where the spare fuses were kept.
"""


def token_ids(tool: pathlib.Path, model: pathlib.Path, file: hf.GgufModel) -> list[int]:
    text = TEXT.encode()
    out = subprocess.run([tool, model], input=b"%d\n" % len(text) + text, capture_output=True, check=True).stdout
    ids = [int(word) for word in out.decode().split("\t")[0].split()]
    bos = file.reader.fields.get("tokenizer.ggml.bos_token_id")
    if file.arch == "gemma3" and bos is not None:
        ids.insert(0, int(bos.contents()))
    if len(ids) < N_LONG:
        raise SystemExit(f"the text has only {len(ids)} tokens")
    return ids[:N_LONG]


def build_llama(file: hf.GgufModel):
    head_dim = file.get("embedding_length") // file.get("attention.head_count")
    config = transformers.LlamaConfig(
        head_dim=file.get("attention.key_length", head_dim),
        tie_word_embeddings=not file.has("output.weight"),
        rope_parameters=dict(rope_type="default", rope_theta=file.get("rope.freq_base", 10000.0)),
        **common_config(file),
    )
    return hf.load_model(transformers.LlamaForCausalLM, config, file.state_dict())


def build_gemma3(file: hf.GgufModel):
    default = dict(rope_type="default")
    config = transformers.Gemma3TextConfig(
        head_dim=file.get("attention.key_length"),
        query_pre_attn_scalar=file.get("attention.key_length"),
        sliding_window=file.get("attention.sliding_window"),
        tie_word_embeddings=True,
        rope_parameters=dict(
            sliding_attention=default | dict(rope_theta=10000.0),
            full_attention=default | dict(rope_theta=file.get("rope.freq_base")),
        ),
        **common_config(file),
    )
    return hf.load_model(transformers.Gemma3ForCausalLM, config, file.state_dict())


def common_config(file: hf.GgufModel) -> dict:
    return dict(
        vocab_size=file.n_vocab,
        hidden_size=file.get("embedding_length"),
        intermediate_size=file.get("feed_forward_length"),
        num_hidden_layers=file.get("block_count"),
        num_attention_heads=file.get("attention.head_count"),
        num_key_value_heads=file.get("attention.head_count_kv"),
        max_position_embeddings=file.get("context_length"),
        rms_norm_eps=file.get("attention.layer_norm_rms_epsilon"),
        pad_token_id=None,
    )


BUILDERS = {"llama": build_llama, "gemma3": build_gemma3}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def cells(d: hf.Difference) -> list[str]:
    return [f"{d.nmse:.2e}", f"{d.worst_nmse:.1e}", f"{d.top1:.2%}", f"{d.lost_margin:.2f}", f"{d.max_abs:.2g}"]


def verdict(backend: str, activations: str, d: hf.Difference, floor: hf.Difference) -> tuple[bool, str]:
    if backend == "reference":
        ok = d.nmse <= REFERENCE_NMSE
        return ok, "exact" if ok else f"FAILED: NMSE > {REFERENCE_NMSE:.0e}"
    if activations == "int8":
        ok = d.nmse <= ABOVE_FLOOR * floor.nmse
        return ok, "at the int8 floor" if ok else f"FAILED: NMSE > {ABOVE_FLOOR} * floor"
    failed = [f"NMSE > {CPU_NMSE:.0e}"] * (d.nmse > CPU_NMSE) + [f"top-1 < {CPU_TOP1:.0%}"] * (d.top1 < CPU_TOP1)
    return not failed, "FAILED: " + ", ".join(failed) if failed else "as wanted"


def check_model(path: pathlib.Path, args, work: pathlib.Path) -> int:
    file = hf.GgufModel(gguf.GGUFReader(path))
    ids = token_ids(args.bin / "tokenize_tool", path, file)
    model, n_failed = BUILDERS[file.arch](file), 0
    for mode, n, n_prompt in [("64 + 64 one by one", N_PROMPT + N_DECODE, N_PROMPT), ("prefill 512", N_LONG, None)]:
        exact = hf.logits_of(model, ids[:n], n_prompt)
        with hf.int8_activations(model, file.integer_layers()):
            floor = hf.compare(exact, hf.logits_of(model, ids[:n]))
        row(path.stem, "float64 with int8 activations", mode, *cells(floor), "floor")
        for backend, kv, activations in RUNS:
            if backend not in args.backends:
                continue
            tool = args.bin / "logits_tool"
            actual = hf.run_engine(
                tool, path, backend, ids[:n], work, n_prompt=n_prompt, kv=kv, threads=args.threads, activations=activations
            )
            d = hf.compare(exact, actual)
            ok, words = verdict(backend, activations, d, floor)
            codes = "" if backend == "reference" else f", {activations}"
            row(path.stem, f"{backend}, KV {kv}{codes}", mode, *cells(d), words)
            n_failed += not ok
    return n_failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL.gguf")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--backends", default="reference,cpu")
    args = parser.parse_args()
    hf.use_float64()
    if args.threads:
        torch.set_num_threads(args.threads)
    row("model", "run", "tokens", "NMSE", "worst position", "top-1 equal", "margin lost", "max abs", "")
    row(*["---"] * 9)
    with tempfile.TemporaryDirectory() as work:
        n_failed = sum(check_model(path, args, pathlib.Path(work)) for path in args.models)
    print(f"logits_oracle: {len(args.models)} models, {n_failed} failures")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
