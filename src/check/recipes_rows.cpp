// Element-wise and row-wise ops.
#include <fmt/format.h>

#include <numeric>

#include "check/recipes.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};
constexpr int64_t kWidths[] = {1, 7, 32, 100, 333};
constexpr std::string_view kLayouts[] = {"whole", "slice"};

// A recipe per number of tokens, width and layout.
using RowBuild = std::function<ValueId(CaseBuilder& c, int64_t width, Layout layout)>;
void add_rows(std::vector<Recipe>& out, std::string_view op, std::string_view variant, const RowBuild& build,
              std::span<const int64_t> widths = kWidths) {
  for (int64_t n : kTokens)
    for (int64_t width : widths)
      for (Layout layout : {Layout::whole, Layout::slice})
        out.push_back({.subject = std::string(op),
                       .variant = fmt::format("{}{}n={} width={} layout={}", variant, variant.empty() ? "" : " ", n,
                                              width, kLayouts[static_cast<size_t>(layout)]),
                       .build = [=](CaseBuilder& c) { c.b.output(build(c, width, layout)); },
                       .sequences = {{.n_tokens = n}}});
}

using Binary = ValueId (ir::GraphBuilder::*)(ValueId, ValueId, std::string_view);

void add_binary(std::vector<Recipe>& out, std::string_view op, Binary function) {
  const Range right{0.25, 2};  // no division by zero
  const auto call = [function](CaseBuilder& c, ValueId a, ValueId b) { return (c.b.*function)(a, b, {}); };
  add_rows(out, op, "b=same", [=](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId a = c.tensor({width}, {}, layout);
    return call(c, a, c.tensor({width}, right, layout));
  });
  add_rows(out, op, "b=weight", [=](CaseBuilder& c, int64_t width, Layout layout) {
    return call(c, c.tensor({width}, {}, layout), c.weight(DType::f32, {width}, right));
  });
  constexpr int64_t kFew[] = {7, 64};
  add_rows(
      out, op, "b=trailing",
      [=](CaseBuilder& c, int64_t width, Layout layout) {
        return call(c, c.tensor({3, width}, {}, layout), c.weight(DType::f32, {3, width}, right));
      },
      kFew);
  add_rows(
      out, op, "b=column",
      [=](CaseBuilder& c, int64_t width, Layout layout) {
        const ValueId a = c.tensor({3, width}, {}, layout);
        return call(c, a, c.tensor({3, 1}, right));
      },
      kFew);
  add_rows(
      out, op, "b=number",
      [=](CaseBuilder& c, int64_t width, Layout layout) {
        return call(c, c.tensor({width}, {}, layout), c.weight(DType::f32, {1}, right));
      },
      kFew);
}

void add_functions(std::vector<Recipe>& out) {
  for (size_t f = 0; f < ir::kUnaries.size(); ++f) {
    const auto function = static_cast<ir::Unary>(f);
    const Range range = function == ir::Unary::sqrt ? Range{0, 9} : Range{-9, 9};
    add_rows(out, "UNARY", fmt::format("f={}", ir::kUnaries[f]), [=](CaseBuilder& c, int64_t width, Layout layout) {
      return c.b.unary(c.tensor({width}, range, layout), function);
    });
  }
  for (size_t f = 0; f < ir::kGlus.size(); ++f) {
    const ir::GluParams params{.kind = static_cast<ir::Glu>(f),
                               .alpha = f == static_cast<size_t>(ir::Glu::swiglu_oai) ? 1.702 : 0,
                               .limit = f == static_cast<size_t>(ir::Glu::swiglu_oai) ? 3.0 : 0};
    add_rows(out, "GLU", fmt::format("f={} operands=2", ir::kGlus[f]),
             [=](CaseBuilder& c, int64_t width, Layout layout) {
               const ValueId gate = c.tensor({width}, {-6, 6}, layout);
               return c.b.glu(gate, c.tensor({width}, {-6, 6}, layout), params);
             });
    add_rows(out, "GLU", fmt::format("f={} operands=1", ir::kGlus[f]),
             [=](CaseBuilder& c, int64_t width, Layout layout) {
               return c.b.glu_halves(c.tensor({2 * width}, {-6, 6}, layout), params);
             });
  }
}

