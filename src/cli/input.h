// Texts that commands work on: from a flag, a file or standard input.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/settings.h"

namespace tokamak::cli {

// Errors: not_found, bad_argument (a folder), io_failed.
Result<std::string> read_file(const std::filesystem::path& path);
// To the end. Errors: io_failed.
Result<std::string> read_standard_input();

// --prompt, or the content of --file, or standard input unless that is a terminal; nothing when there is none of them.
// Errors: bad_argument for both flags, those of read_file.
Result<std::optional<std::string>> given_text(const SettingValues& values);

// Refuses an output that is one of the files a command reads (empty paths aside), or belongs to a checkpoint folder
// that it reads: anything there but GGUF files. Errors: bad_argument.
Result<void> check_output_is_not_read(const std::filesystem::path& out, std::span<const std::filesystem::path> inputs);

// The warning about bytes that Tokenizer::encode lost.
std::string lost_bytes_text(size_t n_bytes);

}  // namespace tokamak::cli
