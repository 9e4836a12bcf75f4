// Small graphs for the tests of fusion rules.
#pragma once

#include <string>

#include "fuse/matcher.h"
#include "ir/builder.h"

namespace tokamak::fuse {

using ir::GraphBuilder;
using ir::ValueId;

// Builds a graph and says which fused groups the pass finds, "A,B" in order; single nodes are left out.
template <class Build>
std::string fused(Build build) {
  GraphBuilder b("g");
  build(b);
  auto graph = b.finish();
  if (!graph) return graph.error().message();
  fuse(*graph, {}, true);
  std::string out;
  for (const ir::Group& group : graph->groups)
    if (group.rule != UINT16_MAX) out += (out.empty() ? "" : ",") + std::string(group_label(*graph, group));
  return out;
}

inline ValueId rows(GraphBuilder& b, int64_t n = 3, int64_t width = 8) {
  return b.get_rows(b.weight("table" + std::to_string(width), DType::f32, {9, width}),
                    b.input(ir::InputRole::tokens, {n}));
}
inline ValueId more(GraphBuilder& b, const char* name = "other table") {
  return b.get_rows(b.weight(name, DType::f32, {9, 8}), b.input(ir::InputRole::tokens, {3}));
}
inline ValueId vec(GraphBuilder& b, const char* name = "v", int64_t n = 8) { return b.weight(name, DType::f32, {n}); }

}  // namespace tokamak::fuse
