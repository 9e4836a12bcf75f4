// `tokamak serve` as a process of its own, and requests to it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_client_helpers.h"

namespace tokamak::test {

struct ServeOptions {
  std::vector<std::string> flags;
  int64_t max_file_bytes = 0;  // RLIMIT_FSIZE; 0: none
};

// Starts on a free port; killed with the object.
class ServeProcess {
 public:
  ServeProcess(const std::filesystem::path& model, const ServeOptions& options = {});
  ~ServeProcess();
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  uint16_t port() const { return port_; }  // 0: it did not start
  // Ends it and returns waitpid's status.
  int stop(int signal);

  Reply post(std::string_view path, const nlohmann::json& body, std::string_view headers = {}) const {
    return fetch(port_, "POST", path, body.dump(), headers);
  }
  Reply get(std::string_view path) const { return fetch(port_, "GET", path); }
  // The JSON of an answer with this status; anything else fails the test.
  nlohmann::json expect(int status, std::string_view path, const nlohmann::json& body) const;
  // Refused with status 400, naming the field.
  void expect_bad_field(std::string_view field, std::string_view path, const nlohmann::json& body) const;

 private:
  pid_t pid_ = 0;
  int talk_ = -1;
  uint16_t port_ = 0;
};

}  // namespace tokamak::test
