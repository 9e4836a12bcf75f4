#include "convert/weight.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "base/e4m3.h"
#include "quant/blocks.h"
#include "quant/fp4.h"

namespace tokamak::convert {

namespace {

// Source: the checkpoints that NVIDIA ModelOpt, compressed-tensors, gpt-oss and DeepSeek publish. A row applies when
// its codes are there and, for names that plain weights use too, when the number type is that of codes.
constexpr auto kLayouts = std::to_array<WeightLayout>({
    {"plain", ".weight", "", "", "", ScaleForm::none, false},
    {"NVFP4 of ModelOpt", ".weight", ".weight_scale", ".weight_scale_2", ".input_scale", ScaleForm::nvfp4, false},
    {"NVFP4 of compressed-tensors", ".weight_packed", ".weight_scale", ".weight_global_scale", ".input_global_scale",
     ScaleForm::nvfp4, true},
    {"MXFP4 of gpt-oss", "_blocks", "_scales", "", "", ScaleForm::mxfp4, false},
    {"MXFP4 of gpt-oss", ".weight_blocks", ".weight_scales", "", "", ScaleForm::mxfp4, false},
    {"MXFP4 of compressed-tensors", ".weight_packed", ".weight_scale", "", "", ScaleForm::mxfp4, false},
    {"FP8 in tiles", ".weight", ".weight_scale_inv", "", "", ScaleForm::tiles, false},
    {"FP8", ".weight", ".weight_scale", "", "", ScaleForm::tiles, false},
});

constexpr int64_t kNvfp4Block = 16, kMxfp4Block = 32;

float e2m1(uint8_t code) { return 0.5f * static_cast<float>(kDoubledE2M1[code & 15]); }

bool is_fp8(NumberType type) { return type == NumberType::f8_e4m3 || type == NumberType::f8_e5m2; }

Error bad_tensor(const std::string& where, std::string what, std::string hint = "") {
  return {.code = ErrorCode::bad_tensor, .what = std::move(what), .where = where, .hint = std::move(hint)};
}

// Number types that a layout's codes may have.
bool may_hold(const WeightLayout& layout, NumberType type) {
  switch (layout.form) {
    case ScaleForm::none:
      return number_type_row(type).is_float;
    case ScaleForm::nvfp4:
    case ScaleForm::mxfp4:
      return type == NumberType::u8 || type == NumberType::f4;
    case ScaleForm::tiles:
      return is_fp8(type);
  }
  return false;
}

bool may_scale(ScaleForm form, NumberType type) {
  switch (form) {
    case ScaleForm::nvfp4:
      return type == NumberType::f8_e4m3;
    case ScaleForm::mxfp4:
      return type == NumberType::u8 || type == NumberType::f8_e8m0;
    case ScaleForm::tiles:
      return number_type_row(type).is_float || type == NumberType::f8_e8m0;
    case ScaleForm::none:
      break;
  }
  return false;
}

// The scale's suffixes that would make sense of such codes.
std::string wanted_scales(NumberType type) {
  std::string names;
  for (const WeightLayout& layout : kLayouts)
    if (!layout.scale.empty() && may_hold(layout, type))
      names += (names.empty() ? "" : " or ") + std::string(layout.scale);
  return names;
}

float read_one(const SafetensorsTensor& tensor, int64_t index = 0) {
  float value = 0;
  decode_numbers(tensor.type, tensor.data.data(), index, 1, &value);
  return value;
}

}  // namespace

std::span<const WeightLayout> weight_layouts() { return kLayouts; }

Result<std::optional<Weight>> Weight::find(const Checkpoint& checkpoint, const std::string& name, TileSize tile) {
  const SafetensorsTensor* orphan = nullptr;  // codes without the scales they need
  for (const WeightLayout& layout : kLayouts) {
    const SafetensorsTensor* codes = checkpoint.find(name + std::string(layout.codes));
    if (!codes) continue;
    const SafetensorsTensor* scales =
        layout.scale.empty() ? nullptr : checkpoint.find(name + std::string(layout.scale));
    const bool fits = may_hold(layout, codes->type) &&
                      (layout.scale.empty() || (scales != nullptr && may_scale(layout.form, scales->type)));
    if (!fits) {
      orphan = codes;
      continue;
    }
    Weight weight;
    weight.checkpoint_ = &checkpoint;
    weight.layout_ = &layout;
    weight.codes_ = codes;
    weight.scales_ = scales;
    weight.shape_ = codes->shape;
    weight.tile_ = tile;
    TRY(weight.find_scales(name));
    return std::optional(std::move(weight));
  }
  if (orphan == nullptr) return std::optional<Weight>();
  const std::string scales = wanted_scales(orphan->type);
  const std::string type(number_type_row(orphan->type).name);
  if (scales.empty())
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("weights of type {} are not supported", type),
                 .where = checkpoint.where(*orphan),
                 .hint = "get the checkpoint in BF16, FP8, NVFP4 or MXFP4"};
  return bad_tensor(
      checkpoint.where(*orphan),
      fmt::format("its {} codes need a scale ({}) that the checkpoint lacks or that has an unknown type", type, scales),
      "the checkpoint is incomplete");
}

