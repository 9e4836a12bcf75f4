// Running a checkpoint folder directly: it is converted once into a cache, and again when its files change.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tokamak::convert {

struct CacheEntry {
  std::filesystem::path file;
  bool exists = false;
};

// Where the conversion of `folder` lies or will lie: CACHE/converted/NAME-PATH-STATE.gguf, PATH and STATE being hashes
// of the folder's place and of the names, sizes and times of its files.
// Errors: io_failed (the folder cannot be listed).
Result<CacheEntry> find_converted(const std::filesystem::path& folder, const std::filesystem::path& cache);

// Converts with the types of "auto" and removes conversions of earlier states of the same folder. Another process may
// do the same at the same time. Returns Conversion::notes(). Errors: those of Conversion; not_found, io_failed.
Result<std::vector<std::string>> convert_into(const CacheEntry& entry, const std::filesystem::path& folder,
                                              const std::function<bool(double)>& progress);

}  // namespace tokamak::convert
