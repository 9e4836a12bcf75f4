#include "engine/model.h"

#include <fmt/format.h>

#include "arch/recipe.h"
#include "tokenizer/from_gguf.h"

namespace tokamak {

Model::Model(std::filesystem::path path, GgufFile file, arch::Hparams hparams,
             std::shared_ptr<const Tokenizer> tokenizer, std::string chat_template)
    : path_(std::move(path)),
      file_(std::move(file)),
      hparams_(std::move(hparams)),
      tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)) {}

Result<std::shared_ptr<const Model>> Model::open(const std::filesystem::path& path, const ModelOptions& options) {
  GgufFile file = TRY(GgufFile::open(path, {.progress = options.progress}));
  arch::Hparams hparams = TRY(arch::read_hparams(file));
  TRY(arch::build_graph(file, hparams, {}));
  auto tokenizer = std::make_shared<const Tokenizer>(TRY(load_tokenizer(file)));
  if (tokenizer->n_vocab() > hparams.n_vocab)
    return Error{.code = ErrorCode::bad_vocab,
                 .what = fmt::format("the tokenizer has {} tokens, the embedding only {}", tokenizer->n_vocab(),
                                     hparams.n_vocab),
                 .where = "tokenizer.ggml.tokens"};
  std::string chat_template(TRY(file.get_string_or("tokenizer.chat_template", "")));
  return std::shared_ptr<const Model>(std::make_shared<Model>(path, std::move(file), std::move(hparams),
                                                              std::move(tokenizer), std::move(chat_template)));
}

std::string Model::name() const {
  const auto name = file_.get_string_or("general.name", "");
  return name && !name->empty() ? std::string(*name) : path_.filename().string();
}

uint64_t Model::n_params() const {
  uint64_t n = 0;
  for (const GgufTensor& tensor : file_.tensors()) n += static_cast<uint64_t>(tensor.shape.n_elements());
  return n;
}

}  // namespace tokamak
