// Which type each tensor of a file type gets: roles, the never-quantized list, the mixing rules and the fallbacks for
// rows that no block fits. The rules reproduce llama-quantize's answers (tests/golden/quantize/mixes.txt, recorded from
// its --dry-run); MXFP4 and NVFP4, which it does not offer for whole models, are ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "quantize/file_types.h"
#include "tensor/dtypes.h"
#include "tensor/shape.h"

namespace tokamak {

enum class TensorRole : uint8_t {
  token_embd,
  output,
  attn_v,  // also where keys and values are one matrix with it: attn_qkv, attn_kv_b
  attn_k,
  attn_q,
  attn_output,
  ffn_down,
  ffn_gate,
  ffn_up,
  other,
};
inline constexpr int kNumTensorRoles = static_cast<int>(TensorRole::other) + 1;

TensorRole tensor_role(std::string_view name);

// Number N of "blk.N." (also behind "enc." or "dec."), or nothing.
std::optional<int64_t> layer_of(std::string_view name);

// Matrices that are quantized: not the small, sensitive or looked-up ones.
bool is_quantizable(std::string_view name, const Shape& shape);

// What the rules want to know about the model.
struct MixModel {
  bool is_falcon = false;
  int64_t n_layer = 0, n_head = 0, n_head_kv = 0, n_expert = 0;
  bool has_output = true;  // false: the token embedding serves as output matrix
  bool has_imatrix = false;
  int64_t n_attn_v = 0;  // matrices with role attn_v
};

// One tensor's place: the how-manyth of its role in order of layers, and its layer (0 outside of layers).
struct MixPlace {
  TensorRole role = TensorRole::other;
  int64_t idx = 0;
  int64_t layer = 0;
  int64_t row_elems = 0;
  bool is_stack = false;  // several matrices: experts, or one per head
};

// Before fallbacks.
DType mixed_type(FileType file_type, const MixModel& model, const MixPlace& place);

// The type that rows of row_elems get when `type` does not fit them, itself when it does; nothing when no type is
// near enough (Q1_0, MXFP4, NVFP4).
std::optional<DType> fitting_type(DType type, int64_t row_elems);

}  // namespace tokamak
