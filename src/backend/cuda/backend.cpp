#include "backend/cuda/backend.h"

#include "backend/cuda/device.h"
#include "backend/cuda/lower.h"
#include "backend/cuda/profile.h"
#include "backend/cuda/program.h"
#include "backend/lowering/passes.h"

namespace tokamak {

namespace cuda {
namespace {

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return device().description(); }

  std::optional<uint64_t> free_bytes() const override { return device().free_bytes(); }
  Result<uint64_t> load_bytes(const ir::Graph& graph, const WeightLookup& lookup) const override {
    return CudaWeights::bytes_of(graph, lookup);
  }
  bool has_kernel(const ir::Graph& graph, ir::NodeId node) const override {
    return missing_kernel(graph, graph.node(node)).empty();
  }
  std::optional<Error> lost() const override { return device().lost(); }

  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    TRY(check_lowerings(graph));
    return std::unique_ptr<Weights>(TRY(CudaWeights::load(graph, lookup, progress, device())));
  }

  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override {
    return std::unique_ptr<KvCache>(TRY(CudaKv::create(config, device())));
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    if (options.matmul_observer)
      return Error{.code = ErrorCode::unsupported,
                   .what = "the cuda backend cannot show the inputs of products",
                   .where = graph.name,
                   .hint = "use --backend cpu"};
    TRY(check_lowerings(graph));
    TRY(device().use());  // which kernels there are is asked of the current device
    const ir::Plan plan = TRY(lowering::prepare(graph, supports_rule, options, stats_));
    auto& cuda_kv = dynamic_cast<CudaKv&>(kv);
    auto program = std::make_unique<CudaProgram>(std::move(graph), cuda_kv);
    Lowering lowering(program->graph(), plan, dynamic_cast<const CudaWeights&>(weights), cuda_kv, program->inputs(),
                      options.batch_invariant);
    for (const ir::Group& group : program->graph().groups) TRY(lowering.lower(group));
    std::vector<OutputCopy> outputs = lowering.make_outputs();
    TRY(program->set_steps(lowering.take_steps(), std::move(outputs), lowering.take_constants(),
                           lowering.arena_bytes()));
    return std::unique_ptr<Program>(std::move(program));
  }

  fuse::Stats& fusion_stats() override { return stats_; }
  Result<std::optional<DeviceLimits>> measure_limits() override {
    return std::optional<DeviceLimits>(TRY(measure_device_limits(device())));
  }

 private:
  Device& device() const { return *device_; }

  std::unique_ptr<Device> device_;
  fuse::Stats stats_;
};

}  // namespace
}  // namespace cuda

namespace {
std::vector<std::unique_ptr<Backend>> backends_of(std::vector<std::unique_ptr<cuda::Device>> devices) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::unique_ptr<cuda::Device>& device : devices)
    backends.push_back(std::make_unique<cuda::CudaBackend>(std::move(device)));
  return backends;
}
}  // namespace

Result<std::vector<std::unique_ptr<Backend>>> make_cuda_backends() { return backends_of(TRY(cuda::open_devices())); }

Result<std::vector<std::unique_ptr<Backend>>> make_planning_cuda_backends(uint64_t imagined_bytes) {
  auto devices = cuda::open_devices(true);
  if (!devices && imagined_bytes == 0) {
    devices.error().hint = "--gpu-memory N plans for a GPU of N MiB that is not here";
    return devices.error();
  }
  if (devices) return backends_of(*std::move(devices));
  std::vector<std::unique_ptr<cuda::Device>> imagined;
  imagined.push_back(cuda::Device::imagine(imagined_bytes));
  return backends_of(std::move(imagined));
}

Result<std::unique_ptr<Backend>> make_cuda_backend() {
  std::vector<std::unique_ptr<Backend>> backends = TRY(make_cuda_backends());
  return std::move(backends.front());
}

}  // namespace tokamak
