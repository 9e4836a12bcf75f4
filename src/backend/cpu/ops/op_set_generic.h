// All kernels of one vector layer. Included by ops_ISA.cpp only.
#pragma once

#include "backend/cpu/ops/attention_generic.h"
#include "backend/cpu/ops/kv_generic.h"
#include "backend/cpu/ops/recurrent_generic.h"
#include "backend/cpu/ops/routing_generic.h"
#include "backend/cpu/ops/rows_generic.h"

namespace tokamak::cpu {
namespace {

template <class V>
constexpr OpSet make_op_set() {
  return {.norm = Rows<V>::norm,
          .add = Rows<V>::add,
          .sub = Rows<V>::sub,
          .mul = Rows<V>::mul,
          .div = Rows<V>::div,
          .add_chain = Rows<V>::add_chain,
          .mul_chain = Rows<V>::mul_chain,
          .scale = Rows<V>::scale,
          .clamp = Rows<V>::clamp,
          .softcap = Rows<V>::softcap,
          .unary = Rows<V>::unary,
          .relu_sqr = Rows<V>::relu_sqr,
          .glu = Rows<V>::glu,
          .snake = Rows<V>::snake,
          .rope = Rows<V>::rope,
          .kv_write = KvRows<V>::kv_write,
          .get_rows = KvRows<V>::get_rows,
          .copy = Rows<V>::copy,
          .attention = Attention<V>::run,
          .attention_merge = Attention<V>::merge,
          .soft_max = Routing<V>::soft_max,
          .sum_rows = Routing<V>::sum_rows,
          .argsort = argsort_rows,
          .mask_groups = mask_groups_rows,
          .add_id = Routing<V>::add_id,
          .route = Routing<V>::route,
          .weighted_sum = Routing<V>::weighted_sum,
          .ssm_conv = Recurrent<V>::ssm_conv,
          .ssm_conv_state = Recurrent<V>::ssm_conv_state,
          .gated_delta_net = DeltaNet<V>::run};
}

}  // namespace
}  // namespace tokamak::cpu
