// Attributes as the fields of kernel arguments, which every backend names alike. Other fields stay as they are.
#pragma once

#include <cmath>
#include <limits>

#include "backend/lowering/router.h"

namespace tokamak::lowering {

// A bound of CLAMP; infinite where f32 ends.
inline float f32_bound(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return x > kMax ? INFINITY : x < -kMax ? -INFINITY : static_cast<float>(x);
}

// attrs: of GLU.
template <class Args>
void set_glu(Args& args, const ir::Attrs& attrs) {
  args.glu = static_cast<decltype(args.glu)>(attrs.integer(ir::Attr::glu));
  args.alpha = static_cast<float>(attrs.number(ir::Attr::alpha));
  args.limit = static_cast<float>(attrs.number(ir::Attr::limit));
}

// attrs: of MASK_GROUPS.
template <class Args>
void set_groups(Args& args, const ir::Attrs& attrs) {
  args.n_group = attrs.integer(ir::Attr::n_group);
  args.n_group_used = attrs.integer(ir::Attr::n_group_used);
  args.n_best = attrs.integer(ir::Attr::n_best);
}

// Kind, experts used, groups, renormalisation and scale.
template <class Args>
void set_router(Args& args, const ir::Graph& graph, const Router& router) {
  args.kind = router.kind;
  args.n_used = n_used_of(graph, router);
  if (router.mask != ir::kNone) set_groups(args, graph.node(router.mask).attrs);
  if (router.sum != ir::kNone) {
    const ir::Attrs& attrs = graph.node(router.clamp).attrs;
    args.renormalise = true;
    args.low = f32_bound(attrs.number(ir::Attr::min));
    args.high = f32_bound(attrs.number(ir::Attr::max));
  }
  if (router.scale != ir::kNone)
    args.scale = static_cast<float>(graph.node(router.scale).attrs.number(ir::Attr::scale));
}

// attrs: of FLASH_ATTN_EXT.
template <class Args>
void set_attention(Args& args, const ir::Attrs& attrs) {
  args.scale = static_cast<float>(attrs.number(ir::Attr::scale));
  args.softcap = static_cast<float>(attrs.number(ir::Attr::softcap));
  args.window = attrs.integer(ir::Attr::window);
  args.chunk = attrs.integer(ir::Attr::chunk);
  args.causal = attrs.integer(ir::Attr::causal) != 0;
}

}  // namespace tokamak::lowering
