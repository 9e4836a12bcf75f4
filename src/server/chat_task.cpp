#include "server/chat_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chat/tool_fallback.h"

namespace tokamak::server {

namespace {

// Whose model's own thoughts the grammar of an answer lets pass: the single token that opens them.
int32_t thought_token(const ReplyFormat& format, const OutputOptions& output, const Tokenizer& tokenizer) {
  if (format.reasoning_start.empty() || output.starts_in_reasoning) return -1;
  const auto tokens = tokenizer.encode(format.reasoning_start, {.add_special = false, .parse_special = true});
  return tokens.size() == 1 ? tokens[0] : -1;
}

void read_template_arguments(const Fields& fields, Json& kwargs) {
  if (const Json* given = fields.find("chat_template_kwargs")) kwargs = *given;
  if (!fields.has("reasoning_effort")) return;
  set_reasoning_effort(kwargs, fields.text("reasoning_effort", ""));
}

std::string_view choice_name(ToolChoice choice) {
  constexpr std::string_view kNames[] = {"auto", "none", "required", "named"};
  return kNames[static_cast<size_t>(choice)];
}

Result<OutputGrammar> compile_tools(const ReplyFormat& format, const ToolUse& use, const ServerContext& context) {
  std::string key = fmt::format("tools:{}:{}:{}:", choice_name(use.choice), use.name, use.parallel);
  for (const Json& tool : use.tools) key += dump(tool) + "\n";
  return compile_once(key, context.grammar, [&]() -> Result<OutputGrammar> {
    GrammarOptions options;
    options.tokenizer = &context.tokenizer();
    auto made = TRY(tool_constraint(format, use, context.tokenizer(), options));
    if (!made) return OutputGrammar{};
    return OutputGrammar{.grammar = std::move(made->grammar), .triggers = std::move(made->triggers)};
  });
}

// What binds the answer: the schema, the calls, or either of them.
Result<std::vector<OutputGrammar>> answer_grammars(const ChatTask& task, const ReplyFormat& format,
                                                   const ServerContext& context) {
  std::vector<OutputGrammar> out;
  ToolUse use = task.tool_use;
  const bool must_call = use.choice == ToolChoice::required || use.choice == ToolChoice::named;
  if (task.output.grammar && !must_call) out.push_back(task.output);
  if (use.tools.empty() || use.choice == ToolChoice::none) return out;
  if (!format.calls) {
    if (must_call) return bad_field("tool_choice", "the model's chat template knows no tool calls");
    return out;
  }
  if (!out.empty()) use.choice = ToolChoice::required;  // as the other half of "either"
  OutputGrammar calls = TRY(compile_tools(format, use, context));
  if (calls.grammar) out.push_back(std::move(calls));
  return out;
}

// Where the next request of the same conversation may differ: before the part that asks for the answer. Snapshots of
// recurrent layers are kept there.
std::vector<int64_t> find_boundaries(const ChatTask& task, const ChatPrompt& prompt, const ServerContext& context) {
  if (!task.chat.add_generation_prompt || !context.model.hparams().is_recurrent()) return {};
  ChatTask history = task;
  history.chat.add_generation_prompt = false;
  const auto shorter = make_chat_prompt(history, context);
  if (!shorter) return {};
  const auto [end, ignored] = std::ranges::mismatch(prompt.tokens, shorter->tokens);
  return {end - prompt.tokens.begin()};
}

// Splits events into deltas, choice by choice.
class ReplySplitter : public AnswerWriter {
 public:
  ReplySplitter(std::vector<ReplyParser> parsers, std::unique_ptr<ReplyWriter> writer)
      : parsers_(std::move(parsers)), writer_(std::move(writer)) {}

  bool progress(size_t choice, const PromptProgress& progress) override { return writer_->progress(choice, progress); }
  bool tokens(size_t choice, const TokensEvent& event) override {
    return writer_->deltas(choice, parsers_[choice].push(event.text), event);
  }
  void finished(size_t choice, const Finished& finished) override {
    const std::vector<ReplyDelta> rest = parsers_[choice].finish();
    if (!rest.empty() && !writer_->deltas(choice, rest, {.text = {}, .tokens = {}, .timings = finished.timings}))
      return;
    writer_->finished(choice, finished, parsers_[choice].n_calls());
  }
  void all_finished(const RequestTimings& total) override { writer_->all_finished(total); }
  void failed(const Error& error) override { writer_->failed(error); }

