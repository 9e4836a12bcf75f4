// How Hugging Face checkpoints spell the families of architectures.cpp: one row per class, read by convert/.
// A family's differences are data here; what the values mean is in convert/README.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tokamak::arch {

// The sizes that shapes are made of; q and kv are heads times head_dim.
enum class Dim : uint8_t { none, vocab, embd, q, kv, ff, head };

enum class WeightChange : uint8_t {
  none,
  rope_pairs,  // rows of each head from [x..., y...] to [x0, y0, x1, y1, ...]: the engine rotates neighbours
  add_one,     // the class computes with 1 + w, the file holds the sum
};

// One weight, and its bias or none: the names are without ".weight".
struct CheckpointTensor {
  std::string_view hf, gguf;  // "{}" stands for the layer's number
  Dim rows, cols = Dim::none;
  WeightChange change = WeightChange::none;
};

enum class KeyType : uint8_t { u32, f32 };

// A number of config.json and the metadata key it becomes.
struct CheckpointKey {
  std::string_view config, gguf;  // gguf: without the architecture's prefix
  KeyType type;
  bool optional = false;  // absent or null: no key
};

// What the class assumes for a number that config.json leaves out.
struct ConfigDefault {
  std::string_view config;
  double value;
};

struct NameChange {
  std::string_view from, to;  // beginnings of tensor names
};

enum class Windows : uint8_t {
  none,           // attention is always full
  every_layer,    // sliding_window holds for all layers
  by_layer_type,  // for the layers that layer_types calls sliding_attention
};

struct CheckpointFamily {
  std::string_view hf_class;      // config.json: architectures[0]
  std::string_view architecture;  // row of architectures.cpp
  std::string_view activation;    // config.json: hidden_act or hidden_activation
  std::string_view section;       // of config.json that describes the text model; empty: the whole
  std::span<const ConfigDefault> defaults;
  std::span<const CheckpointTensor> tensors;
  std::span<const NameChange> renames;        // before the names are looked up
  std::span<const std::string_view> ignored;  // beginnings of names of parts that the engine does not run
  bool tied;                                  // default of tie_word_embeddings
  double rope_theta;                          // default
  bool rope_by_layer_type = false;            // one rope for full and one for sliding layers
  Windows windows = Windows::none;
  int64_t window_period = 0;  // without layer_types: every n-th layer is full
  // Every n-th layer has no rope (part of the recipe), and without layer_types it is the sliding one; 0: all have rope.
  int64_t nope_interval = 0;
  std::string_view pre_names;  // preferred values of tokenizer.ggml.pre among equal ones
};

std::span<const CheckpointFamily> checkpoint_families();
const CheckpointFamily* find_checkpoint_family(std::string_view hf_class);  // null: unknown
std::span<const CheckpointKey> checkpoint_keys();

}  // namespace tokamak::arch
