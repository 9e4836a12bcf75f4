#include "cli/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/console.h"
#include "cli/input.h"

namespace tokamak::cli {

namespace {
constexpr std::string_view kThinkStart = "<think>", kThinkEnd = "</think>";

std::string role_text(const Tokenizer& tokenizer, int32_t id) {
  return id == kNoToken ? std::string() : tokenizer.token_text(id);
}

bool ends_with_tag(std::string_view text, std::string_view tag) {
  const size_t end = text.find_last_not_of(" \n\t\r");
  return end != std::string_view::npos && text.substr(0, end + 1).ends_with(tag);
}

// Tags are looked for when the template knows them, or when the prompt opens a thought.
void set_reasoning(OutputOptions& output, const std::string& source, std::string_view prompt) {
  output.starts_in_reasoning = ends_with_tag(prompt, kThinkStart);
  if (!output.starts_in_reasoning && source.find(kThinkEnd) == std::string::npos) return;
  output.reasoning_start = kThinkStart;
  output.reasoning_end = kThinkEnd;
}
// A file, or an error that also names the templates we know.
Result<std::string> read_template(const std::string& path) {
  auto source = read_file(path);
  if (source || source.error().code != ErrorCode::not_found) return source;
  std::vector<std::string_view> names;
  for (const NamedTemplate& row : named_templates()) names.push_back(row.name);
  const std::string_view near = nearest_name(path, names);
  return Error{
      .code = ErrorCode::not_found,
      .what = "is neither a known chat template nor a file",
      .where = path,
      .hint = near.empty() ? fmt::format("known: {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)};
}
}  // namespace

const std::string& message_text(const ChatMessage& message) {
  static const std::string none;
  const auto* text = std::get_if<std::string>(&message.content);
  return text != nullptr ? *text : none;
}

Conversation::Conversation(Session& session, std::optional<ChatTemplate> chat_template, GenerateOptions options,
                           bool show_progress)
    : session_(session),
      chat_template_(std::move(chat_template)),
      options_(std::move(options)),
      show_progress_(show_progress),
      seq_id_(session.add_sequence()) {}

void Conversation::set_system(std::string text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), ChatMessage{.role = "system", .content = std::move(text)});
}

void Conversation::clear() { messages_.resize(has_system() ? 1 : 0); }

Result<std::string> Conversation::render() const {
  if (chat_template_) return chat_template_->render({.messages = messages_});
  std::string text;
  for (const ChatMessage& message : messages_) text += (text.empty() ? "" : "\n") + message_text(message);
  return text;
}

Result<GenerateResult> Conversation::generate_from(const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                                   const OutputCallback& output) {
  const auto common = static_cast<int64_t>(std::ranges::mismatch(cached_, prompt).in1 - cached_.begin());
  const bool is_long = static_cast<int64_t>(prompt.size()) - common > session_.options().n_batch;
  ProgressBar bar("reading the prompt", show_progress_ && is_long);
  return generate_reusing(session_, seq_id_, cached_, prompt, options,
                          {.prompt_progress =
                               [&bar](double fraction) {
                                 const bool go_on = bar.update(fraction);
                                 if (fraction >= 1) bar.clear();
                                 return go_on;
                               },
                           .output = output,
                           .proceed = [] { return !interrupted(); }});
}

Result<Answer> Conversation::complete(const OutputCallback& output) {
  const std::string prompt = TRY(render());
  GenerateOptions options = options_;
  if (chat_template_) set_reasoning(options.output, chat_template_->source(), prompt);
  const EncodeOptions encode{.add_special = !chat_template_, .parse_special = true};
  Answer answer;
  const auto keep = [&](const OutputEvent& event) {
    if (event.kind == OutputKind::text) answer.text += event.text;
    if (event.kind == OutputKind::reasoning) answer.reasoning += event.text;
    return output(event);
  };
  const std::vector<int32_t> tokens = session_.model().tokenizer().encode(prompt, encode, &answer.n_lost_bytes);
  if (answer.n_lost_bytes > 0 && !std::exchange(has_warned_, true)) talk_line(lost_bytes_text(answer.n_lost_bytes));
  answer.result = TRY(generate_from(tokens, options, keep));
  ChatMessage message{.role = "assistant", .content = answer.text};
  if (!answer.reasoning.empty()) message.reasoning_content = answer.reasoning;
  messages_.push_back(std::move(message));
  return answer;
}

Result<Answer> Conversation::answer(std::string text, const OutputCallback& output) {
  messages_.push_back({.role = "user", .content = std::move(text)});
  auto answer = complete(output);
  if (!answer) messages_.pop_back();
  return answer;
}

Result<Answer> Conversation::answer_again(const OutputCallback& output) {
  if (messages_.empty() || messages_.back().role != "assistant")
    return Error{.code = ErrorCode::bad_argument, .what = "there is no answer to make again"};
  ChatMessage old = std::move(messages_.back());
  messages_.pop_back();
  // The numbers drawn depend on seed and position alone: the same seed would give the same answer.
  if (options_.sampling.seed >= 0) ++options_.sampling.seed;
  auto answer = complete(output);
  if (!answer) messages_.push_back(std::move(old));
  return answer;
}

Result<std::optional<ChatTemplate>> choose_template(const SettingValues& values, const Model& model) {
  if (values.flag("--raw")) return std::optional<ChatTemplate>();
  std::string source = model.chat_template();
  if (const std::string& wanted = values.text("--chat-template"); !wanted.empty()) {
    if (const NamedTemplate* named = find_named_template(wanted))
      source = named->source;
    else
      source = wanted.find('{') != std::string::npos ? wanted : TRY(read_template(wanted));
    if (source.empty())
      return Error{.code = ErrorCode::bad_template, .what = "the chat template is empty", .where = wanted};
  }
  if (source.empty()) {
    talk_line(
        "tokamak: this model has no chat template, so it continues the text as it stands (--chat-template sets one)");
    return std::optional<ChatTemplate>();
  }
  const Tokenizer& tokenizer = model.tokenizer();
  return std::optional(TRY(ChatTemplate::parse(std::move(source), role_text(tokenizer, tokenizer.roles().bos),
                                               role_text(tokenizer, tokenizer.roles().eos))));
}

Result<GenerateOptions> generate_options(const SettingValues& values) {
  GenerateOptions options{.sampling = TRY(sampler_params(values)), .n_predict = values.integer("--n-predict")};
  options.output.stops = values.list("--stop");
  return options;
}

}  // namespace tokamak::cli
