// The definition of every op: plain loops, f32 storage, f64 arithmetic. Slow forever.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "ir/graph.h"

namespace tokamak::reference {

// Keys or values of one layer: f32 [n_slots, n_head_kv, head_dim], each row already rounded to the cache's type.
// Recurrent states: f32 [n_rows, 1, row].
struct StateTensor {
  std::vector<float> data;
  int64_t n_head_kv = 0, head_dim = 0;
  DType type = DType::f32;
};

// One operand or result. Exactly one of the pointers is set, by the value's kind and dtype.
struct Tensor {
  const ir::Value* value = nullptr;
  float* f32 = nullptr;                // intermediate (views resolved to their first element)
  const int32_t* i32 = nullptr;        // step input, or indices that a node has made
  int32_t* i32_out = nullptr;          // the latter
  const std::byte* encoded = nullptr;  // weight, in the file's encoding
  StateTensor* state = nullptr;

  int64_t n_rows() const { return value->shape.n_rows(); }
  int64_t row_elems() const { return value->shape.row_elems(); }
  float* row(int64_t r) const { return f32 + r * value->row_stride_elems; }
  const int32_t* i32_row(int64_t r) const { return i32 + r * value->row_stride_elems; }
};

struct OpContext {
  const ir::Node& node;
  std::span<const Tensor> inputs;
  Tensor output;
  const StepInputs& step;
  int64_t page_size;
};

using OpFunction = void (*)(const OpContext&);

struct OpKernel {
  ir::Op op;
  OpFunction run;  // null for views: nothing to do
};

// One row per op, in enum order.
std::span<const OpKernel> op_kernels();

// The ops by file.
void soft_max(const OpContext& c);
void sum_rows(const OpContext& c);
void argsort(const OpContext& c);
void mask_groups(const OpContext& c);
void mul_mat_id(const OpContext& c);
void add_id(const OpContext& c);
void cross_entropy_loss(const OpContext& c);
void ssm_conv(const OpContext& c);
void ssm_conv_state(const OpContext& c);
void gated_delta_net(const OpContext& c);
void cpy(const OpContext& c);

struct RopeAngles {
  std::vector<double> per_position;  // angle of pair i at position p: p * per_position[i]
  double magnitude;                  // factor on cos and sin
};
// Of a ROPE's attributes; factors: its third operand or null.
RopeAngles rope_angles(const ir::Attrs& attrs, const Tensor* factors);

// Sum of products in f64, in a fixed order.
double dot(const float* a, const float* b, int64_t n);

// Row `row` of a weight or an f32 tensor as f32 [row_elems].
void read_row(const Tensor& tensor, int64_t row, float* out);

}  // namespace tokamak::reference
