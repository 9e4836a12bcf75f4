// Importance matrices: for each weight matrix, the sum over calibration tokens of the squared activation per column.
// Two files hold them: GGUF (general.type "imatrix", tensors NAME.in_sum2 and NAME.counts), and the older .dat (i32
// n_entries; per entry i32 n_bytes, name, i32 n_calls, i32 n_values, f32 values[n_values], each a mean times n_calls;
// then optionally i32 n_chunks, i32 n_bytes, data set name; little-endian). Source: both layouts were
// read off files that llama-imatrix wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tokamak {

struct ImatrixEntry {
  std::string name;           // of the tensor: "blk.0.attn_q.weight"
  int64_t row_elems = 0;      // columns of one matrix
  std::vector<float> sums;    // [n_mat, row_elems], finite, >= 0; n_mat is 1, or the number of experts
  std::vector<float> counts;  // [n_mat], finite, >= 0: activations behind each matrix; the mean is sums / counts
};

struct ImatrixFile {
  std::vector<ImatrixEntry> entries;  // sorted by name, each name once
  std::vector<std::string> datasets;
  uint32_t n_chunks = 0, chunk_size = 0;  // 0: not known
  bool counts_chunks = false;             // .dat: sums and counts are per chunk, not per token
  std::string path;                       // as given; written into the metadata of what it is used for

  const ImatrixEntry* find(std::string_view name) const;
  // Sorts the entries by name. Errors: bad_file when a name appears twice or an entry breaks what is said above.
  Result<void> finish();
};

// Either form, told apart by the first bytes. Errors: those of MappedFile::open and GgufFile::open; bad_file (damaged,
// an entry without its counts, values that are negative or not finite), naming the entry.
Result<ImatrixFile> read_imatrix(const std::filesystem::path& path);

// The GGUF form, whole or not at all. Errors: those of finish() and GgufWriter::write.
Result<void> write_imatrix(const ImatrixFile& imatrix, const std::filesystem::path& path);

// means[n_mat * row_elems]: the importance of each column for each of the tensor's matrices; a matrix without any count
// gets ones. Errors: bad_argument, naming the imatrix and the tensor, when the entry has another number of columns.
Result<std::vector<float>> imatrix_means(const ImatrixFile& imatrix, const ImatrixEntry& entry, int64_t n_mat,
                                         int64_t row_elems);

}  // namespace tokamak
