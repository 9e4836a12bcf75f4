// The table of backends this build contains.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/split/backend.h"

namespace tokamak {

struct BackendOptions {
  std::string isa = "auto";
  int64_t n_threads = 0;              // 0: one per usable core
  std::string activations = "int16";  // cpu: int8 or int16
  bool only_plan = false;             // memory is worked out, not taken, and nothing can be run (cpu, cuda)
  // cuda: what does not fit stays on the CPU, and load() comes before make_kv(). None: everything on the GPU.
  std::optional<split::SplitOptions> split;
};

struct BackendRow {
  std::string_view name;
  std::string_view meaning;
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
};

std::span<const BackendRow> backend_table();
// bad_argument naming the known ones when there is no such backend.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options);

}  // namespace tokamak
