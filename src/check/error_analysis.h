// The state of an error analysis, and its rules by op. Internal to bounds.cpp and bounds_*.cpp.
#pragma once

#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "check/bounds.h"

namespace tokamak::check {

// Numbers of one value, contiguous, with the bound of each.
struct Numbers {
  std::vector<float> x;
  std::vector<double> e;
  std::vector<int32_t> i;  // of i32 values, instead
};

struct Analysis {
  const Case& c;
  const ir::Graph& graph;
  const StepData& step;
  const Arithmetic arithmetic;
  std::vector<Numbers> numbers;                                  // by value
  bool is_ambiguous = false;                                     // see Expected
  std::map<std::pair<ir::StateRole, int32_t>, Numbers>& states;  // by role and layer: [n_rows or n_slots, ...]

  Numbers& of(ir::ValueId id) { return numbers[id]; }
  const Shape& shape(ir::ValueId id) const { return graph.value(id).shape; }
  Numbers& state(ir::ValueId id) { return states[{graph.value(id).state_role, graph.value(id).layer_idx}]; }
};

using ErrorRule = void (*)(Analysis& a, const ir::Node& node);

// n*u times what is summed: any order of n f32 operations.
inline double rounding(double n, double magnitude) { return n * kUnit * magnitude; }
// The reference and the backend each store a rounded result.
inline double stored(double y) { return 2 * kUnit * std::abs(y); }

// bounds_rows.cpp
void error_get_rows(Analysis& a, const ir::Node& node);
void error_binary(Analysis& a, const ir::Node& node);
void error_scale(Analysis& a, const ir::Node& node);
void error_clamp(Analysis& a, const ir::Node& node);
void error_unary(Analysis& a, const ir::Node& node);
void error_glu(Analysis& a, const ir::Node& node);
void error_norm(Analysis& a, const ir::Node& node);
void error_soft_max(Analysis& a, const ir::Node& node);
void error_sum_rows(Analysis& a, const ir::Node& node);
void error_argsort(Analysis& a, const ir::Node& node);
void error_mask_groups(Analysis& a, const ir::Node& node);
void error_same(Analysis& a, const ir::Node& node);
void error_concat(Analysis& a, const ir::Node& node);
void error_attn_temp(Analysis& a, const ir::Node& node);
void error_cross_entropy(Analysis& a, const ir::Node& node);
void error_view(Analysis& a, const ir::Node& node);
// bounds_matmul.cpp
void error_mul_mat(Analysis& a, const ir::Node& node);
void error_mul_mat_id(Analysis& a, const ir::Node& node);
void error_add_id(Analysis& a, const ir::Node& node);
// bounds_attention.cpp
void error_rope(Analysis& a, const ir::Node& node);
void error_set_rows(Analysis& a, const ir::Node& node);
void error_flash_attn_ext(Analysis& a, const ir::Node& node);
// bounds_recurrent.cpp
void error_ssm_conv(Analysis& a, const ir::Node& node);
void error_ssm_conv_state(Analysis& a, const ir::Node& node);
void error_gated_delta_net(Analysis& a, const ir::Node& node);
void error_cpy(Analysis& a, const ir::Node& node);

}  // namespace tokamak::check
