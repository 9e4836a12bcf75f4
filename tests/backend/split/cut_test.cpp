#include "backend/split/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/split/assign.h"
#include "ir/builder.h"
#include "ir/verify.h"

namespace tokamak::split {
namespace {

using testing::ElementsAre;

// A layer with experts, without attention: 0 look-up, 1 norm, 2 weighted, 3 router, 4 probs, 5 order, 6 ids, 7 reshape,
// 8 weights, 9 up, 10 down, 11 weighted, 12 reshape, 13 residual.
ir::Graph layer() {
  ir::GraphBuilder b("layer");
  const ir::ValueId x =
      b.get_rows(b.weight("token_embd.weight", DType::f32, {9, 8}), b.input(ir::InputRole::tokens, {3}));
  const ir::ValueId normed = b.mul(b.rms_norm(x, 1e-5), b.weight("blk.0.ffn_norm.weight", DType::f32, {8}), "normed");
  const ir::ValueId probs = b.soft_max(b.mul_mat(b.weight("blk.0.ffn_gate_inp.weight", DType::f32, {4, 8}), normed));
  const ir::ValueId ids = b.view(b.argsort(probs), 0, {3, 1}, "ids");
  const ir::ValueId weights = b.get_rows(b.reshape(probs, {3, 4, 1}), ids, "weights");
  const ir::ValueId up = b.mul_mat_id(b.weight("blk.0.ffn_up_exps.weight", DType::f32, {4, 16, 8}),
                                      b.reshape(normed, {3, 1, 8}), ids, "up");
  const ir::ValueId down =
      b.mul_mat_id(b.weight("blk.0.ffn_down_exps.weight", DType::f32, {4, 8, 16}), up, ids, "down");
  b.output(b.add(b.reshape(b.mul(down, weights), {3, 8}), x, "y"));
  auto graph = b.finish();
  EXPECT_TRUE(graph) << graph.error().message();
  return std::move(*graph);
}

const Children kAll{.n = 2, .can_run = [](size_t, ir::NodeId) { return true; }};

size_t child_of(const ir::Graph& graph, std::span<const size_t> children, std::string_view name) {
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].name == name) return children[n];
  ADD_FAILURE() << name;
  return 99;
}

TEST(Assign, ExpertsGoAndTheirRoutingStays) {
  const ir::Graph graph = layer();
  const Placement placement{.layers = {0}, .experts = {1}, .states = {0}};
  const std::vector<size_t> children = assign(graph, parts_of(graph), placement, kAll);
  EXPECT_EQ(child_of(graph, children, "normed"), 0u);
  EXPECT_EQ(child_of(graph, children, "ids"), 0u) << "ids are smaller than probabilities";
  EXPECT_EQ(child_of(graph, children, "weights"), 0u);
  EXPECT_EQ(child_of(graph, children, "up"), 1u);
  EXPECT_EQ(child_of(graph, children, "down"), 1u);
  const auto cut = cut_graph(graph, children);
  ASSERT_TRUE(cut) << cut.error().message();
  for (const Segment& segment : cut->segments) {
    const auto ok = ir::verify(segment.graph);
    EXPECT_TRUE(ok) << ok.error().message();
  }
}

TEST(Assign, PartsFollowWeightsAndPlaces) {
  const ir::Graph graph = layer();
  const std::vector<Part> parts = parts_of(graph);
  EXPECT_EQ(parts[0], (Part{Part::Kind::embedding}));
  EXPECT_EQ(parts[2], (Part{Part::Kind::layer, 0}));
  EXPECT_EQ(parts[1].kind, Part::Kind::none);
  EXPECT_EQ(n_layers(parts), 1);
  EXPECT_EQ(std::ranges::count(parts, Part{Part::Kind::experts, 0}), 2);
}

TEST(Cut, IntegersPassTheBoundaryAndUnitingKeepsAllNodes) {
  const ir::Graph graph = layer();
  const std::vector<Part> parts = parts_of(graph);
  const Placement placement{.layers = {0}, .experts = {1}, .states = {0}};
  const auto cut = cut_graph(graph, assign(graph, parts, placement, kAll));
  ASSERT_TRUE(cut);
  ASSERT_GE(cut->segments.size(), 2u);
  bool has_integers = false;
  size_t n_nodes = 0;
  std::vector<const ir::Graph*> pieces;
  for (const Segment& segment : cut->segments) {
    for (const ir::Value& value : segment.graph.values)
      has_integers |= value.input_role == ir::InputRole::boundary && value.dtype == DType::i32;
    n_nodes += segment.graph.nodes.size();
    pieces.push_back(&segment.graph);
    EXPECT_EQ(segment.outputs.size(), segment.graph.outputs.size());
  }
  EXPECT_TRUE(has_integers);
  EXPECT_EQ(n_nodes, graph.nodes.size());
  EXPECT_EQ(cut->segments.back().outputs[0].output_idx, 0);
  const ir::Graph whole = unite("whole", pieces);
  EXPECT_EQ(whole.nodes.size(), n_nodes);
  const auto ok = ir::verify(whole);
  EXPECT_TRUE(ok) << ok.error().message();
}

TEST(Cut, ViewsOfWeightsAreCopiedAndWrittenStatesAreReadFromTheCache) {
  ir::GraphBuilder b("state");
  const ir::ValueId w = b.weight("w", DType::f32, {4, 8});
  const ir::ValueId half = b.view(w, 4, {4, 4});
  const ir::ValueId tokens = b.input(ir::InputRole::tokens, {4});
  const ir::ValueId x = b.get_rows(w, tokens);
  const ir::ValueId written = b.set_rows(b.state(ir::StateRole::kv_k, 0, DType::f32, {16, 1, 4}),
                                         b.reshape(b.cont(b.view(x, 0, {4, 4})), {4, 1, 4}), tokens);
  const ir::ValueId y = b.add(b.cont(b.view(x, 4, {4, 4})), half);
  const ir::ValueId q = b.reshape(b.add(y, half), {4, 1, 4});
  b.output(b.flash_attn_ext(q, written, written, tokens, tokens, {}));
  auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.error().message();
  std::vector<size_t> children(graph->nodes.size());
  children[graph->value(y).producer] = 1;  // between two pieces of the other child
  const auto cut = cut_graph(*graph, children);
  ASSERT_TRUE(cut) << cut.error().message();
  ASSERT_EQ(cut->segments.size(), 3u);
  for (const Segment& segment : cut->segments) {
    const auto ok = ir::verify(segment.graph);
    EXPECT_TRUE(ok) << ok.error().message();
  }
  const auto n_views = [&](size_t segment) {
    return std::ranges::count_if(cut->segments[segment].graph.values, [&](const ir::Value& v) {
      return v.is_view() && cut->segments[segment].graph.value(v.storage).kind == ir::ValueKind::weight;
    });
  };
  EXPECT_EQ(n_views(0), 0);
  EXPECT_EQ(n_views(1), 1);
  EXPECT_EQ(n_views(2), 1);
  const ir::Graph& last = cut->segments[2].graph;
  const ir::Node& attention = last.nodes.back();
  EXPECT_EQ(last.value(attention.inputs[1]).producer, ir::kNone) << "an earlier piece has written it";
}

}  // namespace
}  // namespace tokamak::split
