// What the lowering files of matrix products share: lower_matmul.cpp (one matrix), lower_experts.cpp (stacks of them).
#pragma once

#include <string_view>

#include "backend/cpu/lower.h"
#include "backend/lowering/attributes.h"
#include "backend/lowering/products.h"

namespace tokamak::cpu {

using lowering::Lane;

// Adds the step that shows the input of `product` to the observer. Before anything of the group is computed: its
// result may lie where its input was.
void add_observer(Lowering& lowering, const ir::Node& product);

// What the kernels read: packed panels, or the file's rows.
inline const std::byte* kernel_form(const CpuWeight& weight) { return weight.packed ? weight.packed : weight.rows; }
// For the report: why no better kernel.
std::string_view kernel_note(const GemmKernel& kernel, DType dtype);

// int32 values [n, n_used] that a node has made or the step brings.
struct Indices {
  Rows rows;                                                      // of a node's
  ir::InputRole role = ir::InputRole::none;                       // of the step's
  int64_t n = 0, n_used = 0, stride_elems = 0, offset_elems = 0;  // offset: of the step's

  const int32_t* data(const RunContext& context) const;
};
Indices indices_of(const Lowering& lowering, ir::ValueId id);

// A route says which (token, chosen expert) pairs go through which expert: bytes of its region.
uint64_t route_bytes(int64_t n_pairs, int64_t n_expert);

// MUL_MAT with a stack of matrices, one per head.
void lower_mul_mat_heads(Lowering& lowering, const ir::Node& node);

}  // namespace tokamak::cpu
