// Importance matrices from a running model: for each weight matrix, per column, the sum over tokens of the squared
// input.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/session.h"
#include "eval/text_chunks.h"
#include "quantize/imatrix_file.h"

namespace tokamak {

// Chunk size of a .dat file, which does not say it: see ImatrixFile::counts_chunks.
inline constexpr uint32_t kDatChunkSize = 512;

// Whether every entry is of a tensor of this model. Errors: bad_argument, naming file and tensor.
Result<void> check_same_model(const ImatrixFile& imatrix, const GgufFile& model);

// Sums in f64, in the order of the tokens: equal for any batch and thread count. One thread at a time.
class ImatrixCollector {
 public:
  // with_output: also the output matrix, or the token embedding where that is the output matrix.
  explicit ImatrixCollector(bool with_output) : with_output_(with_output) {}
  ImatrixCollector(const ImatrixCollector&) = delete;
  ImatrixCollector& operator=(const ImatrixCollector&) = delete;

  // For CompileOptions::matmul_observer; refers to this collector. What was merged before is of the observed model.
  MatmulObserver observer();
  // Adds what an earlier run or another text gave. Errors: bad_argument, naming file and tensor, when a tensor has
  // other columns than here.
  Result<void> merge(const ImatrixFile& earlier);
  void count_chunks(uint32_t n) { n_chunks_ += n; }
  void add_dataset(const std::string& name);
  bool empty() const { return entries_.empty(); }

  // Errors: bad_tensor when a sum is not finite, naming the tensor.
  Result<ImatrixFile> result(uint32_t chunk_size) const;

 private:
  struct Entry {
    int64_t row_elems = 0;
    std::vector<double> sums;    // [n_mat, row_elems]
    std::vector<double> counts;  // [n_mat]
  };
  void observe(const MatmulInput& input);

  const bool with_output_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> datasets_;
  uint32_t n_chunks_ = 0;
};

struct CollectOptions {
  int64_t first_chunk = 0;  // those before it are left out
  // After every chunk; false: stop.
  std::function<Result<bool>(int64_t n_done, int64_t n_chunks)> after_chunk;
};

// Runs the chunks, each as a sequence of its own, through a session whose observer is the collector's. Returns how many
// chunks were run: fewer than there are when after_chunk asked to stop. Errors: those of Session::forward and
// after_chunk.
Result<int64_t> collect_imatrix(Session& session, const TextChunks& text, ImatrixCollector& collector,
                                const CollectOptions& options);

}  // namespace tokamak
