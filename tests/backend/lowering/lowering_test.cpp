// What groups of small graphs say to kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/lowering/attributes.h"
#include "backend/lowering/heads.h"
#include "backend/lowering/products.h"
#include "backend/lowering/router.h"
#include "backend/lowering/values.h"
#include "backend/lowering/weighted_sum.h"
#include "fuse/rules_helpers.h"

namespace tokamak::lowering {
namespace {

using fuse::RuleId;
using ir::GraphBuilder;
using ir::ValueId;

// A fused graph and the nodes of its one group of `rule`.
struct Fused {
  ir::Graph graph;
  std::vector<ir::NodeId> nodes;

  template <class Build>
  Fused(RuleId rule, Build build) {
    GraphBuilder b("g");
    build(b);
    graph = b.finish().value();
    fuse::fuse(graph, {}, true);
    for (const ir::Group& group : graph.groups)
      if (group.rule == static_cast<uint16_t>(rule)) nodes = fuse::pattern_nodes(graph, group);
    EXPECT_FALSE(nodes.empty());
  }
  std::string name(ValueId id) const { return id == ir::kNone ? "none" : graph.value(id).name; }
};

TEST(Products, ScaleAndBias) {
  const Fused f(RuleId::mul_mat_epilogue, [](GraphBuilder& b) {
    const ValueId product = b.mul_mat(b.weight("w", DType::nvfp4, {8, 64}), fuse::rows(b, 3, 64));
    b.output(b.add(b.mul(product, fuse::vec(b, "scale", 1)), fuse::vec(b, "bias")));
  });
  const Lane lane = epilogue_lane(f.nodes);
  EXPECT_EQ(f.name(scale_weight(f.graph, lane)), "scale");
  EXPECT_EQ(f.name(bias_weight(f.graph, lane)), "bias");
  EXPECT_EQ(f.name(residual_of(f.graph, lane)), "none");
  EXPECT_EQ(result_of(f.graph, lane), f.graph.outputs[0]);
  EXPECT_TRUE(supports_mul_mat_epilogue(f.graph, f.nodes));
}

TEST(Products, Residual) {
  ValueId addend = ir::kNone;
  const Fused f(RuleId::mul_mat_epilogue, [&](GraphBuilder& b) {
    addend = fuse::more(b);
    b.output(b.add(addend, b.mul_mat(b.weight("w", DType::f32, {8, 8}), fuse::rows(b))));
  });
  const Lane lane = epilogue_lane(f.nodes);
  EXPECT_EQ(residual_of(f.graph, lane), addend);
  EXPECT_EQ(bias_weight(f.graph, lane), ir::kNone);
  EXPECT_EQ(scale_weight(f.graph, lane), ir::kNone);
  EXPECT_EQ(result_of(f.graph, lane), f.graph.outputs[0]);
}

TEST(Products, GateAndUp) {
  const Fused f(RuleId::mul_mat_glu, [](GraphBuilder& b) {
    const ValueId x = fuse::rows(b);
    const ValueId gate = b.add(b.mul_mat(b.weight("gate", DType::f32, {8, 8}), x), fuse::vec(b, "gate bias"));
    const ValueId up = b.add(b.mul_mat(b.weight("up", DType::f32, {8, 8}), x), fuse::vec(b, "up bias"));
    b.output(b.glu(gate, up, {.kind = ir::Glu::swiglu_oai, .alpha = 1.5, .limit = 7}));
  });
  EXPECT_EQ(f.name(bias_weight(f.graph, epilogue_lane(f.nodes))), "gate bias");
  EXPECT_EQ(f.name(bias_weight(f.graph, up_lane(f.nodes))), "up bias");
  EXPECT_TRUE(supports_mul_mat_glu(f.graph, f.nodes));
  struct {
    int glu = 0;
    float alpha = 0, limit = 0;
  } args;
  set_glu(args, f.graph.node(f.nodes[6]).attrs);
  EXPECT_EQ(args.glu, static_cast<int>(ir::Glu::swiglu_oai));
  EXPECT_EQ(args.alpha, 1.5f);
  EXPECT_EQ(args.limit, 7.0f);
}

struct RouterArgs {
  RouterKind kind = RouterKind::soft_max;
  int64_t n_used = 0, n_group = 1, n_group_used = 1, n_best = 0;
  bool renormalise = false;
  float low = 0, high = 0, scale = 1;
};

TEST(Router, AllParts) {
  const Fused f(RuleId::topk_moe_sigmoid, [](GraphBuilder& b) {
    const ValueId probs = b.unary(fuse::rows(b), ir::Unary::sigmoid);
    const ValueId choice = b.mask_groups(b.add(probs, fuse::vec(b, "bias")), 4, 2, 1);
    const ValueId ids = b.view(b.argsort(choice), 0, {3, 2});
    const ValueId chosen = b.reshape(b.get_rows(b.reshape(probs, {3, 8, 1}), ids), {3, 2});
    const ValueId sum = b.clamp(b.sum_rows(chosen), 0.25, 1e300);
    b.output(b.scale(b.reshape(b.div(chosen, sum), {3, 2, 1}), 2.5));
    b.output(ids);
  });
  const Router r = router_of(f.graph, f.nodes);
  EXPECT_EQ(f.graph.node(r.last).output, f.graph.outputs[0]);
  EXPECT_EQ(f.graph.node(r.sort).op, ir::Op::argsort);
  EXPECT_EQ(f.name(f.graph.node(r.bias).inputs[1]), "bias");
  EXPECT_TRUE(routes_rows(f.graph, r, 8));
  EXPECT_FALSE(routes_rows(f.graph, r, 7));
  RouterArgs args;
  set_router(args, f.graph, r);
  EXPECT_EQ(args.kind, RouterKind::sigmoid);
  EXPECT_EQ(args.n_used, 2);
  EXPECT_EQ(args.n_group, 4);
  EXPECT_EQ(args.n_group_used, 2);
  EXPECT_EQ(args.n_best, 1);
  EXPECT_TRUE(args.renormalise);
  EXPECT_EQ(args.low, 0.25f);
  EXPECT_EQ(args.high, INFINITY);
  EXPECT_EQ(args.scale, 2.5f);
}

TEST(Router, Late) {
  const Fused f(RuleId::topk_moe_late_softmax, [](GraphBuilder& b) {
    const ValueId logits = fuse::rows(b), table = b.reshape(logits, {3, 8, 1});
    const ValueId ids = b.view(b.argsort(logits), 0, {3, 2});
    b.output(b.soft_max(b.reshape(b.get_rows(table, ids), {3, 2})));
    b.output(ids);
  });
  const Router r = router_of(f.graph, f.nodes);
  RouterArgs args;
  set_router(args, f.graph, r);
  EXPECT_EQ(args.kind, RouterKind::late_soft_max);
  EXPECT_EQ(args.n_used, 2);
  EXPECT_EQ(args.n_best, 0);
  EXPECT_FALSE(args.renormalise);
  EXPECT_EQ(args.scale, 1);
  EXPECT_EQ(r.scale, ir::kNone);
}

TEST(WeightedSums, ExpertsAndAddends) {
  ValueId x = ir::kNone, weights = ir::kNone, shared = ir::kNone, residual = ir::kNone;
  const Fused f(RuleId::moe_sum, [&](GraphBuilder& b) {
    x = b.reshape(fuse::rows(b, 3, 16), {3, 2, 8});
    weights = b.reshape(fuse::rows(b, 3, 2), {3, 2, 1});
    shared = fuse::more(b);
    residual = fuse::more(b, "residual");
    const ValueId flat = b.reshape(b.mul(x, weights), {3, 16});
    const ValueId sum = b.add(b.view(flat, 0, {3, 8}), b.view(flat, 8, {3, 8}));
    b.output(b.add(residual, b.add(sum, shared)));
  });
  const WeightedSum sum = weighted_sum_of(f.graph, f.nodes);
  EXPECT_EQ(sum.x, x);
  EXPECT_EQ(sum.weights, weights);
  EXPECT_EQ(sum.result, f.graph.outputs[0]);
  EXPECT_THAT(sum.addends, testing::ElementsAre(shared, residual));
  EXPECT_EQ(sum.n_tokens, 3);
  EXPECT_EQ(sum.n_used, 2);
  EXPECT_EQ(sum.n_embd, 8);
}

TEST(Heads, NormAndRotation) {
  const Fused f(RuleId::rms_norm_mul_rope, [](GraphBuilder& b) {
    const ValueId x = b.reshape(fuse::rows(b), {3, 2, 4}), positions = b.input(ir::InputRole::positions, {3});
    const ValueId norm = b.mul(b.rms_norm(x, 1e-5), fuse::vec(b, "norm", 4));
    b.output(b.rope(norm, positions, {.n_rot = 4, .theta = 500}, fuse::vec(b, "factors", 2)));
  });
  const HeadNorm norm = head_norm(f.graph, f.nodes);
  EXPECT_EQ(f.name(norm.weight), "norm");
  EXPECT_EQ(norm.eps, 1e-5f);
  EXPECT_TRUE(supports_head_norm(f.graph, f.nodes));
  const ir::Node& rope = f.graph.node(f.nodes[2]);
  EXPECT_EQ(f.name(rope_factors(rope)), "factors");
  EXPECT_EQ(frequency_params(rope.attrs).theta, 500);
  EXPECT_EQ(head_norm(f.graph, Nodes(f.nodes).last(1)).weight, ir::kNone) << "a rotation alone";
}

TEST(Values, AReshapeThatKeepsRowsIsTheSame) {
  GraphBuilder b("g");
  const ValueId x = b.scale(fuse::rows(b, 6, 8), 2);
  const ValueId same = b.reshape(x, {2, 3, 8}), longer = b.reshape(x, {3, 16}), part = b.view(x, 0, {6, 4});
  for (ValueId id : {same, longer, part}) b.output(id);
  const ir::Graph graph = b.finish().value();
  EXPECT_EQ(same_rows(graph, same), x);
  EXPECT_EQ(same_rows(graph, x), x);
  EXPECT_EQ(same_rows(graph, longer), longer);
  EXPECT_EQ(same_rows(graph, part), part);
}

TEST(Tables, MissingKernelsAreNamed) {
  GraphBuilder b("g");
  b.output(b.scale(fuse::rows(b), 2, 0, "twice"));
  const ir::Graph graph = b.finish().value();
  EXPECT_TRUE(check_nodes(
      graph, [](const ir::Graph&, const ir::Node&) { return std::string(); }, "toy", "hint"));
  const auto without_scale = check_nodes(
      graph,
      [](const ir::Graph& g, const ir::Node& node) {
        return missing_kernel(node.op != ir::Op::scale, nullptr, g, node);
      },
      "toy", "hint");
  ASSERT_FALSE(without_scale);
  EXPECT_EQ(without_scale.error().code, ErrorCode::unsupported);
  EXPECT_THAT(without_scale.error().what, testing::HasSubstr("toy backend has no SCALE kernel"));
  EXPECT_EQ(without_scale.error().where, "twice");
}

TEST(Tables, ANodeMayBeBeyondAKernel) {
  GraphBuilder b("g");
  const ValueId x = b.scale(fuse::rows(b, 3, 64), 2);
  b.output(b.reshape(x, {6, 32}));
  const ir::Graph graph = b.finish().value();
  const Beyond wide = [](const ir::Graph& g, const ir::Node& node) {
    return g.value(node.output).shape[-1] > 48 ? std::string("wide rows") : std::string();
  };
  EXPECT_EQ(missing_kernel(true, wide, graph, graph.nodes[1]), "SCALE kernel for wide rows");
  EXPECT_EQ(missing_kernel(true, nullptr, graph, graph.nodes[1]), "");
  EXPECT_EQ(missing_kernel(false, nullptr, graph, graph.nodes[2]), "") << "a view needs none";
}

}  // namespace
}  // namespace tokamak::lowering
