#include "quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "gguf/split.h"
#include "quantize/encode_tensor.h"
#include "quantize/metadata.h"
#include "quantize/parts.h"

namespace tokamak {

namespace {
// Largest value of an NVFP4 tensor at scale 1: the largest E2M1 code times the largest E4M3 block scale.
constexpr float kNvfp4Largest = 6.0f * 448.0f;

class Runner {
 public:
  Runner(const GgufFile& file, const Plan& plan, const QuantizeOptions& options, const QuantizeRun& run,
         ThreadPool& pool)
      : file_(file), plan_(plan), options_(options), run_(run), encoder_(pool), scales_(plan.tensors.size()) {
    for (const PlannedTensor& planned : plan.tensors) n_total_ += source_of(planned).shape.n_elements();
  }

  Result<void> write() {
    const std::vector<std::filesystem::path> paths = output_paths(file_, run_);
    const size_t n_parts = paths.size();
    std::vector<PartFile> parts(n_parts);
    TRY(add_metadata(parts[0].writer, file_, options_, run_.override_kv));
    size_t n_tensors = 0;
    for (size_t i = 0; i < plan_.tensors.size(); ++i)
      n_tensors += add_tensor(parts[n_parts == 1 ? 0 : source_of(plan_.tensors[i]).part].writer, i);
    for (size_t p = 0; p < n_parts; ++p) {
      parts[p].path = paths[p];
      if (n_parts == 1) continue;
      add_split_keys(parts[p].writer, p, n_parts, n_tensors);
      if (p > 0 && file_.has(kAlignmentKey)) parts[p].writer.add(*file_.find(kAlignmentKey));
    }
    return write_together(parts);
  }

 private:
  const GgufTensor& source_of(const PlannedTensor& planned) const { return file_.tensors()[planned.source]; }

  // Number of tensors added: two with a scale.
  size_t add_tensor(GgufWriter& writer, size_t i) {
    const PlannedTensor& planned = plan_.tensors[i];
    const GgufTensor& source = source_of(planned);
    writer.add_tensor(planned.name, planned.type, source.shape,
                      [this, i](const GgufWriter::Sink& sink) { return stream(i, sink); });
    if (planned.scale_name.empty()) return 1;
    writer.add_tensor(planned.scale_name, DType::f32, Shape{n_matrices(source.shape)},
                      [this, i](const GgufWriter::Sink& sink) { return sink(std::as_bytes(std::span(scales_[i]))); });
    return 2;
  }

  Result<void> stream(size_t i, const GgufWriter::Sink& sink) {
    const PlannedTensor& planned = plan_.tensors[i];
    const GgufTensor& source = source_of(planned);
    const auto progress = [this](int64_t n_elems) { return advance(n_elems); };
    if (planned.type == source.type) {
      TRY(encoder_.copy(source, sink, progress));
    } else {
      std::vector<float> importance, factors = TRY(weight_scales(file_, source));
      if (planned.importance)
        importance = TRY(
            imatrix_means(*options_.imatrix, *planned.importance, n_matrices(source.shape), source.shape.row_elems()));
      if (!planned.scale_name.empty()) TRY(choose_scales(i, factors));
      TRY(encoder_.encode({&source, planned.type, importance, factors}, sink, progress));
    }
    file_.forget(source);
    return {};
  }

  // Per matrix the scale that puts its largest value at the top of NVFP4's range; factors takes the inverse in.
  Result<void> choose_scales(size_t i, std::vector<float>& factors) {
    const GgufTensor& source = source_of(plan_.tensors[i]);
    std::vector<float>& scales = scales_[i];
    scales = TRY(encoder_.largest(source, [this](int64_t n_elems) { return advance(n_elems); }));
    if (factors.empty()) factors.assign(scales.size(), 1.0f);
    for (size_t m = 0; m < scales.size(); ++m) {
      const float largest = scales[m] * std::abs(factors[m]);
      scales[m] = largest > 0 ? largest / kNvfp4Largest : 1.0f;
      factors[m] /= scales[m];
    }
    return {};
  }

  bool advance(int64_t n_elems) {
    n_done_ += n_elems;
    return !run_.progress ||
           run_.progress(static_cast<double>(n_done_) / static_cast<double>(std::max<int64_t>(1, n_total_)));
  }

  const GgufFile& file_;
  const Plan& plan_;
  const QuantizeOptions& options_;
  const QuantizeRun& run_;
  TensorEncoder encoder_;
  std::vector<std::vector<float>> scales_;  // by planned tensor; filled when its weights are written
  int64_t n_total_ = 0, n_done_ = 0;
};
}  // namespace

std::vector<std::filesystem::path> output_paths(const GgufFile& file, const QuantizeRun& run) {
  if (!run.keep_split || file.n_parts() == 1) return {run.out};
  const auto n_parts = static_cast<uint32_t>(file.n_parts());
  std::vector<std::filesystem::path> paths;
  for (uint32_t p = 0; p < n_parts; ++p) paths.push_back(split_part_path(part_prefix(run.out), p, n_parts));
  return paths;
}

Result<void> quantize(const GgufFile& file, const Plan& plan, const QuantizeOptions& options, const QuantizeRun& run) {
  const auto pool = TRY(ThreadPool::create(run.n_threads));
  return Runner(file, plan, options, run, *pool).write();
}

}  // namespace tokamak
