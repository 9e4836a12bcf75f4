#include "quantize/file_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/settings.h"

namespace tokamak {

namespace {
bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  return std::ranges::equal(a, b, {}, upper, upper);
}
}  // namespace

Result<const FileTypeRow*> find_file_type(std::string_view text) {
  for (const FileTypeRow& row : kFileTypes)
    if (equal_ignoring_case(text, row.name) || (!row.alias.empty() && equal_ignoring_case(text, row.alias)) ||
        text == fmt::format("{}", static_cast<int>(row.id)))
      return &row;
  std::vector<std::string_view> names = {kCopyType};
  for (const FileTypeRow& row : kFileTypes) names.push_back(row.name);
  std::string upper(text.substr(0, 64));
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string_view near = nearest_name(upper, names);
  return Error{.code = ErrorCode::bad_argument,
               .what = "no such file type",
               .where = std::string(text),
               .hint = near.empty() ? "tokamak quantize --help lists them" : fmt::format("did you mean {}?", near)};
}

Result<DType> find_target_type(std::string_view text, std::string_view flag) {
  const DTypeRow* row = find_dtype(text);
  if (!row)
    return Error{.code = ErrorCode::bad_argument,
                 .what = "no such tensor type",
                 .where = fmt::format("{} {}", flag, text),
                 .hint = "for example F16, Q8_0, Q6_K, Q4_K, IQ4_XS"};
  const bool is_weight_type = row->id != DType::q8_1 && row->id != DType::q8_k && row->id != DType::f64 &&
                              row->id != DType::i8 && row->id != DType::i16 && row->id != DType::i32 &&
                              row->id != DType::i64;
  if (!is_weight_type)
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("{} is not a type for stored weights", row->name),
                 .where = std::string(flag),
                 .hint = "for example F16, Q8_0, Q6_K, Q4_K, IQ4_XS"};
  return row->id;
}

}  // namespace tokamak
