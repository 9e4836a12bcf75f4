#include "ir/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/random_graph_helpers.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tokamak::ir {
namespace {

using testing::HasSubstr;

Graph small() {
  GraphBuilder b("g");
  b.output(b.scale(b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3})), 2, 0, "x"));
  return *b.finish();
}
Result<void> set_scale(Graph& g) {
  g.nodes[1].attrs.set(Attr::scale, 3.0);
  return {};
}
Result<void> break_graph(Graph& g) {
  g.outputs[0] = 77;
  return {};
}
Result<void> give_up(Graph&) { return Error{.what = "no kernel", .where = "x"}; }

TEST(Passes, RunInOrderAndReport) {
  Graph g = small();
  std::string order;
  const std::vector<Pass> passes = {
      {"one", [&](Graph&) -> Result<void> { return order += "1", Result<void>{}; }},
      {"two", [&](Graph&) -> Result<void> { return order += "2", Result<void>{}; },
       [&](Graph&) -> Result<void> { return order += "-", Result<void>{}; }},
      {"three", set_scale},
  };
  auto reports = run_passes(g, passes, {});
  ASSERT_TRUE(reports);
  EXPECT_EQ(order, "12");
  ASSERT_EQ(reports->size(), 3u);
  EXPECT_EQ((*reports)[2].name, "three");
  EXPECT_GE((*reports)[2].seconds, 0);
  EXPECT_EQ(g.nodes[1].attrs.number(Attr::scale), 3.0);

  Graph h = small();
  reports = run_passes(h, passes, {.disabled = {"three", "two"}});
  ASSERT_TRUE(reports);
  EXPECT_EQ(order, "121-");
  EXPECT_TRUE((*reports)[1].is_disabled);
  EXPECT_EQ(h, small());
}

TEST(Passes, DumpAfterANamedPass) {
  const std::vector<Pass> passes = {{"edit", set_scale}};
  for (const std::string name : {"build", "edit"}) {
    Graph g = small();
    std::string dump;
    ASSERT_TRUE(run_passes(g, passes, {.dump_after = name, .dump_sink = [&](std::string_view t) { dump += t; }}));
    auto back = parse_text(dump);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back, name == "build" ? small() : g);
  }
}

TEST(Passes, FailuresNameThePass) {
  const auto run = [](Pass pass, PassOptions options = {}) {
    Graph g = small();
    auto reports = run_passes(g, std::vector<Pass>{std::move(pass)}, options);
    return reports ? "passed" : reports.error().message();
  };
  EXPECT_EQ(run({"compile", give_up}), "pass compile: x: no kernel");
  EXPECT_EQ(run({"edit", break_graph}), "pass edit: g: outputs: %77 does not exist");
  EXPECT_EQ(run({"edit", set_scale}, {.disabled = {"fuze"}}), "pass \"fuze\": does not exist (passes: build, edit)");
  EXPECT_THAT(run({"edit", set_scale}, {.dump_after = "fuze"}), HasSubstr("does not exist"));
  EXPECT_THAT(run({"plan", set_scale, {}, true}, {.disabled = {"plan"}}), HasSubstr("cannot be switched off"));
  EXPECT_THAT(run({"plan", set_scale}, {.disabled = {"build"}}), HasSubstr("cannot be switched off"));
  Graph bad = small();
  bad.outputs[0] = 77;
  EXPECT_THAT(run_passes(bad, {}, {}).error().message(), HasSubstr("pass build: g: outputs"));
}

TEST(Simplify, DropsWhatChangesNothing) {
  GraphBuilder b("g");
  const ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3}), "x");
  const ValueId twice = b.reshape(b.reshape(x, {24}), {3, 2, 4}, "twice");
  const ValueId back = b.reshape(twice, {3, 8}, "back");
  const ValueId whole = b.view(back, 0, {3, 8}, "whole");
  const ValueId same = b.scale(whole, 1, 0, "same");
  b.scale(same, 3, 0, "dead");
  b.output(b.unary(same, Unary::relu, "y"));
  b.output(b.rms_norm(twice, 1e-5, "z"));
  b.output(same);
  Graph g = *b.finish();
  ASSERT_TRUE(simplify(g));
  ASSERT_TRUE(verify(g)) << verify(g).error().message();
  ASSERT_EQ(g.nodes.size(), 4u) << to_text(g);  // x, twice, y, z
  EXPECT_EQ(g.nodes[1].name, "twice");
  EXPECT_EQ(g.nodes[1].inputs[0], g.nodes[0].output);
  EXPECT_EQ(g.nodes[2].inputs[0], g.nodes[0].output);
  EXPECT_EQ(g.outputs[2], g.nodes[0].output);
  const Graph once = g;
  ASSERT_TRUE(simplify(g));
  EXPECT_EQ(g, once);
}

TEST(Simplify, KeepsWhatMatters) {
  GraphBuilder b("g");
  const ValueId slots = b.input(InputRole::slots, {3});
  const ValueId w = b.weight("w", DType::f32, {4, 16});
  const ValueId x = b.get_rows(w, slots);
  const ValueId slice = b.view(x, 8, {3, 8});
  const ValueId copy = b.scale(slice, 1, 0, "copy");  // makes the slice contiguous
  const ValueId heads = b.reshape(copy, {3, 1, 8});
  const ValueId state = b.state(StateRole::kv_k, 0, DType::f32, {9, 1, 8});
  b.set_rows(state, heads, slots, "write");  // has no reader, but an effect
  b.output(b.scale(w, 1, 0, "weight copy"));
  Graph g = *b.finish();
  const Graph before = g;
  ASSERT_TRUE(simplify(g));
  ASSERT_TRUE(verify(g)) << verify(g).error().message();
  EXPECT_EQ(g.nodes.size(), before.nodes.size());
}

TEST(Simplify, RandomGraphsStayValidAndNeverGrow) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Graph g = random_graph(seed);
    const Graph before = g;
    ASSERT_TRUE(simplify(g)) << seed;
    ASSERT_TRUE(verify(g)) << seed << ": " << verify(g).error().message();
    EXPECT_LE(g.nodes.size(), before.nodes.size()) << seed;
    ASSERT_EQ(g.outputs.size(), before.outputs.size());
    for (size_t i = 0; i < g.outputs.size(); ++i)
      EXPECT_EQ(g.value(g.outputs[i]).shape, before.value(before.outputs[i]).shape) << seed;
  }
}

}  // namespace
}  // namespace tokamak::ir
