#include "backend/cpu/backend.h"

#include <fstream>

#include <fmt/format.h>

#include "backend/cpu/lower.h"
#include "backend/cpu/program.h"
#include "backend/cpu/weights.h"
#include "backend/lowering/passes.h"

namespace tokamak {

namespace cpu {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

class CpuBackend : public Backend {
 public:
  CpuBackend(Target target, std::unique_ptr<ThreadPool> pool, Backing backing)
      : target_(target), pool_(std::move(pool)), backing_(backing) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("{}, {} thread{}, {}, {} activations", cpu_name(), pool_->n_threads(),
                       pool_->n_threads() == 1 ? "" : "s", isa_name(target_.isa),
                       activation_format(target_.activations).name);
  }

  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    return std::unique_ptr<Weights>(TRY(CpuWeights::load(graph, lookup, progress, *pool_, backing_)));
  }

  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override {
    return std::unique_ptr<KvCache>(TRY(CpuKv::create(config, backing_)));
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    TRY(check_lowerings(graph));
    const ir::Plan plan = TRY(lowering::prepare(graph, supports_rule, options, stats_));
    auto& cpu_kv = dynamic_cast<CpuKv&>(kv);
    auto program = std::make_unique<CpuProgram>(std::move(graph), cpu_kv, *pool_);
    Lowering lowering(program->graph(), plan, dynamic_cast<const CpuWeights&>(weights), cpu_kv, target_,
                      pool_->n_threads(), options.matmul_observer);
    for (const ir::Group& group : program->graph().groups) lowering.lower(group);
    lowering.copy_outputs();
    program->set_steps(lowering.take_steps(), lowering.arena_bytes());
    TRY(cpu_kv.reserve_arena(lowering.arena_bytes()));
    return std::unique_ptr<Program>(std::move(program));
  }

  fuse::Stats& fusion_stats() override { return stats_; }

 private:
  Target target_;
  std::unique_ptr<ThreadPool> pool_;
  Backing backing_;
  fuse::Stats stats_;
};

Result<Isa> choose_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  const std::optional<Isa> isa = find_isa(name);
  std::string available;
  for (const IsaRow& row : kIsas)
    if (isa_available(row.isa)) available += (available.empty() ? "" : ", ") + std::string(row.name);
  if (!isa || !isa_available(*isa))
    return Error{.code = ErrorCode::bad_argument,
                 .what = isa ? fmt::format("this machine or build cannot run {} kernels", name)
                             : fmt::format("there is no instruction set '{}'", name),
                 .where = "--isa",
                 .hint = "available: auto, " + available};
  return *isa;
}

Result<ActivationKind> choose_activations(std::string_view name) {
  for (const ActivationFormat& row : kActivationFormats)
    if (row.name == name && row.kind != ActivationKind::f32) return row.kind;
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("there are no '{}' activations", name),
               .where = "--activations",
               .hint = "known: auto, int8, int16"};
}

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  const cpu::Isa isa = TRY(cpu::choose_isa(options.isa));
  const cpu::ActivationKind activations = TRY(cpu::choose_activations(options.activations));
  const int64_t n_threads = options.n_threads == 0 ? usable_cpus() : options.n_threads;
  if (n_threads < 1 || n_threads > kMaxThreads)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("{} is outside 1..{}", n_threads, kMaxThreads),
                 .where = "--threads"};
  std::unique_ptr<ThreadPool> pool = TRY(ThreadPool::create(static_cast<int>(n_threads)));
  return std::unique_ptr<Backend>(
      std::make_unique<cpu::CpuBackend>(cpu::Target{isa, activations}, std::move(pool), options.backing));
}

}  // namespace tokamak
