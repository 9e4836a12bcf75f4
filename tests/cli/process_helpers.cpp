#include "cli/process_helpers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tokamak::test {

// Built into the same folder as this test program.
const std::string& program_path() {
  static const std::string path = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tokamak").string();
  return path;
}

namespace {
constexpr int kTimeoutMs = 30000;

std::vector<std::string> environment_of(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> out = {"PATH=/usr/bin:/bin", "TERM=xterm", "HOME=" + (scratch_folder() / "home").string()};
  for (const auto& [name, value] : extra) out.push_back(name + "=" + value);
  return out;
}

[[noreturn]] void become_tokamak(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment) {
  std::vector<char*> argv = {const_cast<char*>(program_path().c_str())}, envp;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  for (const std::string& e : environment) envp.push_back(const_cast<char*>(e.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  execve(program_path().c_str(), argv.data(), envp.data());
  _exit(127);
}

int status_of(int raw) { return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000 + WTERMSIG(raw); }

// Feeds `input` and collects both outputs until they are closed.
void exchange(int in, int out, int err, pid_t child, const RunOptions& options, RunResult& result) {
  std::string_view left = options.input;
  bool interrupted = false;
  if (left.empty()) close(std::exchange(in, -1));
  while (out >= 0 || err >= 0) {
    pollfd fds[3] = {{in, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
    if (poll(fds, 3, kTimeoutMs) <= 0) {
      kill(child, SIGKILL);
      break;
    }
    if (in >= 0 && fds[0].revents != 0) {
      const ssize_t n = write(in, left.data(), left.size());
      left.remove_prefix(n > 0 ? static_cast<size_t>(n) : left.size());
      if (left.empty()) close(std::exchange(in, -1));
    }
    for (auto [fd, text, revents] :
         {std::tuple(&out, &result.output, fds[1].revents), {&err, &result.talk, fds[2].revents}}) {
      if (*fd < 0 || revents == 0) continue;
      char block[4096];
      const ssize_t n = read(*fd, block, sizeof block);
      if (n > 0)
        text->append(block, static_cast<size_t>(n));
      else
        close(std::exchange(*fd, -1));
    }
    if (options.interrupt_after_output && !interrupted && !result.output.empty()) {
      kill(child, SIGINT);
      interrupted = true;
    }
  }
}
}  // namespace

const std::filesystem::path& scratch_folder() {
  struct Folder {
    Folder() : path(std::filesystem::temp_directory_path() / ("tokamak-cli-test-" + std::to_string(getpid()))) {
      std::filesystem::create_directories(path / "home");
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

RunResult run_tokamak(const std::vector<std::string>& arguments, const RunOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> environment = environment_of(options.environment);
  int in[2], out[2], err[2];
  RunResult result;
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return result;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGPIPE, SIG_DFL);
    const int target = options.output_file.empty() ? out[1] : open(options.output_file.c_str(), O_WRONLY);
    dup2(in[0], 0);
    dup2(target, 1);
    dup2(err[1], 2);
    become_tokamak(arguments, environment);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  exchange(in[1], out[0], err[0], child, options, result);
  int raw = 0;
  waitpid(child, &raw, 0);
  result.status = status_of(raw);
  return result;
}

void expect_refusal(const std::vector<std::string>& arguments, int status, const std::string& part) {
  const RunResult result = run_tokamak(arguments);
  EXPECT_EQ(result.status, status) << result.talk;
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(std::ranges::count(result.talk, '\n'), 1) << result.talk;
  EXPECT_THAT(result.talk, testing::HasSubstr(part));
}

Terminal::Terminal(const std::vector<std::string>& arguments, int64_t max_file_bytes) {
  const std::vector<std::string> environment = environment_of({});
  winsize size{.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ != 0) return;
  if (max_file_bytes > 0) {
    const rlimit limit{static_cast<rlim_t>(max_file_bytes), static_cast<rlim_t>(max_file_bytes)};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  become_tokamak(arguments, environment);
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(terminal_);
}

void Terminal::type(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(terminal_, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

bool Terminal::read_some(int timeout_ms) {
  pollfd fd{terminal_, POLLIN, 0};
  if (poll(&fd, 1, timeout_ms) <= 0) return false;
  char block[4096];
  const ssize_t n = read(terminal_, block, sizeof block);
  if (n <= 0) return false;
  screen_.append(block, static_cast<size_t>(n));
  return true;
}

bool Terminal::wait_for(std::string_view text) {
  for (;;) {
    const size_t found = screen_.find(text, seen_);
    if (found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    if (!read_some(kTimeoutMs)) return false;
  }
}

int Terminal::wait_for_end() {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kTimeoutMs);
  int raw = 0;
  while (Clock::now() < deadline) {
    read_some(50);
    if (waitpid(pid_, &raw, WNOHANG) != pid_) continue;
    while (read_some(0)) {
    }
    pid_ = -1;
    return status_of(raw);
  }
  return -1;
}

std::string read_whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_whole_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace tokamak::test
