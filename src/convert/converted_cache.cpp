#include "convert/converted_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/fnv1a.h"
#include "convert/convert.h"

namespace tokamak::convert {

namespace {
namespace fs = std::filesystem;

constexpr std::string_view kConverterVersion = "2";  // raised when the same folder would become another file

uint64_t hash_text(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

// Only letters that are plain in every file system.
std::string plain_name(const fs::path& folder) {
  std::string name = folder.filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  return name.substr(0, 80);
}

fs::path whole_path(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  return whole.filename().empty() ? whole.parent_path() : whole;
}

// "NAME-PATH-": what all conversions of one folder begin with.
std::string file_prefix(const fs::path& folder) {
  const fs::path whole = whole_path(folder);
  return fmt::format("{}-{:016x}-", plain_name(whole), hash_text(whole.string()));
}

// "PREFIXname|size|time" of each file that a conversion may read.
void add_states(const fs::path& folder, const std::string& prefix, std::vector<std::string>& states,
                std::error_code& error) {
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string extension = at->path().extension().string();
    if (extension != ".json" && extension != ".safetensors" && extension != ".model" && extension != ".jinja") continue;
    states.push_back(fmt::format("{}{}|{}|{}", prefix, at->path().filename().string(), at->file_size(ignored),
                                 at->last_write_time(ignored).time_since_epoch().count()));
  }
}
}  // namespace

Result<CacheEntry> find_converted(const fs::path& folder, const fs::path& cache) {
  std::error_code error, ignored;
  std::vector<std::string> states;
  add_states(folder, "", states, error);
  if (!error && fs::is_directory(folder / kTemplateFolder, ignored))
    add_states(folder / kTemplateFolder, fmt::format("{}/", kTemplateFolder), states, error);
  if (error) return Error{.code = ErrorCode::io_failed, .what = "cannot list the folder", .where = folder.string()};
  std::ranges::sort(states);
  std::string state(kConverterVersion);
  for (const std::string& one : states) state += "\n" + one;
  CacheEntry entry{.file = cache / "converted" / fmt::format("{}{:016x}.gguf", file_prefix(folder), hash_text(state))};
  entry.exists = fs::exists(entry.file, error);
  return entry;
}

Result<std::vector<std::string>> convert_into(const CacheEntry& entry, const fs::path& folder,
                                              const std::function<bool(double)>& progress) {
  const auto conversion = TRY(Conversion::plan(folder, {}));
  std::error_code error;
  const fs::path parent = entry.file.parent_path();
  fs::create_directories(parent, error);
  if (error)
    return Error{.code = ErrorCode::io_failed,
                 .what = "cannot create the folder: " + error.message(),
                 .where = parent.string(),
                 .hint = "set TOKAMAK_CACHE to a folder that can be written"};
  TRY(conversion->write(entry.file, progress));
  const std::string prefix = file_prefix(folder);
  for (fs::directory_iterator at(parent, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(prefix) && name.ends_with(".gguf") && at->path() != entry.file)
      fs::remove(at->path(), ignored);
  }
  return conversion->notes();
}

}  // namespace tokamak::convert
