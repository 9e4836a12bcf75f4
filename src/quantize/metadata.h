// Metadata of the new file: the old one's, and what quantizing says about itself.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "quantize/plan.h"

namespace tokamak {

// Adds every entry to the writer except those of splitting:
//   general.file_type, general.quantization_version (not for COPY), quantize.imatrix.{file,dataset,entries_count,
//   chunks_count} (with an imatrix); {arch}.block_count and per-layer arrays when layers are pruned; then override_kv,
//   "KEY=TYPE:VALUE" with TYPE int (in the type of the entry it replaces, else u32 or i64), float (f32, or f64 where
//   it replaces one), bool or str.
// Errors: bad_argument naming a wrong --override-kv.
Result<void> add_metadata(GgufWriter& writer, const GgufFile& file, const QuantizeOptions& options,
                          const std::vector<std::string>& override_kv);

}  // namespace tokamak
