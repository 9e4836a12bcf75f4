// Any bytes as a file of saved logits: opening says yes or a reason; after a yes every row reads as finite numbers and
// a known token, or gives a reason.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "eval/logits_file.h"
#include "fuzz_target.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto file = LogitsFile::parse(std::as_bytes(std::span(data, n_bytes)), "fuzz");
  if (!file) {
    CHECK(!file.error().message().empty());
    return 0;
  }
  const LogitsHeader& header = file->header();
  const TextChunks& text = header.chunks;
  CHECK(text.n_chunks() > 0 && file->check_text(text).has_value());
  std::vector<float> logits(static_cast<size_t>(header.n_vocab));
  for (int64_t chunk_idx = 0; chunk_idx < text.n_chunks(); ++chunk_idx) {
    for (int64_t row_idx = 0; row_idx < n_scored(text.n_ctx); ++row_idx) {
      const auto row = file->read(chunk_idx, row_idx, logits);
      if (!row) continue;
      CHECK(std::isfinite(row->nll) && row->top >= 0 && row->top < header.n_vocab);
      CHECK(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
    }
    file->forget(chunk_idx);
  }
  return 0;
}
