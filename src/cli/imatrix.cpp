// imatrix: which columns of the weights matter on a text, for quantize --imatrix.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/chunked_text.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/input.h"
#include "cli/loading.h"
#include "eval/imatrix_collector.h"
#include "quantize/parts.h"

namespace tokamak::cli {

namespace {
using Json = nlohmann::ordered_json;

void print_result(const ImatrixFile& imatrix, const std::filesystem::path& out, bool as_json) {
  if (as_json) {
    const Json json = {{"out", out.string()},
                       {"n_matrices", imatrix.entries.size()},
                       {"n_chunks", imatrix.n_chunks},
                       {"chunk_size", imatrix.chunk_size},
                       {"datasets", imatrix.datasets}};
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  print(fmt::format("{}: {} matrices over {} chunk{} of {} tokens\n", out.string(), imatrix.entries.size(),
                    imatrix.n_chunks, imatrix.n_chunks == 1 ? "" : "s", imatrix.chunk_size));
}

Result<std::vector<ImatrixFile>> read_in_files(const SettingValues& values) {
  std::vector<ImatrixFile> files;
  for (const std::string& path : values.list("--in-file")) files.push_back(TRY(read_imatrix(path)));
  return files;
}

Result<void> save(const ImatrixCollector& collector, uint32_t chunk_size, const std::filesystem::path& out) {
  return write_imatrix(TRY(collector.result(chunk_size)), out);
}

// Without a text: the in-files as one.
Result<int> merge_only(const Arguments& arguments, const std::vector<ImatrixFile>& in_files) {
  TRY(check_no_more_words(arguments, 0));
  const std::filesystem::path out = arguments.values.text("--output-file");
  ImatrixCollector collector(true);
  uint32_t chunk_size = 0;
  for (const ImatrixFile& file : in_files) {
    TRY(collector.merge(file));
    chunk_size = std::max(chunk_size, file.chunk_size);
  }
  const ImatrixFile merged = TRY(collector.result(chunk_size == 0 ? kDatChunkSize : chunk_size));
  TRY(write_imatrix(merged, out));
  print_result(merged, out, arguments.values.flag("--json"));
  return 0;
}

Result<void> check_first_chunk(int64_t first_chunk, int64_t n_chunks) {
  if (first_chunk < n_chunks) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("the text has only {} chunk{}", n_chunks, n_chunks == 1 ? "" : "s"),
               .where = fmt::format("--from-chunk {}", first_chunk),
               .hint = "chunks count from 0"};
}

Error stopped(int64_t next_chunk, int64_t n_chunks, const std::filesystem::path& out) {
  return Error{.code = ErrorCode::cancelled,
               .what = fmt::format("stopped before chunk {} of {}; what is done was saved", next_chunk, n_chunks),
               .where = out.string(),
               .hint = fmt::format("go on with --in-file {} --from-chunk {}", out.string(), next_chunk)};
}
}  // namespace

Result<int> imatrix_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  const std::filesystem::path out = values.text("--output-file");
  const std::vector<ImatrixFile> in_files = TRY(read_in_files(values));
  if (!in_files.empty() && !values.is_set("--file")) return merge_only(arguments, in_files);
  TRY(check_no_more_words(arguments));
  catch_interrupts(/*terminate_too=*/true);
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  TRY(check_not_same_file(model->path(), model->file(), out));
  const std::filesystem::path read[] = {arguments.words.empty() ? "" : arguments.words[0], values.text("--file")};
  TRY(check_output_is_not_read(out, read));
  const int64_t first_chunk = values.integer("--from-chunk"), frequency = values.integer("--output-frequency");
  const TextChunks text = TRY(read_text_chunks(values, model->tokenizer(), first_chunk));
  TRY(check_first_chunk(first_chunk, text.n_chunks()));

  ImatrixCollector collector(values.flag("--process-output"));
  for (const ImatrixFile& file : in_files) {
    TRY(check_same_model(file, model->file()));
    TRY(collector.merge(file));
  }
  collector.add_dataset(values.text("--file"));
  SessionOptions options = TRY(chunk_session_options(values, *model, text.n_ctx));
  options.compile.matmul_observer = collector.observer();
  const std::unique_ptr<Session> session = TRY(open_session(model, std::move(options), values));
  const auto chunk_size = static_cast<uint32_t>(text.n_ctx);
  int64_t n_done = 0;
  {
    ProgressBar bar("measuring", !values.flag("--json"));
    const auto after_chunk = [&](int64_t n, int64_t n_chunks) -> Result<bool> {
      const bool go_on = bar.update(static_cast<double>(n) / static_cast<double>(n_chunks));
      if (go_on && frequency > 0 && n % frequency == 0 && n < n_chunks) TRY(save(collector, chunk_size, out));
      return go_on;
    };
    n_done = TRY(collect_imatrix(*session, text, collector, {.first_chunk = first_chunk, .after_chunk = after_chunk}));
  }
  const ImatrixFile imatrix = TRY(collector.result(chunk_size));
  TRY(write_imatrix(imatrix, out));
  if (const int64_t next = first_chunk + n_done; next < text.n_chunks()) return stopped(next, text.n_chunks(), out);
  print_result(imatrix, out, values.flag("--json"));
  return 0;
}

}  // namespace tokamak::cli
