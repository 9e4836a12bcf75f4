#include "backend/split/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/split/program.h"

namespace tokamak::split {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kHost = 1;
constexpr uint64_t kGi = uint64_t{1} << 30;

// Four layers: 1 each, their experts 4 each, states 1 each; embedding 2, output 2, intermediate values 1. In all 29.
PartBytes parts(uint64_t experts = 4 * kGi) {
  return {.embedding = 2 * kGi,
          .output = 2 * kGi,
          .activations = kGi,
          .layers = std::vector(4, kGi),
          .experts = std::vector(4, experts),
          .states = std::vector(4, kGi)};
}

Placement placed(uint64_t budget, const PlacementOptions& options = {}, uint64_t experts = 4 * kGi) {
  const Accelerator accelerator{.budget = budget * kGi, .parts = parts(experts)};
  auto out = place({&accelerator, 1}, options);
  EXPECT_TRUE(out) << out.error().message();
  return std::move(*out);
}

std::string described(uint64_t budget, const PlacementOptions& options = {}, uint64_t experts = 4 * kGi) {
  const Accelerator accelerator{.budget = budget * kGi, .parts = parts(experts)};
  return describe(placed(budget, options, experts), {&accelerator, 1});
}

TEST(Placement, EverythingStaysThatFits) {
  const Placement p = placed(29);
  EXPECT_EQ(p.embedding, 0u);
  EXPECT_EQ(p.output, 0u);
  EXPECT_THAT(p.layers, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(p.experts, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(described(29), "");
}

TEST(Placement, TheEmbeddingGoesFirstThenExpertsThenLayers) {
  EXPECT_EQ(placed(28).embedding, kHost);
  EXPECT_THAT(placed(28).experts, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(placed(27).experts, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(placed(26).experts, ElementsAre(kHost, 0, 0, 0));
  EXPECT_THAT(placed(19).experts, ElementsAre(kHost, kHost, 0, 0));
  const Placement p = placed(9);
  EXPECT_THAT(p.experts, ElementsAre(kHost, kHost, kHost, kHost));
  EXPECT_THAT(p.layers, ElementsAre(kHost, 0, 0, 0));
  EXPECT_THAT(p.states, ElementsAre(kHost, 0, 0, 0));
  EXPECT_EQ(p.output, 0u);
  EXPECT_THAT(placed(9, {}, 0).layers, ElementsAre(kHost, 0, 0, 0));
  EXPECT_THAT(placed(1).layers, ElementsAre(kHost, kHost, kHost, kHost));
  EXPECT_EQ(placed(1).output, kHost);
}

TEST(Placement, OneLineSaysWhatWentWhere) {
  EXPECT_EQ(described(28),
            "the token embedding on the CPU: 29.00 GiB do not fit in 28.00 GiB of GPU memory that may be used");
  EXPECT_THAT(described(19), HasSubstr("2 of 4 layers' experts on the CPU: 29.00 GiB do not fit in 19.00 GiB"));
  EXPECT_THAT(described(9), HasSubstr("1 of 4 layers, 4 of 4 layers' experts on the CPU"));
  EXPECT_THAT(described(9, {}, 0), HasSubstr("1 of 4 layers on the CPU"));
  EXPECT_EQ(described(99, {.n_cpu_moe = 3}), "3 of 4 layers' experts on the CPU");
}

TEST(Placement, NumbersThatAreGivenAreKept) {
  EXPECT_THAT(placed(99, {.n_gpu_layers = 3}).layers, ElementsAre(kHost, 0, 0, 0));
  EXPECT_EQ(placed(99, {.n_gpu_layers = 3}).embedding, kHost);
  EXPECT_THAT(placed(99, {.n_gpu_layers = 0}).layers, ElementsAre(kHost, kHost, kHost, kHost));
  EXPECT_THAT(placed(99, {.n_gpu_layers = 1000}).layers, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(placed(99, {.n_cpu_moe = 2}).experts, ElementsAre(kHost, kHost, 0, 0));
  EXPECT_THAT(placed(9, {.n_cpu_moe = 4}).layers, ElementsAre(kHost, 0, 0, 0));
}

TEST(Placement, WhatWasAskedForAndDoesNotFitIsRefusedWithWhatWould) {
  const Accelerator accelerator{.budget = 19 * kGi, .parts = parts()};
  const auto refused = place({&accelerator, 1}, {.n_gpu_layers = 1000});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(refused.error().message(), HasSubstr("4 of 4 layers do not fit: the whole model with its KV cache needs "
                                                   "29.00 GiB, 19.00 GiB of GPU memory may be used"));
  EXPECT_THAT(refused.error().message(), HasSubstr("--n-gpu-layers 4 would fit with --n-cpu-moe 2"));
}

TEST(Placement, LayersAreLaidOverSeveralDevicesInOrder) {
  // Room for one layer with experts each, in the first for the embedding, in the last for the output.
  const std::vector<Accelerator> accelerators = {{15 * kGi, parts()}, {7 * kGi, parts()}, {9 * kGi, parts()}};
  const auto p = place(accelerators, {});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->embedding, 0u);
  EXPECT_THAT(p->layers, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(p->states, ElementsAre(0, 0, 1, 2));
  EXPECT_EQ(p->output, 2u);
}

TEST(Boundary, ValuesThatLiveTogetherLieApart) {
  const std::vector<BoundaryValue> values = {{100, 0, 1}, {100, 0, 3}, {50, 1, 2}, {200, 2, 3}, {10, 3, 4}};
  const BoundaryPlan plan = plan_boundary(values);
  for (size_t a = 0; a < values.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      if (values[a].last_reader < values[b].made_by || values[b].last_reader < values[a].made_by) continue;
      EXPECT_TRUE(plan.offsets[a] + values[a].n_bytes <= plan.offsets[b] ||
                  plan.offsets[b] + values[b].n_bytes <= plan.offsets[a])
          << a << " and " << b;
    }
  EXPECT_EQ(plan.offsets[3], 320u) << "behind the first two, of which the second lives, over the third";
  EXPECT_EQ(plan.offsets[4], 0u) << "the first is dead";
}

}  // namespace
}  // namespace tokamak::split
