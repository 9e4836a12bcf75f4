// Models split over several files: NAME-00001-of-00003.gguf and so on. Keys split.no (from 0), split.count and
// split.tensors.count stand in every part; the first part has the metadata and may hold no tensor.
// Source: the GGUF specification (ggml-org/ggml, docs/gguf.md), file names; the keys as gguf-split writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/mapped_file.h"
#include "base/result.h"
#include "gguf/validate.h"

namespace tokamak {

inline constexpr std::string_view kSplitNoKey = "split.no", kSplitCountKey = "split.count",
                                  kSplitTensorsKey = "split.tensors.count";
inline constexpr uint32_t kMaxSplitParts = 65535;

struct SplitKeys {
  uint32_t part_idx = 0;
  uint32_t n_parts = 1;  // 1: not split
};

// Errors: bad_metadata when the keys have a wrong type or contradict each other.
Result<SplitKeys> read_split_keys(const GgufPart& part);

// Path without "-00001-of-00003.gguf". Errors: bad_file when the file name does not say what the keys say.
Result<std::string> split_prefix(const std::filesystem::path& path, const SplitKeys& keys, const std::string& name);

// prefix + "-%05d-of-%05d.gguf", counting from 1.
std::filesystem::path split_part_path(const std::string& prefix, uint32_t part_idx, uint32_t n_parts);

// Errors: not_found as one sentence saying which part is missing.
Result<MappedFile> open_split_part(const std::filesystem::path& path, uint32_t part_idx, uint32_t n_parts);

// Compares the parts' split keys with each other while they are opened in order.
class SplitCheck {
 public:
  explicit SplitCheck(uint32_t n_parts) : n_parts_(n_parts) {}
  Result<void> add(const GgufPart& part, uint32_t part_idx);
  Result<void> finish() const;  // after the last part

 private:
  uint32_t n_parts_;
  uint64_t n_tensors_ = 0;           // seen so far
  uint64_t n_tensors_declared_ = 0;  // by the first part
  std::string first_where_;
};

}  // namespace tokamak
