#include "cli/serve_helpers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/process_helpers.h"

namespace tokamak::test {

using Json = nlohmann::json;

ServeProcess::ServeProcess(const std::filesystem::path& model, const ServeOptions& options) {
  std::vector<std::string> words = {program_path(), "serve", model.string(), "--port", "0", "--threads", "1"};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    if (options.max_file_bytes > 0) {
      const auto n = static_cast<rlim_t>(options.max_file_bytes);
      const rlimit limit{n, n};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  talk_ = pipe_ends[0];
  std::string talk;
  for (char c; read(talk_, &c, 1) == 1 && (talk.find("://") == talk.npos || c != '\n');) talk += c;
  const size_t scheme = talk.find("://");
  const size_t colon = scheme == talk.npos ? scheme : talk.find(':', scheme + 3);
  EXPECT_NE(colon, std::string::npos) << talk;
  if (colon != std::string::npos) port_ = static_cast<uint16_t>(std::stoi(talk.substr(colon + 1)));
}

int ServeProcess::stop(int signal) {
  if (pid_ <= 0) return -1;
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return status;
}

ServeProcess::~ServeProcess() {
  stop(SIGKILL);
  if (talk_ >= 0) close(talk_);
}

Json ServeProcess::expect(int status, std::string_view path, const Json& body) const {
  const Reply reply = post(path, body);
  EXPECT_EQ(reply.status, status) << path << " " << body.dump().substr(0, 300) << "\n" << reply.body.substr(0, 1000);
  Json json = Json::parse(reply.body, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << reply.body.substr(0, 1000);
  return json;
}

void ServeProcess::expect_bad_field(std::string_view field, std::string_view path, const Json& body) const {
  const Json json = expect(400, path, body);
  if (json.contains("error")) {
    EXPECT_EQ(json["error"]["param"], field) << json;
  }
}

}  // namespace tokamak::test
