// A GPU that is lost while a program runs on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/lost/trap_helpers.h"
#include "backend/cuda/matvec/device_memory.h"
#include "ir/builder.h"

namespace tokamak::cuda {
namespace {

using testing::HasSubstr;

TEST(LostDevice, EveryLaterRunFailsWithTheFirstReason) {
  REQUIRE_DEVICE();
  auto backend = make_cuda_backend();
  ASSERT_TRUE(backend) << backend.error().message();
  ir::GraphBuilder b("step");
  b.output(b.get_rows(b.weight("table", DType::f32, {10, 4}), b.input(ir::InputRole::tokens, {2})));
  ir::Graph graph = std::move(*b.finish());
  std::vector<float> table(40, 1.5f);
  const WeightLookup lookup = [&](std::string_view) -> Result<WeightSource> {
    return WeightSource{
        .dtype = DType::f32, .shape = Shape{10, 4}, .data = std::as_bytes(std::span(table)), .forget = {}};
  };
  const auto weights = std::move(*(*backend)->load(graph, lookup, {}));
  const auto kv = std::move(*(*backend)->make_kv({.layers = {}, .n_pages = 1}));
  const auto program = std::move(*(*backend)->compile(std::move(graph), *weights, *kv, {}));
  const std::vector<int32_t> tokens = {3, 4};
  std::vector<float> out(8);
  const std::span<float> output = out;
  const auto run = [&] { return program->run({.tokens = tokens}, {&output, 1}); };
  ASSERT_TRUE(run());
  EXPECT_EQ(out, std::vector<float>(8, 1.5f));
  EXPECT_FALSE((*backend)->lost());

  ASSERT_EQ(launch_trap(nullptr), cudaSuccess);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  const auto first = run(), second = run();
  ASSERT_FALSE(first || second);
  EXPECT_EQ(first.error().code, ErrorCode::device_failed);
  EXPECT_EQ(first.error().message(), second.error().message());
  ASSERT_TRUE((*backend)->lost());
  EXPECT_THAT((*backend)->lost()->what, HasSubstr("the GPU is lost: "));
}  // and everything is given back without harm

}  // namespace
}  // namespace tokamak::cuda
