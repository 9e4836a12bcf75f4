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
  bool hidden = false;    // instead of logits, the rows after the output norm: [n_outputs, n_embd]
  int64_t n_slots = 64;   // of the KV cache
  DType kv_type = DType::f16;
  int64_t n_ctx = 0;  // the session's; above Hparams::n_ctx_long other rope factors hold
  // Of models with recurrent layers: sequences in the step, states kept of each, rows of the states.
  int64_t n_seqs = 1, n_snapshots = 1, n_state_rows = 1;
  friend bool operator==(const ShapeClass&, const ShapeClass&) = default;
};

// Where recipes look tensors up: a file, or the list of what a dummy model is to have.
class TensorIndex {
 public:
  virtual ~TensorIndex() = default;
  virtual bool has(std::string_view name) const = 0;
  // Dimensions of a tensor that has(); what is not known yet is taken to be as wanted: nullopt.
  virtual std::optional<Shape> shape(std::string_view name) const = 0;
  // Type of the tensor, which must have exactly this shape. Errors: bad_tensor (missing, another shape).
  virtual Result<DType> use(const std::string& name, const Shape& wanted) = 0;
};

// The tensors of a GGUF file, which must outlive the index.
class GgufTensorIndex : public TensorIndex {
 public:
  explicit GgufTensorIndex(const GgufFile& file) : file_(file) {}
  bool has(std::string_view name) const override { return file_.find_tensor(name) != nullptr; }
  std::optional<Shape> shape(std::string_view name) const override;
  Result<DType> use(const std::string& name, const Shape& wanted) override;

 private:
  const GgufFile& file_;
};

class Recipe {
 public:
  Recipe(TensorIndex& tensors, const Hparams& hparams, const ShapeClass& shape, std::string name);

  ir::GraphBuilder b;
  const Hparams& hp;
  const ShapeClass& shape;
  ir::ValueId tokens, positions, seq_ids, slots, out_rows;  // out_rows: kNone when every token is an output
  ir::RecurrentInputs recurrent;                            // of models with recurrent layers

  bool has(std::string_view tensor) const { return tensors_.has(tensor); }
  // Rank and dimensions of an optional tensor, when known.
  std::optional<Shape> shape_of(std::string_view tensor) const { return tensors_.shape(tensor); }
  // A tensor of exactly this shape. A missing or misshapen one fails the build, naming it.
  ir::ValueId weight(const std::string& name, const Shape& wanted) { return weight_as(name, wanted, wanted); }
  // The same elements under another shape.
  ir::ValueId weight_as(const std::string& name, const Shape& in_file, const Shape& shape);
  // Rows [begin, end) of the outermost dimension of a tensor of shape `whole`, as a weight of its own.
  ir::ValueId weight_rows(const std::string& name, const Shape& whole, int64_t begin, int64_t end);

  Result<ir::Graph> finish() { return error_ ? Result<ir::Graph>(*error_) : b.finish(); }

 private:
  std::optional<DType> use(const std::string& name, const Shape& wanted);

  TensorIndex& tensors_;
  std::optional<Error> error_;
};

// "blk.3.attn_q"
std::string block_name(int64_t layer_idx, std::string_view tensor);

// A slice of a tensor's rows is a weight named "TENSOR[BEGIN:END]".
struct WeightRows {
  std::string_view tensor;
  int64_t begin = 0, end = -1;  // -1: all rows
};
WeightRows parse_weight_name(std::string_view name);

// The graph of one step. Errors: bad_tensor (missing tensor, wrong shape), unsupported.
Result<ir::Graph> build_graph(TensorIndex& tensors, const Hparams& hparams, const ShapeClass& shape);
Result<ir::Graph> build_graph(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape);

}  // namespace tokamak::arch
