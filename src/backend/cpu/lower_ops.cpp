#include "backend/cpu/lower_ops.h"

namespace tokamak::cpu {

Operand operand(const Lowering& l, ir::ValueId id) {
  const ir::Value& value = l.value(id);
  const ir::Value& storage = l.value(l.graph.storage_of(id));
  if (storage.kind != ir::ValueKind::weight) return {.rows = l.rows(id)};
  return {
      .rows = {.n_rows = value.shape.n_rows(), .n = value.shape.row_elems(), .stride_elems = value.row_stride_elems},
      .constant = l.weights.at(storage.name).values.data() + value.offset_elems};
}

}  // namespace tokamak::cpu
