// Runs a plan: a new model file (or the same split of files) appears whole, or nothing does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "quantize/plan.h"

namespace tokamak {

struct QuantizeRun {
  std::filesystem::path out;             // with keep_split what the parts' names begin with
  std::vector<std::string> override_kv;  // "KEY=TYPE:VALUE"
  bool keep_split = false;               // as many parts as the source has
  int n_threads = 1;
  std::function<bool(double fraction)> progress;  // 0 to 1; false: stop with `cancelled`
};

// The files that a run writes: `out`, or the parts.
std::vector<std::filesystem::path> output_paths(const GgufFile& file, const QuantizeRun& run);

// Memory: two chunks of 4 million weights and a row per thread; the source is mapped, and its pages are given back.
// Call check_not_same_file for each output first. Errors: bad_tensor (inf or NaN: tensor
// and row), those of add_metadata, OutputFile and ThreadPool::create, cancelled.
Result<void> quantize(const GgufFile& file, const Plan& plan, const QuantizeOptions& options, const QuantizeRun& run);

}  // namespace tokamak
