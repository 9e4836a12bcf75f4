// libFuzzer: any bytes as a chat template, parsed and rendered under small limits. Anything but a Result is a finding.
#include "fuzz_target.h"

#include "chat/chat_template.h"

using tokamak::jinja::List;
using tokamak::jinja::RenderLimits;
using tokamak::jinja::Template;
using tokamak::jinja::Value;

namespace {
Value message(const char* role, const char* content) {
  tokamak::jinja::Dict dict;
  dict.set(Value("role"), Value(role));
  dict.set(Value("content"), Value(content));
  return Value::dict(std::move(dict));
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto parsed = Template::parse(std::string_view(reinterpret_cast<const char*>(data), n_bytes));
  if (!parsed) return 0;
  RenderLimits limits;
  limits.max_output_bytes = 1 << 16;
  limits.max_value_bytes = 4 << 20;
  limits.max_steps = 20'000;
  (void)parsed->render({{"messages", Value::list({message("system", "s"), message("user", "h\xC3\xA9|\n")})},
                        {"tools", Value::none()},
                        {"bos_token", Value("<s>")},
                        {"add_generation_prompt", Value(true)}},
                       limits);
  return 0;
}
