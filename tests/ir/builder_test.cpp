#include "ir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tokamak::ir {
namespace {

using testing::HasSubstr;

std::string error_of(Result<Graph> graph) { return graph ? "passed" : graph.error().message(); }

TEST(GraphBuilder, LeavesAreSharedByName) {
  GraphBuilder b("g");
  const ValueId w = b.weight("w", DType::f16, {4, 8});
  EXPECT_EQ(b.weight("w", DType::f16, {4, 8}), w);
  const ValueId tokens = b.input(InputRole::tokens, {3});
  EXPECT_EQ(b.input(InputRole::tokens, {3}), tokens);
  const ValueId k = b.state(StateRole::kv_k, 0, DType::f16, {9, 2, 8});
  EXPECT_EQ(b.state(StateRole::kv_k, 0, DType::f16, {9, 2, 8}), k);
  EXPECT_NE(b.state(StateRole::kv_k, 1, DType::f16, {9, 2, 8}), k);
  EXPECT_NE(b.state(StateRole::kv_v, 0, DType::f16, {9, 2, 8}), k);
  b.output(b.get_rows(w, tokens, "x"));
  auto g = b.finish();
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(g->value(k).name, "cache_k.0");
  EXPECT_EQ(g->value(g->outputs[0]).name, "x");
  EXPECT_EQ(g->value(g->outputs[0]).shape, (Shape{3, 8}));
  EXPECT_EQ(g->value(g->outputs[0]).producer, 0u);
}

TEST(GraphBuilder, ViewsResolveToTheOwner) {
  GraphBuilder b("g");
  const ValueId tokens = b.input(InputRole::tokens, {3});
  const ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 24}), tokens);
  const ValueId tail = b.view(x, 8, {3, 16});
  const ValueId middle = b.view(tail, 4, {3, 6});
  const ValueId whole = b.reshape(x, {3, 2, 12});
  const ValueId part = b.view(whole, 2, {3, 2, 4});
  b.output(b.rms_norm(middle, 1e-5));
  b.output(b.rms_norm(part, 1e-5));
  auto g = b.finish();
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(g->value(middle).storage, x);
  EXPECT_EQ(g->value(middle).offset_elems, 12);
  EXPECT_EQ(g->value(middle).row_stride_elems, 24);
  EXPECT_FALSE(g->value(middle).is_contiguous());
  EXPECT_TRUE(g->value(whole).is_contiguous());
  EXPECT_EQ(g->value(part).storage, x);
  EXPECT_EQ(g->value(part).row_stride_elems, 12);
  EXPECT_EQ(g->storage_of(part), x);
  EXPECT_EQ(g->storage_of(x), x);
}

TEST(GraphBuilder, SetRowsReturnsTheState) {
  GraphBuilder b("g");
  const ValueId slots = b.input(InputRole::slots, {3});
  const ValueId x = b.reshape(b.get_rows(b.weight("w", DType::f32, {4, 16}), slots), {3, 2, 8});
  const ValueId cache = b.state(StateRole::kv_v, 5, DType::q8_0, {9, 2, 32});
  EXPECT_EQ(b.set_rows(cache, x, slots, "bad"), kNone);
  EXPECT_THAT(error_of(b.finish()), HasSubstr("head_dim of cache is 32"));

  GraphBuilder c("g");
  const ValueId ids = c.input(InputRole::slots, {3});
  const ValueId y = c.reshape(c.get_rows(c.weight("w", DType::f32, {4, 64}), ids), {3, 2, 32});
  const ValueId state = c.state(StateRole::kv_v, 5, DType::q8_0, {9, 2, 32});
  const ValueId written = c.set_rows(state, y, ids, "v_write");
  c.output(y);
  auto g = c.finish();
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(g->value(written).kind, ValueKind::state);
  EXPECT_EQ(g->value(written).storage, state);
  EXPECT_EQ(g->value(written).state_role, StateRole::kv_v);
  EXPECT_EQ(g->value(written).layer_idx, 5);
  EXPECT_EQ(g->value(written).dtype, DType::q8_0);
  EXPECT_EQ(g->value(written).name, "v_write");
}

