// Planning: memory is counted and not taken, with a GPU or without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/backend.h"
#include "backend/cuda/device.h"
#include "ir/builder.h"

namespace tokamak::cuda {
namespace {

using testing::HasSubstr;
constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(PlanningDevice, CountsWhatIsTakenAndGivenBack) {
  const auto device = Device::imagine(100 * kMiB);
  EXPECT_TRUE(device->only_plans());
  EXPECT_EQ(device->free_bytes(), 100 * kMiB);
  DeviceBuffer weights = std::move(*device->allocate("weights", 60 * kMiB));
  DeviceBuffer cache = std::move(*device->allocate("kv cache", 30 * kMiB + 1));
  EXPECT_EQ(device->free_bytes(), 10 * kMiB - 1);
  EXPECT_GE(cache.data(), weights.data() + weights.size()) << "they lie apart";
  const auto more = device->allocate("activations", 10 * kMiB);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(more.error().message(), HasSubstr("weights 0.06 GiB"));
  weights = {};
  EXPECT_EQ(device->free_bytes(), 70 * kMiB - 1);
  EXPECT_TRUE(device->finish("planning"));
  EXPECT_EQ(device->lost(), std::nullopt);
}

// Rows of a table, twice, and attention over a cache.
ir::Graph some_model(int64_t n_tokens, int64_t n_slots) {
  ir::GraphBuilder b("some model");
  const ir::ValueId rows =
      b.get_rows(b.weight("table", DType::q8_0, {512, 128}), b.input(ir::InputRole::tokens, {n_tokens}));
  const ir::ValueId x =
      b.reshape(b.mul_mat(b.weight("q", DType::q4_k, {256, 128 * 2}), b.concat(rows, rows)), {n_tokens, 2, 128});
  const ir::ValueId slots = b.input(ir::InputRole::slots, {n_tokens});
  const auto cache = [&](ir::StateRole role) {
    return b.set_rows(b.state(role, 0, DType::f8_e4m3, {n_slots, 2, 128}), x, slots);
  };
  const ir::ValueId keys = cache(ir::StateRole::kv_k), values = cache(ir::StateRole::kv_v);
  b.output(b.flash_attn_ext(x, keys, values, b.input(ir::InputRole::positions, {n_tokens}),
                            b.input(ir::InputRole::seq_ids, {n_tokens}), {.scale = 0.1}));
  return std::move(*b.finish());
}

// The graph's weights, of bytes that nobody may touch.
WeightLookup untouchable(const ir::Graph& graph) {
  return [&graph](std::string_view name) -> Result<WeightSource> {
    for (const ir::Value& value : graph.values)
      if (value.name == name)
        return WeightSource{.dtype = value.dtype,
                            .shape = value.shape,
                            .data = {reinterpret_cast<const std::byte*>(64),
                                     dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements()))},
                            .forget = {}};
    return Error{.what = "no such weight", .where = std::string(name)};
  };
}

TEST(Planning, AProgramIsCompiledWithoutAGpuAndNoWeightIsRead) {
  auto backends = make_planning_cuda_backends(1024 * kMiB);
  ASSERT_TRUE(backends) << backends.error().message();
  Backend& backend = *backends->front();
  const uint64_t free = *backend.free_bytes();
  const ir::Graph graph = some_model(64, 1024);
  const auto weights = backend.load(graph, untouchable(graph), {});
  ASSERT_TRUE(weights) << weights.error().message();
  const auto kv = backend.make_kv({.layers = {{2, 128, 128}}, .n_pages = 16, .page_size = 64, .type = DType::f8_e4m3});
  ASSERT_TRUE(kv) << kv.error().message();
  const auto program = backend.compile(graph, **weights, **kv, {});
  ASSERT_TRUE(program) << program.error().message();
  uint64_t on_device = 0;
  std::vector<MemoryUse> ledger = (*kv)->memory();
  EXPECT_EQ(ledger[0].n_bytes, 2u * 1024 * 2 * (128 + 4)) << "codes and a scale per head and slot";
  for (const MemoryUse& use : (*weights)->memory()) ledger.push_back(use);
  for (const MemoryUse& use : ledger) on_device += use.device.empty() ? 0 : use.n_bytes;
  EXPECT_EQ(on_device, free - *backend.free_bytes());
  const auto too_large = backend.make_kv({.layers = {{2, 128, 128}}, .n_pages = int64_t{1} << 30});
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::out_of_memory);
}

// 128 heads of one latent key: partial results of many tokens take more room than there is.
TEST(Planning, AttentionThatSplitsKeysForFewTokensOnlySaysSo) {
  const auto backends = make_planning_cuda_backends(65536 * kMiB);
  ASSERT_TRUE(backends) << backends.error().message();
  Backend& backend = *backends->front();
  const int64_t n_slots = 32768;
  const auto kv = backend.make_kv({.layers = {{1, 576, 512}}, .n_pages = n_slots / 64, .page_size = 64});
  ASSERT_TRUE(kv) << kv.error().message();
  const auto note = [&](int64_t n_tokens, bool invariant) -> std::string {
    ir::GraphBuilder b("latent attention");
    const ir::ValueId q =
        b.reshape(b.get_rows(b.weight("table", DType::f32, {9, 128 * 576}), b.input(ir::InputRole::tokens, {n_tokens})),
                  {n_tokens, 128, 576});
    b.output(b.flash_attn_ext(q, b.state(ir::StateRole::kv_k, 0, DType::f16, {n_slots, 1, 576}),
                              b.state(ir::StateRole::kv_v, 0, DType::f16, {n_slots, 1, 512}),
                              b.input(ir::InputRole::positions, {n_tokens}),
                              b.input(ir::InputRole::seq_ids, {n_tokens}), {.scale = 0.1}));
    const ir::Graph graph = std::move(*b.finish());
    const auto weights = backend.load(graph, untouchable(graph), {});
    const auto program = backend.compile(graph, **weights, **kv, {.batch_invariant = invariant});
    for (const StepReport& step : (*program)->steps())
      if (step.label == "FLASH_ATTN_EXT") return step.note;
    return "no attention";
  };
  EXPECT_EQ(note(1, false), "");
  EXPECT_THAT(note(64, false), HasSubstr("depends on the number of columns"));
  EXPECT_EQ(note(64, true), "") << "so many tokens at a time as there is room for";
}

TEST(Planning, WithoutAGpuItsMemoryMustBeNamed) {
  if (make_cuda_backends()) GTEST_SKIP() << "there is a GPU";
  const auto backends = make_planning_cuda_backends(0);
  ASSERT_FALSE(backends);
  EXPECT_THAT(backends.error().message(), HasSubstr("--gpu-memory"));
}

}  // namespace
}  // namespace tokamak::cuda
