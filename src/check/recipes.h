// What is checked: for every op and every fusion rule, recipes over shapes, types, layouts and sequences.
#pragma once

#include <vector>

#include "check/case.h"

namespace tokamak::check {

// All of them, in the order of the tables of ops and rules. Every op and every rule has at least one.
std::vector<Recipe> all_recipes();
// The sizes of real models, for measurements.
std::vector<Recipe> perf_recipes();

// By file.
void add_row_recipes(std::vector<Recipe>& out);
void add_matmul_recipes(std::vector<Recipe>& out);
void add_attention_recipes(std::vector<Recipe>& out);
void add_moe_recipes(std::vector<Recipe>& out);
void add_recurrent_recipes(std::vector<Recipe>& out);
void add_norm_rules(std::vector<Recipe>& out);
void add_matmul_rules(std::vector<Recipe>& out);
void add_moe_rules(std::vector<Recipe>& out);

// [n_tokens, width] rows of distinct numbers in a random order, in steps that no rounding can bridge; with `ties`,
// every number twice.
std::vector<float> distinct_rows(CaseBuilder& c, int64_t width, bool ties = false);
// The n_used best of n_expert by such rows: i32 [n_tokens, n_used].
ir::ValueId expert_ids(CaseBuilder& c, int64_t n_expert, int64_t n_used);

// Types that a product may have as weights: all but integers.
std::vector<DType> weight_types();
// Rows of `n` elements are whole blocks of `type`.
inline bool has_whole_blocks(DType type, int64_t n) { return n % dtype_row(type).block_elems == 0; }

}  // namespace tokamak::check
