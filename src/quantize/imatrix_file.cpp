#include "quantize/imatrix_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/mapped_file.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace tokamak {

namespace {
constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr std::string_view kTypeKey = "general.type", kType = "imatrix", kDatasetsKey = "imatrix.datasets",
                           kChunksKey = "imatrix.chunk_count", kChunkSizeKey = "imatrix.chunk_size";

Error bad_file(std::string_view where, std::string what) {
  return Error{.code = ErrorCode::bad_file,
               .what = std::move(what),
               .where = std::string(where),
               .hint = "make the importance matrix again"};
}

// A reading position in a .dat file that cannot leave it.
class DatReader {
 public:
  DatReader(std::span<const std::byte> bytes, std::string name) : left_(bytes), name_(std::move(name)) {}
  bool at_end() const { return left_.empty(); }

  Result<int32_t> count(std::string_view what) {
    int32_t value = 0;
    if (left_.size() < sizeof value) return truncated(what);
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    if (value < 0) return bad_file(name_, fmt::format("{} is {}: this is no importance matrix", what, value));
    return value;
  }
  Result<std::span<const std::byte>> bytes(uint64_t n, std::string_view what) {
    if (left_.size() < n) return truncated(what);
    const auto out = left_.first(n);
    left_ = left_.subspan(n);
    return out;
  }
  Result<std::string> text(std::string_view what) {
    const auto n = static_cast<uint64_t>(TRY(count(what)));
    const auto raw = TRY(bytes(n, what));
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }

 private:
  Error truncated(std::string_view what) const {
    return bad_file(name_, fmt::format("the file ends inside {}: it is damaged or no importance matrix", what));
  }
  std::span<const std::byte> left_;
  std::string name_;
};

Result<ImatrixEntry> read_dat_entry(DatReader& reader) {
  ImatrixEntry entry;
  entry.name = TRY(reader.text("the name of an entry"));
  const int32_t n_calls = TRY(reader.count("the number of calls"));
  entry.row_elems = TRY(reader.count("the number of values"));
  const auto raw = TRY(reader.bytes(static_cast<uint64_t>(entry.row_elems) * sizeof(float), "the values"));
  entry.sums.resize(raw.size() / sizeof(float));
  if (!raw.empty()) std::memcpy(entry.sums.data(), raw.data(), raw.size());
  entry.counts = {static_cast<float>(n_calls)};
  return entry;
}

Result<ImatrixFile> read_dat(std::span<const std::byte> bytes, const std::string& name) {
  ImatrixFile out{.counts_chunks = true};
  DatReader reader(bytes, name);
  const int32_t n_entries = TRY(reader.count("the number of entries"));
  if (n_entries == 0) return bad_file(name, "the importance matrix is empty");
  for (int32_t i = 0; i < n_entries; ++i) out.entries.push_back(TRY(read_dat_entry(reader)));
  if (reader.at_end()) return out;  // the oldest files end here
  out.n_chunks = static_cast<uint32_t>(TRY(reader.count("the number of chunks")));
  if (!reader.at_end()) out.datasets.push_back(TRY(reader.text("the data set's name")));
  return out;
}

Result<std::vector<float>> floats_of(const GgufTensor& tensor, std::string_view where) {
  if (tensor.type != DType::f32) return bad_file(where, fmt::format("tensor {} is not F32", tensor.name));
  std::vector<float> out(static_cast<size_t>(tensor.shape.n_elements()));
  std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

Result<ImatrixFile> read_gguf(const std::filesystem::path& path) {
  const GgufFile file = TRY(GgufFile::open(path));
  const std::string where = file.part_name(0);
  if (TRY(file.get_string_or(kTypeKey, "")) != kType)
    return Error{.code = ErrorCode::bad_file,
                 .what = "this GGUF file is no importance matrix (its general.type is not \"imatrix\")",
                 .where = where,
                 .hint = "`tokamak imatrix` makes one"};
  ImatrixFile out;
  for (const GgufTensor& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    ImatrixEntry entry{.name = sums.name.substr(0, sums.name.size() - kSums.size())};
    const GgufTensor* counts = file.find_tensor(entry.name + std::string(kCounts));
    if (!counts) return bad_file(where, fmt::format("{} has no {}{}", sums.name, entry.name, kCounts));
    entry.row_elems = sums.shape.row_elems();
    entry.sums = TRY(floats_of(sums, where));
    entry.counts = TRY(floats_of(*counts, where));
    out.entries.push_back(std::move(entry));
  }
  if (out.entries.empty()) return bad_file(where, "the importance matrix is empty");
  for (std::string_view dataset : TRY(file.get_strings_or(kDatasetsKey, {}))) out.datasets.emplace_back(dataset);
  out.n_chunks = static_cast<uint32_t>(TRY(file.get_u64_or(kChunksKey, 0, 0, UINT32_MAX)));
  out.chunk_size = static_cast<uint32_t>(TRY(file.get_u64_or(kChunkSizeKey, 0, 0, UINT32_MAX)));
  return out;
}

// Why the entry cannot be used, or "".
std::string problem_of(const ImatrixEntry& entry) {
  const auto is_bad = [](float x) { return !std::isfinite(x) || x < 0; };
  if (entry.name.empty()) return "an entry has no name";
  if (entry.row_elems <= 0 || entry.counts.empty() ||
      entry.sums.size() != static_cast<size_t>(entry.row_elems) * entry.counts.size())
    return fmt::format("{}: {} sums do not fit {} columns and {} counts", entry.name, entry.sums.size(),
                       entry.row_elems, entry.counts.size());
  if (const auto bad = std::ranges::find_if(entry.sums, is_bad); bad != entry.sums.end())
    return fmt::format("{}: the sum of column {} is {}", entry.name, (bad - entry.sums.begin()) % entry.row_elems,
                       *bad);
  if (const auto bad = std::ranges::find_if(entry.counts, is_bad); bad != entry.counts.end())
    return fmt::format("{}: a count is {}", entry.name, *bad);
  return "";
}
}  // namespace

const ImatrixEntry* ImatrixFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries, name, {}, &ImatrixEntry::name);
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

