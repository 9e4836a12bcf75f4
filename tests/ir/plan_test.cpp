#include "ir/plan.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/random_graph_helpers.h"

namespace tokamak::ir {
namespace {

uint64_t bytes_of(const Value& v) { return dtype_bytes(v.dtype, static_cast<uint64_t>(v.shape.n_elements())); }

// Runs the graph group by group, keeping for every byte of the arena which value was written last, and checks that each
// read finds its own bytes. Knows nothing of lifetimes.
void expect_reads_find_their_values(const Graph& graph, const Plan& plan, const std::string& what) {
  std::vector<ValueId> owner_of_byte(plan.n_bytes, kNone);
  const auto check_read = [&](ValueId id) {
    const ValueId owner = graph.storage_of(id);
    if (!plan.is_placed(owner)) return;
    for (uint64_t i = 0; i < bytes_of(graph.value(owner)); ++i)
      ASSERT_EQ(owner_of_byte[plan.offsets[owner] + i], owner) << what << " value " << id;
  };
  std::vector<Group> groups = graph.groups;
  if (groups.empty())
    for (NodeId id = 0; id < graph.nodes.size(); ++id) groups.push_back({.nodes = {id}});
  for (const Group& group : groups) {
    // All results are written before anything is read: the harshest order inside one kernel.
    for (NodeId id : group.nodes) {
      const ValueId out = graph.node(id).output;
      if (graph.value(out).is_view() || !plan.is_placed(out)) continue;
      ASSERT_LE(plan.offsets[out] + bytes_of(graph.value(out)), plan.n_bytes) << what;
      ASSERT_EQ(plan.offsets[out] % kPlanAlignment, 0u) << what;
      for (uint64_t i = 0; i < bytes_of(graph.value(out)); ++i) owner_of_byte[plan.offsets[out] + i] = out;
    }
    for (NodeId id : group.nodes)
      for (ValueId input : graph.node(id).inputs) check_read(input);
  }
  for (ValueId id : graph.outputs) check_read(id);
}

TEST(Plan, RandomGraphsKeepLiveValuesApart) {
  uint64_t planned = 0, naive = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Graph graph = random_graph(seed);
    if (seed % 3 == 0)  // groups of four
      for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (id % 4 == 0) graph.groups.push_back({.rule = 0});
        graph.groups.back().nodes.push_back(id);
      }
    auto plan = plan_buffers(graph);
    ASSERT_TRUE(plan);
    expect_reads_find_their_values(graph, *plan, "seed " + std::to_string(seed));
    uint64_t sum = 0;
    for (const Value& v : graph.values)
      if (v.kind == ValueKind::intermediate && !v.is_view()) sum += (bytes_of(v) + 63) / 64 * 64;
    EXPECT_LE(plan->n_bytes, sum) << seed;
    planned += plan->n_bytes;
    naive += sum;
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value& v = graph.value(id);
      const bool leaf_memory = graph.value(graph.storage_of(id)).kind != ValueKind::intermediate;
      EXPECT_EQ(plan->is_placed(id), !leaf_memory) << seed;
      if (!v.is_view() || leaf_memory) continue;
      EXPECT_EQ(plan->offsets[id], plan->offsets[v.storage] + 4 * static_cast<uint64_t>(v.offset_elems));
    }
  }
  EXPECT_LT(planned, naive);
}

Graph chain(int n, bool grouped) {
  GraphBuilder b("chain");
  ValueId x = b.get_rows(b.weight("w", DType::f32, {4, 16}), b.input(InputRole::tokens, {1}));
  for (int i = 0; i < n; ++i) x = b.scale(x, 2);
  b.output(x);
  Graph graph = *b.finish();
  if (grouped) {
    graph.groups = {{.rule = 0}};
    for (NodeId id = 0; id < graph.nodes.size(); ++id) graph.groups[0].nodes.push_back(id);
  }
  return graph;
}

TEST(Plan, AChainNeedsTwoBuffersAndAGroupAllOfThem) {
  EXPECT_EQ(plan_buffers(chain(20, false))->n_bytes, 128u);
  EXPECT_EQ(plan_buffers(chain(20, true))->n_bytes, 21 * 64u);
}

TEST(Plan, ElidedValuesGetNoStorage) {
  const Graph graph = chain(20, true);
  const auto plan = plan_buffers(graph, [&](ValueId id) { return !graph.is_output(id); });
  EXPECT_EQ(plan->n_bytes, 64u);
  EXPECT_TRUE(plan->is_placed(graph.outputs[0]));
  EXPECT_FALSE(plan->is_placed(graph.nodes[3].output));
}

TEST(PlanDeathTest, ElidingAValueThatLeavesItsGroupIsABug) {
  const Graph graph = chain(2, false);
  EXPECT_DEATH((void)plan_buffers(graph, [&](ValueId id) { return id == graph.nodes[0].output; }), "leaves its group");
}

TEST(Plan, ImpossibleSizesAreAnError) {
  GraphBuilder b("huge");
  const ValueId ids = b.input(InputRole::tokens, {int64_t{1} << 22});
  const ValueId w = b.weight("w", DType::f32, {4, int64_t{1} << 22});
  ValueId x = b.get_rows(w, ids);
  for (int i = 0; i < 70000; ++i) x = b.scale(x, 2);
  b.output(x);
  auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.error().message();
  auto plan = plan_buffers(*graph);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace tokamak::ir
