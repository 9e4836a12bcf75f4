// JSON from files that others wrote: size and depth are bounded, and every failure is an Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tokamak {

using Json = nlohmann::json;  // not ordered_json: that takes n^2 for a vocabulary

inline constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 28;  // the largest tokenizer.json known has 34 MB
inline constexpr int kMaxJsonDepth = 64;

// Errors: bad_file (not UTF-8 or not JSON, with the byte where that begins; too deep).
Result<Json> parse_json(std::string_view text, const std::string& where);

// Errors: those of MappedFile::open, bad_file (larger than kMaxJsonBytes; parse_json's).
Result<Json> read_json_file(const std::filesystem::path& path);
// As above; null when there is no such file.
Result<Json> read_json_file_or_null(const std::filesystem::path& path);

}  // namespace tokamak
