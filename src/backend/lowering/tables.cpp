#include "backend/lowering/tables.h"

#include <fmt/format.h>

namespace tokamak::lowering {

std::string missing_kernel(bool has_row, Beyond beyond, const ir::Graph& graph, const ir::Node& node) {
  const ir::OpRow& op = ir::op_row(node.op);
  if (op.is_view) return {};
  if (!has_row) return fmt::format("{} kernel", op.name);
  const std::string what = beyond ? beyond(graph, node) : std::string();
  return what.empty() ? what : fmt::format("{} kernel for {}", op.name, what);
}

Result<void> check_nodes(const ir::Graph& graph, std::string (*missing)(const ir::Graph& graph, const ir::Node& node),
                         std::string_view backend, std::string_view hint) {
  for (const ir::Node& node : graph.nodes)
    if (const std::string kernel = missing(graph, node); !kernel.empty())
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("the {} backend has no {}", backend, kernel),
                   .where = node.name.empty() ? graph.name : node.name,
                   .hint = std::string(hint)};
  return {};
}

}  // namespace tokamak::lowering
