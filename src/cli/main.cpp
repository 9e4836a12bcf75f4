// tokamak COMMAND [MODEL] [flags]
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/console.h"

namespace tokamak::cli {
namespace {

int report(const Error& error, bool as_json) {
  talk_line("tokamak: " + error.message());
  if (as_json) {
    const nlohmann::ordered_json json = {
        {"error", {{"code", error_row(error.code).name}, {"message", error.message()}}}};
    print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return error_row(error.code).exit_status;
}

int fail(Error error) { return report(error, false); }

const Command* find_command(std::string_view name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

Error unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  const std::string_view near = nearest_name(name, names);
  return {.code = ErrorCode::bad_argument,
          .what = "unknown command",
          .where = std::string(name),
          .hint = near.empty() ? "tokamak --help lists the commands" : fmt::format("did you mean {}?", near)};
}

int run(const Command& command, std::span<const std::string_view> words) {
  Arguments arguments{.scope = command.scope, .values = {}, .words = {}};
  if (auto read = arguments.values.read_environment(command.scope); !read) return fail(read.error());
  auto others = arguments.values.read_arguments(command.scope, words);
  if (!others) return fail(others.error());
  arguments.words = *std::move(others);
  if (std::ranges::find(arguments.words, "") != arguments.words.end())
    return fail({.code = ErrorCode::bad_argument,
                 .what = "an argument is empty",
                 .where = fmt::format("tokamak {}", command.name),
                 .hint = "check the variable that should have filled it"});
  const bool all = arguments.values.flag("--help-all");
  if (all || arguments.values.flag("--help")) {
    print(command_help(command, all));
  } else {
    if (arguments.values.flag("--verbose"))
      set_log_sink([](LogLevel, std::string_view line) { talk_line("tokamak: " + std::string(line)); });
    const bool has_json = (find_setting("--json")->scopes & command.scope) != 0;
    auto status = command.run(arguments);
    if (!status)
      return report(arguments.values.in_given_names(status.error()), has_json && arguments.values.flag("--json"));
    if (*status != 0) return *status;
  }
  if (auto state = output_state(); !state) return fail(state.error());
  return 0;
}

int dispatch(std::span<const std::string_view> words) {
  const auto printed = [](int status) {
    const auto state = output_state();
    return state ? status : fail(state.error());
  };
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(program_help());
    return printed(words.empty() ? error_row(ErrorCode::bad_argument).exit_status : 0);
  }
  if (words[0] == "--version" || words[0] == "version") {
    print("tokamak " TOKAMAK_VERSION "\n");
    return printed(0);
  }
  const Command* command = find_command(words[0]);
  return command != nullptr ? run(*command, words.subspan(1)) : fail(unknown_command(words[0]));
}

}  // namespace
}  // namespace tokamak::cli

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error like a full disk
  tokamak::cli::catch_lost_files();
  try {
    return tokamak::cli::dispatch(std::vector<std::string_view>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    return tokamak::cli::fail({.code = tokamak::ErrorCode::out_of_memory, .what = "out of memory"});
  } catch (const std::exception& error) {  // a mistake of ours, said instead of aborting
    return tokamak::cli::fail(
        {.code = tokamak::ErrorCode::device_failed, .what = error.what(), .where = "internal error"});
  }
}
