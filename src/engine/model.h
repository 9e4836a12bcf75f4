// A model as it lies on disk: file, constants, tokenizer, chat template. Immutable; shared by any number of sessions.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "arch/hparams.h"
#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

namespace tokamak {

struct ModelOptions {
  std::function<void(double fraction)> progress;  // of reading the file
};

class Model {
 public:
  // Opens and checks a GGUF file (or any part of a split one) and builds a one-token graph, so that a missing or
  // misshapen tensor is found here. Reads no weights.
  static Result<std::shared_ptr<const Model>> open(const std::filesystem::path& path, const ModelOptions& options = {});

  const GgufFile& file() const { return file_; }
  const arch::Hparams& hparams() const { return hparams_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::shared_ptr<const Tokenizer> shared_tokenizer() const { return tokenizer_; }
  // tokenizer.chat_template of the file; empty when it has none.
  const std::string& chat_template() const { return chat_template_; }
  const std::filesystem::path& path() const { return path_; }
  // general.name, or the file's name.
  std::string name() const;
  uint64_t n_params() const;

  Model(std::filesystem::path path, GgufFile file, arch::Hparams hparams, std::shared_ptr<const Tokenizer> tokenizer,
        std::string chat_template);

 private:
  std::filesystem::path path_;
  GgufFile file_;
  arch::Hparams hparams_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string chat_template_;
};

}  // namespace tokamak
