// Quantized layouts of checkpoints: NVFP4 in both conventions, MXFP4, FP8. The expected values are computed here from
// the layouts' published definitions.
#include "convert/weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "convert/convert.h"
#include "convert/folder_helpers.h"
#include "gguf/gguf.h"
#include "quant/codec.h"

namespace tokamak::test {
namespace {

using convert::Conversion;
using convert::Weight;
using testing::HasSubstr;

constexpr const char* kUp = "model.layers.0.mlp.up_proj";
constexpr float kE2M1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

std::string random_bytes(size_t n, uint32_t seed, unsigned low = 0, unsigned high = 255) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<char>(low + static_cast<unsigned>(uniform(seed, i) * (high - low + 1)));
  return bytes;
}

uint8_t nibble(const std::string& packed, size_t element) {
  const auto byte = static_cast<uint8_t>(packed[element / 2]);
  return element % 2 == 0 ? byte & 15 : byte >> 4;
}

float e4m3(uint8_t code) {
  const float m = static_cast<float>(code & 7), e = static_cast<float>((code >> 3) & 15);
  return (code & 128 ? -1.0f : 1.0f) * (e == 0 ? m / 8 * 0x1p-6f : (1 + m / 8) * std::exp2(e - 7));
}

// The tensor of a converted folder, times its .scale if it has one, in f32.
std::vector<float> converted(const std::filesystem::path& folder, const std::string& out_type, DType type,
                             const std::string& stem) {
  auto conversion = Conversion::plan(folder, {.out_type = out_type});
  EXPECT_TRUE(conversion.has_value()) << conversion.error().message();
  if (!conversion) return {};
  const auto path = new_folder() / "out.gguf";
  const auto written = (*conversion)->write(path);
  EXPECT_TRUE(written.has_value()) << written.error().message();
  const auto file = GgufFile::open(path);
  if (!file) return {};
  const GgufTensor* tensor = file->find_tensor(stem + ".weight");
  EXPECT_EQ(dtype_name(tensor->type), dtype_name(type));
  std::vector<float> values(static_cast<size_t>(tensor->shape.n_elements()));
  decode_row(tensor->type, tensor->data.data(), tensor->shape.n_elements(), values.data());
  if (const GgufTensor* scale = file->find_tensor(stem + ".scale")) {
    float factor = 0;
    std::memcpy(&factor, scale->data.data(), sizeof factor);
    for (float& x : values) x *= factor;
  }
  return values;
}

struct Nvfp4 {
  std::string codes, scales;
  std::vector<float> values;  // without the tensor's scale
};

Nvfp4 random_nvfp4(int64_t n_rows, int64_t n, uint32_t seed) {
  const auto n_elems = static_cast<size_t>(n_rows * n);
  Nvfp4 w{random_bytes(n_elems / 2, seed), random_bytes(n_elems / 16, seed + 1, 0, 0x7E), {}};
  for (size_t i = 0; i < n_elems; ++i)
    w.values.push_back(kE2M1[nibble(w.codes, i)] * e4m3(static_cast<uint8_t>(w.scales[i / 16])));
  return w;
}

TEST(Weight, Nvfp4OfModelOptIsRepackedWithoutLoss) {
  const Nvfp4 w = random_nvfp4(kFf, kEmbd, 21);
  const auto folder = llama_folder([&](RawTensors& t) {
    t[std::string(kUp) + ".weight"] = {"U8", {kFf, kEmbd / 2}, w.codes};
    t[std::string(kUp) + ".weight_scale"] = {"F8_E4M3", {kFf, kEmbd / 16}, w.scales};
    t[std::string(kUp) + ".weight_scale_2"] = {"F32", {}, bytes_of<float>({0.0078125f})};
    t[std::string(kUp) + ".input_scale"] = {"F32", {}, bytes_of<float>({0.5f})};
  });
  std::vector<float> wanted = w.values;
  for (float& x : wanted) x *= 0.0078125f;
  EXPECT_EQ(converted(folder, "auto", DType::nvfp4, "blk.0.ffn_up"), wanted);
  EXPECT_EQ(converted(folder, "f32", DType::f32, "blk.0.ffn_up"), wanted);
}

TEST(Weight, Nvfp4OfCompressedTensorsDividesByItsScale) {
  const Nvfp4 w = random_nvfp4(kFf, kEmbd, 31);
  const auto folder = llama_folder([&](RawTensors& t) {
    t.erase(std::string(kUp) + ".weight");
    t[std::string(kUp) + ".weight_packed"] = {"U8", {kFf, kEmbd / 2}, w.codes};
    t[std::string(kUp) + ".weight_scale"] = {"F8_E4M3", {kFf, kEmbd / 16}, w.scales};
    t[std::string(kUp) + ".weight_global_scale"] = {"F32", {1}, bytes_of<float>({128})};
  });
  std::vector<float> wanted = w.values;
  for (float& x : wanted) x /= 128;
  EXPECT_EQ(converted(folder, "auto", DType::nvfp4, "blk.0.ffn_up"), wanted);
  EXPECT_EQ(converted(folder, "f32", DType::f32, "blk.0.ffn_up"), wanted);
}

TEST(Weight, RowsOfNvfp4FollowTheRopeOrder) {
  const std::string q = "model.layers.0.self_attn.q_proj";
  const Nvfp4 w = random_nvfp4(64, kEmbd, 41);
  const auto folder = llama_folder([&](RawTensors& t) {
    t[q + ".weight"] = {"U8", {64, kEmbd / 2}, w.codes};
    t[q + ".weight_scale"] = {"F8_E4M3", {64, kEmbd / 16}, w.scales};
    t[q + ".weight_scale_2"] = {"F32", {}, bytes_of<float>({1})};
  });
  const std::vector<float> got = converted(folder, "auto", DType::nvfp4, "blk.0.attn_q");
  ASSERT_EQ(got.size(), w.values.size());
  for (size_t row = 0; row < 64; ++row) {  // heads of 16: x0..x7 y0..y7 becomes x0 y0 x1 y1 ...
    const size_t head = row / 16, i = row % 16, from = 16 * head + i / 2 + (i % 2) * 8;
    for (size_t k = 0; k < 64; ++k) ASSERT_EQ(got[64 * row + k], w.values[64 * from + k]) << row;
  }
}

TEST(Weight, Mxfp4BlocksAsInGptOss) {
  const std::string codes = random_bytes(kFf * kEmbd / 2, 51), scales = random_bytes(kFf * kEmbd / 32, 52, 100, 140);
  std::vector<float> wanted;
  for (size_t i = 0; i < size_t{kFf * kEmbd}; ++i)
    wanted.push_back(kE2M1[nibble(codes, i)] *
                     std::exp2(static_cast<float>(static_cast<uint8_t>(scales[i / 32])) - 127));
  const auto blocks = llama_folder([&](RawTensors& t) {
    t.erase(std::string(kUp) + ".weight");
    t[std::string(kUp) + "_blocks"] = {"U8", {kFf, kEmbd / 32, 16}, codes};
    t[std::string(kUp) + "_scales"] = {"U8", {kFf, kEmbd / 32}, scales};
  });
  const auto packed = llama_folder([&](RawTensors& t) {
    t.erase(std::string(kUp) + ".weight");
    t[std::string(kUp) + ".weight_packed"] = {"U8", {kFf, kEmbd / 2}, codes};
    t[std::string(kUp) + ".weight_scale"] = {"U8", {kFf, kEmbd / 32}, scales};
  });
  for (const auto& folder : {blocks, packed}) {
    EXPECT_EQ(converted(folder, "auto", DType::mxfp4, "blk.0.ffn_up"), wanted);
    EXPECT_EQ(converted(folder, "f32", DType::f32, "blk.0.ffn_up"), wanted);
  }
}

// gpt-oss stacks experts: [n_expert, n_out, n_blocks, 16].
TEST(Weight, Mxfp4OfStackedExperts) {
  const auto folder = new_folder();
  const std::string codes = random_bytes(2 * 3 * 32, 61), scales = random_bytes(2 * 3 * 2, 62, 120, 130);
  write_safetensors(folder / "model.safetensors", {{"x.experts.gate_up_proj_blocks", {"U8", {2, 3, 2, 16}, codes}},
                                                   {"x.experts.gate_up_proj_scales", {"U8", {2, 3, 2}, scales}}});
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.has_value());
  const auto weight = Weight::find(*checkpoint, "x.experts.gate_up_proj");
  ASSERT_TRUE(weight.has_value()) << weight.error().message();
  ASSERT_TRUE(weight->has_value());
  EXPECT_EQ((*weight)->shape(), (std::vector<int64_t>{2, 3, 64}));
  std::vector<float> direct(64), repacked(64);
  std::vector<std::byte> blocks(dtype_bytes(DType::mxfp4, 64));
  for (int64_t row = 0; row < 6; ++row) {
    (*weight)->decode_row(row, direct.data());
    ASSERT_TRUE((*weight)->repack_row(row, blocks.data()).has_value());
    decode_row(DType::mxfp4, blocks.data(), 64, repacked.data());
    EXPECT_EQ(direct, repacked);
    EXPECT_EQ(direct[1],
              kE2M1[nibble(codes, static_cast<size_t>(row) * 64 + 1)] *
                  std::exp2(static_cast<float>(static_cast<uint8_t>(scales[static_cast<size_t>(row) * 2])) - 127));
  }
}