Result<void> ImatrixFile::finish() {
  for (const ImatrixEntry& entry : entries)
    if (std::string problem = problem_of(entry); !problem.empty()) return bad_file(path, std::move(problem));
  std::ranges::stable_sort(entries, {}, &ImatrixEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &ImatrixEntry::name);
  if (twice != entries.end()) return bad_file(path, fmt::format("{} appears twice", twice->name));
  return {};
}

Result<ImatrixFile> read_imatrix(const std::filesystem::path& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  const auto bytes = file.bytes();
  const bool is_gguf = bytes.size() >= kGgufMagic.size() && std::memcmp(bytes.data(), kGgufMagic.data(), 4) == 0;
  ImatrixFile out = is_gguf ? TRY(read_gguf(path)) : TRY(read_dat(bytes, path.string()));
  out.path = path.string();
  TRY(out.finish());
  return out;
}

Result<void> write_imatrix(const ImatrixFile& imatrix, const std::filesystem::path& path) {
  ImatrixFile sorted = imatrix;
  TRY(sorted.finish());
  GgufWriter writer;
  writer.add(kTypeKey, kType);
  writer.add_array(kDatasetsKey, std::span<const std::string>(sorted.datasets));
  writer.add(kChunksKey, sorted.n_chunks);
  writer.add(kChunkSizeKey, sorted.chunk_size);
  for (const ImatrixEntry& entry : sorted.entries) {
    const auto n_mat = static_cast<int64_t>(entry.counts.size());
    writer.add_tensor(entry.name + std::string(kSums), DType::f32, Shape{n_mat, entry.row_elems},
                      std::as_bytes(std::span(entry.sums)));
    writer.add_tensor(entry.name + std::string(kCounts), DType::f32, Shape{n_mat, 1},
                      std::as_bytes(std::span(entry.counts)));
  }
  return writer.write(path);
}

Result<std::vector<float>> imatrix_means(const ImatrixFile& imatrix, const ImatrixEntry& entry, int64_t n_mat,
                                         int64_t row_elems) {
  const auto n_values = static_cast<int64_t>(entry.sums.size());
  const auto n_counts = static_cast<int64_t>(entry.counts.size());
  const bool is_shared = n_values == row_elems;  // one set of columns for all matrices
  if (!is_shared && n_values != n_mat * row_elems)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("the importance matrix has {} values for tensor {}, which needs {} x {}", n_values,
                                     entry.name, n_mat, row_elems),
                 .where = imatrix.path,
                 .hint = "use the importance matrix of this model"};
  std::vector<float> means(static_cast<size_t>(n_mat * row_elems));
  for (int64_t m = 0; m < n_mat; ++m) {
    const float count = entry.counts[static_cast<size_t>(n_counts == n_mat ? m : 0)];
    const float* sums = entry.sums.data() + (is_shared ? 0 : m * row_elems);
    float* out = means.data() + m * row_elems;
    for (int64_t i = 0; i < row_elems; ++i) out[i] = count > 0 ? sums[i] / count : 1.0f;
  }
  return means;
}

}  // namespace tokamak
