#include "fuse/docs.h"

#include <fmt/format.h>

#include "fuse/rules.h"

namespace tokamak::fuse {

std::string rules_markdown() {
  std::string out =
      "# Fusion rules\n\n"
      "Printed by the binary from `src/fuse/rules.cpp`, the only place where a fusable sequence is written down. View "
      "ops\n"
      "inside a sequence are left out when it is matched; the longest rule that fits at a node wins. Results inside a\n"
      "group are read by its members only. \"chain\": every node reads its predecessor's whole result; \"equal "
      "shapes\":\n"
      "all results have the same shape; \"?\": the op may be missing; \"...\": the op before may follow any number of "
      "times.\n"
      "A group means what its members mean, run one by one.\n\n"
      "| row | label | ops | conditions | what it is |\n|---|---|---|---|---|\n";
  for (const Rule& rule : rules()) {
    std::string ops;
    for (size_t i = 0; i < rule.ops.size(); ++i)
      ops += fmt::format("{}{}{}", ops.empty() ? "" : ", ", ir::op_row(rule.ops[i]).name,
                         (rule.optional >> i & 1) != 0 ? "?" : "");
    if (rule.last_repeats) ops += "...";
    const std::string_view conditions = rule.is_chain ? (rule.equal_shapes ? "chain, equal shapes" : "chain")
                                                      : (rule.equal_shapes ? "equal shapes" : "");
    out += fmt::format("| {} | {} | {} | {} | {} |\n", static_cast<int>(rule.id), rule.label, ops, conditions,
                       rule.meaning);
  }
  return out;
}

}  // namespace tokamak::fuse
