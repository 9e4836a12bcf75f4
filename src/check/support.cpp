#include "check/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "check/recipes.h"
#include "check/run.h"

namespace tokamak::check {

namespace {

constexpr size_t kMaxTried = 6;  // cases of one subject and type, spread over all

// Cases by what they stand for: order in the table, then type.
struct Key {
  bool is_rule;
  int row;  // of the op or rule
  std::optional<DType> dtype;
  friend auto operator<=>(const Key&, const Key&) = default;
};

Key key_of(const Recipe& recipe) {
  if (recipe.rule) return {true, static_cast<int>(*recipe.rule), recipe.dtype};
  return {false, static_cast<int>(ir::find_op(recipe.subject)->op), recipe.dtype};
}

std::string subject_of(const Key& key) {
  if (key.is_rule) return std::string(fuse::rules()[static_cast<size_t>(key.row)].label);
  return std::string(ir::op_table()[static_cast<size_t>(key.row)].name);
}

bool compiles(const Recipe& recipe, Backend& backend) {
  const auto made = make_case(recipe, 1);
  if (!made) return false;
  const auto compiled = compile_case(*made, backend, {.fusion = recipe.rule.has_value()});
  if (!compiled) return false;
  return !recipe.rule ||
         std::ranges::find(compiled->rules, static_cast<uint16_t>(*recipe.rule)) != compiled->rules.end();
}

}  // namespace

std::string Support::text() const {
  if (n_supported == 0) return "no";
  return n_supported == n_tried ? "yes" : fmt::format("{} of {}", n_supported, n_tried);
}

std::vector<Support> support_of(Backend& backend) {
  const std::vector<Recipe> all = all_recipes();
  std::map<Key, std::vector<const Recipe*>> by_key;
  for (const Recipe& recipe : all) by_key[key_of(recipe)].push_back(&recipe);
  std::vector<Support> out;
  for (const auto& [key, recipes] : by_key) {
    Support row{.subject = subject_of(key), .dtype = key.dtype, .is_rule = key.is_rule};
    const size_t n = std::min(kMaxTried, recipes.size());
    for (size_t i = 0; i < n; ++i) {
      ++row.n_tried;
      if (compiles(*recipes[i * recipes.size() / n], backend)) ++row.n_supported;
    }
    out.push_back(std::move(row));
  }
  return out;
}

namespace {

// Rows of one subject with the same answers become one line; its types are listed.
std::string table_of(std::span<const BackendSupport> backends, bool rules) {
  std::string out = fmt::format("| {} | types |", rules ? "rule" : "op");
  std::string line = "|---|---|";
  for (const BackendSupport& backend : backends) {
    out += fmt::format(" {} |", backend.name);
    line += "---|";
  }
  out += "\n" + line + "\n";
  std::vector<std::pair<std::pair<std::string, std::string>, std::string>> lines;  // subject and answers: types
  for (size_t i = 0; i < backends[0].rows.size(); ++i) {
    const Support& row = backends[0].rows[i];
    if (row.is_rule != rules) continue;
    std::string answers;
    for (const BackendSupport& backend : backends) answers += fmt::format(" {} |", backend.rows[i].text());
    const std::pair key{row.subject, answers};
    auto found = std::ranges::find(lines, key, [](const auto& l) { return l.first; });
    if (found == lines.end()) found = lines.insert(lines.end(), {key, ""});
    if (row.dtype) found->second += fmt::format("{}{}", found->second.empty() ? "" : ", ", dtype_name(*row.dtype));
  }
  std::string all_types;
  for (DType type : weight_types()) all_types += fmt::format("{}{}", all_types.empty() ? "" : ", ", dtype_name(type));
  for (auto& [key, types] : lines) {
    if (types == all_types) types = "all";
    std::string subject;
    for (char c : key.first) subject += c == '|' ? "\\|" : std::string(1, c);
    out += fmt::format("| {} | {} |{}\n", subject, types, key.second);
  }
  return out;
}

}  // namespace

std::string support_markdown(std::span<const BackendSupport> backends) {
  return "# Support\n\n"
         "Printed by the program: `tokamak check-ops support` compiles cases of every op, type and fusion rule on each "
         "backend\nand sees what is refused. \"3 of 4\": some forms of it have no kernel; the ops of a rule without a "
         "kernel run one by\none, with the same result. Types are those of the weight or of the cache;\n\"all\": every "
         "type that a model file may hold weights in.\n\n## Ops\n\n" +
         table_of(backends, false) +
         "\n## Fusion rules\n\nThe reference backend runs every op by itself: groups mean what their members "
         "mean.\n\n" +
         table_of(backends, true);
}

}  // namespace tokamak::check
