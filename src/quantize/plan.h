// What quantizing will do to each tensor, decided before anything is written: `--dry-run` prints it, quantize() runs
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "quantize/file_types.h"
#include "quantize/imatrix_file.h"
#include "quantize/mix.h"

namespace tokamak {

struct QuantizeOptions {
  std::optional<FileType> file_type;  // nothing: COPY, every tensor stays as it is
  bool pure = false;                  // every quantizable tensor gets the file type's own type: no mix
  bool leave_output = false;
  bool allow_requantize = false;  // take sources that are quantized already
  std::optional<DType> output_type, embedding_type;
  std::vector<std::string> tensor_types;      // "REGEX=TYPE": the first whose regex is found in a name decides
  const ImatrixFile* imatrix = nullptr;       // must outlive plan and run
  std::vector<std::string> include, exclude;  // parts of names: use the imatrix for these only; not for these
  std::vector<int64_t> prune_layers;          // left out; later layers move down
  double target_bpw = 0;                      // > 0: see target_bpw.h
};

struct PlannedTensor {
  size_t source = 0;  // index into the file's tensors
  std::string name;   // in the new file: differs when layers are pruned
  DType type = DType::f32;
  bool is_fallback = false;     // the wanted type does not fit the row length
  bool is_quantizable = false;  // may be given another type
  bool is_fixed = false;        // a flag names its type
  double error = 0;             // measured, with --target-bpw: see target_bpw.h
  const ImatrixEntry* importance = nullptr;
  // NVFP4: the name of the tensor's scale, written behind it; "" without one.
  std::string scale_name;

  uint64_t n_bytes(const GgufTensor& from) const {
    return dtype_bytes(type, static_cast<uint64_t>(from.shape.n_elements()));
  }
};

struct Plan {
  std::vector<PlannedTensor> tensors;           // in file order
  std::vector<std::string> without_importance;  // quantized, and the imatrix in use does not know them

  uint64_t n_bytes(std::span<const GgufTensor> from) const;
  uint64_t n_elements(std::span<const GgufTensor> from) const;
};

// What the rules need, from the keys of the file: {arch}.block_count and so on; a missing key counts as 0.
Result<MixModel> read_mix_model(const GgufFile& file);

// With target_bpw the types are not final: choose_types must follow. Errors: bad_argument (a bad --tensor-type or
// --prune-layers, rows that no type fits), naming flag or tensor.
Result<Plan> make_plan(std::span<const GgufTensor> tensors, const MixModel& model, const QuantizeOptions& options);

// Whether the plan can be carried out. Errors, naming the tensor: bad_argument (a type that needs an imatrix without
// one), unsupported (a source that is quantized already, without allow_requantize; a type without encoder).
Result<void> check_plan(std::span<const GgufTensor> tensors, const Plan& plan, const QuantizeOptions& options);

// The imatrix's entry for a tensor, if it is to be used: see QuantizeOptions::include and exclude.
const ImatrixEntry* importance_of(std::string_view name, const QuantizeOptions& options);

// Takes out the scales beside weights that get a new type: they are multiplied into the weight. Call it once types are
// final.
void drop_replaced_scales(std::span<const GgufTensor> tensors, Plan& plan);

// The scale beside a weight: "blk.0.attn_q.weight" -> "blk.0.attn_q.scale".
std::string scale_name_of(std::string_view weight_name);

}  // namespace tokamak
