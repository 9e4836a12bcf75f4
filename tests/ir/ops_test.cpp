#include "ir/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "ir/docs.h"

namespace tokamak::ir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

OperandType f32(const Shape& shape) { return {DType::f32, shape}; }
OperandType i32(const Shape& shape) { return {DType::i32, shape}; }

int64_t word(auto keyword) { return static_cast<int64_t>(keyword); }

Attrs rope_attrs(int64_t n_rot) {
  return {{Attr::n_rot, n_rot},           {Attr::pairing, word(RopePairing::norm)},
          {Attr::theta, 10000.0},         {Attr::freq_scale, 1.0},
          {Attr::ext_factor, 0.0},        {Attr::attn_factor, 1.0},
          {Attr::beta_fast, 32.0},        {Attr::beta_slow, 1.0},
          {Attr::n_ctx_orig, int64_t{0}}, {Attr::round_range, int64_t{1}}};
}
Attrs flash_attrs() {
  return {{Attr::scale, 0.125},
          {Attr::softcap, 0.0},
          {Attr::window, int64_t{0}},
          {Attr::chunk, int64_t{0}},
          {Attr::causal, int64_t{1}}};
}
Attrs glu_attrs(Glu kind) { return {{Attr::glu, word(kind)}, {Attr::alpha, 0.0}, {Attr::limit, 0.0}}; }
Attrs groups(int64_t n_group, int64_t n_used, int64_t n_best) {
  return {{Attr::n_group, n_group}, {Attr::n_group_used, n_used}, {Attr::n_best, n_best}};
}
Attrs temp_attrs() {
  return {{Attr::temp_scale, 0.1}, {Attr::temp_length, int64_t{8}}, {Attr::temp_offset, int64_t{1}}};
}
Attrs snapshots(int64_t n) { return {{Attr::n_snapshots, n}}; }
Attrs net_attrs(int64_t n) {
  return {{Attr::scale, 0.5}, {Attr::n_snapshots, n}, {Attr::head_map, word(HeadMap::tiled)}};
}
Attrs dims(const Shape& shape) { return {{Attr::dims, shape}}; }
Attrs view_attrs(int64_t offset, const Shape& shape) { return {{Attr::offset, offset}, {Attr::dims, shape}}; }

TEST(OpTable, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const OpRow& row : op_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_op(row.name), &row);
    EXPECT_FALSE(row.meaning.empty());
    EXPECT_LE(row.min_inputs, row.max_inputs);
    EXPECT_EQ(std::ranges::count(row.signature, ',') + 1, row.max_inputs) << row.name;
  }
  EXPECT_EQ(find_op("NO_SUCH_OP"), nullptr);
  EXPECT_EQ(operand_name(Op::flash_attn_ext, 5), "sinks");
}

struct Good {
  Op op;
  std::vector<OperandType> inputs;
  Attrs attrs;
  DType dtype;
  Shape shape;
  OpCost cost;
};