TEST(Weight, Fp8InTilesPerRowAndPerTensor) {
  constexpr int64_t kRows = 300, kCols = 130;  // neither is whole tiles
  const std::string codes = random_bytes(kRows * kCols, 71, 0, 0x7E);
  const auto folder = new_folder();
  const std::vector<float> tiles = {1, 2, 3, 4, 5, 6}, rows = random_floats(kRows, 72);
  write_safetensors(folder / "model.safetensors", {{"a.weight", {"F8_E4M3", {kRows, kCols}, codes}},
                                                   {"a.weight_scale_inv", {"F32", {3, 2}, bytes_of(tiles)}},
                                                   {"b.weight", {"F8_E4M3", {kRows, kCols}, codes}},
                                                   {"b.weight_scale", {"F32", {kRows, 1}, bytes_of(rows)}},
                                                   {"c.weight", {"F8_E4M3", {kRows, kCols}, codes}},
                                                   {"c.weight_scale", {"F32", {}, bytes_of<float>({0.25f})}}});
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  for (const char* name : {"a", "b", "c"}) {
    const auto weight = Weight::find(*checkpoint, name);
    ASSERT_TRUE(weight.has_value() && weight->has_value());
    std::vector<float> out(kCols);
    for (int64_t row = 0; row < kRows; ++row) {
      (*weight)->decode_row(row, out.data());
      for (int64_t i = 0; i < kCols; ++i) {
        const float scale = *name == 'a'   ? tiles[static_cast<size_t>(row / 128 * 2 + i / 128)]
                            : *name == 'b' ? rows[static_cast<size_t>(row)]
                                           : 0.25f;
        const float code = e4m3(static_cast<uint8_t>(codes[static_cast<size_t>(row * kCols + i)]));
        ASSERT_EQ(out[static_cast<size_t>(i)], code * scale) << name << row << " " << i;
      }
    }
  }
}

