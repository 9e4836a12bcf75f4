// A parsed Jinja template that renders with the semantics of Python's jinja2 as transformers configures it
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loopcontrols, {% generation %}).
// Not supported, and refused with a clear error: include, import, extends, block, autoescape, markup-safe strings,
// integers beyond 64 bits, the filters random, pprint, urlize, wordwrap, striptags and xmlattr.
// Filters that are lazy in Python (map, select ...) run when they are applied.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/parser.h"

namespace tokamak::jinja {

class Template {
 public:
  // Errors: bad_template with the line; unsupported for a refused construct.
  static Result<Template> parse(std::string_view source);

  // Errors: bad_template (failed while running, or over a limit), template_refused (raise_exception).
  // Thread-safe. `clock` defaults to the machine's local time.
  Result<std::string> render(Variables variables, const RenderLimits& limits = {},
                             std::function<std::tm()> clock = {}) const;

  // Problems that Jinja reports only when the branch they stand in runs: unknown filters, tests and arguments.
  const std::vector<std::string>& warnings() const { return parsed_->warnings; }

 private:
  std::shared_ptr<const ParsedTemplate> parsed_;
};

}  // namespace tokamak::jinja
