#include "chat/jinja/template.h"

namespace tokamak::jinja {

namespace {
std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}
}  // namespace

Result<Template> Template::parse(std::string_view source) {
  Template result;
  result.parsed_ = std::make_shared<const ParsedTemplate>(TRY(parse_template(source)));
  return result;
}

Result<std::string> Template::render(Variables variables, const RenderLimits& limits,
                                     std::function<std::tm()> clock) const {
  Interpreter interpreter(limits, clock ? std::move(clock) : local_time_now);
  return interpreter.render(parsed_->body, std::move(variables));
}

}  // namespace tokamak::jinja