std::vector<Good> good_cases() {
  return {
      {Op::get_rows, {{DType::q8_0, {100, 64}}, i32({3})}, {}, DType::f32, {3, 64}, {3 * 68 + 12 + 768, 0}},
      {Op::add, {f32({3, 8}), f32({3, 8})}, {}, DType::f32, {3, 8}, {3 * 96, 24}},
      {Op::mul, {f32({3, 2, 8}), f32({8})}, {}, DType::f32, {3, 2, 8}, {192 + 32 + 192, 48}},
      {Op::mul, {f32({3, 2, 8}), f32({2, 8})}, {}, DType::f32, {3, 2, 8}, {192 + 64 + 192, 48}},
      {Op::get_rows, {f32({9, 8}), i32({3, 2})}, {}, DType::f32, {3, 2, 8}, {192 + 24 + 192, 0}},
      {Op::get_rows, {f32({3, 9, 1}), i32({3, 2})}, {}, DType::f32, {3, 2, 1}, {24 + 24 + 24, 0}},
      {Op::sub, {f32({3, 8}), f32({3, 1})}, {}, DType::f32, {3, 8}, {96 + 12 + 96, 24}},
      {Op::div, {f32({3, 8}), f32({1})}, {}, DType::f32, {3, 8}, {96 + 4 + 96, 24}},
      {Op::clamp, {f32({3, 8})}, {{Attr::min, -1.0}, {Attr::max, 1.0}}, DType::f32, {3, 8}, {192, 48}},
      {Op::scale, {f32({3, 8})}, {{Attr::scale, 2.0}, {Attr::bias, 0.0}}, DType::f32, {3, 8}, {192, 48}},
      {Op::unary, {f32({3, 8})}, {{Attr::unary, word(Unary::tanh)}}, DType::f32, {3, 8}, {192, 24}},
      {Op::glu, {f32({3, 8}), f32({3, 8})}, glu_attrs(Glu::swiglu), DType::f32, {3, 8}, {288, 48}},
      {Op::glu, {f32({3, 8})}, glu_attrs(Glu::geglu), DType::f32, {3, 4}, {96 + 48, 24}},
      {Op::norm, {f32({3, 8})}, {{Attr::eps, 1e-5}}, DType::f32, {3, 8}, {192, 120}},
      {Op::rms_norm, {f32({3, 8})}, {{Attr::eps, 1e-5}}, DType::f32, {3, 8}, {192, 72}},
      {Op::mul_mat,
       {{DType::q4_0, {5, 64}}, f32({3, 64})},
       {},
       DType::f32,
       {3, 5},
       {5 * 36 + 768 + 60, 2 * 3 * 5 * 64}},
      {Op::rope, {f32({3, 2, 8}), i32({3})}, rope_attrs(4), DType::f32, {3, 2, 8}, {192 + 12 + 192, 72}},
      {Op::rope, {f32({3, 2, 8}), i32({3}), f32({4})}, rope_attrs(8), DType::f32, {3, 2, 8}, {412, 144}},
      {Op::set_rows,
       {{DType::f16, {9, 2, 8}}, f32({3, 2, 8}), i32({3})},
       {},
       DType::f16,
       {9, 2, 8},
       {192 + 12 + 96, 0}},
      {Op::flash_attn_ext,
       {f32({3, 4, 8}), {DType::f16, {9, 2, 8}}, {DType::f16, {9, 2, 6}}, i32({3}), i32({3})},
       flash_attrs(),
       DType::f32,
       {3, 4, 6},
       {384 + 288 + 216 + 24 + 288, 3 * 4 * 9 * (16 + 12)}},
      {Op::reshape, {f32({3, 8})}, dims({3, 2, 4}), DType::f32, {3, 2, 4}, {0, 0}},
      {Op::view, {f32({3, 8})}, view_attrs(2, {3, 4}), DType::f32, {3, 4}, {0, 0}},
  };
}
std::vector<Good> good_expert_cases() {
  return {
      {Op::l2_norm, {f32({3, 8})}, {{Attr::eps, 1e-5}}, DType::f32, {3, 8}, {192, 72}},
      {Op::soft_max, {f32({3, 8})}, {}, DType::f32, {3, 8}, {192, 96}},
      {Op::sum_rows, {f32({3, 2, 8})}, {}, DType::f32, {3, 2, 1}, {192 + 24, 6}},
      {Op::argsort, {f32({3, 8})}, {}, DType::i32, {3, 8}, {192, 24}},
      {Op::mask_groups, {f32({3, 8})}, groups(4, 2, 2), DType::f32, {3, 8}, {192, 48}},
      {Op::concat, {f32({3, 2, 8}), f32({3, 2, 4})}, {}, DType::f32, {3, 2, 12}, {192 + 96 + 288, 0}},
      {Op::cont, {{DType::f32, {3, 8}, false}}, {}, DType::f32, {3, 8}, {192, 0}},
      {Op::mul_mat, {f32({2, 5, 8}), f32({3, 2, 8})}, {}, DType::f32, {3, 2, 5}, {320 + 192 + 120, 2 * 30 * 8}},
      // Two tokens with one expert each read half of four experts; three with two each read all.
      {Op::mul_mat_id,
       {{DType::q4_0, {4, 5, 64}}, f32({2, 1, 64}), i32({2, 1})},
       {},
       DType::f32,
       {2, 1, 5},
       {2 * 5 * 36 + 512 + 8 + 40, 2 * 10 * 64}},
      {Op::mul_mat_id,
       {{DType::q4_0, {4, 5, 64}}, f32({3, 2, 64}), i32({3, 2})},
       {},
       DType::f32,
       {3, 2, 5},
       {4 * 5 * 36 + 1536 + 24 + 120, 2 * 30 * 64}},
      {Op::add_id, {f32({3, 2, 8}), f32({4, 8}), i32({3, 2})}, {}, DType::f32, {3, 2, 8}, {3 * 192 + 24, 48}},
      {Op::attn_temp, {f32({3, 2, 8}), i32({3})}, temp_attrs(), DType::f32, {3, 2, 8}, {192 + 12 + 192, 48}},
  };
}
std::vector<Good> good_recurrent_cases() {
  return {
      {Op::ssm_conv,
       {f32({5, 6}), f32({6, 4}), f32({9, 18}), i32({2}), i32({5})},
       {},
       DType::f32,
       {5, 6},
       {120 + 96 + 120, 2 * 30 * 4}},
      {Op::ssm_conv_state,
       {f32({5, 6}), f32({9, 18}), i32({2}), i32({5})},
       snapshots(3),
       DType::f32,
       {6, 18},
       {2 * 6 * 18 * 4, 0}},
      {Op::gated_delta_net,
       {f32({5, 2, 3}), f32({5, 2, 3}), f32({5, 4, 6}), f32({5, 4}), f32({5, 4}), f32({9, 72}), i32({2}), i32({5})},
       net_attrs(3),
       DType::f32,
       {5 * 24 + 2 * 3 * 72},
       {4 * (30 + 30 + 120 + 20 + 20) + 4 * 552 + 4 * 2 * 72, 7 * 5 * 72}},
      {Op::gated_delta_net,  // one decay per channel
       {f32({1, 2, 3}), f32({1, 2, 3}), f32({1, 2, 6}), f32({1, 2, 3}), f32({1, 2}), f32({9, 36}), i32({1}), i32({1})},
       net_attrs(1),
       DType::f32,
       {12 + 36},
       {4 * (6 + 6 + 12 + 6 + 2) + 4 * 48 + 4 * 36, 7 * 36}},
      {Op::cpy, {f32({9, 18}), f32({6, 18}), i32({2})}, {}, DType::f32, {9, 18}, {2 * 6 * 18 * 4, 0}},
      {Op::cross_entropy_loss, {f32({3, 8}), f32({3, 8})}, {}, DType::f32, {1}, {192 + 4, 4}},
  };
}

