#include "eval/fusion_structure.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "arch/recipe.h"
#include "fuse/matcher.h"
#include "ir/pass.h"

namespace tokamak {

namespace {
using fuse::RuleId;

struct ShortName {
  RuleId rule;
  std::string_view name;
};
// The published rules, in the order of structural_text().
constexpr auto kShortNames = std::to_array<ShortName>({
    {RuleId::add_2, "A2"},
    {RuleId::add_3, "A3"},
    {RuleId::add_4, "A4"},
    {RuleId::add_5, "A5"},
    {RuleId::add_6, "A6"},
    {RuleId::add_7, "A7"},
    {RuleId::snake, "S"},
    {RuleId::gated_delta_net_cpy, "G"},
    {RuleId::norm_mul, "L"},
    {RuleId::norm_mul_add, "Lb"},
    {RuleId::rms_norm_mul, "R"},
    {RuleId::rms_norm_mul_add, "Rb"},
});

const ShortName* find_name(RuleId rule) {
  const auto found = std::ranges::find(kShortNames, rule, &ShortName::rule);
  return found == kShortNames.end() ? nullptr : &*found;
}
}  // namespace

Result<std::map<std::string, int>> structural_counts(const Model& model, int64_t n_tokens) {
  ir::Graph graph = TRY(arch::build_graph(
      model.file(), model.hparams(),
      {.n_tokens = n_tokens, .n_outputs = n_tokens, .n_slots = n_tokens, .n_ctx = model.hparams().n_ctx_train}));
  TRY(ir::simplify(graph));
  fuse::fuse(
      graph,
      [](const ir::Graph&, const fuse::Rule& rule, std::span<const ir::NodeId>) {
        return find_name(rule.id) != nullptr;
      },
      true);
  std::map<std::string, int> counts;
  for (const ir::Group& group : graph.groups)
    if (group.rule != UINT16_MAX) ++counts[std::string(find_name(static_cast<RuleId>(group.rule))->name)];
  return counts;
}

std::string structural_text(const std::map<std::string, int>& counts) {
  std::string out;
  for (const ShortName& row : kShortNames) {
    const auto found = counts.find(std::string(row.name));
    if (found == counts.end()) continue;
    const bool is_chain = row.name.starts_with('A');
    out += fmt::format("{}{}{}{}", out.empty() ? "" : " ", row.name, is_chain ? "x" : "", found->second);
  }
  return out.empty() ? "none" : out;
}

}  // namespace tokamak
