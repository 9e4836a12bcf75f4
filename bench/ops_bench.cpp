// Times of the op kernels at the shapes of real models, one thread, every instruction set. Prints one line per kernel.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {
namespace {

std::vector<float> random_floats(int64_t n) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(rng);
  return x;
}

struct Model {
  const char* name;
  int64_t n_head, n_head_kv, head_dim, window, n_embd, n_ff;
};
constexpr Model kModels[] = {{"smollm2", 9, 3, 64, 0, 576, 1536}, {"gemma3_270m", 4, 1, 256, 512, 640, 2048}};

// Tokens [first, first + n_tokens) of one sequence.
void attention(benchmark::State& state, Isa isa, const Model& m, DType type, int64_t first, int64_t n_tokens) {
  const std::vector<KvLayerDims> layers = {{m.n_head_kv, m.head_dim, m.head_dim}};
  const int64_t n_keys = first + n_tokens, page_size = 64, n_pages = (n_keys + page_size - 1) / page_size;
  KvStorage storage = std::move(*KvStorage::create(layers, n_pages, page_size, type));
  std::vector<int32_t> pages(static_cast<size_t>(n_pages)), slots(static_cast<size_t>(n_keys));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i);
  const auto kv = random_floats(n_keys * m.n_head_kv * m.head_dim);
  for (const KvPlane* plane : {&storage.keys(0), &storage.values(0)})
    op_set(isa).kv_write({.plane = *plane, .slots = slots.data(), .x = kv.data(), .x_stride = m.n_head_kv * m.head_dim},
                         0, n_keys * m.n_head_kv);
  const auto q = random_floats(n_tokens * m.n_head * m.head_dim);
  std::vector<float> y(q.size());
  std::vector<int32_t> positions(static_cast<size_t>(n_tokens)), seq_ids(positions.size());
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int32_t>(first) + static_cast<int32_t>(t);
  std::vector<AttentionTile> tiles;
  make_attention_tiles(seq_ids, m.n_head / m.n_head_kv, tiles);
  const AttentionSequence sequence{pages.data(), n_keys};
  AttentionCall call;
  call.args = {.q = q.data(),
               .q_stride = m.n_head * m.head_dim,
               .y = y.data(),
               .y_stride = m.n_head * m.head_dim,
               .n_head = m.n_head,
               .keys = storage.keys(0),
               .values = storage.values(0),
               .positions = positions.data(),
               .seq_ids = seq_ids.data(),
               .sequences = {&sequence, 1},
               .tiles = tiles,
               .scale = 0.1f,
               .window = m.window};
  call.plan = plan_attention(call.args, n_tokens, 1, 0);
  Buffer scratch =
      std::move(*Buffer::allocate(4 * static_cast<size_t>(attention_scratch_floats(m.head_dim, m.head_dim))));
  const OpSet& ops = op_set(isa);  // asks the processor, so not in the loop
  for (auto _ : state) ops.attention(call, scratch.as<float>(), 0, call.plan.n_items);
  const double pairs =
      static_cast<double>(n_tokens) * (static_cast<double>(first) + static_cast<double>(n_tokens + 1) / 2);
  state.counters["GFLOPS"] = benchmark::Counter(4 * pairs * static_cast<double>(m.n_head * m.head_dim) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void rows(benchmark::State& state, Isa isa, const Model& m, int64_t n_tokens, const std::string& op) {
  const OpSet& ops = op_set(isa);
  const auto x = random_floats(n_tokens * m.n_ff), up = random_floats(n_tokens * m.n_ff);
  std::vector<float> y(x.size());
  const RopeTable table({.frequency = {.n_rot = m.head_dim}}, {});
  const std::vector<int32_t> positions(static_cast<size_t>(n_tokens), 1000);
  std::vector<float> angles(static_cast<size_t>(n_tokens * table.row_floats()));
  table.fill(positions, angles.data(), 0, n_tokens);
  const NormArgs norm{.eps = 1e-6f,
                      .row_elems = m.n_embd,
                      .x = x.data(),
                      .x_stride = m.n_embd,
                      .weight = up.data(),
                      .y = y.data(),
                      .y_stride = m.n_embd};
  const GluArgs glu{.kind = m.window ? GluKind::geglu : GluKind::swiglu,
                    .row_elems = m.n_ff,
                    .gate = x.data(),
                    .gate_stride = m.n_ff,
                    .up = up.data(),
                    .up_stride = m.n_ff,
                    .y = y.data(),
                    .y_stride = m.n_ff};
  const RopeArgs rope{.n_head = m.n_head,
                      .head_dim = m.head_dim,
                      .n_rot = m.head_dim,
                      .table = angles.data(),
                      .x = x.data(),
                      .x_stride = m.n_head * m.head_dim,
                      .y = y.data(),
                      .y_stride = m.n_head * m.head_dim};
  const std::vector<KvLayerDims> layers = {{m.n_head_kv, m.head_dim, m.head_dim}};
  KvStorage storage = std::move(*KvStorage::create(layers, 8, 64, DType::f16));
  std::vector<int32_t> slots(static_cast<size_t>(n_tokens));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i);
  const KvWriteArgs keys{.plane = storage.keys(0),
                         .slots = slots.data(),
                         .x = x.data(),
                         .x_stride = m.n_ff,
                         .rope_table = angles.data(),
                         .n_rot = m.head_dim};
  const KvWriteArgs values{.plane = storage.values(0), .slots = slots.data(), .x = x.data(), .x_stride = m.n_ff};
  for (auto _ : state) {
    if (op == "rope_write_keys")
      ops.kv_write(keys, 0, n_tokens * m.n_head_kv);
    else if (op == "write_values")
      ops.kv_write(values, 0, n_tokens * m.n_head_kv);
    else if (op == "norm_mul")
      ops.norm(norm, 0, n_tokens);
    else if (op == "glu")
      ops.glu(glu, 0, n_tokens);
    else if (op == "rope")
      ops.rope(rope, 0, n_tokens * m.n_head);
    else
      table.fill(positions, angles.data(), 0, n_tokens);
    benchmark::ClobberMemory();
  }
}

