// What needs no GPU: the way of a step's inputs, and what is said where there is none.
#include "backend/cuda/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/backend.h"
#include "backend/cuda/lower.h"
#include "fuse/matcher.h"
#include "ir/builder.h"

namespace tokamak::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ir::Graph embedding(int64_t n_tokens) {
  ir::GraphBuilder b("embedding");
  const ir::ValueId table = b.weight("table", DType::f32, {10, 4});
  b.output(b.get_rows(table, b.input(ir::InputRole::tokens, {n_tokens})));
  return std::move(*b.finish());
}

std::vector<int32_t> ints_at(const std::vector<std::byte>& bytes, uint64_t offset, size_t n) {
  std::vector<int32_t> out(n);
  std::memcpy(out.data(), bytes.data() + offset, n * sizeof(int32_t));
  return out;
}

TEST(InputLayout, HoldsRolesAndPages) {
  const InputLayout layout(embedding(3));
  const std::vector<int32_t> tokens = {7, 8, 9}, positions = {300, 301, 5}, seq_ids = {0, 0, 1};
  const std::vector<int32_t> pages_a = {4, 2, 6, 1, 9}, pages_b = {3};
  const std::vector<SequencePages> sequences = {{pages_a}, {pages_b}};
  const StepInputs inputs{.tokens = tokens, .positions = positions, .seq_ids = seq_ids, .sequences = sequences};
  std::vector<std::byte> bytes(layout.bytes_for(6));
  EXPECT_EQ(layout.fill(inputs, bytes.data()), 2);  // chunks of 256 keys for 302
  EXPECT_EQ(ints_at(bytes, layout.address(ir::InputRole::tokens).offset, 3), tokens);
  EXPECT_THAT(ints_at(bytes, layout.page_begin, 2), ElementsAre(0, 5));
  EXPECT_THAT(ints_at(bytes, layout.n_keys, 2), ElementsAre(302, 6));
  EXPECT_THAT(ints_at(bytes, layout.pages, 6), ElementsAre(4, 2, 6, 1, 9, 3));
}

TEST(InputLayout, LeavesOutWhatTheGraphDoesNotRead) {
  const InputLayout layout(embedding(1));
  EXPECT_EQ(layout.sizes[static_cast<size_t>(ir::InputRole::positions)], 0);
  const std::vector<int32_t> tokens = {7}, positions = {0, 0, 0}, seq_ids = {0, 1, 2};
  const StepInputs inputs{.tokens = tokens, .positions = positions, .seq_ids = seq_ids};
  std::vector<std::byte> bytes(layout.bytes_for(0));
  EXPECT_EQ(layout.fill(inputs, bytes.data()), 1);
}

// Two sequences, a token each; rows of three snapshots.
ir::RecurrentInputs recurrent(ir::GraphBuilder& b, ir::InputRole rows = ir::InputRole::state_rows) {
  return {.seq_ids = b.input(ir::InputRole::seq_ids, {2}),
          .state_src = b.input(ir::InputRole::state_src, {2}),
          .state_rows = b.input(rows, {2}),
          .n_snapshots = 3};
}
ir::ValueId embedded(ir::GraphBuilder& b, int64_t width) {
  return b.get_rows(b.weight("table", DType::f32, {9, width}), b.input(ir::InputRole::tokens, {2}));
}
ir::Graph conv_state(ir::InputRole rows = ir::InputRole::state_rows) {
  ir::GraphBuilder b("conv state");
  const ir::RecurrentInputs in = recurrent(b, rows);
  const ir::ValueId state = b.state(ir::StateRole::conv, 0, DType::f32, {9, 24});
  b.cpy(state, b.ssm_conv_state(embedded(b, 8), state, in), in.state_rows);
  return std::move(*b.finish());
}
// Two heads of d dimensions.
ir::Graph delta_net(int64_t d = 4) {
  ir::GraphBuilder b("delta net");
  const ir::RecurrentInputs in = recurrent(b);
  const ir::ValueId rows = embedded(b, 2 * d), x = b.reshape(rows, {2, 2, d}), g = b.cont(b.view(rows, 0, {2, 2}));
  const ir::ValueId state = b.state(ir::StateRole::recurrent, 0, DType::f32, {9, 2 * d * d});
  const ir::ValueId net = b.gated_delta_net(x, x, x, g, g, state, in, 1, ir::HeadMap::tiled, "net");
  b.cpy(state, b.reshape(b.view(net, 4 * d, {12 * d * d}), {6, 2 * d * d}), in.state_rows);
  b.output(b.scale(b.view(net, 0, {4 * d}), 2));
  return std::move(*b.finish());
}
ir::Graph snake() {
  ir::GraphBuilder b("snake");
  const ir::ValueId x = embedded(b, 8), factors = b.weight("factors", DType::f32, {2, 1});
  const ir::ValueId wave = b.unary(b.unary(b.mul(x, factors), ir::Unary::sin), ir::Unary::sqr);
  b.output(b.add(x, b.mul(wave, factors)));
  return std::move(*b.finish());
}
std::vector<std::string> fused(ir::Graph graph) {
  fuse::fuse(graph, supports_rule, true);
  std::vector<std::string> labels;
  for (const ir::Group& group : graph.groups)
    if (group.rule != UINT16_MAX) labels.push_back(fuse::group_label(graph, group));
  return labels;
}

