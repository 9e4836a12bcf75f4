#include "ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/builder.h"
#include "ir/random_graph_helpers.h"

namespace tokamak::ir {
namespace {

using testing::HasSubstr;

// values: 0 w, 1 tokens, 2 x, 3 view, 4 y, 5 slots, 6 heads, 7 state, 8 written, 9 z
Graph good() {
  GraphBuilder b("g");
  const ValueId w = b.weight("w", DType::f32, {4, 8});
  const ValueId x = b.get_rows(w, b.input(InputRole::tokens, {3}), "x");
  const ValueId y = b.rms_norm(b.view(x, 2, {3, 4}), 1e-5, "y");
  const ValueId slots = b.input(InputRole::slots, {3});
  const ValueId heads = b.reshape(x, {3, 1, 8});
  const ValueId state = b.state(StateRole::kv_k, 0, DType::f32, {9, 1, 8});
  const ValueId written = b.set_rows(state, heads, slots, "written");
  const ValueId z = b.flash_attn_ext(heads, written, written, slots, slots, {}, {}, "z");
  b.output(y);
  b.output(z);
  return *b.finish();
}

TEST(Verify, AcceptsWhatTheBuilderMakes) {
  EXPECT_TRUE(verify(good()));
  for (uint32_t seed = 0; seed < 100; ++seed) EXPECT_TRUE(verify(random_graph(seed))) << seed;
}

struct Damage {
  std::function<void(Graph&)> apply;
  std::string says;
};

std::vector<Damage> damages() {
  return {
      {[](Graph& g) { g.values[4].name = g.nodes[2].name = g.values[2].name; }, "%4 x: two values have this name"},
      {[](Graph& g) { g.values[0].dtype = static_cast<DType>(200); }, "has no known type"},
      {[](Graph& g) { g.values[0].dtype = DType::f8_e4m3; }, "has a type that only caches have"},
      {[](Graph& g) {
         g.values[0].shape = {4, -8};
       },
       "dimension 1 is -8"},
      {[](Graph& g) { g.values[2].producer = kNone; }, "no node makes this intermediate"},
      {[](Graph& g) { g.values[2].producer = 7777; }, "its producer does not make it"},
      {[](Graph& g) { g.values[4].producer = 0; }, "its producer does not make it"},
      {[](Graph& g) { g.values[0].name = ""; }, "needs a name"},
      {[](Graph& g) { g.values[0].storage = 2; }, "owns its memory"},
      {[](Graph& g) { g.values[0].row_stride_elems = 9; }, "owns its memory"},
      {[](Graph& g) { g.values[0].input_role = InputRole::tokens; }, "exactly the inputs have an input role"},
      {[](Graph& g) { g.values[1].input_role = InputRole::none; }, "exactly the inputs have an input role"},
      {[](Graph& g) { g.values[1].dtype = DType::f32; }, "inputs are I32"},
      {[](Graph& g) { g.values[1].boundary_idx = 0; }, "exactly the inputs of a boundary have an index there"},
      {[](Graph& g) { g.values[1].input_role = InputRole::boundary; }, "exactly the inputs of a boundary"},
      {[](Graph& g) { g.values[7].state_role = StateRole::none; }, "exactly the states have a state role"},
      {[](Graph& g) { g.values[7].layer_idx = -1; }, "exactly the states have a layer"},
      {[](Graph& g) { g.values[0].layer_idx = 2; }, "exactly the states have a layer"},
      {[](Graph& g) { g.nodes[0].op = Op::count_; }, "no known op"},
      {[](Graph& g) { g.nodes[0].inputs[0] = 99; }, "operand %99 does not exist"},
      {[](Graph& g) { g.nodes[1].inputs[0] = 6; }, "reads %6, which node 3 makes later"},
      {[](Graph& g) { g.nodes[1].inputs[0] = 3; }, "reads %3, which node 1 makes later"},
      {[](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }, "its producer does not make it"},
      {[](Graph& g) { g.nodes[2].inputs.push_back(2); }, "takes x (1 to 1 operands), not 2"},
      {[](Graph& g) { g.nodes[2].attrs = {}; }, "attribute eps is missing"},
      {[](Graph& g) { g.nodes[2].attrs.set(Attr::eps, 2.0); }, "eps=2 is outside 0 to 1"},
      {[](Graph& g) {
         g.values[4].shape = {3, 5};
       },
       "result is F32 [3, 5], should be F32 [3, 4]"},
      {[](Graph& g) { g.values[4].dtype = DType::f16; }, "result is F16 [3, 4], should be F32 [3, 4]"},
      {[](Graph& g) { g.values[4].name = "other"; }, "result is named \"other\""},
      {[](Graph& g) { g.values[3].offset_elems = 3; }, "kind, role or storage"},
      {[](Graph& g) { g.values[3].storage = kNone; }, "kind, role or storage"},
      {[](Graph& g) { g.values[3].row_stride_elems = 4; }, "kind, role or storage"},
      {[](Graph& g) { g.values[8].kind = ValueKind::intermediate; }, "kind, role or storage"},
      {[](Graph& g) { g.nodes[4].inputs[0] = 6; }, "cache must be a state"},
      {[](Graph& g) { g.outputs = {99}; }, "%99 does not exist"},
      {[](Graph& g) { g.outputs = {8}; }, "an output must be a result of a node that writes no state"},
      {[](Graph& g) { g.outputs = {0}; }, "an output must be a result of a node that writes no state"},
      {[](Graph& g) {
         g.groups = {{.nodes = {0, 1}}};
       },
       "has several nodes and no rule"},
      {[](Graph& g) { g.groups = {{.nodes = {}}}; }, "is empty"},
      {[](Graph& g) {
         g.groups = {{.nodes = {0}}, {.rule = 1, .nodes = {1}}};
       },
       "only views as members"},
      {[](Graph& g) {
         g.groups = {{.nodes = {1}}, {.nodes = {0}}};
       },
       "no partition of the nodes in order"},
      {[](Graph& g) {
         g.groups = {{.rule = 1, .nodes = {0, 1, 3}}};
       },
       "no partition of the nodes in order"},
      {[](Graph& g) {
         g.groups = {{.rule = 1, .nodes = {0, 1, 2}}};
       },
       "node 3: is in no group"},
      {[](Graph& g) {
         g.groups = {{.rule = 1, .nodes = {0, 1, 2, 3, 4, 5, 6, 7}}};
       },
       "group at node 6: groups are no partition"},
  };
}

TEST(Verify, EveryDamageIsNamed) {
  for (const Damage& damage : damages()) {
    Graph g = good();
    damage.apply(g);
    auto ok = verify(g);
    ASSERT_FALSE(ok) << damage.says;
    EXPECT_THAT(ok.error().message(), HasSubstr(damage.says));
    EXPECT_THAT(ok.error().message(), testing::StartsWith("g: "));
  }
}

TEST(Verify, StateMustBeWrittenBeforeItIsRead) {
  const auto build = [](bool read_first) {
    GraphBuilder b("g");
    const ValueId slots = b.input(InputRole::slots, {3});
    const ValueId x = b.reshape(b.get_rows(b.weight("w", DType::f32, {4, 8}), slots), {3, 1, 8});
    const ValueId state = b.state(StateRole::kv_k, 0, DType::f16, {9, 1, 8});
    if (!read_first) b.set_rows(state, x, slots);
    b.output(b.flash_attn_ext(x, state, state, slots, slots, {}, {}, "attn"));
    if (read_first) b.set_rows(state, x, slots);
    auto g = b.finish();
    return g ? std::string("passed") : g.error().message();
  };
  EXPECT_EQ(build(false), "passed");
  EXPECT_EQ(build(true), "g: node 2 FLASH_ATTN_EXT attn: reads %4 before node 3 writes that state");
}

// Recurrent ops want the state of before this step, which a later CPY replaces.
TEST(Verify, RecurrentStatesAreReadBeforeTheyAreWritten) {
  GraphBuilder b("g");
  const RecurrentInputs in{.seq_ids = b.input(InputRole::seq_ids, {3}),
                           .state_src = b.input(InputRole::state_src, {1}),
                           .state_rows = b.input(InputRole::state_rows, {1})};
  const ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3}));
  const ValueId state = b.state(StateRole::conv, 0, DType::f32, {2, 24});
  b.output(b.ssm_conv(x, b.weight("taps", DType::f32, {8, 4}), state, in));
  b.cpy(state, b.ssm_conv_state(x, state, in), in.state_rows);
  const auto g = b.finish();
  EXPECT_TRUE(g) << g.error().message();
}

TEST(Verify, AGraphMustDoSomething) {
  GraphBuilder b("g");
  b.get_rows(b.weight("w", DType::f32, {4, 8}), b.input(InputRole::tokens, {3}));
  auto g = b.finish();
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().message(), "g: outputs: the graph has no output and writes no state");
}

}  // namespace
}  // namespace tokamak::ir
