#include "cli/chat.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/output_file.h"
#include "cli/answer_printer.h"
#include "cli/console.h"
#include "cli/line_editor.h"

namespace tokamak::cli {

namespace {
// The home folder for a leading "~/".
std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

constexpr std::string_view kPrompt = "> ", kContinued = "... ", kBlock = "\"\"\"";

class Chat {
 public:
  Chat(Conversation& conversation, Session& session) : conversation_(conversation), session_(session) {}

  int run();

  // The commands. Errors are shown and the chat goes on.
  Result<void> help(const std::string&);
  Result<void> clear(const std::string&);
  Result<void> save(const std::string& path) { return write(path, false); }
  Result<void> save_over(const std::string& path) { return write(path, true); }
  Result<void> again(const std::string&);
  Result<void> system(const std::string& text);
  Result<void> multi(const std::string& first_line);
  Result<void> stats(const std::string&);
  Result<void> leave(const std::string&);

 private:
  enum class Input : uint8_t { message, end, interrupt };
  Input read_message(std::string& message);
  void read_block(std::string& message);
  Input read_more(std::string& message, std::string& line);
  Input read(std::string_view prompt, std::string& line);
  void obey(const std::string& line);
  void show(const std::function<Result<Answer>(const OutputCallback&)>& make);
  Result<void> write(const std::string& given, bool replace);
  std::string transcript(bool as_json) const;

