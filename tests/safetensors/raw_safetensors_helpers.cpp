#include "safetensors/raw_safetensors_helpers.h"

#include <unistd.h>

#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tokamak::test {

namespace {
struct Scratch {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("tokamak_checkpoints_{}", ::getpid());
  int n_folders = 0;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};
}  // namespace

std::string safetensors_file(const std::vector<RawTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const RawTensor& tensor : tensors) {
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name, tensor.dtype,
                          fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.data.size());
    data += tensor.data;
  }
  return raw_safetensors(header + "}", data);
}

std::filesystem::path new_folder() {
  static Scratch scratch;
  const auto folder = scratch.path / std::to_string(scratch.n_folders++);
  std::filesystem::create_directories(folder);
  return folder;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace tokamak::test
