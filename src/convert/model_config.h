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

using KeyValue = std::variant<uint32_t, float, std::string, std::vector<bool>>;

struct MetadataKey {
  std::string name;  // whole, with the architecture's prefix
  KeyValue value;
};

struct ModelConfig {
  const arch::CheckpointFamily* family = nullptr;
  int64_t n_vocab = 0, n_ctx = 0, n_embd = 0, n_layer = 0, n_ff = 0, n_head = 0, n_head_kv = 0, head_dim = 0;
  bool tied = false;
  TileSize fp8_tile;
  std::vector<MetadataKey> keys;
  std::vector<float> rope_factors;  // divisors of the angles, one per rotated pair; empty: none

  int64_t dim(arch::Dim dim) const;  // of a tensor; Dim::none is CHECKed
};

// Errors: unsupported (a class or a feature that the engine does not have, naming it), bad_metadata.
Result<ModelConfig> read_model_config(const Json& config, const std::string& where);

void add_key(GgufWriter& writer, const MetadataKey& key);
std::string key_text(const KeyValue& value);  // for people

}  // namespace tokamak::convert
