"""A tiny random llama with the tokenizer and chat template of a real model: soak and fuzz runs of `tokamak serve` spend their
time in the server, not in matrices.
Usage: server_tiny_model.py REAL.gguf OUT.gguf
"""

import sys

import gguf
import numpy as np

N_EMBD, N_LAYER, N_HEAD, N_FF, N_CTX = 64, 2, 2, 128, 2048


def main():
    real, out = sys.argv[1:]
    reader = gguf.GGUFReader(real)
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name("tiny")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_block_count(N_LAYER)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(N_EMBD // N_HEAD)
    for field in reader.fields.values():
        if field.name.startswith("tokenizer."):
            kind = field.types[0]
            sub = field.types[1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub)
    n_vocab = len(reader.fields["tokenizer.ggml.tokens"].data)
    writer.add_vocab_size(n_vocab)
    numbers = np.random.default_rng(1)

    def add(name, *shape):
        scale = 1.0 if len(shape) == 1 else shape[-1] ** -0.5
        values = np.ones(shape) if len(shape) == 1 else numbers.standard_normal(shape) * scale
        writer.add_tensor(name, values.astype(np.float32 if len(shape) == 1 else np.float16))

    add("token_embd.weight", n_vocab, N_EMBD)
    add("output_norm.weight", N_EMBD)
    for i in range(N_LAYER):
        for norm in ("attn_norm", "ffn_norm"):
            add(f"blk.{i}.{norm}.weight", N_EMBD)
        for part in ("q", "k", "v", "output"):
            add(f"blk.{i}.attn_{part}.weight", N_EMBD, N_EMBD)
        add(f"blk.{i}.ffn_gate.weight", N_FF, N_EMBD)
        add(f"blk.{i}.ffn_up.weight", N_FF, N_EMBD)
        add(f"blk.{i}.ffn_down.weight", N_EMBD, N_FF)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
