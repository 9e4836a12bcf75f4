// The weights of a Hugging Face checkpoint folder: one safetensors file, or several with an index.
// Goal: whoever holds a Checkpoint may trust every shape and every span in it. Non-goals: what the tensors mean.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "safetensors/header.h"

namespace tokamak {

// Views live as long as the Checkpoint; moving it keeps them valid. Thread-safe after opening: immutable.
class Checkpoint {
 public:
  // model.safetensors, or else every shard that model.safetensors.index.json names.
  // Errors: not_found (no weights, naming what is there instead; a shard that the index names), those of
  // validate_safetensors, bad_file (an index that is malformed or names files elsewhere), bad_tensor (a tensor that
  // its shard lacks, or that two shards hold).
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // sorted by name
  const SafetensorsTensor* find(std::string_view name) const;              // null: no such tensor
  const std::vector<std::filesystem::path>& files() const { return paths_; }
  // "model-00001-of-00002.safetensors: tensor 'NAME'", for messages.
  std::string where(const SafetensorsTensor& tensor) const;
  // The tensor's pages may leave memory.
  void forget(const SafetensorsTensor& tensor) const { maps_[tensor.file].forget(tensor.data); }
  uint64_t n_bytes() const;  // of all files

 private:
  Result<void> add_file(const std::filesystem::path& path);
  Result<void> sort_names();

  std::vector<std::filesystem::path> paths_;
  std::vector<MappedFile> maps_;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace tokamak
