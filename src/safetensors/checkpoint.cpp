#include "safetensors/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "safetensors/json_text.h"

namespace tokamak {

namespace {
namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors", kIndexFile = "model.safetensors.index.json";
constexpr size_t kMaxShards = 100'000;

// Shard names by tensor name.
using WeightMap = std::map<std::string, std::string>;

// A shard lies in the folder itself: an index must not reach other files.
bool is_plain_file_name(const std::string& name) {
  return name.ends_with(".safetensors") && name.find('/') == name.npos && name.find('\0') == name.npos;
}

Result<WeightMap> read_index(const fs::path& path) {
  const Json json = TRY(read_json_file(path));
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    return Error{.code = ErrorCode::bad_file, .what = "the index has no weight_map", .where = path.string()};
  WeightMap shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>()))
      return Error{.code = ErrorCode::bad_file,
                   .what = "the index does not name a .safetensors file of this folder for it",
                   .where = fmt::format("{}: tensor '{}'", path.string(), tensor)};
    shards.emplace(tensor, shard.get<std::string>());
  }
  return shards;
}

Error no_weights(const fs::path& folder) {
  std::error_code ignored;
  const bool has_pickle =
      fs::exists(folder / "pytorch_model.bin", ignored) || fs::exists(folder / "pytorch_model.bin.index.json", ignored);
  return {.code = ErrorCode::not_found,
          .what = fmt::format("no {} and no {}", kSingleFile, kIndexFile),
          .where = folder.string(),
          .hint = has_pickle ? "weights in pytorch_model.bin are programs and are not read; get the safetensors form"
                             : "name the folder of a Hugging Face checkpoint"};
}

}  // namespace

Result<void> Checkpoint::add_file(const fs::path& path) {
  MappedFile map = TRY(MappedFile::open(path));
  auto tensors = TRY(validate_safetensors(map.bytes(), path.filename().string(), static_cast<uint32_t>(maps_.size())));
  maps_.push_back(std::move(map));
  paths_.push_back(path);
  std::ranges::move(tensors, std::back_inserter(tensors_));
  return {};
}

Result<void> Checkpoint::sort_names() {
  std::ranges::sort(tensors_, {}, &SafetensorsTensor::name);
  for (size_t i = 1; i < tensors_.size(); ++i)
    if (tensors_[i].name == tensors_[i - 1].name)
      return Error{
          .code = ErrorCode::bad_tensor,
          .what = fmt::format("{} holds a tensor of the same name", paths_[tensors_[i - 1].file].filename().string()),
          .where = where(tensors_[i])};
  return {};
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder) {
  Checkpoint checkpoint;
  std::error_code ignored;
  if (fs::exists(folder / kSingleFile, ignored)) {
    TRY(checkpoint.add_file(folder / kSingleFile));
    TRY(checkpoint.sort_names());
    return checkpoint;
  }
  if (!fs::exists(folder / kIndexFile, ignored)) return no_weights(folder);
  const WeightMap shard_of = TRY(read_index(folder / kIndexFile));
  std::vector<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.push_back(shard);
  std::ranges::sort(shards);
  shards.erase(std::ranges::unique(shards).begin(), shards.end());
  if (shards.size() > kMaxShards)
    return Error{.code = ErrorCode::bad_file,
                 .what = fmt::format("the index names {} files", shards.size()),
                 .where = (folder / kIndexFile).string()};
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard, ignored))
      return Error{.code = ErrorCode::not_found,
                   .what = fmt::format("{} names this file, but it is missing", kIndexFile),
                   .where = (folder / shard).string(),
                   .hint = "download all files of the model"};
    TRY(checkpoint.add_file(folder / shard));
  }
  TRY(checkpoint.sort_names());
  for (const auto& [name, shard] : shard_of) {
    const SafetensorsTensor* tensor = checkpoint.find(name);
    if (!tensor || checkpoint.paths_[tensor->file].filename() != shard)
      return Error{.code = ErrorCode::bad_tensor,
                   .what = fmt::format("{} says that it lies here, but it does not", kIndexFile),
                   .where = fmt::format("{}: tensor '{}'", shard, name),
                   .hint = "the files do not belong together"};
  }
  return checkpoint;
}

const SafetensorsTensor* Checkpoint::find(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(tensors_, name, {}, [](const auto& t) -> std::string_view { return t.name; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::string Checkpoint::where(const SafetensorsTensor& tensor) const {
  return fmt::format("{}: tensor '{}'", paths_[tensor.file].filename().string(), tensor.name);
}

uint64_t Checkpoint::n_bytes() const {
  uint64_t n = 0;
  for (const MappedFile& map : maps_) n += map.bytes().size();
  return n;
}

}  // namespace tokamak
