// A Hugging Face checkpoint folder in, one GGUF file out.
//
//   auto conversion = TRY(Conversion::plan("SmolLM2-135M", {}));
//   TRY(conversion->write("smollm2.gguf"));
//
// Goals: every value exact or rounded once; nothing of the checkpoint dropped silently; nothing half written.
// Non-goals: running remote code, pickled weights, quantizing below 8 bits (quantize/).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/model_config.h"
#include "convert/tensor_plan.h"
#include "convert/tokenizer_files.h"
#include "safetensors/checkpoint.h"

namespace tokamak::convert {

inline constexpr const char* kTemplateFolder = "additional_chat_templates";  // of a checkpoint, *.jinja

struct ConvertOptions {
  std::string out_type = "auto";  // auto, f32, f16, bf16, q8_0
  std::string name;               // general.name; empty: the folder's name
  std::string pre;                // tokenizer.ggml.pre; empty: found out
  bool no_tokenizer = false;      // ids only; tokenizer files are not read
};

class Conversion {
 public:
  // Reads and checks everything but the weights' values.
  // Errors: those of Checkpoint::open, read_model_config, plan_tensors and read_tokenizer; not_found without
  // config.json; unsupported for a quantization method that is not read.
  static Result<std::unique_ptr<Conversion>> plan(const std::filesystem::path& folder, const ConvertOptions& options);

  const TensorPlan& tensors() const { return tensors_; }
  const ModelConfig& model() const { return model_; }
  const TokenizerTables& tokenizer() const { return tokenizer_; }
  const std::string& name() const { return name_; }
  std::vector<std::string> notes() const;  // what the user should know
  uint64_t n_bytes() const;                // of all tensors in the GGUF

  // progress: 0 to 1; returning false stops with `cancelled`.
  // Errors: bad_tensor (NaN weights, ...), those of OutputFile; bad_argument when `out` is a file of the folder
  // that is no .gguf.
  Result<void> write(const std::filesystem::path& out, const std::function<bool(double)>& progress = {}) const;

  explicit Conversion(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}  // for plan()
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

 private:
  uint32_t file_type() const;
  Result<void> check_output(const std::filesystem::path& out) const;

  std::filesystem::path folder_;
  Checkpoint checkpoint_;
  ModelConfig model_;
  TensorPlan tensors_;
  TokenizerTables tokenizer_;
  std::string name_;
};

// Whether `path` is a folder with a config.json.
bool is_checkpoint_folder(const std::filesystem::path& path);

}  // namespace tokamak::convert
