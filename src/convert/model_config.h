// config.json -> sizes and GGUF metadata of the model.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "arch/checkpoint_names.h"
#include "base/result.h"
#include "convert/config_reader.h"
#include "convert/weight.h"
#include "gguf/writer.h"

namespace tokamak::convert {

using KeyValue = std::variant<uint32_t, float, bool, std::string, std::vector<bool>, std::vector<int32_t>>;

struct MetadataKey {
  std::string name;  // whole, with the architecture's prefix
  KeyValue value;
};

// Divisors of the angles, one per rotated pair, and the tensor that holds them.
struct RopeFactors {
  std::string tensor;
  std::vector<float> values;
};

// Sizes that a family has no use for are 0.
struct ModelConfig {
  const arch::CheckpointFamily* family = nullptr;
  int64_t n_vocab = 0, n_ctx = 0, n_embd = 0, n_layer = 0, n_ff = 0, n_head = 0, n_head_kv = 0, head_dim = 0;
  int64_t n_rot = 0;
  int64_t n_expert = 0, n_expert_used = 0, expert_ff = 0, n_shared_expert = 0, shared_ff = 0;
  int64_t q_lora = 0, kv_lora = 0, nope_dim = 0, rope_dim = 0, mla_v_dim = 0;
  int64_t n_key_head = 0, n_value_head = 0, key_head_dim = 0, value_head_dim = 0, conv_kernel = 0;
  std::vector<bool> has_experts, is_recurrent;  // per layer
  bool tied = false;
  int64_t n_extra_layers = 0;  // next-token blocks behind the layers
  TileSize fp8_tile;
  std::vector<MetadataKey> keys;
  std::vector<RopeFactors> rope_factors;

  int64_t dim(arch::Dim dim) const;  // Dim::none is CHECKed
  bool has(uint8_t parts) const { return (family->parts & parts) == parts; }
  bool has_layer(arch::LayerSet layers, int64_t layer_idx) const;
  void add(std::string_view key, KeyValue value);  // key: without the architecture's prefix
};

// Errors: unsupported (a class or a feature that the engine does not have, naming it), bad_metadata.
Result<ModelConfig> read_model_config(const Json& config, const std::string& where);

void add_key(GgufWriter& writer, const MetadataKey& key);
std::string key_text(const KeyValue& value);  // for people

}  // namespace tokamak::convert
