// From flags to an open model and session.
#pragma once

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "engine/model.h"
#include "engine/service.h"
#include "engine/session.h"

namespace tokamak::cli {

// The first word, or else the demo model in the cache: the first known name that is there, else the only .gguf file.
// A Hugging Face folder is converted into the cache when it or its files are new, with a line saying so.
// Errors: not_found, saying what to do; those of the conversion.
Result<std::filesystem::path> model_path(const Arguments& arguments);
// bad_argument when there are more words than the model's.
Result<void> check_no_more_words(const Arguments& arguments, size_t n_known = 1);

// The rows of the group "Model and machine".
Result<SessionOptions> session_options(const SettingValues& values, const Model& model);

// The same for a session that a service runs on, with the rows of the group "Many requests"; and the service's part.
Result<SessionOptions> serving_session_options(const SettingValues& values, const Model& model);
ServiceOptions service_options(const SettingValues& values);

// --check-tensors. Errors: bad_tensor, cancelled.
Result<void> check_tensors_if_asked(const GgufFile& file, const SettingValues& values);

// With a progress bar when standard error is a terminal and there is no --json. Ctrl-C: cancelled.
Result<std::shared_ptr<const Model>> open_model(const Arguments& arguments);
Result<std::unique_ptr<Session>> open_session(std::shared_ptr<const Model> model, SessionOptions options,
                                              const SettingValues& values);

// --dump-ir: the graph of a one-token step after the named pass ("after:fuse"), printed. Errors: bad_argument naming
// the passes.
Result<void> print_ir(const Arguments& arguments);

}  // namespace tokamak::cli
