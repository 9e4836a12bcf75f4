#include "convert/convert.h"
#include "quantize/file_types.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

namespace tokamak::convert {

namespace {
namespace fs = std::filesystem;

// Values of quantization_config.quant_method whose layouts weight.cpp reads.
constexpr auto kQuantMethods = std::to_array<std::string_view>({"modelopt", "compressed-tensors", "mxfp4", "fp8"});

Result<void> check_quantization(const Json& config, const std::string& where) {
  if (!config.is_object() || !config.contains("quantization_config")) return {};
  const ConfigReader quantization = TRY(ConfigReader(config, where).section("quantization_config"));
  const auto method = TRY(quantization.text("quant_method"));
  if (!method || std::ranges::find(kQuantMethods, *method) != kQuantMethods.end()) return {};
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("checkpoints quantized by '{}' are not supported", *method),
               .where = quantization.where("quant_method"),
               .hint = fmt::format("supported: {}; or get the unquantized checkpoint", fmt::join(kQuantMethods, ", "))};
}

std::string folder_name(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  const std::string name =
      whole.filename().empty() ? whole.parent_path().filename().string() : whole.filename().string();
  return name.empty() ? "model" : name;
}

}  // namespace

bool is_checkpoint_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && fs::exists(path / "config.json", ignored);
}

Result<std::unique_ptr<Conversion>> Conversion::plan(const fs::path& folder, const ConvertOptions& options) {
  std::error_code ignored;
  if (!is_checkpoint_folder(folder)) {
    const bool exists = fs::exists(folder, ignored), is_folder = fs::is_directory(folder, ignored);
    return Error{.code = exists && !is_folder ? ErrorCode::bad_argument : ErrorCode::not_found,
                 .what = !exists     ? "no such folder"
                         : is_folder ? "the folder has no config.json"
                                     : "is not a folder",
                 .where = folder.string(),
                 .hint = "name the folder of a Hugging Face checkpoint"};
  }
  const std::string config_path = (folder / "config.json").string();
  const Json config = TRY(read_json_file(config_path));
  ModelConfig model = TRY(read_model_config(config, config_path));
  TRY(check_quantization(config, config_path));
  auto conversion = std::make_unique<Conversion>(TRY(Checkpoint::open(folder)));
  conversion->folder_ = folder;
  conversion->model_ = std::move(model);
  conversion->tensors_ = TRY(plan_tensors(conversion->checkpoint_, conversion->model_, options.out_type));
  const TokenizerRequest request{
      .family = conversion->model_.family, .n_vocab = conversion->model_.n_vocab, .forced_pre = options.pre};
  conversion->tokenizer_ =
      options.no_tokenizer ? without_tokenizer(request.n_vocab) : TRY(read_tokenizer(folder, config, request));
  conversion->name_ = options.name.empty() ? folder_name(folder) : options.name;
  return conversion;
}

std::vector<std::string> Conversion::notes() const {
  std::vector<std::string> notes = tokenizer_.notes;
  if (!tensors_.left_out.empty())
    notes.push_back(fmt::format("{} tensors that this engine has no use for are left out, the first is {}",
                                tensors_.left_out.size(), tensors_.left_out.front()));
  return notes;
}

uint64_t Conversion::n_bytes() const {
  uint64_t n = 0;
  for (const PlannedTensor& tensor : tensors_.tensors) n += tensor.n_bytes();
  return n;
}

uint32_t Conversion::file_type() const {
  std::map<DType, uint64_t> n_bytes;
  for (const PlannedTensor& tensor : tensors_.tensors)
    if (tensor.shape.rank() > 1) n_bytes[tensor.type] += tensor.n_bytes();
  const auto most = std::ranges::max_element(n_bytes, {}, [](const auto& entry) { return entry.second; });
  return file_type_id(most == n_bytes.end() ? FileType::f32 : file_type_of(most->first));
}

Result<void> Conversion::check_output(const fs::path& out) const {
  std::error_code ignored;
  std::vector<fs::path> files(checkpoint_.files().begin(), checkpoint_.files().end());
  for (const fs::path& folder : {folder_, folder_ / kTemplateFolder})
    for (fs::directory_iterator at(folder, ignored); at != fs::directory_iterator(); at.increment(ignored))
      if (at->path().extension() != ".gguf") files.push_back(at->path());
  for (const fs::path& file : files)
    if (fs::equivalent(file, out, ignored))
      return Error{.code = ErrorCode::bad_argument,
                   .what = "is a file of the checkpoint itself",
                   .where = out.string(),
                   .hint = "name another output file"};
  return {};
}

Result<void> Conversion::write(const fs::path& out, const std::function<bool(double)>& progress) const {
  TRY(check_output(out));
  GgufWriter writer;
  writer.add("general.architecture", model_.family->architecture);
  writer.add("general.type", "model");
  writer.add("general.name", name_);
  writer.add("general.file_type", file_type());
  writer.add("general.quantization_version", kQuantizationVersion);
  for (const MetadataKey& key : model_.keys) add_key(writer, key);
  add_tokenizer_keys(writer, tokenizer_);
  // Progress goes by bytes: a check before each few MB, the fraction of the tensors before.
  const auto total = static_cast<double>(std::max<uint64_t>(n_bytes(), 1));
  uint64_t n_before = 0;
  for (const PlannedTensor& tensor : tensors_.tensors) {
    const double fraction = static_cast<double>(n_before) / total;
    n_before += tensor.n_bytes();
    KeepGoing keep_going;
    if (progress) keep_going = [&progress, fraction] { return progress(fraction); };
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, tensor_source(tensor, std::move(keep_going)));
  }
  return writer.write(out);
}

}  // namespace tokamak::convert
