#include "eval/fusion_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/nmse.h"
#include "base/random.h"
#include "engine/session.h"

namespace tokamak {

namespace {
using Counts = std::map<std::string, uint64_t, std::less<>>;

struct Pass {
  std::array<std::vector<float>, 2> logits;  // by mode
  std::array<Counts, 2> counts;
};

std::vector<int32_t> random_tokens(uint64_t seed, int64_t n_vocab) {
  std::vector<int32_t> tokens(kFusionPrefill + kFusionDecode);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(uniform(seed, i) * static_cast<double>(n_vocab));
  return tokens;
}

// Counts per graph of the program that a mode's steps ran.
Result<Counts> counts_of(Session& session, int64_t n_tokens) {
  const std::string& graph = TRY(session.program(n_tokens, n_tokens))->graph().name;
  Counts counts;
  for (const fuse::StatsRow& row : session.backend().fusion_stats().rows())
    if (row.graph == graph && row.count > 0) counts[row.label] = row.count / row.n_graphs;
  return counts;
}

Result<Pass> run_pass(const std::shared_ptr<const Model>& model, std::string device, bool fused,
                      const FusionOptions& options, std::span<const int32_t> tokens) {
  const std::unique_ptr<Session> session =
      TRY(Session::create(model, {.backend = std::move(device),
                                  .isa = options.isa,
                                  .n_threads = options.n_threads,
                                  .n_batch = static_cast<int64_t>(kFusionPrefill)}));
  fuse::Stats& stats = session->backend().fusion_stats();
  stats.set_enabled(fused);
  stats.set_collecting(true);
  stats.reset();
  Pass out;
  const int32_t seq_id = session->add_sequence();
  const auto step = [&](size_t mode, std::span<const int32_t> part) -> Result<void> {
    const SequenceTokens batch{seq_id, part, Logits::all};
    const std::span<const float> logits = TRY(session->forward({&batch, 1}));
    out.logits[mode].insert(out.logits[mode].end(), logits.begin(), logits.end());
    return {};
  };
  TRY(step(0, tokens.first(kFusionPrefill)));
  for (size_t i = 0; i < kFusionDecode; ++i) TRY(step(1, tokens.subspan(kFusionPrefill + i, 1)));
  out.counts = {TRY(counts_of(*session, static_cast<int64_t>(kFusionPrefill))), TRY(counts_of(*session, 1))};
  return out;
}

void add_rows(FusionRun& run, const std::array<Counts, 2>& counts) {
  const auto& [prefill, decode] = counts;
  const auto add = [&run](std::string_view mode, const std::string& label, uint64_t count) {
    run.rows.push_back({run.model, run.has_experts, std::string(mode), label, count});
  };
  const auto is_in = [](const Counts& all, const auto& entry) {
    const auto found = all.find(entry.first);
    return found != all.end() && found->second == entry.second;
  };
  for (const auto& entry : prefill) add(is_in(decode, entry) ? "any" : kFusionModes[0], entry.first, entry.second);
  for (const auto& entry : decode)
    if (!is_in(prefill, entry)) add(kFusionModes[1], entry.first, entry.second);
  std::ranges::sort(run.rows);
}

bool is_plain(const GgufFile& file) {
  return std::ranges::all_of(file.tensors(), [](const GgufTensor& t) {
    return t.type == DType::f32 || t.type == DType::f16 || t.type == DType::bf16;
  });
}
}  // namespace

Result<FusionRun> run_fusion(const std::filesystem::path& path, const FusionOptions& options) {
  const std::shared_ptr<const Model> model = TRY(Model::open(path));
  FusionRun run{.model = path.stem().string(),
                .arch = std::string(TRY(model->file().architecture())),
                .has_experts = model->hparams().moe.n_expert > 0,
                .is_plain = is_plain(model->file())};
  const std::vector<int32_t> tokens = random_tokens(options.seed, model->hparams().n_vocab);
  const Pass fused = TRY(run_pass(model, options.device, true, options, tokens));
  const Pass unfused = TRY(run_pass(model, options.device, false, options, tokens));
  const Pass reference = TRY(run_pass(model, "reference", false, options, tokens));
  for (size_t mode = 0; mode < kFusionModes.size(); ++mode)
    run.errors[mode] = {.to_unfused = nmse(fused.logits[mode], unfused.logits[mode]),
                        .to_reference = nmse(fused.logits[mode], reference.logits[mode])};
  add_rows(run, fused.counts);
  return run;
}

std::vector<std::string> excesses(const FusionRun& run) {
  std::vector<std::string> out;
  const auto check = [&](std::string_view mode, std::string_view what, double error) {
    if (!(error <= kFusionTolerance))  // NaN is an excess too
      out.push_back(
          fmt::format("{}: {}: NMSE {:.3g} {} is above {:g}", run.model, mode, error, what, kFusionTolerance));
  };
  for (size_t mode = 0; mode < kFusionModes.size(); ++mode) {
    check(kFusionModes[mode], "fused to unfused", run.errors[mode].to_unfused);
    if (run.is_plain) check(kFusionModes[mode], "fused to the reference", run.errors[mode].to_reference);
  }
  return out;
}

}  // namespace tokamak
