// Binding of arguments to the parameters of a table row.
#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/interpreter.h"

namespace tokamak::jinja {

namespace {
struct Params {
  std::vector<std::string_view> names;
  size_t n_required = 0;
  bool takes_rest = false;

  explicit Params(std::string_view spec) {
    while (!spec.empty()) {
      const size_t end = std::min(spec.find(' '), spec.size());
      std::string_view name = spec.substr(0, end);
      spec.remove_prefix(std::min(end + 1, spec.size()));
      if (name == "*") {
        takes_rest = true;
        continue;
      }
      if (name.ends_with('?'))
        name.remove_suffix(1);
      else
        n_required = names.size() + 1;
      names.push_back(name);
    }
  }
  size_t find(std::string_view name) const {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
};
}  // namespace

std::string signature_mismatch(std::string_view params, size_t n_positional, std::span<const std::string> names,
                               bool complete) {
  const Params p(params);
  if (n_positional > p.names.size() && !p.takes_rest)
    return "takes at most " + std::to_string(p.names.size()) + " arguments (" + std::to_string(n_positional) +
           " given)";
  size_t n_required_given = std::min(n_positional, p.n_required);
  for (const std::string& name : names) {
    const size_t at = p.find(name);
    if (at == p.names.size()) {
      if (!p.takes_rest) return "got an unexpected keyword argument '" + name + "'";
      continue;
    }
    if (at < n_positional) return "got multiple values for argument '" + name + "'";
    n_required_given += at < p.n_required;
  }
  if (complete && n_required_given < p.n_required)
    return "is missing the required argument '" + std::string(p.names[n_required_given]) + "'";
  return {};
}

Result<Args> Args::bind(Interpreter& interpreter, const BuiltinRow& row, CallArgs args) {
  std::vector<std::string> names;
  for (const auto& [name, value] : args.named) names.push_back(name);
  const std::string problem = signature_mismatch(row.params, args.positional.size(), names, true);
  if (!problem.empty()) return interpreter.fail("'" + std::string(row.name) + "' " + problem);
  const Params p(row.params);
  Args bound(interpreter, row);
  bound.slots_.resize(p.names.size());
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < bound.slots_.size())
      bound.slots_[i] = std::move(args.positional[i]);
    else
      bound.rest.positional.push_back(std::move(args.positional[i]));
  }
  for (auto& [name, value] : args.named) {
    const size_t at = p.find(name);
    if (at < bound.slots_.size())
      bound.slots_[at] = std::move(value);
    else
      bound.rest.named.emplace_back(std::move(name), std::move(value));
  }
  return bound;
}

const Value& Args::at(size_t i) const {
  static const Value kAbsent;
  return given(i) ? *slots_[i] : kAbsent;
}

Result<int64_t> Args::integer(size_t i, int64_t fallback) const {
  if (!given(i)) return fallback;
  if (at(i).is_int_like()) return at(i).as_int();
  if (at(i).is(Kind::undefined)) return interpreter_->fail(std::string(at(i).undefined_message()));
  return interpreter_->fail("'" + std::string(row_->name) + "' wants an int, not '" + std::string(at(i).type_name()) +
                            "'");
}

Result<std::string> Args::text(size_t i, std::string_view fallback) const {
  if (!given(i)) return std::string(fallback);
  if (at(i).is_string()) return at(i).text();
  if (at(i).is(Kind::undefined)) return interpreter_->fail(std::string(at(i).undefined_message()));
  return interpreter_->fail("'" + std::string(row_->name) + "' wants a str, not '" + std::string(at(i).type_name()) +
                            "'");
}

}  // namespace tokamak::jinja
