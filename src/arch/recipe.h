// A graph under construction: the builder, the model's constants, and checked access to its tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "arch/hparams.h"
#include "gguf/gguf.h"
#include "ir/builder.h"

namespace tokamak::arch {

// What a graph is built for and reused with.
struct ShapeClass {
  int64_t n_tokens = 1;
  int64_t n_outputs = 1;  // tokens whose logits are wanted; 0 = only fill the cache
  int64_t n_slots = 64;   // of the KV cache
  DType kv_type = DType::f16;
  friend bool operator==(const ShapeClass&, const ShapeClass&) = default;
};

class Recipe {
 public:
  Recipe(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape, std::string name);

  ir::GraphBuilder b;
  const Hparams& hp;
  const ShapeClass& shape;
  ir::ValueId tokens, positions, seq_ids, slots, out_rows;  // out_rows: kNone when every token is an output

  bool has(std::string_view tensor) const { return file_.find_tensor(tensor) != nullptr; }
  // A tensor of exactly this shape. A missing or misshapen one fails the build, naming it.
  ir::ValueId weight(const std::string& name, const Shape& shape);
  // A one-element F32 tensor's value, if the file has it.
  std::optional<float> scalar(const std::string& name) const;

  Result<ir::Graph> finish() { return error_ ? Result<ir::Graph>(*error_) : b.finish(); }

 private:
  const GgufFile& file_;
  std::optional<Error> error_;
};

// "blk.3.attn_q"
std::string block_name(int64_t layer_idx, std::string_view tensor);

// The graph of one step. Errors: bad_tensor (missing tensor, wrong shape), unsupported.
Result<ir::Graph> build_graph(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape);

}  // namespace tokamak::arch
