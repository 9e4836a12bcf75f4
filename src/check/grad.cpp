#include "check/grad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/reference/backward.h"
#include "base/fnv1a.h"
#include "base/random.h"
#include "check/run.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

constexpr double kSteps[] = {0x1p-4, 0x1p-5};
constexpr size_t kMaxElements = 160;  // of a constant; of a larger one, a random part

using Numbers = std::vector<double>;

const std::vector<int32_t>& indices_of(const StepData& step, ir::InputRole role) {
  return role == ir::InputRole::positions ? step.positions : step.tokens;
}

// Reverse mode over the graph: by value, the gradient of the loss whose gradient by output i is out_grads[i].
std::vector<Numbers> gradients(const Case& c, const std::vector<Numbers>& values,
                               const std::vector<Numbers>& out_grads) {
  const ir::Graph& graph = c.graph;
  std::vector<Numbers> grads(graph.values.size());
  for (ValueId id = 0; id < values.size(); ++id) grads[id].assign(values[id].size(), 0.0);
  for (size_t i = 0; i < out_grads.size(); ++i)
    for (size_t k = 0; k < out_grads[i].size(); ++k) grads[graph.outputs[i]][k] += out_grads[i][k];
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const ir::Node& node = graph.nodes[n];
    reference::BackwardContext context{graph, node, {}, {}, values[node.output], grads[node.output], {}};
    for (ValueId id : node.inputs) {
      const bool is_index = graph.value(id).dtype == DType::i32;
      context.inputs.push_back(is_index ? nullptr : &values[id]);
      context.grads.push_back(is_index ? nullptr : &grads[id]);
      context.indices.emplace_back();
      if (is_index) context.indices.back() = indices_of(c.step, graph.value(id).input_role);
    }
    reference::find_backward(node)->run(context);
  }
  return grads;
}

// The case on the reference backend, its constants open to change.
class Differences {
 public:
  static Result<Differences> make(Case& c, Backend& reference, uint64_t seed) {
    Differences out(c);
    out.kv_ = TRY(reference.make_kv(c.kv));
    out.weights_ = TRY(reference.load(c.graph, c.lookup(), {}));
    out.program_ = TRY(reference.compile(c.graph, *out.weights_, *out.kv_, {}));
    uint64_t n_drawn = 0;
    for (ValueId id : c.graph.outputs) {
      out.outputs_.emplace_back(static_cast<size_t>(c.graph.value(id).shape.n_elements()));
      Numbers& r = out.loss_grads_.emplace_back(out.outputs_.back().size());
      for (double& x : r) x = 2 * uniform(seed, n_drawn++, 1) - 1;
    }
    return out;
  }

  const std::vector<Numbers>& loss_grads() const { return loss_grads_; }

  // By finite differences; x is an element of a constant.
  Result<double> at(float& x, double step) {
    const float before = x;
    double sum = 0;
    for (const auto& [steps, factor] : {std::pair{1, 45.0}, {-1, -45.0}, {2, -9.0}, {-2, 9.0}, {3, 1.0}, {-3, -1.0}}) {
      x = before + static_cast<float>(steps * step);
      sum += factor * TRY(loss());
    }
    x = before;
    return sum / (60 * step);
  }

 private:
  explicit Differences(const Case& c) : case_(&c) {}

  Result<double> loss() {
    std::vector<std::span<float>> spans;
    for (auto& output : outputs_) spans.emplace_back(output);
    TRY(program_->run(case_->step.view(), spans));
    double sum = 0;
    for (size_t i = 0; i < outputs_.size(); ++i)
      for (size_t k = 0; k < outputs_[i].size(); ++k) sum += loss_grads_[i][k] * double{outputs_[i][k]};
    return sum;
  }

  const Case* case_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Program> program_;
  std::vector<std::vector<float>> outputs_;
  std::vector<Numbers> loss_grads_;
};

void round_constants(Case& c) {
  for (auto& [name, weight] : c.weights)
    for (float& x : weight.bytes.floats()) x = std::nearbyint(x * 65536) / 65536;
}

// By value: what the reference computes, and the constants.
Result<std::vector<Numbers>> forward(const Case& c, Backend& reference) {
  ir::Graph all = c.graph;
  all.outputs.clear();
  for (ValueId id = 0; id < all.values.size(); ++id)
    if (all.value(id).kind == ir::ValueKind::intermediate) all.outputs.push_back(id);
  const RunOutcome run = TRY(run_case(c, reference, {.fusion = false, .graph = &all}));
  std::vector<Numbers> values(all.values.size());
  for (size_t i = 0; i < all.outputs.size(); ++i)
    values[all.outputs[i]].assign(run.outputs[i].begin(), run.outputs[i].end());
  for (ValueId id = 0; id < all.values.size(); ++id)
    if (all.value(id).kind == ir::ValueKind::weight) {
      const std::span<const float> x = c.weights.find(all.value(id).name)->second.bytes.floats();
      values[id].assign(x.begin(), x.end());
    }
  return values;
}

Result<void> compare(Case& c, uint64_t seed, Backend& reference, GradReport& report) {
  for (const ir::Node& node : c.graph.nodes)
    if (reference::find_backward(node) == nullptr)
      return Error{
          .code = ErrorCode::unsupported, .what = "no backward form", .where = std::string(ir::op_row(node.op).name)};
  round_constants(c);
  Differences differences = TRY(Differences::make(c, reference, seed));
  const std::vector<Numbers> grads = gradients(c, TRY(forward(c, reference)), differences.loss_grads());
  for (ValueId id = 0; id < c.graph.values.size(); ++id) {
    if (c.graph.value(id).kind != ir::ValueKind::weight) continue;
    CaseWeight& weight = c.weights.find(c.graph.value(id).name)->second;
    const std::span<float> x = weight.bytes.floats();
    const size_t n = std::min(x.size(), kMaxElements);
    double asymmetry = HUGE_VAL;
    for (double step : kSteps) {
      double distance = 0, size = 0;
      for (size_t i = 0; i < n; ++i) {
        const size_t at = n == x.size() ? i : static_cast<size_t>(uniform(seed, i, 2) * static_cast<double>(x.size()));
        const double numeric = TRY(differences.at(x[at], step)), exact = grads[id][at];
        distance += std::abs(numeric - exact);
        size += std::abs(numeric + exact);
      }
      asymmetry = std::min(asymmetry, distance == 0 ? 0 : distance / size);
      if (asymmetry <= kMaxAsymmetry) break;
    }
    report.n_elements += static_cast<int64_t>(n);
    report.asymmetry = std::max(report.asymmetry, asymmetry);
    if (!(asymmetry <= kMaxAsymmetry))
      report.why = fmt::format("asymmetry {:.2e} of the gradient by {} {} is above {:.0e}", asymmetry,
                               c.graph.value(id).name, weight.shape.to_string(), kMaxAsymmetry);
  }
  return {};
}

}  // namespace

GradReport check_gradients(const Recipe& recipe, uint64_t seed, Backend& reference) {
  GradReport report{.name = recipe.name(), .why = {}};
  auto made = make_case(recipe, seed);
  if (made) {
    const auto compared = compare(*made, seed, reference, report);
    if (!compared) report.why = compared.error().message();
  } else {
    report.why = made.error().message();
  }
  return report;
}

}  // namespace tokamak::check