TEST(OpTable, InfersResultsAndCosts) {
  std::vector<Good> cases = good_cases();
  for (const auto& more : {good_expert_cases(), good_recurrent_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  std::set<Op> covered;
  for (const Good& c : cases) {
    covered.insert(c.op);
    auto type = infer_type(c.op, c.inputs, c.attrs);
    ASSERT_TRUE(type) << type.error().message();
    EXPECT_EQ(type->dtype, c.dtype) << describe_call(c.op, c.inputs);
    EXPECT_EQ(type->shape, c.shape) << describe_call(c.op, c.inputs);
    const OpCost cost = op_row(c.op).cost(c.inputs, *type, c.attrs);
    EXPECT_EQ(cost.bytes, c.cost.bytes) << describe_call(c.op, c.inputs);
    EXPECT_EQ(cost.operations, c.cost.operations) << describe_call(c.op, c.inputs);
  }
  EXPECT_EQ(covered.size(), op_table().size()) << "an op has no case here";
}

TEST(OpTable, FlashAttentionCostStopsAtTheWindowOrChunk) {
  const std::vector<OperandType> in = {
      f32({1, 4, 8}), {DType::f16, {100, 2, 8}}, {DType::f16, {100, 2, 8}}, i32({1}), i32({1})};
  Attrs attrs = flash_attrs();
  attrs.set(Attr::window, int64_t{10});
  EXPECT_EQ(op_row(Op::flash_attn_ext).cost(in, f32({1, 4, 8}), attrs).operations, 4 * 10 * 32);
  attrs.set(Attr::chunk, int64_t{4});
  EXPECT_EQ(op_row(Op::flash_attn_ext).cost(in, f32({1, 4, 8}), attrs).operations, 4 * 4 * 32);
}

struct Bad {
  Op op;
  std::vector<OperandType> inputs;
  Attrs attrs;
  std::string says;
};

std::vector<Bad> bad_expert_operands() {
  const OperandType experts = f32({4, 5, 8}), x = f32({3, 1, 8}), ids = i32({3, 2});
  return {
      {Op::l2_norm, {i32({3})}, {{Attr::eps, 0.0}}, "x must be F32"},
      {Op::soft_max, {i32({3})}, {}, "x must be F32"},
      {Op::sum_rows, {f32({})}, {}, "x must have a dimension"},
      {Op::argsort, {f32({3})}, {}, "x must have 2 dimensions"},
      {Op::mask_groups, {f32({3, 8})}, groups(3, 1, 1), "8 experts cannot form 3 equal groups"},
      {Op::mask_groups, {f32({3, 8})}, groups(4, 5, 1), "5 of 4 groups cannot be kept"},
      {Op::mask_groups, {f32({3, 8})}, groups(8, 2, 2), "groups of 1 experts have no 2 best"},
      {Op::concat, {f32({3, 8}), f32({2, 8})}, {}, "b has 2 in dimension 0, that of a is 3"},
      {Op::concat, {f32({3, 8}), f32({3, 2, 8})}, {}, "b must have 2 dimensions"},
      {Op::cont, {i32({3})}, {}, "x must be F32"},
      {Op::mul_mat_id, {f32({5, 8}), x, ids}, {}, "weights must have 3 dimensions"},
      {Op::mul_mat_id, {experts, f32({3, 1, 9}), ids}, {}, "x has 9 in dimension 2, n_in of weights is 8"},
      {Op::mul_mat_id, {experts, f32({3, 3, 8}), ids}, {}, "x has 3 in dimension 1, n_used of ids (or 1) is 2"},
      {Op::mul_mat_id, {experts, x, i32({2, 2})}, {}, "ids has 2 in dimension 0, n_tokens of x is 3"},
      {Op::mul_mat_id, {experts, x, f32({3, 2})}, {}, "ids must be I32"},
      {Op::add_id, {f32({3, 2, 5}), f32({4, 6}), ids}, {}, "b has 6 in dimension 1, the row length of a is 5"},
      {Op::add_id, {f32({3, 2, 5}), f32({4, 5}), i32({3, 1})}, {}, "ids has 1 in dimension 1, n_used of a is 2"},
      {Op::add_id, {f32({3, 2, 5}), {DType::f16, {4, 5}}, ids}, {}, "b must be F32"},
      {Op::attn_temp, {f32({3, 2, 8}), i32({2})}, temp_attrs(), "positions has 2 in dimension 0"},
      {Op::cross_entropy_loss, {f32({3, 8}), f32({3, 7})}, {}, "logits and labels must have the same shape"},
  };
}

std::vector<Bad> bad_recurrent_operands() {
  const OperandType x = f32({5, 6}), taps = f32({6, 4}), state = f32({9, 18}), seqs = i32({2}), ids = i32({5});
  const OperandType k = f32({5, 2, 3}), v = f32({5, 4, 6}), g = f32({5, 4}), matrix = f32({9, 72});
  return {
      {Op::ssm_conv, {x, f32({5, 4}), state, seqs, ids}, {}, "weight has 5 in dimension 0, n_channels of x is 6"},
      {Op::ssm_conv, {x, f32({6, 1}), state, seqs, ids}, {}, "weight must have at least 2 taps"},
      {Op::ssm_conv,
       {x, taps, f32({9, 12}), seqs, ids},
       {},
       "state has 12 in dimension 1, the size of one state is 18"},
      {Op::ssm_conv, {x, taps, state, f32({2}), ids}, {}, "state_src must be I32"},
      {Op::ssm_conv, {x, taps, state, seqs, i32({4})}, {}, "seq_ids has 4"},
      {Op::ssm_conv_state, {x, f32({9, 17}), seqs, ids}, snapshots(1), "a state must hold whole rows of x"},
      {Op::gated_delta_net,
       {f32({5, 1, 3}), k, v, g, g, matrix, seqs, ids},
       net_attrs(1),
       "q and k must have the same"},
      {Op::gated_delta_net,
       {k, k, f32({5, 3, 6}), g, g, matrix, seqs, ids},
       net_attrs(1),
       "3 value heads cannot share 2 key heads evenly"},
      {Op::gated_delta_net, {k, k, v, f32({5, 2}), g, matrix, seqs, ids}, net_attrs(1), "g has 2 in dimension 1"},
      {Op::gated_delta_net,
       {k, k, v, f32({5, 4, 6}), g, matrix, seqs, ids},
       net_attrs(1),
       "g has 6 in dimension 2, head_dim of k is 3"},
      {Op::gated_delta_net, {k, k, v, g, f32({4, 4}), matrix, seqs, ids}, net_attrs(1), "beta has 4 in dimension 0"},
      {Op::gated_delta_net, {k, k, v, g, g, f32({9, 71}), seqs, ids}, net_attrs(1), "state has 71 in dimension 1"},
      {Op::cpy, {{DType::f16, {9, 18}}, f32({6, 18}), seqs}, {}, "state must be F32"},
      {Op::cpy, {state, f32({6, 17}), seqs}, {}, "x has 17 in dimension 1, the row length of state is 18"},
      {Op::cpy, {state, f32({5, 18}), seqs}, {}, "every sequence must have the same number of states"},
  };
}

std::vector<Bad> bad_operands() {
  const OperandType k{DType::f16, {9, 2, 8}}, v{DType::f16, {9, 2, 6}};
  const OperandType ids = i32({3}), q = f32({3, 4, 8});
  return {
      {Op::get_rows, {i32({9, 8}), ids}, {}, "table must be a floating-point or quantized type"},
      {Op::get_rows, {f32({8}), ids}, {}, "table [m, w] takes ids [n] or [n, k]"},
      {Op::get_rows, {f32({9, 8}), f32({3})}, {}, "ids must be I32"},
      {Op::get_rows, {f32({9, 8}), i32({3, 1, 1})}, {}, "table [m, w] takes ids [n] or [n, k]"},
      {Op::get_rows, {f32({2, 9, 8}), i32({3, 2})}, {}, "table [n, m, w] takes ids [n, k]"},
      {Op::add, {f32({3, 8}), f32({3})}, {}, "b must have the shape of a, or of its last dimensions"},
      {Op::add, {f32({8}), f32({3, 8})}, {}, "b must have the shape of a, or of its last dimensions"},
      {Op::add, {f32({3, 8}), f32({1, 1, 1})}, {}, "b must have the shape of a, or of its last dimensions"},
      {Op::sub, {f32({3, 8}), f32({2, 1})}, {}, "or one number per row of a, or one element"},
      {Op::div, {f32({3, 2, 8}), f32({2, 1})}, {}, "b must have the shape of a, or of its last dimensions"},
      {Op::clamp, {f32({3})}, {{Attr::min, 2.0}, {Attr::max, 1.0}}, "min must not exceed max"},
      {Op::mul, {{DType::f16, {3, 8}}, f32({8})}, {}, "a must be F32"},
      {Op::mul, {f32({3, 8}), {DType::f16, {8}}}, {}, "b must be F32"},
      {Op::mul, {f32({3, 8}), f32({})}, {}, "b must have a dimension"},
      {Op::scale, {i32({3})}, {{Attr::scale, 1.0}, {Attr::bias, 0.0}}, "x must be F32"},
      {Op::unary, {i32({3})}, {{Attr::unary, int64_t{0}}}, "x must be F32"},
      {Op::glu, {f32({3, 8}), f32({3, 4})}, glu_attrs(Glu::reglu), "gate and up must have the same shape"},
      {Op::glu, {f32({3, 7})}, glu_attrs(Glu::reglu), "even last dimension"},
      {Op::norm, {i32({3})}, {{Attr::eps, 0.0}}, "x must be F32"},
      {Op::rms_norm, {f32({})}, {{Attr::eps, 0.0}}, "x must have a dimension"},
      {Op::mul_mat, {f32({5, 8}), f32({3, 9})}, {}, "x has 9 in dimension 1, n_in of weight is 8"},
      {Op::mul_mat, {f32({8}), f32({3, 8})}, {}, "weight must have 2 or 3 dimensions"},
      {Op::mul_mat, {f32({5, 8}), f32({3, 2, 8})}, {}, "x must have 2 dimensions"},
      {Op::mul_mat, {f32({4, 5, 8}), f32({3, 2, 8})}, {}, "x has 2 in dimension 1, n_head of weight is 4"},
      {Op::mul_mat, {f32({5, 8}), {DType::f16, {3, 8}}}, {}, "x must be F32"},
      {Op::mul_mat, {i32({5, 8}), f32({3, 8})}, {}, "weight must be a floating-point or quantized type"},
      {Op::rope, {f32({3, 16}), ids}, rope_attrs(8), "x must have 3 dimensions"},
      {Op::rope, {q, i32({4})}, rope_attrs(8), "positions has 4 in dimension 0, n_tokens of x is 3"},
      {Op::rope, {q, ids}, rope_attrs(10), "n_rot=10 must be even and at most head_dim = 8"},
      {Op::rope, {q, ids}, rope_attrs(3), "n_rot=3 must be even"},
      {Op::rope, {q, ids, f32({3})}, rope_attrs(8), "freq_factors has 3 in dimension 0, n_rot/2 is 4"},
      {Op::set_rows, {k, f32({3, 2, 6}), ids}, {}, "x has 6 in dimension 2, head_dim of cache is 8"},
      {Op::set_rows, {k, f32({3, 4, 8}), ids}, {}, "x has 4 in dimension 1, n_head_kv of cache is 2"},
      {Op::set_rows, {k, f32({3, 2, 8}), i32({2})}, {}, "slots has 2 in dimension 0, n_tokens of x is 3"},
      {Op::set_rows, {i32({9, 2, 8}), f32({3, 2, 8}), ids}, {}, "cache must be a floating-point"},
      {Op::flash_attn_ext, {f32({3, 4, 6}), k, v, ids, ids}, flash_attrs(), "head_dim of q is 6"},
      {Op::flash_attn_ext, {f32({3, 3, 8}), k, v, ids, ids}, flash_attrs(), "n_head = 3 of q is no multiple"},
      {Op::flash_attn_ext, {q, k, {DType::f16, {8, 2, 6}}, ids, ids}, flash_attrs(), "n_slots of k is 9"},
      {Op::flash_attn_ext, {q, k, {DType::f16, {9, 1, 6}}, ids, ids}, flash_attrs(), "n_head_kv of k is 2"},
      {Op::flash_attn_ext, {q, k, v, i32({1}), ids}, flash_attrs(), "positions has 1"},
      {Op::flash_attn_ext, {q, k, v, ids, f32({3})}, flash_attrs(), "seq_ids must be I32"},
      {Op::flash_attn_ext, {q, k, v, ids, ids, f32({3})}, flash_attrs(), "sinks has 3"},
      {Op::reshape, {f32({3, 8})}, dims({3, 9}), "dims [3, 9] hold 27 elements, x holds 24"},
      {Op::reshape, {{DType::f32, {3, 8}, false}}, dims({24}), "x must be contiguous"},
      {Op::view, {f32({3, 8})}, view_attrs(0, {2, 8}), "may differ from x in the last dimension only"},
      {Op::view, {f32({3, 8})}, view_attrs(6, {3, 4}), "offset 6 + 4 elements run past"},
      {Op::view, {{DType::q8_0, {3, 64}}}, view_attrs(8, {3, 32}), "offset 8 is inside a block of Q8_0"},
  };
}

TEST(OpTable, MisuseNamesOpOperandAndShapes) {
  std::set<Op> covered;
  std::vector<Bad> cases = bad_operands();
  for (const auto& more : {bad_expert_operands(), bad_recurrent_operands()})
    cases.insert(cases.end(), more.begin(), more.end());
  for (const Bad& c : cases) {
    covered.insert(c.op);
    auto type = infer_type(c.op, c.inputs, c.attrs);
    ASSERT_FALSE(type) << describe_call(c.op, c.inputs) << " passed; expected: " << c.says;
    EXPECT_THAT(type.error().what, HasSubstr(c.says)) << describe_call(c.op, c.inputs);
    EXPECT_EQ(type.error().where, describe_call(c.op, c.inputs));
  }
  EXPECT_EQ(covered.size(), op_table().size()) << "an op has no misuse case";
}

TEST(OpTable, WrongArityNamesTheOperands) {
  for (const OpRow& row : op_table()) {
    for (const size_t n : {size_t{row.min_inputs} - 1, size_t{row.max_inputs} + 1}) {
      auto type = infer_type(row.op, std::vector<OperandType>(n, f32({4, 4})), {});
      ASSERT_FALSE(type);
      EXPECT_THAT(type.error().message(),
                  AllOf(HasSubstr(std::string(row.name)), HasSubstr(std::string(row.signature))));
    }
  }
}

TEST(OpTable, AttributeSetAndRangesAreChecked) {
  const auto error_of = [](Op op, std::vector<OperandType> in, Attrs attrs) {
    auto type = infer_type(op, in, attrs);
    return type ? std::string("passed") : type.error().message();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const OperandType x = f32({3, 8});
  EXPECT_EQ(error_of(Op::rms_norm, {x}, {}), "RMS_NORM: attribute eps is missing");
  EXPECT_EQ(error_of(Op::add, {x, x}, {{Attr::eps, 0.1}}), "ADD: has no attribute eps");
  EXPECT_EQ(error_of(Op::rms_norm, {x}, {{Attr::eps, -1e-5}}), "RMS_NORM: attribute eps=-1e-05 is outside 0 to 1");
  EXPECT_THAT(error_of(Op::rms_norm, {x}, {{Attr::eps, nan}}), HasSubstr("eps=nan is outside"));
  EXPECT_THAT(error_of(Op::scale, {x}, {{Attr::scale, inf}, {Attr::bias, 0.0}}), HasSubstr("scale=inf is outside"));
  EXPECT_EQ(error_of(Op::rms_norm, {x}, {{Attr::eps, int64_t{0}}}), "RMS_NORM: attribute eps must be a number");
  EXPECT_EQ(error_of(Op::unary, {x}, {{Attr::unary, 1.0}}), "UNARY: attribute unary must be an integer or keyword");
  EXPECT_EQ(error_of(Op::unary, {x}, {{Attr::unary, int64_t{12}}}), "UNARY: attribute unary=12 is outside 0 to 11");
  EXPECT_EQ(error_of(Op::reshape, {x}, {{Attr::dims, int64_t{24}}}), "RESHAPE: attribute dims must be a shape");
  EXPECT_THAT(error_of(Op::reshape, {x}, dims({int64_t{1} << 40, int64_t{1} << 40})), HasSubstr("elements"));
  EXPECT_THAT(error_of(Op::reshape, {x}, dims({-3, -8})), HasSubstr("dimension 0 is -3"));
}

TEST(OpTable, DocsHaveARowForEachOpAndAttribute) {
  const std::string page = ops_markdown();
  for (const OpRow& row : op_table()) EXPECT_THAT(page, HasSubstr("| " + std::string(row.name)));
  for (const AttrRow& row : kAttrs) EXPECT_THAT(page, HasSubstr("| `" + std::string(row.name) + "` |"));
  EXPECT_THAT(page, HasSubstr("| `eps` | number from 0 to 1 |"));
  EXPECT_THAT(page, HasSubstr("| `n_rot` | integer >= 2 |"));
  EXPECT_THAT(page, HasSubstr("| `scale` | number |"));
}

TEST(OpTable, TypesAreBounded) {
  EXPECT_TRUE(check_type(DType::q4_k, {5, 512}));
  EXPECT_FALSE(check_type(DType::q4_k, {5, 500}));
  EXPECT_FALSE(check_type(DType::f32, {0}));
  EXPECT_FALSE(check_type(DType::f32, {int64_t{1} << 62, 4}));
  EXPECT_TRUE(check_type(DType::f32, {kMaxElements}));
  EXPECT_FALSE(check_type(DType::f32, {kMaxElements, 2}));
}

}  // namespace
}  // namespace tokamak::ir
