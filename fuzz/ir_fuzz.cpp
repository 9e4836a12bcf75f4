// Any text: a place and a reason, or a verified graph that prints, parses back to an equal one, simplifies to a valid
// one and plans without two live values sharing memory.
#include "base/check.h"
#include "fuzz_target.h"
#include "ir/pass.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/verify.h"

using namespace tokamak;

namespace {

void check_plan(const ir::Graph& graph) {
  const auto plan = ir::plan_buffers(graph);
  if (!plan) return;
  for (const ir::Node& node : graph.nodes) {
    const ir::OpCost cost = ir::node_cost(graph, node);
    CHECK(cost.bytes >= 0 && cost.operations >= 0);
    const ir::Value& out = graph.value(node.output);
    if (out.kind != ir::ValueKind::intermediate || out.is_view()) continue;
    CHECK(plan->is_placed(node.output));
    const uint64_t begin = plan->offsets[node.output];
    const uint64_t end = begin + dtype_bytes(out.dtype, static_cast<uint64_t>(out.shape.n_elements()));
    CHECK(begin % ir::kPlanAlignment == 0 && end <= plan->n_bytes);
    for (ir::ValueId id : node.inputs) {
      const ir::ValueId owner = graph.storage_of(id);
      if (!plan->is_placed(owner)) continue;
      const ir::Value& in = graph.value(owner);
      const uint64_t in_begin = plan->offsets[owner];
      const uint64_t in_end = in_begin + dtype_bytes(in.dtype, static_cast<uint64_t>(in.shape.n_elements()));
      CHECK(in_end <= begin || end <= in_begin, node.name);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  auto graph = ir::parse_text({reinterpret_cast<const char*>(data), n_bytes});
  if (!graph) {
    CHECK(!graph.error().message().empty());
    return 0;
  }
  const auto back = ir::parse_text(ir::to_text(*graph));
  CHECK(back.has_value(), back ? "" : back.error().message());
  CHECK(*back == *graph);
  check_plan(*graph);
  CHECK(ir::simplify(*graph).has_value());
  const auto ok = ir::verify(*graph);
  CHECK(ok.has_value(), ok ? "" : ok.error().message());
  check_plan(*graph);
  return 0;
}
