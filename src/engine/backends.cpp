#include "engine/backends.h"

#include <fmt/format.h>

#include "backend/cpu/backend.h"
#include "backend/reference/backend.h"
#ifdef TOKAMAK_CUDA
#include "backend/cuda/backend.h"
#endif

namespace tokamak {

namespace {
Result<std::unique_ptr<Backend>> make_cpu(const BackendOptions& options) {
  return make_cpu_backend({.isa = options.isa,
                           .n_threads = options.n_threads,
                           .activations = options.activations,
                           .backing = options.only_plan ? Backing::addresses : Backing::memory});
}
Result<std::unique_ptr<Backend>> make_reference(const BackendOptions&) { return make_reference_backend(); }

// In every build, so that the same commands are known everywhere.
Result<std::unique_ptr<Backend>> make_cuda([[maybe_unused]] const BackendOptions& options) {
#ifdef TOKAMAK_CUDA
  if (!options.split) return make_cuda_backend();
  const uint64_t max_bytes = options.split->max_bytes;
  std::vector<std::unique_ptr<Backend>> gpus =
      options.only_plan ? TRY(make_planning_cuda_backends(max_bytes > 0 ? max_bytes + split::kReserveBytes : 0))
                        : TRY(make_cuda_backends());
  std::vector<split::Child> children;
  for (size_t i = 0; i < gpus.size(); ++i)
    children.push_back({gpus.size() == 1 ? "GPU" : fmt::format("GPU {}", i), std::move(gpus[i])});
  children.push_back({"CPU", TRY(make_cpu(options))});
  return make_split_backend(std::move(children), *options.split);
#else
  return Error{.code = ErrorCode::unsupported,
               .what = "this build has no CUDA backend",
               .where = "--backend cuda",
               .hint = "build with `cmake --preset cuda` (see CONTRIBUTING.md), or use --backend cpu"};
#endif
}

constexpr auto kBackends = std::to_array<BackendRow>({
    {"cpu", "packed weights and integer kernels on this machine's vector units", make_cpu},
    {"reference", "plain loops with f64 accumulation: slow, defines what every op means", make_reference},
    {"cuda", "an NVIDIA GPU; what does not fit there runs on the CPU", make_cuda},
});
}  // namespace

std::span<const BackendRow> backend_table() { return kBackends; }

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options) {
  std::string known;
  for (const BackendRow& row : kBackends) {
    if (row.name == name) return row.make(options);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("there is no backend '{}'", name),
               .where = "--backend",
               .hint = "known: " + known};
}

}  // namespace tokamak
