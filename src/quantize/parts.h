// Models as several files: which tensor goes where, and files that appear together or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace tokamak {

struct PartFile {
  std::filesystem::path path;
  GgufWriter writer;
};

// Writes every file beside its target, one open at a time, and renames them all when the last is on the disk: an error
// before that leaves no trace. Errors: those of the writers and of OutputFile.
Result<void> write_together(const std::vector<PartFile>& parts);

// split.no, split.count and split.tensors.count.
void add_split_keys(GgufWriter& writer, size_t part_idx, size_t n_parts, size_t n_tensors);

// "dir/name.gguf" -> "dir/name": what part names begin with.
std::string part_prefix(const std::filesystem::path& path);

struct SplitLimits {
  uint64_t max_tensors = 128;    // per part; 0: no limit
  uint64_t max_bytes = 0;        // of tensor data per part; 0: no limit. One larger tensor gets a part of its own
  bool no_tensor_first = false;  // the first part holds only metadata
};

// Part by part the indices of the tensors, in file order.
std::vector<std::vector<size_t>> divide(std::span<const GgufTensor> tensors, const SplitLimits& limits);

using PartsProgress = std::function<bool(double fraction)>;  // false: stop with `cancelled`

// OUT_PREFIX-00001-of-0000N.gguf and so on. Errors: bad_argument (more than 65,535 parts; an output is an input).
Result<void> split_model(const GgufFile& file, const std::vector<std::vector<size_t>>& parts,
                         const std::string& out_prefix, const PartsProgress& progress);

// One file of all parts' tensors and the first part's metadata.
Result<void> merge_model(const GgufFile& file, const std::filesystem::path& out, const PartsProgress& progress);

// bad_argument when `out` is one of the files that `file` was opened from as `in` (links and other spellings too).
Result<void> check_not_same_file(const std::filesystem::path& in, const GgufFile& file,
                                 const std::filesystem::path& out);

}  // namespace tokamak
