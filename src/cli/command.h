// The table of commands. A new command is its own file plus one row in commands.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace tokamak::cli {

struct Arguments {
  Scope scope;  // of the command
  SettingValues values;
  std::vector<std::string> words;  // what is no flag: the model first
};

// Returns the exit status: 0, or 1 when a check that the user asked for failed. Prints results with console.h.
using CommandFunction = Result<int> (*)(const Arguments& arguments);

struct Command {
  std::string_view name;
  std::string_view words;    // of the usage line: "[MODEL] [flags]"
  std::string_view summary;  // one line
  Scope scope;
  CommandFunction run;
  std::string_view example;
  std::string (*notes)(bool all) = nullptr;  // shown at the end of the help, if any
};

std::span<const Command> commands();

// One screen about all commands; about one command.
std::string program_help();
std::string command_help(const Command& command, bool all);
// docs/reference/commands.md.
std::string commands_markdown();

// The file types, for the help of quantize.
std::string quantize_notes(bool all);
// The modes, for the help of check-ops.
std::string check_ops_notes(bool all);

// One function per file, run.cpp and so on.
Result<int> run_command(const Arguments& arguments);
Result<int> inspect_command(const Arguments& arguments);
Result<int> tokenize_command(const Arguments& arguments);
Result<int> bench_command(const Arguments& arguments);
Result<int> explain_command(const Arguments& arguments);
Result<int> selftest_command(const Arguments& arguments);
Result<int> convert_command(const Arguments& arguments);
Result<int> docs_command(const Arguments& arguments);
Result<int> quantize_command(const Arguments& arguments);
Result<int> split_command(const Arguments& arguments);
Result<int> merge_command(const Arguments& arguments);
Result<int> imatrix_command(const Arguments& arguments);
Result<int> eval_command(const Arguments& arguments);
Result<int> serve_command(const Arguments& arguments);
Result<int> plan_command(const Arguments& arguments);
Result<int> check_ops_command(const Arguments& arguments);
Result<int> synth_command(const Arguments& arguments);
Result<int> fusion_command(const Arguments& arguments);

}  // namespace tokamak::cli