TEST(InputLayout, NoSequenceStartsFromARowThatAnotherWrites) {
  const InputLayout layout(conv_state());
  std::vector<std::byte> bytes(layout.bytes_for(0));
  const auto fill = [&](std::vector<int32_t> state_src) {
    const std::vector<int32_t> tokens = {7, 8}, positions = {4, 4}, seq_ids = {0, 1}, state_rows = {0, 3};
    return layout.fill({.tokens = tokens,
                        .positions = positions,
                        .seq_ids = seq_ids,
                        .state_src = state_src,
                        .state_rows = state_rows},
                       bytes.data());
  };
  for (const std::vector<int32_t>& fine : {std::vector<int32_t>{-1, -1}, {2, 3}, {0, 5}, {7, 6}}) fill(fine);
  EXPECT_DEATH(fill({3, -1}), "0 1");
  EXPECT_DEATH(fill({0, 2}), "1 0") << "the other's last snapshot";
}

TEST(Lowering, FusesWritesOfStatesAndSnake) {
  EXPECT_THAT(fused(conv_state()), ElementsAre("SSM_CONV_STATE+CPY"));
  EXPECT_THAT(fused(delta_net()), ElementsAre("GATED_DELTA_NET+CPY"));
  EXPECT_THAT(fused(snake()), ElementsAre("MUL+SIN+SQR+MUL+ADD"));
  EXPECT_THAT(fused(conv_state(ir::InputRole::slots)), ElementsAre()) << "rows of which nothing is known";
}

TEST(Lowering, NamesTheOpAndTheNodeWithoutAKernel) {
  ir::GraphBuilder b("training");
  const ir::ValueId tokens = b.input(ir::InputRole::tokens, {2});
  const ir::ValueId logits = b.get_rows(b.weight("table", DType::f32, {10, 4}), tokens);
  const ir::ValueId labels = b.get_rows(b.weight("labels", DType::f32, {10, 4}), tokens);
  b.output(b.node(ir::Op::cross_entropy_loss, {logits, labels}, {}, "loss"));
  const auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.error().message();
  const auto checked = check_lowerings(*graph);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::unsupported);
  EXPECT_THAT(checked.error().message(), HasSubstr("loss: the cuda backend has no CROSS_ENTROPY_LOSS kernel"));
}

ir::Graph experts(DType type) {
  ir::GraphBuilder b("experts");
  const ir::ValueId rows = embedded(b, 256), best = b.argsort(b.view(rows, 0, {2, 4}));
  b.output(b.mul_mat_id(b.weight("experts", type, {4, 8, 256}), b.reshape(rows, {2, 1, 256}), b.view(best, 0, {2, 2}),
                        "up"));
  return std::move(*b.finish());
}
ir::Graph heads(DType type) {
  ir::GraphBuilder b("heads");
  b.output(b.mul_mat(b.weight("heads", type, {2, 8, 256}), b.reshape(embedded(b, 512), {2, 2, 256}), "absorbed"));
  return std::move(*b.finish());
}
ir::Graph groups(int64_t n_group) {
  ir::GraphBuilder b("groups");
  b.output(b.mask_groups(embedded(b, 4 * n_group), n_group, 2, 2, "best"));
  return std::move(*b.finish());
}
ir::Graph attention(int64_t n_dims) {
  ir::GraphBuilder b("attention");
  const ir::ValueId x = b.reshape(embedded(b, n_dims), {2, 1, n_dims});
  const auto cache = [&](ir::StateRole role) { return b.state(role, 0, DType::f8_e4m3, {64, 1, n_dims}); };
  b.output(b.flash_attn_ext(x, cache(ir::StateRole::kv_k), cache(ir::StateRole::kv_v),
                            b.input(ir::InputRole::positions, {2}), b.input(ir::InputRole::seq_ids, {2}), {},
                            std::nullopt, "attend"));
  return std::move(*b.finish());
}

// The node that a kernel is missing for, and which one.
std::string missing(const ir::Graph& graph) {
  std::string out;
  for (const ir::Node& node : graph.nodes)
    if (const std::string kernel = missing_kernel(graph, node); !kernel.empty()) out += node.name + ": " + kernel;
  const auto checked = check_lowerings(graph);
  EXPECT_EQ(checked.has_value(), out.empty());
  EXPECT_TRUE(checked || checked.error().hint.starts_with("--allow-fallback"));
  return out;
}

TEST(Lowering, SaysWhichKernelANodeLacksByTypeAndShape) {
  for (const ir::Graph& graph : {experts(DType::q4_k), experts(DType::f16), heads(DType::q8_0), groups(256),
                                 attention(576), delta_net(512), embedding(3)})
    EXPECT_EQ(missing(graph), "") << graph.name;
  EXPECT_EQ(missing(experts(DType::q8_1)), "up: MUL_MAT_ID kernel for experts of Q8_1");
  EXPECT_EQ(missing(heads(DType::q8_k)), "absorbed: MUL_MAT kernel for stacks of Q8_K matrices");
  EXPECT_EQ(missing(groups(300)), "best: MASK_GROUPS kernel for the best 2 of 300 groups");
  EXPECT_EQ(missing(attention(640)), "attend: FLASH_ATTN_EXT kernel for heads of 640 dimensions");
  EXPECT_EQ(missing(delta_net(640)), "net: GATED_DELTA_NET kernel for keys of 640 dimensions");
}

TEST(Devices, AreThereOrItIsSaidWhyNot) {
  const auto backend = make_cuda_backend();
  if (backend) {
    EXPECT_THAT((*backend)->description(), HasSubstr("multiprocessors"));
    return;
  }
  EXPECT_EQ(backend.error().code, ErrorCode::device_failed);
  EXPECT_THAT(backend.error().message(), HasSubstr("use --backend cpu"));
}

}  // namespace
}  // namespace tokamak::cuda
