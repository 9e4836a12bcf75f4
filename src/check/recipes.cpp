#include "check/recipes.h"

#include "quant/codec.h"

namespace tokamak::check {

std::vector<DType> weight_types() {
  std::vector<DType> out;
  for (const DTypeRow& row : kDTypes) {
    const bool is_integer = row.id == DType::i8 || row.id == DType::i16 || row.id == DType::i32 || row.id == DType::i64;
    const bool is_activation = row.id == DType::q8_1 || row.id == DType::q8_k;
    if (!is_integer && !is_activation && can_encode(row.id)) out.push_back(row.id);
  }
  return out;
}

std::vector<float> distinct_rows(CaseBuilder& c, int64_t width, bool ties) {
  std::vector<float> out;
  for (int64_t t = 0; t < c.n_tokens; ++t) {
    std::vector<float> row(static_cast<size_t>(width));
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = (static_cast<float>(ties ? i / 2 : i) - static_cast<float>(width) / 2) * 0.125f;
    for (size_t i = row.size(); i > 1; --i)
      std::swap(row[i - 1], row[static_cast<size_t>(c.random() * static_cast<double>(i))]);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

ir::ValueId expert_ids(CaseBuilder& c, int64_t n_expert, int64_t n_used) {
  const ir::ValueId logits = c.rows(n_expert, distinct_rows(c, n_expert));
  return c.b.view(c.b.argsort(logits), 0, {c.n_tokens, n_used});
}

std::vector<Recipe> all_recipes() {
  std::vector<Recipe> out;
  for (auto add : {add_row_recipes, add_matmul_recipes, add_attention_recipes, add_moe_recipes, add_recurrent_recipes,
                   add_norm_rules, add_matmul_rules, add_moe_rules})
    add(out);
  return out;
}

}  // namespace tokamak::check
