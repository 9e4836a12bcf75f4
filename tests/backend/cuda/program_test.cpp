// What needs no GPU: the way of a step's inputs, and what is said where there is none.
#include "backend/cuda/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/backend.h"
#include "backend/cuda/lower.h"
#include "ir/builder.h"

namespace tokamak::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ir::Graph embedding(int64_t n_tokens) {
  ir::GraphBuilder b("embedding");
  const ir::ValueId table = b.weight("table", DType::f32, {10, 4});
  b.output(b.get_rows(table, b.input(ir::InputRole::tokens, {n_tokens})));
  return std::move(*b.finish());
}

std::vector<int32_t> ints_at(const std::vector<std::byte>& bytes, uint64_t offset, size_t n) {
  std::vector<int32_t> out(n);
  std::memcpy(out.data(), bytes.data() + offset, n * sizeof(int32_t));
  return out;
}

TEST(InputLayout, HoldsRolesAndPages) {
  const InputLayout layout(embedding(3));
  const std::vector<int32_t> tokens = {7, 8, 9}, positions = {300, 301, 5}, seq_ids = {0, 0, 1};
  const std::vector<int32_t> pages_a = {4, 2, 6, 1, 9}, pages_b = {3};
  const std::vector<SequencePages> sequences = {{pages_a}, {pages_b}};
  const StepInputs inputs{.tokens = tokens, .positions = positions, .seq_ids = seq_ids, .sequences = sequences};
  std::vector<std::byte> bytes(layout.bytes_for(6));
  EXPECT_EQ(layout.fill(inputs, bytes.data()), 2);  // chunks of 256 keys for 302
  EXPECT_EQ(ints_at(bytes, layout.address(ir::InputRole::tokens).offset, 3), tokens);
  EXPECT_THAT(ints_at(bytes, layout.page_begin, 2), ElementsAre(0, 5));
  EXPECT_THAT(ints_at(bytes, layout.n_keys, 2), ElementsAre(302, 6));
  EXPECT_THAT(ints_at(bytes, layout.pages, 6), ElementsAre(4, 2, 6, 1, 9, 3));
}

TEST(InputLayout, LeavesOutWhatTheGraphDoesNotRead) {
  const InputLayout layout(embedding(1));
  EXPECT_EQ(layout.sizes[static_cast<size_t>(ir::InputRole::positions)], 0);
  const std::vector<int32_t> tokens = {7}, positions = {0, 0, 0}, seq_ids = {0, 1, 2};
  const StepInputs inputs{.tokens = tokens, .positions = positions, .seq_ids = seq_ids};
  std::vector<std::byte> bytes(layout.bytes_for(0));
  EXPECT_EQ(layout.fill(inputs, bytes.data()), 1);
}

TEST(Lowering, NamesTheOpAndTheNodeWithoutAKernel) {
  ir::GraphBuilder b("training");
  const ir::ValueId tokens = b.input(ir::InputRole::tokens, {2});
  const ir::ValueId logits = b.get_rows(b.weight("table", DType::f32, {10, 4}), tokens);
  const ir::ValueId labels = b.get_rows(b.weight("labels", DType::f32, {10, 4}), tokens);
  b.output(b.node(ir::Op::cross_entropy_loss, {logits, labels}, {}, "loss"));
  const auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.error().message();
  const auto checked = check_lowerings(*graph);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::unsupported);
  EXPECT_THAT(checked.error().message(), HasSubstr("loss: the cuda backend has no CROSS_ENTROPY_LOSS kernel"));
}

TEST(Devices, AreThereOrItIsSaidWhyNot) {
  const auto backend = make_cuda_backend();
  if (backend) {
    EXPECT_THAT((*backend)->description(), HasSubstr("multiprocessors"));
    return;
  }
  EXPECT_EQ(backend.error().code, ErrorCode::device_failed);
  EXPECT_THAT(backend.error().message(), HasSubstr("use --backend cpu"));
}

}  // namespace
}  // namespace tokamak::cuda
