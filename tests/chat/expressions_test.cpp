// Some 350 one-line templates against jinja2 (tests/data/chat/expressions.txt, tools/chat_oracle.py).
#include <gtest/gtest.h>

#include <cstdio>

#include "chat/chat_template.h"
#include "chat/golden_helpers.h"

namespace tokamak {
namespace {

TEST(Jinja, ExpressionsEqualJinja2) {
  const Json golden = read_chat_golden("expressions.json");
  ChatRequest request;
  request.add_generation_prompt = false;
  request.template_kwargs = golden.at("context");
  size_t n_equal = 0;
  for (const Json& row : golden.at("rows")) {
    const auto source = row.at("source").get<std::string>();
    SCOPED_TRACE(source);
    auto chat = ChatTemplate::parse(source, "<s>", "</s>");
    Result<std::string> out = chat ? Result<std::string>(std::string()) : Result<std::string>(chat.error());
    if (chat) {
      chat->set_clock(fixed_time);
      out = chat->render(request);
    }
    if (row.contains("out")) {
      EXPECT_TRUE(out) << "expected: " << row.at("out") << "\nerror: " << out.error().message();
      if (!out) continue;
      EXPECT_EQ(*out, row.at("out").get<std::string>());
      n_equal += *out == row.at("out").get<std::string>();
      continue;
    }
    EXPECT_FALSE(out) << "rendered: " << *out;
    if (out) continue;
    ++n_equal;
    EXPECT_FALSE(out.error().what.empty());
    EXPECT_NE(out.error().where.find("line "), std::string::npos);
    if (row.contains("refused")) {
      EXPECT_EQ(out.error().code, ErrorCode::template_refused);
      EXPECT_EQ(out.error().what, row.at("refused").get<std::string>());
    } else {
      EXPECT_NE(out.error().code, ErrorCode::template_refused) << out.error().message();
    }
  }
  EXPECT_EQ(n_equal, golden.at("rows").size());
  EXPECT_GE(golden.at("rows").size(), 250u);
  std::printf("%zu of %zu expressions equal\n", n_equal, golden.at("rows").size());
}

}  // namespace
}  // namespace tokamak