Result<std::optional<Weight>> Weight::find_plain(const Checkpoint& checkpoint, const std::string& name) {
  const SafetensorsTensor* numbers = checkpoint.find(name);
  if (numbers == nullptr) return std::optional<Weight>();
  if (!number_type_row(numbers->type).is_float)
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("numbers of type {} are not supported here", number_type_row(numbers->type).name),
                 .where = checkpoint.where(*numbers)};
  Weight weight;
  weight.checkpoint_ = &checkpoint;
  weight.layout_ = &kLayouts[0];
  weight.codes_ = numbers;
  weight.shape_ = numbers->shape;
  return std::optional(std::move(weight));
}

Result<void> Weight::find_scales(const std::string& stem) {
  const auto optional_part = [&](std::string_view suffix) {
    return suffix.empty() ? nullptr : checkpoint_->find(stem + std::string(suffix));
  };
  tensor_scale_ = optional_part(layout_->tensor_scale);
  input_scale_ = optional_part(layout_->input_scale);
  if (!layout_->tensor_scale.empty() && tensor_scale_ == nullptr)
    return bad_tensor(
        where(),
        fmt::format("{} codes need '{}{}', which the checkpoint lacks", layout_->name, stem, layout_->tensor_scale),
        "the checkpoint is incomplete");
  switch (layout_->form) {
    case ScaleForm::none:
      break;
    case ScaleForm::nvfp4:
      TRY(check_block_scales(kNvfp4Block));
      break;
    case ScaleForm::mxfp4:
      TRY(check_block_scales(kMxfp4Block));
      break;
    case ScaleForm::tiles:
      TRY(check_tiles());
      break;
  }
  factor_ = TRY(tensor_scale()).value_or(1);
  TRY(input_scale());
  return {};
}

// Codes of two elements a byte, or F4 elements. gpt-oss adds a dimension: [..., n_blocks, bytes of a block].
Result<void> Weight::check_block_scales(int64_t block) {
  std::vector<int64_t>& shape = shape_;
  if (layout_->codes.ends_with("_blocks")) {
    if (shape.size() < 3 || shape.back() != block / 2)
      return bad_tensor(where(), fmt::format("shape {} is not [rows, blocks, {}]", codes_->shape_text(), block / 2));
    shape.pop_back();
    shape.back() *= block;  // cannot overflow: twice the elements that are there
  } else {
    if (shape.size() < 2)
      return bad_tensor(where(), fmt::format("shape {} is no matrix of codes", codes_->shape_text()));
    if (codes_->type != NumberType::f4) shape.back() *= 2;
  }
  std::vector<int64_t> wanted = shape;
  if (wanted.back() % block != 0)
    return bad_tensor(where(), fmt::format("rows of {} elements are no whole blocks of {}", wanted.back(), block));
  wanted.back() /= block;
  if (scales_->shape != wanted)
    return bad_tensor(checkpoint_->where(*scales_), fmt::format("scales of shape {} do not fit codes of shape {}",
                                                                scales_->shape_text(), codes_->shape_text()));
  return {};
}

Result<void> Weight::check_tiles() {
  const int64_t n_scales = scales_->n_elements();
  const bool is_matrix = shape_.size() == 2 && shape_[0] > 0 && shape_[1] > 0;
  const auto tiles = [](int64_t n, int64_t tile) { return (n + tile - 1) / tile; };
  if (n_scales == 1) {
    tile_ = {std::max<int64_t>(n_rows(), 1), std::max<int64_t>(row_elems(), 1)};
  } else if (is_matrix && n_scales == shape_[0] && scales_->shape[0] == shape_[0]) {
    tile_ = {1, shape_[1]};
  } else if (!is_matrix || scales_->shape != std::vector{tiles(shape_[0], tile_.rows), tiles(shape_[1], tile_.cols)}) {
    return bad_tensor(
        checkpoint_->where(*scales_),
        fmt::format("scales of shape {} do not fit a weight of shape {}", scales_->shape_text(), codes_->shape_text()),
        fmt::format("known: one for all, one per row, one per {} x {} tile", tile_.rows, tile_.cols));
  }
  return {};
}

