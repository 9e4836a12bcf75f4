// docs: the reference pages, printed from the tables they describe.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "arch/architectures.h"
#include "arch/checkpoint_names.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/ops/ops.h"
#include "base/output_file.h"
#include "cli/check_ops.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/loading.h"
#include "fuse/docs.h"
#include "ir/docs.h"
#include "quantize/file_types.h"
#include "server/endpoints.h"
#include "server/fields.h"
#include "tensor/dtypes.h"

namespace tokamak::cli {

namespace {
std::string types_markdown() {
  std::string out =
      "# Tensor types\n\nPrinted by the program from `src/tensor/dtypes.h`. Ids are GGUF's. `imatrix`: whether an "
      "importance matrix helps\nthe encoder.\n\n"
      "| id | name | block elements | block bytes | bits per weight | imatrix | formula "
      "|\n|---|---|---|---|---|---|---|\n";
  constexpr std::string_view kImatrix[] = {"none", "optional", "required"};
  for (const DTypeRow& row : kDTypes)
    out +=
        fmt::format("| {} | {} | {} | {} | {:.4g} | {} | {} |\n", static_cast<int>(row.id), row.name, row.block_elems,
                    row.block_bytes, bits_per_weight(row), kImatrix[static_cast<size_t>(row.imatrix)], row.formula);
  out += "\nRemoved types, which are refused with advice:\n\n| id | name | advice |\n|---|---|---|\n";
  for (const RemovedDType& row : kRemovedDTypes) out += fmt::format("| {} | {} | {} |\n", row.id, row.name, row.advice);
  return out;
}

std::string file_types_markdown() {
  std::string out =
      "# File types\n\nPrinted by the program from `src/quantize/file_types.h`: what `tokamak quantize IN OUT TYPE` "
      "can "
      "be asked for. Ids are\nthose of `general.file_type`. Mixes give sensitive matrices another type "
      "(`src/quantize/mix.cpp`); `--dry-run` prints which.\n\n"
      "| id | name | alias | most matrices | output | embedding | meaning |\n|---|---|---|---|---|---|---|\n";
  for (const FileTypeRow& row : kFileTypes)
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", file_type_id(row.id), row.name, row.alias,
                       dtype_name(row.type), dtype_name(row.output), dtype_name(row.embedding), row.summary);
  return out;
}

std::string errors_markdown() {
  std::string out =
      "# Errors\n\nPrinted by the program from `src/base/error.h`. Exit status 0 is success and 1 a check that the "
      "user asked for and\nthat failed.\n\n"
      "| code | meaning | exit status | HTTP status |\n|---|---|---|---|\n";
  for (const ErrorRow& row : kErrors)
    out += fmt::format("| `{}` | {} | {} | {} |\n", row.name, row.meaning, row.exit_status, row.http_status);
  return out;
}

std::string architectures_markdown() {
  std::string out =
      "# Architectures\n\nPrinted by the program from `src/arch/architectures.cpp` and `checkpoint_names.cpp`: the "
      "values\n"
      "of `general.architecture` that can be run, and the Hugging Face classes that `tokamak convert` reads.\n\n"
      "| architecture | models | Hugging Face classes |\n|---|---|---|\n";
  for (const arch::ArchitectureRow& row : arch::architectures()) {
    std::string classes;
    for (const arch::CheckpointFamily& family : arch::checkpoint_families())
      if (family.architecture == row.name)
        classes += fmt::format("{}`{}`", classes.empty() ? "" : ", ", family.hf_class);
    out += fmt::format("| `{}` | {} | {} |\n", row.name, row.models, classes);
  }
  return out;
}

[[maybe_unused]] std::string kernels_markdown() {
  std::string out =
      "# CPU kernels\n\nPrinted by the program from its kernel tables, as built for x86-64, best first. The first row "
      "that the machine can\nrun is used; `tokamak explain` shows which.\n\n"
      "| instruction set | needs |\n|---|---|\n";
  for (const cpu::IsaRow& row : cpu::kIsas) out += fmt::format("| `{}` | {} |\n", row.name, row.needs);
  out += "\n## Matrix multiplication\n\n| kernel | weights | instruction set |\n|---|---|---|\n";
  for (const cpu::GemmKernel& kernel : cpu::gemm_kernels())
    out += fmt::format("| `{}` | {} | {} |\n", kernel.name, dtype_name(kernel.dtype), cpu::isa_name(kernel.isa));
  out +=
      "\nOther types are decoded to F32, 16 rows at a time.\n\n## Other ops\n\n"
      "| kernel | ops and fusion labels | instruction set |\n|---|---|---|\n";
  for (const cpu::KernelName& kernel : cpu::op_kernel_names())
    out += fmt::format("| `{}` | {} | {} |\n", kernel.name, fmt::join(kernel.labels, ", "), cpu::isa_name(kernel.isa));
  return out;
}

struct Page {
  std::string_view file;
  std::string (*text)();
};
constexpr auto kPages = std::to_array<Page>({
  {"commands.md", commands_markdown}, {"settings.md", settings_markdown}, {"errors.md", errors_markdown},
      {"tensor_types.md", types_markdown}, {"file_types.md", file_types_markdown},
      {"architectures.md", architectures_markdown}, {"ops.md", ir::ops_markdown},
      {"fusion_rules.md", fuse::rules_markdown}, {"support.md", support_page},
      {"endpoints.md", server::endpoints_markdown}, {"request_fields.md", server::fields_markdown},
#if defined(__x86_64__)
      {"kernels.md", kernels_markdown},
#endif
});
}  // namespace

Result<int> docs_command(const Arguments& arguments) {
  TRY(check_no_more_words(arguments, 0));
  const std::filesystem::path folder = arguments.values.text("--out");
  for (const Page& page : kPages) {
    const std::string text = page.text();
    OutputFile file = TRY(OutputFile::create(folder / page.file));
    TRY(file.write(std::as_bytes(std::span(text))));
    TRY(file.commit());
  }
  talk_line(fmt::format("{} pages written to {}", kPages.size(), folder.string()));
  return 0;
}

}  // namespace tokamak::cli
