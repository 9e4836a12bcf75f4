// Every order of rows and columns, on matrices small enough to write down what must come out.
#include "convert/tensor_order.h"

#include <gtest/gtest.h>

#include "arch/checkpoint_names.h"

namespace tokamak::test {
namespace {

using arch::WeightOrder;
using convert::make_order;
using convert::ModelConfig;
using convert::TensorOrder;
using Indices = std::vector<int64_t>;

ModelConfig sizes() {
  ModelConfig m;
  m.family = arch::find_checkpoint_family("LlamaForCausalLM");
  m.n_head = 4, m.n_head_kv = 2, m.head_dim = 4;
  m.nope_dim = 3, m.mla_v_dim = 2;
  m.n_key_head = 2, m.n_value_head = 4, m.key_head_dim = 2, m.value_head_dim = 1;
  return m;
}

Indices rows(WeightOrder order, int64_t n_rows) { return make_order(order, 1, n_rows, 5, sizes()).row_indices(); }

TEST(TensorOrder, RowsOfOneMatrix) {
  EXPECT_EQ(rows(WeightOrder::as_is, 3), (Indices{0, 1, 2}));
  // Two heads of [x0 x1 y0 y1].
  EXPECT_EQ(rows(WeightOrder::rope_pairs, 8), (Indices{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(rows(WeightOrder::first_half, 6), (Indices{0, 1, 2}));
  EXPECT_EQ(rows(WeightOrder::second_half, 6), (Indices{3, 4, 5}));
  EXPECT_EQ(rows(WeightOrder::even, 6), (Indices{0, 2, 4}));
  EXPECT_EQ(rows(WeightOrder::odd, 6), (Indices{1, 3, 5}));
  // Per key-value head two query heads of 4, then a key and a value head.
  EXPECT_EQ(rows(WeightOrder::qkv_by_group, 32),
            (Indices{0, 1, 2,  3,  4,  5,  6,  7,  16, 17, 18, 19, 20, 21, 22, 23,  //
                     8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31}));
  EXPECT_EQ(rows(WeightOrder::head_values, 5), (Indices{3, 4}));
}

TEST(TensorOrder, RowsOfDeltaNets) {
  // Per key head q0 q1 k0 k1, two values, two gates.
  EXPECT_EQ(rows(WeightOrder::key_head_qkv, 16), (Indices{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13}));
  EXPECT_EQ(rows(WeightOrder::key_head_gate, 16), (Indices{6, 7, 14, 15}));
  // Value heads 0 and 1 belong to key head 0, 2 and 3 to key head 1.
  EXPECT_EQ(rows(WeightOrder::value_heads, 4), (Indices{0, 2, 1, 3}));
  EXPECT_EQ(rows(WeightOrder::value_heads, 8), (Indices{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(rows(WeightOrder::value_heads_of_qkv, 12), (Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11}));
  const TensorOrder columns = make_order(WeightOrder::value_head_columns, 1, 3, 4, sizes());
  EXPECT_EQ(columns.col_indices(), (Indices{0, 2, 1, 3}));
  EXPECT_EQ(columns.row_indices(), (Indices{0, 1, 2}));
  EXPECT_FALSE(columns.keeps_rows());
}

TEST(TensorOrder, TransposedOnesSwapWhatTheyPick) {
  struct Case {
    WeightOrder order;
    Indices rows, cols;
  };
  for (const Case& c :
       {Case{WeightOrder::transposed, {0, 1}, {0, 1, 2, 3}}, Case{WeightOrder::transposed_first_half, {0, 1}, {0, 1}},
        Case{WeightOrder::transposed_second_half, {0, 1}, {2, 3}}, Case{WeightOrder::transposed_even, {0, 1}, {0, 2}},
        Case{WeightOrder::transposed_odd, {0, 1}, {1, 3}}}) {
    const TensorOrder order = make_order(c.order, 7, 2, 4, sizes());
    EXPECT_TRUE(order.transposed);
    EXPECT_FALSE(order.keeps_rows());
    EXPECT_EQ(order.row_indices(), c.rows);
    EXPECT_EQ(order.col_indices(), c.cols);
    EXPECT_EQ(order.n_out_rows(), static_cast<int64_t>(c.cols.size()));
    EXPECT_EQ(order.n_out_cols(), 2);
    // A bias has an element per row of the GGUF.
    EXPECT_EQ(order_of_bias(order).row_indices(), c.cols);
  }
  const TensorOrder keys = make_order(WeightOrder::head_keys, 4, 5, 6, sizes());
  EXPECT_EQ(keys.n_out_rows(), 6);
  EXPECT_EQ(keys.n_out_cols(), 3);
  EXPECT_EQ(keys.row_indices(), (Indices{0, 1, 2}));
}

}  // namespace
}  // namespace tokamak::test
