// One weight of a checkpoint in any layout that checkpoints use: plain numbers, or codes with scales beside them.
// Goal: the planner sees a matrix of f32 rows, and the exact GGUF blocks where GGUF has the same codes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "safetensors/checkpoint.h"
#include "tensor/dtypes.h"

namespace tokamak::convert {

// How a quantized layout multiplies its codes.
enum class ScaleForm : uint8_t {
  none,
  nvfp4,  // one E4M3 per 16, and one F32 for the tensor
  mxfp4,  // one E8M0 per 32
  tiles,  // one number per tile: a rectangle, a row, or the whole tensor
};

// What a layout's files are called. Suffixes follow the weight's name without ".weight".
struct WeightLayout {
  std::string_view name;          // for people
  std::string_view codes;         // suffix of the codes or numbers
  std::string_view scale;         // of the scales; empty: none needed
  std::string_view tensor_scale;  // of the F32 for the whole tensor; empty: none
  std::string_view input_scale;   // of the activations' scale, copied where GGUF has a place; empty: none
  ScaleForm form;
  bool inverse;  // tensor_scale and input_scale divide
};

std::span<const WeightLayout> weight_layouts();

// Of FP8 weights with several scales; quantization_config.weight_block_size.
struct TileSize {
  int64_t rows = 128, cols = 128;
};

class Weight {
 public:
  // The weight called `name` ("model.layers.0.mlp.up_proj"); nothing when the checkpoint has no tensor of that name.
  // Errors: bad_tensor (a scale that the codes need is absent, or has the wrong shape), unsupported (codes of a layout
  // that is not in the table). Each names file and tensor.
  static Result<std::optional<Weight>> find(const Checkpoint& checkpoint, const std::string& name, TileSize tile = {});
  // The same for a tensor of plain numbers by its whole name ("model.norm.bias").
  static Result<std::optional<Weight>> find_plain(const Checkpoint& checkpoint, const std::string& name);

  const WeightLayout& layout() const { return *layout_; }
  const SafetensorsTensor& tensor() const { return *codes_; }   // codes or numbers
  const std::vector<int64_t>& shape() const { return shape_; }  // of the weight itself, not of its codes
  int64_t row_elems() const { return shape_.empty() ? 1 : shape_.back(); }
  int64_t n_rows() const;
  std::string where() const { return checkpoint_->where(*codes_); }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Every tensor of the checkpoint that belongs to the weight.
  std::vector<const SafetensorsTensor*> parts() const;

  // out[row_elems] = row as f32, all scales applied. May be non-finite: the caller checks.
  void decode_row(int64_t row, float* out) const;

  // The GGUF type with the same codes, if rows are whole blocks of it: NVFP4 or MXFP4.
  std::optional<DType> exact_type() const;
  // out = the row's blocks of exact_type(), bit for bit the same codes and scales.
  // Errors: bad_tensor (a scale that is NaN or negative).
  Result<void> repack_row(int64_t row, std::byte* out) const;
  // The factor on all values that blocks of exact_type() lack: GGUF's NAME.scale. Nothing: 1.
  Result<std::optional<float>> tensor_scale() const { return scalar(tensor_scale_); }
  Result<std::optional<float>> input_scale() const { return scalar(input_scale_); }

 private:
  Result<void> find_scales(const std::string& stem);
  Result<void> check_block_scales(int64_t block);
  Result<void> check_tiles();
  Result<std::optional<float>> scalar(const SafetensorsTensor* tensor) const;
  uint8_t code(int64_t index) const;  // four-bit codes: element `index` of the whole weight
  float block_scale(int64_t index) const;

  const Checkpoint* checkpoint_ = nullptr;
  const WeightLayout* layout_ = nullptr;
  const SafetensorsTensor *codes_ = nullptr, *scales_ = nullptr, *tensor_scale_ = nullptr, *input_scale_ = nullptr;
  std::vector<int64_t> shape_;
  TileSize tile_;     // of ScaleForm::tiles
  float factor_ = 1;  // tensor_scale()
};

}  // namespace tokamak::convert
