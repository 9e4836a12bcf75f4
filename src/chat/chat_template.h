// A model's chat template: typed requests in, the prompt text out. The bytes equal those of transformers'
// apply_chat_template on the same messages.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "chat/jinja/template.h"
#include "chat/message.h"

namespace tokamak {

// What a template can take, found by rendering small probes when it is loaded.
struct TemplateAbilities {
  bool takes_parts = false;  // content as a list of typed parts; otherwise text parts are joined by newlines
  // How an assistant turn with tool calls and no content is shown to the template, so that the calls appear.
  enum class EmptyContent : uint8_t { text, null, absent } empty_content = EmptyContent::text;
  bool arguments_as_text = false;  // tool call arguments as JSON text; otherwise as an object
  bool shows_tool_calls = false;
  bool shows_tools = false;
};

class ChatTemplate {
 public:
  // Errors: bad_template with the line, unsupported for a refused construct. The caller keeps the error and returns it
  // to chat requests; another template is never put in place of a broken one.
  static Result<ChatTemplate> parse(std::string source, std::string bos_token, std::string eos_token);

  // Content that is absent, null, "" or [] gives the same prompt. Tool call arguments given as text are parsed.
  // Errors: bad_argument (arguments that are no JSON object, media the template cannot take, integers beyond 64
  // bits), template_refused with the template's own message (raise_exception), bad_template (failed while running).
  // Thread-safe.
  Result<std::string> render(const ChatRequest& request) const;

  const std::string& source() const { return source_; }
  const std::vector<std::string>& warnings() const { return template_.warnings(); }
  const TemplateAbilities& abilities() const { return abilities_; }
  // For tests and reproducible prompts: the local time strftime_now sees.
  void set_clock(std::function<std::tm()> clock) { clock_ = std::move(clock); }

 private:
  std::string source_, bos_token_, eos_token_;
  jinja::Template template_;
  TemplateAbilities abilities_;
  std::function<std::tm()> clock_;

  Result<std::string> render_with(const ChatRequest& request, const TemplateAbilities& abilities,
                                  const jinja::RenderLimits& limits) const;
  void probe();
};

// Templates of our own that `--chat-template NAME` selects, for models whose file has none.
struct NamedTemplate {
  std::string_view name;
  std::string_view used_by;  // model families, for the docs
  std::string_view source;
};
std::span<const NamedTemplate> named_templates();
const NamedTemplate* find_named_template(std::string_view name);

}  // namespace tokamak
