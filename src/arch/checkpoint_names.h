// How Hugging Face checkpoints spell the families of architectures.cpp: one row per class, read by convert/.
// A family's differences are data here; what the values mean is in convert/README.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "arch/gating.h"

namespace tokamak::arch {

// The sizes that shapes are made of. A weight with a size that is 0 in some model is no part of that model.
enum class Dim : uint8_t {
  none,
  vocab,
  ctx,
  embd,
  head,     // head_dim
  n_head,   // query heads
  n_group,  // key-value heads
  q,        // n_head * head
  kv,       // n_group * head
  q_gated,  // 2 q: each head's queries and its gate
  qkv,      // q + 2 kv
  ff,
  ff_twice,
  n_expert,
  expert_ff,
  expert_ff_twice,
  shared_ff,
  shared_ff_twice,
  // latent attention
  q_lora,
  kv_lora,
  kv_lora_rope,  // latent values and the shared rotated ones
  mla_q,         // n_head * (nope + rope), with q_lora
  mla_q_direct,  // the same, without q_lora
  mla_nope_v,    // of one head: keys without rope, values
  mla_out,       // n_head * v
  // delta net
  n_value_head,
  n_value_head_twice,
  delta_value,  // n_value_head * their width
  delta_qkv,    // keys, queries and values
  delta_qkvz,   // and the gate
  value_head,   // width of a value head
  conv_kernel,
  // of keys alone
  n_layer,
  n_kv_cached,  // key-value heads of the cache
  k_cached,     // their widths
  v_cached,
  mla_k,  // nope + rope
  mla_v,
  n_expert_used,
  n_shared_expert,
  n_key_head,
  key_head,
};

// Which values of the checkpoint's tensor are the GGUF's, in which order.
enum class WeightOrder : uint8_t {
  as_is,
  rope_pairs,  // rows of each head from [x..., y...] to [x0, y0, x1, y1, ...]: the engine rotates neighbours
  transposed,
  first_half,  // of the rows: the gate of a fused gate and up
  second_half,
  transposed_first_half,
  transposed_second_half,
  even,  // rows
  odd,
  transposed_even,
  transposed_odd,
  qkv_by_group,        // rows from [q..., k, v] per key-value head to all q, all k, all v
  head_keys,           // of each head the rows of the keys, transposed
  head_values,         // of each head the rows of the values
  key_head_qkv,        // rows from [q, k, v, z] per key head to all q, all k, all v
  key_head_gate,       // z of the same
  value_heads,         // rows from "all value heads of a key head" to "of every key head the n-th value head"
  value_heads_of_qkv,  // the same for the rows behind q and k
  value_head_columns,  // the same for columns
};

enum class ValueChange : uint8_t {
  none,
  add_one,    // the class computes with 1 + w, the file holds the sum
  minus_exp,  // the class computes with -exp(w), the file holds that
};

// The layers that have a weight.
enum class LayerSet : uint8_t { all, dense, moe, attention, recurrent };

// One weight, and its bias or none: the names are without ".weight". In hf "{}" stands for the layer's number, and a
// second "{}" for the expert's: those are stacked. Neighbours with one gguf name are alternatives, the first that the
// checkpoint has is taken.
struct CheckpointTensor {
  std::string_view hf, gguf;
  Dim rows, cols = Dim::none;  // of one matrix of the checkpoint; cols none: a vector
  ValueChange change = ValueChange::none;
  WeightOrder order = WeightOrder::as_is;
  Dim matrices = Dim::none;  // how many; none: one, without a dimension
  LayerSet layers = LayerSet::all;
  bool optional = false;
  bool is_small = false;                // F32 in every file though it is no vector
  bool bare = false;                    // in the checkpoint without ".weight"
  std::string_view ending = ".weight";  // in the GGUF
};

enum class KeyType : uint8_t { u32, f32, boolean };

// Parts that a family has or not, as bits. A key with such bits belongs to families that have all of them.
enum Parts : uint8_t {
  kAnyParts = 0,
  kExperts = 1,
  kLatentAttention = 2,
  kDeltaNet = 4,
  kRope = 8,
  kPlainAttention = 16
};

// A size and the metadata key that holds it.
struct SizeKey {
  Dim dim;
  std::string_view gguf;  // without the architecture's prefix
  uint8_t parts = kAnyParts;
  bool if_present = false;  // 0: no key
};

// A number of config.json and the metadata key it becomes. Absent, null or without default: no key.
struct CheckpointKey {
  std::string_view config, gguf;
  KeyType type;
  uint8_t parts = kAnyParts;
};

// A number or flag (0 or 1) of config.json: what the class assumes when it is left out, or what it must be.
struct ConfigValue {
  std::string_view config;
  double value;
};

// Another spelling of a field of config.json; empty: the class has no such field.
struct FieldName {
  std::string_view field, spelled;
};

struct NameChange {
  std::string_view from, to;  // beginnings of tensor names
};

enum class Windows : uint8_t {
  none,           // attention is always full
  every_layer,    // sliding_window holds for all layers
  by_layer_type,  // for the layers that layer_types calls sliding_attention
  if_used,        // the same, when use_sliding_window says so
  chunks,         // layer_types says chunked_attention, attention_chunk_size how long a chunk is
};

struct CheckpointFamily {
  std::string_view hf_class;      // config.json: architectures[0]
  std::string_view architecture;  // row of architectures.cpp
  std::string_view activation;    // config.json: hidden_act or hidden_activation; several: separated by spaces
  std::string_view section;       // of config.json that describes the text model; empty: the whole
  std::span<const ConfigValue> defaults;
  std::span<const CheckpointTensor> tensors;
  std::span<const ConfigValue> required;      // other values of these fields are refused
  std::span<const FieldName> fields;          // this class's own spelling
  std::span<const NameChange> renames;        // before the names are looked up
  std::span<const std::string_view> ignored;  // beginnings of names of parts that the engine does not run
  bool tied = false;                          // default of tie_word_embeddings
  uint8_t parts = kRope | kPlainAttention;
  bool layer_norm = false;          // norms subtract the mean and may have biases
  double rope_theta = 10000;        // default
  double partial_rotary = 0;        // default share of a head that is rotated; 0: all of it, config.json must agree
  bool rope_by_layer_type = false;  // one rope for full and one for sliding layers
  double rope_theta_local = 0;      // default of the latter; 0: as the other
  bool yarn_rounded = true;         // YaRN's range is rounded outwards
  double yarn_log = 0;              // yarn_log_multiplier is this times mscale_all_dim; 0: no such key
  Windows windows = Windows::none;
  int64_t window_period = 0;  // without layer_types: every n-th layer is full
  // Every n-th layer has no rope (part of the recipe), and without layer_types it is the sliding one; 0: all have rope.
  int64_t nope_interval = 0;
  Gating router = Gating::none;
  int64_t ff_per_embd = 0;     // default of intermediate_size, in hidden sizes
  std::string_view pre_names;  // preferred values of tokenizer.ggml.pre among equal ones
};

std::span<const CheckpointFamily> checkpoint_families();
const CheckpointFamily* find_checkpoint_family(std::string_view hf_class);  // null: unknown
std::span<const SizeKey> size_keys();
std::span<const CheckpointKey> checkpoint_keys();
std::span<const FieldName> field_names();  // spellings of any class

}  // namespace tokamak::arch
