// Steps of one token through the whole backend: heads and attention are one launch where nobody else needs the heads,
// and leave the same bits as two.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/backend.h"
#include "backend/cuda/matvec/device_memory.h"
#include "ir/builder.h"

namespace tokamak::cuda {
namespace {

constexpr int64_t kHeads = 4, kHeadsKv = 2, kDim = 64, kVocab = 9, kPages = 20, kPage = 16;

enum class Extra : uint8_t { none, reads_queries, scales_queries, second_token };
struct Model {
  bool norm = false, turns_queries = true;
  bool has_products = true;  // else heads are made of sums, which lie where the plan puts attention's result
  Extra extra = Extra::none;
  int64_t n_tokens() const { return extra == Extra::second_token ? 2 : 1; }
};

// Two layers of attention.
ir::Graph graph_of(const Model& m) {
  ir::GraphBuilder b("layers");
  const int64_t n = m.n_tokens();
  const ir::ValueId tokens = b.input(ir::InputRole::tokens, {n}), positions = b.input(ir::InputRole::positions, {n}),
                    seq_ids = b.input(ir::InputRole::seq_ids, {n}), slots = b.input(ir::InputRole::slots, {n});
  ir::ValueId sum = b.get_rows(b.weight("x", DType::f32, {kVocab, kHeads * kDim}), tokens);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = std::to_string(layer);
    const auto product = [&](const std::string& name, int64_t n_head) {
      const Shape rows{n, n_head * kDim};
      const ir::ValueId x = m.has_products
                                ? b.mul_mat(b.weight(name + at, DType::f32, {n_head * kDim, kHeads * kDim}), sum)
                                : b.add(b.view(sum, 0, rows), b.weight(name + at, DType::f32, {n_head * kDim}));
      return b.reshape(x, {n, n_head, kDim});
    };
    const auto turned = [&](const std::string& name, ir::ValueId x) {
      if (m.norm) x = b.mul(b.rms_norm(x, 1e-5), b.weight(name + "_norm" + at, DType::f32, {kDim}));
      return b.rope(x, positions, {.n_rot = kDim});
    };
    const auto write = [&](ir::StateRole role, ir::ValueId x) {
      return b.set_rows(b.state(role, layer, DType::f16, {kPages * kPage, kHeadsKv, kDim}), x, slots);
    };
    const ir::ValueId k_product = product("k", kHeadsKv), v_product = product("v", kHeadsKv),
                      q_product = product("q", kHeads);
    const ir::ValueId q = m.turns_queries ? turned("q", q_product) : q_product,
                      keys = write(ir::StateRole::kv_k, turned("k", k_product)),
                      values = write(ir::StateRole::kv_v, v_product);
    const ir::ValueId asked = m.extra == Extra::scales_queries ? b.scale(q, 1.5) : q;
    const ir::ValueId y = b.flash_attn_ext(asked, keys, values, positions, seq_ids, {.scale = 0.125});
    sum = b.add(sum, b.reshape(y, {n, kHeads * kDim}));
    if (m.extra == Extra::reads_queries) b.output(b.scale(q, 2));
  }
  b.output(sum);
  auto graph = b.finish();
  EXPECT_TRUE(graph) << graph.error().message();
  return std::move(*graph);
}

struct Ran {
  std::vector<std::vector<float>> results;  // the last output of every step
  std::map<std::string, int> kernels;
};

// A sequence of n_steps tokens, or pairs of them.
Ran run(const Model& m, int n_steps) {
  Ran out;
  const auto backend = make_cuda_backend();
  const ir::Graph graph = graph_of(m);
  std::map<std::string, std::vector<float>, std::less<>> weights;
  std::map<std::string, Shape, std::less<>> shapes;
  for (const ir::Value& value : graph.values) {
    if (value.kind != ir::ValueKind::weight) continue;
    std::mt19937 random(static_cast<uint32_t>(std::accumulate(value.name.begin(), value.name.end(), 7)));
    std::vector<float>& x = weights[value.name];
    for (int64_t i = 0; i < value.shape.n_elements(); ++i)
      x.push_back(std::uniform_real_distribution<float>(-0.2f, 0.2f)(random));
    shapes[value.name] = value.shape;
  }
  const WeightLookup lookup = [&](std::string_view name) -> Result<WeightSource> {
    return WeightSource{.dtype = DType::f32,
                        .shape = shapes.find(name)->second,
                        .data = std::as_bytes(std::span(weights.find(name)->second)),
                        .forget = {}};
  };
  const auto kv = (*backend)->make_kv(
      {.layers = {{kHeadsKv, kDim, kDim}, {kHeadsKv, kDim, kDim}}, .n_pages = kPages, .page_size = kPage});
  const auto loaded = (*backend)->load(graph, lookup, {});
  const auto program = (*backend)->compile(graph, **loaded, **kv, {});
  for (const StepReport& step : (*program)->steps()) ++out.kernels[step.kernel];
  std::vector<int32_t> pages(kPages);
  std::iota(pages.rbegin(), pages.rend(), 0);
  const SequencePages sequence{pages};
  for (int step = 0; step < n_steps; ++step) {
    std::vector<int32_t> tokens, positions, seq_ids, slots;
    for (auto t = static_cast<int32_t>(step * m.n_tokens()); t < (step + 1) * m.n_tokens(); ++t) {
      tokens.push_back(t * 5 % kVocab), positions.push_back(t), seq_ids.push_back(0);
      slots.push_back(pages[static_cast<size_t>(t / kPage)] * kPage + t % kPage);
    }
    std::vector<std::vector<float>> outputs;
    for (const ir::ValueId id : graph.outputs)
      outputs.emplace_back(static_cast<size_t>(graph.value(id).shape.n_elements()));
    std::vector<std::span<float>> spans(outputs.begin(), outputs.end());
    const auto ran = (*program)->run({.tokens = tokens,
                                      .positions = positions,
                                      .seq_ids = seq_ids,
                                      .slots = slots,
                                      .sequences = std::span(&sequence, 1)},
                                     spans);
    EXPECT_TRUE(ran) << ran.error().message();
    out.results.push_back(outputs.back());
  }
  return out;
}

TEST(TokenStep, HeadsAndAttentionAreOneLaunch) {
  REQUIRE_DEVICE();
  const int n_steps = is_emulated() ? 19 : 300;  // over pages and, on a GPU, chunks
  for (const Model& model :
       {Model{}, Model{.norm = true}, Model{.turns_queries = false}, Model{.has_products = false}}) {
    Model twin = model;
    twin.extra = Extra::reads_queries;
    const Ran one = run(model, n_steps), two = run(twin, n_steps);
    EXPECT_EQ(one.kernels.at("kv_write+attention_decode"), 2);
    EXPECT_FALSE(one.kernels.contains("kv_write") || one.kernels.contains("attention_decode"));
    if (model.turns_queries) {
      EXPECT_EQ(two.kernels.at("kv_write"), 2);
      EXPECT_EQ(two.kernels.at("attention_decode"), 2);
    }
    EXPECT_EQ(one.results, two.results) << model.norm << model.turns_queries << model.has_products;
  }
}

TEST(TokenStep, OthersHaveTwoLaunches) {
  REQUIRE_DEVICE();
  for (const Extra extra : {Extra::reads_queries, Extra::scales_queries, Extra::second_token}) {
    const Ran two = run({.extra = extra}, 2);
    EXPECT_FALSE(two.kernels.contains("kv_write+attention_decode")) << static_cast<int>(extra);
    EXPECT_EQ(two.kernels.at("attention_decode"), 2) << static_cast<int>(extra);
  }
}

}  // namespace
}  // namespace tokamak::cuda