Result<std::optional<float>> Weight::scalar(const SafetensorsTensor* tensor) const {
  if (tensor == nullptr) return std::optional<float>();
  const bool fits = can_decode(tensor->type) && tensor->n_elements() == 1;
  const float stored = fits ? read_one(*tensor) : 0;
  const float value = layout_->inverse ? 1 / stored : stored;
  if (!fits || !std::isfinite(value) || value <= 0)
    return bad_tensor(checkpoint_->where(*tensor), "must be one positive number");
  return std::optional(value);
}

int64_t Weight::n_rows() const {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < shape_.size(); ++i) n *= shape_[i];
  return n;
}

std::vector<const SafetensorsTensor*> Weight::parts() const {
  std::vector<const SafetensorsTensor*> parts;
  for (const SafetensorsTensor* part : {codes_, scales_, tensor_scale_, input_scale_})
    if (part != nullptr) parts.push_back(part);
  return parts;
}

// Element 2 j is the low half of byte j, element 2 j + 1 the high one.
uint8_t Weight::code(int64_t index) const {
  const auto byte = static_cast<uint8_t>(codes_->data[static_cast<size_t>(index / 2)]);
  return index % 2 == 0 ? byte & 15 : byte >> 4;
}

float Weight::block_scale(int64_t index) const {
  const auto raw = static_cast<uint8_t>(scales_->data[static_cast<size_t>(index)]);
  return layout_->form == ScaleForm::nvfp4 ? f8_e4m3_to_f32(raw) : f8_e8m0_to_f32(raw);
}

void Weight::decode_row(int64_t row, float* out) const {
  const int64_t n = row_elems();
  switch (layout_->form) {
    case ScaleForm::none:
      return decode_numbers(codes_->type, codes_->data.data(), row * n, n, out);
    case ScaleForm::tiles: {
      decode_numbers(codes_->type, codes_->data.data(), row * n, n, out);
      const int64_t tiles_per_row = (n + tile_.cols - 1) / tile_.cols;
      for (int64_t begin = 0; begin < n; begin += tile_.cols) {
        const float scale = read_one(*scales_, row / tile_.rows * tiles_per_row + begin / tile_.cols);
        for (int64_t i = begin; i < std::min(n, begin + tile_.cols); ++i) out[i] *= scale;
      }
      return;
    }
    case ScaleForm::nvfp4:
    case ScaleForm::mxfp4: {
      const int64_t block = layout_->form == ScaleForm::nvfp4 ? kNvfp4Block : kMxfp4Block;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t index = row * n + i;
        out[i] = e2m1(code(index)) * block_scale(index / block) * factor_;
      }
      return;
    }
  }
}

std::optional<DType> Weight::exact_type() const {
  if (layout_->form == ScaleForm::mxfp4) return DType::mxfp4;
  const bool whole_blocks = row_elems() % dtype_row(DType::nvfp4).block_elems == 0;
  if (layout_->form == ScaleForm::nvfp4 && whole_blocks) return DType::nvfp4;
  return std::nullopt;
}

Result<void> Weight::repack_row(int64_t row, std::byte* out) const {
  const auto type = exact_type();
  CHECK(type.has_value());
  const int64_t n = row_elems(), first = row * n;
  const auto raw_scale = [&](int64_t index) { return static_cast<uint8_t>(scales_->data[static_cast<size_t>(index)]); };
  const auto unusable = [&](int64_t block_idx) {
    return bad_tensor(checkpoint_->where(*scales_),
                      fmt::format("the scale of row {}, block {} is NaN or negative", row, block_idx));
  };
  if (*type == DType::mxfp4) {
    for (int64_t b = 0; b < n / kMxfp4Block; ++b) {
      BlockMXFP4 block{.e = raw_scale(first / kMxfp4Block + b)};
      if (block.e == 255) return unusable(b);
      for (int j = 0; j < 16; ++j)
        block.qs[j] = static_cast<uint8_t>(code(first + 32 * b + j) | code(first + 32 * b + j + 16) << 4);
      store_block(out + b * static_cast<int64_t>(sizeof block), block);
    }
    return {};
  }
  for (int64_t b = 0; b < n / 64; ++b) {
    BlockNVFP4 block{};
    for (int run = 0; run < 4; ++run) {
      const int64_t begin = first + 64 * b + 16 * run;
      const uint8_t scale = raw_scale(begin / kNvfp4Block);
      if (scale == 0x7F || scale > 0x80) return unusable(4 * b + run);
      block.scales[run] = scale & 0x7F;  // -0 is 0
      for (int j = 0; j < 8; ++j)
        block.qs[8 * run + j] = static_cast<uint8_t>(code(begin + j) | code(begin + j + 8) << 4);
    }
    store_block(out + b * static_cast<int64_t>(sizeof block), block);
  }
  return {};
}

}  // namespace tokamak::convert
