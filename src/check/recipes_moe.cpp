// Routing and experts.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};

void add_mask_groups(std::vector<Recipe>& out) {
  struct Groups {
    int64_t n_expert, n_group, n_used, n_best;
  };
  for (const Groups& g : {Groups{8, 4, 2, 2}, {8, 8, 3, 1}, {64, 8, 4, 2}, {6, 1, 1, 1}, {256, 8, 4, 2}})
    for (int64_t n : kTokens)
      out.push_back(
          {.subject = "MASK_GROUPS",
           .variant = fmt::format("experts={} groups={}/{} best={} n={}", g.n_expert, g.n_used, g.n_group, g.n_best, n),
           .build =
               [=](CaseBuilder& c) {
                 const ValueId x = c.rows(g.n_expert, distinct_rows(c, g.n_expert));
                 c.b.output(c.b.mask_groups(x, g.n_group, g.n_used, g.n_best));
               },
           .sequences = {{.n_tokens = n}}});
}

struct ExpertCase {
  int64_t n_expert, n_used;
  bool shared_input;
};
constexpr ExpertCase kExperts[] = {{4, 1, true}, {4, 2, true}, {5, 3, false}};
constexpr ExpertCase kManyExperts[] = {{16, 8, true}, {16, 8, false}, {1, 1, true}, {64, 6, true}};

void add_mul_mat_id(std::vector<Recipe>& out, DType type, std::span<const ExpertCase> cases) {
  for (const ExpertCase& e : cases)
    for (int64_t n : kTokens)
      for (Layout layout : {Layout::whole, Layout::slice})
        out.push_back({.subject = "MUL_MAT_ID",
                       .variant = fmt::format("type={} experts={} used={} input={} n={} layout={}", dtype_name(type),
                                              e.n_expert, e.n_used, e.shared_input ? "shared" : "own", n,
                                              layout == Layout::slice ? "slice" : "whole"),
                       .build =
                           [=](CaseBuilder& c) {
                             const int64_t k = std::max<int64_t>(dtype_row(type).block_elems, 64);
                             const ValueId ids = expert_ids(c, e.n_expert, e.n_used);
                             const ValueId x = c.tensor({e.shared_input ? 1 : e.n_used, k}, {}, layout);
                             c.b.output(c.b.mul_mat_id(c.weight(type, {e.n_expert, 19, k}), x, ids));
                           },
                       .sequences = {{.n_tokens = n}},
                       .dtype = type});
}

void add_add_id(std::vector<Recipe>& out) {
  for (int64_t n : kTokens)
    for (int64_t width : {1, 7, 64, 100})
      for (Layout layout : {Layout::whole, Layout::slice})
        out.push_back(
            {.subject = "ADD_ID",
             .variant = fmt::format("n={} width={} layout={}", n, width, layout == Layout::slice ? "slice" : "whole"),
             .build =
                 [=](CaseBuilder& c) {
                   const ValueId ids = expert_ids(c, 6, 3);
                   c.b.output(c.b.add_id(c.tensor({3, width}, {}, layout), c.weight(DType::f32, {6, width}), ids));
                 },
             .sequences = {{.n_tokens = n}}});
}

// GET_ROWS of one table per token, and of weights by [n, k] indices.
void add_get_rows_by_expert(std::vector<Recipe>& out) {
  for (int64_t n : kTokens)
    for (int64_t width : {1, 5}) {
      out.push_back({.subject = "GET_ROWS",
                     .variant = fmt::format("table=per-token n={} width={}", n, width),
                     .build =
                         [=](CaseBuilder& c) {
                           const ValueId ids = expert_ids(c, 12, 4);
                           c.b.output(c.b.get_rows(c.tensor({12, width}), ids));
                         },
                     .sequences = {{.n_tokens = n}}});
      out.push_back({.subject = "GET_ROWS",
                     .variant = fmt::format("table=weight ids=2d n={} width={}", n, width),
                     .build =
                         [=](CaseBuilder& c) {
                           const ValueId ids = expert_ids(c, 12, 4);
                           c.b.output(c.b.get_rows(c.weight(DType::f32, {12, width}), ids));
                         },
                     .sequences = {{.n_tokens = n}}});
    }
}

}  // namespace

void add_moe_recipes(std::vector<Recipe>& out) {
  add_get_rows_by_expert(out);
  add_mask_groups(out);
  for (DType type : weight_types()) add_mul_mat_id(out, type, kExperts);
  for (DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_k, DType::nvfp4, DType::mxfp4})
    add_mul_mat_id(out, type, kManyExperts);
  add_add_id(out);
}

}  // namespace tokamak::check
