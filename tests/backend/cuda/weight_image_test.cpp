#include "backend/cuda/weight_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "quant/codec.h"

namespace tokamak::cuda {
namespace {

struct Tensor {
  std::vector<std::byte> bytes;
  WeightSource source;

  Tensor(DType dtype, const Shape& shape)
      : bytes(tokamak::testing::random_rows(dtype, shape.n_rows(), shape.row_elems(), 9)),
        source{.dtype = dtype, .shape = shape, .data = bytes, .forget = {}} {}
};

// Made in any order, each piece in memory of its own.
std::vector<std::byte> image_of(const WeightSource& source, const WeightForms& forms, uint64_t offset) {
  std::vector<std::byte> image(offset + forms.total());
  std::vector<ImagePiece> pieces = pieces_of(source, forms, offset);
  for (size_t i = 1; i < pieces.size(); ++i)
    EXPECT_GE(pieces[i].offset, pieces[i - 1].offset + pieces[i - 1].n_bytes) << i;
  std::ranges::reverse(pieces);
  for (const ImagePiece& piece : pieces) {
    std::vector<std::byte> part(piece.n_bytes);
    piece.make(part.data());
    EXPECT_LE(piece.offset + piece.n_bytes, image.size());
    std::ranges::copy(part, image.begin() + static_cast<ptrdiff_t>(piece.offset));
  }
  return image;
}

TEST(WeightImage, PackedPiecesMakeThePackedMatrices) {
  for (const MatvecLayout& layout : matvec_layouts()) {
    const Tensor tensor(layout.dtype, Shape{3, 1001, 4096});  // several pieces, row blocks that are not full
    const WeightForms forms = forms_of(tensor.source, {.matmul = true});
    const std::vector<std::byte> expected = pack(layout.dtype, tensor.bytes, 3, 1001, 4096);
    EXPECT_GT(pieces_of(tensor.source, forms, 0).size(), 1u);
    const std::vector<std::byte> image = image_of(tensor.source, forms, 512);
    EXPECT_EQ(std::memcmp(image.data() + 512, expected.data(), expected.size()), 0) << dtype_name(layout.dtype);
  }
}

TEST(WeightImage, FormsFollowTheUses) {
  const Tensor q(DType::q4_0, Shape{8, 64}), h(DType::f16, Shape{8, 64});
  const WeightForms tied = forms_of(q.source, {.matmul = true, .rows = true});
  EXPECT_GT(tied.packed, 0u);
  EXPECT_EQ(tied.rows, 0u) << "one copy serves products and GET_ROWS";
  EXPECT_EQ(forms_of(q.source, {.rows = true}).total(), tied.packed);
  EXPECT_EQ(forms_of(h.source, {.rows = true}).total(), 8u * 64 * 2);
  EXPECT_EQ(forms_of(h.source, {.rows = true}).rows, 8u * 64 * 2);
  EXPECT_EQ(forms_of(h.source, {.matmul = true, .rows = true}).rows, 0u);
  EXPECT_EQ(forms_of(q.source, {.values = true}).values, 8u * 64 * 4);
  EXPECT_EQ(forms_of(q.source, {}).total(), 0u);
}

TEST(WeightImage, AllFormsLieBehindEachOther) {
  const Tensor tensor(DType::q5_k, Shape{1500, 512});
  const WeightForms forms = forms_of(tensor.source, {.matmul = true, .rows = true, .values = true});
  const std::vector<std::byte> image = image_of(tensor.source, forms, 0);
  std::vector<float> values(1500 * 512);
  decode_row(DType::q5_k, tensor.bytes.data(), 1500 * 512, values.data());
  EXPECT_EQ(std::memcmp(image.data() + forms.packed, values.data(), values.size() * sizeof(float)), 0);
}

TEST(WeightImage, PlainRowsAreTheFile) {
  const Tensor tensor(DType::bf16, Shape{3000, 515});
  const std::vector<std::byte> image = image_of(tensor.source, forms_of(tensor.source, {.rows = true}), 256);
  EXPECT_EQ(std::memcmp(image.data() + 256, tensor.bytes.data(), tensor.bytes.size()), 0);
}

}  // namespace
}  // namespace tokamak::cuda
