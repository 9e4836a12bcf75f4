#include "cli/input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/mapped_file.h"
#include "cli/console.h"

namespace tokamak::cli {

Result<void> check_output_is_not_read(const std::filesystem::path& out, std::span<const std::filesystem::path> inputs) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::path& input : inputs) {
    if (input.empty()) continue;
    const bool is_input = fs::equivalent(input, out, ignored);
    const bool is_in_folder = fs::is_directory(input, ignored) && fs::exists(out, ignored) &&
                              out.extension() != ".gguf" &&
                              fs::equivalent(input, fs::absolute(out, ignored).parent_path(), ignored);
    if (is_input || is_in_folder)
      return Error{
          .code = ErrorCode::bad_argument,
          .what = is_input ? "the output is a file that this command reads" : "is a file of the checkpoint itself",
          .where = out.string(),
          .hint = "name another output"};
  }
  return {};
}

Result<std::string> read_standard_input() {
  std::string text;
  char block[65536];
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, block, sizeof block);
    if (n == 0) return text;
    if (n > 0)
      text.append(block, static_cast<size_t>(n));
    else if (errno != EINTR)
      return Error{.code = ErrorCode::io_failed, .what = std::strerror(errno), .where = "standard input"};
  }
}

Result<std::string> read_file(const std::filesystem::path& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Result<std::optional<std::string>> given_text(const SettingValues& values) {
  const bool has_prompt = values.is_set("--prompt"), has_file = values.is_set("--file");
  if (has_prompt && has_file)
    return Error{.code = ErrorCode::bad_argument, .what = "--prompt and --file were both given", .hint = "give one"};
  if (has_prompt) return std::optional(values.text("--prompt"));
  if (has_file && values.text("--file") != "-") return std::optional(TRY(read_file(values.text("--file"))));
  if (has_file || !input_is_terminal()) return std::optional(TRY(read_standard_input()));
  return std::optional<std::string>();
}

std::string lost_bytes_text(size_t n_bytes) {
  return fmt::format("tokamak: {} of the text {} no token in the vocabulary of this model, which does not see {}",
                     n_bytes == 1 ? "1 byte" : fmt::format("{} bytes", n_bytes), n_bytes == 1 ? "has" : "have",
                     n_bytes == 1 ? "it" : "them");
}

}  // namespace tokamak::cli
