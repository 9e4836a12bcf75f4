#include "arch/recipe.h"

#include <cstring>

#include <fmt/format.h>

#include "arch/architectures.h"

namespace tokamak::arch {

std::string block_name(int64_t layer_idx, std::string_view tensor) {
  return fmt::format("blk.{}.{}", layer_idx, tensor);
}

Recipe::Recipe(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape_class, std::string name)
    : b(std::move(name)), hp(hparams), shape(shape_class), file_(file) {
  const Shape per_token{shape.n_tokens};
  tokens = b.input(ir::InputRole::tokens, per_token);
  positions = b.input(ir::InputRole::positions, per_token);
  seq_ids = b.input(ir::InputRole::seq_ids, per_token);
  slots = b.input(ir::InputRole::slots, per_token);
  const bool some_rows = shape.n_outputs > 0 && shape.n_outputs < shape.n_tokens;
  out_rows = some_rows ? b.input(ir::InputRole::out_rows, {shape.n_outputs}) : ir::kNone;
}

ir::ValueId Recipe::weight(const std::string& name, const Shape& wanted) {
  if (error_ || b.failed()) return ir::kNone;  // the first error is the cause, later ones its effects
  const GgufTensor* tensor = file_.find_tensor(name);
  if (!tensor)
    error_ = Error{.code = ErrorCode::bad_tensor,
                   .what = "the file has no such tensor",
                   .where = name,
                   .hint = fmt::format("a {} model needs it; the file may be incomplete", hp.family->name)};
  else if (tensor->shape != wanted)
    error_ =
        Error{.code = ErrorCode::bad_tensor,
              .what = fmt::format("shape is {}, the model needs {}", tensor->shape.to_string(), wanted.to_string()),
              .where = name,
              .hint = "the file's metadata and tensors do not belong together"};
  return error_ ? ir::kNone : b.weight(name, tensor->type, wanted);
}

std::optional<float> Recipe::scalar(const std::string& name) const {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (!tensor || tensor->type != DType::f32 || tensor->shape.n_elements() != 1) return std::nullopt;
  float value = 0;
  std::memcpy(&value, tensor->data.data(), sizeof value);
  return value;
}

Result<ir::Graph> build_graph(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape) {
  Recipe recipe(file, hparams, shape,
                fmt::format("{} {} tokens {} outputs", hparams.family->name, shape.n_tokens, shape.n_outputs));
  hparams.family->build(recipe);
  return recipe.finish();
}

}  // namespace tokamak::arch
