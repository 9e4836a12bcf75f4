// GPUs of 8.6, 8.9 and 12.0 give a block 99 KB of shared memory: whatever the backend launches there must fit.
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/prefill.h"
#include "backend/cuda/columns/columns.h"
#include "backend/cuda/emulator/faults.h"
#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/layout.h"

namespace tokamak::cuda::emulator {
namespace {

class EmulatorLittleShared : public ::testing::Test {
 protected:
  void SetUp() override { limit_shared(99 * 1024); }
  void TearDown() override { mend(); }
};

// One token that sees one key of a cache of zeros.
cudaError_t attend(KvType type, int64_t dk, int64_t dv, int64_t n_head, int64_t n_head_kv) {
  constexpr int kPage = 16;
  const auto bytes_of = [&](int64_t dim) {
    const KvHeadLayout layout = kv_head_layout(type, static_cast<int>(dim), kPage);
    return std::vector<uint8_t>(static_cast<size_t>(n_head_kv * layout.head_page_bytes));
  };
  DeviceBytes q(std::vector<float>(static_cast<size_t>(n_head * dk))), keys(bytes_of(dk)), values(bytes_of(dv)),
      zero(std::vector<int32_t>{0}), one(std::vector<int32_t>{1}), y(static_cast<size_t>(n_head * dv) * sizeof(float));
  const AttentionArgs a{.q = q.as<float>(),
                        .q_stride = n_head * dk,
                        .q_head_stride = dk,
                        .y = y.as<float>(),
                        .keys = keys.data(),
                        .values = values.data(),
                        .type = type,
                        .n_tokens = 1,
                        .n_head = n_head,
                        .n_head_kv = n_head_kv,
                        .dk = dk,
                        .dv = dv,
                        .page_size = kPage,
                        .positions = zero.as<int32_t>(),
                        .seq_ids = zero.as<int32_t>(),
                        .page_begin = zero.as<int32_t>(),
                        .n_keys = one.as<int32_t>(),
                        .pages = zero.as<int32_t>()};
  if (const cudaError_t status = launch_attention(a, nullptr); status != cudaSuccess) return status;
  EXPECT_EQ(y.read<float>(), std::vector<float>(static_cast<size_t>(n_head * dv)));
  return cudaSuccess;
}

TEST_F(EmulatorLittleShared, HoldsAttention) {
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::f8})
    for (const auto& [dk, dv] : decode::kDecodeDims)
      for (const int64_t group : {4, 8})
        EXPECT_EQ(attend(type, dk, dv, group, 1), cudaSuccess) << static_cast<int>(type) << " " << dk << " " << group;
  for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0})
    EXPECT_EQ(attend(type, kMaxHeadDims, 512, 4, 1), cudaSuccess) << static_cast<int>(type);
}

// As GPUs of 12.0 run it: without products of warpgroups. Heads that do not fit are not taken.
TEST_F(EmulatorLittleShared, HoldsPrefill) {
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::f8})
    for (const auto& [dk, dv] : decode::kDecodeDims) {
      const bool is_taken = prefill_tile_tokens(type, dk, dv, 1, 1, false) > 0;
      const bool is_small = dk <= 128 || type == KvType::f16 || (dk == 192 && dv == 192 && type != KvType::bf16);
      EXPECT_EQ(is_taken, is_small) << static_cast<int>(type) << " " << dk << " " << dv;
      DeviceBytes tiles(std::vector<int32_t>{0, 0});  // none: only whether it starts
      const PrefillAttentionArgs a{.type = type,
                                   .n_tokens = 1,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .dk = dk,
                                   .dv = dv,
                                   .page_size = 16,
                                   .tiles = tiles.as<int32_t>(),
                                   .wide = false};
      EXPECT_EQ(launch_prefill_attention(a, nullptr) == cudaSuccess, is_small) << static_cast<int>(type) << " " << dk;
    }
}

TEST_F(EmulatorLittleShared, IsWhereAttentionSaysSo) {
  const AttentionArgs wide{.type = KvType::f16, .n_head = 8, .n_head_kv = 4, .dk = 256, .dv = 256};
  EXPECT_FALSE(has_decode_attention(wide));
  EXPECT_FALSE(writes_q8(wide));
  mend();
  EXPECT_TRUE(has_decode_attention(wide));
}

// The largest launch: as many columns as are taken, of both matrices of a GLU.
TEST_F(EmulatorLittleShared, HoldsColumns) {
  const int n_cols = most_tensor_columns();
  EXPECT_EQ(n_cols, 8);
  const int64_t k = 256;
  DeviceBytes x(std::vector<float>(static_cast<size_t>(n_cols * k))),
      halves(static_cast<size_t>(halves_bytes(k, n_cols))), y(static_cast<size_t>(n_cols) * sizeof(float));
  ASSERT_EQ(launch_halve({x.as<float>(), n_cols, k, k, halves.data()}, nullptr), cudaSuccess);
  for (const MatvecLayout& layout : matvec_layouts()) {
    if (!has_columns(layout.dtype)) continue;
    DeviceBytes weights(std::vector<uint8_t>(static_cast<size_t>(packed_bytes(layout.dtype, 1, 1, k))));
    const MatvecArgs args{.dtype = layout.dtype,
                          .weights = weights.data(),
                          .up = weights.data(),
                          .n_rows = 1,
                          .k = k,
                          .n_cols = n_cols,
                          .x = halves.data(),
                          .y = y.as<float>(),
                          .y_stride = 1,
                          .glu = 2};
    EXPECT_EQ(launch_columns(args, nullptr), cudaSuccess) << dtype_name(layout.dtype);
  }
  mend();
  EXPECT_EQ(most_tensor_columns(), kMaxTensorColumns);
}

}  // namespace
}  // namespace tokamak::cuda::emulator
