#include "eval/eval_helpers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tokamak::test {

std::unique_ptr<Session> open_session(const std::filesystem::path& path, SessionOptions options) {
  auto model = Model::open(path);
  EXPECT_TRUE(model) << model.error().message();
  auto session = Session::create(*model, std::move(options));
  EXPECT_TRUE(session) << session.error().message();
  return std::move(*session);
}

std::filesystem::path scratch_file(std::string_view name) {
  struct Folder {
    Folder() : path(std::filesystem::temp_directory_path() / ("tokamak-eval-" + std::to_string(getpid()))) {
      std::filesystem::create_directories(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path / name;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace tokamak::test
