// How often each fusion rule fires for a model on a device, and what fusing does to its logits.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace tokamak {

// Key of a count: the file and not the family, so that dense and expert variants do not share one.
struct FusionRow {
  std::string model;  // file name without .gguf
  bool has_experts = false;
  std::string mode;  // prefill, decode, or any: the same in both
  std::string label;
  uint64_t count = 0;  // per graph
  friend auto operator<=>(const FusionRow&, const FusionRow&) = default;
};

inline constexpr size_t kFusionPrefill = 32, kFusionDecode = 16;  // tokens
inline constexpr double kFusionTolerance = 1e-4;                  // largest NMSE
inline constexpr std::array<std::string_view, 2> kFusionModes = {"prefill", "decode"};

// NMSE over all logits.
struct FusionErrors {
  double to_unfused = 0, to_reference = 0;
};

struct FusionRun {
  std::string model, arch;
  bool has_experts = false;
  bool is_plain = false;                 // all weights F32, F16 or BF16: then to_reference is held to the tolerance
  std::array<FusionErrors, 2> errors{};  // by mode
  std::vector<FusionRow> rows;           // sorted
};

struct FusionOptions {
  std::string device = "cpu";  // a backend
  std::string isa = "auto";
  int64_t n_threads = 0;
  uint64_t seed = 1;  // of the tokens
};

// Three sessions: fused and unfused on the device, and the reference; each prefills 32 random tokens in one graph with
// all logits and decodes 16 more one by one. Errors: those of opening and running the model.
Result<FusionRun> run_fusion(const std::filesystem::path& path, const FusionOptions& options);

// What is wrong with the errors of a run, one sentence per excess.
std::vector<std::string> excesses(const FusionRun& run);

}  // namespace tokamak
