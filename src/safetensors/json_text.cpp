#include "safetensors/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/utf8.h"

namespace tokamak {

Result<Json> parse_json(std::string_view text, const std::string& where) {
  if (const size_t n = valid_utf8_prefix(text); n != text.size())
    return Error{.code = ErrorCode::bad_file, .what = fmt::format("not UTF-8 at byte {}", n), .where = where};
  bool too_deep = false;
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kMaxJsonDepth;
    return !too_deep;  // what is too deep is not kept
  };
  const auto invalid = [&](const std::string& place) {
    return Error{.code = ErrorCode::bad_file,
                 .what = "not valid JSON" + place,
                 .where = where,
                 .hint = "the download may be incomplete"};
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), limit);
    if (too_deep)
      return Error{.code = ErrorCode::bad_file,
                   .what = fmt::format("JSON nested deeper than {} levels", kMaxJsonDepth),
                   .where = where};
    return json;
  } catch (const Json::parse_error& error) {  // only the exception tells where
    return invalid(fmt::format(" at byte {}", error.byte));
  } catch (const Json::exception&) {  // a number out of range
    return invalid("");
  }
}

Result<Json> read_json_file(const std::filesystem::path& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxJsonBytes)
    return Error{.code = ErrorCode::bad_file,
                 .what = fmt::format("{} bytes of JSON, allowed are at most {}", bytes.size(), kMaxJsonBytes),
                 .where = path.string()};
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

Result<Json> read_json_file_or_null(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Json(nullptr);
  return read_json_file(path);
}

}  // namespace tokamak