void expect_refusal(const std::function<void(RawTensors&)>& change, ErrorCode code, const std::string& where,
                    const std::string& what) {
  const auto folder = llama_folder(change);
  auto conversion = Conversion::plan(folder, {});
  Result<void> done = conversion ? (*conversion)->write(folder / "out.gguf") : Result<void>(conversion.error());
  ASSERT_FALSE(done.has_value()) << what;
  EXPECT_EQ(done.error().code, code) << done.error().message();
  EXPECT_THAT(done.error().message(), HasSubstr(where));
  EXPECT_THAT(done.error().message(), HasSubstr(what));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.gguf"));
}

TEST(Weight, AbsentOrImpossibleScalesAreRefused) {
  const std::string name = kUp, where = "model.safetensors: tensor '" + name;
  const Nvfp4 w = random_nvfp4(kFf, kEmbd, 81);
  const RawTensor codes{"U8", {kFf, kEmbd / 2}, w.codes}, scales{"F8_E4M3", {kFf, kEmbd / 16}, w.scales};
  const auto with = [&](RawTensor block_scales, const std::string& tensor_scale) {
    return [=](RawTensors& t) {
      t[name + ".weight"] = codes;
      if (!block_scales.dtype.empty()) t[name + ".weight_scale"] = block_scales;
      if (!tensor_scale.empty()) t[name + ".weight_scale_2"] = {"F32", {}, tensor_scale};
    };
  };
  const std::string one = bytes_of<float>({1});
  expect_refusal(with({}, one), ErrorCode::bad_tensor, where, "need a scale");
  expect_refusal(with(scales, ""), ErrorCode::bad_tensor, where, "weight_scale_2");
  expect_refusal(with(scales, bytes_of<float>({-1})), ErrorCode::bad_tensor, where, "one positive number");
  expect_refusal(with(scales, bytes_of<float>({NAN})), ErrorCode::bad_tensor, where, "one positive number");
  expect_refusal(with({"F8_E4M3", {kFf, 3}, w.scales.substr(0, kFf * 3)}, one), ErrorCode::bad_tensor, where,
                 "do not fit");
  RawTensor nan_scale = scales;
  nan_scale.data[5] = 0x7F;
  expect_refusal(with(nan_scale, one), ErrorCode::bad_tensor, where, "NaN or negative");
  const RawTensor fp8{"F8_E4M3", {kFf, kEmbd}, std::string(kFf * kEmbd, '\x38')};
  expect_refusal([&](RawTensors& t) { t[name + ".weight"] = fp8; }, ErrorCode::bad_tensor, where, "need a scale");
  expect_refusal(
      [&](RawTensors& t) {
        t[name + ".weight"] = fp8;
        t[name + ".weight_scale_inv"] = {"F32", {2, 2}, std::string(16, '\0')};
      },
      ErrorCode::bad_tensor, where, "do not fit");
  expect_refusal(
      [&](RawTensors& t) {
        t[name + ".weight"] = {"I8", {kFf, kEmbd}, std::string(kFf * kEmbd, '\1')};
      },
      ErrorCode::unsupported, where, "I8");
  expect_refusal(
      [&](RawTensors& t) {
        t[name + ".weight"] = {"I32", {kFf, kEmbd}, std::string(kFf * kEmbd * 4, '\1')};
      },
      ErrorCode::unsupported, where, "I32");
}

}  // namespace
}  // namespace tokamak::test
