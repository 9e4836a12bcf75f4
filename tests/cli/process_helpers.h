// Runs the program under test as a user would: with pipes, or on a terminal of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tokamak::test {

struct RunOptions {
  std::string input;                                             // standard input, a pipe
  std::vector<std::pair<std::string, std::string>> environment;  // added to a clean one
  std::string output_file;                                       // standard output goes there instead
  bool interrupt_after_output = false;                           // one SIGINT when the first output has come
};

struct RunResult {
  int status = -1;  // exit status, or 1000 + signal
  std::string output, talk;
};

// `tokamak arguments...`. TOKAMAK_ variables of the caller are not passed on; the cache is an empty folder.
RunResult run_tokamak(const std::vector<std::string>& arguments, const RunOptions& options = {});

// That run ends with `status`, no output, and one line of talk that holds `part`.
void expect_refusal(const std::vector<std::string>& arguments, int status, const std::string& part);

// The program on a pseudo-terminal that is its standard input, output and error.
class Terminal {
 public:
  // max_file_bytes > 0: RLIMIT_FSIZE of the program.
  explicit Terminal(const std::vector<std::string>& arguments, int64_t max_file_bytes = 0);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view text);  // "\x03" is Ctrl-C
  // Waits until `text` has come since the last successful wait_for; false at the end of the program or after 30 s.
  bool wait_for(std::string_view text);
  // Waits until anything more has come.
  bool wait_for_more() { return read_some(30000); }
  // Reads to the end and returns the exit status (1000 + signal; -1 when it has not ended after 30 s).
  int wait_for_end();
  const std::string& screen() const { return screen_; }  // everything that came

 private:
  bool read_some(int timeout_ms);
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

// The built program.
const std::string& program_path();

// A folder of this test program, removed at its end.
const std::filesystem::path& scratch_folder();
std::string read_whole_file(const std::filesystem::path& path);
void write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tokamak::test
