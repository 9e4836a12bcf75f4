// All kernels of one vector layer. Included by ops_ISA.cpp only.
#pragma once

#include "backend/cpu/ops/attention_generic.h"
#include "backend/cpu/ops/kv_generic.h"
#include "backend/cpu/ops/rows_generic.h"

namespace tokamak::cpu {
namespace {

template <class V>
constexpr OpSet make_op_set() {
  return {.norm = Rows<V>::norm,
          .add = Rows<V>::add,
          .mul = Rows<V>::mul,
          .add_chain = Rows<V>::add_chain,
          .scale = Rows<V>::scale,
          .softcap = Rows<V>::softcap,
          .unary = Rows<V>::unary,
          .glu = Rows<V>::glu,
          .rope = Rows<V>::rope,
          .kv_write = KvRows<V>::kv_write,
          .get_rows = KvRows<V>::get_rows,
          .copy = Rows<V>::copy,
          .attention = Attention<V>::run,
          .attention_merge = Attention<V>::merge};
}

}  // namespace
}  // namespace tokamak::cpu
