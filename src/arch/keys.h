// Checked access to the metadata keys of one architecture.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace tokamak::arch {

// Keys of the file's architecture.
class Keys {
 public:
  // n_extra: blocks behind the decoder that per-layer keys count too.
  Keys(const GgufFile& file, std::string_view arch, int64_t n_extra = 0)
      : file_(file), prefix_(std::string(arch) + "."), n_extra_(static_cast<size_t>(n_extra)) {}

  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool has(std::string_view suffix) const { return file_.has(key(suffix)); }
  Result<int64_t> size(std::string_view suffix, int64_t max) const { return file_.get_i64(key(suffix), 1, max); }
  Result<int64_t> size_or(std::string_view suffix, int64_t fallback, int64_t max) const {
    return file_.get_i64_or(key(suffix), fallback, 1, max);
  }
  Result<int64_t> count_or(std::string_view suffix, int64_t fallback, int64_t max) const {
    return file_.get_i64_or(key(suffix), fallback, 0, max);
  }
  Result<double> number(std::string_view suffix, double min, double max) const {
    return file_.get_f64(key(suffix), min, max);
  }
  Result<double> number_or(std::string_view suffix, double fallback, double min, double max) const {
    return file_.get_f64_or(key(suffix), fallback, min, max);
  }
  Result<bool> flag_or(std::string_view suffix, bool fallback) const {
    return file_.get_bool_or(key(suffix), fallback);
  }
  Result<std::string_view> text_or(std::string_view suffix, std::string_view fallback) const {
    return file_.get_string_or(key(suffix), fallback);
  }

  // A number for all layers, or one per layer.
  Result<std::vector<int64_t>> per_layer(std::string_view suffix, std::vector<int64_t> fallback, int64_t n_layer,
                                         int64_t min, int64_t max) const {
    std::vector<int64_t> values = TRY(file_.get_ints_or(key(suffix), std::move(fallback)));
    const auto n = static_cast<size_t>(n_layer);
    if (values.size() == 1) values.resize(n, values[0]);
    if (values.size() > n && values.size() <= n + n_extra_) values.resize(n);  // of blocks behind the decoder
    if (values.size() != n)
      return Error{.code = ErrorCode::bad_metadata,
                   .what = fmt::format("{} values for {} layers", values.size(), n_layer),
                   .where = key(suffix)};
    for (int64_t value : values)
      if (value < min || value > max)
        return Error{.code = ErrorCode::bad_metadata,
                     .what = fmt::format("{} is outside {}..{}", value, min, max),
                     .where = key(suffix)};
    return values;
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
  size_t n_extra_;
};

}  // namespace tokamak::arch