// Shapes of delta nets with 32 and 16 value heads, and of routers.
struct Recurrent {
  const char* name;
  int64_t n_head_k, n_head_v, head_dim;
  bool per_channel;
};
constexpr Recurrent kRecurrents[] = {
    {"hv32", 16, 32, 128, false}, {"hv16", 16, 16, 128, false}, {"kda32", 32, 32, 128, true}};

void delta_net(benchmark::State& state, Isa isa, const Recurrent& m, int64_t n_tokens) {
  const int64_t dk = m.head_dim, state_elems = m.n_head_v * dk * dk;
  auto q = random_floats(n_tokens * m.n_head_k * dk), k = random_floats(n_tokens * m.n_head_k * dk);
  for (float& x : k) x *= 0.08f;
  const auto v = random_floats(n_tokens * m.n_head_v * dk);
  std::vector<float> g(static_cast<size_t>(n_tokens * m.n_head_v * (m.per_channel ? dk : 1)), -0.1f),
      beta(static_cast<size_t>(n_tokens * m.n_head_v), 0.5f), y(v.size()), states(static_cast<size_t>(2 * state_elems));
  const SequenceRun run{0, n_tokens};
  const int32_t from = 0, to = 1;
  const DeltaNetArgs args{.seqs = {.n_seqs = 1,
                                   .runs = &run,
                                   .states = states.data(),
                                   .state_elems = state_elems,
                                   .state_src = &from,
                                   .out = states.data(),
                                   .out_rows = &to},
                          .n_head_k = m.n_head_k,
                          .n_head_v = m.n_head_v,
                          .dk = dk,
                          .dv = dk,
                          .gate_per_channel = m.per_channel,
                          .scale = 0.088f,
                          .q = q.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .q_stride = dk,
                          .k_stride = dk,
                          .v_stride = dk,
                          .g = g.data(),
                          .g_stride = m.per_channel ? dk : m.n_head_v,
                          .beta = beta.data(),
                          .beta_stride = m.n_head_v,
                          .y = y.data()};
  const OpSet& ops = op_set(isa);
  for (auto _ : state) {
    ops.gated_delta_net(args, 0, m.n_head_v * dk / kDeltaBlock);
    benchmark::ClobberMemory();
  }
  const double work = 7 * static_cast<double>(n_tokens * state_elems) * 1e-9;
  state.counters["GFLOPS"] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
}

