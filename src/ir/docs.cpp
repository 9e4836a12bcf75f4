#include "ir/docs.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/ops.h"

namespace tokamak::ir {

namespace {

std::string range_of(const AttrRow& row) {
  if (row.kind == AttrKind::shape) return "shape";
  if (row.kind == AttrKind::keyword) {
    std::string out;
    for (std::string_view keyword : row.keywords) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", keyword);
    return out;
  }
  const std::string_view kind = row.kind == AttrKind::integer ? "integer" : "number";
  const bool no_min = row.min == std::numeric_limits<double>::lowest();
  const bool no_max = row.max == std::numeric_limits<double>::max() || row.max == kMaxIntegerAttr;
  if (no_min && no_max) return std::string(kind);
  if (no_max) return fmt::format("{} >= {}", kind, row.min);
  return fmt::format("{} from {} to {}", kind, row.min, row.max);
}

}  // namespace

std::string ops_markdown() {
  std::string out =
      "# Ops\n\n"
      "Printed by the binary from `src/ir/ops.cpp`. Shapes are written outermost first. Activations are f32; a view "
      "op\n"
      "moves no data. The exact meaning of each op is its plain loop in `src/backend/reference`.\n\n"
      "| op | operands | attributes | meaning |\n|---|---|---|---|\n";
  for (const OpRow& row : op_table()) {
    std::string attrs;
    for (Attr attr : row.attrs) attrs += fmt::format("{}`{}`", attrs.empty() ? "" : ", ", attr_row(attr).name);
    const std::string operands = row.min_inputs == row.max_inputs
                                     ? std::string(row.signature)
                                     : fmt::format("{} (the first {} required)", row.signature, row.min_inputs);
    out +=
        fmt::format("| {}{} | {} | {} | {} |\n", row.name, row.is_view ? " (view)" : "", operands, attrs, row.meaning);
  }
  out += "\n## Attributes\n\n| attribute | values | meaning |\n|---|---|---|\n";
  for (const AttrRow& row : kAttrs) out += fmt::format("| `{}` | {} | {} |\n", row.name, range_of(row), row.meaning);
  return out;
}

}  // namespace tokamak::ir