void add_norms(std::vector<Recipe>& out) {
  const auto add = [&](std::string_view op, auto function) {
    for (double eps : {1e-6, 1e-2})
      add_rows(out, op, fmt::format("eps={}", eps), [=](CaseBuilder& c, int64_t width, Layout layout) {
        return (c.b.*function)(c.tensor({width}, {-1, 3}, layout), eps, std::string_view{});
      });
  };
  add("NORM", &ir::GraphBuilder::norm);
  add("RMS_NORM", &ir::GraphBuilder::rms_norm);
  add("L2_NORM", &ir::GraphBuilder::l2_norm);
  add_rows(out, "SOFT_MAX", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    return c.b.soft_max(c.tensor({width}, {-20, 20}, layout));
  });
  add_rows(out, "SUM_ROWS", "",
           [](CaseBuilder& c, int64_t width, Layout layout) { return c.b.sum_rows(c.tensor({width}, {}, layout)); });
}

void add_moves(std::vector<Recipe>& out) {
  add_rows(out, "SCALE", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    return c.b.scale(c.tensor({width}, {}, layout), 1.7, 0.3);
  });
  add_rows(out, "CLAMP", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    return c.b.clamp(c.tensor({width}, {}, layout), -0.4, 0.7);
  });
  add_rows(out, "CONCAT", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId a = c.tensor({width}, {}, layout);
    return c.b.concat(a, c.tensor({5}));
  });
  add_rows(out, "CONCAT", "heads=3", [](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId a = c.tensor({3, 6}, {}, layout);
    return c.b.concat(a, c.tensor({3, width}, {}, layout));
  });
  add_rows(out, "CONT", "heads=2", [](CaseBuilder& c, int64_t width, Layout layout) {
    return c.b.cont(c.tensor({2, width}, {}, layout));
  });
  add_rows(out, "VIEW", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId x = c.tensor({2, width + 2}, {}, layout);
    return c.b.scale(c.b.view(x, 1, {c.n_tokens, 2, width}), 2);
  });
  add_rows(out, "RESHAPE", "", [](CaseBuilder& c, int64_t width, Layout) {
    return c.b.scale(c.b.reshape(c.tensor({2, width}), {c.n_tokens * 2, width}), 2);
  });
  add_rows(out, "CROSS_ENTROPY_LOSS", "", [](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId logits = c.tensor({width}, {-4, 4}, layout);
    return c.b.node(ir::Op::cross_entropy_loss, {logits, c.b.soft_max(c.tensor({width}, {-4, 4}))});
  });
}

void add_get_rows(std::vector<Recipe>& out) {
  for (DType type : weight_types())
    for (int64_t n : kTokens)
      for (int64_t n_blocks : {1, 3}) {
        const int64_t width = n_blocks * std::max<int64_t>(dtype_row(type).block_elems, 7);
        out.push_back({.subject = "GET_ROWS",
                       .variant = fmt::format("type={} n={} width={}", dtype_name(type), n, width),
                       .build =
                           [=](CaseBuilder& c) {
                             const ValueId table = c.weight(type, {c.n_tokens + 3, width});
                             c.b.output(c.b.get_rows(table, c.b.input(ir::InputRole::tokens, {c.n_tokens})));
                           },
                       .sequences = {{.n_tokens = n}},
                       .dtype = type});
      }
}

void add_argsort(std::vector<Recipe>& out) {
  for (int64_t n : kTokens)
    for (int64_t width : {1, 2, 7, 64, 128, 333})
      for (bool ties : {false, true})
        out.push_back({.subject = "ARGSORT",
                       .variant = fmt::format("n={} width={} ties={}", n, width, ties ? "yes" : "no"),
                       .build =
                           [=](CaseBuilder& c) {
                             const ValueId x = c.rows(width, distinct_rows(c, width, ties));
                             std::vector<float> digits(static_cast<size_t>(width));
                             std::iota(digits.begin(), digits.end(), 0.0f);
                             c.b.output(c.b.get_rows(c.constant({width, 1}, digits), c.b.argsort(x)));
                           },
                       .sequences = {{.n_tokens = n}}});
}

}  // namespace

void add_row_recipes(std::vector<Recipe>& out) {
  add_get_rows(out);
  add_binary(out, "ADD", &ir::GraphBuilder::add);
  add_binary(out, "SUB", &ir::GraphBuilder::sub);
  add_binary(out, "MUL", &ir::GraphBuilder::mul);
  add_binary(out, "DIV", &ir::GraphBuilder::div);
  add_moves(out);
  add_functions(out);
  add_norms(out);
  add_argsort(out);
}

}  // namespace tokamak::check