 private:
  std::vector<ReplyParser> parsers_;
  std::unique_ptr<ReplyWriter> writer_;
};
}  // namespace

void set_reasoning_effort(Json& kwargs, const std::string& effort) {
  if (!kwargs.contains("reasoning_effort")) kwargs["reasoning_effort"] = effort;
  if (!kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = effort != "none";
}

Result<ChatTask> read_chat_task(const Fields& fields, Api api, const ServerContext& context) {
  ChatTask task;
  task.generation = TRY(read_generation(fields, api, context));
  task.output = TRY(read_output_grammar(fields, context.grammar));
  read_template_arguments(fields, task.chat.template_kwargs);
  const int64_t budget = fields.integer("thinking_budget_tokens", -1);
  task.generation.reasoning_budget = fields.integer("reasoning_budget", budget);
  return task;
}

Result<ChatPrompt> make_chat_prompt(const ChatTask& task, const ServerContext& context) {
  if (!context.chat_template) return context.chat_template.error();
  ChatRequest chat = task.chat;
  if (task.tool_use.choice != ToolChoice::none) chat.tools = task.tool_use.tools;
  if (!context.chat_template->abilities().shows_tools) chat = TRY(describe_tools(std::move(chat)));
  ChatPrompt prompt{.text = TRY(context.chat_template->render(chat)), .tokens = {}};
  prompt.tokens = context.tokenizer().encode(prompt.text, {.add_special = false, .parse_special = true});
  return prompt;
}

Result<PreparedChat> prepare_chat(ChatTask task, const ServerContext& context) {
  const ChatPrompt prompt = TRY(make_chat_prompt(task, context));
  TRY(check_answers({&prompt.tokens, 1}, task.n_answers, context));
  if (task.tool_use.choice == ToolChoice::named) task.tool_use.parallel = false;  // exactly this one call
  PreparedChat out{
      .id = {}, .requests = {}, .tools = task.tool_use.tools, .format = context.reply_format, .headers = task.headers};
  out.wants_calls = !out.tools.empty() && task.tool_use.choice != ToolChoice::none && out.format.calls.has_value();
  if (!out.wants_calls) out.tools.clear();
  out.max_calls = task.tool_use.parallel ? std::numeric_limits<int>::max() : 1;
  if (!task.separate_reasoning) out.format.reasoning_start = out.format.reasoning_end = "";
  GenerationRequest& request = task.generation;
  set_reply_output(out.format, out.wants_calls, prompt.text, request.output);
  request.kept_tokens = context.reply_tokens;
  request.prompt = prompt.tokens;
  request.boundaries = find_boundaries(task, prompt, context);
  request.reasoning_close =
      context.tokenizer().encode(context.reply_format.reasoning_end, {.add_special = false, .parse_special = true});
  const std::vector<OutputGrammar> grammars = TRY(answer_grammars(task, out.format, context));
  for (const OutputGrammar& one : grammars)
    for (auto& header : note_headers(one.grammar.get())) out.headers.push_back(std::move(header));
  out.requests = repeat(request, task.n_answers, grammars, context,
                        thought_token(context.reply_format, request.output, context.tokenizer()));
  return out;
}

void submit_chat(const std::shared_ptr<Exchange>& exchange, ServerContext& context, PreparedChat chat,
                 std::unique_ptr<ReplyWriter> writer, Dialect dialect) {
  std::vector<ReplyParser> parsers;
  for (size_t i = 0; i < chat.requests.size(); ++i)
    parsers.emplace_back(chat.format, chat.wants_calls, chat.max_calls, chat.tools);
  const size_t n = chat.requests.size();
  submit(exchange, context, std::move(chat.requests), n,
         std::make_unique<ReplySplitter>(std::move(parsers), std::move(writer)), dialect, std::move(chat.id));
}

void Reply::add(const std::vector<ReplyDelta>& deltas) {
  for (const ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case ReplyDelta::Kind::reasoning:
        reasoning += delta.text;
        break;
      case ReplyDelta::Kind::content:
        content += delta.text;
        break;
      case ReplyDelta::Kind::call:
        calls.push_back({.id = delta.id, .name = delta.name, .arguments = {}});
        break;
      case ReplyDelta::Kind::arguments:
        calls[static_cast<size_t>(delta.call)].arguments += delta.text;
        break;
    }
  }
}

}  // namespace tokamak::server