  Conversation& conversation_;
  Session& session_;
  LineEditor editor_;
  std::optional<GenerateResult> last_;
  bool leaving_ = false;
};

struct ChatCommand {
  std::string_view name, argument, meaning;
  Result<void> (Chat::*run)(const std::string& argument);
};
constexpr auto kChatCommands = std::to_array<ChatCommand>({
    {"/help", "", "this list", &Chat::help},
    {"/clear", "", "forget the conversation, keep the system message", &Chat::clear},
    {"/regen", "", "answer the last message again", &Chat::again},
    {"/system", "TEXT", "set the system message; without text there is none", &Chat::system},
    {"/multi", "", "write several lines; a line \"\"\" or Ctrl-D ends them, Ctrl-C drops them", &Chat::multi},
    {"/save", "FILE", "write the conversation; as JSON messages when FILE ends in .json", &Chat::save},
    {"/save!", "FILE", "the same, also when FILE exists", &Chat::save_over},
    {"/stats", "", "speed, context and memory", &Chat::stats},
    {"/exit", "", "leave (so does Ctrl-D)", &Chat::leave},
});

Chat::Input Chat::read(std::string_view prompt, std::string& line) {
  switch (editor_.read(prompt, line)) {
    case LineEditor::End::line:
      return Input::message;
    case LineEditor::End::interrupt:
      return Input::interrupt;
    case LineEditor::End::end_of_input:
      break;
  }
  return Input::end;
}

Chat::Input Chat::read_more(std::string& message, std::string& line) {
  const Input input = read(kContinued, line);
  if (input != Input::interrupt) return input;
  message.clear();
  talk_line("[dropped]");
  return Input::end;
}

void Chat::read_block(std::string& message) {
  for (std::string line; read_more(message, line) == Input::message && line != kBlock;)
    message += (message.empty() ? "" : "\n") + line;
}

// One message: a line, lines that end in a backslash and the one after them, or a block between lines """. The end of
// input ends a message of several lines; Ctrl-C leaves it empty.
Chat::Input Chat::read_message(std::string& message) {
  message.clear();
  std::string line;
  if (const Input input = read(kPrompt, line); input != Input::message) return input;
  if (line == kBlock) return read_block(message), Input::message;
  while (line.ends_with('\\')) {
    line.back() = '\n';
    message += line;
    if (read_more(message, line) != Input::message) return Input::message;
  }
  message += line;
  return Input::message;
}

void Chat::show(const std::function<Result<Answer>(const OutputCallback&)>& make) {
  AnswerPrinter printer;
  clear_interrupt();
  auto answer = make([&](const OutputEvent& event) { return printer.show(event); });
  printer.finish();
  const bool stopped = interrupted();
  clear_interrupt();
  if (stopped) talk_line("[stopped; Ctrl-C again leaves]");
  if (answer) {
    last_ = answer->result;
    if (last_->reason == FinishReason::context_full)
      talk_line("[the context is full: /clear starts anew, --ctx-size sets its size]");
  } else if (answer.error().code != ErrorCode::cancelled) {
    if (answer.error().code == ErrorCode::context_full)
      answer.error().hint = "shorten the message, start anew with /clear, or raise --ctx-size";
    talk_line("tokamak: " + answer.error().message());
  }
}

void Chat::obey(const std::string& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, end);
  const size_t begin = std::min(line.find_first_not_of(' ', end), line.size());
  std::vector<std::string_view> names;
  for (const ChatCommand& command : kChatCommands) {
    names.push_back(command.name);
    if (command.name != name) continue;
    if (auto done = (this->*command.run)(line.substr(begin)); !done) talk_line("tokamak: " + done.error().message());
    return;
  }
  const std::string_view near = nearest_name(name, names);
  talk_line(fmt::format("tokamak: {}: unknown command ({})", name,
                        near.empty() ? "/help lists them" : fmt::format("did you mean {}?", near)));
}

int Chat::run() {
  for (std::string message; !leaving_;) {
    const Input input = read_message(message);
    if (input == Input::interrupt) return error_row(ErrorCode::cancelled).exit_status;
    if (input == Input::end) break;
    if (message.find_first_not_of(" \n") == std::string::npos) continue;
    if (message.starts_with('/') && message.find('\n') == std::string::npos)
      obey(message);
    else
      show([&](const OutputCallback& output) { return conversation_.answer(message, output); });
    if (!output_state()) break;
  }
  return 0;
}

Result<void> Chat::help(const std::string&) {
  for (const ChatCommand& command : kChatCommands)
    talk_line(fmt::format("  {:<14} {}", fmt::format("{} {}", command.name, command.argument), command.meaning));
  talk_line(
      "A line that ends in \\ goes on in the next one. Arrow keys edit and recall lines.\n"
      "Ctrl-C stops an answer; at an empty prompt it leaves.");
  return {};
}

Result<void> Chat::clear(const std::string&) {
  conversation_.clear();
  last_.reset();
  talk_line("[a new conversation]");
  return {};
}

Result<void> Chat::again(const std::string&) {
  show([&](const OutputCallback& output) { return conversation_.answer_again(output); });
  return {};
}

Result<void> Chat::system(const std::string& text) {
  conversation_.set_system(text);
  talk_line(text.empty() ? "[no system message]" : "[system message set]");
  if (!conversation_.has_template()) talk_line("[without a chat template it is text in front of yours]");
  return {};
}

Result<void> Chat::multi(const std::string& first_line) {
  std::string message = first_line;
  read_block(message);
  if (message.empty()) return {};
  show([&](const OutputCallback& output) { return conversation_.answer(message, output); });
  return {};
}

std::string Chat::transcript(bool as_json) const {
  Json json = Json::array();
  std::string text;
  for (const ChatMessage& message : conversation_.messages()) {
    json.push_back({{"role", message.role}, {"content", message_text(message)}});
    text += fmt::format("{}## {}\n\n{}\n", text.empty() ? "" : "\n", message.role, message_text(message));
  }
  return as_json ? json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : text;
}

Result<void> Chat::write(const std::string& given, bool replace) {
  if (given.empty()) return Error{.code = ErrorCode::bad_argument, .what = "a file name must follow", .where = "/save"};
  const std::string path = expand_home(given);
  std::error_code ignored;
  if (!replace && std::filesystem::is_regular_file(path, ignored))
    return Error{.code = ErrorCode::bad_argument,
                 .what = "the file exists",
                 .where = path,
                 .hint = fmt::format("/save! {} replaces it", given)};
  const std::string text = transcript(path.ends_with(".json"));
  OutputFile file = TRY(OutputFile::create(path));
  TRY(file.write(std::as_bytes(std::span(text))));
  TRY(file.commit());
  talk_line(fmt::format("[{} messages written to {}]", conversation_.messages().size(), path));
  return {};
}

Result<void> Chat::stats(const std::string&) {
  talk_line(fmt::format("  model    {}\n  machine  {}\n  context  {} of {} tokens", session_.model().name(),
                        session_.backend().description(), conversation_.n_cached(), session_.n_ctx()));
  if (last_) talk_line("  last     " + speed_line(*last_));
  for (const MemoryUse& use : session_.memory())
    talk_line(fmt::format("  memory   {:9.1f} MB  {}", static_cast<double>(use.n_bytes) / 1e6, use.what));
  return {};
}

Result<void> Chat::leave(const std::string&) {
  leaving_ = true;
  return {};
}
}  // namespace

Result<int> chat(Conversation& conversation, Session& session) {
  talk_line(
      fmt::format("{} on {}. /help lists the commands.", session.model().name(), session.backend().description()));
  return Chat(conversation, session).run();
}

}  // namespace tokamak::cli
