#include "arch/recipe.h"

#include <fmt/format.h>

#include <charconv>

#include "arch/architectures.h"
#include "arch/blocks.h"

namespace tokamak::arch {

std::string block_name(int64_t layer_idx, std::string_view tensor) {
  return fmt::format("blk.{}.{}", layer_idx, tensor);
}

WeightRows parse_weight_name(std::string_view name) {
  const size_t open = name.rfind('['), colon = name.rfind(':');
  if (open == name.npos || colon == name.npos || colon < open || !name.ends_with(']')) return {.tensor = name};
  WeightRows rows{.tensor = name.substr(0, open)};
  const auto read = [](std::string_view text, int64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  };
  const bool ok = read(name.substr(open + 1, colon - open - 1), rows.begin) &&
                  read(name.substr(colon + 1, name.size() - colon - 2), rows.end);
  return ok ? rows : WeightRows{.tensor = name};
}

std::optional<Shape> GgufTensorIndex::shape(std::string_view name) const {
  const GgufTensor* tensor = file_.find_tensor(name);
  return tensor ? std::optional(tensor->shape) : std::nullopt;
}

Result<DType> GgufTensorIndex::use(const std::string& name, const Shape& wanted) {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (!tensor)
    return Error{.code = ErrorCode::bad_tensor,
                 .what = "the file has no such tensor",
                 .where = name,
                 .hint = fmt::format("a {} model needs it; the file may be incomplete",
                                     file_.architecture().value_or("model of this"))};
  if (tensor->shape != wanted)
    return Error{.code = ErrorCode::bad_tensor,
                 .what = fmt::format("shape is {}, the model needs {}", tensor->shape.to_string(), wanted.to_string()),
                 .where = name,
                 .hint = "the file's metadata and tensors do not belong together"};
  return tensor->type;
}

Recipe::Recipe(TensorIndex& tensors, const Hparams& hparams, const ShapeClass& shape_class, std::string name)
    : b(std::move(name)), hp(hparams), shape(shape_class), tensors_(tensors) {
  const Shape per_token{shape.n_tokens};
  tokens = b.input(ir::InputRole::tokens, per_token);
  positions = b.input(ir::InputRole::positions, per_token);
  seq_ids = b.input(ir::InputRole::seq_ids, per_token);
  slots = b.input(ir::InputRole::slots, per_token);
  const bool some_rows = shape.n_outputs > 0 && shape.n_outputs < shape.n_tokens;
  out_rows = some_rows ? b.input(ir::InputRole::out_rows, {shape.n_outputs}) : ir::kNone;
  if (!hp.is_recurrent()) return;
  recurrent = {.seq_ids = seq_ids,
               .state_src = b.input(ir::InputRole::state_src, {shape.n_seqs}),
               .state_rows = b.input(ir::InputRole::state_rows, {shape.n_seqs}),
               .n_snapshots = shape.n_snapshots};
}

std::optional<DType> Recipe::use(const std::string& name, const Shape& wanted) {
  if (error_ || b.failed()) return std::nullopt;  // the first error is the cause, later ones its effects
  auto type = tensors_.use(name, wanted);
  if (!type) error_ = type.error();
  return type ? std::optional(*type) : std::nullopt;
}

ir::ValueId Recipe::weight_as(const std::string& name, const Shape& in_file, const Shape& wanted) {
  const auto type = use(name, in_file);
  return type ? b.weight(name, *type, wanted) : ir::kNone;
}

ir::ValueId Recipe::weight_rows(const std::string& name, const Shape& whole, int64_t begin, int64_t end) {
  const auto type = use(name, whole);
  if (!type) return ir::kNone;
  Shape rows = whole;
  rows.set(0, end - begin);
  return b.weight(fmt::format("{}[{}:{}]", name, begin, end), *type, rows);
}

Result<ir::Graph> build_graph(TensorIndex& tensors, const Hparams& hparams, const ShapeClass& shape) {
  Recipe recipe(tensors, hparams, shape,
                fmt::format("{} {} tokens {} outputs", hparams.family->name, shape.n_tokens, shape.n_outputs));
  build_decoder(recipe);
  return recipe.finish();
}

Result<ir::Graph> build_graph(const GgufFile& file, const Hparams& hparams, const ShapeClass& shape) {
  GgufTensorIndex tensors(file);
  return build_graph(tensors, hparams, shape);
}

}  // namespace tokamak::arch
