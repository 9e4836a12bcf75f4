// Any graph: fusing gives a partition whose groups match again, on paper and after planning, and survives the text
// form.
#include "base/check.h"
#include "fuse/matcher.h"
#include "fuzz_target.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/verify.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  auto graph = ir::parse_text({reinterpret_cast<const char*>(data), n_bytes});
  if (!graph) return 0;
  (void)fuse::check_groups(*graph);  // as read: may say no
  fuse::fuse(*graph, {}, true);
  CHECK(ir::verify(*graph).has_value());
  CHECK(fuse::check_groups(*graph).has_value());
  const auto back = ir::parse_text(ir::to_text(*graph));
  CHECK(back.has_value() && *back == *graph);

  const auto plan = ir::plan_buffers(*graph);
  if (!plan) return 0;
  const fuse::Matcher matcher(*graph, {}, &*plan);
  for (const ir::Group& group : graph->groups)
    CHECK(matcher.at(group.nodes.front(), fuse::Mode::full).has_value() == (group.rule != UINT16_MAX));
  return 0;
}