TEST(GraphBuilder, FirstErrorWinsAndLaterCallsDoNothing) {
  GraphBuilder b("g");
  const ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3}));
  const ValueId bad = b.mul_mat(b.weight("blk.0.attn_q.weight", DType::q4_0, {16, 32}), x, "blk.0.attn_q");
  EXPECT_EQ(bad, kNone);
  EXPECT_TRUE(b.failed());
  EXPECT_EQ(b.add(bad, x), kNone);
  EXPECT_EQ(b.shape_of(bad)[-1], 1);
  b.output(bad);
  EXPECT_EQ(error_of(b.finish()),
            "blk.0.attn_q: MUL_MAT(weight Q4_0 [16, 32], x F32 [3, 8]): x has 8 in dimension 1, n_in of weight is 32");
}

TEST(GraphBuilder, RefusesWrongLeavesNamesAndIds) {
  const auto with = [](auto&& f) {
    GraphBuilder b("g");
    f(b);
    return error_of(b.finish());
  };
  EXPECT_THAT(with([](GraphBuilder& b) { b.weight("", DType::f32, {4}); }), HasSubstr("needs a name"));
  EXPECT_THAT(with([](GraphBuilder& b) { b.weight("w", DType::q4_0, {4, 8}); }), HasSubstr("w Q4_0 [4, 8]: rows of 8"));
  EXPECT_THAT(with([](GraphBuilder& b) {
                b.weight("w", DType::f32, {4});
                b.weight("w", DType::f32, {5});
              }),
              HasSubstr("w: asked for as F32 [5], already there as F32 [4]"));
  EXPECT_THAT(with([](GraphBuilder& b) {
                b.weight("tokens", DType::i32, {4});
                b.input(InputRole::tokens, {4});
              }),
              HasSubstr("of another kind"));
  EXPECT_THAT(with([](GraphBuilder& b) { b.add(7, 8, "sum"); }), HasSubstr("sum: ADD: an operand is no value"));
  EXPECT_THAT(with([](GraphBuilder& b) { b.output(3); }), HasSubstr("an output is no value"));
  EXPECT_THAT(with([](GraphBuilder& b) {
                const ValueId w = b.weight("w", DType::f32, {4});
                b.add(w, w, "w");
              }),
              HasSubstr("w: ADD: the name is already in use"));
  EXPECT_THAT(with([](GraphBuilder& b) {
                const ValueId w = b.weight("w", DType::f32, {3, 2, 8});
                const ValueId slots = b.input(InputRole::slots, {3});
                b.set_rows(w, w, slots);
              }),
              HasSubstr("cache must be a state"));
}

TEST(Graph, EqualityReadersAndCosts) {
  const auto build = [](double eps) {
    GraphBuilder b("g");
    const ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3}), "x");
    const ValueId y = b.rms_norm(x, eps, "y");
    b.output(b.add(y, y, "z"));
    b.output(x);
    return *b.finish();
  };
  const Graph g = build(1e-5);
  EXPECT_EQ(g, build(1e-5));
  EXPECT_FALSE(g == build(1e-6));
  const auto readers = readers_of(g);
  EXPECT_EQ(readers[g.nodes[0].output], (std::vector<NodeId>{1}));
  EXPECT_EQ(readers[g.nodes[1].output], (std::vector<NodeId>{2}));
  EXPECT_TRUE(readers[g.nodes[2].output].empty());
  EXPECT_TRUE(g.is_output(g.nodes[0].output));
  EXPECT_FALSE(g.is_output(g.nodes[1].output));
  EXPECT_EQ(node_cost(g, g.nodes[2]).operations, 24);
}

}  // namespace
}  // namespace tokamak::ir