void conv(benchmark::State& state, Isa isa, int64_t n_tokens) {
  constexpr int64_t kChannels = 8192, kTaps = 4;
  const auto x = random_floats(n_tokens * kChannels), w = random_floats(kTaps * kChannels),
             start = random_floats((kTaps - 1) * kChannels);
  std::vector<float> y(x.size());
  const SequenceRun run{0, n_tokens};
  const int32_t from = 0;
  const SsmConvArgs args{.seqs = {.n_seqs = 1,
                                  .runs = &run,
                                  .states = start.data(),
                                  .state_elems = (kTaps - 1) * kChannels,
                                  .state_src = &from},
                         .n_channels = kChannels,
                         .taps = kTaps,
                         .x = x.data(),
                         .x_stride = kChannels,
                         .weight = w.data(),
                         .silu = true,
                         .y = y.data(),
                         .y_stride = kChannels};
  const OpSet& ops = op_set(isa);
  for (auto _ : state) {
    ops.ssm_conv(args, 0, kChannels / kConvBlock);
    benchmark::ClobberMemory();
  }
}

void route(benchmark::State& state, Isa isa, int64_t n_expert, int64_t n_used, int64_t n_tokens) {
  const auto x = random_floats(n_tokens * n_expert), bias = random_floats(n_expert);
  std::vector<int32_t> ids(static_cast<size_t>(n_tokens * n_used));
  std::vector<float> weights(ids.size());
  const RouterArgs args{.kind = n_used == 8 ? RouterKind::soft_max : RouterKind::sigmoid,
                        .n_expert = n_expert,
                        .n_used = n_used,
                        .x = x.data(),
                        .x_stride = n_expert,
                        .bias = n_used == 8 ? nullptr : bias.data(),
                        .renormalise = true,
                        .low = 1e-6f,
                        .high = 1e6f,
                        .ids = ids.data(),
                        .ids_stride = n_used,
                        .weights = weights.data()};
  const OpSet& ops = op_set(isa);
  for (auto _ : state) {
    ops.route(args, 0, n_tokens);
    benchmark::ClobberMemory();
  }
}

void register_recurrent(Isa isa) {
  const std::string isa_part = "/" + std::string(isa_name(isa));
  for (int64_t n_tokens : {1, 512}) {
    const std::string tokens = "_" + std::to_string(n_tokens) + "/";
    for (const Recurrent& m : kRecurrents)
      benchmark::RegisterBenchmark(("delta_net" + tokens + m.name + isa_part).c_str(), [=](benchmark::State& s) {
        delta_net(s, isa, m, n_tokens);
      })->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("ssm_conv_silu" + tokens + "8192x4" + isa_part).c_str(), [=](benchmark::State& s) {
      conv(s, isa, n_tokens);
    })->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("route" + tokens + "8_of_128" + isa_part).c_str(), [=](benchmark::State& s) {
      route(s, isa, 128, 8, n_tokens);
    })->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("route" + tokens + "10_of_512" + isa_part).c_str(), [=](benchmark::State& s) {
      route(s, isa, 512, 10, n_tokens);
    })->Unit(benchmark::kMicrosecond);
  }
}

void register_all() {
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::scalar})
    if (isa_available(isa)) register_recurrent(isa);
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::scalar})
    for (const Model& m : kModels) {
      if (!isa_available(isa)) continue;
      const std::string suffix = std::string(m.name) + "/" + std::string(isa_name(isa));
      for (DType type : {DType::f16, DType::f32, DType::q8_0}) {
        const std::string kind = suffix + "/" + std::string(dtype_name(type));
        benchmark::RegisterBenchmark(("prefill_512/" + kind).c_str(), [=](benchmark::State& s) {
          attention(s, isa, m, type, 0, 512);
        })->Unit(benchmark::kMicrosecond);
        benchmark::RegisterBenchmark(("decode_at_512/" + kind).c_str(), [=](benchmark::State& s) {
          attention(s, isa, m, type, 511, 1);
        })->Unit(benchmark::kMicrosecond);
      }
      for (const char* op : {"norm_mul", "glu", "rope", "rope_table", "rope_write_keys", "write_values"})
        for (int64_t n_tokens : {1, 512})
          benchmark::RegisterBenchmark((std::string(op) + "_" + std::to_string(n_tokens) + "/" + suffix).c_str(),
                                       [=](benchmark::State& s) { rows(s, isa, m, n_tokens, op); })
              ->Unit(benchmark::kMicrosecond);
    }
}

}  // namespace
}  // namespace tokamak::cpu

int main(int argc, char** argv) {
  tokamak::cpu::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
