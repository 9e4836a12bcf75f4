// A GGUF model file, or all parts of a split one: validated metadata and tensor directory over read-only mappings.
// Goal: whoever holds a GgufFile may trust every number in it. Non-goals: the meaning of keys, the weights' values.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "gguf/validate.h"
#include "gguf/value.h"

namespace tokamak {

struct GgufOpenOptions {
  std::function<void(double fraction)> progress;  // called on the opening thread, 0 to 1, after each part
  bool find_split_parts = true;                   // false: read just this file, even if it is one part of several
};

// Views (keys, strings, values, tensors) live as long as the GgufFile; moving it keeps them valid.
// Thread-safe after opening: immutable.
class GgufFile {
 public:
  using OpenOptions = GgufOpenOptions;

  // Opens any part of a split model (NAME-00001-of-00003.gguf) and finds the others beside it.
  // Errors: those of MappedFile::open and validate_gguf; not_found naming the first missing part; bad_metadata when the
  // split keys of the parts disagree; bad_tensor when two parts hold the same tensor.
  static Result<GgufFile> open(const std::filesystem::path& path, const OpenOptions& options = {});
  // One part in memory, which must outlive the result. Split keys are not followed.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name = "memory");

  // Metadata, in file order. Of a split model: the first part's.
  std::span<const GgufValue> values() const { return values_; }
  const GgufValue* find(std::string_view key) const;  // null: no such key
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Required keys: bad_metadata when missing, of a wrong type, or out of range. Accepted types: see GgufValue.
  Result<uint64_t> get_u64(std::string_view key, uint64_t min = 0,
                           uint64_t max = std::numeric_limits<uint64_t>::max()) const;
  Result<int64_t> get_i64(std::string_view key, int64_t min = std::numeric_limits<int64_t>::min(),
                          int64_t max = std::numeric_limits<int64_t>::max()) const;
  Result<double> get_f64(std::string_view key, double min = std::numeric_limits<double>::lowest(),
                         double max = std::numeric_limits<double>::max()) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<float>> get_floats(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;

  // Optional keys: the fallback when missing; a wrong type or range still fails.
  Result<uint64_t> get_u64_or(std::string_view key, uint64_t fallback, uint64_t min = 0,
                              uint64_t max = std::numeric_limits<uint64_t>::max()) const;
  Result<int64_t> get_i64_or(std::string_view key, int64_t fallback, int64_t min = std::numeric_limits<int64_t>::min(),
                             int64_t max = std::numeric_limits<int64_t>::max()) const;
  Result<double> get_f64_or(std::string_view key, double fallback, double min = std::numeric_limits<double>::lowest(),
                            double max = std::numeric_limits<double>::max()) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  Result<std::vector<int64_t>> get_ints_or(std::string_view key, std::vector<int64_t> fallback) const;
  Result<std::vector<float>> get_floats_or(std::string_view key, std::vector<float> fallback) const;
  Result<std::vector<std::string_view>> get_strings_or(std::string_view key,
                                                       std::vector<std::string_view> fallback) const;

  Result<std::string_view> architecture() const { return get_string("general.architecture"); }

  // All parts' tensors, part by part in file order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;  // null: no such tensor

  uint32_t version() const { return parts_.front().version; }
  uint64_t alignment() const { return parts_.front().alignment; }  // bytes, of the first part
  size_t n_parts() const { return parts_.size(); }
  const std::string& part_name(size_t part) const { return *parts_[part].name; }
  uint64_t part_n_bytes(size_t part) const { return parts_[part].n_bytes; }
  uint64_t n_bytes() const;  // of all part files

  // The tensor's pages may leave memory (after repacking); reading them again reads the file.
  void forget(const GgufTensor& tensor) const;

 private:
  struct Part {
    MappedFile file;  // empty for parse()
    std::shared_ptr<const std::string> name;
    uint64_t n_bytes = 0;
    uint32_t version = 0;
    uint64_t alignment = 0;
  };

  GgufFile() = default;
  void add_part(MappedFile file, uint64_t n_bytes, GgufPart part);
  Result<void> index_names();
  Error missing(std::string_view key) const;
  // convert(value) when the key exists, else the fallback or (none) an error.
  template <class T, class Convert>
  Result<T> get(std::string_view key, T* fallback, Convert convert) const;

  std::vector<Part> parts_;
  std::vector<GgufValue> values_;
  std::vector<uint32_t> values_by_key_;  // indices, sorted
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> tensors_by_name_;
};

}  // namespace tokamak
