#include "quantize/parts.h"

#include <fmt/format.h>

#include "base/output_file.h"
#include "gguf/split.h"

namespace tokamak {

namespace {
constexpr std::string_view kExtension = ".gguf";
constexpr size_t kPieceBytes = 16 << 20;

bool is_split_key(std::string_view key) {
  return key == kSplitNoKey || key == kSplitCountKey || key == kSplitTensorsKey;
}

// Copies a tensor in pieces, counts them, and lets go of the pages.
class Copier {
 public:
  Copier(const GgufFile& file, const PartsProgress& progress) : file_(file), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) n_total_ += tensor.n_bytes;
  }
  GgufWriter::Source source(const GgufTensor& tensor) {
    return [this, &tensor](const GgufWriter::Sink& sink) { return copy(tensor, sink); };
  }

 private:
  Result<void> copy(const GgufTensor& tensor, const GgufWriter::Sink& sink) {
    for (size_t begin = 0; begin < tensor.data.size(); begin += kPieceBytes) {
      const auto piece = tensor.data.subspan(begin, std::min(kPieceBytes, tensor.data.size() - begin));
      TRY(sink(piece));
      n_done_ += piece.size();
      if (progress_ && !progress_(static_cast<double>(n_done_) / static_cast<double>(n_total_)))
        return Error{.code = ErrorCode::cancelled, .what = "cancelled; nothing was written"};
    }
    file_.forget(tensor);
    return {};
  }

  const GgufFile& file_;
  const PartsProgress& progress_;
  uint64_t n_total_ = 0, n_done_ = 0;
};

void add_metadata_but_split(GgufWriter& writer, const GgufFile& file) {
  for (const GgufValue& value : file.values())
    if (!is_split_key(value.key())) writer.add(value);
}
}  // namespace

Result<void> write_together(const std::vector<PartFile>& parts) {
  std::vector<OutputFile> files;
  for (const PartFile& part : parts) {
    OutputFile& file = files.emplace_back(TRY(OutputFile::create(part.path)));
    TRY(part.writer.write_to([&file](std::span<const std::byte> bytes) { return file.write(bytes); }));
    TRY(file.finish());
  }
  for (OutputFile& file : files) TRY(file.commit());
  return {};
}

void add_split_keys(GgufWriter& writer, size_t part_idx, size_t n_parts, size_t n_tensors) {
  writer.add(kSplitNoKey, static_cast<uint16_t>(part_idx));
  writer.add(kSplitCountKey, static_cast<uint16_t>(n_parts));
  writer.add(kSplitTensorsKey, static_cast<int32_t>(n_tensors));
}

std::string part_prefix(const std::filesystem::path& path) {
  std::string text = path.string();
  if (text.ends_with(kExtension)) text.resize(text.size() - kExtension.size());
  return text;
}

std::vector<std::vector<size_t>> divide(std::span<const GgufTensor> tensors, const SplitLimits& limits) {
  std::vector<std::vector<size_t>> parts(1);
  if (limits.no_tensor_first) parts.emplace_back();
  uint64_t n_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_full = (limits.max_tensors > 0 && parts.back().size() >= limits.max_tensors) ||
                         (limits.max_bytes > 0 && n_bytes + tensors[i].n_bytes > limits.max_bytes);
    if (is_full && !parts.back().empty()) {
      parts.emplace_back();
      n_bytes = 0;
    }
    parts.back().push_back(i);
    n_bytes += tensors[i].n_bytes;
  }
  return parts;
}

Result<void> split_model(const GgufFile& file, const std::vector<std::vector<size_t>>& parts,
                         const std::string& out_prefix, const PartsProgress& progress) {
  if (parts.size() > kMaxSplitParts)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("this makes {} parts, possible are {}", parts.size(), kMaxSplitParts),
                 .where = file.part_name(0),
                 .hint = "allow larger parts"};
  Copier copier(file, progress);
  std::vector<PartFile> files(parts.size());
  const auto n_parts = static_cast<uint32_t>(parts.size());
  for (uint32_t p = 0; p < n_parts; ++p) {
    files[p].path = split_part_path(out_prefix, p, n_parts);
    if (p == 0) add_metadata_but_split(files[p].writer, file);
    if (p > 0 && file.has(kAlignmentKey)) files[p].writer.add(*file.find(kAlignmentKey));
    add_split_keys(files[p].writer, p, n_parts, file.tensors().size());
    for (size_t i : parts[p]) {
      const GgufTensor& tensor = file.tensors()[i];
      files[p].writer.add_tensor(tensor.name, tensor.type, tensor.shape, copier.source(tensor));
    }
  }
  return write_together(files);
}

Result<void> merge_model(const GgufFile& file, const std::filesystem::path& out, const PartsProgress& progress) {
  Copier copier(file, progress);
  std::vector<PartFile> files(1);
  files[0].path = out;
  add_metadata_but_split(files[0].writer, file);
  for (const GgufTensor& tensor : file.tensors())
    files[0].writer.add_tensor(tensor.name, tensor.type, tensor.shape, copier.source(tensor));
  return write_together(files);
}

Result<void> check_not_same_file(const std::filesystem::path& in, const GgufFile& file,
                                 const std::filesystem::path& out) {
  const auto n_parts = static_cast<uint32_t>(file.n_parts());
  std::vector<std::filesystem::path> inputs = {in};
  for (uint32_t p = 0; n_parts > 1 && p < n_parts; ++p)
    if (const auto prefix = split_prefix(in, SplitKeys{.part_idx = p, .n_parts = n_parts}, ""))
      for (uint32_t other = 0; other < n_parts; ++other) inputs.push_back(split_part_path(*prefix, other, n_parts));
  for (const std::filesystem::path& input : inputs) {
    std::error_code is_missing;
    if (std::filesystem::equivalent(input, out, is_missing))
      return Error{.code = ErrorCode::bad_argument,
                   .what = "the output is the input file",
                   .where = out.string(),
                   .hint = "name another output"};
  }
  return {};
}

}  // namespace tokamak
