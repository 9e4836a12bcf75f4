#include "backend/lowering/tables.h"

#include <fmt/format.h>

namespace tokamak::lowering {

Result<void> check_ops(const ir::Graph& graph, bool (*has_lowering)(ir::Op op), std::string_view backend,
                       std::string_view hint) {
  for (const ir::Node& node : graph.nodes)
    if (!has_lowering(node.op))
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("the {} backend has no {} kernel", backend, ir::op_row(node.op).name),
                   .where = node.name.empty() ? graph.name : node.name,
                   .hint = std::string(hint)};
  return {};
}

}  // namespace tokamak::lowering
